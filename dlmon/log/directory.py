"""List the logs of a log directory with their status, and find the one that a person means."""

from __future__ import annotations

import contextlib
import glob
import itertools
import math
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dlmon.log.folder import STOP_NAME, LogError, id_of, log_of, parts_in, reason_of
from dlmon.log.label import Label, read_label, runs_before_last
from dlmon.log.log_follower import Header, LogFollower, RecordFollower
from dlmon.log.submitted import read_submitted, submitted_beside
from dlmon.protocol.control import ANSWER_S, WAIT_S, NotControlled, ask
from dlmon.protocol.stop import BY_COMMAND
from dlmon.records import (
    NOT_NUMBERS,
    Batches,
    Epoch,
    Metrics,
    Output,
    Record,
    Result,
    SessionHeader,
    Status,
    SweepHeader,
)
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_PATH_LENGTH, clean, quoted
from dlmon.system.foreign_processes import is_suspended
from dlmon.system.this_host import boot_id, host_name

_Entry = TypeVar("_Entry")

_TAIL_BYTES = 1 << 16
_OUTPUT_BYTES = 64 << 20
_SHOWN_IDS = 4
_MADE_BY = {SessionHeader: "dlmon run", SweepHeader: "dlmon sweep"}


class NoSuchLog(LookupError):
    """Raised if a name doesn't mean exactly one log; the message is a sentence for a person."""


class SeveralLogs(NoSuchLog):
    """Raised if a name means several logs and one is wanted."""


@record(frozen=True)
class SessionEntry:
    """One session of a directory.

    `status` is completed, failed or stopped by its result; queued before Slurm starts it, when
    `header` describes the submitted job; without a result, running while its log is locked,
    interrupted if it is not, and unknown if the log was written on another host. `loss` is the
    newest training loss near the end of the log; `why_no_loss` says NaN or infinite of it. `epoch`
    is that of the newest batches of a running session, from 1.
    """

    header: SessionHeader
    path: Path
    status: Status
    result: Result | None
    pid: int | None
    label: Label = Label()
    loss: float | None = None
    why_no_loss: str = ""
    epoch: int | None = None


def list_sessions(directory: Path, before: Iterable[SessionEntry] = ()) -> list[SessionEntry]:
    """Return all sessions, oldest first, without the logs that can't be read.

    Those of `before`, an earlier list, that have a result are not read again.
    """
    ended = {entry.path: entry for entry in before if entry.result is not None}
    entries = read_logs(SessionHeader, directory, lambda path: ended.get(path) or read_entry(path))
    return sorted(entries, key=lambda entry: entry.header.wall)


def read_logs(kind: type[Header], directory: Path, read: Callable[[Path], _Entry]) -> list[_Entry]:
    """Return the results of `read` for all logs of a kind, without those that it can't read."""
    entries = []
    for path in log_paths(kind, directory):
        with contextlib.suppress(LogError, OSError):
            entries.append(read(path))
    return entries


def read_entry(path: Path) -> SessionEntry:
    """Return the session of the log at `path`, with its status.

    Raises:
        LogError: not a log that this version can read.
    """
    # Check for the log first: the job may begin it at any moment.
    submitted = None if os.path.exists(path) else read_submitted(path)  # noqa: PTH110
    if submitted is not None:
        return SessionEntry(submitted.header, path, Status.QUEUED, None, None, read_label(path))
    with contextlib.closing(LogFollower(path)) as log:
        status, result, pid = standing_of(log)
        label = read_label(path)
        epoch = _epoch_now(log) if status is Status.RUNNING else None
        return SessionEntry(log.header, path, status, result, pid, label, *_last_loss(log), epoch)


def standing_of(log: LogFollower) -> tuple[Status, Result | None, int | None]:
    """Return the status and the result of the session of an open log, and its writer's pid.

    Raises:
        OSError: the log can't be read any more.
    """
    # Check the lock first, so that a result written in between is read.
    status, pid = status_without_result(log)
    result = _last_result(log)
    return (status if result is None else result.status), result, pid


