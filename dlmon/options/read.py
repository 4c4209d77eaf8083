"""Read options, and lengths of time, from what was typed into a form or on a command line. Pure."""

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
    """The options that a form holds, and a sentence for each text that can't be read."""

    options: RunOptions
    unreadable: Mapping[str, str]

    def problems(self, workload: Workload) -> dict[str, str]:
        """Say in one sentence each which options can't be run, in the order of the form."""
        problems = {**self.options.problems(workload), **self.unreadable}
        return {name: problems[name] for name in OPTIONS if name in problems}


def read_options(texts: Mapping[str, str], configured: RunOptions) -> TypedOptions:
    """Read a form, blanks at the ends aside; an empty text leaves an option as it is configured."""
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
    """Read what stands on a command line, by option; None for what does not.

    Raises:
        UnreadableOption: one of the texts says nothing that its option could be.
    """
    given = {name: text for name, text in texts.items() if text is not None}
    for name, text in given.items():
        flag = OPTIONS[name].flag
        if not text.strip():
            raise UnreadableOption(f"{flag} needs a value")
        if text != text.strip():
            shown = "its value" if OPTIONS[name].is_secret else quoted(text.strip())
            raise UnreadableOption(f"{flag} has blanks around {shown}: leave them out")
    typed = read_options(given, configured)
    for problem in typed.unreadable.values():
        raise UnreadableOption(problem)
    return typed.options


def read_duration(subject: str, text: str) -> float:
    """Return how many seconds a length of time has, a number and its unit.

    The sentence that refuses one names its `subject`.

    Raises:
        UnreadableOption: it is none, or shorter or longer than anything here may last.
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
