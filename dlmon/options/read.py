"""Read options and durations from the texts of a form or a command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dlmon.options.option import UnreadableOption
from dlmon.options.run_options import OPTIONS, RunOptions
from dlmon.records.record import record
from dlmon.records.sanitize import quoted

if TYPE_CHECKING:
    from workloads.catalog import Workload

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)([{''.join(_UNIT_S)}])"
SHORTEST_S, LONGEST_S = 1, 366 * 86_400


@record(frozen=True)
class TypedOptions:
    """The options in a form, and a sentence for each unreadable text."""

    options: RunOptions
    unreadable: Mapping[str, str]

    def problems(self, workload: Workload) -> dict[str, str]:
        """Return a sentence for each wrong option, in the order of the form."""
        problems = {**self.options.problems(workload), **self.unreadable}
        return {name: problems[name] for name in OPTIONS if name in problems}


def read_options(texts: Mapping[str, str], configured: RunOptions) -> TypedOptions:
    """Read the texts of a form; an empty text leaves the option as configured."""
    values: dict[str, Any] = {}
    unreadable = {}
    for name, text in texts.items():
        stripped = text.strip()
        if stripped:
            try:
                values[name] = OPTIONS[name].value_of(stripped)
            except UnreadableOption as error:
                unreadable[name] = str(error)
    return TypedOptions(replace(configured, **values), unreadable)


def read_arguments(texts: Mapping[str, str | None], configured: RunOptions) -> RunOptions:
    """Read the texts of a command line, by option; None for an absent option.

    Raises:
        UnreadableOption: a text is not a value of its option.
    """
    present = {name: text for name, text in texts.items() if text is not None}
    for name, text in present.items():
        flag = OPTIONS[name].flag
        if not text.strip():
            raise UnreadableOption(f"{flag} needs a value")
        if text != text.strip():
            value = "its value" if OPTIONS[name].is_secret else quoted(text.strip())
            raise UnreadableOption(f"{flag} has blanks around {value}: leave them out")
    typed = read_options(present, configured)
    for problem in typed.unreadable.values():
        raise UnreadableOption(problem)
    return typed.options


def read_duration(subject: str, text: str) -> float:
    """Return the seconds of a duration such as `90s`.

    Raises:
        UnreadableOption: the text is no duration, or out of range; the message names the subject.
    """
    length = re.fullmatch(_LENGTH, text)
    if length is None:
        raise UnreadableOption(
            f"{subject} needs a length of time such as 90s, 10m, 2h or 1d, not {quoted(text)}"
        )
    seconds = float(length[1]) * _UNIT_S[length[2]]
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UnreadableOption(f"{subject} must be from 1s to 366d, not {quoted(text)}")
    return seconds
