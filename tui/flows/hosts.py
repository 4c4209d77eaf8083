"""Show other hosts: their cards, and their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dlmon.exit_codes import INTERRUPTED_BY_USER, WRONG_ARGUMENTS
from dlmon.figures.session.phases import reading_text
from dlmon.log.folder import LogError
from dlmon.log.submitted import is_of_slurm
from tui.flows.sessions import reading_screen, session_screen, show_queue
from tui.flows.settings import notify_end
from tui.flows.stack import (
    close_connection,
    refuse_waiting,
    replace_waiting,
    session_on,
)
from tui.messages import (
    ListHostSessions,
    NotifyEnd,
    ShowHostSession,
    ShowNodes,
    WatchHosts,
)
from tui.shown_session import ShownSession

if TYPE_CHECKING:
    from dlmon.log.directory import SessionEntry
    from dlmon.protocol.job import RemoteStart
    from dlmon.remote.connection import Connection
    from dlmon.remote.session_follower import RemoteFollower
    from dlmon.sweep.log import SweepEntry
    from tui.base_app import BaseApp
    from tui.hosts.hosts_screen import HostsScreen
    from tui.screens.starting import StartingScreen


def hosts_screen(app: BaseApp, names: Sequence[str]) -> HostsScreen:
    """Return the screen with a card for each host."""
    from dlmon.alerts.dispatch import HostAlerts
    from tui.hosts.hosts_screen import HostsScreen

    interval_s = app.start.watch_interval_s or app.settings.run.interval
    hosts = [app.sources.hosts(name, interval_s, app.settings.run.pcie) for name in names]
    alerts = app.settings.alerts.chosen(None)
    return HostsScreen(hosts, None if alerts is None else HostAlerts(alerts))


def pick_hosts(app: BaseApp) -> None:
    """Ask which of the configured hosts to watch."""
    from dlmon.remote.host_names import configured_hosts
    from tui.hosts.pick import HostPicker

    app.push_screen(HostPicker(app.settings.hosts, configured_hosts()))


def watch_hosts(app: BaseApp, request: WatchHosts) -> None:
    """Show the cards of the picked hosts, in place of the picker."""
    from dlmon.remote.host_names import HostError, hosts_from

    try:
        # A host may be picked twice: alone and in a group.
        hosts = [hosts_from([word], app.settings.hosts) for word in request.words]
    except HostError as error:
        app.show_error(str(error))
    else:
        names = dict.fromkeys(name for group in hosts for name in group)
        app.switch_screen(hosts_screen(app, tuple(names)))


def show_nodes(app: BaseApp, request: ShowNodes) -> None:
    """Show the hosts of a run."""
    from tui.hosts.nodes_screen import NodesScreen

    app.push_screen(NodesScreen(request.source))


def list_host_sessions(app: BaseApp, request: ListHostSessions) -> None:
    """List the sessions of a host."""
    list_sessions_of(app, request.host.connection, None)


def list_sessions_of(app: BaseApp, connection: Connection, log_dir: str | None) -> None:
    """List the sessions at the other end of a connection."""
    from tui.sessions.of_host import HostSessionsScreen

    async def ask() -> tuple[list[SessionEntry], list[SweepEntry]]:
        from dlmon.figures.lists.session_list import sweeps_of_host
        from dlmon.remote.session_follower import copies_directory, listed_sessions, listed_sweeps

        directory = copies_directory(connection.host)
        sessions = await listed_sessions(connection, log_dir, directory=directory)
        return sessions, sweeps_of_host(await listed_sweeps(connection, log_dir, directory))

    app.push_screen(HostSessionsScreen(connection.host, ask, log_dir, app.sources.wall_clock))


def show_host_session(app: BaseApp, request: ShowHostSession) -> None:
    """Show a session of a host, or go back to its screen."""
    from dlmon.protocol.job import RemoteStart

    top = app.shown_sessions[-1] if app.shown_sessions else None
    if top is not None and top.is_of(request.host, request.session):
        app.uncover(top.screen)
    else:
        show_remote(app, RemoteStart(request.host, request.session, request.log_dir))


def show_remote(app: BaseApp, start: RemoteStart) -> None:
    """Show a session of another host over the current screen."""
    from tui.screens.starting import StartingScreen

    if not isinstance(app.screen, StartingScreen):
        app.push_screen(connecting_screen(app, start))


def connecting_screen(app: BaseApp, start: RemoteStart) -> StartingScreen:
    """Return the screen that connects to a host, then shows its session."""
    from tui.screens.starting import StartingScreen

    async def connect(waiting: StartingScreen) -> None:
        from dlmon.log.directory import NoSuchLog
        from dlmon.remote.ssh import HostRefusal, SshError

        connection = app.sources.connection(start.host)
        app.connections.append(connection)
        try:
            follower = await _session_of(app, connection, start, waiting)
        except (SshError, HostRefusal, NoSuchLog, LogError) as error:
            await close_connection(app, connection)
            exit_code = getattr(error, "exit_code", WRONG_ARGUMENTS)
            refuse_waiting(app, waiting, str(error), exit_code)
        except asyncio.CancelledError:
            # A session that was started there goes on.
            await close_connection(app, connection)
            raise
        else:
            screen = session_screen(app, follower, None, connection, log_dir=start.log_dir)
            replace_waiting(app, waiting, screen)

    return StartingScreen(f"connecting to {start.host} …", connect, INTERRUPTED_BY_USER)


def end_session(app: BaseApp, request: NotifyEnd) -> None:
    """Notify that a session or a sweep has ended, and show the session that continues it."""
    notify_end(app, request)
    session = session_on(app, request.screen)
    if session is None or app.running_sweep is not None:
        return
    if session.connection is not None or is_of_slurm(session.follower.path):
        app.run_worker(partial(_go_on, app, session))


async def _go_on(app: BaseApp, session: ShownSession) -> None:
    """If Slurm queued a session's job again, show its next session in its place."""
    from dlmon.log.directory import read_entry
    from dlmon.protocol.job import RemoteStart
    from dlmon.slurm.job_follower import next_session

    follower, connection = session.follower, session.connection
    if connection is not None:
        session_id = getattr(follower, "next_session", None)
        start = RemoteStart(connection.host, session_id or "", session.log_dir)
        screen = None if session_id is None else connecting_screen(app, start)
    else:
        waiting = await asyncio.to_thread(next_session, follower)
        screen = None
        if waiting is not None:
            follow = partial(app.sources.follow, waiting.log)
            screen = reading_screen(app, read_entry(waiting.log), follow)
    if screen is not None and session in app.shown_sessions:
        app.uncover(session.screen)
        app.switch_screen(screen)
        app.clean_up(session.screen)


async def _session_of(
    app: BaseApp, connection: Connection, start: RemoteStart, waiting: StartingScreen
) -> RemoteFollower:
    """Return a session of another host, after starting it there if `start` has a job."""
    from dlmon.remote.host_requests import launch_remote
    from dlmon.remote.session_follower import follow_remote

    connection.start()
    await connection.wait_until_up()
    session = start.session
    if start.job is not None:
        waiting.show_text(f"starting the session on {start.host} …")
        session = await launch_remote(connection, start.job, start.slurm)

    def show(share: float) -> None:
        waiting.show_text(f"{start.host}\n{reading_text(share)}")

    def cancel() -> None:
        connection.send("stop", report, session=session, log_dir=start.log_dir)

    def report(answer: dict[str, Any]) -> None:
        if "error" in answer:
            app.show_error(f"{start.host}: {answer['error']}")

    show_queued = show_queue(waiting, f"{start.host}\n{session}", cancel)
    return await follow_remote(connection, session, start.log_dir, show, show_queued)
