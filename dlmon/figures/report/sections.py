"""What a view is made of: sections, of no format yet. Each renderer writes every kind of them."""

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
    """The beginning of what is said of one session, sweep or comparison.

    Attributes:
        text: what it is called.
        facts: what ran, when and where.
    """

    text: str
    facts: tuple[str, ...] = ()


@record(frozen=True)
class Note:
    """Sentences.

    Attributes:
        kind: a verdict, whose first sentence stands out; what speaks for figures, or against them,
            a mark before each; a list; or what stands below something else.
    """

    sentences: tuple[str, ...]
    kind: Kind = "plain"
    heading: str = ""


@record(frozen=True)
class Figures:
    """Names, each with its figure as text."""

    heading: str
    rows: tuple[Row, ...]


@record(frozen=True)
class Table:
    """Rows under headings.

    Attributes:
        numeric: which columns hold numbers.
        left_out: how many rows are not here.
        levels: what stands out of the rows, and how.
        dropped: the headings of columns that go where a line has no room, the first one first.
        is_cut: each row is one line of a text: its end is cut, and its first cell never.
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
        kept = [number for number, name in enumerate(self.headings) if name not in headings]
        names, *rows = (tuple(row[n] for n in kept) for row in (self.headings, *self.rows))
        numeric = tuple(self.numeric[n] for n in kept if self.numeric)
        return replace(self, headings=names, rows=tuple(rows), numeric=numeric)

    def filled(self) -> Table:
        """Return the table without the columns, but for the last, in which nothing stands."""
        columns = zip(self.headings[:-1], zip(*self.rows, strict=True), strict=False)
        return self.without(*(name for name, cells in columns if not any(cells)))


@record(frozen=True)
class Bar:
    """One bar.

    Attributes:
        kind: words of this, earlier, published, own, and other for what doesn't compare.
        note: what speaks against it.
        more: what else to know, each an empty text where there is nothing.
        session: its id, by which a command finds it.
    """

    label: str
    value: float
    text: str
    kind: str = ""
    note: str = ""
    more: tuple[str, ...] = ()
    session: str = ""

    @property
    def said(self) -> str:
        """All that there is to know of it."""
        return "; ".join(filter(None, (", ".join(filter(None, self.more)), self.note)))


@record(frozen=True)
class Bars:
    """Bars beside each other.

    Attributes:
        per: what a value is of, such as per epoch.
        are_parts: they are parts of a whole, whose lengths are true to their values.
    """

    heading: str
    bars: tuple[Bar, ...]
    per: str = ""
    are_parts: bool = False


@record(frozen=True)
class Code:
    """Lines as they are."""

    heading: str
    lines: tuple[str, ...]


@record(frozen=True)
class OverTime:
    """Where the charts over time stand."""

    heading: str = "Over time"


Values = tuple[float | None, ...]


@record(frozen=True)
class Line:
    """One line of a chart: what was known at each place, and the extremes of what that stands for.

    Attributes:
        xs: its times, in seconds from the start of its session; of a sweep, what was varied.
        low, high: of a sweep, the band of each mean where several runs show one.
        session: its number: the validation of one has the colour of its training.
        out_of_memory: where on the axis of a sweep memory ran out.
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
        """Whether anything lies behind the line."""
        return self.low != self.high


@record(frozen=True)
class Chart:
    """Lines over one time axis, or of a sweep over what was varied.

    Attributes:
        top: where its scale ends; None where that follows from the lines.
        width_s: how wide a column is; None where values stand at their own times.
        metric: what training said of itself, of a chart of that.
        x_labels: of a sweep, the values that were varied, and what to call them.
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
        """When the last of its values was known."""
        return max(line.xs[-1] for line in self.lines) + (self.width_s or 0.0) / 2


Section = Heading | Note | Figures | Table | Bars | Code | OverTime | Chart


# What we call things ourselves, whatever a host or a user is called.
_OWN = ("kind", "heading", "per", "levels", "dropped")


def with_texts(part: S, text: Callable[[str], str]) -> S:
    """Return a section, or a part of one, with `text` applied to each text in it."""

    def applied(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, tuple):
            return tuple(map(applied, value))
        if hasattr(value, "__dataclass_fields__"):
            names = (one.name for one in fields(value) if one.name not in _OWN)
            return replace(value, **{name: applied(getattr(value, name)) for name in names})
        return value

    changed: S = applied(part)
    return changed


_END = re.compile(r"[.!?…]$")


def as_sentence(text: str, names: tuple[str, ...] = ()) -> str:
    """Return a text as a sentence: a capital first, but of `names`, and a full stop last."""
    if not text.startswith(names):
        text = text[:1].upper() + text[1:]
    return text if _END.search(text) else f"{text}."
