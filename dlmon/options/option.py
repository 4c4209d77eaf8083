"""What an option of `run` is: how it is read, checked, shown and explained. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

from dlmon.numbers import decimal_number, whole_number
from dlmon.records.record import record
from dlmon.records.sanitize import quoted
from dlmon.records.words import TITLES

# What watches and shows needs no workload: it would be read before the first paint.
if TYPE_CHECKING:
    from workloads.catalog import Workload

NONE = "none"
"""What a person types for an option that is not to be set, whatever config.toml says."""
YES, NO = "yes", "no"

Check = Callable[[Any, bool], str | None]
"""Says in one sentence why nothing can be run with a value, here or on any machine."""


class UnreadableOption(ValueError):
    """A text that says nothing an option could be; the message is a sentence."""


class Scope(IntEnum):
    """Where an option may stand; each has the places of those above it too."""

    LAUNCH = 0
    """`run` and its form."""
    SETTING = 1
    """`config.toml`; from here on, a session records its value."""
    SHARED = 2
    """`sweep`, where one value holds for all runs."""
    VARIED = 3
    """`--vary`, for what a run takes another time with."""


@record(frozen=True)
class Option:
    """One option of `run`, of which every place that offers, reads or explains it is made.

    Attributes:
        default: its value unless somebody sets it.
        label: what the form calls it; without one, its name.
        hint: what it is, in a few words.
        help: what it does, in a sentence, for somebody who has never heard of it.
        metavar: what stands for its value in `--help`; without one, its choices.
        choices: words that it can be, the usual one first.
        read: turns a text without blanks at its ends into a value; raises `UnreadableOption`.
        check: without one, only the choices are taken, where there are any.
        checks_unset: whether `check` has something to say of None too.
        limits: whether the workload itself takes or refuses a value, if there is one.
        unset: what stands for None: that no value is set.
        default_words: the default in words, where `unset` doesn't say enough.
        noun: what it is the number of, if it is one.
        brief: what a sentence calls it; without one, its name.
        says_itself: whether a value needs no name beside it, as `cpu`.
        is_of_workload: without a value, that of the workload holds, under the same name.
        scope: where it may stand.
        is_swept: though it is of one launch, a sweep may share and vary it.
        path: `file` or `dir` where its value is the path of one.
        yes: what the form shows for yes, where yes or no is the answer.
        is_secret: whether no sentence repeats its value.
        hints: what some of its values are, in a few words, where `hint` is of another.
        name: what the field, `--vary` and config.toml call it.
    """

    default: object
    hint: str
    help: str
    label: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    read: Callable[[str], object] = str
    check: Check | None = None
    checks_unset: bool = False
    limits: bool = False
    unset: str = "none"
    default_words: str = ""
    noun: str = ""
    brief: str = ""
    says_itself: bool = False
    is_of_workload: bool = False
    scope: Scope = Scope.VARIED
    is_swept: bool = False
    path: str | None = None
    yes: str = YES
    is_secret: bool = False
    hints: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    def hint_for(self, text: str) -> str:
        """Say in a few words what it is, or what a text stands for that has a hint of its own."""
        return self.hints.get(text.partition(":")[0], self.hint)

    @property
    def flag(self) -> str:
        """What the command line calls it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off, and takes no value on the command line."""
        return isinstance(self.default, bool)

    @property
    def is_setting(self) -> bool:
        """Whether config.toml may hold a default for it."""
        return self.scope >= Scope.SETTING

    @property
    def values_text(self) -> str:
        """What stands for its value in a line of help."""
        return self.metavar or "|".join(self.choices)

    @property
    def default_text(self) -> str:
        """The default, in words."""
        if self.is_switch:
            return "on" if self.default else "off"
        unset = self.default_words or self.unset
        return unset if self.default is None else as_text(self.default)

    @property
    def called(self) -> str:
        """What a sentence calls it."""
        return self.brief or self.name.replace("_", " ")

    def words(self, value: object) -> str:
        """Say what it is set to: `batch 64`, `10 epochs`, `all steps`, `JIT on`, `cpu`."""
        text = (self.default_words or self.unset) if value is None else as_text(value)
        if self.noun:
            number = f"{value:,}" if isinstance(value, int) else text
            return f"{number} {self.noun}{'' if value == 1 else 's'}"
        return TITLES.get(text, text) if self.says_itself else f"{self.called} {text}"

    def value_of(self, text: str) -> object:
        """Read what was typed, without blanks at its ends.

        Raises:
            UnreadableOption: it says nothing that the option could be.
        """
        if self.is_switch:
            if text not in (YES, NO):
                raise UnreadableOption(f"answer yes or no, not {quoted(text)}")
            return text == YES
        # Where there are no settings, there is nothing to undo.
        if self.default is None and self.is_setting and text.lower() == NONE:
            return None
        return self.read(text)

    def problem(self, value: object, workload: Workload | None, here: bool) -> str | None:
        """Say in one sentence why it can't have a value, here or on any machine."""
        if self.limits:
            if workload is None:
                return None
            from workloads.catalog import refuse_option

            return refuse_option(workload, self.name, cast("int | None", value))
        if self.check is not None:
            return self.check(value, here) if value is not None or self.checks_unset else None
        if not self.choices or value in self.choices:
            return None
        *others, last = self.choices
        return f"there is no {self.name} {quoted(f'{value}')}: use {', '.join(others)} or {last}"

    def placeholder(self, value: object, workload: Workload) -> str:
        """Return what an empty field stands for where `value` is configured."""
        if value is None and self.is_of_workload:
            value = getattr(workload, self.name)
        return self.unset if value is None else as_text(value)


def option(**described: Any) -> Any:
    """Describe the field of a dataclass by what `Option` takes, and give it its default."""
    made = Option(**described)
    return field(default=made.default, metadata={"option": made})


def as_text(value: object) -> str:
    """Write an option's value as a person would type it."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def whole_number_of(subject: str) -> Callable[[str], int]:
    """Return what reads a whole number."""

    def read(text: str) -> int:
        try:
            return whole_number(text)
        except ValueError:
            raise UnreadableOption(
                f"{subject} must be a whole number, not {quoted(text)}"
            ) from None
        except OverflowError:
            raise UnreadableOption(f"{subject} can't be as large as {quoted(text)}") from None

    return read


def seconds_of(subject: str, example: str) -> Callable[[str], float]:
    """Return what reads a number of seconds."""

    def read(text: str) -> float:
        try:
            return decimal_number(text)
        except ValueError:
            raise UnreadableOption(
                f"{subject} must be a number of seconds, such as {example}, not {quoted(text)}"
            ) from None

    return read