def status_without_result(follower: RecordFollower[Header]) -> tuple[Status, int | None]:
    """Return running, interrupted or unknown for a log without a result, and its writer's pid."""
    try:
        pid = follower.writer_pid()
    except OSError:
        # The file system has no locks, or its server is gone.
        return Status.UNKNOWN, None
    if pid is not None:
        return Status.RUNNING, pid
    if follower.header.host != host_name():
        # A lock taken on another host may not be visible here (a shared home).
        return Status.UNKNOWN, None
    return Status.INTERRUPTED, None


def running_session(directory: Path, location: str = "") -> Path:
    """Return the log of the only running session; `location` as for `find_log`.

    Raises:
        NoSuchLog: none runs, or several do.
    """
    running = [e for e in list_sessions(directory) if e.status is Status.RUNNING]
    if len(running) == 1:
        return running[0].path
    if not running:
        raise NoSuchLog(f"no session is running; dlmon attach{location} last shows the newest")
    names = ", ".join(entry.label.name or entry.header.id for entry in running)
    raise NoSuchLog(f"{len(running)} sessions are running, say which: {names}")


def find_sessions(text: str, directory: Path, location: str = "") -> list[Path]:
    """Return the logs that a comma-separated list means, oldest first, without duplicates.

    An item is as for `find_log`, but may mean several sessions: a name means all its sessions, and
    a glob such as `base*` all whose name, id or title it matches.

    Raises:
        NoSuchLog: an item means none, or is a prefix of several ids.
    """
    # A path may have a comma.
    items = [text] if _is_path(text) and os.path.exists(text) else text.split(",")  # noqa: PTH110
    paths = {
        path
        for item in items
        for path in _matching_logs(SessionHeader, item.strip(), directory, location)
    }
    return sorted(paths, key=lambda path: (_start_wall(SessionHeader, path), path))


def find_log(kind: type[Header], text: str, directory: Path, location: str = "") -> Path:
    """Return the log that an id, a name, a unique prefix of an id, a path, or `last` means.

    If nothing has that name, the newest session of the workload or script of that title is taken.
    `last~2` is the second before the last, of the sessions that can be compared.

    Args:
        kind: a session or a sweep.
        text: the person's word for it.
        directory: the log directory.
        location: the options of `location_options`, for commands that messages suggest.

    Raises:
        NoSuchLog: none, or several, are meant.
    """
    paths = _matching_logs(kind, text, directory, location)
    if len(paths) > 1:
        ids = _some(map(id_of, reversed(paths)))
        raise SeveralLogs(
            f"{len(paths)} {kind.TYPE}s are called {quoted(text)}, the newest first: {ids}"
        )
    return paths[0]


find_session = partial(find_log, SessionHeader)


def _matching_logs(kind: type[Header], text: str, directory: Path, location: str) -> list[Path]:
    """Return the logs that a word means: several only for a name, a title or a glob.

    Raises:
        NoSuchLog: it means none, or is a prefix of several ids.
    """
    noun = kind.TYPE
    if _is_path(text):
        path = Path(os.path.expanduser(text))  # noqa: PTH111 - a ~ of an unknown user stays
        # Path.exists raises for a name that is too long; this does not.
        path = log_of(path, noun) if os.path.isdir(path) else path  # noqa: PTH112
        if os.path.exists(path):  # noqa: PTH110
            return [Path(os.path.abspath(path))]  # noqa: PTH100 - links stay as they are
        raise NoSuchLog(f"there is no log at {clean(str(path), SHOWN_PATH_LENGTH)}")
    if text.endswith(".py"):
        text = os.path.basename(text)  # noqa: PTH119
    paths = {id_of(path): path for path in log_paths(kind, directory)}
    if not paths:
        raise NoSuchLog(
            f"there are no {noun}s in {directory} yet; {_MADE_BY[kind]}{location} makes one"
        )
    before_last = runs_before_last(text)
    if before_last is not None:
        by_start = _newest_first(kind, paths.values())
        counted = itertools.chain(by_start[:1], filter(_is_comparable, by_start[1:]))
        if meant := [*islice(counted, before_last, before_last + 1)]:
            return meant
        raise NoSuchLog(f"{text} matches none of the {len(by_start):,} in {directory}")
    if text in paths:
        return [paths[text]]
    # A name has no glob characters, so it also matches itself.
    matches = [
        path
        for id, path in paths.items()
        if fnmatchcase(id, text) or ((name := read_label(path).name) and fnmatchcase(name, text))
    ]
    if matches:
        return matches
    likely = [id for id in sorted(paths) if id.startswith(text)] if text else []
    if len(likely) == 1:
        return [paths[likely[0]]]
    if likely:
        raise SeveralLogs(f"{quoted(text)} could be any of {len(likely)} {noun}s: {_some(likely)}")
    matches = [
        path
        for path in paths.values()
        if isinstance(header := _header_of(kind, path), SessionHeader)
        and header.workload
        and fnmatchcase(header.workload, text)
    ]
    if matches:
        return matches if glob.has_magic(text) else _newest_first(kind, matches)[:1]
    raise NoSuchLog(
        f"there is no {noun} {quoted(text)} in {directory}; dlmon sessions{location} lists what "
        "there is"
    )


