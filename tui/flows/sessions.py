"""List, read and show sessions of this machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dlmon.exit_codes import DONE, FAILED
from dlmon.figures.session.phases import reading_text
from dlmon.log.folder import LogError
from dlmon.log.submitted import is_of_slurm
from dlmon.options.run_options import RunOptions
from dlmon.records.sanitize import clean
from dlmon.records.words import Status
from dlmon.session.source import SLICE_S, read_to_end
from tui.flows.stack import (
    close_connection,
    read_sessions,
    refuse_waiting,
    replace_waiting,
)
from tui.messages import ShowSession
from tui.shown_session import ShownSession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dlmon.launch.supervisor_process import SupervisorProcess
    from dlmon.log.directory import SessionEntry
    from dlmon.protocol.job import Job
    from dlmon.remote.connection import Connection
    from dlmon.session.follower import SessionFollower
    from dlmon.slurm.queue import Queued
    from tui.base_app import BaseApp
    from tui.live.live_screen import LiveScreen
    from tui.screens.starting import StartingScreen
    from tui.watch.recording import RecordingScreen
    from workloads.catalog import Workload


_LEFT_ALONE = "it stays in the queue when you leave; s takes it out"


def list_sessions(app: BaseApp) -> None:
    """List the sessions in the log directory of the top session."""
    from dlmon.slurm.standing import list_with_queue
    from dlmon.sweep.log import list_sweeps
    from tui.sessions.sessions_screen import SessionsScreen

    top = app.shown_sessions[-1] if app.shown_sessions else None
    directory = app.directory if top is None else top.follower.directory
    sessions = partial(list_with_queue, directory)
    sweeps = partial(list_sweeps, directory)
    app.push_screen(SessionsScreen(sessions, sweeps, app.sources.wall_clock))


def show_session(app: BaseApp, request: ShowSession) -> None:
    """Show a recorded session, or go back to its screen unless a run of ours lies above it."""
    from dlmon.log.directory import read_entry
    from tui.screens.starting import StartingScreen

    if isinstance(app.screen, StartingScreen):
        return
    for depth, session in enumerate(app.shown_sessions):
        above = app.shown_sessions[depth + 1 :]
        if session.follower.path == request.log and not any(run.needs_us for run in above):
            app.uncover(session.screen)
            return
    follow = partial(app.sources.follow, request.log)
    try:
        if is_of_slurm(request.log) and not request.log.exists():
            app.push_screen(reading_screen(app, read_entry(request.log), follow))
            return
        follower = follow()
    except LogError as error:
        app.show_error(str(error))
        return
    follower.poll(SLICE_S)
    if follower.read_share is None:
        app.push_screen(session_screen(app, follower, None))
    else:
        waiting = reading_screen(app, read_entry(follower.path), lambda: follower)
        app.cleanups[waiting] = follower.close
        app.push_screen(waiting)


def reading_screen(
    app: BaseApp,
    entry: SessionEntry,
    follow: Callable[[], SessionFollower],
    supervisor: SupervisorProcess | None = None,
) -> StartingScreen:
    """Return the screen that reads a session's log, which may take a while, then shows it."""
    from tui.screens.starting import StartingScreen
    from tui.sessions.session_details import SessionDetails

    name, is_queued = entry.header.id, entry.status == Status.QUEUED
    details = None
    if not is_queued:
        details = SessionDetails()
        details.show(entry)

    async def read_log(waiting: StartingScreen) -> None:
        open_log = follow
        if is_queued:
            log = await _out_of_queue(app, waiting, entry)
            if log is None:
                return
            open_log = partial(app.sources.follow, log)
        try:
            follower = open_log()
        except LogError as error:
            refuse_waiting(app, waiting, str(error), FAILED)
            return
        app.cleanups[waiting] = follower.close
        follower.poll(SLICE_S)
        await read_to_end(
            follower, lambda share: waiting.show_text(f"{name}\n{reading_text(share)}")
        )
        replace_waiting(app, waiting, session_screen(app, follower, supervisor))

    return StartingScreen(f"reading {name} …", read_log, DONE, details)


