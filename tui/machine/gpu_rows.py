"""A row for each GPU: its history and its figures; side by side where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.machine import BUSY_PCT, Figure, has_no_readings, no_utilization, worst
from dlmon.records import Gpu
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL, bar, braille_rows
from tui.drawing.small_curve import ramp
from tui.drawing.time_axis import TimeAxis
from tui.machine.readings import gpu_memory_shares, memory_left, memory_peak_and_own
from tui.machine.view import MachineView
from tui.widgets.lines import BAD, BAR, HIGH, MUTED, PLAIN, STRONG, TRACK, Lines, cut, row_width
from tui.widgets.rows import TextRow, TextRun, fit

# The cells that a GPU needs with its number alone.
_SHORT = 11
# A history in fewer cells is unreadable: a bar of the current reading takes its place.
_LEAST_HISTORY, _LONGEST_HISTORY, _LEAST_BAR = 4, 40, 5
_PERCENT, _GAP = 6, 2
# A curve of the memory is worth a row from so many rows, and so many cells, on.
_LEAST_WITH_MEMORY, _LEAST_WITH_FIGURES = 3, 8
_MEMORY, _MEMORY_FIGURE = "mem", "memory"
# Utilisation and share of the memory, where cells have no room for more, and what says so.
_BOTH_SHARES, _NAMED_SHARES = len("100/100%"), "  busy/memory"
_WORD = "GPU "


class GpuRows(Lines):
    """Every GPU in even rows."""

    _view: MachineView | None = None
    _axis = TimeAxis(0, 1, 0, 0)
    _mark = False
    _without: frozenset[int] = frozenset()

    def show(
        self,
        view: MachineView,
        axis: TimeAxis,
        *,
        mark: bool = False,
        without: frozenset[int] = frozenset(),
    ) -> None:
        """Show the GPUs of `view`, with their histories along `axis`, `without` those of a chart.

        Where a history has no room there is a bar of the reading. To `mark`
        the GPU that trains gives it the rows that are to spare as well.
        """
        self._view, self._axis = view, axis
        self._mark = mark and view.gpu_index is not None
        self._without = without
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the GPUs in rows from left to right, and how many have no room."""
        view = self._view
        gpus = view.gpus if view is not None else ()
        gpus = tuple(gpu for gpu in gpus if gpu.index not in self._without)
        if view is None or not gpus or height < 1 or width < 1:
            return []
        digits = max(len(str(gpu.index)) for gpu in gpus)
        others = tuple(gpu for gpu in gpus if gpu.index != view.gpu_index)
        spare = height - gpu_rows_wanted(len(others), width)[0]
        if spare < 1:
            spare = height - gpu_rows_wanted(len(others), width)[1]
        if not self._mark or not 0 < len(others) < len(gpus) or spare < 1:
            return self._grid(view, gpus, digits, width, height, below=bool(self._without))
        trains = next(gpu for gpu in gpus if gpu.index == view.gpu_index)
        rows = self._with_all_figures(view, trains, digits, width, spare)
        left = height - len(rows)
        if len(rows) > 1 and self._only_shares_fit(view, others, digits, width, left):
            # That row says what the numbers of the others are.
            named = self._with_named_shares(view, trains, digits, width)
            if named:
                rows = self._with_all_figures(view, trains, digits, width, spare, named)
                left = height - len(rows)
                return [*rows, *self._grid(view, others, digits, width, left, shares=True)]
        return [*rows, *self._grid(view, others, digits, width, left, below=True)]

    def _with_all_figures(
        self,
        view: MachineView,
        gpu: Gpu,
        digits: int,
        width: int,
        spare: int,
        first_row: TextRow = (),
    ) -> list[TextRow]:
        """Return a GPU in a row of its own, and its figures in more where those are to spare."""
        then = view.gpu_at_cursor(gpu, self._axis)
        if spare == 1 or view.stale or then.utilization_pct is None:
            return [self._gpu_cell(view, gpu, digits, width)]
        figures = {figure.label: figure for figure in view.figures_of(then) if figure.known}
        about_memory = []
        if "memory" in figures:
            about_memory = [*memory_peak_and_own(gpu, view), *memory_left(gpu, view)]
        order = [*_FIRST, *(label for label in figures if label not in _FIRST)]
        curves = None
        first = [_run_of(figures[label]) for label in _FIRST[:3] if label in figures]
        # What has no room in one row is lost where there is no other one.
        if not first_row and (spare >= _LEAST_WITH_MEMORY or row_width(tuple(first)) > width):
            curves = self._with_memory(view, gpu, then, figures, about_memory, digits, width)
        if curves is not None:
            rows, shown = [*curves.rows], curves.shown
            about = [text for text in about_memory if text not in shown]
            # How much is left and what was the peak belong to the curve above.
            parts = [(f"  {text}", PLAIN) for text in about]
            parts += (_run_of(figures[one]) for one in order if one in figures.keys() - shown)
        else:
            rows = [first_row or self._gpu_cell(view, gpu, digits, width, with_figures=False)]
            parts = []
            for figure in (figures[label] for label in order if label in figures):
                parts.append(_run_of(figure))
                if figure.label == "memory":
                    parts += ((f"  {text}", PLAIN) for text in about_memory)
        below: TextRow = ()
        for run in parts:
            part: TextRow = (run,)
            if below and row_width(below) + row_width(part) > width:
                rows.append(below)
                below = ()
            below = (*below, *part)
        return [*rows, *([cut(below, width, self.ellipsis)] if below else [])][:spare]

    def _with_memory(
        self,
        view: MachineView,
        gpu: Gpu,
        then: Gpu,
        figures: dict[str, Figure],
        about_memory: list[str],
        digits: int,
        width: int,
    ) -> _Curves | None:
        """Return the utilisation and the memory, each as a curve with figures behind it.

        None where that has no room, or the memory isn't known.
        """
        facts = view.facts_of(gpu)
        total_mib = facts.memory_mib if facts is not None else None
        memory, pct = figures.get("memory"), then.utilization_pct
        if memory is None or pct is None or not total_mib:
            return None
        label = self._label(view, gpu, digits, width)
        room = width - row_width(label)
        # As wide as it may become, so that the curves stay as they are.
        widest = _GAP + cell_len(units.memory_in_use(total_mib, total_mib))
        first_column = _COLUMNS[0][1]
        cells = min(_LONGEST_HISTORY, room - max(widest, _PERCENT + first_column))
        if cells < _LEAST_WITH_FIGURES:
            return None
        shares = gpu_memory_shares(gpu, view, self._coarse(cells))
        in_use = [None if share is None else 100 * share for share in shares]
        percent = f"{units.percent(pct):>{_PERCENT}}"
        known = list(figures.values())
        beside = self._figures_with_room(known, room - cells - _PERCENT, _COLUMNS[:2])
        upper: TextRow = (
            *label,
            (self._history(view, gpu.index, cells), BAR),
            (percent, HIGH if pct >= BUSY_PCT else PLAIN),
            *beside,
        )
        name: TextRun = (f"{_MEMORY:>{row_width(label) - 1}} ", MUTED)
        lower: TextRow = (name, (self._drawn(in_use, cells), MUTED), _run_of(memory))
        columns = [name for name, _ in _COLUMNS[: len(beside)]]
        shown = {_MEMORY_FIGURE, *(name for name in columns if name in figures)}
        for text in about_memory:
            if row_width(lower) + _GAP + cell_len(text) > width:
                break
            lower = (*lower, (f"  {text}", PLAIN))
            shown.add(text)
        return _Curves((upper, lower), shown)

    def _grid(
        self,
        view: MachineView,
        gpus: tuple[Gpu, ...],
        digits: int,
        width: int,
        height: int,
        *,
        below: bool = False,
        shares: bool = False,
    ) -> list[TextRow]:
        """Return GPUs side by side; `below` another one they may do without the word.

        With `shares`, of each the number and two percentages alone.
        """
        in_a_row, each = _cells(len(gpus), width, height)
        room = height * in_a_row
        memory = self._cells_of_memory(view, gpus, digits, each) if below else 0
        if shares:
            cells = [self._shares_cell(view, gpu, digits, each) for gpu in gpus[:room]]
        elif memory:
            cells = [self._narrow_cell(view, gpu, digits, each, memory) for gpu in gpus[:room]]
        else:
            cells = [self._gpu_cell(view, gpu, digits, each) for gpu in gpus[:room]]
        if len(gpus) > room:
            cells[-1] = ((fit(f"{self.ellipsis} {len(gpus) - room + 1} more", each), MUTED),)
        gap: TextRow = ((" " * _GAP, PLAIN),)
        # Below the pointer stands nothing.
        used = each * in_a_row + _GAP * (in_a_row - 1)
        indent: TextRow = ((" ", PLAIN),) if shares and used < width else ()
        rows = []
        for start in range(0, len(cells), in_a_row):
            first, *more = cells[start : start + in_a_row]
            row = (*indent, *first, *(run for cell in more for run in (*gap, *cell)))
            rows.append(cut(row, width))
        return rows

    def _gpu_cell(
        self, view: MachineView, gpu: Gpu, digits: int, width: int, *, with_figures: bool = True
    ) -> TextRow:
        """Return a GPU in exactly `width` cells."""
        label = self._label(view, gpu, digits, width)
        room = width - row_width(label)
        gpu = view.gpu_at_cursor(gpu, self._axis)
        if view.stale:
            return (*label, (fit(view.stale, room), MUTED))
        if gpu.utilization_pct is None:
            return (*label, *self._without_utilization(view, gpu, room))
        percent = f"{units.percent(gpu.utilization_pct):>{_PERCENT}}"
        room -= len(percent)
        figures = view.figures_of(gpu) if with_figures else []
        more = self._figures_with_room(figures, room - _LEAST_BAR - 1)
        if len(more) < _UP_TO_MEMORY:
            more = self._short_memory(view, gpu, figures, room) or more
        cells = min(room - row_width(more), _LONGEST_HISTORY)
        drawn = self._history_or_bar(view, gpu.index, gpu.utilization_pct, cells)
        style = HIGH if gpu.utilization_pct >= BUSY_PCT else PLAIN
        row: TextRow = (*label, *drawn, (percent, style), *more)
        return (*row, (" " * (width - row_width(row)), PLAIN))

    def _cells_of_memory(
        self, view: MachineView, gpus: tuple[Gpu, ...], digits: int, width: int
    ) -> int:
        """Return the cells for the memory of GPUs where it has room in a narrow cell only; else 0.

        It is worth more than the word GPU and most of the history.
        """
        widest = _widest_memory(view, gpus)
        if not widest:
            return 0
        number = self._mark + digits + 1
        usual = number + len(_WORD) + _LEAST_HISTORY + _PERCENT + _GAP + widest
        return 1 + widest if number + _PERCENT + 1 + widest <= width < usual else 0

    def _only_shares_fit(
        self, view: MachineView, gpus: tuple[Gpu, ...], digits: int, width: int, height: int
    ) -> bool:
        """Return whether the memory of GPUs has room as a percentage, and no more than that."""
        _, each = _cells(len(gpus), width, height)
        widest = _widest_memory(view, gpus)
        least = self._mark + digits + 1 + _PERCENT + 1 + widest
        return widest > 0 and digits + 1 + _BOTH_SHARES <= each < least

    def _with_named_shares(self, view: MachineView, gpu: Gpu, digits: int, width: int) -> TextRow:
        """Return a GPU with both of its shares, and what they are; nothing without room."""
        then = view.gpu_at_cursor(gpu, self._axis)
        label = self._label(view, gpu, digits, width)
        cells = width - row_width(label) - _BOTH_SHARES - 1 - len(_NAMED_SHARES)
        if cells < _LEAST_HISTORY or _memory_pct(view, gpu, then) is None:
            return ()
        return (
            *label,
            (self._history(view, gpu.index, cells), BAR),
            (" ", PLAIN),
            *self._shares(view, gpu, then, _BOTH_SHARES),
            (_NAMED_SHARES, MUTED),
        )

    def _shares_cell(self, view: MachineView, gpu: Gpu, digits: int, width: int) -> TextRow:
        """Return a GPU's number, and how much of its time and memory is taken, in `width` cells."""
        ((name, style),) = self._label(view, gpu, digits, 0)
        name = name[self._mark :]
        then = view.gpu_at_cursor(gpu, self._axis)
        room = width - len(name)
        if then.utilization_pct is None:
            return ((name, style), *self._without_utilization(view, then, room))
        return ((name, style), *self._shares(view, gpu, then, room))

    def _shares(self, view: MachineView, gpu: Gpu, then: Gpu, cells: int) -> TextRow:
        """Return the utilisation and the share of the memory in use, as 96/78%, to the right."""
        pct, memory_pct = then.utilization_pct, _memory_pct(view, gpu, then)
        assert pct is not None
        memory = next((one for one in view.figures_of(then) if one.label == _MEMORY_FIGURE), None)
        style = PLAIN if memory is None or memory_pct is None else _style_of(memory)
        in_use = "–" if memory_pct is None else f"{memory_pct:.0f}"
        busy = f"{pct:.0f}"
        return (
            (busy.rjust(cells - len(f"/{in_use}%")), HIGH if pct >= BUSY_PCT else PLAIN),
            ("/", MUTED),
            (f"{in_use}%", style),
        )

    def _narrow_cell(
        self, view: MachineView, gpu: Gpu, digits: int, width: int, memory_cells: int
    ) -> TextRow:
        """Return a GPU's number, utilisation and memory in exactly `width` cells."""
        label = self._label(view, gpu, digits, 0)
        then = view.gpu_at_cursor(gpu, self._axis)
        if then.utilization_pct is None:
            room = width - row_width(label)
            return (*label, *self._without_utilization(view, then, room))
        memory = next((one for one in view.figures_of(then) if one.label == _MEMORY_FIGURE), None)
        facts = view.facts_of(gpu)
        total_mib = facts.memory_mib if facts is not None else None
        text, style = "", PLAIN
        if memory is not None and memory.known and total_mib and then.memory_used_mib is not None:
            text = units.short_memory_in_use(then.memory_used_mib, total_mib)
            style = _style_of(memory)
        cells = width - row_width(label) - _PERCENT - memory_cells
        return (
            *label,
            *self._history_or_bar(view, gpu.index, then.utilization_pct, cells),
            (
                f"{units.percent(then.utilization_pct):>{_PERCENT}}",
                HIGH if then.utilization_pct >= BUSY_PCT else PLAIN,
            ),
            (f"{text:>{memory_cells}}", style),
        )

    def _label(self, view: MachineView, gpu: Gpu, digits: int, width: int) -> TextRow:
        """Return which GPU it is, in as many words as have room."""
        name = f"{gpu.index:<{digits}} "
        trains = gpu.index == view.gpu_index
        if width >= self._mark + len(_WORD) + len(name) + _LEAST_HISTORY + _PERCENT:
            name = f"{_WORD}{name}"
        if self._mark:
            name = f"{self.glyphs.pointer if trains else ' '}{name}"
        if worst(view.figures_of(gpu)) == "bad":
            return ((f"{name[:-1]}!", BAD),)
        return ((name, STRONG if trains else MUTED),)

    def _short_memory(
        self, view: MachineView, gpu: Gpu, figures: list[Figure], room: int
    ) -> TextRow:
        """Return the memory in few cells, and what has room behind it; nothing where it has none.

        Of a GPU that somebody else computes on, the memory says so when it is idle for a moment.
        """
        facts = view.facts_of(gpu)
        total_mib = facts.memory_mib if facts is not None else None
        memory = next((one for one in figures if one.known and one.label == _MEMORY_FIGURE), None)
        if memory is None or not total_mib or gpu.memory_used_mib is None:
            return ()
        text = units.short_memory_in_use(gpu.memory_used_mib, total_mib)
        cells = _GAP + cell_len(units.short_memory_in_use(total_mib, total_mib))
        if room - cells < _LEAST_HISTORY:
            return ()
        others = [(label, width) for label, width in _COLUMNS if label != _MEMORY_FIGURE]
        more = self._figures_with_room(figures, room - cells - _LEAST_BAR - 1, others)
        return ((f"{text:>{cells}}", _style_of(memory)), *more)

    def _without_utilization(self, view: MachineView, gpu: Gpu, width: int) -> TextRow:
        """Return the reason, and what is known nevertheless."""
        reason = no_utilization(gpu, view.no_reading)
        if has_no_readings(gpu):
            return ((fit(reason, width), BAD),)
        known = [figure for figure in view.figures_of(gpu) if figure.known]
        more = self._figures_with_room(known, width - cell_len(reason))
        return ((fit(reason, width - row_width(more)), MUTED), *more)

    def _figures_with_room(
        self,
        figures: list[Figure],
        room: int,
        columns: Sequence[tuple[str, int]] | None = None,
    ) -> TextRow:
        """Return as many figures as have room, each in a column of its own."""
        if not figures:
            return ()
        by_label = {figure.label: figure for figure in figures}
        row: TextRow = ()
        for label, cells in _COLUMNS if columns is None else columns:
            figure = by_label.get(label)
            if cells > room:
                break
            room -= cells
            text = figure.marked if figure is not None and figure.known else ""
            style = _style_of(figure) if figure is not None else PLAIN
            row = (*row, (f"  {fit(text, cells - _GAP):>{cells - _GAP}}", style))
        return row

    def _history_or_bar(
        self, view: MachineView, index: int, utilization_pct: float, cells: int
    ) -> TextRow:
        """Draw the utilisation over time, or, where that has no room, what it is now."""
        if cells >= _LEAST_HISTORY:
            return ((self._history(view, index, cells), BAR),)
        return self._bar(utilization_pct, max(0, cells))

    def _bar(self, pct: float, cells: int) -> TextRow:
        """Draw a bar of the utilisation in so many cells."""
        drawn = bar(pct / 100, cells, self.glyphs).rstrip()
        return (drawn, BAR), (self.glyphs.track * (cells - len(drawn)), TRACK)

    def _history(self, view: MachineView, index: int, cells: int) -> str:
        """Draw the utilisation over the whole axis in one row of so many cells."""
        series = view.history.gpu_utilization_pct.get(index, Series())
        return self._drawn(self._coarse(cells).columns(series), cells)

    def _coarse(self, cells: int) -> TimeAxis:
        """Return the whole axis in so many cells."""
        return coarser(self._axis, COLUMNS_PER_CELL * cells)

    def _drawn(self, columns: Sequence[float | None], cells: int) -> str:
        """Draw percentages in one row of so many cells."""
        if self.glyphs.is_ascii:
            return ramp(columns, cells)
        return braille_rows(columns, cells, 1, 100.0, 0.0, True)[0]