def skipped_text(text: str, directory: Path) -> str:
    """Say which sessions the items `last~N` of a list leave out; empty if they leave out none."""
    most = max((runs_before_last(item.strip()) or 0 for item in text.split(",")), default=0)
    skipped: list[str] = []
    for path in _newest_first(SessionHeader, log_paths(SessionHeader, directory))[1:]:
        if not most:
            break
        if _is_comparable(path):
            most -= 1
        else:
            skipped.append(id_of(path))
    return f"{text} skips {_some(skipped)}, which can't be compared" if skipped else ""


def _is_comparable(path: Path) -> bool:
    """Return whether a session may be compared: it didn't fail, and trains or has a figure."""
    try:
        entry = read_entry(path)
    except (LogError, OSError):
        return False
    result = entry.result
    if result is None:
        return not entry.header.is_machine_recording and entry.status is not Status.QUEUED
    figures = (result.samples_per_second, result.seconds_per_epoch, result.step_ms)
    return result.status != Status.FAILED and any(figures)


def _newest_first(kind: type[Header], paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: _start_wall(kind, path), reverse=True)


def _is_path(text: str) -> bool:
    return (os.sep in text and not text.endswith(".py")) or text.endswith(".jsonl")


def _some(ids: Iterable[str]) -> str:
    first = list(islice(ids, _SHOWN_IDS + 1))
    return ", ".join(first[:_SHOWN_IDS]) + (", …" if len(first) > _SHOWN_IDS else "")


def log_paths(kind: type[Header], directory: Path) -> Iterator[Path]:
    """Yield the logs of a kind, sorted by id; also those of sessions that Slurm will start."""
    try:
        folders = sorted(directory.iterdir())
    except OSError:
        return
    for folder in folders:
        path = log_of(folder, kind.TYPE)
        # Unlike Path.is_file, this returns False for a folder that we may not enter.
        is_file = os.path.isfile(path)  # noqa: PTH113
        if is_file or (kind is SessionHeader and os.path.isfile(submitted_beside(path))):  # noqa: PTH113
            yield path


def _start_wall(kind: type[Header], path: Path) -> float:
    """Return the wall time at which a log begins; minus infinity if it can't be read."""
    header = _header_of(kind, path)
    return -math.inf if header is None else header.wall


def _header_of(kind: type[Header], path: Path) -> SessionHeader | SweepHeader | None:
    """Return the header of a log, or the expected one of a submitted job; None if unreadable."""
    try:
        with contextlib.closing(RecordFollower(path, kind)) as follower:
            return follower.header
    except LogError:
        submitted = read_submitted(path) if kind is SessionHeader else None
        return None if submitted is None else submitted.header


def stop_session(entry: SessionEntry, asked_by: signal.Signals = BY_COMMAND) -> str | None:
    """Ask the supervisor of a running session to stop it.

    Args:
        entry: the session.
        asked_by: the signal that tells the supervisor who asks.

    Returns:
        A phrase that says what happens; None if a supervisor on this host was asked.

    Raises:
        NotControlled: it does not run here, or belongs to another user.
    """
    if entry.status is Status.UNKNOWN and any(parts_in(entry.path.parent)):
        try:
            (entry.path.parent / STOP_NAME).touch()
        except OSError as error:
            id = entry.header.id
            raise NotControlled(f"{id} can't be asked to stop: {reason_of(error)}") from None
        return "was asked to stop on all its machines"
    signal_writer(entry.header, entry.status, entry.pid, asked_by)
    return None


