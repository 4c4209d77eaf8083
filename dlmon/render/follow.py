"""Follow a session in plain lines: one for each event, and one every ten seconds."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from dlmon.comparison.references import missing_part
from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER
from dlmon.figures import units
from dlmon.figures.lists.session_list import id_with_name, stop_delay_text
from dlmon.figures.machine.readings import busy_texts, identity, machine_line
from dlmon.figures.session.epoch_numbers import epoch_text, epoch_word
from dlmon.figures.session.headline import headline_of
from dlmon.figures.session.phases import (
    SUSPENDED,
    doing_text,
    overdue_text,
    phase_text,
    reading_text,
)
from dlmon.figures.session.progress import job_end_text
from dlmon.figures.session.stack_lines import pause_cause
from dlmon.launch.supervisor_process import SupervisorProcess
from dlmon.log.folder import location_options
from dlmon.log.label import read_label
from dlmon.notification import DesktopAlerts
from dlmon.protocol.stop import BY_CTRL_C, TERMINAL_CLOSED, VIEWER_TERMINATED
from dlmon.records import (
    Alert,
    Epoch,
    Facts,
    Machine,
    Notice,
    Phase,
    Record,
    SessionHeader,
    Stack,
    Status,
)
from dlmon.records.changes import merge
from dlmon.records.sanitize import shown_path
from dlmon.render.console import line_console, print_error
from dlmon.render.reading_progress import reading_progress
from dlmon.render.summary import (
    IN_SHORT,
    Ending,
    leaving_running_on_error,
    print_outcome,
    print_problem,
    result_json,
)
from dlmon.session.follower import SessionFollower
from dlmon.session.gaps import MIN_GAP_NS, Gap, GapKind
from dlmon.session.limits.evidence import OPENING
from dlmon.session.running_time import RunningTime
from dlmon.session.session import alert_text
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SLICE_S
from dlmon.system.signals import done_or_signalled, on_signals

if TYPE_CHECKING:
    from dlmon.protocol.job import RemoteStart

POLL_S = 0.2
# Longer than a supervisor takes to end a workload that ignores signals.
STOP_S = 20.0
LINE_EVERY_S = 10.0


def follow(
    path: Path,
    supervisor: SupervisorProcess | None,
    as_json: bool = False,
    desktop: bool = False,
    ending: Ending = IN_SHORT,
) -> int:
    """Follow the session of a log to its end, and return the exit code; see `follow_to_end`."""
    follower = SessionFollower(path, supervisor=supervisor)
    return asyncio.run(follow_to_end(follower, supervisor, as_json, desktop, ending))


async def follow_on_host(start: RemoteStart, as_json: bool, desktop: bool, ending: Ending) -> int:
    """Follow a session of another host to its end, and return the exit code.

    Ctrl-C, SIGTERM and SIGHUP end only this process: the session goes on.

    Raises:
        SshError: the host can't be reached.
        HostRefusal: the host can't show or start the session.
        LogError: the copy of the log can't be kept.
    """
    from dlmon.remote.connection import connected
    from dlmon.remote.host_requests import launch_remote
    from dlmon.remote.session_follower import follow_remote
    from dlmon.render.queue_lines import QueueLines, say_left_in_queue

    async with connected(start.host) as connection:
        meant, where = start.session, location_options(start.log_dir, start.host)
        if start.job is not None:
            meant = await launch_remote(connection, start.job, start.slurm)
        while True:
            lines = QueueLines(as_json)
            with reading_progress() as on_read:
                opened = follow_remote(connection, meant, start.log_dir, on_read, lines.show)
                follower, code = await done_or_signalled(opened)
            if follower is None:
                if lines.shown:
                    say_left_in_queue(meant, where)
                return code
            code = await follow_to_end(follower, None, as_json, desktop, ending, goes_on_there)
            if follower.running or follower.next_session is None:
                break
            meant = follower.next_session
        if start.job is not None and start.job.script and not follower.running:
            code = follower.script_exit_code
        if follower.running and start.job is not None:
            print_error(
                f"it goes on there; dlmon attach{where} {meant} shows it, "
                f"dlmon stop{where} {meant} ends it"
            )
        return code


def goes_on_there(over: SessionFollower) -> bool:
    """Return whether Slurm queued the job of a session of another host again."""
    return getattr(over, "next_session", None) is not None


async def follow_to_end(
    follower: SessionFollower,
    supervisor: SupervisorProcess | None,
    as_json: bool,
    desktop: bool,
    ending: Ending,
    goes_on: Callable[[SessionFollower], bool] = lambda follower: False,
) -> int:
    """Print the events of a session until it ends, and return the exit code.

    Ctrl-C ends with 130, SIGTERM and SIGHUP with 1. A session of ours, with a `supervisor`, is
    stopped and its result printed, but for SIGHUP if it outlives its terminal; another goes on. As
    JSON, only the result is printed, and nothing if the session `goes_on` as another one.
    """
    try:
        with leaving_running_on_error(follower, supervisor):
            outlives = supervisor is not None and not supervisor.job.ends_with_terminal
            lines = None if as_json else _Lines(follower, outlives)
            alerts = DesktopAlerts(desktop, sys.stderr)
            code_of_signal = await _Following(follower, supervisor, lines, alerts).run()
    finally:
        follower.close()
    is_last = not goes_on(follower)
    if as_json and is_last:
        if follower.result is not None:
            print(result_json(follower))
        print_problem(follower, follower.snapshot())
    elif not as_json:
        print_outcome(follower, ending)
    if code_of_signal is not None:
        if follower.running and supervisor is not None and not supervisor.is_detached:
            session, log = follower.session.header.id, shown_path(follower.path)
            print_error(f"{session} is still stopping; it is recorded in {log}")
        return code_of_signal
    recorded = follower.why_result_unwritten is None
    return DONE if follower.status == Status.COMPLETED and recorded else FAILED


@dataclass
class _Following:
    """Polls a session to its end; a signal stops a session of ours, else only the polling."""

    follower: SessionFollower
    supervisor: SupervisorProcess | None
    lines: _Lines | None
    alerts: DesktopAlerts
    exit_code: int | None = None
    leave_at: float | None = None
    problem: str | None = None

    async def run(self) -> int | None:
        """Follow to the end; return the exit code of the signal that ended it, if any."""
        on_signals(partial(self._end, BY_CTRL_C), [signal.SIGINT])
        on_signals(partial(self._end, VIEWER_TERMINATED), [signal.SIGTERM])
        on_signals(self._hang_up, [signal.SIGHUP])
        while True:
            records = self.follower.poll(SLICE_S)
            if self.lines is not None:
                self.lines.show(records)
            self.alerts.notify(self.follower)
            self._report_problem()
            if not self.follower.running and not records:
                break
            if self.leave_at is not None and time.monotonic() >= self.leave_at:
                break
            is_behind = self.follower.read_share is not None
            await asyncio.sleep(0 if records or is_behind else POLL_S)
        if self.supervisor is not None:
            self.supervisor.release()
        return self.exit_code

    def _end(self, word: str, exit_code: int) -> None:
        """Stop a session of ours and wait for its result; return at once on a second signal.

        The `word` tells the supervisor where the signal came from.
        """
        again, self.exit_code = self.exit_code is not None, exit_code
        if self.supervisor is None or again:
            self.leave_at = time.monotonic()
            return
        self.leave_at = time.monotonic() + STOP_S
        self.supervisor.send(word)
        if exit_code == INTERRUPTED_BY_USER:
            when = stop_delay_text(self.follower.session.header)
            print_error(f"stopping{when}; Ctrl-C again to leave now")

    def _hang_up(self, exit_code: int) -> None:
        """Leave a session of ours running, unless it ends with its terminal."""
        if self.supervisor is None or self.supervisor.job.ends_with_terminal:
            self._end(TERMINAL_CLOSED, exit_code)
            return
        self.supervisor.hang_up()
        self.exit_code, self.leave_at = exit_code, time.monotonic()

    def _report_problem(self) -> None:
        problem = self.follower.problem if self.follower.running else None
        lasting = self.follower.lasting_problem if problem else None
        if lasting and lasting != self.problem:
            print_error(f"{problem}")
        self.problem = lasting


class _Lines:
    """Prints a line for each event, and one every ten seconds; in a recording, for each sample.

    The additional epochs of `--seconds` may be many and short: one has a line every ten seconds.
    """

    def __init__(self, follower: SessionFollower, outlives_terminal: bool) -> None:
        self._follower, self._header = follower, follower.session.header
        self._word = epoch_word(self._header)
        self._console = line_console()
        self._running_time = RunningTime()
        self._epoch: Epoch | None = None
        self._next_extra_ns: float = 0
        self._phase = ""
        """The last printed phase; a script returns to it after each epoch."""
        self._compiled_ns = 0
        """The end of compiling, which has its own line; a pause before it gets none."""
        self._latest: Machine | None = None
        self._next_at = self._next_headline_at = time.monotonic() + LINE_EVERY_S
        self._headline = ""
        """The rule of the last printed headline: one is printed again once another rule leads."""
        self._print(f"session {id_with_name(self._header.id, read_label(follower.path))}")
        self._print(f"log {shown_path(follower.path)}")
        if outlives_terminal:
            self._print("a closed terminal won't end it; dlmon attach comes back")
        if self._header.is_machine_recording:
            self._print(_facts_line(self._header))

    def show(self, records: list[Record]) -> None:
        """Print the events of these records, and the progress if it is due."""
        for record in self._running_time.of_all(records):
            # All ranks do what the first one does.
            event = None if getattr(record, "trainer", None) else self._event(record)
            if event is not None:
                since_start_ns = event[0] + self._running_time.suspended_ns - self._header.t
                self._print(event[1], self._header.wall + since_start_ns / 1e9)
                self._next_at = time.monotonic() + LINE_EVERY_S
        if time.monotonic() >= self._next_at and self._follower.running:
            self._next_at = time.monotonic() + LINE_EVERY_S
            reading = reading_text(self._follower.read_share)
            self._print(reading or _progress_text(self._follower.snapshot()), time.time())
        if time.monotonic() >= self._next_headline_at and self._follower.running:
            self._next_headline_at = time.monotonic() + LINE_EVERY_S
            self._print_headline()

    def _print_headline(self) -> None:
        """Print the headline with its advice, if another one leads."""
        follower = self._follower
        headline = headline_of(follower.snapshot(), True, follower.status, follower.problem)
        # The line of an epoch that takes long to start is printed apart.
        if headline is None or headline.rule in (self._headline, "not-yet", OPENING):
            return
        self._headline = headline.rule
        advice = f"; try: {headline.advice}" if headline.advice else ""
        self._print(f"{headline.text}{advice}", time.time())

    def _print(self, line: str, wall: float | None = None) -> None:
        """Print a line with the time of its event, or of the start if it has none."""
        wall = self._header.wall if wall is None else wall
        self._console.print(Text(f"{units.time_of_day(wall)}  {line}"))
        self._console.file.flush()

    def _event(self, record: Record) -> tuple[int, str] | None:
        """Return the time and the line of a record; None if it needs no line."""
        is_recording = self._header.is_machine_recording
        match record:
            case Epoch():
                line = self._epoch_line(record)
                return (record.end, line) if line else None
            case Machine() if is_recording:
                self._latest = merge(self._latest, record)
                return record.t, machine_line(self._latest)
            case Facts() if is_recording:
                return record.t, _facts_line(record)
            case Notice():
                return record.t, f"notice: {record.text}"
            case Alert():
                return record.t, alert_text(record)
            case Stack() if not record.goes_on and record.t - record.begin >= MIN_GAP_NS:
                if record.begin < self._compiled_ns or self._phase == "compiling":
                    return None
                lasted = units.seconds((record.t - record.begin) / 1e9)
                gap = Gap(record.begin, record.t, GapKind.BETWEEN)
                gap = self._follower.session.gaps.explained(gap)
                text = pause_cause(record, gap, self._follower.snapshot())
                return record.t, f"{lasted} without a batch: {text}"
            case Phase() if record.name not in ("validating", "closing", self._phase):
                if self._phase == "compiling":
                    self._compiled_ns = record.t
                self._phase = record.name
                if record.name != "opening" or record.epoch is None:
                    return record.t, record.name
                return record.t, f"{phase_text(record.name)} {self._word} {record.epoch + 1}"
        return None

    def _epoch_line(self, epoch: Epoch) -> str:
        """Write the time and the metrics of an epoch; empty if they were printed before.

        An epoch is recorded again after its validation, which then gets its own line.
        """
        before, self._epoch = self._epoch, epoch
        name, model = f"{self._word} {epoch.epoch + 1}", self._follower.session.model
        in_all = units.seconds((epoch.end - epoch.begin) / 1e9)
        if before is not None and (epoch.epoch, epoch.begin) == (before.epoch, before.begin):
            metrics = _metrics_text(epoch, printed=before.metrics)
            if epoch.end == before.end:
                # The time of the validation was printed; its metrics follow.
                return metrics and f"{name}  {metrics}"
            took = units.seconds((epoch.end - before.end) / 1e9)
            line = f"validation of {name} took {took}, the {self._word} {in_all} in all  {metrics}"
            return line.rstrip()
        if model is not None and model.epochs is not None and epoch.epoch >= model.epochs:
            if epoch.end < self._next_extra_ns:
                return ""
            self._next_extra_ns = epoch.end + LINE_EVERY_S * 1e9
        is_cut = not epoch.whole and epoch.steps is not None
        part = f" ({units.counted(epoch.steps or 0, 'step')})" if is_cut else ""
        of = model and model.epochs_in_all
        total = f"/{max(of, epoch.epoch + 1)}" if of else "" if model else "/?"
        return f"{name}{total} took {in_all}{part}  {_metrics_text(epoch)}".rstrip()


def _facts_line(of: SessionHeader | Facts) -> str:
    return f"{of.host}: {', '.join(identity(of.machine))}"


def _metrics_text(epoch: Epoch, printed: Collection[str] = ()) -> str:
    """Write the metrics of an epoch, without those already printed."""
    return "  ".join(
        f"{name} {value:.4g}" if value is not None else f"{name} {epoch.why.get(name, '–')}"
        for name, value in epoch.metrics.items()
        if name not in printed
    )


def _progress_text(snapshot: Snapshot) -> str:
    epoch, progress = epoch_text(snapshot), snapshot.progress
    parts = [epoch] if epoch else []
    if progress is not None:
        of = "" if progress.steps is None else f"/{progress.steps:,}"
        parts.append(f"step {progress.step:,}{of}")
    if snapshot.is_suspended:
        parts.append(SUSPENDED)
    if snapshot.overdue_s is not None:
        parts.append(overdue_text(snapshot.overdue_s))
    rates_now = (snapshot.samples_per_second_now, snapshot.tokens_per_second_now)
    parts += filter(None, map(units.rate_now, rates_now))
    if snapshot.seconds_per_epoch is not None:
        missing = missing_part(snapshot.seconds_per_epoch, snapshot.why)
        left_out = f" without {missing}" if missing else ""
        parts.append(f"{units.band(snapshot.seconds_per_epoch)} per epoch{left_out}")
    parts += busy_texts(snapshot.machine)
    if progress is not None and progress.run_left_s is not None:
        parts.append(units.time_left(progress.run_left_s))
    parts += filter(None, [job_end_text(snapshot)])
    return "  ".join(parts) or doing_text(snapshot)
