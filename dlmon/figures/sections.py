"""The sections of reports and views, without a format; each renderer writes every kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

from dlmon.records.record import record

Row = tuple[str, str]
"""A name and its text."""

Kind = Literal["verdict", "good", "warning", "list", "plain"]
Level = Literal["", "strong", "good", "bad"]
S = TypeVar("S")


@record(frozen=True)
class Heading:
    """The heading of a session, a sweep or a comparison, with facts such as its time and host."""

    text: str
    facts: tuple[str, ...] = ()


@record(frozen=True)
class Note:
    """Sentences.

    Attributes:
        kind: a verdict, whose first sentence stands out; good news or warnings, each with a mark;
            a list; or plain text.
    """

    sentences: tuple[str, ...]
    kind: Kind = "plain"
    heading: str = ""


@record(frozen=True)
class Figures:
    """Names and their figures as text; `in_columns` puts as many beside each other as fit."""

    heading: str
    rows: tuple[Row, ...]
    in_columns: bool = False


@record(frozen=True)
class Table:
    """Rows under headings.

    Attributes:
        numeric: for each column, whether it holds numbers.
        left_out: the number of rows that are not shown.
        levels: the level of each row.
        dropped: the headings of columns to drop in narrow tables, in this order.
        is_cut: rows are cut at their end, not wrapped; the first cell is never cut.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()
    left_out: int = 0
    heading: str = ""
    levels: tuple[Level, ...] = ()
    dropped: tuple[str, ...] = ()
    is_cut: bool = False

    def without(self, *headings: str) -> Table:
        columns = [number for number, name in enumerate(self.headings) if name not in headings]
        names, *rows = (tuple(row[n] for n in columns) for row in (self.headings, *self.rows))
        numeric = tuple(self.numeric[n] for n in columns if self.numeric)
        return replace(self, headings=names, rows=tuple(rows), numeric=numeric)

    def first(self, count: int) -> Table:
        """Return the table with its first rows, and the number of the others."""
        rows, levels = self.rows[:count], self.levels[:count]
        left_out = self.left_out + len(self.rows) - len(rows)
        return replace(self, rows=rows, levels=levels, left_out=left_out)

    def filled(self) -> Table:
        """Return the table without empty columns; the last one always stays."""
        columns = zip(self.headings[:-1], zip(*self.rows, strict=True), strict=False)
        return self.without(*(name for name, cells in columns if not any(cells)))


@record(frozen=True)
class Bar:
    """One bar.

    Attributes:
        kind: words among this, earlier, published, own, and other (it doesn't compare).
        note: warnings about its value.
        more: further facts; some may be empty.
        session: the id of its session.
    """

    label: str
    value: float
    text: str
    kind: str = ""
    note: str = ""
    more: tuple[str, ...] = ()
    session: str = ""

    @property
    def details(self) -> str:
        """The further facts and the note."""
        return "; ".join(filter(None, (", ".join(filter(None, self.more)), self.note)))


@record(frozen=True)
class Bars:
    """Bars beside each other.

    Attributes:
        per: the unit of a value, such as per epoch.
        are_parts: they are parts of a whole, with lengths in proportion.
        are_drawn: lines of text have the bars too, not only their values.
    """

    heading: str
    bars: tuple[Bar, ...]
    per: str = ""
    are_parts: bool = False
    are_drawn: bool = False


@record(frozen=True)
class Code:
    """Lines of code or output."""

    heading: str
    lines: tuple[str, ...]


@record(frozen=True)
class OverTime:
    """The place of the charts over time."""

    heading: str = "Over time"


Values = tuple[float | None, ...]


@record(frozen=True)
class Line:
    """One line of a chart: means and their extremes.

    Attributes:
        xs: times in seconds from the start of the session; in a sweep, the varied option.
        low, high: the extremes around each mean; in a sweep, the band if runs were repeated.
        session: its number; training and validation of one session share a colour.
        out_of_memory: the values of a sweep at which memory ran out.
    """

    label: str
    xs: tuple[float, ...]
    mean: Values
    low: Values
    high: Values
    session: int = 0
    is_validation: bool = False
    out_of_memory: tuple[float, ...] = ()

    @property
    def varies(self) -> bool:
        """True if the extremes differ from each other, so that a band is drawn."""
        return self.low != self.high


@record(frozen=True)
class LineChart:
    """Lines over time, or in a sweep over the varied option.

    Attributes:
        top: the end of the scale; None if it follows from the lines.
        width_s: the width of a column; None if values have their own times.
        metric: the name of the metric; empty for other quantities.
        x_labels: in a sweep, the values of the varied option and their labels.
    """

    title: str
    unit: str
    lines: tuple[Line, ...]
    bottom: float = 0.0
    top: float | None = None
    width_s: float | None = None
    metric: str = ""
    x_labels: tuple[tuple[float, str], ...] = ()
    heading: str = ""

    @property
    def end_s(self) -> float:
        """The end of the last column or the time of the last value."""
        return max(line.xs[-1] for line in self.lines) + (self.width_s or 0.0) / 2


Section = Heading | Note | Figures | Table | Bars | Code | OverTime | LineChart


# Fields with our own words: never redacted, even if a host or a user has that name.
_OWN = ("kind", "heading", "per", "levels", "dropped")


def with_texts(part: S, text: Callable[[str], str]) -> S:
    """Return a section, or a part of one, with `text` applied to all its texts."""

    def applied(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, tuple):
            return tuple(map(applied, value))
        if hasattr(value, "__dataclass_fields__"):
            names = (spec.name for spec in fields(value) if spec.name not in _OWN)
            return replace(value, **{name: applied(getattr(value, name)) for name in names})
        return value

    changed: S = applied(part)
    return changed


_END = re.compile(r"[.!?…]$")


def as_sentence(text: str, names: tuple[str, ...] = ()) -> str:
    """Return a text with a capital and a full stop; `names` at its start stay as they are."""
    if not text.startswith(names):
        text = text[:1].upper() + text[1:]
    return text if _END.search(text) else f"{text}."
