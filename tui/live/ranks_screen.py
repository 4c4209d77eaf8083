"""The screen of a run's ranks, the processes that train together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import median_low
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from dlmon.figures import units
from dlmon.figures.columns import Column, has_words
from dlmon.figures.session.ranks import (
    BY_NAME,
    COLUMNS,
    PART_TITLES,
    RankRow,
    columns_of,
    rank_parts,
    rank_rows,
    rank_unit,
    ranks_in_words,
)
from dlmon.figures.value_axis import stacked_bar
from dlmon.records.training import WAITS
from dlmon.session.source import SLICE_S, SessionSource
from tui.drawing.step_parts import PART_GLYPHS, PART_STYLES
from tui.screens.base import TickingScreen, back
from tui.screens.filtered import (
    CLEAR_FILTER,
    FILTER,
    REVERSE,
    ROW_KEYS,
    SORT,
    SORT_KEYS,
    FilteredScreen,
)
from tui.widgets.headline import Headline
from tui.widgets.lines import (
    APART,
    BAD,
    CHOSEN,
    MUTED,
    PLAIN,
    STRONG,
    TRACK,
    GrowingLines,
    OneLine,
    TextRow,
    TextRun,
    shows,
    wrapped,
)
from tui.widgets.tables import SortedTable, in_order, without_dropped

_LEAST_BAR = 22
# The parts of a step are shown if so many ranks have room above them, besides the summary, two
# frames, the heading and the footer.
_LEAST_ROWS, _OTHER_ROWS = 12, 6
# The cells before the bar of a part.
_BEFORE_BAR = 46
_MEDIAN: TextRun = ("│", "bold $foreground")


class RankLegend(OneLine):
    """The parts of the bars."""

    def rows(self, width: int, height: int, parts: Sequence[str]) -> list[TextRow]:
        marks = [*((_mark_of(name), PART_TITLES[name]) for name in (*parts, WAITS))]
        marks.append((_MEDIAN, "median"))
        return [
            tuple(run for mark, name in marks for run in (mark, (f" {name}{' ' * APART}", MUTED)))
        ]

    show = shows(rows)


def _mark_of(part: str) -> TextRun:
    return PART_GLYPHS[part], TRACK if part == WAITS else PART_STYLES[part]


class RankList(SortedTable[RankRow]):
    """The ranks, a bar each; the one that the others wait for is coloured."""

    FRONT = 2
    _columns: tuple[Column[RankRow], ...] = COLUMNS
    _unit = ""
    _whole_ms = 0.0
    """The time of a whole bar; 0 if the parts of the steps are unknown."""
    _median_ms = 0.0

    def show(self, rows: tuple[RankRow, ...], unit: str) -> None:
        if (rows, unit) == (self.all_rows, self._unit):
            return
        self.all_rows, self._unit = rows, unit
        self._columns = tuple(map(self._fitted, columns_of(rows, unit)))
        splits = [row.split for row in rows if row.split is not None]
        self._whole_ms = max((split.own_ms + split.waits_ms for split in splits), default=0.0)
        self._median_ms = median_low([split.own_ms for split in splits] or [0.0])
        # The heading and the border take three rows.
        self.styles.max_height = len(rows) + 3
        self.rearrange()

    @property
    def sorted_by(self) -> str:
        return self._by or ("own time" if self._whole_ms else "rank")

    def _fitted(self, column: Column[RankRow]) -> Column[RankRow]:
        """Return a column of text as narrow as its texts allow."""
        texts = (f"▲{column.name}", *map(column.text, self.all_rows or ()))
        cells = min(column.cells, max(map(cell_len, texts)))
        return column if column.is_number else replace(column, cells=cells)

    def columns(self, width: int) -> list[Column[RankRow]]:
        """Return the columns that fit; the own time takes the rest, for its bar."""
        room = width - self.FRONT
        if not self._whole_ms:
            return without_dropped(self._columns, room, self.GAP)
        columns = without_dropped(self._columns, room - _LEAST_BAR - self.GAP, self.GAP)
        rest = room - sum(column.cells + self.GAP for column in columns) - self.GAP
        return [replace(c, bar=rest) if c.name == "own time" else c for c in columns]

    def bar_of(self, column: Column[RankRow], row: RankRow) -> Sequence[TextRun]:
        """Return the parts of a rank's own time, then its waiting, and a mark at the median."""
        width = column.bar
        if row.split is None:
            return [(" " * width, PLAIN)]
        parts_ms = row.split.parts_ms
        names = [name for name in PART_STYLES if name in parts_ms]
        times_ms = [*(parts_ms[name] for name in names), row.split.waits_ms]
        shares = [ms / self._whole_ms for ms in times_ms]
        runs = stacked_bar(shares, [_mark_of(name) for name in (*names, WAITS)], width - 1)
        cells = [(glyph, style) for text, style in runs for glyph in text]
        cells += [(" ", PLAIN)] * (width - 1 - len(cells))
        # Between two cells, so that it hides none.
        cells.insert(round(self._median_ms / self._whole_ms * (width - 1)), _MEDIAN)
        return [
            ("".join(glyph for glyph, _ in run), style)
            for style, run in groupby(cells, lambda cell: cell[1])
        ]

    def matching_rows(self) -> list[RankRow]:
        ranks = self.all_rows or ()
        rows = [row for row in ranks if has_words(f"{row.name} {row.host}", self._typed)]
        return in_order(rows, BY_NAME[self.sorted_by], self._reversed)

    def key_of(self, row: RankRow) -> object:
        return row.name, row.host

    def put_titles(self) -> None:
        scale = ""
        if self._whole_ms:
            whole = units.step_time(self._whole_ms)
            scale = f"own time includes the wait for data; a whole bar is {whole}"
        self.set_titles(f"Ranks {len(self.all_rows or ())}", scale, right=self.order)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        no_match = "No rank matches that. Esc clears the filter."
        text = no_match if self.all_rows else "One process trains."
        return [((f" {line}", MUTED),) for line in wrapped(text, width - 2, height)]

    def row_of(self, index: int, width: int) -> TextRow:
        row = self.shown_rows[index]
        text_style = CHOSEN if index == self.index else BAD if row.holds_up else None
        runs = [
            ("▸ " if index == self.index else "  ", PLAIN),
            *self.cells_of(row, self.columns(width)),
        ]
        return tuple((text, text_style or s if s in (PLAIN, STRONG) else s) for text, s in runs)

    def _row_drawn(self, index: int, width: int) -> TextRow:
        """Return a row; below the highlight, its bar keeps its colours."""
        return self.row_of(index, width)


