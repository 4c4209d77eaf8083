"""The stack of screens: its sessions, going back, and quitting dlmon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from dlmon.exit_codes import DONE
from tui.messages import GoBack
from tui.shown_session import ShownSession

# Screens are imported when they are first shown, so that a start pays for one only.
if TYPE_CHECKING:
    from dlmon.log.directory import SessionEntry
    from dlmon.remote.connection import Connection
    from tui.base_app import BaseApp
    from tui.home.home_screen import HomeScreen
    from tui.screens.starting import StartingScreen
    from tui.watch.watch_screen import WatchScreen

_SWEEP_RUNS = "the sweep is still running: another run would distort its figures"
# How often the home screen looks for new and changed sessions.
_REFRESH_S = 5.0


def session_on(app: BaseApp, screen: Screen[Any]) -> ShownSession | None:
    """Return the session of a screen."""
    return next((session for session in app.shown_sessions if session.screen is screen), None)


def is_busy(app: BaseApp) -> bool:
    """Return whether a run of ours is active, and if so, show an error."""
    if app.starting is not None:
        return True
    if app.running_sweep is not None:
        here = None in app.running_sweep.hosts
        app.show_error(_SWEEP_RUNS if here else "the sweep is still running: stop it first")
        return True
    running = next((session for session in app.shown_sessions if session.needs_us), None)
    if running is None:
        return False
    session_id = running.follower.session.header.id
    app.show_error(f"{session_id} is still running: stop or detach it first")
    return True


def is_swept(app: BaseApp, host: str) -> bool:
    """Return whether a sweep has runs on a host, and if so, show an error."""
    sweep = app.running_sweep
    if sweep is None or host not in sweep.hosts:
        return False
    app.show_error(_SWEEP_RUNS)
    return True


def leave(app: BaseApp, request: GoBack) -> None:
    """Go back to the screen below, or quit dlmon if there is none."""
    screen = request.screen
    if app.is_first(screen):
        app.exit(_exit_code(app, screen))
        # A session is cleaned up after its exit message; a launch is abandoned now.
        if session_on(app, screen) is None:
            app.clean_up(screen)
    # If the key was pressed twice, the screen may be closed already.
    elif screen in app.screen_stack:
        app.uncover(screen)
        app.close_top_screen()
        if app.screen is app.home:
            read_sessions_for_home(app)


def quit_app(app: BaseApp) -> None:
    """Quit; ask first if a session or a sweep would stop."""
    running = [session.screen for session in app.shown_sessions if session.needs_us]
    screen = running[0] if running else app.sweep_screen
    if screen is None:
        app.exit(_exit_code(app, app.screen_stack[0]))
    else:
        app.uncover(screen)
        screen.action_leave()


def _exit_code(app: BaseApp, screen: Screen[Any]) -> int:
    """Return the exit code of dlmon if the user quits from a screen."""
    session = session_on(app, screen)
    code: int = getattr(screen, "exit_code", DONE) if session is None else session.exit_code
    return code


def replace_waiting(
    app: BaseApp,
    waiting: StartingScreen,
    screen: Screen[Any],
    replaced: Screen[Any] | None = None,
) -> None:
    """Show a screen in place of the waiting one, and of the `replaced` one below that.

    Switching, unlike a pop and a push, does not resume the screen below in between.
    """
    app.cleanups.pop(waiting, None)
    app.uncover(waiting)
    if replaced is not None:
        app.pop_screen()
        app.clean_up(replaced)
    app.switch_screen(screen)


def refuse_waiting(app: BaseApp, waiting: StartingScreen, reason: str, exit_code: int) -> None:
    """Close the screen that waited for a session, and say why there is none."""
    if app.is_first(waiting):
        app.refused = reason
        app.exit(exit_code)
        return
    app.cleanups.pop(waiting, None)
    app.uncover(waiting)
    app.close_top_screen()
    app.show_error(reason)


async def close_connection(app: BaseApp, connection: Connection) -> None:
    """Close a connection; sessions on the host go on."""
    if connection in app.connections:
        app.connections.remove(connection)
    await connection.close()


def read_sessions(
    app: BaseApp, directory: Path, show: Callable[[list[SessionEntry]], None]
) -> None:
    """Read the recorded sessions in a thread, then pass them to a screen."""
    from dlmon.log.directory import list_sessions

    async def read() -> None:
        show(await asyncio.to_thread(list_sessions, directory))

    app.run_worker(read)


def read_sessions_for_home(app: BaseApp) -> None:
    """Read the recorded sessions for the home screen, if there is one."""
    home = app.home
    if home is None:
        return

    async def read() -> None:
        from dlmon.figures.lists.recent_sessions import recent_sessions
        from dlmon.log.directory import list_sessions

        entries = await asyncio.to_thread(list_sessions, app.directory)
        home.show_entries(entries)
        home.show_recent(await asyncio.to_thread(recent_sessions, entries))

    app.run_worker(read)


def _read_changes(app: BaseApp, home: HomeScreen) -> None:
    """Show new and changed sessions if the home screen is in view; look again after a while."""

    async def read() -> None:
        from dlmon.figures.lists.recent_sessions import recent_sessions
        from dlmon.log.directory import list_sessions

        before, recent = home.entries, home.recent
        if recent is not None and home.is_active:
            entries = await asyncio.to_thread(list_sessions, app.directory, before)
            # Unless all were read again in the meantime, with their names.
            if entries != before and home.entries is before:
                home.show_entries(entries)
                home.show_recent(await asyncio.to_thread(recent_sessions, entries, recent))
        home.set_timer(_REFRESH_S, partial(_read_changes, app, home))

    home.run_worker(read)


def home_screen(app: BaseApp) -> HomeScreen:
    """Return the home screen, which can only be the first screen."""
    from tui.home.home_screen import HomeScreen

    options = app.settings.run
    machine = partial(app.sources.machine, pcie=options.pcie)
    hosts = app.settings.hosts
    app.home = HomeScreen(machine, options, hosts, app.sources.wall_clock)
    # By way of the app's queue: the screen is painted only after that is read.
    app.call_later(app.home.call_after_refresh, partial(read_sessions_for_home, app))
    later = partial(_read_changes, app, app.home)
    app.home.call_later(app.home.set_timer, _REFRESH_S, later)
    return app.home


def machine_screen(app: BaseApp, interval_s: float) -> WatchScreen:
    """Return the screen of this machine alone."""
    from tui.watch.watch_screen import WatchScreen

    return WatchScreen(app.sources.machine(interval_s, pcie=app.settings.run.pcie))
