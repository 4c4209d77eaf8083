"""Follow a session of Slurm's: in the queue until its log begins, then by its log."""

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
    from dlmon.launch.lifeline import Lifeline

ASK_EVERY_S = 2.0
"""A queue is asked no more often: its controller serves thousands."""
OFTEN_FOR_S, SELDOM_S = 120.0, 10.0
"""What waits for longer is asked for seldom."""
# What a node has written may be seen elsewhere only later.
LATE_S = 5.0
COPY_AGAIN_S = 10.0
QUEUED_AGAIN_S = (0.0, 1.0, 2.0, 4.0)
# The controller finds a missing node only after a while.
FOUND_WITHIN_S = 15.0
_MOST_OUTPUT_BYTES = 1 << 16
LONGEST_LINE = 300
# How Slurm ends a job that could not open its output (slurmd, ESPANK or SIGUNUSED: 53).
_NO_OUTPUT = 53


class JobWatch:
    """Asks how a job stands, in a thread: the controller may take its time.

    Args:
        job: its number.
        read: asks.
        clock: CLOCK_MONOTONIC in seconds.
    """

    def __init__(
        self,
        job: str,
        read: Callable[[str], QueuedJob | None] = read_job,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = job
        self.job: QueuedJob | None = None
        """How it stood when that was asked last; None where Slurm knows no such job any more."""
        self.answered_at: float | None = None
        """When Slurm answered last; None before it has."""
        self.problem: str | None = None
        """Why it does not answer."""
        self._read, self._clock = read, clock
        self._began = self._asked_at = clock()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Ask again where it is time; the answer is in `job` later."""
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
            self.job, self.problem = self._read(self.number), None
            self.answered_at = self._clock()
        except SlurmError as error:
            self.problem = str(error)


class SharedQueue:
    """The queue as the tasks of an array see it: asked once for all, by whichever asks first."""

    def __init__(
        self,
        read: Callable[[Iterable[str]], list[QueuedJob]] = read_queue,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._jobs: dict[str, QueuedJob] = {}
        self._arrays: set[str] = set()
        self._asked_at: float | None = None

    def job(self, number: str) -> QueuedJob | None:
        """Return how a job stands, as of the last seconds.

        Raises:
            SlurmError: Slurm does not answer.
        """
        array = number.partition("_")[0]
        with self._lock:
            now = self._clock()
            is_old = self._asked_at is None or now - self._asked_at >= ASK_EVERY_S
            if is_old or array not in self._arrays:
                self._arrays.add(array)
                self._jobs = {job.number: job for job in self._read(self._arrays)}
                self._asked_at = now
            found = self._jobs.get(number)
        return found or read_accounts(number)


class NodeCopy:
    """Has the log of a session copied that its node writes to a disk of its own.

    That is done by a process, which ends with this one or with the job.

    Args:
        log: where its log is seen here.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._began: float | None = None

    def look(self, job: QueuedJob) -> None:
        """Copy what a job that runs has written, from now on."""
        now = time.monotonic()
        is_copying = self._process is not None and self._process.poll() is None
        is_soon = self._began is not None and now - self._began < COPY_AGAIN_S
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
    """Return what copies the session of a log, one for all that follow it."""
    return NodeCopy(log)


class Waiting:
    """A session that has been submitted, until its log begins or its job is over.

    Args:
        log: where its log will be.
        submitted: what was submitted.
        watch: asks how its job stands.
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
        """Why no log will come any more; None as long as one may."""

    @property
    def queued(self) -> Queued:
        """How it stands."""
        job, problem = (None, None) if self.watch is None else (self.watch.job, self.watch.problem)
        return Queued(self.submitted.slurm_job, job, problem, self.submitted.options)

    def poll(self) -> Path | None:
        """Return the log once it is there; `failure` says if it never will be."""
        # It may be forbidden to look; of a copy, the file comes first.
        with contextlib.suppress(OSError):
            if self.log.stat().st_size:
                return self.log
        if self.watch is None:
            # Whoever submits it has yet to hear its number.
            again = read_submitted(self.log)
            if again is not None and again.slurm_job is not None:
                self.submitted, self.watch = again, JobWatch(again.slurm_job)
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
                # It was started anew before it could begin.
                return self._next(restarts)
            self._over_at = None
            if job.state is JobState.RUNNING:
                now = self._clock()
                self._running_at = now if self._running_at is None else self._running_at
                if now - self._running_at >= LATE_S:
                    copy_of(self.log).look(job)
            return None
        now = self._clock()
        if self._over_at is None:
            self._over_at = now
        if now - self._over_at >= LATE_S or (job is not None and job.start_wall is None):
            self.failure = self._why_over(job)
        return None

    def _next(self, restarts: int) -> Path | None:
        log = restarted_folder(self.log.parent, restarts) / LOG_NAME
        return log if os.path.exists(log) else None  # noqa: PTH110

    def _why_over(self, job: QueuedJob | None) -> str:
        if job is None:
            return f"Slurm has no job {self.submitted.slurm_job} any more, and no session began"
        said = last_line_of(self.log.with_name(OUTPUT_NAME))
        why = f"{end_text(job)} before the session began"
        if job.signal == _NO_OUTPUT and not said:
            why += f"; can its node write in {self.log.parent}?"
        elif job.state in (JobState.COMPLETED, JobState.FAILED) and not said:
            why = f"{end_text(job)} before a session was seen here; does its node see "
            why += f"{self.log.parent}?"
        return f"{why}: {said}" if said else why


def end_text(job: QueuedJob) -> str:
    """Say how a job of Slurm's ended, in words."""
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
    """Return the last line of what Slurm and the shell wrote; None where there is none."""
    try:
        text = read_regular(path, _MOST_OUTPUT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    lines = [line for line in (clean(line).strip() for line in text.splitlines()) if line]
    return clean(lines[-1], LONGEST_LINE) if lines else None


class JobLife:
    """Whether a session of Slurm's still runs.

    The lock of its log does not show that where it is written elsewhere: its job does.

    Args:
        log: its log.
        watch: asks how its job stands; None for one of its own.
        number: that of the job, where nothing beside the log says it.
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
        """Return how a session without a result stands.

        Args:
            by_lock: the same, as the lock of its log shows it here.
            host: where it was recorded.
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
            # Without Slurm it can't be known.
            return by_lock if self.watch.problem or waited_s > FOUND_WITHIN_S else Status.RUNNING
        if job is None or job.state.is_over or self.is_next(job):
            return Status.INTERRUPTED if waited_s >= LATE_S else Status.RUNNING
        if self.on_node is not None:
            copy_of(self._log).look(job)
            return Status.RUNNING
        is_here = host == host_name()
        return by_lock if is_here and waited_s > FOUND_WITHIN_S else Status.RUNNING

    def is_next(self, job: QueuedJob) -> bool:
        """Return whether Slurm has put the job back into the queue since."""
        return (job.restarts or 0) > self.restart

    def _is_started_anew(self, number: str) -> bool:
        for wait_s in QUEUED_AGAIN_S:
            # Slurm counts a start once what ran before is gone.
            time.sleep(wait_s)
            try:
                job = read_job(number)
            except SlurmError:
                return False
            if job is None or job.state.is_over:
                return False
            if self.is_next(job):
                return True
        return False

    def next(self, result: Result | None) -> Waiting | None:
        """Return the session that goes on where this one ended as Slurm queued its job again.

        Args:
            result: what it came to; None where it was interrupted.
        """
        submitted = read_submitted(self._log)
        by = None if result is None else result.stopped_by
        is_queued_again = result is None or by in (StopCause.REQUEUED, StopCause.PREEMPTED)
        if submitted is None or self.watch is None or not is_queued_again:
            return None
        if not self._is_started_anew(self.watch.number):
            return None
        root = self._log.parent.name.removesuffix(f"-r{self.restart}")
        again = restarted_folder(self._log.parent.with_name(root), self.restart + 1)
        submitted = read_submitted(again / LOG_NAME)
        return None if submitted is None else Waiting(again / LOG_NAME, submitted)


class SlurmFollower(SessionFollower):
    """A session that runs in a job of Slurm's, as seen from its log and the queue."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int] = time.monotonic_ns,
        launch: Lifeline | None = None,
        by_index: bool = False,
        watch: JobWatch | None = None,
    ) -> None:
        super().__init__(path, clock, launch, by_index)
        of_job = self.session.header.slurm
        number = None if of_job is None else of_job.job
        self.life = JobLife(path, watch, number, lambda: clock() / 1e9)

    def status_without_result(self) -> Status:
        return self.life.status(super().status_without_result(), self.session.header.host)

    def stop(self) -> bool:
        if super().stop():
            return True
        if self.life.watch is None or not self.running:
            return False
        try:
            cancel(self.life.watch.number, stop_signal(self.life.own_signal, by_command=False))
        except SlurmError:
            return False
        return True

    def _find_problem(self) -> str | None:
        job = None if self.life.watch is None else self.life.watch.job
        is_interrupted = self.status == Status.INTERRUPTED and self.unreadable is None
        if is_interrupted and job is not None and (job.state.is_over or self.life.is_next(job)):
            node, lost = self.life.on_node, "no result could be recorded"
            if node is not None:
                lost = f"what {node} recorded last could not be copied from it"
            return f"interrupted: {end_text(job)}, and {lost}"
        return super()._find_problem()


def stop_signal(own_signal: object, by_command: bool) -> str:
    """Return the signal that asks the supervisor of a job to stop it; not one of its script's."""
    first, other = ("USR2", "USR1") if by_command else ("USR1", "USR2")
    return other if own_signal == first else first


def follow_session(
    path: Path,
    clock: Callable[[], int] = time.monotonic_ns,
    launch: Lifeline | None = None,
    by_index: bool = False,
) -> SessionFollower:
    """Return what follows the session of a log, in a job of Slurm's or not.

    Raises:
        LogError: not a log that can be read.
    """
    kind = SessionFollower if read_submitted(path) is None else SlurmFollower
    return kind(path, clock, launch, by_index)


def next_session(follower: SessionFollower) -> Waiting | None:
    """Return the session that goes on where one ended as Slurm put its job back into the queue.

    Args:
        follower: one that is over.
    """
    return follower.life.next(follower.result) if isinstance(follower, SlurmFollower) else None
