"""What stands while a session waits in Slurm's queue, in words."""

from __future__ import annotations

import time

from dlmon.figures import units
from dlmon.slurm.queue import JobState, QueuedJob

A_DAY_S = 86_400.0
_STATES = {
    JobState.PENDING: "queued",
    JobState.REQUEUED: "queued again",
    JobState.REQUEUE_HOLD: "held in the queue",
    JobState.CONFIGURING: "its node is being prepared",
    JobState.RUNNING: "its node starts it",
    JobState.COMPLETING: "ending",
}


def queued_text(
    number: str | None, job: QueuedJob | None, problem: str | None, now_wall: float
) -> str:
    """Say how a job that has no session yet stands: why it waits, and until when.

    Args:
        number: that of the job; None where Slurm has not given one yet.
        job: how it stands; None where that isn't known.
        problem: why Slurm does not answer.
        now_wall: the time of day.
    """
    if number is None:
        return "being submitted to Slurm"
    if job is None:
        return f"job {number}: {problem}" if problem else f"job {number} was submitted"
    text = f"job {number} is {_STATES[job.state]}" if job.state == JobState.PENDING else ""
    text = text or f"job {number}: {_STATES.get(job.state, str(job.state))}"
    if job.state.is_waiting and job.reason:
        text += f" ({job.reason})"
    if job.state.is_waiting and job.start_wall is not None:
        text += f", Slurm expects it to start {start_text(job.start_wall, now_wall)}"
    return text


def start_text(wall: float, now_wall: float) -> str:
    """Say when something starts: at once, `at 14:05`, or on which day."""
    if wall <= now_wall + 5:
        return "now"
    if wall - now_wall < A_DAY_S:
        return f"at {time.strftime('%H:%M', time.localtime(wall))}"
    return f"on {units.day_and_time(wall)}"
