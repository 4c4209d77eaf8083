"""The watch screen of a recorded machine, which reads the log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.figures.lists.session_list import recording_headline
from dlmon.figures.session.phases import reading_text
from dlmon.records.sanitize import shown_path
from dlmon.session.source import RecordedMachine, SessionSource, read_to_end
from tui.machine.help import PANEL
from tui.screens.base import HELP, PALETTE, THEME, TickingScreen
from tui.screens.panes import ALONE, PANE_KEYS
from tui.screens.session_controls import SessionControls
from tui.watch.watch_screen import IN_DEPTH, LEAVE, ZOOM, WatchScreen
from tui.widgets.headline import Headline
from tui.widgets.lines import ACCENT, BAD, PLAIN

_LONGEST_PATH = 48


class RecordingScreen(SessionControls, TickingScreen, WatchScreen, inherit_bindings=False):
    """A machine as recorded in a log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop", tooltip="Stop the recording; asks first"),
        Binding("d", "detach", "Detach", tooltip="Leave dlmon; the recording goes on"),
        *IN_DEPTH,
        HELP,
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

    @property
    def shown_session(self) -> SessionSource:
        return self._session

    def compose_parts(self) -> ComposeResult:
        yield Headline()
        yield from super().compose_parts()

    def tick(self) -> None:
        """Show the state of the recording; leave if the user waited only for its end."""
        session = self._session
        if session.read_share is not None:
            # The log may be far ahead, for example after a suspension.
            self.run_worker(partial(read_to_end, session), exclusive=True)
        self.take_refusal()
        self.take_alert()
        if self.has_parts:
            self._show_headline(session)
        if self._was_running and not session.running:
            self._was_running = False
            self.refresh_bindings()
            self.withdraw_question()
            if self._leave_when_stopped:
                self.leave()

    def _show_headline(self, session: SessionSource) -> None:
        """Show since when it is recorded, how busy the machine was, and any problem."""
        status = "stopping" if self.is_stopping else session.status
        folder = _end_of(shown_path(self._folder), _LONGEST_PATH)
        snapshot, use = session.snapshot(), session.session.machine.use()
        word, sentences = recording_headline(snapshot, status, use, folder)
        more = filter(None, (reading_text(session.read_share), session.problem or ""))
        style = BAD if session.problem else ACCENT if session.running else PLAIN
        self.query_one(Headline).show(word, (*more, *sentences), style)

    def stop(self) -> bool:
        is_stopped = super().stop()
        self.tick()
        return is_stopped


def _end_of(text: str, width: int) -> str:
    """Return a text, or as much of its end as fits behind an ellipsis."""
    while cell_len(text) > width:
        text = f"…{text.removeprefix('…')[1:]}"
    return text
