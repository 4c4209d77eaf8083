"""Follow a session of a Slurm job: in the queue until its log begins, then by its log."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dlmon.log.folder import LOG_NAME
from dlmon.log.submitted import Submitted, read_submitted
from dlmon.records import Result, Status, StopCause
from dlmon.records.sanitize import clean
from dlmon.session.follower import SessionFollower
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import (
    JobState,
    Queued,
    QueuedJob,
    cancel,
    read_accounts,
    read_job,
    read_queue,
)
from dlmon.slurm.submit import OUTPUT_NAME
from dlmon.slurm.submit_session import restarted_folder
from dlmon.system.children import python_command
from dlmon.system.files import read_regular
from dlmon.system.this_host import host_name

if TYPE_CHECKING:
    from dlmon.launch.supervisor_process import SupervisorProcess

ASK_EVERY_S = 2.0
"""The least time between queries: Slurm's controller serves thousands of users."""
OFTEN_FOR_S, SELDOM_S = 120.0, 10.0
"""After `OFTEN_FOR_S`, the time between queries is `SELDOM_S`."""
# A file that a node has written may take this long to show elsewhere.
LATE_S = 5.0
COPY_AGAIN_S = 10.0
QUEUED_AGAIN_S = (0.0, 1.0, 2.0, 4.0)
# The controller takes a while to notice that a node is gone.
FOUND_WITHIN_S = 15.0
_MOST_OUTPUT_BYTES = 1 << 16
LONGEST_LINE = 300
_RESTARTING = (StopCause.REQUEUED, StopCause.PREEMPTED)
# The signal in Slurm's exit code for a job that could not open its output file.
_NO_OUTPUT = 53


