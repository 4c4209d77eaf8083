"""The processes of a machine, sorted and filtered, with those of the run marked."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events

from dlmon.figures.columns import Column
from dlmon.figures.machine.processes import (
    columns_at,
    gpus_text,
    matching,
    running_for,
)
from dlmon.records import MAX_BUSIEST, Process
from tui.machine.view import NO_PROCESSES_YET, PROCESSES_INTERVAL_S, MachineView
from tui.widgets import tables
from tui.widgets.lines import (
    ACCENT,
    BAD,
    MUTED,
    PLAIN,
    Lines,
    TextRow,
    TextRun,
    fitting,
    shows,
    wrapped,
)
from tui.widgets.tables import MARGIN, SortedTable

# The cells of a border that hold no text.
_BORDER = 6
_SCOPE = f"those on GPUs, and the {MAX_BUSIEST} busiest"


COLUMNS = columns_at(None)
BY_NAME = {column.name: column for column in COLUMNS}
_GPU_COLUMNS = ("gpus", "gpu_memory_mib")
# A column is left out of a table narrower than this.
_LEAST_WIDTHS = {"threads": 95, "started": 84, "user": 64, "rss_mib": 52, "gpus": 44}


def columns_for(width: int, with_gpus: bool, wall: float | None = None) -> list[Column[Process]]:
    """Return the columns that fit, without those of GPUs unless `with_gpus`."""
    left_out = () if with_gpus else _GPU_COLUMNS
    return [
        column
        for column in columns_at(wall)
        if width >= _LEAST_WIDTHS.get(column.name, 0) and column.name not in left_out
    ]


def in_order(processes: Iterable[Process], by: str, reverse: bool = False) -> list[Process]:
    """Return processes sorted by a column, then by their share of the CPU, then by pid."""
    by_cpu = sorted(processes, key=lambda process: (-(process.cpu_pct or 0.0), process.pid))
    return tables.in_order(by_cpu, BY_NAME[by], reverse)


def reasons(process: Process) -> str:
    """Return the reasons why figures of a process are unknown, each with the figures' names."""
    headings = {column.name: column.heading for column in COLUMNS} | {"of_run": "of this run"}
    unknown: dict[str, list[str]] = {}
    for name, reason in process.why.items():
        unknown.setdefault(reason, []).append(headings.get(name, name))
    return "; ".join(f"{reason}: {', '.join(names)}" for reason, names in unknown.items())


class ProcessList(SortedTable[Process]):
    """The processes; one of them can be highlighted if `choosing`.

    The list never has the focus: its screen handles the keys and calls its methods.
    """

    DEFAULT_CLASSES = ""
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
    _with_gpus = True

    def __init__(
        self, *, choosing: bool = False, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.can_highlight = choosing

    def show(self, view: MachineView) -> None:
        """Show the latest processes; the highlighted one stays highlighted while it lives."""
        latest = view.history.latest
        processes = latest.processes if latest is not None else None
        why = latest.why.get("processes") if latest is not None else None
        # The running times change even if the list of processes does not.
        tick = int(latest.wall // PROCESSES_INTERVAL_S) if latest is not None else None
        state = (why, view.stale, view.is_over, bool(view.gpus), view.host, tick)
        if state == self._state and processes is self.all_rows:
            return
        self.all_rows, self._state = processes, state
        self._stale, self._over, self._host = view.stale, view.is_over, view.host
        self.wall = latest.wall if latest is not None else None
        self._with_gpus = bool(view.gpus) or any(process.gpus for process in processes or ())
        self._nothing = why or ("No processes were recorded." if self._over else NO_PROCESSES_YET)
        self.rearrange()

    @property
    def is_of_this_machine(self) -> bool:
        """True if the processes run on this machine now."""
        return self._host is None and not self._over

    @property
    def sorted_by(self) -> str:
        # If no process is on a GPU, the order is that by CPU.
        return self._by or ("gpu_memory_mib" if self._with_gpus else "cpu_pct")

    def columns(self, width: int) -> list[Column[Process]]:
        return columns_for(width + MARGIN, self._with_gpus, self.wall)

    def matching_rows(self) -> list[Process]:
        return in_order(matching(self.all_rows or (), self._typed), self.sorted_by, self._reversed)

    def key_of(self, row: Process) -> int:
        return row.pid

    def move(self, steps: int) -> None:
        """Move the highlight; the first step highlights the first process in view."""
        at = self.index if self.highlighted is not None else self._first - (steps > 0)
        self.highlight(max(0, at + steps))

    def put_titles(self) -> None:
        total = len(self.all_rows or ())
        typed = bool(self._typed.strip())
        has_run = any(process.of_run for process in self.all_rows or ())
        scope = f"the run's, {_SCOPE}" if has_run else _SCOPE
        notes = (
            f"{len(self.shown_rows)} of {total} match" if typed else "",
            "as they were last read, every 5 s" if self._over else "",
            "CPU % of one core",
            "● this run" if has_run else "",
            scope if self.can_highlight else "",
            "" if self._over else "read every 5 s",
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
            texts = ["No listed process matches that.", listed, "Esc clears the filter."]
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
        runs += self.cells_of(process, width)[:first_unknown]
        runs.append((columns[-1].text(process), MUTED if process.command is None else PLAIN))
        return tuple((text, MUTED) for text, _ in runs) if self._stale else tuple(runs)


class ProcessDetails(Lines):
    """The chosen process: its whole command, and the reasons for unknown figures."""

    DEFAULT_CLASSES = "panel"

    def show(self, process: Process | None, wall: float | None = None) -> None:
        """Show a process at a time of the machine's wall clock, or how to choose one."""
        title = "Process" if process is None else f"Process {process.pid}"
        self.set_titles(title, right="" if process is None else _on_gpus(process))
        self._show(process, wall)

    def rows(
        self, width: int, height: int, process: Process | None, wall: float | None
    ) -> list[TextRow]:
        """Return the command, the reasons for unknown figures, then user and running time."""
        if process is None:
            return [(("Up and down choose a process.", MUTED),)]
        command = process.command or ""
        why = wrapped(reasons(process), width, height - bool(command))
        lines = wrapped(command, width, height - len(why))
        about = (
            f"of {process.user}" if process.user else "",
            "" if process.started is None else f"running for {running_for(process, wall)}",
        )
        rows: list[TextRow] = [((line, PLAIN),) for line in lines]
        rows += [((line, BAD),) for line in why]
        if any(about) and len(rows) < height:
            rows.append(((", ".join(filter(None, about)), MUTED),))
        return rows

    _show = shows(rows)


def _on_gpus(process: Process) -> str:
    """Name all GPUs of a process, which its column may cut."""
    word = "GPU" if len(set(process.gpus)) == 1 else "GPUs"
    return f"{word} {gpus_text(process.gpus)}" if process.gpus else ""
