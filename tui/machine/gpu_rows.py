"""A row for each GPU: its history, its utilisation and its figures."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.machine.readings import (
    BUSY_PCT,
    THROTTLED,
    Figure,
    gpu_kind,
    has_no_readings,
    no_utilization,
    worst,
)
from dlmon.records import Gpu
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL, LEVELS, bar, braille_rows
from tui.drawing.time_axis import TimeAxis
from tui.machine.meters import LEVEL_STYLES
from tui.machine.tile import coarser
from tui.machine.view import MachineView
from tui.widgets.lines import (
    BAD,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    TextRun,
    cut,
    first_parts,
    fit,
    fit_right,
    row_width,
)

GAP = 2
# The topmost dots stay free, so that histories at their limit don't touch.
_TOP = LEVELS / (LEVELS - 1)
_PERCENT, _MEMORY = 6, 8
# With less room than this for a history, a bar shows the latest reading.
_LEAST_HISTORY, LONGEST_HISTORY, _LEAST_BAR = 4, 40, 2
# The narrowest GPU is "63 ━━ 100 %".
_SHORT, _ROOM_FOR_WORD = 11, 16
# GPUs of several kinds are named where that leaves this room.
_ROOM_FOR_KINDS = 48
# The figures after the memory, the most important first, and the cells of each with its gap.
_COLUMNS = (("temp", 9), ("power", 14), ("clock", 10), (THROTTLED, 24))
# The same, narrower, on the card of a host.
TEMPERATURE, POWER = 8, 8
_WITH_COLUMN = ("memory", "temp", "power", "clock")
# The users of a GPU stand before its clock, where that leaves a history of this length; with more
# room they take what a long history leaves.
_LEAST_USERS, _USERS, _BEFORE_USERS, _SHORT_HISTORY = 14, 32, 2, 8
# From this room on, the memory has a history too.
_ROOM_FOR_MEMORY, _MEMORY_HISTORY = 80, 16


class GpuRows(Lines):
    """Every GPU, several to a row if there are more of them than rows."""

    _view: MachineView | None = None
    _axis = TimeAxis(0, 1, 0, 0)

    def show(self, view: MachineView, axis: TimeAxis) -> None:
        self._view, self._axis = view, axis
        training = next((gpu for gpu in view.gpus if gpu.index in view.training), None)
        figures: list[Figure] = []
        if training is not None and not view.stale:
            figures = view.figures_of(view.gpu_at(training, axis))
        briefs = [
            figure.brief for figure in figures if figure.is_known and figure.label != "memory"
        ]
        right = f"▸{training.index}" if training is not None and briefs else ""
        self.set_titles("GPUs", right=right, more=tuple(briefs))
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        view = self._view
        if view is None or not view.gpus or width < 1 or height < 1:
            return []
        gpus = view.gpus
        columns = min(max(1, (width + GAP) // (_SHORT + GAP)), -(-len(gpus) // height))
        columns = -(-len(gpus) // -(-len(gpus) // columns))
        gpu_width = (width - GAP * (columns - 1)) // columns
        digits = max(len(str(gpu.index)) for gpu in gpus)
        word = "GPU " if gpu_width >= _ROOM_FOR_WORD and not self.has_class("panel") else ""
        kinds = [gpu_kind(view.facts_of(gpu)) for gpu in gpus]
        longest = max(map(cell_len, kinds))
        is_named = len({*kinds}) > 1 and gpu_width >= _ROOM_FOR_KINDS + longest
        cells = [
            gpu_rows(
                view,
                gpu,
                self._axis,
                f"{word}{gpu.index:<{digits}}" + (f" {fit(kind, longest)}" if is_named else ""),
                gpu_width,
            )[0]
            for gpu, kind in zip(gpus[: height * columns], kinds, strict=False)
        ]
        if len(gpus) > len(cells):
            cells[-1] = ((fit(f"… {len(gpus) - len(cells) + 1} more", gpu_width), MUTED),)
        gap: TextRow = ((" " * GAP, PLAIN),)
        rows: list[TextRow] = []
        for start in range(0, len(cells), columns):
            first, *more = cells[start : start + columns]
            rows.append((*first, *(run for cell in more for run in (*gap, *cell))))
        return rows


def gpu_rows(
    view: MachineView,
    gpu: Gpu,
    axis: TimeAxis,
    name: str,
    width: int,
    last: tuple[TextRun, int] | None = None,
    height: int = 1,
) -> list[TextRow]:
    """Return a GPU and as many of its figures as fit in exactly `width` cells.

    `last`, a text and its cells, takes the place of the less important figures, so that
    the rows of several hosts have the same columns. Its history is `height` rows high.
    """
    is_training, reading = gpu.index in view.training, view.gpu_at(gpu, axis)
    figures = {figure.label: figure for figure in view.figures_of(reading)}
    mark = "▸" if is_training else " "
    label: TextRun = (f"{mark}{name} ", STRONG if is_training else MUTED)
    trouble = ""
    if worst(figures.values()) == "bad":
        label = (f"{mark}{name}!", BAD)
        bad = (figure for figure in figures.values() if figure.level == "bad")
        trouble = ", ".join(f.brief for f in bad if f.label not in _WITH_COLUMN)
    room = width - row_width((label,))
    if view.stale:
        return [(label, (fit(view.stale, room), MUTED))]
    if has_no_readings(reading):
        reason = no_utilization(reading, view.no_reading)
        if view.is_unread(gpu):
            return [(label, (fit(f"no readings: {reason}", room), MUTED))]
        return [(label, (fit(reason, room), BAD))]
    columns = [(figure_column(figures.get(name), cells), cells) for name, cells in _COLUMNS]
    if last is not None:
        power = "" if reading.power_w is None else f"{reading.power_w:.0f} W"
        columns = [(figure_column(figures.get("temp"), TEMPERATURE), TEMPERATURE)]
        columns.append(((power, PLAIN), POWER))
    if reading.utilization_pct is None:
        parts = (no_utilization(reading, view.no_reading), *(text for (text, _), _ in columns))
        return [(label, (fit("  ".join(filter(None, parts)), room), MUTED))]
    facts = view.facts_of(gpu)
    total_mib = facts.memory_mib
    if facts.memory_kind == "system" and reading.temperature_c is None and last is None:
        # Whose memory stands before it.
        columns[0] = (("system", MUTED), columns[0][1])
    columns.insert(0, memory_column(figures.get("memory"), reading.memory_used_mib, total_mib))
    if last is None:
        columns = with_users(columns, view, gpu, room, trouble)
    used = view.history.gpu_series("memory_used_mib", gpu.index)
    columns = [*memory_history(used, total_mib, axis, room), *columns]
    if last is not None:
        columns = with_last(columns, last, room)
    series = view.history.gpu_series("utilization_pct", gpu.index)
    return figure_rows(label, reading.utilization_pct, series, axis, columns, width, height=height)


def memory_history(
    used: Series, total_mib: float | None, axis: TimeAxis, room: int
) -> list[tuple[TextRun, int]]:
    """Return a column with memory over time, if a row has the room for it."""
    if room < _ROOM_FOR_MEMORY:
        return []
    cells = _MEMORY_HISTORY - GAP
    values = coarser(axis, COLUMNS_PER_CELL * cells).columns(used)
    (drawn,) = braille_rows(values, cells, 1, _TOP * (total_mib or 1.0), 0.0, True)
    return [((drawn, "$chart-memory"), _MEMORY_HISTORY)]


def with_last(
    columns: list[tuple[TextRun, int]], last: tuple[TextRun, int], room: int
) -> list[tuple[TextRun, int]]:
    """Return the columns that fit beside a short history and the last column, and that one."""
    while columns and room - sum(c for _, c in (*columns, last)) - _PERCENT < _SHORT_HISTORY:
        columns = columns[:-1]
    return [*columns, last]


def with_users(
    columns: list[tuple[TextRun, int]], view: MachineView, gpu: Gpu, room: int, trouble: str
) -> list[tuple[TextRun, int]]:
    """Return the columns after a GPU's utilisation with its users, if they are read and fit.

    A `trouble` that has no column of its own takes their place.
    """
    if view.history.latest is None or not view.history.latest.processes:
        return columns
    room -= _PERCENT + (_MEMORY_HISTORY if room >= _ROOM_FOR_MEMORY else 0)
    rest = room - sum(cells for _, cells in columns[: _BEFORE_USERS + 1]) - _SHORT_HISTORY
    longest = room - sum(cells for _, cells in columns) - LONGEST_HISTORY
    cells = min(rest, max(_USERS, longest))
    if cells < _LEAST_USERS:
        return columns
    users = first_parts(trouble or view.who_uses(gpu), cells - GAP, ", ")
    shown = fit(users, cells - GAP), BAD if trouble else MUTED
    after = _BEFORE_USERS + 1
    return [*columns[:after], (shown, cells), *columns[after:]]


def figure_rows(
    label: TextRun,
    pct: float | None,
    series: Series,
    axis: TimeAxis,
    columns: Sequence[tuple[TextRun, int]],
    width: int,
    hue: str = "$chart-gpu",
    height: int = 1,
) -> list[TextRow]:
    """Return a label, a history or a bar, the percentage, and the columns that fit.

    Each column comes with its number of cells, which include the gap before it. Rows above
    have the rest of a history that is higher.
    """
    room = width - row_width((label,)) - _PERCENT
    figures: TextRow = ()
    for number, ((text, style), cells) in enumerate(columns):
        # Only the first column is worth more than the history.
        if room - cells < (_LEAST_HISTORY if number else 0):
            break
        room -= cells
        text = fit(text, min(cell_len(text), cells - GAP))
        figures = (*figures, (fit_right(text, cells), style))
    cells = min(room, LONGEST_HISTORY)
    history = [" " * max(0, cells)]
    if cells >= _LEAST_HISTORY:
        values = coarser(axis, COLUMNS_PER_CELL * cells).columns(series)
        dots = height * LEVELS
        history = braille_rows(values, cells, height, 100.0 * dots / (dots - 1), 0.0, True)
    elif cells >= _LEAST_BAR and pct is not None:
        history = [bar(pct / 100, cells)]
    is_high = pct is not None and pct >= BUSY_PCT
    percent = (f"{units.percent(pct):>{_PERCENT}}", HIGH if is_high else PLAIN)
    *above, lowest = history
    indent: TextRun = (" " * row_width((label,)), PLAIN)
    rows: list[TextRow] = [(indent, (part, hue)) for part in above]
    rows += [(label, (lowest, hue), percent, *figures)]
    return [cut((*row, (" " * (width - row_width(row)), PLAIN)), width) for row in rows]


def figure_column(figure: Figure | None, cells: int) -> TextRun:
    """Return a figure for its column, or a blank if it is unknown."""
    if figure is None or not figure.is_known:
        return ("", PLAIN)
    text = fit(figure.marked, cells - GAP) if figure.label == THROTTLED else figure.marked
    return (text, LEVEL_STYLES[figure.level])


def memory_column(
    figure: Figure | None, used_mib: float | None, total_mib: float | None
) -> tuple[TextRun, int]:
    """Return the memory in use and its cells, which suffice even when all of it is in use."""
    if not total_mib or used_mib is None or figure is None:
        text, style = figure_column(figure, 0)
        return (text, style), GAP + max(_MEMORY, cell_len(text))
    text = units.short_memory_in_use(used_mib, total_mib)
    widest = units.short_memory_in_use(total_mib, total_mib)
    return (text, LEVEL_STYLES[figure.level]), GAP + max(_MEMORY, cell_len(widest))
