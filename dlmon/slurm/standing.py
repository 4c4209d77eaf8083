"""How sessions of Slurm's stand, and how to stop one, where their logs don't say it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dlmon.log.directory import SessionEntry, list_sessions, stop_session
from dlmon.log.submitted import is_of_slurm, read_submitted
from dlmon.protocol.control import NotControlled
from dlmon.protocol.stop import BY_COMMAND
from dlmon.records import Status
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.job_follower import stop_signal
from dlmon.slurm.queue import QueuedJob, cancel, read_queue

_UNSURE = (Status.QUEUED, Status.UNKNOWN)


def list_with_queue(directory: Path) -> list[SessionEntry]:
    """Return all sessions of a directory, oldest first, as their logs and the queue say."""
    entries = list_sessions(directory)
    return with_queue(entries) if any(is_of_slurm(entry.path) for entry in entries) else entries


def with_queue(entries: Sequence[SessionEntry]) -> list[SessionEntry]:
    """Return sessions with what the queue says of those whose standing their logs don't say.

    It is asked once for all; where it does not answer, they stay as they are.
    """
    numbers = {
        entry.header.id: submitted.slurm_job
        for entry in entries
        if entry.status in _UNSURE and (submitted := read_submitted(entry.path)) is not None
    }
    asked = [number for number in numbers.values() if number is not None]
    if not asked:
        return list(entries)
    try:
        # Of several that are asked for, those that are over long ago are left out.
        jobs = {job.number: job for job in read_queue(asked)}
    except SlurmError:
        return list(entries)
    return [
        replace(entry, status=_standing(entry, jobs.get(numbers[entry.header.id] or "")))
        if entry.header.id in numbers
        else entry
        for entry in entries
    ]


def _standing(entry: SessionEntry, job: QueuedJob | None) -> Status:
    if job is None or job.state.is_over:
        return Status.INTERRUPTED
    if entry.status == Status.QUEUED:
        return Status.QUEUED
    return Status.RUNNING


def stop_submitted(entry: SessionEntry, asked_by: signal.Signals = BY_COMMAND) -> str | None:
    """Stop a session of Slurm's: by its supervisor where it runs, else by taking its job away.

    Args:
        entry: the session.
        asked_by: the signal by which the supervisor knows who asks.

    Returns:
        What happens, in words; None where its supervisor was asked, as that of any other.

    Raises:
        NotControlled: it is over, or Slurm refuses.
    """
    submitted = read_submitted(entry.path)
    is_over = entry.result is not None or entry.status == Status.INTERRUPTED
    if submitted is None or submitted.slurm_job is None or is_over or entry.pid is not None:
        stop_session(entry, asked_by)
        return None
    number = submitted.slurm_job
    is_running = entry.status == Status.UNKNOWN
    own, by_command = submitted.job.get("own_signal"), asked_by == BY_COMMAND
    try:
        cancel(number, stop_signal(own, by_command) if is_running else None)
    except SlurmError as error:
        raise NotControlled(f"{entry.header.id}: {error}") from None
    return "is stopping" if is_running else f"is cancelled: job {number} is out of the queue"
