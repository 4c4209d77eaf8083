"""The screens of every GPU with all of its figures, and of the processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.conditions import cores as cores_text
from dlmon.figures import units
from dlmon.figures.machine.processes import (
    command_text,
    instance_rows,
    users_of,
    users_of_gpus,
    why_users_unknown,
)
from dlmon.figures.machine.readings import (
    NOT_READ,
    Figure,
    FigureList,
    cpu_figures,
    gpu_figures,
    has_no_readings,
    memory_figures,
    no_utilization,
    run_figures,
)
from dlmon.records import Gpu, GpuFacts, Machine, MachineFacts, Process
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.system.foreign_processes import FoundProcess, NoSignal
from tui.machine.help import PROCESSES
from tui.machine.machine import AboutLines
from tui.machine.meters import LEVEL_STYLES, meters_side_by_side
from tui.machine.process_list import ProcessDetails, ProcessList
from tui.machine.view import MachineView
from tui.screens.base import HELP, PALETTE, QUIT, THEME, TickingScreen
from tui.screens.filtered import (
    CLEAR_FILTER,
    FILTER,
    REVERSE,
    ROW_KEYS,
    SORT,
    SORT_KEYS,
    FilteredScreen,
)
from tui.screens.question import AnswerButton, QuestionScreen, stay
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

_LONGEST_COMMAND = 60
_LEAST_COLUMN, _GAP, _MOST_COLUMNS = 36, 2, 4
_LABEL = 13
_INDENT = 1
# The cells on the right for the scroll bar.
_MARGIN = 2


@record(frozen=True)
class Section:
    """One part of a machine: its identity and its figures, or a `problem` if it has no readings."""

    title: str
    about: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    problem: str = ""

    @property
    def unknown(self) -> dict[str, str]:
        """The reasons for unknown figures, each with the names of its figures."""
        names: dict[str, list[str]] = {}
        for figure in self.figures:
            if not figure.is_known:
                names.setdefault(figure.value, []).append(figure.label)
        return {reason: ", ".join(labels) for reason, labels in names.items()}


def sections(view: MachineView) -> list[Section]:
    """Return every GPU, then the rest of the machine."""
    machine, facts = view.history.latest, view.facts
    parts = [_gpu(view, gpu) for gpu in view.gpus]
    if not parts:
        parts = [Section("GPU", problem=view.no_gpus or view.no_sample or view.no_reading)]
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
    facts, machine = view.facts_of(gpu) or GpuFacts(gpu.index, ""), view.history.latest
    trains = "trains" if gpu.index in view.training and not view.is_over else ""
    about = filter(None, (units.device(facts.name), trains, facts.bus_id, facts.uuid))
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
    part.take("driver", "driver", "{}")
    part.take("CUDA", "cuda", "{}")
    label, text = users_of_gpus(machine, facts)
    if text:
        part.add(label, text)
    cost = machine.cost
    if cost is not None:
        part.add("cost", f"{cost.cpu_ms:.1f} ms of CPU per sample")
        part.add("late by", f"{cost.late_ms:.1f} ms")
    return part.figures


class MachineDetail(ScrollingLines):
    """Every figure of a machine, and the reasons for unknown ones."""

    def rows(self, width: int, height: int, view: MachineView) -> list[TextRow]:
        """Return the visible part of all figures."""
        return self.scrolled(self._all_rows(view, width - _MARGIN), width, height)

    show = shows(rows)

    def _all_rows(self, view: MachineView, width: int) -> list[TextRow]:
        rows: list[TextRow] = []
        for section in sections(view):
            rows += [self._heading(section, view, width), *self._body(section, view, width)]
            rows.append(())
        return [cut(row, width) for row in rows[:-1]]

    def _heading(self, section: Section, view: MachineView, width: int) -> TextRow:
        """Return a title, as much of the part's identity as fits, and a line."""
        runs: list[TextRun] = [(f" {section.title}", ACCENT)]
        if view.stale:
            runs.append((view.stale, BAD))
        elif view.is_over:
            runs.append(("as last read", MUTED))
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
        figures = [figure for figure in section.figures if figure.is_known]
        # A text without a bar may be longer than its column.
        texts = (figure for figure in figures if figure.fraction is None)
        long = [figure for figure in texts if cell_len(figure.text) > text_cells]
        short = [figure for figure in figures if figure not in long]
        stale = bool(view.stale)
        meters = meters_side_by_side(short, columns, room, _LABEL, stale=stale)
        rows += [((" ", PLAIN), *row) for row in meters]
        for figure in long:
            style = MUTED if stale else LEVEL_STYLES[figure.level]
            lines = wrapped(figure.text, room - _LABEL, 3)
            rows += beside(f" {fit(figure.label, _LABEL)}", lines, style)
        for reason, names in section.unknown.items():
            lines = wrapped(f"{names}: {reason}", room, 3)
            rows += [((f" {line}", MUTED),) for line in lines]
        return rows


