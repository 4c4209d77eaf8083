"""Read a length of time as a person writes it: 90s, 10m, 2h, 1d. Pure."""

from __future__ import annotations

import re

from dlmon.options.option import UnreadableOption
from dlmon.records.sanitize import quoted

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)([{''.join(_UNIT_S)}])")
SHORTEST_S, LONGEST_S = 1, 366 * 86_400


def read_duration(subject: str, text: str) -> float:
    """Return how many seconds a length of time has.

    Args:
        subject: what is to last so long, for the sentence that refuses it.
        text: a number and its unit.

    Raises:
        UnreadableOption: it is none, or shorter or longer than anything here may last.
    """
    length = _LENGTH.fullmatch(text)
    if length is None:
        raise UnreadableOption(
            f"{subject} needs a length of time such as 90s, 10m, 2h or 1d, not {quoted(text)}"
        )
    seconds = float(length[1]) * _UNIT_S[length[2]]
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UnreadableOption(f"{subject} must be from 1s to 366d, not {quoted(text)}")
    return seconds
