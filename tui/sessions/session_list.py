"""What was recorded, newest first: one row is highlighted, and what is typed filters them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.sweep.log import SweepEntry
from tui.formatting import units
from tui.formatting.glyphs import Glyphs
from tui.formatting.sessions import (
    Recorded,
    RunOfSweep,
    device_of,
    grouped,
    outcome,
    runs_of_sweeps,
    sweep_outcome,
    workload_of,
)
from tui.widgets.lines import ACCENT, BAD, GOOD, MUTED, PLAIN, STRONG, wrapped
from tui.widgets.row_list import RowList
from tui.widgets.rows import TextRow, TextRun, fit

_GAP = 2
_STATUS_STYLES = {
    Status.RUNNING: ACCENT,
    Status.COMPLETED: GOOD,
    Status.STOPPED: PLAIN,
    Status.UNKNOWN: MUTED,
}
_WIDTH_FOR_DEVICE, _WIDTH_FOR_DATE, _WIDTH_FOR_DEVICE_NAME, _WIDTH_FOR_HOST = 70, 84, 96, 116
_LONGEST_WORKLOAD, _LONGEST_DEVICE, _LONGEST_HOST = 20, 28, 20


class SessionList(RowList):
    """Sessions and sweeps; a line in front joins the runs of a sweep to its row."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._all: list[Recorded] | None = None
        self._shown: list[Recorded] = []
        self._runs: Mapping[str, RunOfSweep] = {}
        self._typed = ""
        self._columns: _Columns | None = None

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
    def count(self) -> int:
        return len(self._shown)

    def show(self, sessions: Sequence[SessionEntry], sweeps: Sequence[SweepEntry] = ()) -> None:
        """Take what was recorded; the highlight stays on its row."""
        recorded: list[Recorded] = [*sessions, *sweeps]
        self._runs, self._columns = runs_of_sweeps(sweeps), None
        self._all = grouped(recorded, self._runs)
        self.filter(self._typed)

    def filter(self, typed: str) -> None:
        """Show only what matches; the highlight stays where it can."""
        before = self.highlighted
        self._typed = typed
        self._shown = matching(self._all or [], typed, self._runs)
        paths = [entry.path for entry in self._shown]
        kept = before is not None and before.path in paths
        self.highlight(paths.index(before.path) if before is not None and kept else self._newest())
        total = len(self._all or [])
        count = f"{len(self._shown)} of {total}" if typed.strip() else f"{total}"
        self.set_titles("Sessions", f"{count} recorded" if total else "")

    def _newest(self) -> int:
        """Return the newest session's row: Enter on a sweep would go on with it."""
        rows = range(len(self._shown))
        return next((row for row in rows if isinstance(self._shown[row], SessionEntry)), 0)

    def heading(self, width: int) -> TextRow:
        return self._columns_for(width).heading()

    def row_of(self, index: int, width: int) -> TextRow:
        entry = self._shown[index]
        run = self._runs.get(entry.header.id)
        pointer = self.glyphs.pointer if index == self.index else " "
        branch = self._branch(index) if run is not None else " "
        return self._columns_for(width).row(entry, run, f"{branch}{pointer} ", self.glyphs)

    def _branch(self, index: int) -> str:
        """Return what joins a run to the sweep above it, where that is shown."""
        run = self._runs[self._shown[index].header.id]
        if not any(entry.header.id == run.sweep.header.id for entry in self._shown[:index]):
            return " "
        after = self._runs.get(self._shown[index + 1].header.id) if self._has(index + 1) else None
        goes_on = after is not None and after.sweep is run.sweep
        return self.glyphs.branch if goes_on else self.glyphs.last_branch

    def _has(self, index: int) -> bool:
        return index < len(self._shown)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        """Say why there is nothing to see, and what to do about it."""
        if self._all is None:
            texts = ["Reading the sessions …"]
        elif self._all:
            texts = ["No session matches that.", "Esc clears the filter."]
        else:
            texts = [
                "Nothing is recorded yet.",
                "Every training run is: start one on the home screen, or in a shell with",
                "dlmon run cifar10-cnn",
            ]
        lines = [line for text in texts for line in wrapped(text, width, height, self.ellipsis)]
        styles = [PLAIN, *[MUTED] * len(lines)]
        rows: list[TextRow] = [((line, style),) for line, style in zip(lines, styles, strict=False)]
        return rows[:height]

    def _columns_for(self, width: int) -> _Columns:
        if self._columns is None or self._columns.width != width:
            self._columns = _Columns(self._all or [], width, self.ellipsis)
        return self._columns


