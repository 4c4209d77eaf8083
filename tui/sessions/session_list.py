"""What was recorded: one row is highlighted, some are marked, and what is typed filters them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.session.session_list import (
    Recorded,
    RunOfSweep,
    batch_size_of,
    device_of,
    device_order,
    epochs_of,
    grouped,
    lowered,
    matching,
    outcome,
    rate_of,
    runs_of_sweeps,
    sweep_outcome,
    time_order,
    workload_of,
)
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.sweep.log import SweepEntry
from tui.widgets import tables
from tui.widgets.lines import (
    ACCENT,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    TextRow,
    TextRun,
    fit,
    wrapped,
)
from tui.widgets.tables import Column, SortedTable

_STATUS_STYLES = {
    Status.QUEUED: MUTED,
    Status.RUNNING: ACCENT,
    Status.COMPLETED: GOOD,
    Status.STOPPED: PLAIN,
    Status.UNKNOWN: MUTED,
}
_LONGEST = {"started": 16, "name": 24, "workload": 20, "device": 28, "status": 11, "host": 20}
_SHORT_NAME, _WIDTH_FOR_LONG_NAME = 12, 100
_LONGEST_NUMBER = 14
_YEAR = len("2026-")
_LEAST_TIME = len("10.17 s ± 0.01 per epoch")
_DROPPED = (
    "host", "device's name", "year", "epochs", "batch", "loss", "throughput", "device",
)  # fmt: skip
"""What is left out, one after the other, until the rest has room beside the time."""


STARTED = "started"
"""The column in whose order the runs of a sweep stand below it."""

TIME = "time"
"""The column that takes what room is left, and is always shown."""


def _of_session(value: Callable[[SessionEntry], Any]) -> Callable[[Recorded], Any]:
    """Return what sorts sessions by a value, which sweeps don't have."""
    return lambda entry: None if isinstance(entry, SweepEntry) else value(entry)


def _finite_loss(entry: SessionEntry) -> float | None:
    return entry.loss if entry.loss is not None and math.isfinite(entry.loss) else None


COLUMNS = {
    column.name: column
    for column in (
        Column(STARTED, lambda entry: entry.header.wall, largest_first=True),
        Column("name", lambda entry: lowered(entry.label.name)),
        Column("workload", lambda entry: lowered(workload_of(entry))),
        Column("batch", _of_session(batch_size_of), largest_first=True, is_text=False),
        Column("epochs", _of_session(epochs_of), largest_first=True, is_text=False),
        Column("device", _of_session(device_order)),
        Column("status", lambda entry: entry.status),
        Column("host", lambda entry: lowered(entry.header.host)),
        Column("throughput", _of_session(rate_of), True, is_text=False, title="samples/s"),
        Column("loss", _of_session(_finite_loss), is_text=False),
        Column(TIME, _of_session(time_order)),
    )
}


def in_order(
    entries: Sequence[Recorded],
    runs: Mapping[str, RunOfSweep],
    by: str = STARTED,
    reverse: bool = False,
) -> list[Recorded]:
    """Return recordings sorted by a column, those without a value last; the newest of equals first.

    By the time they started, the runs of a sweep stand right below it; `runs` says by their ids
    which of the sessions a sweep made.
    """
    if by == STARTED:
        return grouped(entries, runs, oldest_first=reverse)
    newest_first = sorted(entries, key=lambda entry: entry.header.wall, reverse=True)
    return tables.in_order(newest_first, COLUMNS[by], reverse)


