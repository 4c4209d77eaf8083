"""The newest sessions, on the home screen: what was run, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from dlmon.figures import units
from dlmon.figures.sessions import outcome, workload_name
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from tui.widgets.lines import ACCENT, BAD, CHOSEN, GOOD, MUTED, PLAIN, STRONG, Lines, cut
from tui.widgets.rows import TextRow, fit

MOST = 20
"""Enough for the tallest terminal."""

_LONGEST_NAME = 24
_STATUS_CELLS = len("interrupted")
_STATUS_STYLES = {
    Status.RUNNING: ACCENT,
    Status.COMPLETED: GOOD,
    Status.STOPPED: PLAIN,
    Status.UNKNOWN: MUTED,
}
_NONE_YET = "No sessions yet. Every run is recorded."


class RecentSessions(Lines, can_focus=True):
    """As many of the newest sessions as there are rows; while it has the focus, one is chosen."""

    DEFAULT_CLASSES = "panel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", priority=True, tooltip="Open the chosen session"),
        Binding("up", "move(-1)", "Previous session", show=False),
        Binding("down", "move(1)", "Next session", show=False),
    ]

    class Chosen(Message):
        """A session is to be shown."""

        def __init__(self, entry: SessionEntry) -> None:
            super().__init__()
            self.entry = entry

    _newest: Sequence[SessionEntry] | None = None
    _index = 0

    def on_mount(self) -> None:
        self.set_titles("Recent sessions")

    def show(self, entries: Sequence[SessionEntry]) -> None:
        """Take all sessions, oldest first."""
        self._newest = entries[: -MOST - 1 : -1]
        self._index = 0
        total = len(entries)
        self.set_titles("Recent sessions", f"{total} recorded" if total else "")
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return a row for each session that has room."""
        if not self._newest:
            return [] if self._newest is None else [cut(((f" {_NONE_YET}", MUTED),), width)]
        shown = self._newest[:height]
        names = min(_LONGEST_NAME, max((cell_len(_called(entry)) for entry in shown), default=0))
        return [self._row(number, entry, width, names) for number, entry in enumerate(shown)]

    def _row(self, number: int, entry: SessionEntry, width: int, names: int) -> TextRow:
        chosen = self.has_focus and number == self._index
        running = entry.status == Status.RUNNING
        row: TextRow = (
            (f" {self.glyphs.pointer if chosen else ' '} ", PLAIN),
            (f"{units.day_and_time(entry.header.wall)}  ", MUTED),
            (f"{fit(_called(entry), names, self.ellipsis)}  ", STRONG),
            (f"{entry.status:<{_STATUS_CELLS}}  ", _STATUS_STYLES.get(entry.status, BAD)),
            ("" if running else outcome(entry), PLAIN),
        )
        if not chosen:
            return cut(row, width, self.ellipsis)
        return ((fit("".join(text for text, _ in row), width, self.ellipsis), CHOSEN),)

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Choose what is clicked; a double click opens it."""
        clicked = event.get_content_offset(self)
        if clicked is None or clicked.y >= len(self._newest or ()):
            return
        self._index = clicked.y
        self.redraw()
        if event.chain == 2:
            self.action_open()

    def action_move(self, steps: int) -> None:
        last = min(len(self._newest or ()), self.size.height) - 1
        self._index = min(max(0, self._index + steps), max(0, last))
        self.redraw()

    def action_open(self) -> None:
        if self._newest:
            self.post_message(self.Chosen(self._newest[self._index]))


def _called(entry: SessionEntry) -> str:
    """Return a session's own name; without one, what it ran."""
    return entry.label.name or workload_name(entry.header)
