"""What was recorded: one row is highlighted, some are marked, and what is typed filters them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from textual import events

from dlmon.figures import units
from dlmon.figures.sessions import (
    Recorded,
    RunOfSweep,
    device_of,
    outcome,
    runs_of_sweeps,
    sweep_outcome,
    workload_of,
)
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.sweep.log import SweepEntry
from tui.sessions.arrangement import BY_NAME, STARTED, in_order, matching, next_column
from tui.widgets.lines import ACCENT, BAD, GOOD, MUTED, PLAIN, STRONG, UNDERLINED, wrapped
from tui.widgets.row_list import MARGIN, RowList
from tui.widgets.rows import TextRow, TextRun, fit

_GAP = 2
# What joins a run to its sweep, what points at the highlighted row, and what marks a row.
_FRONT = 4
_STATUS_STYLES = {
    Status.RUNNING: ACCENT,
    Status.COMPLETED: GOOD,
    Status.STOPPED: PLAIN,
    Status.UNKNOWN: MUTED,
}
# What there has to be room for beside the names.
_WIDTH_FOR_DEVICE, _WIDTH_FOR_DATE, _WIDTH_FOR_DEVICE_NAME, _WIDTH_FOR_HOST = 70, 84, 96, 116
_WIDTH_FOR_LONG_NAME = 100
_LONGEST_WORKLOAD, _LONGEST_DEVICE, _LONGEST_HOST = 20, 28, 20
_LONGEST_NAME, _SHORT_NAME = 24, 12


class SessionList(RowList):
    """Sessions and sweeps; a line in front joins the runs of a sweep to its row."""

    title = "Sessions"
    advice: Sequence[str] = (
        "Nothing is recorded yet.",
        "Training runs are recorded here: start one on the home screen, or in a shell with",
        "dlmon run cifar10-cnn",
    )
    """What stands there in place of rows while nothing is recorded."""
    _all: Sequence[Recorded] | None = None
    _shown: Sequence[Recorded] = ()
    _runs: Mapping[str, RunOfSweep] = {}
    _typed = ""
    _columns: _Columns | None = None
    _by = STARTED
    _reversed = False
    _marked: frozenset[Path] = frozenset()

    @property
    def is_read(self) -> bool:
        """Whether it was said what is recorded."""
        return self._all is not None

    @property
    def highlighted(self) -> Recorded | None:
        """What is highlighted; None where nothing is shown."""
        return self._shown[self.index] if self._shown else None

    @property
    def run_of_sweep(self) -> RunOfSweep | None:
        """What the highlighted session was run for; None where that was no sweep."""
        entry = self.highlighted
        return None if entry is None else self._runs.get(entry.header.id)

    @property
    def marked(self) -> list[Recorded]:
        """What is marked, be it shown or not."""
        return [entry for entry in self._all or () if entry.path in self._marked]

    @property
    def chosen(self) -> list[Recorded]:
        """What is marked; where nothing is, what is highlighted."""
        return self.marked or ([] if self.highlighted is None else [self.highlighted])

    @property
    def count(self) -> int:
        return len(self._shown)

    def show(self, sessions: Sequence[SessionEntry], sweeps: Sequence[SweepEntry] = ()) -> None:
        """Take what was recorded; highlight, marks, order and filter stay."""
        self._runs, self._columns = runs_of_sweeps(sweeps), None
        self._all = [*sessions, *sweeps]
        self._marked &= {entry.path for entry in self._all}
        self._arrange()

    def filter(self, typed: str) -> None:
        """Show only what matches; the highlight stays where it can."""
        self._typed = typed
        self._arrange()

    def sort_by(self, name: str) -> None:
        """Sort by a column; by the same one once more, the other way round."""
        self._reversed = name == self._by and not self._reversed
        self._by = name
        self._arrange()

    def sort_by_next(self, step: int) -> None:
        """Sort by the next column that is shown, or by the one before."""
        shown = self._columns_for(self._inner_width).names
        self._by, self._reversed = next_column(self._by, step, shown), False
        self._arrange()

    def reverse(self) -> None:
        self.sort_by(self._by)

    def toggle_mark(self) -> None:
        """Mark what is highlighted, a sweep with its runs, or mark it no more; then go on."""
        entry = self.highlighted
        if entry is None:
            return
        paths = {entry.path}
        if isinstance(entry, SweepEntry):
            sessions = entry.sweep.sessions
            paths |= {each.path for each in self._all or () if each.header.id in sessions}
        marked = entry.path in self._marked
        self._marked = self._marked - paths if marked else self._marked | paths
        self._put_counts()
        self.move(1)

    def clear_marks(self) -> None:
        self._marked = frozenset()
        self._put_counts()
        self.highlight(self.index)

    def _arrange(self) -> None:
        """Put what matches in order; the highlight stays on its row where that is shown."""
        before = self.highlighted
        arranged = in_order(self._all or (), self._runs, self._by, self._reversed)
        self._shown = matching(arranged, self._typed, self._runs)
        paths = [entry.path for entry in self._shown]
        kept = before is not None and before.path in paths
        self._put_counts()
        self.highlight(paths.index(before.path) if before is not None and kept else self._newest())

    def _put_counts(self) -> None:
        total = len(self._all or [])
        count = f"{len(self._shown)} of {total}" if self._typed.strip() else f"{total}"
        marked = f"{len(self._marked)} marked, " if self._marked else ""
        order = f"by {self._by}{' reversed' * self._reversed}"
        below, right = (f"{marked}{count} recorded", order) if total else ("", "")
        self.set_titles(self.title, below, right=right)

    def _newest(self) -> int:
        """Return the first session's row: Enter on a sweep would go on with it."""
        rows = range(len(self._shown))
        return next((row for row in rows if isinstance(self._shown[row], SessionEntry)), 0)

    def heading(self, width: int) -> TextRow:
        return self._columns_for(width).heading(self._by, self._reversed)

    def row_of(self, index: int, width: int) -> TextRow:
        entry = self._shown[index]
        run = self._runs.get(entry.header.id)
        pointer = "▸" if index == self.index else " "
        branch = self._branch(index) if run is not None else " "
        mark = "●" if entry.path in self._marked else " "
        front = ((f"{branch}{pointer}", MUTED), (f"{mark} ", ACCENT))
        return (*front, *self._columns_for(width).row(entry, run))

    def _branch(self, index: int) -> str:
        """Return what joins a run to the sweep above it, where that is shown."""
        if self._by != STARTED:
            return " "
        run = self._runs[self._shown[index].header.id]
        if not any(entry.header.id == run.sweep.header.id for entry in self._shown[:index]):
            return " "
        after = self._runs.get(self._shown[index + 1].header.id) if self._has(index + 1) else None
        goes_on = after is not None and after.sweep is run.sweep
        return "├" if goes_on else "╰"

    def _has(self, index: int) -> bool:
        return index < len(self._shown)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose name is clicked; the base takes a click on a row."""
        clicked = event.get_content_offset(self)
        if clicked is not None and clicked.y == 0 and self._shown:
            column = self._columns_for(self._inner_width).at(clicked.x)
            if column is not None:
                self.sort_by(column)

    @property
    def _inner_width(self) -> int:
        return self.size.width - MARGIN

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Say why there is nothing to see, and what to do about it."""
        if not self.is_read:
            texts = ["Reading the sessions …"]
        elif self._all:
            texts = ["No session matches that.", "Esc clears the filter."]
        else:
            texts = list(self.advice)
        lines = [line for text in texts for line in wrapped(text, width, height)]
        styles = [PLAIN, *[MUTED] * len(lines)]
        rows: list[TextRow] = [((line, style),) for line, style in zip(lines, styles, strict=False)]
        return rows[:height]

    def _columns_for(self, width: int) -> _Columns:
        if self._columns is None or self._columns.width != width:
            self._columns = _Columns(self._all or [], self._runs, width)
        return self._columns


