"""The list of recorded sessions and sweeps, with marks and a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.columns import Column
from dlmon.figures.lists.recent_sessions import RecentSession
from dlmon.figures.lists.session_columns import (
    CHANGE,
    COLUMNS,
    COLUMNS_BY_NAME,
    CURVE,
    CURVE_CELLS,
)
from dlmon.figures.lists.session_list import (
    Recorded,
    RunOfSweep,
    bad_loss_text,
    device_of,
    grouped,
    matching,
    result_text,
    runs_of_sweeps,
    sweep_outcome,
    what_of,
)
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import Status
from dlmon.render.wrap import first_words
from dlmon.sweep.log import SweepEntry
from tui.drawing.plot import fitted_rows
from tui.widgets import tables
from tui.widgets.lines import (
    ACCENT,
    BAD,
    BAR,
    MUTED,
    PLAIN,
    STRONG,
    TextRow,
    TextRun,
    first_parts,
    least_part,
    whole_parts,
    wrapped,
)
from tui.widgets.tables import SortedTable

_STATUS_STYLES = {
    Status.QUEUED: MUTED,
    Status.RUNNING: ACCENT,
    Status.COMPLETED: PLAIN,
    Status.STOPPED: PLAIN,
    Status.UNKNOWN: MUTED,
}
_LEAST_WHAT, _LEAST_TIME = 24, len("10.17 s ± 0.01 per epoch")
_LEAST_OF_SWEEP = 12
_SHARE = 3
"""What trained and its result have at least these cells, and a third of the width."""
_SAYS_NOTHING_ALONE = ("device", "host")
"""The columns that are the first to be dropped if all their texts are alike."""
# How long ago the sessions began is written anew.
_REFRESH_S = 30.0

STARTED = "started"
"""The column by which the runs of a sweep are grouped below it."""
TIME = "time"
"""The last column, which takes the rest of the width and is always shown."""
_SHORTER: dict[str, tuple[int, Callable[[Recorded], str]]] = {
    "device": (2, lambda entry: "" if isinstance(entry, SweepEntry) else device_of(entry)[0]),
}
"""The shorter text of a column, and its turn among the columns that are dropped to save room."""


def in_order(
    entries: Sequence[Recorded],
    runs: Mapping[str, RunOfSweep],
    by: str = STARTED,
    reverse: bool = False,
    columns: Mapping[str, Column[Recorded]] = COLUMNS_BY_NAME,
) -> list[Recorded]:
    """Return recordings sorted by a column, equal ones newest first.

    In the order of their start, the runs of a sweep, which `runs` holds by session id, stand right
    below it.
    """
    if by == STARTED:
        return grouped(entries, runs, oldest_first=reverse)
    newest_first = sorted(entries, key=lambda entry: entry.header.wall, reverse=True)
    return tables.in_order(newest_first, columns[by], reverse)


def _number_at_start(text: str) -> str:
    number = text.partition(" ")[0]
    return number if number[:1].isdigit() else ""


class SessionList(SortedTable[Recorded]):
    """Sessions and sweeps; a line connects the runs of a sweep with its row."""

    title = "Sessions"
    advice: Sequence[str] = (
        "Nothing is recorded yet.",
        "Start a run on the home screen, or in a shell:",
        "dlmon exec -- python train.py",
        "dlmon run cifar10-cnn",
    )
    """The lines shown while nothing is recorded."""
    _runs: Mapping[str, RunOfSweep] = {}
    _by = STARTED
    _marked: frozenset[Path] = frozenset()
    _longest_number = 0
    _columns: tuple[int, Sequence[Column[Recorded]]] = (-1, ())
    hidden: frozenset[str] = frozenset()
    """The columns that the user hid."""
    _recent: Mapping[Path, RecentSession] = {}

    def __init__(self, wall_clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._wall_clock = wall_clock

    def on_mount(self) -> None:
        self.set_interval(_REFRESH_S, self._write_anew)

    def _write_anew(self) -> None:
        self._columns = (-1, ())
        self.redraw()

    @property
    def run_of_sweep(self) -> RunOfSweep | None:
        """The highlighted session's part in a sweep; None if it has none."""
        entry = self.highlighted
        return None if entry is None else self._runs.get(entry.header.id)

    @property
    def _arranged(self) -> list[Recorded]:
        change = replace(COLUMNS_BY_NAME[CHANGE], order=self._change_order)
        columns = {**COLUMNS_BY_NAME, CHANGE: change}
        return in_order(self.all_rows or (), self._runs, self._by, self._reversed, columns)

    @property
    def marked(self) -> list[Recorded]:
        """The marked rows in their order, filtered out or not."""
        return [entry for entry in self._arranged if entry.path in self._marked]

    @property
    def chosen(self) -> list[Recorded]:
        """The marked rows; if none is marked, the highlighted one."""
        return self.marked or ([] if self.highlighted is None else [self.highlighted])

    def show(self, sessions: Sequence[SessionEntry], sweeps: Sequence[SweepEntry] = ()) -> None:
        """Show other recordings; highlight, marks, order and filter stay."""
        self._runs, self._columns = runs_of_sweeps(sweeps), (-1, ())
        self.all_rows = [*sessions, *sweeps]
        numbers = (_number_at_start(result_text(entry)) for entry in sessions)
        self._longest_number = max(map(len, numbers), default=0)
        self._marked &= {entry.path for entry in self.all_rows}
        self.rearrange()

    def show_recent(self, sessions: Sequence[RecentSession]) -> None:
        """Show how these sessions compare with those before them, and their losses."""
        self._recent = {session.entry.path: session for session in sessions}
        self._write_anew()
        self.highlight(self.index, scroll=False)

    def losses_of(self, entry: Recorded) -> Sequence[float]:
        """Return the training loss of a session over time, as far as it was read."""
        recent = self._recent.get(entry.path)
        return () if recent is None else recent.losses

    def _change_of(self, entry: Recorded) -> str:
        recent = self._recent.get(entry.path)
        return "" if recent is None else recent.change_text

    def _change_order(self, entry: Recorded) -> float | None:
        recent = self._recent.get(entry.path)
        return None if recent is None or recent.change is None else recent.change.value

    def matching_rows(self) -> list[Recorded]:
        return matching(self._arranged, self._typed, self._runs)

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

    @property
    def order(self) -> str:
        if self._by == STARTED:
            return "oldest first" if self._reversed else "newest first"
        return super().order

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
        style = _STATUS_STYLES.get(entry.status, BAD)
        loss = PLAIN
        if isinstance(entry, SessionEntry) and bad_loss_text(entry):
            style = loss = BAD
        styles = {STARTED: MUTED, "what": STRONG, "host": MUTED, "loss": loss, CURVE: BAR}
        for column in self.columns(width)[:-1]:
            runs.append((self._cell(column, entry), styles.get(column.name, PLAIN)))
        room = max(1, width - sum(cell_len(text) for text, _ in runs))
        if isinstance(entry, SweepEntry):
            state = "" if entry.status == Status.COMPLETED else f"{entry.status}: "
            return (*runs, (first_words(f"{state}{sweep_outcome(entry)}", room), STRONG))
        of_sweep, text = "" if run is None else f"  {run.text}", self._result_of(entry)
        # No figure is cut for what was varied, which the command may tell too.
        result = whole_parts(text, max(room - cell_len(of_sweep), cell_len(least_part(text))))
        left = room - cell_len(result)
        of_sweep = first_parts(of_sweep, left, ", ") if left >= _LEAST_OF_SWEEP else ""
        return (*runs, (result, style), (of_sweep if result else of_sweep.lstrip(), MUTED))

    def _result_of(self, entry: SessionEntry) -> str:
        """Return the result; numbers of different lengths end below each other."""
        text = result_text(entry)
        number = _number_at_start(text)
        return " " * (self._longest_number - len(number)) * bool(number) + text

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
        *columns, time = COLUMNS
        now = self._wall_clock()
        written: dict[str, Callable[[Recorded], str]] = {
            STARTED: lambda entry: units.ago(entry.header.wall, now),
            "what": self._what_of,
            CHANGE: self._change_of,
            CURVE: lambda entry: fitted_rows(self.losses_of(entry), CURVE_CELLS)[0],
        }
        fitted = (
            self._fitted(replace(column, text=written.get(column.name, column.text)))
            for column in columns
            if column.name not in self.hidden
        )
        visible = {column.name: column for column in fitted if column.cells}
        what = visible.get("what")
        if what is not None:
            least = max(_LEAST_WHAT, width // _SHARE)
            visible["what"] = replace(what, cells=min(what.cells, least))
        room = width - self.FRONT - max(_LEAST_TIME, width // _SHARE)
        shorter = ((order, name, text) for name, (order, text) in _SHORTER.items())
        dropped = (
            (column.dropped * (not self._is_alike(column)), column.name, None)
            for column in columns
            if column.dropped
        )
        for _, name, text in sorted((*dropped, *shorter), key=itemgetter(0)):
            if self._cells_of(visible.values()) <= room:
                break
            if text is None:
                visible.pop(name, None)
            elif name in visible:
                visible[name] = self._fitted(replace(visible[name], text=text))
        if what is not None:
            spare = max(0, room - self._cells_of(visible.values()))
            cells = min(what.cells, visible["what"].cells + spare)
            visible["what"] = replace(
                what, cells=cells, text=lambda entry: first_words(self._what_of(entry), cells)
            )
        return [*visible.values(), time]

    def _cells_of(self, columns: Iterable[Column[Recorded]]) -> int:
        return sum(column.cells + self.GAP for column in columns)

    def _fitted(self, column: Column[Recorded]) -> Column[Recorded]:
        """Return a column with the cells that it needs: 0 if it is empty."""
        texts = set(map(column.text, self.all_rows or ()))
        widest = max(map(cell_len, texts), default=0)
        needed = max(widest, cell_len(column.heading)) if widest else 0
        return replace(column, cells=min(column.cells, needed))

    def _is_alike(self, column: Column[Recorded]) -> bool:
        """Return whether a column says the same of all sessions, so that others go before it."""
        texts = set(map(column.text, self.all_rows or ())) - {""}
        return column.name in _SAYS_NOTHING_ALONE and len(texts) == 1

    def _what_of(self, entry: Recorded) -> str:
        """Return what trained; a run named like its sweep, which is above it, has no name."""
        run = self._runs.get(entry.header.id)
        is_named = run is None or run.sweep.label.name != entry.label.name
        return what_of(entry if is_named else replace(entry, label=Label()))
