"""Start runs and sweeps, wait for them, and show them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from dlmon.exit_codes import FAILED, INTERRUPTED_BY_USER
from dlmon.log.folder import LogError, log_directory
from tui.flows.hosts import show_remote
from tui.flows.sessions import how_to_repeat, script_job, session_screen, show_session
from tui.flows.stack import is_busy, is_swept, refuse_waiting, replace_waiting
from tui.messages import ShowSession, ShowSweep, ShowSweptSession, Train, TrainAgain, TrainSeveral
from tui.shown_session import ShownSession, Starting

if TYPE_CHECKING:
    from dlmon.options.run_options import RunOptions
    from dlmon.protocol.job import Job
    from dlmon.sweep.runner import SweepRun
    from tui.base_app import BaseApp
    from tui.screens.starting import StartingScreen
    from tui.sweep.sweep_screen import SweepScreen
    from workloads.catalog import Workload

# The interval at which to check whether the user is back at a run, before the next run starts.
_POLL_S = 0.5


async def train(app: BaseApp, request: Train) -> None:
    """Launch a workload."""
    await _train(app, request.workload, request.options, app.directory)


async def train_again(app: BaseApp, request: TrainAgain) -> None:
    """Launch the workload or script of the top session again, with the same options."""
    from dlmon.options.jobs import output_size

    session = app.shown_sessions[-1]
    script, again = script_job(session.supervisor), how_to_repeat(session.follower)
    if script is not None:
        if not is_busy(app):
            await start_run(app, replace(script, terminal=output_size(*app.size)), session)
    elif again is not None:
        await _train(app, *again, session.follower.directory, session)


async def _train(
    app: BaseApp,
    workload: Workload,
    options: RunOptions,
    directory: Path,
    replaces: ShownSession | None = None,
) -> None:
    from dlmon.options.jobs import make_job

    if options.host is not None:
        from dlmon.protocol.job import RemoteStart

        if not is_swept(app, options.host):
            job = make_job(workload, directory, options, app.settings.alerts)
            show_remote(app, RemoteStart(options.host, log_dir=options.log_dir, job=job))
        return
    if is_busy(app):
        return
    try:
        job = make_job(workload, directory, options, app.settings.alerts)
    except (LogError, OSError) as error:
        app.show_error(str(error))
        return
    if replaces is not None and replaces.supervisor is not None:
        # Alerts go to the same addresses as those of the run before.
        job = replace(job, alerts=replaces.supervisor.job.alerts)
    await start_run(app, job, replaces, options.detach)


async def run_script(app: BaseApp) -> None:
    """Ask for a script and a number of runs, and run it until a run fails or is stopped."""
    from dlmon.options.jobs import make_script_job, output_size
    from tui.home.run_form import ScriptForm

    if is_busy(app):
        return
    run = await app.push_screen_wait(ScriptForm())
    if run is None or is_busy(app):
        return
    options = replace(app.settings.run, name=run.name, alert=run.alert)
    session = None
    for number in range(1, run.repeat + 1):
        turn = f"run {number} of {run.repeat}" if run.repeat > 1 else ""
        try:
            job = make_script_job(
                run.command, run.directory, app.directory, options, alerts=app.settings.alerts
            )
        except (LogError, OSError) as error:
            app.show_error(str(error))
            return
        job = replace(job, terminal=output_size(*app.size))
        session = await start_run(app, job, session, turn=turn)
        if session is None or not await _succeeded(app, session):
            return


async def _succeeded(app: BaseApp, session: ShownSession) -> bool:
    """Wait until a run has ended and its screen is on top; return whether the run succeeded."""
    await session.has_ended.wait()
    while session in app.shown_sessions and app.screen is not session.screen:
        if isinstance(app.screen, ModalScreen):
            break
        await asyncio.sleep(_POLL_S)
    stopped = session.screen.stop_requested or session.screen.detached
    if session not in app.shown_sessions or stopped:
        return False
    result = session.follower.result
    return result is not None and result.exit_code == 0


async def start_run(
    app: BaseApp,
    job: Job,
    replaces: ShownSession | None = None,
    detach: bool = False,
    turn: str = "",
) -> ShownSession | None:
    """Start a session and show it, in place of another one; return it, or None if that failed."""
    try:
        supervisor = app.sources.launch(job)
    except (LogError, OSError) as error:
        app.show_error(str(error))
        return None
    if replaces is not None:
        app.uncover(replaces.screen)
    starting = Starting(supervisor, detach, replaces, turn)
    app.push_screen(starting_screen(app, starting))
    await starting.over.wait()
    return next(
        (session for session in app.shown_sessions if session.supervisor is supervisor), None
    )


def starting_screen(app: BaseApp, starting: Starting) -> StartingScreen:
    """Return the screen that waits for a launch, then shows the session, or why it failed."""
    from tui.screens.starting import StartingScreen

    async def wait(waiting: StartingScreen) -> None:
        from dlmon.protocol.job import Refused, Started

        answer = await asyncio.to_thread(starting.supervisor.answer)
        app.starting = None
        if isinstance(answer, Started):
            try:
                _show_started(app, Path(answer.log), starting, waiting)
            except LogError as error:
                answer = Refused(str(error), FAILED)
        if isinstance(answer, Refused):
            starting.supervisor.release()
            refuse_waiting(app, waiting, answer.reason, answer.exit_code)
        starting.over.set()

    def give_up() -> None:
        """Stop waiting, and release the supervisor process, which then starts nothing."""
        app.starting = None
        starting.supervisor.release()
        starting.over.set()

    app.starting = starting
    sentence = "starting the session: waiting for the sensors …"
    waiting = StartingScreen(sentence, wait, INTERRUPTED_BY_USER)
    app.cleanups[waiting] = give_up
    return waiting


def _show_started(app: BaseApp, log: Path, starting: Starting, waiting: StartingScreen) -> None:
    """Show a session that was just launched, in place of the waiting screen."""
    supervisor = None if starting.detach else starting.supervisor
    follower = app.sources.follow(log, supervisor=supervisor)
    if starting.detach:
        starting.supervisor.send("detach")
        starting.supervisor.release()
    screen = session_screen(app, follower, supervisor, turn=starting.turn)
    replaced = None if starting.replaces is None else starting.replaces.screen
    replace_waiting(app, waiting, screen, replaced)


def sweep_screen(app: BaseApp, run: SweepRun) -> SweepScreen:
    """Return the screen of a sweep, which starts its runs."""
    from tui.sweep.sweep_screen import SweepScreen

    screen = SweepScreen(run, usual_directory=app.usual_directory)

    def forget_sweep() -> None:
        if app.sweep_screen is screen:
            app.sweep_screen = None

    app.sweep_screen = screen
    app.sweeps.append(run)
    app.cleanups[screen] = forget_sweep
    return screen


async def train_several(app: BaseApp, request: TrainSeveral) -> None:
    """Ask which options to vary, and start a sweep."""
    from dlmon.options.sweep_options import begin_sweep, make_plan, new_seed
    from dlmon.sweep.plan import Plan, SweepError
    from tui.sweep.sweep_screen import SweepForm

    # Ask only once if the key was pressed twice.
    if isinstance(app.screen, ModalScreen) or is_busy(app):
        return
    seed, workload, options = new_seed(), request.workload, request.options

    def plan_of(vary: list[str], repeats: int) -> Plan:
        return make_plan(workload.name, options, vary, repeats, seed, app.settings.hosts)

    plan = await app.push_screen_wait(SweepForm(workload.name, plan_of))
    if plan is None or is_busy(app):
        return
    try:
        log_dir = options.log_dir
        directory = app.directory if log_dir is None else log_directory(Path(log_dir))
        alerts = app.settings.alerts.chosen(options.alert)
        run = begin_sweep(directory, plan, seed, time.time(), options.name, alerts)
    except (LogError, SweepError) as error:
        app.show_error(str(error))
    else:
        app.push_screen(sweep_screen(app, run))


def show_sweep(app: BaseApp, request: ShowSweep) -> None:
    """Resume a recorded sweep, or go back to its screen."""
    from dlmon.options.sweep_options import check_plan, run_of
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
        alerts = app.settings.alerts.chosen(None)
        run = run_of(SweepWriter.resume(path, time.time()), alerts)
    except (LogError, SweepError) as error:
        app.show_error(str(error))
    else:
        app.push_screen(sweep_screen(app, run))


def show_swept_session(app: BaseApp, request: ShowSweptSession) -> None:
    """Show a session of a sweep; if it ended on another host, the copy of its log."""
    from dlmon.log.folder import log_of
    from dlmon.protocol.job import RemoteStart
    from dlmon.remote.session_follower import copies_directory

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
