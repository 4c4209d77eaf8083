"""Sums whose terms may be unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Number = TypeVar("_Number", int, float)


def total(terms: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of the terms; None if one is unknown, or there are none."""
    values = list(terms)
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