def signal_writer(
    header: SessionHeader | SweepHeader, status: Status, pid: int | None, number: signal.Signals
) -> None:
    """Send a signal to the process that writes a log, if it runs here.

    Raises:
        NotControlled: it does not run here, or belongs to another user.
    """
    id = header.id
    if status == Status.UNKNOWN:
        reason = "whether it still runs can't be seen from here; stop it there"
        raise NotControlled(f"{id} was recorded on {header.host}: {reason}")
    if status != Status.RUNNING:
        raise NotControlled(f"{id} is not running: {status}")
    if header.host != host_name() or header.boot_id != boot_id() or not pid or pid < 0:
        raise NotControlled(f"{id} runs on {header.host}: stop it there")
    try:
        os.kill(pid, number)
    except PermissionError:
        raise NotControlled(f"{id} belongs to another user") from None
    except ProcessLookupError:
        raise NotControlled(f"{id} is not running any more") from None


async def ask_session(entry: SessionEntry, request: Mapping[str, Any]) -> list[Record]:
    """Return the answer of a running session on this machine to a request.

    Raises:
        NotControlled: it does not run here, refuses or does not answer.
    """
    id, header = entry.header.id, entry.header
    if header.host != host_name() or header.boot_id != boot_id():
        raise NotControlled(f"{id} was recorded on {header.host}: ask there")
    if entry.status != Status.RUNNING or entry.pid is None:
        raise NotControlled(f"{id} is not running: {entry.status}")
    if is_suspended(entry.pid):
        raise NotControlled(f"{id}: the process that records it is suspended")
    try:
        return await ask(id, entry.pid, request, WAIT_S.get(str(request.get("ask")), ANSWER_S))
    except NotControlled as error:
        raise NotControlled(f"{id}: {error}") from None


def read_losses(path: Path, most: int) -> list[float]:
    """Return at most `most` training losses of a session, evenly over its log.

    Only a part of a long log is read: the records before each of the places.

    Raises:
        LogError: not a log that this version can read.
        OSError: it can't be read any more.
    """
    with contextlib.closing(LogFollower(path)) as log:
        losses = (_last_loss(log, log.size * n // most)[0] for n in range(1, most + 1))
        return [loss for loss in losses if loss is not None]


def read_output(path: Path, most: int = 100_000) -> tuple[Output, ...]:
    """Return the newest lines of output in the last 64 MiB of a session's log, oldest first.

    Raises:
        LogError: not a log that this version can read.
        OSError: it can't be read any more.
    """
    with contextlib.closing(LogFollower(path)) as log:
        newest = log.last_records(_OUTPUT_BYTES, having=b'{"type":"output"')
        output = [record for record in islice(newest, most) if isinstance(record, Output)]
    return tuple(reversed(output))


def _last_loss(log: LogFollower, end: int | None = None) -> tuple[float | None, str]:
    """Return the newest training loss of the last records, or those before `end`, or why none."""
    for newest in log.last_records(having=b'"loss"', end=end):
        if isinstance(newest, (Epoch, Metrics)):
            metrics = newest.metrics if isinstance(newest, Epoch) else newest.values
            if "loss" in metrics:
                why = newest.why.get("loss", "")
                return metrics["loss"], why if why in NOT_NUMBERS else ""
    return None, ""


def _epoch_now(log: LogFollower) -> int | None:
    """Return the epoch of the newest batches, from 1; None if the last records have none."""
    newest = log.last_records(having=b'{"type":"batches"')
    return next((record.epoch + 1 for record in newest if isinstance(record, Batches)), None)


def _last_result(log: LogFollower) -> Result | None:
    """Return the last record of a log if it is a result, else None."""
    tail_bytes = _TAIL_BYTES
    while True:
        record = next(log.last_records(tail_bytes), None)
        if record is not None or tail_bytes >= log.size:
            return record if isinstance(record, Result) else None
        tail_bytes *= 8
