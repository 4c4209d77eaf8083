"""An option of `run`: its parsing, its check, its text in forms and help. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

from dlmon.numbers import decimal_number, whole_number
from dlmon.records.record import record
from dlmon.records.sanitize import quoted
from dlmon.records.words import TITLES

# Most commands need no workload, and would import the catalog before the first paint.
if TYPE_CHECKING:
    from workloads.catalog import Workload

NONE = "none"
"""The text that unsets an option, whatever config.toml says."""
YES, NO = "yes", "no"

Check = Callable[[Any, bool], str | None]
"""Takes a value, and true to check it for this host; returns why it is impossible, or None."""


class UnreadableOption(ValueError):
    """A text is not a value of an option; the message is a sentence."""


class Scope(IntEnum):
    """The uses of an option; each level includes the ones before it."""

    LAUNCH = 0
    """`run` and its form."""
    SETTING = 1
    """A default in `config.toml`; sessions record the value from this level on."""
    SHARED = 2
    """`sweep`, with one value for all runs."""
    VARIED = 3
    """`--vary`: the option affects the time of a run."""


@record(frozen=True)
class Option:
    """An option of `run`; the command line, the forms, the settings and the docs are made of it.

    Attributes:
        default: its default value.
        hint: what it is, in a few words.
        help: what it does, in a sentence for a newcomer.
        label: its name in the form; empty for `name`.
        metavar: the placeholder for its value in `--help`; empty for its choices.
        choices: its possible words, the default first.
        parse: parses a text without blanks at its ends; raises `UnreadableOption`.
        check: returns why a value is impossible; None to allow the choices, or all without any.
        checks_unset: `check` is called for None too.
        limits: the workload itself has limits for the value.
        unset: the text for None.
        default_words: the text for the default, if `unset` is not enough.
        noun: the noun to count with its value, such as epoch.
        brief: its name in a sentence; empty for `name`.
        says_itself: its values, such as `cpu`, need no name beside them.
        is_of_workload: the default is the workload's attribute of this name.
        scope: its uses.
        is_swept: a sweep may share and vary it, although its scope is `LAUNCH`.
        path: `file` or `dir` if its value is a path; else None.
        yes: the text for yes in the form.
        is_secret: messages must not repeat its value.
        hints: other hints, by value.
        name: its name as a field, in `--vary` and in config.toml.
    """

    default: object
    hint: str
    help: str
    label: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] = str
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
        """Return the hint for a typed text."""
        return self.hints.get(text.partition(":")[0], self.hint)

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """True if it is on or off, and takes no value on the command line."""
        return isinstance(self.default, bool)

    @property
    def is_setting(self) -> bool:
        """True if config.toml may have a default for it."""
        return self.scope >= Scope.SETTING

    @property
    def values_text(self) -> str:
        """The placeholder for its value in help."""
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
        """Its name in a sentence."""
        return self.brief or self.name.replace("_", " ")

    def words(self, value: object) -> str:
        """Return the words for a value: `batch 64`, `10 epochs`, `all steps`, `JIT on`, `cpu`."""
        text = (self.default_words or self.unset) if value is None else as_text(value)
        if self.noun:
            number = f"{value:,}" if isinstance(value, int) else text
            return f"{number} {self.noun}{'' if value == 1 else 's'}"
        return TITLES.get(text, text) if self.says_itself else f"{self.called} {text}"

    def value_of(self, text: str) -> object:
        """Return the value of a typed text, without blanks at its ends.

        Raises:
            UnreadableOption: the text is not a value of this option.
        """
        if self.is_switch:
            if text not in (YES, NO):
                raise UnreadableOption(f"answer yes or no, not {quoted(text)}")
            return text == YES
        # "none" undoes a setting.
        if self.default is None and self.is_setting and text.lower() == NONE:
            return None
        return self.parse(text)

    def problem(self, value: object, workload: Workload | None, here: bool) -> str | None:
        """Return a sentence that says why a value is impossible, here or on any host; else None."""
        if self.limits:
            if workload is None:
                return None
            from workloads.catalog import refuse_option

            return refuse_option(workload, self.name, cast("int | None", value))
        if self.check is not None:
            return self.check(value, here) if value is not None or self.checks_unset else None
        if not self.choices or value in self.choices:
            return None
        *first, last = self.choices
        return f"there is no {self.name} {quoted(f'{value}')}: use {', '.join(first)} or {last}"

    def placeholder(self, value: object, workload: Workload) -> str:
        """Return the text of an empty field, for the configured value."""
        if value is None and self.is_of_workload:
            value = getattr(workload, self.name)
        return self.unset if value is None else as_text(value)


def option(**described: Any) -> Any:
    """Return a dataclass field for an `Option` with these attributes, with its default."""
    option = Option(**described)
    return field(default=option.default, metadata={"option": option})


def as_text(value: object) -> str:
    """Return the text that users would type for a value."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def whole_number_of(subject: str) -> Callable[[str], int]:
    """Return a parser for whole numbers, whose errors name the subject."""

    def parse(text: str) -> int:
        try:
            return whole_number(text)
        except ValueError:
            raise UnreadableOption(
                f"{subject} must be a whole number, not {quoted(text)}"
            ) from None
        except OverflowError:
            raise UnreadableOption(f"{subject} can't be as large as {quoted(text)}") from None

    return parse


def seconds_of(subject: str, example: str) -> Callable[[str], float]:
    """Return a parser for seconds, whose errors name the subject and an example."""

    def parse(text: str) -> float:
        try:
            return decimal_number(text)
        except ValueError:
            raise UnreadableOption(
                f"{subject} must be a number of seconds, such as {example}, not {quoted(text)}"
            ) from None

    return parse
