"""Figures in rows, with a bar for a share of a maximum; and the utilisation of each core."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby, zip_longest
from statistics import fmean

from rich.cells import cell_len

from dlmon.figures.machine.readings import BUSY_PCT, NO_READING_YET, Figure, busy_level
from dlmon.records import Cpu
from tui.drawing.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.widgets.lines import (
    BAD,
    BAR,
    BRIGHT,
    HIGH,
    MUTED,
    PLAIN,
    TRACK,
    GrowingLines,
    TextRow,
    TextRun,
    cut,
    fit,
    shows,
)

LEVEL_STYLES = {"": PLAIN, "high": HIGH, "bad": BAD}

_LEAST_BAR, _LONGEST_BAR = 6, 20
_GAP = 2
_LEAST_WIDTH = 34


class Meters(GrowingLines):
    """A row for each figure, in up to `max_columns` columns."""

    MOST_ROWS = 8

    max_columns = 2

    def rows(
        self, width: int, height: int, figures: Sequence[Figure], *, stale: bool = False
    ) -> list[TextRow]:
        """Return as many of the figures as fit, muted if they are stale."""
        columns = self._columns(width)
        return meters_side_by_side(figures[: height * columns], columns, width, stale=stale)

    def _columns(self, width: int) -> int:
        return max(1, min(self.max_columns, (width + _GAP) // (_LEAST_WIDTH + _GAP)))

    def show(self, figures: Sequence[Figure], *, stale: bool = False) -> None:
        """Show figures below the names of those that fit."""
        width, height = self.size
        names = [figure.label for figure in figures]
        title = ", ".join(names[: height * self._columns(width) if height else None])
        self.set_titles(title[:1].upper() + title[1:])
        self._show(figures, stale=stale)

    _show = shows(rows)


def meters_side_by_side(
    figures: Sequence[Figure],
    columns: int,
    width: int,
    label: int = 0,
    *,
    stale: bool = False,
    longest_bar: int = _LONGEST_BAR,
) -> list[TextRow]:
    """Return figures in columns of one width, in the order of reading: row by row."""
    column_width = (width - _GAP * (columns - 1)) // columns
    meters = (
        meter_rows(
            figures[first::columns], column_width, label, stale=stale, longest_bar=longest_bar
        )
        for first in range(min(columns, len(figures)))
    )
    gap: TextRow = ((" " * _GAP, PLAIN),)
    return [
        (*first, *(run for meter in more for run in (*gap, *meter)))
        for first, *more in zip_longest(*meters, fillvalue=())
    ]


def meter_rows(
    figures: Sequence[Figure],
    width: int,
    label: int = 0,
    *,
    stale: bool = False,
    longest_bar: int = _LONGEST_BAR,
) -> list[TextRow]:
    """Return figures in rows of exactly `width` cells, with aligned bars.

    Labels take at least `label` cells. Stale figures are muted.
    """
    label = max((label, *(cell_len(figure.label) + 1 for figure in figures)))
    with_bars = [cell_len(figure.text) for figure in figures if figure.fraction is not None]
    bar_cells = min(longest_bar, width - label - 1 - max(with_bars, default=0))
    rows = [_meter(figure, label, bar_cells, width) for figure in figures]
    return [tuple((text, MUTED) for text, _ in row) for row in rows] if stale else rows


def _meter(figure: Figure, label: int, bar_cells: int, width: int) -> TextRow:
    name = (fit(figure.label, label), MUTED)
    style = LEVEL_STYLES[figure.level] if figure.is_known else MUTED
    if figure.fraction is None or bar_cells < _LEAST_BAR:
        return (name, (fit(_text(figure, width - label), width - label), style))
    drawn = bar(figure.fraction, bar_cells).rstrip()
    room = width - label - bar_cells - 1
    value = fit(_text(figure, room), room)
    return (
        name,
        (drawn, style if figure.level else BAR),
        (f"{'─' * (bar_cells - len(drawn))} ", TRACK),
        (value, style),
    )


def _text(figure: Figure, room: int) -> str:
    """Return a value with its word, or with a mark if the word doesn't fit."""
    return figure.text if cell_len(figure.text) <= room else figure.value + figure.mark


