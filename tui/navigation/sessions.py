"""Sessions as they happen or were recorded: listed, read, opened and left."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.cli.start import Start
from dlmon.exit_codes import DONE
from dlmon.figures.glyphs import under_way
from dlmon.figures.reading import reading_text
from dlmon.log.folder import LogError
from dlmon.options.run import RunOptions
from dlmon.session.source import SLICE_S, read_to_end
from tui.navigation.stack import ScreenStackApp, ShownSession
from workloads.catalog import WORKLOADS, Workload

if TYPE_CHECKING:
    from textual.screen import Screen

    from dlmon.launch.job import Job
    from dlmon.launch.lifeline import Lifeline
    from dlmon.remote.link import Link
    from dlmon.session.follower import SessionFollower
    from tui.home.screen import HomeScreen
    from tui.live.screen import LiveScreen
    from tui.screens.base import BaseScreen
    from tui.screens.starting import StartingScreen
    from tui.sessions.screen import SessionsScreen
    from tui.watch.recording import RecordingScreen

# The workers that read a log, of which there is one at most.
_READING = "reading"


class SessionsApp(ScreenStackApp):
    """The app as far as it shows sessions."""

    def __init__(self, start: Start, *, ansi_color: bool | None = None) -> None:
        """Read the session's header, where one is to be shown."""
        super().__init__(start, ansi_color=ansi_color)
        self._first_follower = None
        if start.log is not None:
            self._first_follower = self._sources.follow(start.log, launch=start.started)
        self._being_read: SessionFollower | None = None
        self._reading_screen: StartingScreen | None = None

    def action_sessions(self) -> None:
        from dlmon.log.directory import list_sessions
        from dlmon.sweep.log import list_sweeps
        from tui.sessions.screen import SessionsScreen

        directory = self._shown[-1].follower.directory if self._shown else self._directory
        self.push_screen(
            SessionsScreen(partial(list_sessions, directory), partial(list_sweeps, directory))
        )

    def on_home_screen_session_requested(self, message: HomeScreen.SessionRequested) -> None:
        self.open_session(message.log)

    def on_sessions_screen_session_chosen(self, message: SessionsScreen.SessionChosen) -> None:
        self.open_session(message.log)

    def open_session(self, log: Path) -> None:
        """Show a recorded session, or go back to it where it is shown already."""
        if self._being_read is not None:
            return
        for depth, shown in enumerate(self._shown):
            above = self._shown[depth + 1 :]
            if shown.follower.path == log and not any(one.needs_us for one in above):
                self.uncover(shown.screen)
                return
        try:
            follower = self._sources.follow(log)
        except LogError as error:
            self.show_error(str(error))
            return
        follower.poll(SLICE_S)
        if follower.read_share is None:
            self.push_screen(self.session_screen(follower, None))
        else:
            self.push_screen(self.reading_screen(follower))

    def reading_screen(self, follower: SessionFollower) -> StartingScreen:
        """Return what stands until a recorded session is read: one of a day takes a while."""
        from dlmon.log.directory import read_entry
        from tui.screens.starting import StartingScreen
        from tui.sessions.session_details import SessionDetails

        lifeline = self._start.started if follower is self._first_follower else None
        name = follower.session.header.id
        known = SessionDetails()
        known.is_opening = True
        known.show(read_entry(follower.path))
        waiting = StartingScreen(under_way(f"reading {name}"), known)
        self._being_read, self._reading_screen = follower, waiting

        async def read() -> None:
            if self._being_read is not follower:
                return
            follower.poll(SLICE_S)
            await read_to_end(
                follower, lambda share: waiting.show_text(f"{name}\n{reading_text(share)}")
            )
            self._being_read = self._reading_screen = None
            self.uncover(waiting)
            # Not a pop and a push: the screen below would begin to work in between.
            self.switch_screen(self.session_screen(follower, lifeline))

        # Nothing is painted before the app's own queue is read.
        self.call_later(waiting.call_after_refresh, lambda: self.run_worker(read(), group=_READING))
        return waiting

    def stop_reading(self, follower: SessionFollower) -> None:
        """Don't wait until a session is read."""
        if follower is self._first_follower:
            self.exit(DONE)
            return
        waiting = self.screen
        self.pop_screen()
        self.give_up(waiting)

    def give_up(self, screen: Screen[Any]) -> None:
        """Read no more of a session whose screen was taken off."""
        super().give_up(screen)
        if screen is self._reading_screen and self._being_read is not None:
            self.workers.cancel_group(self, _READING)
            self._being_read.close()
            self._being_read = self._reading_screen = None

    def session_screen(
        self,
        follower: SessionFollower,
        started: Lifeline | None,
        link: Link | None = None,
        turn: str = "",
        log_dir: str | None = None,
    ) -> LiveScreen | RecordingScreen:
        """Make the screen of a session, and keep in mind that it is shown.

        Args:
            follower: what is read of the session.
            started: its lifeline, where it is ours.
            link: the connection that it comes over from another machine.
            turn: which of several runs it is, of one that is one of several.
            log_dir: where sessions live on that machine; None for where they do by default.
        """
        if follower.session.header.is_machine_recording:
            from tui.watch.recording import RecordingScreen

            recording = RecordingScreen(follower, follower.path.parent)
            self._shown.append(ShownSession(follower, started, recording, link, log_dir))
            return recording
        from dlmon.comparison.published import own_published
        from dlmon.log.label import read_label
        from tui.live.screen import LiveScreen

        _, problem = own_published()
        if problem is not None:
            self.call_after_refresh(self.show_error, problem)
        known = script_job(started) is not None or how_to_repeat(follower) is not None
        again = known and not self._sweep_runs
        screen = LiveScreen(
            follower, again, lambda: read_label(follower.path), self._references, turn
        )
        self._shown.append(ShownSession(follower, started, screen, link, log_dir))
        self.read_sessions(follower.directory, screen.show_entries)
        return screen

    def on_recording_screen_left(self, message: RecordingScreen.Left) -> None:
        """Close the recording of a machine, as any session."""
        self.on_live_screen_left(message)

    def on_live_screen_left(self, message: BaseScreen.Left) -> None:
        """Close a session: back to where it was opened from, else out."""
        shown = self.shown_on(message.screen)
        if shown is None:
            return
        if self.is_first(shown.screen):
            self.exit(shown.exit_code)
            return
        self.uncover(shown.screen)
        self.close_session(shown)
        if shown.screen.detached:
            self.show_notice(f"{shown.follower.session.header.id} keeps running without dlmon")
        if self.screen is self._home:
            self.read_sessions_for_home()


def script_job(started: Lifeline | None) -> Job | None:
    """Return the job of a script that this dlmon started.

    The command in a log is not run: whoever wrote it may be anybody.
    """
    return started.job if started is not None and started.job.script else None


def how_to_repeat(follower: SessionFollower) -> tuple[Workload, RunOptions] | None:
    """Return what launches a session's workload once more, where it can be launched here."""
    from dlmon.options.jobs import recorded_options

    header = follower.session.header
    workload = WORKLOADS.get(header.workload)
    options = recorded_options(header)
    if workload is None or options is None:
        return None
    options = replace(options, host=follower.host)
    if options.problem(workload) is not None:
        return None
    return workload, options
