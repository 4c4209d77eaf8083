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
from textual.binding import Binding, BindingType

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
from dlmon.session.limits.ranks import WAITS
from dlmon.session.source import SLICE_S, SessionSource
from tui.drawing.step_parts import PART_STYLES
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
from tui.widgets.lines import (
    APART,
    BAD,
    CHOSEN,
    MUTED,
    PLAIN,
    STRONG,
    TRACK,
    GrowingLines,
    TextRow,
    TextRun,
    row_width,
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
_WAITS: TextRun = ("░", TRACK)
_MEDIAN: TextRun = ("│", "bold $foreground")


class RankSummary(GrowingLines):
    """The rank that the others wait for, in words, and the legend of the bars."""

    DEFAULT_CSS = "RankSummary { height: auto; padding: 0 1; }"
    MOST_ROWS = 5

    def rows(
        self, width: int, height: int, texts: tuple[str, str], is_bad: bool, parts: Sequence[str]
    ) -> list[TextRow]:
        styles = (BAD, PLAIN) if is_bad else (STRONG, MUTED)
        rows: list[TextRow] = [
            ((line, style),)
            for text, style in zip(texts, styles, strict=True)
            for line in wrapped(text, width, 2)
        ]
        if parts:
            legend = [(("█", PART_STYLES[name]), PART_TITLES[name]) for name in parts]
            legend += [(_WAITS, PART_TITLES[WAITS]), (_MEDIAN, "median")]
            row: TextRow = ()
            for mark, name in legend:
                longer = (*row, mark, (f" {name}  ", MUTED))
                row = longer if row_width(longer) <= width + APART else row
            rows.append(row)
        return rows[:height]

    show = shows(rows)


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
        marks = {name: ("█", style) for name, style in PART_STYLES.items() if name in parts_ms}
        times_ms = [*(parts_ms[name] for name in marks), row.split.waits_ms]
        shares = [ms / self._whole_ms for ms in times_ms]
        runs = stacked_bar(shares, [*marks.values(), _WAITS], width)
        cells = [(glyph, style) for text, style in runs for glyph in text]
        cells += [(" ", PLAIN)] * (width - len(cells))
        cells[min(width - 1, round(self._median_ms / self._whole_ms * width))] = _MEDIAN
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
        scale = f"a whole bar is {units.step_time(self._whole_ms)}" if self._whole_ms else ""
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

    DEFAULT_CSS = "RankParts { height: auto; }"
    DEFAULT_CLASSES = "panel"
    MOST_ROWS = 8

    def show(self, row: RankRow | None, rows: Sequence[RankRow]) -> None:
        parts = rank_parts(row, rows) if row is not None else []
        width, height = self.screen.size
        above = self.screen.query_one(RankSummary).rows_needed(width - 2)
        room = height - above - min(len(rows), _LEAST_ROWS) - _OTHER_ROWS
        self.display = 0 < len(parts) <= room
        self.set_titles(f"A step of {row.name}" if row is not None else "")
        self._show(parts)

    def rows(
        self, width: int, height: int, parts: Sequence[tuple[str, float, float]]
    ) -> list[TextRow]:
        rows: list[TextRow] = []
        whole_ms = sum(rank_ms for _, rank_ms, _ in parts) or 1.0
        for name, rank_ms, median_ms in parts[:height]:
            cells = round(rank_ms / whole_ms * max(0, width - _BEFORE_BAR))
            glyph, style = _WAITS if name == WAITS else ("█", PART_STYLES[name])
            times = f"{units.step_time(rank_ms):>9}   median {units.step_time(median_ms):<9}"
            bar = (glyph * cells, style)
            rows.append(((f"  {PART_TITLES[name]:<16}", PLAIN), (times, MUTED), bar))
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
        yield RankSummary(id="summary")
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
        shown = tuple(name for name in PART_STYLES if name in parts)
        self.query_one(RankSummary).show(ranks_in_words(snapshot), is_bad, shown)
        self.table.show(rows, rank_unit(snapshot))
        self.show_parts()

    @on(RankList.Highlighted)
    def show_parts(self) -> None:
        self.query_one(RankParts).show(self.table.highlighted, self.table.all_rows or ())

    def action_leave(self) -> None:
        self.dismiss()