# An entry is "12 ━━━━━━ 100 %"; in a wider one the label is "core 12".
_MOST_BARS, _LEAST_ENTRY, _ROOM_FOR_WORD = 16, 15, 26
# Groups of cores make it easy to count to a certain one.
_GROUP = 8
_TALLEST_BAND = 4
_TALLEST_CURVE, _MOST_HISTORY = 8, 400
# The cells of a core's number and of its value, beside its curve.
_CURVE_LABELS = 14


class CoreRows(GrowingLines):
    """Every core in even rows; nothing is repainted for less than half a cell of a bar.

    With `has_histories`, up to 16 cores have a curve in place of a bar if there is room, and once
    half of it is filled.
    """

    MOST_ROWS = 8

    has_histories = False
    _histories: deque[tuple[int, ...]]
    _newest: Cpu | None = None
    _cores: tuple[int, ...] = ()
    _reason = ""
    _without_reason = NO_READING_YET
    _stale = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._histories = deque(maxlen=_MOST_HISTORY)

    def show(self, cpu: Cpu | None, *, stale: bool, without_reason: str = NO_READING_YET) -> None:
        self._stale = stale
        self._cores = (cpu.cores if cpu is not None else None) or ()
        if cpu is not self._newest:
            self._newest = cpu
            self._histories.append(self._cores)
        self._reason = cpu.why.get("cores", "") if cpu is not None else ""
        self._without_reason = without_reason
        self.redraw()

    def rows_needed(self, width: int) -> int:
        """Return the rows for the cores: as few rows of bars as fit, or one low band."""
        count = len(self._cores)
        if 0 < count <= _MOST_BARS:
            return -(-count // _bars_per_row(count, width, 1))
        return min(4, len(self.draw(width, 4)))

    def draw(self, width: int, height: int) -> list[TextRow]:
        if width < 1 or height < 1:
            return []
        cores = self._cores
        if not cores:
            style = BAD if self._reason else MUTED
            return [cut(((self._reason or self._without_reason, style),), width)]
        columns = _bars_per_row(len(cores), width, height)
        if self._has_curves(width, height):
            return self._curves(columns, width, height)
        if self._has_bars(width, height):
            word = "core " if width // columns >= _ROOM_FOR_WORD else ""
            bars = [
                Figure(f"{word}{number:>2}", f"{pct:>3} %", pct / 100, busy_level(pct))
                for number, pct in enumerate(cores)
            ]
            return meters_side_by_side(bars, columns, width, stale=self._stale, longest_bar=width)
        rows = core_columns(cores, width, height)
        return [tuple((text, MUTED) for text, _ in row) for row in rows] if self._stale else rows

    @property
    def scale(self) -> str:
        """The limits of each core's curve; the highest figure, where cores have none of theirs."""
        if self._has_curves(*self.size):
            return "each from 0 to 100 %"
        has_figures = not self._cores or self._stale or self._has_bars(*self.size)
        return "" if has_figures else f"busiest {max(self._cores)} %"

    def _has_bars(self, width: int, height: int) -> bool:
        """Return whether each core has a bar with its figure."""
        cores = len(self._cores)
        most = _bars_per_row(cores, width, height) * height if cores and height > 0 else 0
        return 0 < cores <= min(_MOST_BARS, most)

    def _has_curves(self, width: int, height: int) -> bool:
        """Return whether each core has a curve in place of a bar: in one row, a bar says more."""
        cores = len(self._cores)
        if not self.has_histories or not 0 < cores <= _MOST_BARS or height < 1:
            return False
        columns = _bars_per_row(cores, width, height)
        half = (width // columns - _GAP - _CURVE_LABELS) * COLUMNS_PER_CELL // 2
        is_tall = height // -(-cores // columns) > 1
        return is_tall and width // columns >= _ROOM_FOR_WORD and len(self._histories) >= half

    def _curves(self, columns: int, width: int, height: int) -> list[TextRow]:
        """Return a curve of each core's newest samples, with its number and its present value."""
        cores = self._cores
        tall = max(1, min(_TALLEST_CURVE, height // -(-len(cores) // columns)))
        cells = width // columns - _GAP - _CURVE_LABELS
        histories = list(self._histories)[-cells * COLUMNS_PER_CELL :]
        rows: list[list[TextRun]] = []
        for number, pct in enumerate(cores):
            newest = [sample[number] if number < len(sample) else None for sample in histories]
            values = [*[None] * (cells * COLUMNS_PER_CELL - len(newest)), *newest]
            drawn = braille_rows(values, cells, tall, 100.0, 0.0, filled=True)
            if number % columns == 0:
                rows += [[] for _ in range(tall)]
            for y, (row, text) in enumerate(zip(rows[-tall:], drawn, strict=True)):
                label, value = ("", "") if y else (f"core {number:>2}", f"{pct:>3} %")
                row += [
                    (f"{label:<8}", MUTED),
                    (text, MUTED if self._stale else BAR),
                    (f" {value:<5}", MUTED if self._stale else LEVEL_STYLES[busy_level(pct)]),
                    (" " * _GAP, PLAIN),
                ]
        return [cut(tuple(row), width) for row in rows[:height]]


def _bars_per_row(cores: int, width: int, height: int) -> int:
    """Return the bars in a row: as few as `height` allows, the same number in each row."""
    most = max(1, (width + _GAP) // (_LEAST_ENTRY + _GAP))
    rows = -(-cores // min(most, -(-cores // height)))
    return -(-cores // rows)


def core_columns(
    cores: tuple[int, ...], width: int, height: int, per_bar: int = 1
) -> list[TextRow]:
    """Return bands of vertical bars, each labelled with the number of its first core.

    If they don't fit, return the number of cores and of the busy ones, and below it bars of the
    mean of several. A bar is of `per_bar` cores.
    """
    digits = len(str(len(cores) * per_bar - 1))
    # Each group has a blank after it, but for the last.
    most = max(1, (width - digits) // (_GROUP + 1)) * _GROUP
    # As few bands as fit, of equal numbers of whole groups.
    bands = -(-len(cores) // most)
    per_band = min(most, -(-len(cores) // bands // _GROUP) * _GROUP)
    bands = -(-len(cores) // per_band)
    if bands > height:
        busy = sum(pct >= BUSY_PCT for pct in cores)
        text = f"{len(cores)} cores, {busy} above {BUSY_PCT:.0f} %"
        if height < 2:
            return [cut(((text, MUTED),), width)]
        shared = 2
        while -(-len(cores) // shared) > most * (height - 1):
            shared *= 2
        groups = (cores[at : at + shared] for at in range(0, len(cores), shared))
        means = tuple(round(fmean(group)) for group in groups)
        heading = cut(((f"{text}, {shared} a bar", MUTED),), width)
        return [heading, *core_columns(means, width, height - 1, shared)]
    band_height = min(_TALLEST_BAND, height // bands)
    rows: list[TextRow] = []
    for first in range(0, len(cores), per_band):
        band = cores[first : first + per_band]
        for y, text in enumerate(_columns(band, band_height)):
            label = f"{first * per_bar if y == band_height - 1 else '':>{digits}} "
            rows.append(((label, MUTED), *_grouped(text, band)))
    return rows


def _grouped(text: str, cores: tuple[int, ...]) -> TextRow:
    """Return characters in the colours of their cores, with a blank between groups."""
    runs: list[tuple[str, str]] = []
    for tint, pairs in groupby(enumerate(text), lambda pair: _tint(cores[pair[0]])):
        letters = (f" {letter}" if at and at % _GROUP == 0 else letter for at, letter in pairs)
        runs.append(("".join(letters), tint))
    return tuple(runs)


def _columns(cores: tuple[int, ...], height: int) -> list[str]:
    """Draw a vertical bar for each core, in rows from the top down."""
    levels = "▁▂▃▄▅▆▇█"
    most = height * len(levels)
    eighths = [min(max(pct, 0) * most // 100, most - 1) for pct in cores]
    rows = []
    for floor in range((height - 1) * len(levels), -1, -len(levels)):
        row_levels = (min(eighth - floor, len(levels) - 1) for eighth in eighths)
        rows.append("".join(levels[level] if level >= 0 else " " for level in row_levels))
    return rows


def _tint(pct: float) -> str:
    if pct >= BUSY_PCT:
        return HIGH
    return BRIGHT if pct >= 50 else BAR
