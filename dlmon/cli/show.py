"""Start a session or attach to one, then show it on the live screen, in lines, or not at all."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlmon.cli.command_line import sentence_of
from dlmon.cli.shared import UserError, in_terminal, result_of, user_errors
from dlmon.exit_codes import FAILED, NOT_STARTED
from dlmon.log.folder import id_of, location_options
from dlmon.options.settings import Settings
from dlmon.records.record import record

# Help must not import what starts a session.
if TYPE_CHECKING:
    from dlmon.cli.start import ShowScreen
    from dlmon.launch.supervisor_process import SupervisorProcess
    from dlmon.protocol.job import Job, RemoteStart, Started
    from dlmon.render.summary import Ending


@record(frozen=True)
class View:
    """The options for showing sessions.

    Attributes:
        settings: the user's settings.
        log_dir: the log directory of the command line; None for the default.
        plain: print lines, even in a terminal.
        as_json: print only the result, as JSON.
        verbose: print all figures of a session that is over, not ten lines.
    """

    settings: Settings
    log_dir: str | None = None
    plain: bool = False
    as_json: bool = False
    verbose: bool = False

    @property
    def ending(self) -> Ending:
        """How the outcome of the session is printed."""
        from dlmon.render.summary import Ending

        return Ending(self.verbose, self.settings.usual_directory)

    @property
    def on_screen(self) -> bool:
        """True if the live screen shows the session."""
        return not (self.plain or self.as_json) and in_terminal()

    def open(self, directory: Path, **content: Any) -> int:
        """Show a screen with this `content`, fields of `Start`, and return the exit code."""
        from dlmon.cli.start import Start

        show: ShowScreen = click.get_current_context().find_root().obj
        return show(Start(directory, self.settings, verbose=self.verbose, **content))


def start_session(job: Job, view: View, host: str | None = None) -> int | None:
    """Start a session, here or on another host; show it unless it is detached.

    Returns:
        The exit code.

    Raises:
        UserError: it could not be started.
        SshError: the host can't be reached.
        HostRefusal: the host can't start it.
    """
    if host is not None:
        return _start_on_host(job, view, host)
    job = view.settings.applied_to(job)
    on_screen = view.on_screen and not job.outlives_viewer
    if job.script and not on_screen and not job.outlives_viewer:
        from dlmon.render.script import run_script

        # The script shares our streams, so it is launched there.
        return run_script(job, view.as_json, view.ending, view.settings.alerts.desktop)
    from dlmon.launch.supervisor_process import launch

    if job.script and on_screen:
        from dlmon.options.jobs import output_size

        job = replace(job, terminal=output_size(*os.get_terminal_size(sys.stderr.fileno())))
    if not on_screen:
        _exit_on_signals("the run" if job.workload else "the recording")
    with not_started() if job.script else nullcontext():
        started = launch(job)
        if job.outlives_viewer:
            answer = _answer_of(started)
            started.detach()
            started.release()
            say_running(asdict(answer), job.name, view)
            return None
    return show_session(view, Path(job.log_dir), started=started)


def start_in_slurm(job: Job, view: View, text: str, host: str | None = None) -> int | None:
    """Submit a session to Slurm, here or on another host; show it unless it is detached.

    `text` holds sbatch's options as typed.

    Returns:
        The exit code.

    Raises:
        SlurmError: there is no Slurm here, or it refuses the job.
        SshError: the host can't be reached.
        HostRefusal: the Slurm of the host refuses the job.
    """
    from dlmon.slurm.submit import read_slurm_options

    text = f"{view.settings.slurm} {text}".strip()
    options = read_slurm_options(text)
    if host is not None:
        return _start_on_host(job, view, host, text)
    from dlmon.slurm.submit_session import submit_session

    log = submit_session(job, options, text)
    if job.outlives_viewer:
        say_running({"session": id_of(log), "log": str(log)}, job.name, view, queued=True)
        return None
    if view.on_screen:
        return show_session(view, log.parent.parent, log=log)
    return _follow_in_slurm(log, view, is_ours=True)


def _follow_in_slurm(log: Path, view: View, is_ours: bool) -> int:
    from dlmon.render.queue import follow_in_slurm

    desktop = view.settings.alerts.desktop
    return follow_in_slurm(log, view.as_json, view.log_dir, desktop, is_ours, view.ending)


def show_session(
    view: View,
    directory: Path,
    *,
    log: Path | None = None,
    started: SupervisorProcess | None = None,
    remote: RemoteStart | None = None,
) -> int:
    """Show a session until it ends or the screen is left, and return the exit code.

    It has a `log` in the log directory, or was `started` by us and has none yet, or is on a
    `remote` host.
    """
    if view.on_screen:
        return view.open(directory, log=log, started=started, remote=remote)
    from dlmon.log.submitted import is_of_slurm

    if log is not None and is_of_slurm(log):
        return _follow_in_slurm(log, view, is_ours=False)
    from dlmon.render.follow import follow, follow_on_host

    desktop = view.settings.alerts.desktop
    if remote is not None:
        return result_of(follow_on_host(remote, view.as_json, desktop, view.ending))
    if started is not None:
        log = Path(_answer_of(started).log)
    assert log is not None
    return follow(log, started, view.as_json, desktop, view.ending)


def show_remote(start: RemoteStart, view: View) -> int:
    """Show a session of another host as `show_session` does."""
    from dlmon.remote.session_follower import copies_directory

    return show_session(view, copies_directory(start.host), remote=start)


def _start_on_host(job: Job, view: View, host: str, slurm: str | None = None) -> int | None:
    from dlmon.protocol.job import RemoteStart
    from dlmon.remote.host_requests import start_remote

    if not job.outlives_viewer:
        start = RemoteStart(host, log_dir=view.log_dir, job=job, slurm=slurm)
        return show_remote(start, view)
    answer = {"session": result_of(start_remote(host, job, slurm)), "host": host}
    say_running(answer, job.name, view, host, queued=slurm is not None)
    return None


def say_running(
    answer: dict[str, Any],
    name: str | None,
    view: View,
    host: str | None = None,
    queued: bool = False,
) -> None:
    """Print that a detached session was started, and how to attach to it and stop it."""
    if view.as_json:
        print(json.dumps({**answer, "name": name}))
        return
    session = answer["session"]
    called, on = f"{session} ({name})" if name else session, f" on {host}" if host else ""
    arguments = f"{location_options(view.log_dir, host)} {session}"
    state = f"is in Slurm's queue{on}" if queued else f"is running{on}"
    print(f"{called} {state}; dlmon attach{arguments} shows it, dlmon stop{arguments} ends it")


@contextmanager
def not_started() -> Iterator[None]:
    """Give every error that keeps a script from being started the exit code `NOT_STARTED`."""
    try:
        yield
    except click.UsageError as error:
        raise UserError(sentence_of(error), NOT_STARTED) from None
    except Exception as error:
        if not isinstance(error, (*user_errors(), OSError)):
            raise
        raise UserError(str(error), NOT_STARTED) from None


def _answer_of(started: SupervisorProcess) -> Started:
    """Wait for a supervisor's answer.

    Raises:
        UserError: the supervisor refused to start the session.
    """
    from dlmon.protocol.job import Refused

    answer = started.answer()
    if isinstance(answer, Refused):
        raise UserError(answer.reason, answer.exit_code)
    return answer


def _exit_on_signals(subject: str) -> None:
    """Exit with a sentence on a signal that comes before the session is followed."""

    def end(number: int, frame: object) -> None:
        # Once its pipe is closed, the supervisor starts nothing, or stops what has just begun.
        raise UserError(f"{subject} was ended by a signal as it started", FAILED)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
