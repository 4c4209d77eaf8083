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
from tui.messages import (
    RunScript,
    ShowSession,
    ShowSweep,
    ShowSweptSession,
    Train,
    TrainAgain,
    TrainSeveral,
)
from tui.shown_session import ShownSession, Starting

if TYPE_CHECKING:
    from dlmon.options.run_options import RunOptions
    from dlmon.options.script import ScriptRun
    from dlmon.protocol.job import Job
    from dlmon.sweep.plan import Plan
    from dlmon.sweep.runner import SweepRun
    from dlmon.sweep.tries import TryRun
    from tui.base_app import BaseApp
    from tui.screens.starting import StartingScreen
    from tui.sweep.experiment_screen import ExperimentScreen
    from workloads.catalog import Workload


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
            start_run(app, replace(script, terminal=output_size(*app.size)), session)
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
    start_run(app, job, replaces, options.detach)


async def run_script(app: BaseApp, request: RunScript) -> None:
    """Run a script, or make a sweep of its repeats."""
    from dlmon.options.jobs import make_script_job, output_size
    from dlmon.options.script import earlier_commands, last_script, remember_script
    from tui.home.run_form import ScriptForm

    run = request.script
    if isinstance(app.screen, ModalScreen) or is_busy(app):
        return
    if run is None:
        form = ScriptForm(last_script(), earlier_commands(), app.settings.alerts)
        run = await app.push_screen_wait(form)
        if run is None or is_busy(app):
            return
    options = replace(app.settings.run, name=run.name, alert=run.alert)
    try:
        job = make_script_job(
            run.command, run.directory, app.directory, options, alerts=app.settings.alerts
        )
    except (LogError, OSError) as error:
        app.show_error(str(error))
        return
    remember_script(run.command, job.directory)
    if run.repeat > 1:
        _repeat_script(app, run, options)
    else:
        start_run(app, replace(job, terminal=output_size(*app.size)))


def _repeat_script(app: BaseApp, run: ScriptRun, options: RunOptions) -> None:
    from dlmon.options.script_sweep import make_script_plan
    from dlmon.options.sweep_options import new_seed
    from dlmon.sweep.plan import SweepError

    seed = new_seed()
    try:
        plan = make_script_plan(run.command, run.directory, options, (), run.repeat, seed)
    except SweepError as error:
        app.show_error(str(error))
    else:
        _begin_sweep(app, app.directory, plan, seed, options)


def start_run(
    app: BaseApp,
    job: Job,
    replaces: ShownSession | None = None,
    detach: bool = False,
) -> None:
    """Start a session and show it, in place of another one."""
    try:
        supervisor = app.sources.launch(app.settings.applied_to(job))
    except (LogError, OSError) as error:
        app.show_error(str(error))
        return
    if replaces is not None:
        app.uncover(replaces.screen)
    app.push_screen(starting_screen(app, Starting(supervisor, detach, replaces)))


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

    def give_up() -> None:
        """Stop waiting, and release the supervisor process, which then starts nothing."""
        app.starting = None
        starting.supervisor.release()

    app.starting = starting
    sentence = "starting the session: waiting for the sensors …"
    if not starting.supervisor.job.ends_with_terminal:
        sentence += " a closed terminal won't end it"
    waiting = StartingScreen(sentence, wait, INTERRUPTED_BY_USER)
    app.cleanups[waiting] = give_up
    return waiting


def _show_started(app: BaseApp, log: Path, starting: Starting, waiting: StartingScreen) -> None:
    """Show a session that was just launched, in place of the waiting screen."""
    supervisor = None if starting.detach else starting.supervisor
    follower = app.sources.follow(log, supervisor=supervisor)
    if starting.detach:
        starting.supervisor.detach()
        starting.supervisor.release()
    screen = session_screen(app, follower, supervisor)
    replaced = None if starting.replaces is None else starting.replaces.screen
    replace_waiting(app, waiting, screen, replaced)


def sweep_screen(app: BaseApp, run: SweepRun | TryRun) -> ExperimentScreen:
    """Return the screen of an experiment, which starts its runs."""
    from dlmon.sweep.runner import SweepRun
    from tui.sweep.pair_screen import PairScreen
    from tui.sweep.sweep_screen import SweepScreen
    from tui.sweep.try_screen import TryScreen

    screen: ExperimentScreen
    if isinstance(run, SweepRun):
        kind = SweepScreen if run.sweep.plan.pairs is None else PairScreen
        screen = kind(run, usual_directory=app.settings.usual_directory)
    else:
        screen = TryScreen(run)

    def forget_sweep() -> None:
        if app.sweep_screen is screen:
            app.sweep_screen = None

    app.sweep_screen = screen
    app.sweeps.append(run)
    app.cleanups[screen] = forget_sweep
    return screen


async def train_several(app: BaseApp, request: TrainSeveral) -> None:
    """Ask which options to vary, and start a sweep."""
    from dlmon.options.sweep_options import make_plan, new_seed
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
    log_dir = options.log_dir
    try:
        directory = app.directory if log_dir is None else log_directory(Path(log_dir))
    except LogError as error:
        app.show_error(str(error))
    else:
        _begin_sweep(app, directory, plan, seed, options)


def _begin_sweep(app: BaseApp, directory: Path, plan: Plan, seed: int, options: RunOptions) -> None:
    from dlmon.options.sweep_options import begin_sweep
    from dlmon.sweep.plan import SweepError

    alerts = app.settings.alerts.chosen(options.alert)
    try:
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
    if app.sweep_screen is not None and app.sweep_screen.run.path == path:
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
