"""The screen of a run's ranks, the processes that train together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.figures.columns import Column
from dlmon.figures.session.ranks import COLUMNS, RankRow, columns_in, rank_rows, rank_unit
from dlmon.session.source import SLICE_S, SessionSource
from tui.screens.base import HELP, PALETTE, QUIT, THEME, TickingScreen, hidden
from tui.screens.filtered import (
    CLEAR_FILTER,
    FILTER,
    REVERSE,
    ROW_KEYS,
    SORT,
    SORT_KEYS,
    FilteredScreen,
)
from tui.widgets.lines import BAD, MUTED, PLAIN, TextRow, wrapped
from tui.widgets.tables import SortedTable, in_order, without_dropped


class RankList(SortedTable[RankRow]):
    """The ranks; the one that the others wait for is coloured."""

    FRONT = 2
    _columns: tuple[Column[RankRow], ...] = COLUMNS
    _unit = ""
    _holds_up = ""
    _by = "rank"

    def show(self, rows: tuple[RankRow, ...], unit: str, holds_up: str) -> None:
        """Show ranks, the unit of their rates, and a text about the rank that holds them up."""
        if (rows, unit, holds_up) != (self.all_rows, self._unit, self._holds_up):
            self.all_rows, self._unit, self._holds_up = rows, unit, holds_up
            empty = set() if any(row.gpus for row in rows) else {"GPU", "GPU memory"}
            if all(row.work_ms is None for row in rows):
                empty.add("own work")
            columns = (column for column in columns_in(unit) if column.name not in empty)
            self._columns = tuple(map(self._fitted, columns))
            self.rearrange()

    def _fitted(self, column: Column[RankRow]) -> Column[RankRow]:
        """Return a column of text as narrow as its texts allow."""
        texts = (f"▲{column.name}", *map(column.text, self.all_rows or ()))
        cells = min(column.cells, max(map(cell_len, texts)))
        return column if column.is_number else replace(column, cells=cells)

    def columns(self, width: int) -> list[Column[RankRow]]:
        return without_dropped(self._columns, width - self.FRONT, self.GAP)

    def matching_rows(self) -> list[RankRow]:
        """Return the ranks whose name and host have all typed words."""
        words = self._typed.lower().split()
        rows = [
            row
            for row in self.all_rows or ()
            if all(word in f"{row.name} {row.host}".lower() for word in words)
        ]
        sort_column = next(column for column in COLUMNS if column.name == self.sorted_by)
        return in_order(rows, sort_column, self._reversed)

    def key_of(self, row: RankRow) -> object:
        return row.name, row.host

    def put_titles(self) -> None:
        self.set_titles(f"Ranks {len(self.all_rows or ())}", self._holds_up, right=self.order)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        no_match = "No rank matches that. Esc clears the filter."
        text = no_match if self.all_rows else "One process trains."
        return [((f" {line}", MUTED),) for line in wrapped(text, width - 2, height)]

    def row_of(self, index: int, width: int) -> TextRow:
        row = self.shown_rows[index]
        runs = [("▸ " if index == self.index else "  ", PLAIN), *self.cells_of(row, width)]
        return tuple((text, BAD if row.holds_up else style) for text, style in runs)


class RanksScreen(FilteredScreen, TickingScreen):
    """The ranks of a run, live or as recorded.

    Args:
        source: the session.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        FILTER,
        SORT,
        REVERSE,
        # Before "Back", which has the same key while there is no filter.
        CLEAR_FILTER,
        Binding("q", "leave", "Back", tooltip="Go back to the run"),
        THEME,
        HELP,
        hidden("escape", "leave", "Back"),
        PALETTE,
        QUIT,
        *SORT_KEYS,
        *ROW_KEYS,
    ]
    HELP_PAGES = (Path(__file__).with_name("ranks.md"),)
    USES_SENSORS_BELOW = True
    AUTO_FOCUS = ""

    def __init__(self, source: SessionSource) -> None:
        super().__init__()
        self._source = source

    def compose_parts(self) -> ComposeResult:
        yield self.filter_field
        yield RankList(id="ranks")

    @property
    def table(self) -> RankList:
        return self.query_one(RankList)

    def paint(self) -> None:
        """Read new records, and show the ranks."""
        self._source.poll(SLICE_S)
        snapshot = self._source.snapshot()
        evidence = snapshot.limit.evidence if snapshot.limit is not None else ()
        holds_up = next((clue.headline for clue in evidence if clue.rule == "ranks"), "")
        unit = rank_unit(snapshot)
        self.table.show(rank_rows(self._source.session, snapshot), unit, holds_up)

    def action_leave(self) -> None:
        self.dismiss()
