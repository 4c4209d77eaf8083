"""Define the columns of a table for lines, reports and screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
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
        bar: the cells of a bar behind the text on a screen.
    """

    name: str
    text: Callable[[Row], str]
    order: Callable[[Row], Any] = lambda row: None
    largest_first: bool = False
    is_number: bool = False
    dropped: int = 0
    title: str | None = None
    cells: int = 0
    bar: int = 0

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


def number_column(name: str, text: Callable[[Row], str]) -> Column[Row]:
    """Return a column that is aligned right."""
    return Column(name, text, is_number=True)


def measured_column(
    name: str,
    write: Callable[[Any], str],
    field: str = "",
    *,
    largest_first: bool = True,
    **more: Any,
) -> Column[Any]:
    """Return a column of the numbers in a field, named as the column by default; – is unknown."""
    order = attrgetter(field or name)

    def text(row: Any) -> str:
        value = order(row)
        return "–" if value is None else write(value)

    return Column(name, text, order, largest_first, True, **more)


def has_words(text: str, typed: str) -> bool:
    """Return whether a text contains every typed word, in capitals or not."""
    return all(word in text.casefold() for word in typed.casefold().split())


def matches(texts: Sequence[str], typed: str) -> bool:
    """Return whether every typed word is in a text, or is a pattern of a text or of its end.

    `step/*` matches `step/data` and `train/step/data`.
    """
    folded = [text.casefold() for text in texts]

    def is_in(word: str, text: str) -> bool:
        pattern = word.replace("[", "[[]")
        is_pattern = bool(set(word) & set("*?"))
        return word in text or (is_pattern and fnmatchcase(f"/{text}", f"*/{pattern}"))

    return all(any(is_in(word, text) for text in folded) for word in typed.casefold().split())


def lowered(text: str | None) -> str | None:
    """Return the sort key of a text; None for None."""
    return text.lower() if text else None
