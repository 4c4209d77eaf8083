"""Define the columns of a table for lines, reports and screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from dlmon.figures.sections import Level, Table
from dlmon.records.record import record

Row = TypeVar("Row")


@record(frozen=True)
class Column(Generic[Row]):
    """A column of a table.

    Attributes:
        name: the name by which a person sorts.
        text: writes a row's cell.
        order: returns a row's sort key; None if unknown.
        largest_first: the first sort puts the largest value on top.
        is_number: align right.
        dropped: the order in which narrow tables drop columns: 1 is the first; 0 never.
        title: the heading, if it isn't the name.
        cells: the maximum width on a screen; 0 for the rest of the row.
    """

    name: str
    text: Callable[[Row], str]
    order: Callable[[Row], Any] = lambda row: None
    largest_first: bool = False
    is_number: bool = False
    dropped: int = 0
    title: str | None = None
    cells: int = 0

    @property
    def heading(self) -> str:
        return self.name if self.title is None else self.title


def table_of(
    columns: Sequence[Column[Row]],
    rows: Iterable[Row],
    heading: str = "",
    left_out: int = 0,
    levels: tuple[Level, ...] = (),
    is_cut: bool = False,
) -> Table:
    """Return rows as a table; the other arguments are those of `Table`."""
    dropped = sorted((column for column in columns if column.dropped), key=lambda c: c.dropped)
    return Table(
        headings=tuple(column.heading for column in columns),
        rows=tuple(tuple(column.text(row) for column in columns) for row in rows),
        numeric=tuple(column.is_number for column in columns),
        left_out=left_out,
        heading=heading,
        levels=levels,
        dropped=tuple(column.heading for column in dropped),
        is_cut=is_cut,
    )


def number_column(
    name: str, text: Callable[[Row], str], dropped: int = 0, title: str | None = None
) -> Column[Row]:
    """Return a column that is aligned right."""
    return Column(name, text, is_number=True, dropped=dropped, title=title)