class SessionList(SortedTable[Recorded]):
    """Sessions and sweeps; a line in front joins the runs of a sweep to its row."""

    title = "Sessions"
    advice: Sequence[str] = (
        "Nothing is recorded yet.",
        "Start a run on the home screen, or in a shell:",
        "dlmon run cifar10-cnn",
    )
    """What stands there in place of rows while nothing is recorded."""
    _runs: Mapping[str, RunOfSweep] = {}
    _by = STARTED
    _marked: frozenset[Path] = frozenset()
    _columns: tuple[int, Sequence[Column]] = (-1, ())
    _year_cells, _names_devices = _YEAR, True
    hidden: frozenset[str] = frozenset()
    """The columns that a person took out."""

    @property
    def run_of_sweep(self) -> RunOfSweep | None:
        """What the highlighted session was run for; None where that was no sweep."""
        entry = self.highlighted
        return None if entry is None else self._runs.get(entry.header.id)

    @property
    def marked(self) -> list[Recorded]:
        """What is marked, be it shown or not."""
        return [entry for entry in self.all_rows or () if entry.path in self._marked]

    @property
    def chosen(self) -> list[Recorded]:
        """What is marked; where nothing is, what is highlighted."""
        return self.marked or ([] if self.highlighted is None else [self.highlighted])

    def show(self, sessions: Sequence[SessionEntry], sweeps: Sequence[SweepEntry] = ()) -> None:
        """Take what was recorded; highlight, marks, order and filter stay."""
        self._runs, self._columns = runs_of_sweeps(sweeps), (-1, ())
        self.all_rows = [*sessions, *sweeps]
        self._marked &= {entry.path for entry in self.all_rows}
        self.rearrange()

    def matching_rows(self) -> list[Recorded]:
        arranged = in_order(self.all_rows or (), self._runs, self._by, self._reversed)
        return matching(arranged, self._typed, self._runs)

    def key_of(self, row: Recorded) -> Path:
        return row.path

    @property
    def first_index(self) -> int:
        """The first session's row: Enter on a sweep would go on with it."""
        sessions = (n for n, row in enumerate(self.shown_rows) if isinstance(row, SessionEntry))
        return next(sessions, 0)

    def hide_columns(self, names: frozenset[str]) -> None:
        """Show all columns that have room but these."""
        self.hidden, self._columns = names, (-1, ())
        self.rearrange()

    def toggle_mark(self) -> None:
        """Mark what is highlighted, a sweep with its runs, or mark it no more; then go on."""
        entry = self.highlighted
        if entry is None:
            return
        paths = {entry.path}
        if isinstance(entry, SweepEntry):
            sessions = entry.sweep.sessions
            paths |= {each.path for each in self.all_rows or () if each.header.id in sessions}
        marked = entry.path in self._marked
        self._marked = self._marked - paths if marked else self._marked | paths
        self.put_titles()
        self.move(1)

    def clear_marks(self) -> None:
        self._marked = frozenset()
        self.put_titles()
        self.highlight(self.index)

    def put_titles(self) -> None:
        total = len(self.all_rows or [])
        count = f"{len(self.shown_rows)} of {total}" if self._typed.strip() else f"{total}"
        marked = f"{len(self._marked)} marked, " if self._marked else ""
        below, right = (f"{marked}{count} recorded", self.order) if total else ("", "")
        self.set_titles(self.title, below, right=right)

    def row_of(self, index: int, width: int) -> TextRow:
        """Return a session, with what it was in a sweep, or a sweep."""
        entry = self.shown_rows[index]
        run = self._runs.get(entry.header.id)
        branch = self._branch(index) if run is not None else " "
        mark = "●" if entry.path in self._marked else " "
        runs: list[TextRun] = [
            (f"{branch}{'▸' if index == self.index else ' '}", MUTED),
            (f"{mark} ", ACCENT),
        ]
        columns = self.columns(width)[:-1]
        has_names = any(column.name == "name" for column in columns)
        styles = {
            STARTED: MUTED,
            "name": STRONG,
            "workload": PLAIN if has_names else STRONG,
            "status": _STATUS_STYLES.get(entry.status, BAD),
            "host": MUTED,
        }
        for column in columns:
            text = self._text(column.name, entry)
            text = text if column.is_text else text.rjust(column.cells)
            text = fit(text, column.cells) + " " * self.GAP
            runs.append((text, styles.get(column.name, PLAIN)))
        if isinstance(entry, SweepEntry):
            return (*runs, (sweep_outcome(entry), STRONG))
        result = outcome(entry)
        if run is not None:
            return (*runs, (result, PLAIN), (f"{'  ' if result else ''}{run.text}", MUTED))
        return (*runs, (result, PLAIN))

    def _branch(self, index: int) -> str:
        """Return what joins a run to the sweep above it, where that is shown."""
        sweep = self._runs[self.shown_rows[index].header.id].sweep
        above = {entry.header.id for entry in self.shown_rows[:index]}
        if self._by != STARTED or sweep.header.id not in above:
            return " "
        after = [
            self._runs.get(entry.header.id) for entry in self.shown_rows[index + 1 : index + 2]
        ]
        return "├" if any(run is not None and run.sweep is sweep for run in after) else "╰"

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Say why there is nothing to see, and what to do about it."""
        if self.all_rows is None:
            texts: Sequence[str] = ["Reading the sessions …"]
        elif self.all_rows:
            texts = ["No session matches that.", "Esc clears the filter."]
        else:
            texts = self.advice
        lines = [line for text in texts for line in wrapped(text, width - 2, height)]
        return [((f" {line}", MUTED if n else PLAIN),) for n, line in enumerate(lines[:height])]

    def columns(self, width: int) -> Sequence[Column]:
        """Return the columns that have room, as wide as these sessions need them."""
        if self._columns[0] != width:
            self._columns = width, self._columns_for(width)
        return self._columns[1]

    def _columns_for(self, width: int) -> list[Column]:
        self._year_cells, self._names_devices = _YEAR, True
        widths = {name: self._widest(name) for name in COLUMNS if name not in self.hidden | {TIME}}
        if width < _WIDTH_FOR_LONG_NAME and "name" in widths:
            widths["name"] = min(widths["name"], _SHORT_NAME)
        for name in _DROPPED:
            taken = sum(cells + self.GAP for cells in widths.values() if cells)
            if self.FRONT + taken + _LEAST_TIME <= width:
                break
            if name == "year" and STARTED in widths:
                self._year_cells, widths[STARTED] = 0, widths[STARTED] - _YEAR
            elif name == "device's name" and "device" in widths:
                self._names_devices = False
                widths["device"] = self._widest("device")
            else:
                widths.pop(name, None)
        shown = [replace(COLUMNS[name], cells=cells) for name, cells in widths.items() if cells]
        return [*shown, COLUMNS[TIME]]

    def _widest(self, name: str) -> int:
        """Return the cells that a column needs; 0 where no session has anything there."""
        texts = [self._text(name, entry) for entry in self.all_rows or ()]
        widest = max(map(cell_len, texts), default=0)
        most = _LONGEST.get(name, _LONGEST_NUMBER)
        return min(most, max(widest, cell_len(COLUMNS[name].heading))) if widest else 0

    def _text(self, column: str, entry: Recorded) -> str:
        match column:
            case "started":
                return units.day_and_time(entry.header.wall)[_YEAR - self._year_cells :]
            case "name":
                return self._name_of(entry)
            case "workload":
                return workload_of(entry)
            case "status":
                return entry.status
            case "host":
                return entry.header.host
        return "" if isinstance(entry, SweepEntry) else self._text_of_session(column, entry)

    def _text_of_session(self, column: str, entry: SessionEntry) -> str:
        value = entry.loss if column == "loss" else COLUMNS[column].value(entry)
        if value is None:
            return ""
        if column == "device":
            device, name = device_of(entry)
            return (units.device(name) if self._names_devices else "") or device
        if column == "loss":
            return units.metric(value)
        if column == "throughput":
            counts_steps = entry.result is not None and bool(entry.result.counts_steps)
            return units.rate(value) + " steps" * counts_steps
        return f"{value:,d}"

    def _name_of(self, entry: Recorded) -> str:
        """Return what a person calls it; a run that is called as its sweep stands below that."""
        name, run = entry.label.name or "", self._runs.get(entry.header.id)
        return "" if run is not None and run.sweep.label.name == name else name
