"""Why Slurm asks a job to end: its time is nearly up, another takes its place, somebody cancels."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from dlmon.records.words import StopCause
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob, number_of, read_queue

# A warning may come up to a minute early, so says sbatch's --signal.
NEAR_END_S = 60.0
_TRIES_S = (0.0, 0.5, 1.0)


def job_of(environment: Mapping[str, str]) -> str | None:
    """Return the number of the job that a process with this environment runs in.

    A task of an array has that of the array, and its own: `123_4`.
    """
    number = environment.get("SLURM_JOB_ID", "")
    array, task = (environment.get(f"SLURM_ARRAY_{word}_ID", "") for word in ("JOB", "TASK"))
    if array.isdigit() and task.isdigit():
        return f"{array}_{task}"
    return number if number.isdigit() else None


def restarts_of(environment: Mapping[str, str]) -> int:
    """Return how often the job of such a process was started before."""
    return number_of(environment.get("SLURM_RESTART_COUNT")) or 0


def cause_of(job: QueuedJob, restarts: int, warned_s: float, now_wall: float) -> StopCause | None:
    """Return why a job is being ended, by how it stands as it gets SIGTERM; None if it isn't.

    Args:
        job: how it stands.
        restarts: how often it had been started when this process began.
        warned_s: how long before the end of its time it is warned.
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
    # What is completing has its real end by now, which is as late as the limit only where that
    # was reached.
    start, end, limit_s = job.start_wall, job.end_wall, job.time_limit_s
    if start is not None and end is not None and limit_s is not None and end - start >= limit_s:
        return StopCause.TIME_LIMIT
    return StopCause.CANCELLED


def ask_why(
    environment: Mapping[str, str], warned_s: float
) -> tuple[StopCause | None, float | None]:
    """Ask Slurm why it ends the job of a process with this environment, and when it will kill it.

    Either is None where it can't say, and the seconds also where others than the time limit end it.
    """
    # Of a task of an array, this is its own number.
    number = environment.get("SLURM_JOB_ID", "")
    found = None
    for wait_s in _TRIES_S:
        time.sleep(wait_s)
        # Slurm may end what asks, too.
        with contextlib.suppress(SlurmError):
            found = next((job for job in read_queue([number]) if job.id == number), None)
        if found is not None:
            break
    if found is None:
        return None, None
    now_wall = time.time()
    cause = cause_of(found, restarts_of(environment), warned_s, now_wall)
    is_warned = cause is StopCause.TIME_LIMIT and found.state is JobState.RUNNING
    left_s = found.end_wall - now_wall if is_warned and found.end_wall is not None else None
    return cause, left_s