class RankParts(GrowingLines):
    """The parts of the highlighted rank's step, beside the median of all ranks."""

    DEFAULT_CSS = "RankParts { padding: 0; }"
    DEFAULT_CLASSES = "panel"
    MOST_ROWS = 8

    def show(self, row: RankRow | None, rows: Sequence[RankRow]) -> None:
        parts = rank_parts(row, rows) if row is not None else []
        width, height = self.screen.size
        above = self.screen.query_one(Headline).rows_needed(width - 2)
        room = height - above - min(len(rows), _LEAST_ROWS) - _OTHER_ROWS
        self.display = 0 < len(parts) <= room
        title = "" if row is None else f"A step of {row.name} on {row.host}, process {row.pid}"
        self.set_titles(title, right="│ median")
        self._show(parts)

    def rows(
        self, width: int, height: int, parts: Sequence[tuple[str, float, float]]
    ) -> list[TextRow]:
        rows: list[TextRow] = []
        room = max(1, width - _BEFORE_BAR - 1)
        longest_ms = max((ms for _, *both in parts for ms in both), default=0.0) or 1.0
        for name, rank_ms, median_ms in parts[:height]:
            cells, median = (round(ms / longest_ms * room) for ms in (rank_ms, median_ms))
            glyph, style = _mark_of(name)
            times = f"{units.step_time(rank_ms):>9}   median {units.step_time(median_ms):<9}"
            bar = f"{glyph * cells:<{room}}"
            drawn = (bar[:median], style), _MEDIAN, (bar[median:], style)
            title = f" {PART_TITLES[name]:<14}"
            rows.append((("  ", PLAIN), (glyph, style), (title, PLAIN), (times, MUTED), *drawn))
        return rows

    _show = shows(rows)


class RanksScreen(FilteredScreen, TickingScreen):
    """The ranks of a run, live or as recorded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        FILTER,
        SORT,
        REVERSE,
        # Before "Back", which has the same key while there is no filter.
        CLEAR_FILTER,
        *back("Go back to the run"),
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
        yield Headline()
        yield RankLegend()
        yield RankList(id="ranks")
        yield RankParts()

    @property
    def table(self) -> RankList:
        return self.query_one(RankList)

    def paint(self) -> None:
        self._source.poll(SLICE_S)
        snapshot = self._source.snapshot()
        rows = rank_rows(self._source.session, snapshot)
        parts = {name for row in rows if row.split is not None for name in row.split.parts_ms}
        is_bad = any(row.holds_up for row in rows)
        self.query_one(Headline).show(*ranks_in_words(snapshot), BAD if is_bad else STRONG)
        self.query_one(RankLegend).show(tuple(name for name in PART_STYLES if name in parts))
        self.table.show(rows, rank_unit(snapshot))
        self.show_parts()

    @on(RankList.Highlighted)
    def show_parts(self) -> None:
        rows, parts = self.table.all_rows or (), self.query_one(RankParts)
        parts.show(self.table.highlighted, rows)
        # The parts have their marks beside their names.
        is_split = any(row.split is not None for row in rows)
        self.query_one(RankLegend).display = is_split and not parts.display

    def action_leave(self) -> None:
        self.dismiss()