class _Columns:
    """The columns that a width has room for, as wide as these sessions need them."""

    def __init__(
        self,
        entries: Sequence[Recorded],
        runs: Mapping[str, RunOfSweep],
        width: int,
    ) -> None:
        self.width = width
        names = [_name_of(entry, runs.get(entry.header.id)) for entry in entries]
        longest = _LONGEST_NAME if width >= _WIDTH_FOR_LONG_NAME else _SHORT_NAME
        name = _widest([*names, "name"], longest) if any(names) else 0
        # A person's own names come before what is known of the machine.
        room = width - (name + _GAP if name else 0)
        self._date_from = 0 if room >= _WIDTH_FOR_DATE else len("2026-")
        self._full_device = room >= _WIDTH_FOR_DEVICE_NAME
        workloads = [workload_of(entry) for entry in entries]
        devices = [self._device_of(entry) for entry in entries]
        statuses = [entry.status for entry in entries]
        hosts = [entry.header.host for entry in entries]
        cells = {
            STARTED: len("2026-11-20 14:56") - self._date_from,
            "name": name,
            "workload": _widest([*workloads, "workload"], _LONGEST_WORKLOAD),
            "device": _widest([*devices, "device"], _LONGEST_DEVICE),
            "status": _widest([*statuses, "status"], len("interrupted")),
            "host": _widest([*hosts, "host"], _LONGEST_HOST),
        }
        if room < (_WIDTH_FOR_DATE if name else _WIDTH_FOR_DEVICE):
            cells["device"] = 0
        if room < _WIDTH_FOR_HOST:
            cells["host"] = 0
        self._cells = {column: count for column, count in cells.items() if count}
        self.names = (*self._cells, "time")
        """The columns that are shown."""

    def heading(self, by: str, reverse: bool) -> TextRow:
        """Return the names of the columns, with an arrow at the one that it is sorted by."""
        runs: list[TextRun] = [(" " * _FRONT, MUTED)]
        for name in self.names:
            is_sorted = name == by
            down = BY_NAME[name].largest_first != reverse
            arrow = "▼" if down else "▲"
            title = f"{arrow}{name}" if is_sorted else name
            pad = max(0, self._cells.get(name, 0) - cell_len(title))
            runs.append((title, UNDERLINED if is_sorted else MUTED))
            # An arrow may take a cell of the gap.
            over = max(0, cell_len(title) - self._cells.get(name, cell_len(title)))
            runs.append((" " * (pad + _GAP - over), MUTED))
        return tuple(runs[:-1])

    def at(self, x: int) -> str | None:
        """Return the column that a cell of the heading belongs to."""
        right = _FRONT
        for name in self.names:
            right += self._cells.get(name, self.width) + _GAP
            if x < right:
                return name if x >= _FRONT else None
        return None

    def row(self, entry: Recorded, run: RunOfSweep | None) -> TextRow:
        """Return a session, with what it was in a sweep, or a sweep."""
        when = units.day_and_time(entry.header.wall)[self._date_from :]
        cells: dict[str, TextRun] = {
            STARTED: (when.rjust(self._cells[STARTED]), MUTED),
            "name": (_name_of(entry, run), STRONG),
            "workload": (workload_of(entry), PLAIN if "name" in self._cells else STRONG),
            "device": (self._device_of(entry), PLAIN),
            "status": (entry.status, _STATUS_STYLES.get(entry.status, BAD)),
            "host": (entry.header.host, MUTED),
        }
        runs: list[TextRun] = []
        for column, count in self._cells.items():
            text, style = cells[column]
            runs.append((fit(text, count) + " " * _GAP, style))
        if isinstance(entry, SweepEntry):
            return (*runs, (sweep_outcome(entry), STRONG))
        result = outcome(entry)
        runs.append((result, PLAIN))
        if run is not None:
            runs.append((f"{' ' * _GAP if result else ''}{run.text}", MUTED))
        return tuple(runs)

    def _device_of(self, entry: Recorded) -> str:
        if isinstance(entry, SweepEntry):
            return ""
        device, name = device_of(entry)
        return (units.device(name) if self._full_device else "") or device


def _name_of(entry: Recorded, run: RunOfSweep | None) -> str:
    """Return what a person calls it; a run that is called as its sweep stands below that."""
    name = entry.label.name or ""
    return "" if run is not None and run.sweep.label.name == name else name


def _widest(texts: Sequence[str], most: int) -> int:
    return min(most, max(map(cell_len, texts)))
