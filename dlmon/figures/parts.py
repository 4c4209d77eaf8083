"""What the parts of a report are made of, of no format yet: rows, bars and tables."""

from __future__ import annotations

from dataclasses import dataclass

Row = tuple[str, str]
"""A name and its text."""


@dataclass(frozen=True)
class Bar:
    """One bar of a picture: `kind` is this, earlier or published, or a part of the account."""

    label: str
    value: float
    text: str
    kind: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headings; `numeric` says which columns hold numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()
    left_out: int = 0