class _Columns:
    """The columns that a width has room for, as wide as these sessions need them."""

    def __init__(self, entries: Sequence[Recorded], width: int, ellipsis: str) -> None:
        self.width = width
        self._ellipsis = ellipsis
        self._date_from = 0 if width >= _WIDTH_FOR_DATE else len("2026-")
        self._full_device = width >= _WIDTH_FOR_DEVICE_NAME
        workloads = [workload_of(entry) for entry in entries]
        self._workload = _widest([*workloads, "workload"], _LONGEST_WORKLOAD)
        devices = [self._device_of(entry) for entry in entries]
        with_device = width >= _WIDTH_FOR_DEVICE
        self._device = _widest([*devices, "device"], _LONGEST_DEVICE) if with_device else 0
        self._status = _widest([*(entry.status for entry in entries), "status"], len("interrupted"))
        hosts = [entry.header.host for entry in entries]
        self._host = _widest([*hosts, "host"], _LONGEST_HOST) if width >= _WIDTH_FOR_HOST else 0

    def heading(self) -> TextRow:
        when = "started".ljust(len("2026-11-20 14:56") - self._date_from)
        texts = [when, *self._fitted("workload", "device", "status", "host"), "time"]
        gap = " " * _GAP
        return (("   " + gap.join(text for text in texts if text), MUTED),)

    def row(self, entry: Recorded, run: RunOfSweep | None, pointer: str, glyphs: Glyphs) -> TextRow:
        """Return a session, with what it was in a sweep, or a sweep."""
        when = units.day_and_time(entry.header.wall)[self._date_from :]
        when = when.rjust(len("2026-11-20 14:56") - self._date_from)
        workload, device, status, host = self._fitted(
            workload_of(entry), self._device_of(entry), entry.status, entry.header.host
        )
        gap = " " * _GAP
        runs: list[TextRun] = [
            (f"{pointer}{when}{gap}", MUTED),
            (workload + gap, STRONG),
            (device + gap if device else "", PLAIN),
            (status + gap, _STATUS_STYLES.get(entry.status, BAD)),
            (host + gap if host else "", MUTED),
        ]
        if isinstance(entry, SweepEntry):
            return (*runs, (sweep_outcome(entry, glyphs), STRONG))
        result = outcome(entry, glyphs)
        runs.append((result, PLAIN))
        if run is not None:
            runs.append((f"{gap if result else ''}{run.text}", MUTED))
        return tuple(runs)

    def _fitted(self, workload: str, device: str, status: str, host: str) -> tuple[str, ...]:
        widths = (self._workload, self._device, self._status, self._host)
        texts = (workload, device, status, host)
        return tuple(
            fit(text, width, self._ellipsis) if width else ""
            for text, width in zip(texts, widths, strict=True)
        )

    def _device_of(self, entry: Recorded) -> str:
        if isinstance(entry, SweepEntry):
            return ""
        device, name = device_of(entry)
        return (units.device(name) if self._full_device else "") or device


def matching(
    entries: Sequence[Recorded], typed: str, runs: Mapping[str, RunOfSweep] | None = None
) -> list[Recorded]:
    """Return what holds every word of `typed`.

    Args:
        entries: sessions and sweeps.
        typed: words, with blanks between them.
        runs: which of the sessions a sweep made, by their ids.
    """
    words = typed.lower().split()
    if not words:
        return list(entries)
    return [
        entry
        for entry in entries
        if all(word in _searched(entry, (runs or {}).get(entry.header.id)) for word in words)
    ]


def _searched(entry: Recorded, run: RunOfSweep | None) -> str:
    header = entry.header
    texts = [header.id, workload_of(entry), entry.status, header.host]
    texts.append(units.day_and_time(header.wall))
    if isinstance(entry, SweepEntry):
        texts.append(sweep_outcome(entry))
    else:
        texts += device_of(entry)
    if run is not None:
        texts += [run.sweep.header.id, run.text]
    return " ".join(texts).lower()


def _widest(texts: Sequence[str], most: int) -> int:
    return min(most, max(map(cell_len, texts)))
