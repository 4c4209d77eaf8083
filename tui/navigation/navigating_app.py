"""What the app opens with, and how it is left; what lies between is in the parts it is made of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from dlmon.exit_codes import DONE, INTERRUPTED_BY_USER
from dlmon.stop import TERMINAL_CLOSED
from tui.navigation.launches import Starting
from tui.navigation.recordings import RecordingsApp
from tui.navigation.sweeps import SweepsApp
from tui.textual_internals import allow_switching

# Each screen, and what it shows, is imported when it is first shown: a start pays for one only.
if TYPE_CHECKING:
    from tui.home.screen import HomeScreen
    from tui.screens.base import BaseScreen
    from tui.screens.starting import StartingScreen
    from tui.watch.screen import WatchScreen


class NavigatingApp(RecordingsApp, SweepsApp):
    """The app as far as it goes from screen to screen."""

    def get_default_screen(self) -> Screen[Any]:
        """Return what the arguments say; nothing lies below it."""
        screen = self._first_screen()
        allow_switching(self, screen)
        # Textual reads those of the screens that come later, and only of those.
        self.stylesheet.read_all(screen.css_path)
        return screen

    def _first_screen(self) -> Screen[Any]:
        if self._first_follower is not None:
            return self.reading_screen(self._first_follower)
        if self._first_replay is not None:
            return self.replay_screen(self._first_replay)
        if self._first_fleet is not None:
            return self.fleet_screen(self._first_fleet)
        if self._start.started is not None:
            return self.awaiting_screen(Starting(self._start.started))
        if self._start.remote is not None:
            return self.connecting_screen(self._start.remote)
        if self._sweep is not None:
            return self.screen_of_sweep(self._sweep)
        if self._start.hosts:
            return self.screen_of_hosts(self._start.hosts)
        if self._start.watch_interval_s is not None:
            return self._machine_screen(self._start.watch_interval_s)
        return self._home_screen()

    def _home_screen(self) -> HomeScreen:
        from tui.home.screen import HomeScreen

        options = self.settings.run
        self._home = HomeScreen(partial(self._sources.machine, pcie=options.pcie), options)
        # Nothing is painted before the app's own queue is read.
        self.call_later(self._home.call_after_refresh, self.read_sessions_for_home)
        return self._home

    def action_watch(self) -> None:
        self.push_screen(self._machine_screen(self.settings.run.interval))

    def _machine_screen(self, interval_s: float) -> WatchScreen:
        from tui.watch.screen import WatchScreen

        return WatchScreen(self._sources.machine(interval_s, pcie=self.settings.run.pcie))

    def on_base_screen_left(self, message: BaseScreen.Left) -> None:
        """Go back to the screen below, or out of dlmon where there is none."""
        if self.is_first(message.screen):
            self.exit(DONE)
        elif message.screen is self.screen:
            self.pop_screen()

    def on_starting_screen_left(self, message: StartingScreen.Left) -> None:
        """Don't wait for what is on its way."""
        if message.screen is self._starting_screen:
            self.give_up_launch()
        elif message.screen is self.screen and self._being_read is not None:
            self.stop_reading(self._being_read)
        elif message.screen is self._connecting:
            if self.is_first(message.screen):
                self.exit(INTERRUPTED_BY_USER)
            else:
                self.stop_connecting()

    async def action_quit(self) -> None:
        """Leave; a session that would stop with us is asked about first."""
        for shown in self._shown:
            if shown.needs_us:
                self.uncover(shown.screen)
                shown.screen.action_leave()
                return
        if self._sweep_screen is not None:
            self.uncover(self._sweep_screen)
            self._sweep_screen.action_leave()
            return
        first = next((shown for shown in self._shown if self.is_first(shown.screen)), None)
        self.exit(DONE if first is None else first.exit_code)

    def report_closed_terminal(self) -> None:
        """Give the supervisors that will stop with us the reason, and have other machines stop."""
        for run in self._sweeps:
            run.stop()
        for shown in self._shown:
            if shown.launch is not None and shown.needs_us:
                shown.launch.send(TERMINAL_CLOSED)

    def release(self) -> None:
        """Let go of every lifeline: what was not left running on purpose stops."""
        if self._starting is not None:
            self._starting.launch.release()
        for shown in self._shown:
            if shown.launch is not None:
                shown.launch.release()
