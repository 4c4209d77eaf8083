"""The stack of screens: what is shown, what of it runs, and how one gets back to a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from dlmon.cli.start import Start
from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER
from dlmon.log.folder import LogError, log_directory
from dlmon.records.sanitize import clean
from tui.textual_internals import PunctualApp

if TYPE_CHECKING:
    from dlmon.figures.comparison import Reference
    from dlmon.launch.job import Refused
    from dlmon.launch.lifeline import Lifeline
    from dlmon.log.directory import SessionEntry
    from dlmon.remote.link import Link
    from dlmon.session.follower import SessionFollower
    from dlmon.sweep.runner import SweepRun
    from tui.home.screen import HomeScreen
    from tui.live.screen import LiveScreen
    from tui.sweep.screen import SweepScreen
    from tui.watch.recording import RecordingScreen

_ERROR_LENGTH = 400

_FIRST_SCREEN = 0


@dataclass
class ShownSession:
    """A session on the stack of screens, with its lifeline where it is ours."""

    follower: SessionFollower
    launch: Lifeline | None
    screen: LiveScreen | RecordingScreen
    link: Link | None = None
    log_dir: str | None = None
    """Where sessions live on the machine that it comes from; None for where they do by default."""

    def is_of(self, host: str, session: str) -> bool:
        """Return whether it is a session of a host."""
        same = self.follower.session.header.id == session
        return same and self.link is not None and self.link.host == host

    @property
    def needs_us(self) -> bool:
        """Whether it would stop if we left without a word."""
        return self.launch is not None and self.follower.running and not self.screen.detached

    @property
    def exit_code(self) -> int:
        """What leaving dlmon from it amounts to."""
        from dlmon.records import Status

        is_script = self.follower.session.header.is_script
        if self.launch is not None and is_script and not self.follower.running:
            return self.follower.script_exit_code
        if self.screen.stop_requested:
            return INTERRUPTED_BY_USER
        if self.follower.why_result_unwritten is not None:
            return FAILED
        good = (Status.RUNNING, Status.UNKNOWN, Status.COMPLETED)
        return DONE if self.follower.status in good else FAILED


class ScreenStackApp(PunctualApp[int]):
    """The app as far as it knows what is shown and what runs."""

    def __init__(self, start: Start, *, ansi_color: bool | None = None) -> None:
        """Take what is to be shown; nothing is opened."""
        super().__init__(ansi_color=ansi_color)
        self.settings = start.settings
        self._start = start
        self._directory, self._sources = start.directory, start.sources
        self._home: HomeScreen | None = None
        self._shown: list[ShownSession] = []
        self._sweep = start.sweep
        self._sweeps: list[SweepRun] = []
        self._sweep_screen: SweepScreen | None = None
        self._references: dict[str, Reference] = {}
        """What each workload is compared with, as it was chosen on a screen."""
        self._refused: Refused | None = None

    def usual_directory(self) -> Path | None:
        """Return where sessions are kept that name no place; None where there is none."""
        chosen = self.settings.log_dir
        try:
            return log_directory(None if chosen is None else Path(chosen))
        except LogError:
            return None

    def is_first(self, screen: Screen[Any]) -> bool:
        """Return whether a screen lies on none: who leaves it leaves dlmon."""
        return screen is self.screen_stack[_FIRST_SCREEN]

    def shown_on(self, screen: Screen[Any]) -> ShownSession | None:
        return next((shown for shown in self._shown if shown.screen is screen), None)

    def uncover(self, screen: Screen[Any]) -> None:
        """Take off what lies on top of a screen: a palette, the help, sessions.

        Nothing lies on one that is gone.
        """
        while screen in self.screen_stack and self.screen is not screen:
            if self._shown and self._shown[-1].screen is self.screen:
                self.close_session(self._shown[-1])
            else:
                taken_off = self.screen
                self.pop_screen()
                self.give_up(taken_off)

    def give_up(self, screen: Screen[Any]) -> None:
        """Do no more of what a screen waited for that was taken off."""

    def close_session(self, shown: ShownSession) -> None:
        """Take the topmost session off the stack."""
        self.pop_screen()
        self.forget_session(shown)

    def forget_session(self, shown: ShownSession) -> None:
        """Let go of a session whose screen is gone."""
        self._shown.remove(shown)
        if shown.launch is not None:
            shown.launch.release()
        shown.follower.close()

    def read_sessions(self, directory: Path, show: Callable[[list[SessionEntry]], None]) -> None:
        """Let a screen know what was recorded, once that is read: it may take a while."""
        from dlmon.log.directory import list_sessions

        async def read() -> None:
            show(await asyncio.to_thread(list_sessions, directory))

        self.run_worker(read())

    def read_sessions_for_home(self) -> None:
        if self._home is not None:
            self.read_sessions(self._directory, self._home.show_entries)

    @property
    def _sweep_runs(self) -> bool:
        return self._sweep is not None and not self._sweep.ended

    @property
    def _swept_hosts(self) -> tuple[str | None, ...]:
        """The machines on which the sweep makes its runs; None is this one."""
        return () if self._sweep is None else self._sweep.sweep.plan.hosts

    def show_notice(self, sentence: str) -> None:
        """Show a sentence for a while."""
        self.notify(sentence, markup=False)

    def show_error(self, reason: str) -> None:
        """Show for a while why something can't be done."""
        self.notify(clean(reason, _ERROR_LENGTH), severity="error", markup=False, timeout=10)
