"""Sessions of this machine, as they happen or were recorded: listed, read and shown."""

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
from dlmon.options.settings import HIDDEN_COLUMNS, remembered
from dlmon.records.sanitize import clean
from dlmon.records.words import Status
from dlmon.session.source import SLICE_S, read_to_end
from tui.flows.stack import (
    ShownSession,
    close_connection,
    read_sessions,
    refuse_waiting,
    replace_waiting,
)
from tui.messages import ShowSession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dlmon.launch.lifeline import Lifeline
    from dlmon.log.directory import SessionEntry
    from dlmon.protocol.job import Job
    from dlmon.remote.connection import Connection
    from dlmon.session.follower import SessionFollower
    from dlmon.slurm.queue import Queued
    from tui.app import DlmonApp
    from tui.live.live_screen import LiveScreen
    from tui.screens.starting import StartingScreen
    from tui.watch.recording import RecordingScreen
    from workloads.catalog import Workload


_LEFT_ALONE = "it stays in the queue when you leave; s takes it out"


def list_sessions(app: DlmonApp) -> None:
    """List the sessions where the one that is shown was recorded."""
    from dlmon.slurm.standing import list_with_queue
    from dlmon.sweep.log import list_sweeps
    from tui.sessions.sessions_screen import SessionsScreen

    where = app.shown_sessions[-1].follower.directory if app.shown_sessions else app.directory
    sessions = partial(list_with_queue, where)
    hidden = frozenset(remembered(HIDDEN_COLUMNS).split())
    app.push_screen(SessionsScreen(sessions, partial(list_sweeps, where), hidden))


def show_session(app: DlmonApp, request: ShowSession) -> None:
    """Show a recorded session, or go back to it where it is shown already."""
    from dlmon.log.directory import read_entry
    from tui.screens.starting import StartingScreen

    if isinstance(app.screen, StartingScreen):
        return
    for depth, shown in enumerate(app.shown_sessions):
        above = app.shown_sessions[depth + 1 :]
        if shown.follower.path == request.log and not any(one.needs_us for one in above):
            app.uncover(shown.screen)
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
    app: DlmonApp,
    entry: SessionEntry,
    follow: Callable[[], SessionFollower],
    launch: Lifeline | None = None,
) -> StartingScreen:
    """Return what stands until a recorded session is read: one of a day takes a while."""
    from tui.screens.starting import StartingScreen
    from tui.sessions.session_details import SessionDetails

    name, is_queued = entry.header.id, entry.status == Status.QUEUED
    known = None
    if not is_queued:
        # Nothing is known yet of one that waits in the queue.
        known = SessionDetails()
        known.is_opening = True
        known.show(entry)

    async def read(waiting: StartingScreen) -> None:
        opened = follow
        if is_queued:
            log = await _out_of_queue(app, waiting, entry)
            if log is None:
                return
            opened = partial(app.sources.follow, log)
        try:
            follower = opened()
        except LogError as error:
            refuse_waiting(app, waiting, str(error), FAILED)
            return
        app.cleanups[waiting] = follower.close
        follower.poll(SLICE_S)
        await read_to_end(
            follower, lambda share: waiting.show_text(f"{name}\n{reading_text(share)}")
        )
        replace_waiting(app, waiting, session_screen(app, follower, launch))

    return StartingScreen(f"reading {name} …", read, DONE, known)


async def _out_of_queue(app: DlmonApp, waiting: StartingScreen, entry: SessionEntry) -> Path | None:
    """Show how a session stands in Slurm's queue until its log begins; return that.

    Where it never will, why not is shown, and None is returned.
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
    waiting: StartingScreen, what: str, cancel: Callable[[], object]
) -> Callable[[Queued], None]:
    """Return what shows how a session stands in Slurm's queue, and offers to take it out."""
    from dlmon.render.queue_lines import text_of

    def show(queued: Queued) -> None:
        if waiting.take_out_of_queue is None:
            waiting.take_out_of_queue = cancel
            waiting.refresh_bindings()
        asked = f"asked of Slurm: {clean(queued.options) or 'no options'}"
        waiting.show_text(f"{what}\n{asked}\n\n{text_of(queued)}\n\n{_LEFT_ALONE}")

    return show


async def _cancel(app: DlmonApp, log: Path) -> None:
    """Take a session out of Slurm's queue; that it is gone is found where it is waited for."""
    from dlmon.log.directory import read_entry
    from dlmon.protocol.control import NotControlled
    from dlmon.slurm.standing import stop_submitted

    try:
        await asyncio.to_thread(lambda: stop_submitted(read_entry(log)))
    except (NotControlled, LogError) as error:
        app.show_error(str(error))


def session_screen(
    app: DlmonApp,
    follower: SessionFollower,
    launch: Lifeline | None,
    connection: Connection | None = None,
    turn: str = "",
    log_dir: str | None = None,
) -> LiveScreen | RecordingScreen:
    """Make the screen of a session, and keep in mind that it is shown.

    One of ours has a lifeline, one of another machine a connection, with where sessions live there
    unless that is the default. Of several runs, `turn` says which it is.
    """
    screen: LiveScreen | RecordingScreen
    if follower.session.header.is_machine_recording:
        from tui.watch.recording import RecordingScreen

        screen = RecordingScreen(follower, follower.path.parent)
    else:
        screen = _live_screen(app, follower, launch, turn)
    shown = ShownSession(follower, launch, screen, connection, log_dir)
    app.shown_sessions.append(shown)
    app.cleanups[screen] = partial(_close_session, app, shown)
    return screen


def _live_screen(
    app: DlmonApp, follower: SessionFollower, launch: Lifeline | None, turn: str
) -> LiveScreen:
    from dlmon.comparison.published import own_published
    from dlmon.log.label import read_label
    from tui.live.live_screen import LiveScreen

    _, problem = own_published()
    if problem is not None:
        app.call_after_refresh(app.show_error, problem)
    known = script_job(launch) is not None or how_to_repeat(follower) is not None
    again = known and app.running_sweep is None
    screen = LiveScreen(follower, again, lambda: read_label(follower.path), app.references, turn)
    read_sessions(app, follower.directory, screen.show_entries)
    return screen


def _close_session(app: DlmonApp, shown: ShownSession) -> None:
    """Let go of a session whose screen is gone, and of the connection that it came over."""
    app.shown_sessions.remove(shown)
    shown.has_ended.set()
    if shown.launch is not None:
        shown.launch.release()
    shown.follower.close()
    if shown.connection is not None:
        app.run_worker(partial(close_connection, app, shown.connection))
    if shown.screen.detached:
        app.show_notice(f"{shown.follower.session.header.id} keeps running without dlmon")


def script_job(launch: Lifeline | None) -> Job | None:
    """Return the job of a script that this dlmon started.

    The command in a log is not run: whoever wrote it may be anybody.
    """
    return launch.job if launch is not None and launch.job.script else None


def how_to_repeat(follower: SessionFollower) -> tuple[Workload, RunOptions] | None:
    """Return what launches a session's workload once more, where it can be launched here."""
    from dlmon.options.jobs import recorded_options
    from workloads.catalog import WORKLOADS

    header = follower.session.header
    workload = WORKLOADS.get(header.workload)
    options = recorded_options(header)
    if workload is None or options is None:
        return None
    options = replace(options, host=follower.host)
    if options.problem(workload) is not None:
        return None
    return workload, options