class SignalScreen(QuestionScreen):
    """A question which signal to send; the answer is the signal's name, or `stay`."""

    ANSWERS = (
        AnswerButton(
            "SIGTERM", "e", "End", "SIGTERM asks it to end; it may save its work", "primary"
        ),
        AnswerButton("SIGINT", "i", "Interrupt", "SIGINT, as Ctrl-C in its terminal", "primary"),
        AnswerButton(
            "SIGKILL", "k", "Kill", "SIGKILL ends it at once; unsaved work is lost", "error"
        ),
        stay("Back"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("K", "answer('stay')", show=False)]


def _signal_question(process: Process) -> str:
    """Ask about a process by its pid, its user, its run and its command."""
    user = f" of {process.user}" if process.user else ""
    part = ", a part of this run" if process.of_run else ""
    command = clean(command_text(process), _LONGEST_COMMAND)
    return f"Send a signal to process {process.pid}{user}{part}?\n{command}"


GetView = Callable[[], MachineView]
"""Returns the present readings of the machine."""

_ALWAYS: tuple[BindingType, ...] = (
    HELP,
    Binding("q", "leave", "Back", tooltip="Go back"),
    THEME,
    Binding("escape", "leave", "Back", show=False),
    PALETTE,
    QUIT,
)


class MachineScreen(TickingScreen):
    """A screen that shows the readings of the screen below it.

    Args:
        get_view: returns the present readings.
    """

    CSS_PATH = "machine_detail.tcss"
    USES_SENSORS_BELOW = True
    # Without a focus in the filter field, letters are commands.
    AUTO_FOCUS = ""

    def __init__(self, get_view: GetView) -> None:
        super().__init__()
        self._get_view = get_view
        self._painted: tuple[object, ...] = ()

    def on_resize(self) -> None:
        self._painted = ()

    def tick(self) -> None:
        """Paint the readings if they changed, even below a menu."""
        if not self.is_showing:
            return
        view = self._get_view()
        readings = (view.history.latest, view.facts, view.stale, view.age_s is None, view.training)
        if readings != self._painted:
            self._painted = readings
            self.paint_machine(view)

    def paint_machine(self, view: MachineView) -> None:
        raise NotImplementedError

    def action_gpus(self) -> None:
        self.app.switch_screen(GpusScreen(self._get_view))

    def action_processes(self) -> None:
        self.app.switch_screen(ProcessesScreen(self._get_view))


class GpusScreen(MachineScreen):
    """Every GPU, then the rest of the machine, with all figures."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", "Scroll", key_display="↑↓", tooltip="Scroll up or down"),
        Binding("p,f5", "processes", "Processes", tooltip="Show what runs on this machine"),
        *_ALWAYS,
        Binding("g", "leave", "Back", show=False),
        Binding("down", "scroll(1)", "Scroll down", show=False, tooltip="Scroll down"),
        Binding("pageup", "scroll_page(-1)", "Page up", show=False),
        Binding("pagedown,space", "scroll_page(1)", "Page down", show=False),
        Binding("home", "scroll_page(-1000)", "Go to start", show=False),
        Binding("end", "scroll_page(1000)", "Go to end", show=False),
    ]
    HELP_PAGES = (Path(__file__).with_name("detail.md"),)

    def __init__(self, get_view: GetView) -> None:
        super().__init__(get_view)
        self._detail = MachineDetail(id="detail")
        self._offers_scrolling = False

    def compose_parts(self) -> ComposeResult:
        yield AboutLines(id="about")
        yield self._detail

    def paint_machine(self, view: MachineView) -> None:
        self.query_one(AboutLines).show(view.facts, "", view.host)
        self._detail.show(view)
        if self._detail.scrolls != self._offers_scrolling:
            self._offers_scrolling = self._detail.scrolls
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to scroll only if there is more than fits."""
        return action not in ("scroll", "scroll_page") or self._detail.scrolls

    def action_scroll(self, lines: int) -> None:
        self._detail.scroll_lines(lines)

    def action_scroll_page(self, pages: int) -> None:
        self._detail.scroll_pages(pages)


class ProcessesScreen(FilteredScreen, MachineScreen):
    """The processes of the run, on GPUs, or busy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        FILTER,
        SORT,
        REVERSE,
        Binding(
            "K",
            "signal",
            "Signal",
            tooltip="End, interrupt or kill the chosen process; asks first",
        ),
        Binding("g", "gpus", "GPU", tooltip="Show every GPU in depth"),
        Binding("f4", "gpus", "GPU", show=False),
        # Before "Back", which has the same key while there is no filter.
        CLEAR_FILTER,
        *_ALWAYS,
        Binding("p", "leave", "Back", show=False),
        *SORT_KEYS,
        *ROW_KEYS,
    ]
    HELP_PAGES = (PROCESSES, Path(__file__).with_name("processes.md"))

    def __init__(
        self, get_view: GetView, find: Callable[[int, float | None], FoundProcess] = FoundProcess
    ) -> None:
        super().__init__(get_view)
        self._find = find

    def compose_parts(self) -> ComposeResult:
        yield self.filter_field
        yield ProcessList(choosing=True, id="processes", classes="panel")
        yield ProcessDetails(id="details")

    def on_mount(self) -> None:
        self.query_one(ProcessDetails).show(None)

    def paint_machine(self, view: MachineView) -> None:
        self.table.show(view)
        if self.table.highlighted is not None:
            self._show_chosen()

    @property
    def table(self) -> ProcessList:
        return self.query_one(ProcessList)

    def on_row_list_highlighted(self) -> None:
        """Show the details of the chosen process, and offer to signal it."""
        self._show_chosen()
        self.refresh_bindings()

    def _show_chosen(self) -> None:
        self.query_one(ProcessDetails).show(self.table.highlighted, self.table.wall)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer a signal only if a process of this machine is chosen."""
        if action == "signal":
            return self.table.highlighted is not None and self.table.is_of_this_machine
        return super().check_action(action, parameters)

    def action_signal(self) -> None:
        """Ask which signal to send, if the chosen process still runs and we may send one."""
        chosen = self.table.highlighted
        if chosen is None:
            return
        try:
            process = self._find(chosen.pid, chosen.started)
        except NoSignal as problem:
            self.notify(str(problem), severity="error", markup=False)
            return

        def send(answer: str) -> None:
            if answer == "stay":
                return
            try:
                process.send(signal.Signals[answer])
            except NoSignal as problem:
                self.notify(str(problem), severity="error", markup=False)
            else:
                self.notify(f"{answer} was sent to process {chosen.pid}", markup=False)

        self.ask(SignalScreen(_signal_question(chosen)), send)
