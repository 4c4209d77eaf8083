"""What is done with recorded sessions: play, compare, report, name and delete them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.cli.start import Start
from dlmon.exit_codes import DONE
from dlmon.log.folder import LogError, id_of
from dlmon.records.sanitize import shown_path
from tui.navigation.stack import ScreenStackApp

if TYPE_CHECKING:
    from dlmon.figures.report import Report
    from dlmon.remote.fleet import Fleet
    from dlmon.session.figures import OnRead
    from dlmon.session.replay import ReplaySource
    from tui.hosts.fleet_screen import FleetScreen
    from tui.live.replay_screen import ReplayScreen
    from tui.screens.base import BaseScreen
    from tui.screens.export import ExportControls
    from tui.sessions.screen import SessionsScreen

LONG_S = 2.0


class RecordingsApp(ScreenStackApp):
    """The app as far as it works on what was recorded, and plays it."""

    def __init__(self, start: Start, *, ansi_color: bool | None = None) -> None:
        """Read the header of each session that is to be played."""
        super().__init__(start, ansi_color=ansi_color)
        self._first_replay, self._first_fleet = None, None
        if len(start.replayed) == 1:
            self._first_replay = self._sources.replay(start.replayed[0])
            self._first_replay.host = next(iter(start.replayed_hosts), None)
        elif start.replayed:
            self._first_fleet = self._sources.fleet(start.replayed, start.replayed_hosts or None)

    def on_sessions_screen_replay_requested(self, message: SessionsScreen.ReplayRequested) -> None:
        self.replay(message.log)

    def replay(self, log: Path) -> None:
        """Play a recorded session, or one that still runs as far as it has come."""
        try:
            source = self._sources.replay(log)
        except LogError as error:
            self.show_error(str(error))
        else:
            self.push_screen(self.replay_screen(source))

    def replay_screen(self, source: ReplaySource) -> ReplayScreen:
        from dlmon.log.label import read_label
        from tui.live.replay_screen import ReplayScreen

        screen = ReplayScreen(source, lambda: read_label(source.path), references=self._references)
        self.read_sessions(source.directory, screen.show_entries)
        return screen

    def on_sessions_screen_replay_together_requested(
        self, message: SessionsScreen.ReplayTogetherRequested
    ) -> None:
        """Play the recordings of several machines at once."""
        try:
            fleet = self._sources.fleet(message.logs, None)
        except LogError as error:
            self.show_error(str(error))
        else:
            self.push_screen(self.fleet_screen(fleet))

    def fleet_screen(self, fleet: Fleet) -> FleetScreen:
        from tui.hosts.fleet_screen import FleetScreen

        return FleetScreen(fleet)

    def on_fleet_screen_host_requested(self, message: FleetScreen.HostRequested) -> None:
        """Play one of several machines in full; the others wait for it."""
        from tui.live.replay_screen import ReplayScreen

        self.push_screen(ReplayScreen(message.fleet.lend(message.host), closes=False))

    def on_fleet_screen_left(self, message: FleetScreen.Left) -> None:
        self.on_replay_screen_left(message)

    def on_replay_screen_left(self, message: BaseScreen.Left) -> None:
        """Close a replay: back to where it was opened from, else out."""
        if self.is_first(message.screen):
            self.exit(DONE)
            return
        # Of two keys that come at once, the second finds it gone.
        if message.screen in self.screen_stack:
            self.uncover(message.screen)
            self.pop_screen()

    def on_sessions_screen_compare_requested(
        self, message: SessionsScreen.CompareRequested
    ) -> None:
        """Put two sides of recorded sessions beside each other."""
        from tui.sessions.compare import CompareScreen

        self.push_screen(CompareScreen(message.base, message.new))

    def on_sessions_screen_report_requested(self, message: SessionsScreen.ReportRequested) -> None:
        self.run_worker(self._write_report(message.logs))

    def on_export_controls_export_requested(self, message: ExportControls.ExportRequested) -> None:
        """Make what was asked for, and say where it is."""
        from tui.screens.export import Form

        if message.form is Form.PICTURE:
            # Once the question is gone from the screen.
            self.call_after_refresh(self.save_picture)
        elif not message.logs:
            self.show_error("there is no session to report: choose one")
        elif message.form is Form.HTML:
            self.run_worker(self._write_report(message.logs))
        else:
            self.run_worker(self._copy_markdown(message.logs))

    def save_picture(self) -> None:
        """Save the screen as an SVG file in the working directory, and say where it is.

        What was said before lies over it: that is not in the picture.
        """
        self.clear_notifications()
        self.call_after_refresh(self._save_picture)

    def _save_picture(self) -> None:
        path = _new_path("dlmon", "svg")
        picture = self.export_screenshot(title="dlmon")
        try:
            path.write_text(picture, encoding="utf-8")
        except OSError as error:
            self.show_error(f"the picture can't be saved here: {error.strerror}")
        else:
            self.show_notice(_saved(path))

    async def _write_report(self, logs: Sequence[Path]) -> None:
        """Write a page about sessions into the working directory, and say where it is."""
        from dlmon.render.files import write_file
        from dlmon.render.html import html_of

        path = _new_path("dlmon-report", "html")
        if await self._report(logs, lambda report: write_file(path, [html_of(report)])):
            self.show_notice(_saved(path))

    async def _copy_markdown(self, logs: Sequence[Path]) -> None:
        """Send a report as Markdown to the clipboard of the terminal."""
        from dlmon.render.markdown import markdown_of

        texts: list[str] = []
        if await self._report(logs, lambda report: texts.append(markdown_of(report))):
            self.copy_to_clipboard(texts[0])
            of = id_of(logs[0]) if len(logs) == 1 else f"{len(logs)} sessions"
            self.show_notice(
                f"Markdown of {of} was sent to the terminal's clipboard; where it doesn't take "
                "that, dlmon report prints the same"
            )

    async def _report(self, logs: Sequence[Path], use: Callable[[Report], object]) -> bool:
        """Make a report in a thread and have it used there; return whether that went well."""
        from dlmon.figures.report import make_report
        from dlmon.render.files import ReportError
        from tui.screens.reading import read_in_thread

        long_at = time.monotonic() + LONG_S

        def make(on_read: OnRead) -> None:
            use(make_report(logs, (), on_read=on_read))

        def show_once(share: float) -> None:
            nonlocal long_at
            if time.monotonic() >= long_at:
                long_at = float("inf")
                self.show_notice(f"reading the sessions for the report: {100 * share:.0f} %")

        try:
            await read_in_thread(make, show_once)
        except (ReportError, LogError) as error:
            self.show_error(str(error))
            return False
        return True

    def on_sessions_screen_rename_requested(self, message: SessionsScreen.RenameRequested) -> None:
        """Keep what a session or a sweep is called, and show it."""
        from dlmon.sweep.log import relabel

        try:
            relabel(message.log, message.label)
        except LogError as error:
            self.show_error(str(error))
        self._show_recordings_again()

    def on_sessions_screen_delete_requested(self, message: SessionsScreen.DeleteRequested) -> None:
        self.run_worker(self._delete(message.logs))

    async def _delete(self, logs: Sequence[Path]) -> None:
        """Delete recordings, and show what is left."""
        from dlmon.log.prune import remove

        problems = []
        for log in logs:
            try:
                if self._is_running_sweep(log):
                    raise LogError(f"{id_of(log)} is running: stop it first")
                await asyncio.to_thread(remove, log)
            except LogError as error:
                problems.append(str(error))
        self._show_recordings_again()
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self.show_error(problems[0] + more)

    def _is_running_sweep(self, log: Path) -> bool:
        """Return whether a log is of a sweep that we make: its lock would not keep us from it."""
        return any(run.writer.path == log and not run.ended for run in self._sweeps)

    def _show_recordings_again(self) -> None:
        """Let the screens that show what is recorded show it as it is now."""
        from tui.sessions.screen import SessionsScreen

        for screen in self.screen_stack:
            if isinstance(screen, SessionsScreen):
                screen.action_refresh()
        self.read_sessions_for_home()


def _new_path(name: str, suffix: str) -> Path:
    """Return what to call a file of now in the working directory."""
    return Path(f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.{suffix}")


def _saved(path: Path) -> str:
    """Say where a file of the working directory is."""
    return f"saved {shown_path(path.absolute())}"
