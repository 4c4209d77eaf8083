"""The watch screen of a recorded machine, which reads the log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from dlmon.figures.lists.session_list import recording_text
from dlmon.figures.session.phases import reading_text
from dlmon.records import Status
from dlmon.records.sanitize import shown_path
from dlmon.session.source import RecordedMachine, SessionSource, read_to_end
from tui.machine.help import PANEL
from tui.screens.base import PALETTE, THEME, TickingScreen
from tui.screens.panes import ALONE, PANE_KEYS
from tui.screens.session_controls import SessionControls
from tui.watch.watch_screen import IN_DEPTH, LEAVE, SHOWN_HELP, ZOOM, WatchScreen
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    MUTED,
    PLAIN,
    GrowingLines,
    TextRow,
    joined,
    shows,
    wrapped,
)

# A shorter end of a path tells nothing.
_SHORTEST_PATH = 12


class RecordingScreen(SessionControls, TickingScreen, WatchScreen, inherit_bindings=False):
    """A machine as recorded in a log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop", tooltip="Stop the recording; asks first"),
        Binding("d", "detach", "Detach", tooltip="Leave dlmon; the recording goes on"),
        *IN_DEPTH,
        SHOWN_HELP,
        *LEAVE,
        ALONE,
        *ZOOM,
        *PANE_KEYS,
        THEME,
        PALETTE,
    ]

    HELP_PAGES = (Path(__file__).with_name("recording.md"), *PANEL)
    # Reading a log needs no sensors here.
    READS_WHEN_COVERED = True

    def __init__(self, session: SessionSource, folder: Path) -> None:
        super().__init__(RecordedMachine(session))
        self._session = session
        self._folder = folder
        self._was_running = session.running
        self._catching_up: Worker[None] | None = None

    @property
    def shown_session(self) -> SessionSource:
        return self._session

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield RecordingLine()

    def tick(self) -> None:
        """Show the state of the recording; leave if the user waited only for its end."""
        session = self._session
        is_behind = session.read_share is not None
        if is_behind and (self._catching_up is None or self._catching_up.is_finished):
            # The log may be far ahead, for example after a suspension.
            self._catching_up = self.run_worker(partial(read_to_end, session))
        self.take_refusal()
        self.take_alert()
        if self.has_parts:
            self.query_one(RecordingLine).show(session, self._folder, self.is_stopping)
        if self._was_running and not session.running:
            self._was_running = False
            self.refresh_bindings()
            self.withdraw_question()
            if self._leave_when_stopped:
                self.leave()

    def stop(self) -> bool:
        is_stopped = super().stop()
        self.tick()
        return is_stopped


class RecordingLine(GrowingLines):
    """The time and the folder of a recording, or its problem."""

    DEFAULT_CSS = "RecordingLine { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 3

    def rows(
        self, width: int, height: int, session: SessionSource, folder: Path, stopping: bool
    ) -> list[TextRow]:
        status = "stopping" if stopping else session.status
        text = reading_text(session.read_share) or recording_text(session.snapshot(), status)
        row: TextRow = ((text, ACCENT if status == Status.RUNNING else PLAIN),)
        room = width - cell_len(text) - APART
        if room >= _SHORTEST_PATH:
            row = joined(row, ((_end_of(shown_path(folder), room), MUTED),), width)
        problem = wrapped(session.problem or "", width, height - 1)
        return [row, *(((line, BAD),) for line in problem)]

    show = shows(rows)


def _end_of(text: str, width: int) -> str:
    """Return a text, or as much of its end as fits behind an ellipsis."""
    while cell_len(text) > width:
        text = f"…{text.removeprefix('…')[1:]}"
    return text
