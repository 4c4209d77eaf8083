"""What is shown of other machines: their cards, and sessions that are there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dlmon.cli.start import Start
from dlmon.exit_codes import WRONG_ARGUMENTS
from dlmon.figures.glyphs import under_way
from dlmon.figures.reading import reading_text
from dlmon.log.folder import LogError
from tui.navigation.sessions import SessionsApp
from tui.navigation.stack import ShownSession

if TYPE_CHECKING:
    from textual.screen import Screen

    from dlmon.log.directory import SessionEntry
    from dlmon.remote.follower import RemoteFollower
    from dlmon.remote.link import Link
    from dlmon.remote.start import RemoteStart
    from dlmon.sweep.log import SweepEntry
    from tui.hosts.pick import HostPicker
    from tui.hosts.screen import HostsScreen
    from tui.screens.starting import StartingScreen
    from tui.sessions.of_host import HostSessionsScreen

# The workers that connect, of which there is one at most.
_CONNECTING = "connecting"


class OtherMachinesApp(SessionsApp):
    """The app as far as it shows what is on other machines."""

    def __init__(self, start: Start, *, ansi_color: bool | None = None) -> None:
        super().__init__(start, ansi_color=ansi_color)
        self._links: list[Link] = []
        self._connecting: StartingScreen | None = None

    def screen_of_hosts(self, names: Sequence[str]) -> HostsScreen:
        """Return the cards of machines, by their names."""
        from dlmon.alerts.of_hosts import HostAlerts
        from tui.hosts.screen import HostsScreen

        interval_s = self._start.watch_interval_s or self.settings.run.interval
        pcie = self.settings.run.pcie
        hosts = [self._sources.hosts(name, interval_s, pcie) for name in names]
        told = self.settings.alerts.chosen(None)
        return HostsScreen(hosts, None if told is None else HostAlerts(told))

    def action_hosts(self) -> None:
        """Ask which of the hosts that are known here are to be watched."""
        from dlmon.remote.hosts import configured_hosts
        from tui.hosts.pick import HostPicker

        self.push_screen(HostPicker(self.settings.hosts, configured_hosts()))

    def on_host_picker_picked(self, message: HostPicker.Picked) -> None:
        """Show the cards of what was picked, in place of the choice."""
        from dlmon.remote.hosts import HostError, hosts_from

        try:
            # A host of a group may be picked beside it.
            words = dict.fromkeys(
                host for word in message.words for host in hosts_from([word], self.settings.hosts)
            )
        except HostError as error:
            self.show_error(str(error))
        else:
            self.switch_screen(self.screen_of_hosts(tuple(words)))

    def on_hosts_screen_host_requested(self, message: HostsScreen.HostRequested) -> None:
        from tui.hosts.host_screen import HostScreen

        self.push_screen(HostScreen(message.host))

    def on_hosts_screen_session_requested(self, message: HostsScreen.SessionRequested) -> None:
        from dlmon.remote.start import RemoteStart

        self.open_remote(RemoteStart(message.host, message.session))

    def on_hosts_screen_sessions_requested(self, message: HostsScreen.SessionsRequested) -> None:
        """List what was recorded on a host."""
        self._list_sessions_of(message.host.link, None)

    def action_sessions(self) -> None:
        """List the sessions where the one that is shown was recorded.

        Of one of another machine, what is here is a copy, which doesn't tell whether it still runs.
        """
        shown = self._shown[-1] if self._shown else None
        if shown is None or shown.link is None:
            super().action_sessions()
        else:
            self._list_sessions_of(shown.link, shown.log_dir)

    def _list_sessions_of(self, link: Link, log_dir: str | None) -> None:
        from tui.sessions.of_host import HostSessionsScreen

        async def ask() -> tuple[list[SessionEntry], list[SweepEntry]]:
            from dlmon.figures.sessions import sweeps_of_host
            from dlmon.remote.listing import listed_sessions, listed_sweeps
            from dlmon.remote.mirror import mirror_directory

            directory = mirror_directory(link.host)
            sessions = [each.entry(directory) for each in await listed_sessions(link, log_dir)]
            return sessions, sweeps_of_host(await listed_sweeps(link, log_dir), directory)

        self.push_screen(HostSessionsScreen(link.host, ask, log_dir))

    def on_host_sessions_screen_session_requested(
        self, message: HostSessionsScreen.SessionRequested
    ) -> None:
        """Show a session of a host, or go back to it where it is shown."""
        from dlmon.remote.start import RemoteStart

        top = self._shown[-1] if self._shown else None
        if top is not None and top.is_of(message.host, message.session):
            self.uncover(top.screen)
        else:
            self.open_remote(RemoteStart(message.host, message.session, message.log_dir))

    def open_remote(self, start: RemoteStart) -> None:
        """Show a session of another machine over what is shown."""
        if self._connecting is None:
            self.push_screen(self.connecting_screen(start))

    def connecting_screen(self, start: RemoteStart) -> StartingScreen:
        """Return what stands until a session of another machine is here."""
        from tui.screens.starting import StartingScreen

        waiting = self._connecting = StartingScreen(under_way(f"connecting to {start.host}"))
        # Nothing is painted before the app's own queue is read.
        self.call_later(
            waiting.call_after_refresh,
            lambda: self.run_worker(self._connect(start, waiting), group=_CONNECTING),
        )
        return waiting

    async def _connect(self, start: RemoteStart, waiting: StartingScreen) -> None:
        """Show a session of another machine, or why that can't be."""
        from dlmon.log.directory import NoSuchLog
        from dlmon.remote.connection import RefusedRequest
        from dlmon.remote.ssh import SshError

        if self._connecting is not waiting:
            return
        link = self._sources.link(start.host)
        self._links.append(link)
        try:
            follower = await self._session_of(link, start, waiting)
        except (SshError, RefusedRequest, NoSuchLog, LogError) as error:
            await self._close_link(link)
            self._connecting = None
            self._give_up_waiting(waiting, error, getattr(error, "exit_code", WRONG_ARGUMENTS))
        except asyncio.CancelledError:
            await self._close_link(link)
            raise
        else:
            self._connecting = None
            self.uncover(waiting)
            self.switch_screen(self.session_screen(follower, None, link, log_dir=start.log_dir))

    async def _session_of(
        self, link: Link, start: RemoteStart, waiting: StartingScreen
    ) -> RemoteFollower:
        """Return a session of another machine, started there where that is asked for."""
        from dlmon.remote.follower import follow_remote
        from dlmon.remote.requests import launch_remote

        link.start()
        await link.wait_until_up()
        meant = start.session
        if start.job is not None:
            waiting.show_text(under_way(f"starting the session on {start.host}"))
            meant = await launch_remote(link, start.job)

        def show(share: float) -> None:
            waiting.show_text(f"{start.host}\n{reading_text(share)}")

        return await follow_remote(link, meant, start.log_dir, show)

    def _give_up_waiting(self, waiting: StartingScreen, error: Exception, exit_code: int) -> None:
        """Take away the screen that waited for a session, and say why none comes."""
        from dlmon.launch.job import Refused

        if self.is_first(waiting):
            self._refused = Refused(str(error), exit_code)
            self.exit(exit_code)
            return
        self.uncover(waiting)
        self.pop_screen()
        self.show_error(str(error))

    def stop_connecting(self) -> None:
        """Don't wait for another machine; what was started there goes on."""
        waiting = self.screen
        self.pop_screen()
        self.give_up(waiting)

    def give_up(self, screen: Screen[Any]) -> None:
        """Connect no more for a screen that was taken off."""
        super().give_up(screen)
        if screen is self._connecting:
            self.workers.cancel_group(self, _CONNECTING)
            self._connecting = None

    def forget_session(self, shown: ShownSession) -> None:
        """Let go of a session, and of the connection that it came over."""
        super().forget_session(shown)
        if shown.link is not None:
            self.run_worker(self._close_link(shown.link))

    async def _close_link(self, link: Link) -> None:
        """End a connection; what runs there goes on."""
        if link in self._links:
            self._links.remove(link)
        await link.close()

    async def on_unmount(self) -> None:
        """End all connections; what runs there goes on."""
        await asyncio.gather(*(link.close() for link in self._links))
