"""The screen of every GPU with all of its figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import digits
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from dlmon.comparison.conditions import cores as cores_text
from dlmon.figures import units
from dlmon.figures.machine.processes import (
    instance_rows,
    users_of,
    users_of_gpus,
    why_users_unknown,
)
from dlmon.figures.machine.readings import (
    GPU_CURVES,
    NOT_READ,
    Figure,
    FigureList,
    cpu_figures,
    gpu_figures,
    gpu_kind,
    has_no_readings,
    memory_figures,
    no_gpu_step,
    no_utilization,
    run_figures,
)
from dlmon.records import Gpu, Machine, MachineFacts
from dlmon.records.record import record
from tui.machine.gpu_histories import GpuHistories, labels_in
from tui.machine.machine import AboutLines, grid_columns
from tui.machine.meters import LEVEL_STYLES, meters_side_by_side
from tui.machine.tile import MachineTile, TileReader, cpu_reading, gpu_curve, memory_reading
from tui.machine.view import MachineView
from tui.screens.base import BACK, PAGE_KEYS, hidden
from tui.screens.chart_screen import CURSOR, ChartsScreen
from tui.watch.machine_screen import GetView, MachineScreen
from tui.widgets.lines import (
    ACCENT,
    BAD,
    MUTED,
    PLAIN,
    STRONG,
    TextRow,
    TextRun,
    beside,
    cut,
    fit,
    fitting,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.tables import ScrollingLines

_LEAST_COLUMN, _GAP, _MOST_COLUMNS = 36, 2, 4
_LABEL = 13
_INDENT = 1
# The cells on the right for the scroll bar.
_MARGIN = 2
# The cells beside the histories.
_PADDING = 2
_MAY_BE_QUIET = frozenset(
    {
        *("encoder", "decoder", "Xid", "ECC", "MIG", "NVLinks", "fan", "CPU limit", "at its limit"),
        *("swap", "swapped", "faults", "run faults"),
    }
)
_LEAST_CHART, _LEAST_NAMED, _LEAST_HEIGHT = 26, 38, 6
# The most GPUs of which one is shown large at first.
_MOST_LARGE = 2


@record(frozen=True)
class Section:
    """One part of a machine: its identity and its figures, or a `problem` if it has no readings."""

    title: str
    about: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    problem: str = ""


def sections(view: MachineView) -> list[Section]:
    """Return every GPU, then the rest of the machine."""
    machine, facts = view.history.latest, view.facts
    parts = [_gpu(view, gpu) for gpu in view.gpus]
    if not parts:
        step = (Figure("to try", no_gpu_step(view.facts)),) if view.no_gpus and view.goes_on else ()
        problem = view.no_gpus or view.no_sample or view.no_reading
        parts = [Section("GPU", figures=step, problem=problem)]
    if machine is None:
        return parts
    energy_j = view.history.energy.cpu.joules_since_start
    cpu = tuple(cpu_figures(machine, facts, energy_j, in_depth=True))
    about = [units.device(facts.cpu_model)] if facts.cpu_model else []
    about += [_cores(facts.cores, facts.physical_cores)] if facts.cores else []
    problem = "" if cpu else machine.why.get("cpu", NOT_READ)
    parts.append(Section("CPU", tuple(about), cpu, problem))
    memory = tuple(memory_figures(machine, facts, in_depth=True))
    parts.append(Section("Memory, disk, network", figures=memory))
    if machine.process is not None:
        run = run_figures(machine.process, in_depth=True)
        run += [Figure("GPU memory", view.memory)] if view.memory else []
        parts.append(Section("This run", figures=tuple(run)))
    return [*parts, Section("Driver and sensors", figures=tuple(_sensors(machine, facts)))]


def _gpu(view: MachineView, gpu: Gpu) -> Section:
    facts, machine = view.facts_of(gpu), view.history.latest
    whose = "of this run" if gpu.index in view.training else ""
    uuid = None if facts.uuid == f"PCI-{facts.bus_id}" else facts.uuid
    about = filter(None, (gpu_kind(facts), whose, facts.bus_id, uuid))
    figures = gpu_figures(gpu, facts, view.energy_j_of(gpu), in_depth=True)
    problem = ""
    if has_no_readings(gpu):
        reason = no_utilization(gpu, view.no_reading)
        problem = f"{NOT_READ}: {reason}" if reason in ("not supported", "denied") else reason
        figures = [figure for figure in figures if figure.label == "energy" and figure.is_known]
    elif machine is not None:
        part = FigureList(gpu, why_users_unknown(machine), in_depth=True)
        part.add("used by", users_of(gpu, machine), "processes")
        figures += part.figures
        figures += [Figure(label, text) for label, text in instance_rows(gpu, machine)]
    return Section(f"GPU {gpu.index}", tuple(about), tuple(figures), problem)


def _cores(cores: int, physical: int | None) -> str:
    """Write the number of cores, and of the physical ones if there are fewer."""
    text = cores_text(cores)
    return f"{text}, {physical} physical" if physical and physical < cores else text


def _sensors(machine: Machine, facts: MachineFacts) -> list[Figure]:
    part = FigureList(facts, facts.why, in_depth=True)
    if any(gpu.vendor == "nvidia" for gpu in facts.gpus or ()):
        part.take("driver", "driver", "{}")
        part.take("CUDA", "cuda", "{}")
    label, text = users_of_gpus(machine, facts)
    if text:
        part.add(label, text)
    cost = machine.cost
    if cost is not None:
        part.add("dlmon takes", f"{cost.cpu_ms:.1f} ms of CPU per sample")
        part.add("dlmon late", f"by {cost.late_ms:.1f} ms")
    return part.figures


class MachineDetail(ScrollingLines):
    """Every figure of a machine, and the reasons for unknown ones."""

    def rows(
        self,
        width: int,
        height: int,
        view: MachineView,
        chosen: int | None,
        charted: Collection[str],
    ) -> list[TextRow]:
        """Return the visible part of all figures that are not `charted`, of one of the GPUs.

        If no GPU is `chosen`, return all figures of all GPUs.
        """
        parts = self._parts(view, chosen, charted)
        return self.scrolled(self._all_rows(parts, view, width - _MARGIN), width, height)

    show = shows(rows)

    def _parts(
        self, view: MachineView, chosen: int | None, charted: Collection[str]
    ) -> list[Section]:
        parts = sections(view)
        if chosen is None:
            return parts
        figures = (f for f in parts[chosen].figures if f.label not in charted or not f.is_known)
        return [replace(parts[chosen], figures=tuple(figures)), *parts[len(view.gpus) :]]

    def rows_needed(self, width: int, view: MachineView, chosen: int | None) -> int:
        """Return the rows that show all without scrolling."""
        return len(self._all_rows(self._parts(view, chosen, GPU_CURVES), view, width - _MARGIN))

    def _all_rows(self, parts: list[Section], view: MachineView, width: int) -> list[TextRow]:
        rows: list[TextRow] = []
        for section in parts:
            rows += [self._heading(section, view, width), *self._body(section, view, width)]
            if quiet := ", ".join(f"{f.label} {f.value}" for f in section.figures if _is_quiet(f)):
                rows += [((f" {line}", MUTED),) for line in wrapped(quiet, width - _INDENT, 2)]
            if section.title.startswith("GPU"):
                rows += _unknown_rows(section.figures, width)
            rows.append(())
        # What the rest of the machine doesn't tell has a line of its own, after all that it does.
        others = [part for part in parts if not part.title.startswith("GPU")]
        unknown = _unknown_rows((figure for part in others for figure in part.figures), width)
        rows = [*rows, *unknown] if unknown else rows[:-1]
        return [cut(row, width) for row in rows]

    def _heading(self, section: Section, view: MachineView, width: int) -> TextRow:
        """Return a title, as much of the part's identity as fits, and a line."""
        runs: list[TextRun] = [(f" {section.title}", ACCENT)]
        if view.stale:
            runs.append((view.stale, BAD))
        elif view.is_over:
            runs.append(("as last read", MUTED))
        elif view.cursor_ns is not None:
            runs.append(("now", MUTED))
        runs += ((text, MUTED if number else STRONG) for number, text in enumerate(section.about))
        row = fitting(tuple(runs), width - 2)
        rest = width - row_width(row) - 1
        return (*row, (f" {'─' * rest}", MUTED))

    def _body(self, section: Section, view: MachineView, width: int) -> list[TextRow]:
        room = width - _INDENT
        rows: list[TextRow] = []
        if section.problem:
            lines = wrapped(section.problem, room, 3)
            rows += [((f" {line}", BAD if view.gpus else PLAIN),) for line in lines]
        columns = max(1, min(_MOST_COLUMNS, (room + _GAP) // (_LEAST_COLUMN + _GAP)))
        text_cells = (room - _GAP * (columns - 1)) // columns - _LABEL
        figures = [f for f in section.figures if f.is_known and not _is_quiet(f)]
        # A text without a bar may be longer than its column; its kind, as of MIG 0, stays together.
        texts = [figure for figure in figures if figure.fraction is None]
        kinds = {f.label.rstrip(digits) for f in texts if cell_len(f.text) > text_cells}
        long = [figure for figure in texts if figure.label.rstrip(digits) in kinds]
        short = [figure for figure in figures if figure not in long]
        stale = bool(view.stale)
        meters = meters_side_by_side(short, columns, room, _LABEL, stale=stale)
        rows += [((" ", PLAIN), *row) for row in meters]
        for figure in long:
            style = MUTED if stale else LEVEL_STYLES[figure.level]
            lines = wrapped(figure.text, room - _LABEL, 3)
            rows += beside(f" {fit(figure.label, _LABEL)}", lines, style)
        return rows


def _is_quiet(figure: Figure) -> bool:
    """Return whether a figure says that there is nothing: no error, no swap, an idle encoder."""
    is_zero = figure.value in ("none", "off", "0 %") or figure.value.startswith(("0 ", "0.0 "))
    return figure.label in _MAY_BE_QUIET and is_zero


def why_unknown(figures: Iterable[Figure]) -> dict[str, str]:
    """Return the reasons for unknown figures, each with the names of its figures."""
    names: dict[str, list[str]] = {}
    for figure in figures:
        if not figure.is_known:
            names.setdefault(figure.value, []).append(figure.label)
    return {reason: ", ".join(labels) for reason, labels in names.items()}


def _unknown_rows(figures: Iterable[Figure], width: int) -> list[TextRow]:
    """Return a dim line of what is unknown, and why."""
    text = "; ".join(f"{names}: {reason}" for reason, names in why_unknown(figures).items())
    return [((f" {line}", MUTED),) for line in wrapped(text, width - _INDENT, 3) if line]


def _troubles(view: MachineView) -> str:
    """Name what is bad of each of several GPUs, whose row only has a mark for it."""
    if len(view.gpus) < 2 or view.cursor_ns is not None:
        return ""
    texts = []
    for gpu in view.gpus:
        figures = gpu_figures(gpu, view.facts_of(gpu), in_depth=True)
        # The meaning of an error is more than its number.
        bad = [f"{f.label} {f.text}" for f in figures if f.level == "bad"]
        texts += [f"GPU {gpu.index}: {', '.join(bad)}"] if bad and not has_no_readings(gpu) else []
    return "  ".join(texts)


class GpusScreen(MachineScreen):
    """Each GPU's histories, then what else is known of it and of the rest of the machine.

    One or two GPUs are shown large, one at a time; more have a row of small histories each, until
    one is chosen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Scroll", key_display="↑↓", tooltip="Choose a GPU, or scroll"),
        Binding("enter", "enlarge", "Large", tooltip="Show the chosen GPU large, or all again"),
        *CURSOR,
        Binding("p,f5", "processes", "Processes", tooltip="Show what runs on this machine"),
        *BACK,
        hidden("g", "leave", "Back"),
        hidden("down", "move(1)", "Scroll down", "Choose the next GPU"),
        *PAGE_KEYS,
        hidden("home", "page(-1000)", "Go to start"),
        hidden("end", "page(1000)", "Go to end"),
    ]
    HELP_PAGES = (Path(__file__).with_name("detail.md"),)

    def __init__(self, get_view: GetView) -> None:
        super().__init__(get_view)
        self._detail = MachineDetail(id="detail")
        self._histories = GpuHistories(id="histories")
        self._tiles = [MachineTile(id=f"history-{number}") for number in range(len(GPU_CURVES))]
        self._grid = Container(*self._tiles, id="large")
        self._chosen = 0
        self._is_large: bool | None = None
        self._below = 0
        self._offered = (False, 0, False)

    def compose_parts(self) -> ComposeResult:
        yield AboutLines(id="about")
        yield self._grid
        yield self._histories
        yield self._detail

    async def action_processes(self) -> None:
        await self.show_instead("processes")

    def on_resize(self) -> None:
        self._below = 0

    def on_chart_plot_resized(self) -> None:
        self.paint_again()

    def paint_machine(self, view: MachineView) -> None:
        """Paint the histories, and in depth what has none: of the chosen GPU if there are more."""
        gpus, troubles, about = view.gpus, _troubles(view), self.query_one(AboutLines)
        about.styles.height = 2 if troubles else 1
        about.show(view.facts, troubles, view.host)
        self._chosen = max(0, min(self._chosen, len(gpus) - 1))
        labels = tuple(
            label
            for label, field in GPU_CURVES.items()
            if any(view.history.gpu_series(field, gpu.index).sums for gpu in gpus)
        )
        room = self.size.height - 2 - bool(troubles)
        is_large = self._is_large_of(len(gpus))
        self._grid.display, self._histories.display = False, False
        # The most so far, so that the charts don't change their height from second to second.
        chosen = self._chosen if labels else None
        needed = self._detail.rows_needed(self.size.width, view, chosen)
        self._below = max(self._below, needed)
        height = max(room * 3 // 5 if labels else 0, room - self._below)
        if not labels and height >= _LEAST_HEIGHT and view.history.latest is not None:
            self._show_tiles([cpu_reading, memory_reading], view, height)
        charted = labels
        if labels:
            if is_large:
                charted = self._show_large(view, gpus[self._chosen], labels, height)
            else:
                self._histories.display = True
                tall = max(1, (height - 1) // len(gpus))
                height = 1 + min(tall * len(gpus), height - 1)
                self._histories.styles.height = height
                charted = labels_in(self.size.width - _PADDING, height, len(gpus), labels)
                self._histories.show(view, labels, self._chosen)
        self._detail.show(view, chosen, charted)
        offered = self._detail.scrolls, len(gpus), is_large
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    def _is_large_of(self, gpus: int) -> bool:
        """Return whether one of the GPUs is shown large, as is usual for one or two."""
        return gpus == 1 or (gpus <= _MOST_LARGE if self._is_large is None else self._is_large)

    def _show_large(
        self, view: MachineView, gpu: Gpu, labels: tuple[str, ...], height: int
    ) -> tuple[str, ...]:
        """Show as many quantities of a GPU as fit, in a chart each; return their labels."""
        width = self.size.width
        counts = range(len(labels), 1, -1)
        grids = ((count, grid_columns(count, width, height, _LEAST_CHART)) for count in counts)
        count, columns = next(((n, c) for n, c in grids if c), (1, 1))
        # The value has no room beside it in a narrow border; the figures below are named too.
        is_named = len(view.gpus) > 1 and width // columns >= _LEAST_NAMED
        name = f"GPU {gpu.index}" if is_named else ""
        readers = [partial(gpu_curve, gpu=gpu, label=label, name=name) for label in labels[:count]]
        self._show_tiles(readers, view, height, columns)
        return labels[:count]

    def _show_tiles(
        self, readers: Sequence[TileReader], view: MachineView, height: int, columns: int = 2
    ) -> None:
        """Show a chart of each reading."""
        count = len(readers)
        self._grid.display = True
        self._grid.styles.height = height
        self._grid.styles.grid_size_columns = columns
        axis = view.axis(min(tile.plot_columns for tile in self._tiles[:count]))
        for number, tile in enumerate(self._tiles):
            tile.display = number < count
            # The last one fills its row.
            tile.styles.column_span = 1 + (-count % columns if number == count - 1 else 0)
        for number, (tile, reader) in enumerate(zip(self._tiles[:count], readers, strict=True)):
            is_lowest = number >= count - columns
            shown = view if is_lowest else replace(view, epoch_starts=(), phase_spans=())
            tile_axis = view.axis(tile.plot_columns) if tile.plot_columns > 2 * axis.count else axis
            tile.show_reading(reader, shown, tile_axis, view.times, labelled=is_lowest)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to choose and to enlarge only one of several, and to scroll only what is longer."""
        _, gpus, _ = self._offered
        if action == "move_cursor":
            return isinstance(self.app.screen_stack[-2], ChartsScreen)
        if action == "enlarge":
            return gpus > 1
        if action == "move" and gpus > 1:
            return True
        return action not in ("move", "page") or self._detail.scrolls

    def name_of_action(self, action: str) -> str:
        _, gpus, is_large = self._offered
        if action == "enlarge" and is_large:
            return "All GPUs"
        return "GPU" if action == "move(-1)" and gpus > 1 else super().name_of_action(action)

    def action_move(self, steps: int) -> None:
        if self._offered[1] > 1:
            self._choose(self._chosen + steps)
        else:
            self._detail.scroll_lines(steps)

    def action_move_cursor(self, samples: int) -> None:
        """Move the cursor of the session's charts, which the screen below shows."""
        below = self.app.screen_stack[-2]
        if isinstance(below, ChartsScreen):
            below.action_move_cursor(samples)
            self.paint_again()

    def action_enlarge(self) -> None:
        self._is_large = not self._is_large_of(self._offered[1])
        self.paint_again()

    def on_gpu_histories_gpu_clicked(self, message: GpuHistories.GpuClicked) -> None:
        if message.opens:
            self._is_large = True
        self._choose(message.number)

    def _choose(self, number: int) -> None:
        self._chosen = number
        self.paint_again()

    def action_page(self, pages: int) -> None:
        self._detail.scroll_pages(pages)