async def _out_of_queue(app: BaseApp, waiting: StartingScreen, entry: SessionEntry) -> Path | None:
    """Show a session's state in Slurm's queue until its log exists, and return its path.

    If the job fails first, show why and return None.
    """
    from dlmon.log.submitted import read_submitted
    from dlmon.render.queue_lines import wait_for_log
    from dlmon.slurm.job_follower import WaitingSession

    submitted = read_submitted(entry.path)
    if submitted is None:
        return entry.path
    queued, header = WaitingSession(entry.path, submitted), entry.header

    def cancel() -> None:
        app.run_worker(partial(_cancel, app, entry.path), exit_on_error=False)

    show = show_queue(waiting, f"{header.workload}\n{header.id}", cancel)
    log = await wait_for_log(queued, show)
    if log is None:
        refuse_waiting(app, waiting, f"{queued.failure}", FAILED)
    return log


def show_queue(
    waiting: StartingScreen, title: str, cancel: Callable[[], object]
) -> Callable[[Queued], None]:
    """Return a function that shows a job's state in Slurm's queue, and offers to cancel it."""
    from dlmon.render.queue_lines import text_of

    def show(queued: Queued) -> None:
        if waiting.take_out_of_queue is None:
            waiting.take_out_of_queue = cancel
            waiting.refresh_bindings()
        options = f"asked of Slurm: {clean(queued.options) or 'no options'}"
        waiting.show_text(f"{title}\n{options}\n\n{text_of(queued)}\n\n{_LEFT_ALONE}")

    return show


async def _cancel(app: BaseApp, log: Path) -> None:
    """Cancel a session's job in Slurm's queue; the waiting screen notices that."""
    from dlmon.log.directory import read_entry
    from dlmon.protocol.control import NotControlled
    from dlmon.slurm.standing import stop_submitted

    try:
        await asyncio.to_thread(lambda: stop_submitted(read_entry(log)))
    except (NotControlled, LogError) as error:
        app.show_error(str(error))


def session_screen(
    app: BaseApp,
    follower: SessionFollower,
    supervisor: SupervisorProcess | None,
    connection: Connection | None = None,
    log_dir: str | None = None,
) -> LiveScreen | RecordingScreen:
    """Return the screen of a session, and note that the session is shown.

    A session that we started has a `supervisor` process; one of another host has a
    `connection`, and a `log_dir` there unless that is the default.
    """
    screen: LiveScreen | RecordingScreen
    if follower.session.header.is_machine_recording:
        from tui.watch.recording import RecordingScreen

        screen = RecordingScreen(follower, follower.path.parent)
    else:
        screen = _live_screen(app, follower, supervisor)
    session = ShownSession(follower, supervisor, screen, connection, log_dir)
    app.shown_sessions.append(session)
    app.cleanups[screen] = partial(_close_session, app, session)
    return screen


def _live_screen(
    app: BaseApp, follower: SessionFollower, supervisor: SupervisorProcess | None
) -> LiveScreen:
    from dlmon.comparison.published import own_published
    from dlmon.log.label import read_label
    from tui.live.live_screen import LiveScreen

    _, problem = own_published()
    if problem is not None:
        app.call_after_refresh(app.show_error, problem)
    can_repeat = script_job(supervisor) is not None or how_to_repeat(follower) is not None
    screen = LiveScreen(
        follower,
        can_repeat and app.running_sweep is None,
        lambda: read_label(follower.path),
        app.references,
    )
    read_sessions(app, follower.directory, screen.show_entries)
    return screen


def _close_session(app: BaseApp, session: ShownSession) -> None:
    """Release a session whose screen is closed, and its connection."""
    app.shown_sessions.remove(session)
    if session.supervisor is not None:
        session.supervisor.release()
    session.follower.close()
    if session.connection is not None:
        app.run_worker(partial(close_connection, app, session.connection))
    if session.screen.detached:
        app.show_notice(f"{session.follower.session.header.id} keeps running without dlmon")


def script_job(supervisor: SupervisorProcess | None) -> Job | None:
    """Return the job of a script that this dlmon started.

    A command is never taken from a log, which may come from anybody.
    """
    return supervisor.job if supervisor is not None and supervisor.job.script else None


def how_to_repeat(follower: SessionFollower) -> tuple[Workload, RunOptions] | None:
    """Return a session's workload and options, or None if it can't be launched here."""
    from dlmon.options.jobs import recorded_options
    from workloads.catalog import WORKLOADS

    header = follower.session.header
    workload = WORKLOADS.get(header.workload)
    options = recorded_options(header)
    if workload is None or options is None:
        return None
    options = replace(options, host=follower.host)
    return (workload, options) if options.problem(workload) is None else None
