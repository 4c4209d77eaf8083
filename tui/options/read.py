"""Read the options of `run` from what was typed into a form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from dlmon.numbers import decimal_number, whole_number
from dlmon.records.sanitize import quoted
from tui.options.run import CHOICES, NONE, RunOptions
from workloads.catalog import Workload


class UnreadableOption(ValueError):
    """A text that says nothing an option could be; the message is a sentence."""


@dataclass(frozen=True)
class TypedOptions:
    """What a form amounts to: options, and a sentence for each text that can't be read."""

    options: RunOptions
    unreadable: Mapping[str, str]

    def complaints(self, workload: Workload) -> dict[str, str]:
        """Say in one sentence each which options can't be run, in the order of the form."""
        told = {**self.options.complaints(workload), **self.unreadable}
        return {spec.name: told[spec.name] for spec in fields(RunOptions) if spec.name in told}


def read_options(texts: Mapping[str, str], configured: RunOptions) -> TypedOptions:
    """Read a form, blanks at the ends aside; an empty text leaves an option as it is configured."""
    values: dict[str, Any] = {}
    unreadable = {}
    for name, text in texts.items():
        stripped = text.strip()
        if stripped:
            try:
                values[name] = _READERS[name](stripped)
            except UnreadableOption as error:
                unreadable[name] = str(error)
    return TypedOptions(replace(configured, **values), unreadable)


def read_arguments(texts: Mapping[str, str | None], configured: RunOptions) -> RunOptions:
    """Read what stands on a command line, by option; None for what does not.

    Raises:
        UnreadableOption: one of the texts says nothing that its option could be.
    """
    given = {name: text for name, text in texts.items() if text is not None}
    for name, text in given.items():
        flag = f"--{name.replace('_', '-')}"
        if not text.strip():
            raise UnreadableOption(f"{flag} needs a value")
        if text != text.strip():
            raise UnreadableOption(
                f"{flag} has blanks around {quoted(text.strip())}: leave them out"
            )
    typed = read_options(given, configured)
    for complaint in typed.unreadable.values():
        raise UnreadableOption(complaint)
    return typed.options


def read_interval(text: str) -> float:
    """Return the seconds between samples that stand on a command line.

    Raises:
        UnreadableOption: it is no number.
    """
    return read_arguments({"interval": text}, RunOptions()).interval


def _whole_number(subject: str) -> Callable[[str], int]:
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


def _seconds(subject: str, example: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            return decimal_number(text)
        except ValueError:
            raise UnreadableOption(
                f"{subject} must be a number of seconds, such as {example}, not {quoted(text)}"
            ) from None

    return read


def _unless_none(read: Callable[[str], object]) -> Callable[[str], object]:
    """Return a reader that also takes the word for an option that is not to be set."""
    return lambda text: None if text.lower() == NONE else read(text)


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise UnreadableOption(f"answer yes or no, not {quoted(text)}")
    return text == "yes"


_READERS: dict[str, Callable[[str], object]] = {
    "device": str,
    "batch_size": _unless_none(_whole_number("the batch size")),
    "epochs": _unless_none(_whole_number("the number of epochs")),
    "steps": _unless_none(_whole_number("the number of steps")),
    "seconds": _unless_none(_seconds("the least time", "3")),
    "threads": _unless_none(_whole_number("the number of threads")),
    "cpus": _unless_none(_whole_number("the number of CPUs")),
    **dict.fromkeys(CHOICES, str),
    "python": _unless_none(str),
    "interval": _seconds("the interval", "0.5"),
    "pcie": _yes_or_no,
    "price": _unless_none(str),
    "detach": _yes_or_no,
    "log_dir": str,
}
