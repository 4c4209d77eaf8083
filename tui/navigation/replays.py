"""Recorded sessions that are played: one, or those of several machines at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.cli.start import Start
from dlmon.exit_codes import DONE
from dlmon.log.folder import LogError
from tui.navigation.stack import ScreenStackApp

if TYPE_CHECKING:
    from dlmon.remote.fleet import Fleet
    from dlmon.session.replay import ReplaySource
    from tui.hosts.fleet_screen import FleetScreen
    from tui.live.replay_screen import ReplayScreen
    from tui.screens.base import BaseScreen
    from tui.sessions.screen import SessionsScreen


class ReplaysApp(ScreenStackApp):
    """The app as far as it plays what was recorded."""

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
        self.replay_together(message.logs)

    def replay_together(self, logs: Sequence[Path]) -> None:
        """Play the recordings of several machines at once."""
        try:
            fleet = self._sources.fleet(logs, None)
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
