"""Ask Slurm for the status of sessions whose logs don't tell it, and stop such sessions."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dlmon.log.directory import SessionEntry, list_sessions, stop_session
from dlmon.log.submitted import read_submitted
from dlmon.protocol.control import NotControlled
from dlmon.protocol.stop import BY_COMMAND
from dlmon.records import Status
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.job_follower import stop_signal
from dlmon.slurm.queue import QueuedJob, cancel, read_queue

_UNSURE = (Status.QUEUED, Status.UNKNOWN)


def list_with_queue(directory: Path) -> list[SessionEntry]:
    """Return the sessions of a directory, oldest first, with their status from log and queue."""
    return with_queue(list_sessions(directory))


def with_queue(entries: Sequence[SessionEntry]) -> list[SessionEntry]:
    """Return the sessions, with the status from the queue if their log doesn't tell it.

    One query reads the states of all jobs; if it fails, the sessions are returned unchanged.
    """
    numbers = {
        entry.header.id: submitted.slurm_job
        for entry in entries
        if entry.status in _UNSURE and (submitted := read_submitted(entry.path)) is not None
    }
    known_numbers = [number for number in numbers.values() if number is not None]
    if not known_numbers:
        return list(entries)
    try:
        # The answer leaves out jobs that ended long ago.
        jobs = {job.number: job for job in read_queue(known_numbers)}
    except SlurmError:
        return list(entries)
    return [
        replace(entry, status=_status(entry, jobs.get(numbers[entry.header.id] or "")))
        if entry.header.id in numbers
        else entry
        for entry in entries
    ]


def _status(entry: SessionEntry, job: QueuedJob | None) -> Status:
    if job is None or job.state.is_over:
        return Status.INTERRUPTED
    return Status.QUEUED if entry.status == Status.QUEUED else Status.RUNNING


def stop_submitted(entry: SessionEntry, asked_by: signal.Signals = BY_COMMAND) -> str | None:
    """Stop a submitted session: ask its supervisor if that runs, else cancel its job.

    Args:
        entry: the session.
        asked_by: the signal that tells the supervisor who asks.

    Returns:
        A phrase that says what happens; None if a supervisor on this host was asked.

    Raises:
        NotControlled: the session is over, or Slurm refuses.
    """
    submitted = read_submitted(entry.path)
    is_over = entry.result is not None or entry.status == Status.INTERRUPTED
    if submitted is None or submitted.slurm_job is None or is_over or entry.pid is not None:
        return stop_session(entry, asked_by)
    number = submitted.slurm_job
    is_running = entry.status == Status.UNKNOWN
    script_signal, by_command = submitted.job.get("own_signal"), asked_by == BY_COMMAND
    try:
        cancel(number, stop_signal(script_signal, by_command) if is_running else None)
    except SlurmError as error:
        raise NotControlled(f"{entry.header.id}: {error}") from None
    return "is stopping" if is_running else f"is cancelled: job {number} is out of the queue"
