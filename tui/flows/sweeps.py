"""Sweeps: started, resumed and shown; one of them is active at a time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from dlmon.log.folder import LogError, log_directory
from tui.flows.hosts import show_remote
from tui.flows.sessions import show_session
from tui.flows.stack import is_busy
from tui.requests import ShowSession, ShowSweep, ShowSweptSession, TrainSeveral

if TYPE_CHECKING:
    from dlmon.sweep.runner import SweepRun
    from tui.app import DlmonApp
    from tui.sweep.screen import SweepScreen


def sweep_screen(app: DlmonApp, run: SweepRun) -> SweepScreen:
    """Make the screen of a sweep, which begins to make its runs."""
    from tui.sweep.screen import SweepScreen

    screen = SweepScreen(run, usual_directory=app.usual_directory)

    def let_go() -> None:
        if app.sweep_screen is screen:
            app.sweep_screen = None

    app.sweep_screen = screen
    app.sweeps.append(run)
    app.when_gone[screen] = let_go
    return screen


async def train_several(app: DlmonApp, request: TrainSeveral) -> None:
    """Ask what is to be varied in runs of a workload, and begin to make them."""
    from dlmon.options.sweep import begin_sweep, make_plan, new_seed
    from dlmon.sweep.plan import Plan, SweepError
    from tui.sweep.screen import SweepForm

    # Of a key that comes twice at once, the second came too late.
    if isinstance(app.screen, ModalScreen) or is_busy(app):
        return
    seed, workload, options = new_seed(), request.workload, request.options

    def plan_of(vary: list[str], repeats: int) -> Plan:
        return make_plan(workload.name, options, vary, repeats, seed, app.settings.hosts)

    plan = await app.push_screen_wait(SweepForm(workload.name, plan_of))
    if plan is None or is_busy(app):
        return
    try:
        chosen = options.log_dir
        directory = app.directory if chosen is None else log_directory(Path(chosen))
        told = app.settings.alerts.chosen(options.alert)
        run = begin_sweep(directory, plan, seed, time.time(), options.name, told)
    except (LogError, SweepError) as error:
        app.show_error(str(error))
    else:
        app.push_screen(sweep_screen(app, run))


def show_sweep(app: DlmonApp, request: ShowSweep) -> None:
    """Go on with a recorded sweep, or go back to it where it is shown already."""
    from dlmon.options.sweep import check_plan, run_of
    from dlmon.sweep.log import SweepWriter, read_sweep
    from dlmon.sweep.plan import SweepError

    path = request.path
    if app.sweep_screen is not None and app.sweep_screen.path == path:
        app.uncover(app.sweep_screen)
        return
    if is_busy(app):
        return
    try:
        check_plan(read_sweep(path)[1].plan)
        told = app.settings.alerts.chosen(None)
        run = run_of(SweepWriter.resume(path, time.time()), told)
    except (LogError, SweepError) as error:
        app.show_error(str(error))
    else:
        app.push_screen(sweep_screen(app, run))


def show_swept_session(app: DlmonApp, request: ShowSweptSession) -> None:
    """Show a session of a sweep; the copy of one of another machine that is over."""
    from dlmon.launch.job import RemoteStart
    from dlmon.log.folder import log_of
    from dlmon.remote.follower import copies_directory

    log, host, session = request.log, request.host, request.session
    if host is not None:
        try:
            copy = log_of(copies_directory(host) / session)
        except LogError:
            copy = None
        if request.is_running or copy is None or not copy.is_file():
            show_remote(app, RemoteStart(host, session))
            return
        log = copy
    show_session(app, ShowSession(log))
