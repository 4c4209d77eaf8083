"""The recorded sessions, newest first: one is highlighted, and what is typed filters them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.sessions import RUNNING, SessionEntry
from tui import figures
from tui.compared import compared_metric, mode_of, timed_unit, timing_of_result
from tui.widgets.lines import (
    ACCENT,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    cut,
    with_thumb,
    wrapped,
)
from tui.widgets.rows import Row, Run, fit
from tui.widgets.tail import Wheel

_HIGHLIGHTED: tuple[str, ...] = ("session-list--highlighted",)
_GAP = 2
_MARGIN = 1
"""Cells on the right, for the thumb that says which part is shown."""
_HEADING_ROWS = 1

_STATUS_STYLES = {RUNNING: ACCENT, "completed": GOOD, "stopped": PLAIN, "unknown": MUTED}
_WIDTH_FOR_DEVICE, _WIDTH_FOR_DATE, _WIDTH_FOR_DEVICE_NAME, _WIDTH_FOR_HOST = 70, 84, 96, 116
_LONGEST_WORKLOAD, _LONGEST_DEVICE, _LONGEST_HOST = 20, 28, 20


class SessionList(Wheel, Lines):
    """A list that scrolls, below a row that names its columns.

    It never has the focus: keys go to the field that filters it, and the
    screen moves the highlight.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"session-list--highlighted"}
    DEFAULT_CSS = """
    SessionList > .session-list--highlighted {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
        text-style: bold;
    }
    """

    class Highlighted(Message):
        """Another session is highlighted, or none is left."""

    class Chosen(Message):
        """A session was clicked twice."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start before anything was read."""
        super().__init__(ascii=ascii, id=id, classes="panel")
        self._all: list[SessionEntry] | None = None
        self._shown: list[SessionEntry] = []
        self._typed = ""
        self._first = 0
        self._columns: _Columns | None = None
        self.highlighted: SessionEntry | None = None

    def show(self, entries: Sequence[SessionEntry]) -> None:
        """Take the sessions, oldest first; the highlight stays on its session."""
        self._all, self._columns = list(reversed(entries)), None
        self.filter(self._typed)

    def filter(self, typed: str) -> None:
        """Show only what matches; the highlight stays where it can."""
        self._typed = typed
        self._shown = matching(self._all or [], typed)
        before = self.highlighted.path if self.highlighted else None
        same = next((entry for entry in self._shown if entry.path == before), None)
        self._highlight(same or next(iter(self._shown), None))
        total = len(self._all or [])
        count = f"{len(self._shown)} of {total}" if typed.strip() else f"{total}"
        self.set_titles("Sessions", f"{count} recorded" if total else "")

    def move(self, steps: int) -> None:
        """Move the highlight, as far as there are sessions."""
        if self.highlighted is not None:
            index = self._shown.index(self.highlighted) + steps
            self._highlight(self._shown[min(max(index, 0), len(self._shown) - 1)])

    def move_page(self, direction: int) -> None:
        """Move the highlight by as many rows as are shown."""
        self.move(direction * max(1, self._rows_for_sessions - 1))

    def scroll_lines(self, delta: int) -> None:
        """Show what is further up or down; the highlight stays where it is."""
        self._first += delta
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the heading and the sessions in sight."""
        if not self._shown:
            return self._nothing(width, height)
        count = max(0, height - _HEADING_ROWS)
        self._first = min(max(0, self._first), max(0, len(self._shown) - count))
        columns = self._columns
        if columns is None or columns.width != width - _MARGIN:
            columns = _Columns(self._all or [], width - _MARGIN, self.ellipsis)
            self._columns = columns
        in_sight = self._shown[self._first : self._first + count]
        rows = [columns.heading(), *(self._row(entry, columns) for entry in in_sight)]
        rows = [cut(row, width - _MARGIN, self.ellipsis) for row in rows[:height]]
        if len(self._shown) > count:
            rows[_HEADING_ROWS:] = with_thumb(
                rows[_HEADING_ROWS:], self._first, len(self._shown), width, self.ascii
            )
        return rows

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight in sight."""
        self._bring_into_sight()

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a double click chooses it."""
        clicked = event.get_content_offset(self)
        if clicked is None or clicked.y < _HEADING_ROWS:
            return
        index = self._first + clicked.y - _HEADING_ROWS
        if index < len(self._shown):
            self._highlight(self._shown[index])
            if event.chain == 2:
                self.post_message(self.Chosen())

    @property
    def _rows_for_sessions(self) -> int:
        return self.size.height - _HEADING_ROWS

    def _highlight(self, entry: SessionEntry | None) -> None:
        self.highlighted = entry
        self._bring_into_sight()
        self.post_message(self.Highlighted())

    def _bring_into_sight(self) -> None:
        if self.highlighted is not None and self._rows_for_sessions > 0:
            index = self._shown.index(self.highlighted)
            self._first = max(min(self._first, index), index - self._rows_for_sessions + 1)
        self.redraw()

    def _nothing(self, width: int, height: int) -> list[Row]:
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
        rows: list[Row] = [((line, style),) for line, style in zip(lines, styles, strict=False)]
        return rows[:height]

    def _row(self, entry: SessionEntry, columns: _Columns) -> Row:
        highlighted = entry is self.highlighted
        pointer = (">" if self.ascii else "▸") if highlighted else " "
        row = columns.row(entry, f" {pointer} ", self.ascii)
        if not highlighted:
            return row
        text = "".join(text for text, _ in row)
        return ((fit(text, columns.width, self.ellipsis), _HIGHLIGHTED),)


class _Columns:
    """The columns that a width has room for, as wide as these sessions need them."""

    def __init__(self, entries: Sequence[SessionEntry], width: int, ellipsis: str) -> None:
        self.width = width
        self._ellipsis = ellipsis
        self._date_from = 0 if width >= _WIDTH_FOR_DATE else len("2026-")
        self._full_device = width >= _WIDTH_FOR_DEVICE_NAME
        workloads = [entry.header.workload for entry in entries]
        self._workload = _widest([*workloads, "workload"], _LONGEST_WORKLOAD)
        devices = [self._device_of(entry) for entry in entries]
        with_device = width >= _WIDTH_FOR_DEVICE
        self._device = _widest([*devices, "device"], _LONGEST_DEVICE) if with_device else 0
        self._status = _widest([*(entry.status for entry in entries), "status"], len("interrupted"))
        hosts = [entry.header.host for entry in entries]
        self._host = _widest([*hosts, "host"], _LONGEST_HOST) if width >= _WIDTH_FOR_HOST else 0

    def heading(self) -> Row:
        """Return the names of the columns."""
        when = "started".ljust(len("2026-11-20 14:56") - self._date_from)
        texts = [when, *self._fitted("workload", "device", "status", "host"), "time"]
        gap = " " * _GAP
        return (("   " + gap.join(text for text in texts if text), MUTED),)

    def row(self, entry: SessionEntry, pointer: str, ascii: bool) -> Row:
        """Return a session."""
        when = figures.day_and_time(entry.header.wall)[self._date_from :]
        when = when.rjust(len("2026-11-20 14:56") - self._date_from)
        workload, device, status, host = self._fitted(
            entry.header.workload, self._device_of(entry), entry.status, entry.header.host
        )
        gap = " " * _GAP
        runs: list[Run] = [
            (f"{pointer}{when}{gap}", MUTED),
            (workload + gap, STRONG),
            (device + gap if device else "", PLAIN),
            (status + gap, _STATUS_STYLES.get(entry.status, BAD)),
            (host + gap if host else "", MUTED),
        ]
        return (*runs, (outcome(entry, ascii), PLAIN))

    def _fitted(self, workload: str, device: str, status: str, host: str) -> tuple[str, ...]:
        widths = (self._workload, self._device, self._status, self._host)
        texts = (workload, device, status, host)
        return tuple(
            fit(text, width, self._ellipsis) if width else ""
            for text, width in zip(texts, widths, strict=True)
        )

    def _device_of(self, entry: SessionEntry) -> str:
        device, name = device_of(entry)
        return (figures.device(name) if self._full_device else "") or device


def matching(entries: Sequence[SessionEntry], typed: str) -> list[SessionEntry]:
    """Return the sessions that hold every word of `typed`."""
    words = typed.lower().split()
    if not words:
        return list(entries)
    return [entry for entry in entries if all(word in _searched(entry) for word in words)]


def device_of(entry: SessionEntry) -> tuple[str, str]:
    """Return a session's device and its name; until it is over, the one that was asked for."""
    result, header = entry.result, entry.header
    if result is not None:
        return result.device or "", result.device_name or ""
    asked = str(header.options.get("device") or "")
    if asked == "cpu":
        return asked, header.machine.cpu_model or ""
    gpus = header.machine.gpus or ()
    return asked, next((gpu.name for gpu in gpus if asked == f"gpu:{gpu.index}"), "")


def outcome(entry: SessionEntry, ascii: bool = False) -> str:
    """Return what came of a session: its time, or its error; empty where there is neither."""
    result = entry.result
    if result is None:
        return ""
    if result.error:
        return result.error
    timing = timing_of_result(result, entry.header.workload)
    if timing is None:
        return ""
    metric = compared_metric(entry.header.workload, mode_of(result.options))
    return f"{figures.band(timing, ascii)} {timed_unit(metric)}"


def _searched(entry: SessionEntry) -> str:
    header = entry.header
    device = " ".join(device_of(entry))
    when = figures.day_and_time(header.wall)
    return f"{header.id} {header.workload} {entry.status} {device} {header.host} {when}".lower()


def _widest(texts: Sequence[str], most: int) -> int:
    return min(most, max(map(cell_len, texts)))