def _cells(count: int, width: int, height: int) -> tuple[int, int]:
    """Return how many GPUs stand side by side, and the cells of each."""
    in_a_row = gpus_in_a_row(count, width, height)
    return in_a_row, (width - _GAP * (in_a_row - 1)) // in_a_row


def _widest_memory(view: MachineView, gpus: Sequence[Gpu]) -> int:
    """Return the cells of the longest figure of a memory; 0 where none is known."""
    facts = [view.facts_of(gpu) for gpu in gpus]
    totals_mib = [one.memory_mib for one in facts if one is not None and one.memory_mib]
    if view.stale:
        return 0
    return max((cell_len(units.short_memory_in_use(mib, mib)) for mib in totals_mib), default=0)


def _memory_pct(view: MachineView, gpu: Gpu, then: Gpu) -> float | None:
    """Return the share of a GPU's memory that was in use `then`, in percent."""
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib if facts is not None else None
    if not total_mib or then.memory_used_mib is None:
        return None
    return 100 * then.memory_used_mib / total_mib


class _Curves(NamedTuple):
    """Rows of curves, and the labels of the figures and the texts that they show."""

    rows: tuple[TextRow, TextRow]
    shown: set[str]


def _run_of(figure: Figure) -> TextRun:
    return f"  {figure.brief}", _style_of(figure)