class JobWatch:
    """The state of a job, read in a thread: the controller may be slow.

    Args:
        job: its number.
        query: reads the state of a job by its number.
        clock: CLOCK_MONOTONIC in seconds.
    """

    def __init__(
        self,
        job: str,
        query: Callable[[str], QueuedJob | None] = read_job,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = job
        self.job: QueuedJob | None = None
        """Its state by the newest answer; None if Slurm has no such job (any more)."""
        self.answered_at: float | None = None
        """The time of the newest answer."""
        self.problem: str | None = None
        """Why Slurm does not answer; None if it does."""
        self._query, self._clock = query, clock
        self._began = self._asked_at = clock()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Query again if it is time; `job` has the answer later."""
        if self._thread is not None and self._thread.is_alive():
            return
        now = self._clock()
        every_s = ASK_EVERY_S if now - self._began < OFTEN_FOR_S else SELDOM_S
        if self._thread is None or now - self._asked_at >= every_s:
            self._asked_at = now
            self._thread = threading.Thread(target=self._ask, name="squeue", daemon=True)
            self._thread.start()

    def _ask(self) -> None:
        try:
            self.job, self.problem = self._query(self.number), None
            self.answered_at = self._clock()
        except SlurmError as error:
            self.problem = str(error)


class SharedQueue:
    """The queue, read once for all tasks of an array and kept for `ASK_EVERY_S`."""

    def __init__(
        self,
        query: Callable[[Iterable[str]], list[QueuedJob]] = read_queue,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._query, self._clock = query, clock
        self._lock = threading.Lock()
        self._jobs: dict[str, QueuedJob] = {}
        self._arrays: set[str] = set()
        self._asked_at: float | None = None

    def job(self, number: str) -> QueuedJob | None:
        """Return the state of a job, which may be `ASK_EVERY_S` old.

        Raises:
            SlurmError: Slurm does not answer.
        """
        array = number.partition("_")[0]
        with self._lock:
            now = self._clock()
            is_old = self._asked_at is None or now - self._asked_at >= ASK_EVERY_S
            if is_old or array not in self._arrays:
                self._arrays.add(array)
                self._jobs = {job.number: job for job in self._query(self._arrays)}
                self._asked_at = now
            job = self._jobs.get(number)
        return job or read_accounts(number)


class NodeCopy:
    """A process that copies a log from the node's own disk; it ends with us or with the job."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._began = -COPY_AGAIN_S

    def keep_running(self, job: QueuedJob) -> None:
        """Start the process if the job runs and the process doesn't."""
        now = time.monotonic()
        is_copying = self._process is not None and self._process.poll() is None
        is_soon = now - self._began < COPY_AGAIN_S
        if job.state is not JobState.RUNNING or is_copying or is_soon:
            return
        self._began = now
        self._process = subprocess.Popen(
            [*python_command("dlmon.remote.node_copy"), job.id, str(self._log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@cache
def copy_of(log: Path) -> NodeCopy:
    """Return the copy of a log, one for all its followers."""
    return NodeCopy(log)


class WaitingSession:
    """A submitted session, until its log begins or its job is over.

    Args:
        log: the path of its future log.
        submitted: what was submitted.
        watch: the state of its job; read anew if None.
        clock: CLOCK_MONOTONIC in seconds.
    """

    def __init__(
        self,
        log: Path,
        submitted: Submitted,
        watch: JobWatch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log, self.submitted = log, submitted
        self.watch = watch
        if watch is None and submitted.slurm_job is not None:
            self.watch = JobWatch(submitted.slurm_job)
        self._clock = clock
        self._over_at: float | None = None
        self._running_at: float | None = None
        self.failure: str | None = None
        """Why the log will never begin; None while it may."""

    @property
    def queued(self) -> Queued:
        job, problem = (None, None) if self.watch is None else (self.watch.job, self.watch.problem)
        return Queued(self.submitted.slurm_job, job, problem, self.submitted.options)

    def poll(self) -> Path | None:
        """Return the log once it has begun; `failure` says if it never will."""
        # The folder may be unreadable; a copied log exists before its first line.
        with contextlib.suppress(OSError):
            if self.log.stat().st_size:
                return self.log
        if self.watch is None:
            # The submitting process may not have received the number yet.
            submitted = read_submitted(self.log)
            if submitted is not None and submitted.slurm_job is not None:
                self.submitted, self.watch = submitted, JobWatch(submitted.slurm_job)
            return None
        self.watch.look()
        return self._look_for_end(self.watch)

    def _look_for_end(self, watch: JobWatch) -> Path | None:
        if watch.answered_at is None:
            return None
        job = watch.job
        if job is not None and not job.state.is_over:
            restarts = job.restarts or 0
            if restarts > self.submitted.restart:
                # Slurm restarted it before its session began.
                log = restarted_folder(self.log.parent, restarts) / LOG_NAME
                return log if os.path.exists(log) else None  # noqa: PTH110
            self._over_at = None
            if job.state is JobState.RUNNING:
                now = self._clock()
                self._running_at = now if self._running_at is None else self._running_at
                if now - self._running_at >= LATE_S:
                    copy_of(self.log).keep_running(job)
            return None
        now = self._clock()
        if self._over_at is None:
            self._over_at = now
        if now - self._over_at >= LATE_S or (job is not None and job.start_wall is None):
            self.failure = self._why_over(job)
        return None

    def _why_over(self, job: QueuedJob | None) -> str:
        if job is None:
            return f"Slurm has no job {self.submitted.slurm_job} any more, and no session began"
        output = last_line_of(self.log.with_name(OUTPUT_NAME))
        end, folder = end_text(job), self.log.parent
        if output:
            return f"{end} before the session began: {output}"
        if job.signal == _NO_OUTPUT:
            return f"{end} before the session began; can its node write in {folder}?"
        if job.state in (JobState.COMPLETED, JobState.FAILED):
            return f"{end} before a session was seen here; does its node see {folder}?"
        return f"{end} before the session began"


def end_text(job: QueuedJob) -> str:
    """Return a sentence that says how a job ended."""
    number = f"job {job.id}"
    where = f" ({job.node_list})" if job.node_list else ""
    by = "" if job.cancelled_by is None else f" by user {job.cancelled_by}"
    texts = {
        JobState.CANCELLED: f"{number} was cancelled{by}",
        JobState.TIMEOUT: f"Slurm ended {number} at its time limit",
        JobState.OUT_OF_MEMORY: f"{number} ran out of memory",
        JobState.NODE_FAIL: f"{number} lost its node{where}",
        JobState.BOOT_FAIL: f"the node of {number} did not boot{where}",
        JobState.PREEMPTED: f"{number} gave its place to another job",
        JobState.DEADLINE: f"{number} missed its deadline",
        JobState.COMPLETED: f"{number} ended",
        JobState.FAILED: f"{number} failed{_reason(job)}",
    }
    if job.state is JobState.UNKNOWN:
        return f"{number} is in a state that dlmon does not know"
    if not job.state.is_over:
        return f"Slurm put {number} back into the queue"
    return texts[job.state]


def _reason(job: QueuedJob) -> str:
    if job.reason in (None, "None", "NonZeroExitCode"):
        return "" if job.exit_code is None else f" with exit code {job.exit_code}"
    return f" ({job.reason})"


def last_line_of(path: Path) -> str | None:
    """Return the last line that Slurm and the shell wrote; None if there is none."""
    try:
        text = read_regular(path, _MOST_OUTPUT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    lines = [line for line in (clean(line).strip() for line in text.splitlines()) if line]
    return clean(lines[-1], LONGEST_LINE) if lines else None


class SessionJob:
    """The job of a submitted session, which tells the status if another host locks the log.

    Args:
        log: its log.
        watch: the state of its job; read anew if None.
        number: the number of the job, if no file beside the log has it.
        clock: CLOCK_MONOTONIC in seconds.
    """

    def __init__(
        self,
        log: Path,
        watch: JobWatch | None = None,
        number: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        submitted = read_submitted(log)
        self.restart = 0 if submitted is None else submitted.restart
        self.on_node = None if submitted is None else submitted.on_node
        self.own_signal = None if submitted is None else submitted.job.get("own_signal")
        if submitted is not None and submitted.slurm_job is not None:
            number = submitted.slurm_job
        self.watch = watch or (None if number is None else JobWatch(number))
        self._log, self._clock = log, clock
        self._unlocked_at: float | None = None

    def status(self, by_lock: Status, host: str) -> Status:
        """Return the status of a session without a result.

        Args:
            by_lock: its status by the lock on its log, as seen here.
            host: the host that recorded it.
        """
        if by_lock == Status.RUNNING or self.watch is None:
            self._unlocked_at = None
            return by_lock
        self.watch.look()
        job, now = self.watch.job, self._clock()
        if self._unlocked_at is None:
            self._unlocked_at = now
        waited_s = now - self._unlocked_at
        if self.watch.answered_at is None:
            # Without Slurm's answer, only the lock can tell.
            return by_lock if self.watch.problem or waited_s > FOUND_WITHIN_S else Status.RUNNING
        if job is None or self.ended_job() is not None:
            return Status.INTERRUPTED if waited_s >= LATE_S else Status.RUNNING
        if self.on_node is not None:
            copy_of(self._log).keep_running(job)
            return Status.RUNNING
        is_here = host == host_name()
        return by_lock if is_here and waited_s > FOUND_WITHIN_S else Status.RUNNING

    def is_restarted(self, job: QueuedJob) -> bool:
        """Return whether Slurm has requeued the job since this session began."""
        return (job.restarts or 0) > self.restart

    def ended_job(self) -> QueuedJob | None:
        """Return the job if Slurm says that it is over or was requeued."""
        job = None if self.watch is None else self.watch.job
        return job if job is not None and (job.state.is_over or self.is_restarted(job)) else None

    def _wait_for_restart(self, number: str) -> bool:
        for wait_s in QUEUED_AGAIN_S:
            # Slurm counts a restart once the earlier processes are gone.
            time.sleep(wait_s)
            try:
                job = read_job(number)
            except SlurmError:
                return False
            if job is None or job.state.is_over:
                return False
            if self.is_restarted(job):
                return True
        return False

    def next(self, result: Result | None) -> WaitingSession | None:
        """Return the session that follows this one if Slurm requeued the job.

        Args:
            result: the result of this session; None if it was interrupted.
        """
        may_restart = result is None or result.stopped_by in _RESTARTING
        if self.watch is None or not may_restart or read_submitted(self._log) is None:
            return None
        if not self._wait_for_restart(self.watch.number):
            return None
        root = self._log.parent.name.removesuffix(f"-r{self.restart}")
        folder = restarted_folder(self._log.parent.with_name(root), self.restart + 1)
        submitted = read_submitted(folder / LOG_NAME)
        return None if submitted is None else WaitingSession(folder / LOG_NAME, submitted)


class SlurmFollower(SessionFollower):
    """A session that runs in a Slurm job, followed by its log and the queue."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int] = time.monotonic_ns,
        supervisor: SupervisorProcess | None = None,
        by_index: bool = False,
        watch: JobWatch | None = None,
    ) -> None:
        super().__init__(path, clock, supervisor, by_index)
        slurm_job = self.session.header.slurm
        number = None if slurm_job is None else slurm_job.job
        self.session_job = SessionJob(path, watch, number, lambda: clock() / 1e9)

    def status_without_result(self) -> Status:
        return self.session_job.status(super().status_without_result(), self.session.header.host)

    def stop(self) -> bool:
        if super().stop():
            return True
        job = self.session_job
        if job.watch is None or not self.running:
            return False
        try:
            cancel(job.watch.number, stop_signal(job.own_signal, by_command=False))
        except SlurmError:
            return False
        return True

    def _find_problem(self) -> str | None:
        job = self.session_job.ended_job()
        if job is None or self.status != Status.INTERRUPTED or self.unreadable is not None:
            return super()._find_problem()
        lost, node = "no result could be recorded", self.session_job.on_node
        if node is not None:
            lost = f"what {node} recorded last could not be copied from it"
        return f"interrupted: {end_text(job)}, and {lost}"


def stop_signal(script_signal: object, by_command: bool) -> str:
    """Return the signal that has a job's supervisor stop it, other than the script's own signal."""
    first, second = ("USR2", "USR1") if by_command else ("USR1", "USR2")
    return second if script_signal == first else first


def follow_session(
    path: Path,
    clock: Callable[[], int] = time.monotonic_ns,
    supervisor: SupervisorProcess | None = None,
    by_index: bool = False,
) -> SessionFollower:
    """Return a follower for the session of a log, in a Slurm job or not.

    Raises:
        LogError: the log can't be read.
    """
    kind = SessionFollower if read_submitted(path) is None else SlurmFollower
    return kind(path, clock, supervisor, by_index)


def next_session(follower: SessionFollower) -> WaitingSession | None:
    """Return the session that follows a finished one if Slurm requeued its job."""
    if not isinstance(follower, SlurmFollower):
        return None
    return follower.session_job.next(follower.result)
