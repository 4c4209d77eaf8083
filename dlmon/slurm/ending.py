"""Find out why Slurm ends a job: time limit, preemption, requeue or cancellation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from dlmon.records.words import StopCause
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob, number_of, read_queue

# Slurm may send its warning up to a minute early, says the manual of sbatch --signal.
NEAR_END_S = 60.0
_TRIES_S = (0.0, 0.5, 1.0)


def job_of(environment: Mapping[str, str]) -> str | None:
    """Return the number of the job from the environment of one of its processes.

    For a task of an array, return the array's number and the task's, `123_4`.
    """
    number = environment.get("SLURM_JOB_ID", "")
    array, task = (environment.get(f"SLURM_ARRAY_{word}_ID", "") for word in ("JOB", "TASK"))
    if array.isdigit() and task.isdigit():
        return f"{array}_{task}"
    return number if number.isdigit() else None


def restarts_of(environment: Mapping[str, str]) -> int:
    """Return how often Slurm has restarted the job of a process with this environment."""
    return number_of(environment.get("SLURM_RESTART_COUNT")) or 0


def cause_of(job: QueuedJob, restarts: int, warned_s: float, now_wall: float) -> StopCause | None:
    """Return why Slurm ends a job that received SIGTERM; None if Slurm doesn't end it.

    Args:
        job: its state as it received SIGTERM.
        restarts: how often it had been restarted when this process began.
        warned_s: the seconds from Slurm's warning to the time limit.
        now_wall: the time of day.
    """
    if job.preempted_wall is not None or job.state is JobState.PREEMPTED:
        return StopCause.PREEMPTED
    if (job.restarts or 0) > restarts or job.state.is_waiting:
        return StopCause.REQUEUED
    if job.state is JobState.TIMEOUT:
        return StopCause.TIME_LIMIT
    if job.state is JobState.RUNNING:
        is_near = job.end_wall is not None and job.end_wall - now_wall <= warned_s + NEAR_END_S
        return StopCause.TIME_LIMIT if is_near else None
    # A completing job has its real end by now: at the time limit only if it reached that.
    start, end, limit_s = job.start_wall, job.end_wall, job.time_limit_s
    if start is not None and end is not None and limit_s is not None and end - start >= limit_s:
        return StopCause.TIME_LIMIT
    return StopCause.CANCELLED


def ask_why(
    environment: Mapping[str, str], warned_s: float
) -> tuple[StopCause | None, float | None]:
    """Ask Slurm why it ends the job of a process with this environment, and when it will kill it.

    Returns:
        The cause, and the seconds until the kill. None for what Slurm can't say; the seconds are
        known only if the time limit ends the job.
    """
    job = _find_job(environment)
    if job is None:
        return None, None
    now_wall = time.time()
    cause = cause_of(job, restarts_of(environment), warned_s, now_wall)
    is_warned = cause is StopCause.TIME_LIMIT and job.state is JobState.RUNNING
    left_s = job.end_wall - now_wall if is_warned and job.end_wall is not None else None
    return cause, left_s


def _find_job(environment: Mapping[str, str]) -> QueuedJob | None:
    # A task of an array has a number of its own here.
    number = environment.get("SLURM_JOB_ID", "")
    for wait_s in _TRIES_S:
        time.sleep(wait_s)
        # squeue may fail, for example because Slurm ends it too.
        with contextlib.suppress(SlurmError):
            for job in read_queue([number]):
                if job.id == number:
                    return job
    return None