def _style_of(figure: Figure) -> tuple[str, ...]:
    return {"": PLAIN, "high": HIGH, "bad": BAD}[figure.level]


# Of a GPU that has several rows, what comes first.
_FIRST = ("temp", "power", "memory", "held by", "clock")
# What follows the utilisation, the most important first, and the cells for it with its gap.
_COLUMNS: tuple[tuple[str, int], ...] = (
    ("temp", 9),
    ("power", 14),
    ("memory", 19),
    ("clock", 10),
    ("held by", 22),
)
# So many of them with the memory.
_UP_TO_MEMORY = 3


def gpus_in_a_row(count: int, width: int, height: int) -> int:
    """Return how many GPUs to put in a row: as few as there are rows for."""
    wanted = -(-count // max(1, height))
    most = max(1, (width + _GAP) // (_SHORT + _GAP))
    in_a_row = min(wanted, most)
    return -(-count // -(-count // in_a_row))


def gpu_rows_wanted(count: int, width: int) -> tuple[int, int]:
    """Return in how many rows GPUs look well, and how many they need at least."""
    most = max(1, (width + _GAP) // (_SHORT + _GAP))
    in_a_row = min(most, 1 if count <= 4 else 2)
    return -(-count // in_a_row), -(-count // most)


def coarser(axis: TimeAxis, count: int) -> TimeAxis:
    """Return what is known of `axis` in at most `count` columns, each of as many whole ones.

    They are as narrow as has room, and the last may reach over the end. On a
    full axis they lie at multiples of their width, so that the picture of a
    moving one changes but once in a while.
    """
    factor = max(1, -(-axis.known // max(1, count)))
    width_ns = axis.column_ns * factor
    start_ns = axis.start_ns
    if axis.known == axis.count:
        # By the cell; it may reach back a little further.
        cell_ns = width_ns * COLUMNS_PER_CELL
        start_ns = -(-axis.end_ns // cell_ns) * cell_ns - width_ns * count
    known = -(-(axis.end_ns - start_ns) // width_ns)
    return TimeAxis(start_ns, width_ns, count, max(0, min(count, known)))
