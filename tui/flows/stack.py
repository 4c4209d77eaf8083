"""The stack of screens: the sessions on it, and how one gets back to a screen or out of dlmon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER
from tui.messages import GoBack

# Each screen, and what it shows, is imported when it is first shown: a start pays for one only.
if TYPE_CHECKING:
    from dlmon.launch.lifeline import Lifeline
    from dlmon.log.directory import SessionEntry
    from dlmon.remote.connection import Connection
    from dlmon.session.follower import SessionFollower
    from tui.app import DlmonApp
    from tui.home.home_screen import HomeScreen
    from tui.live.live_screen import LiveScreen
    from tui.screens.starting import StartingScreen
    from tui.watch.recording import RecordingScreen
    from tui.watch.watch_screen import WatchScreen

_SWEEP_RUNS = "the sweep is still running: another run would distort its figures"


@dataclass
class ShownSession:
    """A session on the stack of screens, with its lifeline where it is ours."""

    follower: SessionFollower
    launch: Lifeline | None
    screen: LiveScreen | RecordingScreen
    connection: Connection | None = None
    log_dir: str | None = None
    """Where sessions live on the machine that it comes from; None for where they do by default."""
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is over, or shown no more."""

    def is_of(self, host: str, session: str) -> bool:
        """Return whether it is a session of a host."""
        same = self.follower.session.header.id == session
        return same and self.connection is not None and self.connection.host == host

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


def session_on(app: DlmonApp, screen: Screen[Any]) -> ShownSession | None:
    """Return the session that a screen shows."""
    return next((shown for shown in app.shown_sessions if shown.screen is screen), None)


def is_busy(app: DlmonApp) -> bool:
    """Return whether a run of ours is active, with an error on the screen."""
    if app.starting is not None:
        return True
    if app.running_sweep is not None:
        here = None in app.running_sweep.sweep.plan.hosts
        app.show_error(_SWEEP_RUNS if here else "the sweep is still running: stop it first")
        return True
    running = next((shown for shown in app.shown_sessions if shown.needs_us), None)
    if running is None:
        return False
    session = running.follower.session.header.id
    app.show_error(f"{session} is still running: stop or detach it first")
    return True


def is_swept(app: DlmonApp, host: str) -> bool:
    """Return whether a sweep makes its runs on a host, with an error on the screen."""
    sweep = app.running_sweep
    if sweep is None or host not in sweep.sweep.plan.hosts:
        return False
    app.show_error(_SWEEP_RUNS)
    return True


def leave(app: DlmonApp, request: GoBack) -> None:
    """Go back to the screen below, or out of dlmon where there is none."""
    screen = request.screen
    if app.is_first(screen):
        app.exit(_exit_code(app, screen))
        # What became of sessions is said once the app has ended; a launch is waited for no more.
        if session_on(app, screen) is None:
            app.clean_up(screen)
    # Where two keys come at once, the second finds the screen gone.
    elif screen in app.screen_stack:
        app.uncover(screen)
        app.close_top_screen()
        if app.screen is app.home:
            read_sessions_for_home(app)


def quit_app(app: DlmonApp) -> None:
    """Leave; a session or a sweep that would stop with us is asked about first."""
    needing = [shown.screen for shown in app.shown_sessions if shown.needs_us]
    asked = needing[0] if needing else app.sweep_screen
    if asked is None:
        app.exit(_exit_code(app, app.screen_stack[0]))
    else:
        app.uncover(asked)
        asked.action_leave()


def _exit_code(app: DlmonApp, screen: Screen[Any]) -> int:
    """Return what leaving dlmon from its first screen amounts to."""
    shown = session_on(app, screen)
    code: int = getattr(screen, "exit_code", DONE) if shown is None else shown.exit_code
    return code


def replace_waiting(
    app: DlmonApp,
    waiting: StartingScreen,
    screen: Screen[Any],
    replaced: Screen[Any] | None = None,
) -> None:
    """Show what was waited for, in place of what was `replaced` below as well.

    Not a pop and a push: the screen below would begin to work in between.
    """
    app.cleanups.pop(waiting, None)
    app.uncover(waiting)
    if replaced is not None:
        app.pop_screen()
        app.clean_up(replaced)
    app.switch_screen(screen)


def refuse_waiting(app: DlmonApp, waiting: StartingScreen, reason: str, exit_code: int) -> None:
    """Take away the screen that waited for a session, and say why none comes."""
    if app.is_first(waiting):
        app.refused = reason
        app.exit(exit_code)
        return
    app.cleanups.pop(waiting, None)
    app.uncover(waiting)
    app.close_top_screen()
    app.show_error(reason)


async def close_connection(app: DlmonApp, connection: Connection) -> None:
    """End a connection; what runs there goes on."""
    if connection in app.connections:
        app.connections.remove(connection)
    await connection.close()


def read_sessions(
    app: DlmonApp, directory: Path, show: Callable[[list[SessionEntry]], None]
) -> None:
    """Let a screen know what was recorded, once that is read: it may take a while."""
    from dlmon.log.directory import list_sessions

    async def read() -> None:
        show(await asyncio.to_thread(list_sessions, directory))

    app.run_worker(read)


def read_sessions_for_home(app: DlmonApp) -> None:
    """Let the home screen know what was recorded."""
    if app.home is not None:
        read_sessions(app, app.directory, app.home.show_entries)


def home_screen(app: DlmonApp) -> HomeScreen:
    """Return the home screen, which is the first one or none."""
    from tui.home.home_screen import HomeScreen

    options = app.settings.run
    app.home = HomeScreen(partial(app.sources.machine, pcie=options.pcie), options)
    # Nothing is painted before the app's own queue is read.
    app.call_later(app.home.call_after_refresh, partial(read_sessions_for_home, app))
    return app.home


def machine_screen(app: DlmonApp, interval_s: float) -> WatchScreen:
    """Return the screen of this machine alone."""
    from tui.watch.watch_screen import WatchScreen

    return WatchScreen(app.sources.machine(interval_s, pcie=app.settings.run.pcie))
