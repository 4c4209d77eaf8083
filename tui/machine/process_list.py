"""The processes of a machine, sorted and filtered, with those of the run marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from textual import events

from dlmon.figures.columns import Column
from dlmon.figures.machine.processes import (
    about_process,
    as_tree,
    columns_at,
    matching,
    reasons_text,
    with_table,
    without_interpreter,
)
from dlmon.figures.machine.readings import Figure
from dlmon.figures.units import gpus_text
from dlmon.records import MAX_BUSIEST, Process
from dlmon.render.wrap import first_words
from tui.drawing.plot import thick_bar
from tui.machine.meters import LEVEL_STYLES
from tui.machine.view import NO_PROCESSES_YET, PROCESSES_INTERVAL_S, MachineView
from tui.widgets import tables
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    BAR,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    TextRun,
    bar_on_track,
    fitting,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.tables import MARGIN, SortedTable

_SHORTEST_BAR, _LONGEST_BAR = 5, 24
# The cells of a border that hold no text.
_BORDER = 6
_SCOPE = f"those on GPUs, and the {MAX_BUSIEST} busiest"
TREE = "tree"
"""The order of `sort_by` that puts each process below its parent."""


COLUMNS = columns_at(None)
BY_NAME = {column.name: column for column in COLUMNS}
_GPU_COLUMNS = ("gpus", "gpu_memory_mib")
# A column is left out of a table narrower than this.
_LEAST_WIDTHS = {
    "threads": 130,
    "started": 76,
    "gpu_pct": 70,
    "user": 64,
    "rss_mib": 52,
    "gpus": 44,
}
# The cells of bars from a width of the table on.
_WIDE_BARS = ((140, 10), (100, 5))
# A bar of less than this share looks like more than it is.
_LEAST_SHARE = 0.03
_WIDTH_FOR_USERS, _LONGEST_USER, _SHORT_USER = 130, 16, 6
_BARS = {
    "gpu_memory_mib": _WIDE_BARS,
    "cpu_pct": _WIDE_BARS,
    "rss_mib": _WIDE_BARS[:1],
}


def columns_for(
    width: int, with_gpus: bool, wall: float | None = None, with_engines: bool = False
) -> list[Column[Process]]:
    """Return the columns that fit, without those of GPUs or their engines unless there are any."""
    left_out = () if with_gpus else _GPU_COLUMNS
    left_out = left_out if with_engines else (*left_out, "gpu_pct")
    return [
        replace(column, bar=next((n for w, n in _BARS.get(column.name, ()) if width >= w), 0))
        for column in columns_at(wall)
        if width >= _LEAST_WIDTHS.get(column.name, 0) and column.name not in left_out
    ]


def in_order(processes: Iterable[Process], by: str, reverse: bool = False) -> list[Process]:
    """Return processes sorted by a column, then by their share of the CPU, then by pid."""
    by_cpu = sorted(processes, key=lambda process: (-(process.cpu_pct or 0.0), process.pid))
    return tables.in_order(by_cpu, BY_NAME[by], reverse)


class ProcessList(SortedTable[Process]):
    """The processes.

    The list never has the focus: its screen handles the keys and calls its methods.
    """

    can_highlight = False
    FIRST = -1
    GAP = 1

    wall: float | None = None
    """The machine's wall clock at the last reading."""
    index = -1
    _nothing = NO_PROCESSES_YET
    _stale = ""
    _over = False
    _host: str | None = None
    _state: tuple[object, ...] = ()
    with_gpus = True
    """Some process is on a GPU, so that there are columns for GPUs."""
    with_engines = False
    """The time that a GPU's engines worked is known of some process."""
    _has_gpus = False
    """There are several GPUs, so that a process's GPU has a number worth its cells."""
    _cells: Mapping[str, int] = {}
    """The cells of the widest text, by column."""
    _is_whole = False
    """All processes are listed, not only those of a session's table."""
    _ranks: Mapping[int, int] = {}
    _roles: Mapping[int, str] = {}
    """What tells processes with the same command apart, by pid."""
    _branches: dict[int, str] = {}  # noqa: RUF012 - replaced, never changed
    _whole: dict[str, float] = {}  # noqa: RUF012 - replaced, never changed
    """The value of a full bar, by column."""

    def show(self, view: MachineView, every: tuple[Process, ...] | None = None) -> None:
        """Show the latest processes; the highlighted one stays highlighted while it lives.

        `every` are all processes of the machine, if they are read.
        """
        latest = view.history.latest
        processes = latest.processes if latest is not None else None
        if every is not None:
            processes = with_table(every, processes or ())
        self._is_whole = every is not None
        why = latest.why.get("processes") if latest is not None else None
        # The running times change even if the list of processes does not.
        tick = int(latest.wall // PROCESSES_INTERVAL_S) if latest is not None else None
        state = (why, view.stale, view.is_over, view.host, tick)
        if state == self._state and processes is self.all_rows:
            return
        self.all_rows, self._state = processes, state
        self._stale, self._over, self._host = view.stale, view.is_over, view.host
        commands = {process.pid: process.command for process in processes or ()}
        self._ranks = view.ranks
        self._roles = {
            process.pid: f"fork of {process.parent} "
            for process in processes or ()
            if process.command and commands.get(process.parent or 0) == process.command
        }
        self._roles |= {pid: f"rank {rank} " for pid, rank in view.ranks.items()}
        self.wall = latest.wall if latest is not None else None
        # A container can't tell whose the processes on a GPU are: their rows say it.
        is_told = not any("gpus" in process.why for process in processes or ())
        self.with_gpus = is_told and any(process.gpus for process in processes or ())
        self._has_gpus = len(view.facts.gpus or ()) != 1
        self._cells = {
            column.name: max(
                cell_len(column.heading) + column.is_number,
                max((cell_len(column.text(row)) for row in processes or ()), default=0),
            )
            for column in columns_at(self.wall)
            if column.cells
        }
        self.with_engines = any(process.gpu_pct is not None for process in processes or ())
        memory_mib = max((gpu.memory_mib or 0 for gpu in view.facts.gpus or ()), default=0)
        most_cpu_pct = max((process.cpu_pct or 0 for process in processes or ()), default=0)
        self._whole = {"cpu_pct": max(100, most_cpu_pct), "gpu_memory_mib": memory_mib}
        self._whole["rss_mib"] = view.facts.memory_mib or 0
        self._nothing = why or ("No processes were recorded." if self._over else NO_PROCESSES_YET)
        self.rearrange()

    @property
    def sorted_by(self) -> str:
        # If no process is on a GPU, the order is that by CPU.
        return self._by or ("gpu_memory_mib" if self.with_gpus else "cpu_pct")

    def columns(self, width: int) -> list[Column[Process]]:
        columns = columns_for(width + MARGIN, self.with_gpus, self.wall, self.with_engines)
        if width < _WIDTH_FOR_USERS:
            return [
                replace(column, cells=self._narrow(column))
                for column in columns
                if (column.name != "gpus" or self._has_gpus)
                # A tree needs the room.
                and (column.name != "started" or self._by != TREE)
            ]
        user_cells = min(_LONGEST_USER, self._cells.get("user", 0))
        return [
            replace(column, cells=user_cells) if column.name == "user" else column
            for column in columns
        ]

    def _narrow(self, column: Column[Process]) -> int:
        """Return the cells of a column's widest text, so that the command has the rest."""
        most = _SHORT_USER if column.name == "user" else column.cells
        return min(most, self._cells.get(column.name, most))

    @property
    def order(self) -> str:
        if self._by == TREE:
            return "as a tree"
        has_run = any(process.of_run for process in self.shown_rows)
        return f"this run first, {super().order}" if has_run and not self._by else super().order

    def toggle_tree(self) -> None:
        self._by, self._reversed = "" if self._by == TREE else TREE, False
        self.rearrange()

    def matching_rows(self) -> list[Process]:
        rows = matching(self.all_rows or (), self._typed)
        tree = as_tree(rows) if self._by == TREE else []
        self._branches = {process.pid: branch for process, branch in tree}
        if tree:
            return [process for process, _ in tree]
        rows = in_order(rows, self.sorted_by, self._reversed) if rows else []
        # Until somebody sorts, the run's own are together, with what may be its own.
        return (
            rows
            if self._by
            else sorted(rows, key=lambda row: not row.of_run and row.command is not None)
        )

    def bar_of(self, column: Column[Process], row: Process) -> Sequence[TextRun]:
        value, whole = column.order(row), self._whole.get(column.name)
        fraction = value / whole if value and whole else 0.0
        fraction = fraction if fraction >= _LEAST_SHARE else None
        return [(thick_bar(fraction, column.bar), ACCENT if row.of_run else BAR)]

    def key_of(self, row: Process) -> int:
        return row.pid

    def highlight_own(self) -> bool:
        """Highlight the run's first process; return whether there is one."""
        own = next((n for n, process in enumerate(self.shown_rows) if process.of_run), -1)
        if own >= 0:
            self.highlight(own)
        return own >= 0

    def move(self, steps: int) -> None:
        """Move the highlight; the first step highlights the first process in view."""
        at = self.index if self.highlighted is not None else self._first - (steps > 0)
        self.highlight(max(0, at + steps))

    def put_titles(self) -> None:
        total = len(self.all_rows or ())
        typed = bool(self._typed.strip())
        has_run = any(process.of_run for process in self.all_rows or ())
        scope = f"the run's, {_SCOPE}" if has_run else _SCOPE
        is_whole = self._is_whole
        notes = (
            f"{len(self.shown_rows)} of {total} match" if typed else "",
            "as they were last read, every 5 s" if self._over else "",
            "CPU % of one core",
            "● this run" if has_run else "",
            scope if self.can_highlight and not is_whole else "",
            "" if self._over else "read every second" if is_whole else "read every 5 s",
        )
        runs = fitting(
            tuple((note, PLAIN) for note in notes if note), self.outer_size.width - _BORDER
        )
        below = "".join(text for text, _ in runs) if total else ""
        title = f"Processes {total}" if total and not typed else "Processes"
        # A panel that can't highlight is below the machine's name already.
        if self.can_highlight and self._host is not None:
            title = f"{title} on {self._host}"
        order = self.order if total else ""
        more = (order,) if self._stale and order else ()
        self.set_titles(title, below, right=self._stale or order, more=more)

    def on_resize(self, event: events.Resize) -> None:
        self.put_titles()

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        if self.all_rows is None:
            texts = [self._nothing]
        elif self.all_rows:
            listed = f"Listed are those of a run, {_SCOPE} others."
            texts = ["No process matches that.", "Esc clears the filter."]
            texts[1:1] = [] if self._is_whole else [listed]
        else:
            texts = ["No process is on a GPU, of a run, or busy."]
        lines = [line for text in texts for line in wrapped(text, width - 2, height)]
        return [((f" {line}", MUTED),) for line in lines[:height]]

    def row_of(self, index: int, width: int) -> TextRow:
        process, columns = self.shown_rows[index], self.columns(width)
        pointer = "▸" if index == self.index else " "
        dot = "●" if process.of_run else " "
        runs: list[TextRun] = [(f"{pointer} ", PLAIN), (f"{dot} ", ACCENT)]
        # Unknown columns before an unknown command are left out: one reason replaces them all.
        known_columns = [n for n, column in enumerate(columns) if column.order(process) is not None]
        first_unknown = min(max(known_columns, default=-1) + 1, len(columns) - 1)
        runs += self.cells_of(process, columns[:first_unknown])
        branch = self._branches.get(process.pid, "")
        role = self._roles.get(process.pid, "")
        # A tree shows whose forks they are.
        role = role if process.pid in self._ranks or not branch else ""
        room = width - row_width(tuple(runs)) - cell_len(branch + role)
        command = columns[-1].text(process)
        if cell_len(command) > room:
            command = first_words(without_interpreter(command), room)
        runs += [(branch, MUTED), (role, ACCENT)]
        runs.append((command, MUTED if process.command is None else PLAIN))
        return tuple((text, MUTED) for text, _ in runs) if self._stale else tuple(runs)


class LoadLine(Lines):
    """The load of the machine in a line, with bars where there is room."""

    def rows(self, width: int, height: int, figures: Sequence[Figure], stale: str) -> list[TextRow]:
        """Return the figures that fit, or how old they are."""
        if stale:
            return [((stale, MUTED),)]
        texts = sum(cell_len(f"{figure.label} {figure.value}") + APART for figure in figures)
        bars = sum(figure.fraction is not None for figure in figures)
        cells = min(_LONGEST_BAR, (width - texts) // max(1, bars) - 1)
        row: TextRow = ()
        for figure in figures:
            bar: TextRow = ()
            if figure.fraction is not None and cells >= _SHORTEST_BAR:
                bar = (*bar_on_track(figure.fraction, cells), (" ", PLAIN))
            value: TextRow = ((figure.value, LEVEL_STYLES[figure.level] or STRONG),)
            gap = " " * APART * bool(row)
            longer = (*row, (f"{gap}{figure.label} ", MUTED), *bar, *value)
            row = longer if row_width(longer) <= width else row
        return [row]

    show = shows(rows)


class ProcessDetails(Lines):
    """The chosen process: its whole command, and the reasons for unknown figures."""

    DEFAULT_CLASSES = "panel"

    def show(self, process: Process | None, every: Iterable[Process] = ()) -> None:
        """Show a process among all, or take no room without one."""
        self.display = process is not None
        if process is not None:
            self.set_titles(f"Process {process.pid}", right=_on_gpus(process))
            self._show(process, about_process(process, every))

    def rows(self, width: int, height: int, process: Process, about: str) -> list[TextRow]:
        """Return the command, the reasons for unknown figures, then what the table leaves out."""
        command = process.command or ""
        why = wrapped(reasons_text(process), width, height - bool(command))
        lines = wrapped(command, width, height - len(why))
        rows: list[TextRow] = [((line, PLAIN),) for line in lines]
        rows += [((line, BAD),) for line in why]
        if about and len(rows) < height:
            rows.append(((about, MUTED),))
        return rows

    _show = shows(rows)


def _on_gpus(process: Process) -> str:
    """Name all GPUs of a process, which its column may cut."""
    word = "GPU" if len(set(process.gpus)) == 1 else "GPUs"
    return f"{word} {gpus_text(process.gpus)}" if process.gpus else ""
