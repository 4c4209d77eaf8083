"""The list of recorded sessions and sweeps, with marks and a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.columns import Column
from dlmon.figures.session.session_columns import COLUMNS, COLUMNS_BY_NAME
from dlmon.figures.session.session_list import (
    Recorded,
    RunOfSweep,
    device_of,
    grouped,
    matching,
    outcome,
    runs_of_sweeps,
    sweep_outcome,
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
    wrapped,
)
from tui.widgets.tables import SortedTable

_STATUS_STYLES = {
    Status.QUEUED: MUTED,
    Status.RUNNING: ACCENT,
    Status.COMPLETED: GOOD,
    Status.STOPPED: PLAIN,
    Status.UNKNOWN: MUTED,
}
_SHORT_NAME, _WIDTH_FOR_LONG_NAME = 12, 100
_LEAST_TIME = len("10.17 s ± 0.01 per epoch")

STARTED = "started"
"""The column by which the runs of a sweep are grouped below it."""
TIME = "time"
"""The last column, which takes the rest of the width and is always shown."""
_SHORTER: dict[str, tuple[int, Callable[[Recorded], str]]] = {
    "device": (2, lambda entry: "" if isinstance(entry, SweepEntry) else device_of(entry)[0]),
    STARTED: (3, lambda entry: units.day_and_time(entry.header.wall)[len("2026-") :]),
}
"""The shorter text of a column, and its turn among the columns that are dropped to save room."""


def in_order(
    entries: Sequence[Recorded],
    runs: Mapping[str, RunOfSweep],
    by: str = STARTED,
    reverse: bool = False,
) -> list[Recorded]:
    """Return recordings sorted by a column, equal ones newest first.

    In the order of their start, the runs of a sweep, which `runs` holds by session id, stand right
    below it.
    """
    if by == STARTED:
        return grouped(entries, runs, oldest_first=reverse)
    newest_first = sorted(entries, key=lambda entry: entry.header.wall, reverse=True)
    return tables.in_order(newest_first, COLUMNS_BY_NAME[by], reverse)


class SessionList(SortedTable[Recorded]):
    """Sessions and sweeps; a line connects the runs of a sweep with its row."""

    title = "Sessions"
    advice: Sequence[str] = (
        "Nothing is recorded yet.",
        "Start a run on the home screen, or in a shell:",
        "dlmon run cifar10-cnn",
    )
    """The lines shown while nothing is recorded."""
    _runs: Mapping[str, RunOfSweep] = {}
    _by = STARTED
    _marked: frozenset[Path] = frozenset()
    _columns: tuple[int, Sequence[Column[Recorded]]] = (-1, ())
    hidden: frozenset[str] = frozenset()
    """The columns that the user hid."""

    @property
    def run_of_sweep(self) -> RunOfSweep | None:
        """The highlighted session's part in a sweep; None if it has none."""
        entry = self.highlighted
        return None if entry is None else self._runs.get(entry.header.id)

    @property
    def marked(self) -> list[Recorded]:
        """The marked rows, filtered out or not."""
        return [entry for entry in self.all_rows or () if entry.path in self._marked]

    @property
    def chosen(self) -> list[Recorded]:
        """The marked rows; if none is marked, the highlighted one."""
        return self.marked or ([] if self.highlighted is None else [self.highlighted])

    def show(self, sessions: Sequence[SessionEntry], sweeps: Sequence[SweepEntry] = ()) -> None:
        """Show other recordings; highlight, marks, order and filter stay."""
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
        """The row of the first session: Enter on a sweep would resume it."""
        sessions = (n for n, row in enumerate(self.shown_rows) if isinstance(row, SessionEntry))
        return next(sessions, 0)

    def hide_columns(self, names: frozenset[str]) -> None:
        """Hide these columns; show all others that fit."""
        self.hidden, self._columns = names, (-1, ())
        self.rearrange()

    def toggle_mark(self) -> None:
        """Mark or unmark the highlighted row, a sweep with its runs; then move to the next row."""
        entry = self.highlighted
        if entry is None:
            return
        paths = {entry.path}
        if isinstance(entry, SweepEntry):
            sessions = entry.sweep.sessions
            paths |= {row.path for row in self.all_rows or () if row.header.id in sessions}
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
            runs.append((self._cell(column, entry), styles.get(column.name, PLAIN)))
        if isinstance(entry, SweepEntry):
            return (*runs, (sweep_outcome(entry), STRONG))
        result = outcome(entry)
        if run is not None:
            return (*runs, (result, PLAIN), (f"{'  ' if result else ''}{run.text}", MUTED))
        return (*runs, (result, PLAIN))

    def _branch(self, index: int) -> str:
        """Return the line that connects a run with its sweep, if that is shown above."""
        sweep = self._runs[self.shown_rows[index].header.id].sweep
        above = {entry.header.id for entry in self.shown_rows[:index]}
        if self._by != STARTED or sweep.header.id not in above:
            return " "
        after = [
            self._runs.get(entry.header.id) for entry in self.shown_rows[index + 1 : index + 2]
        ]
        return "├" if any(run is not None and run.sweep is sweep for run in after) else "╰"

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Say why the list is empty, and what to do about it."""
        if self.all_rows is None:
            texts: Sequence[str] = ["Reading the sessions …"]
        elif self.all_rows:
            texts = ["No session matches that.", "Esc clears the filter."]
        else:
            texts = self.advice
        lines = [line for text in texts for line in wrapped(text, width - 2, height)]
        return [((f" {line}", MUTED if n else PLAIN),) for n, line in enumerate(lines[:height])]

    def columns(self, width: int) -> Sequence[Column[Recorded]]:
        """Return the columns that fit, as wide as their texts."""
        if self._columns[0] != width:
            self._columns = width, self._columns_for(width)
        return self._columns[1]

    def _columns_for(self, width: int) -> list[Column[Recorded]]:
        most = _SHORT_NAME if width < _WIDTH_FOR_LONG_NAME else COLUMNS_BY_NAME["name"].cells
        name_column = replace(COLUMNS_BY_NAME["name"], text=self._name_of, cells=most)
        *columns, time = COLUMNS
        fitted = (
            self._fitted(name_column if column.name == "name" else column)
            for column in columns
            if column.name not in self.hidden
        )
        visible = {column.name: column for column in fitted if column.cells}
        shorter = ((order, name, text) for name, (order, text) in _SHORTER.items())
        dropped = ((column.dropped, column.name, None) for column in columns if column.dropped)
        for _, name, text in sorted((*shorter, *dropped), key=itemgetter(0)):
            columns_width = sum(column.cells + self.GAP for column in visible.values())
            if self.FRONT + columns_width + _LEAST_TIME <= width:
                break
            if text is None:
                visible.pop(name, None)
            elif name in visible:
                visible[name] = self._fitted(replace(visible[name], text=text))
        return [*visible.values(), time]

    def _fitted(self, column: Column[Recorded]) -> Column[Recorded]:
        """Return a column with the cells that it needs: 0 if it is empty."""
        widest = max(map(cell_len, map(column.text, self.all_rows or ())), default=0)
        needed = max(widest, cell_len(column.heading)) if widest else 0
        return replace(column, cells=min(column.cells, needed))

    def _name_of(self, entry: Recorded) -> str:
        """Return a recording's name; a run named like its sweep, which is above it, has none."""
        name, run = entry.label.name or "", self._runs.get(entry.header.id)
        return "" if run is not None and run.sweep.label.name == name else name
