"""The log of a sweep, beside those of its sessions: `DIR/<id>/sweep.jsonl`.

Its header is the plan. Then come a line where a run begins, and one where it ended, with its
result; so the file alone says what came of the sweep, and what has still to be run. Who runs a
sweep holds the lock on its log.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path

from dlmon.log.directory import SessionEntry, log_paths, read_logs, status_without_result
from dlmon.log.folder import LogError, id_of, log_directory_of, new_session_id, reason_of
from dlmon.log.label import Label, read_label, write_label
from dlmon.log.log_follower import RecordFollower, writer_pid
from dlmon.log.writer import make_log
from dlmon.records import (
    SCHEMA,
    Event,
    Record,
    Resumed,
    SessionHeader,
    Status,
    SweepHeader,
    SweptWorkload,
    encode,
)
from dlmon.records.record import record
from dlmon.sweep.plan import Plan, SweepError, plan_of
from dlmon.sweep.progress import Sweep
from dlmon.system.files import open_regular
from dlmon.system.this_host import boot_id, host_name

SWEEP_NAME = f"{SweepHeader.TYPE}.jsonl"

# The sweeps whose lock this process holds, by their paths: whoever lists sweeps must not
# open their logs, because closing any descriptor of them would drop the lock.
_open_here: dict[Path, SweepWriter] = {}
_MAY_RUN = (Status.QUEUED, Status.RUNNING, Status.UNKNOWN)


@record(frozen=True)
class SweepEntry:
    """One sweep of a directory.

    `status` is running while its log is locked; else completed or stopped, as
    its log says, interrupted where that says nothing, and unknown when it was
    written on another host. `pid` is who runs it, `label` what a person calls it.
    """

    header: SweepHeader
    path: Path
    sweep: Sweep
    status: Status
    pid: int | None
    label: Label = field(default_factory=Label)

    @property
    def plan(self) -> Plan:
        return self.sweep.plan


def new_header(plan: Plan, seed: int, wall: float) -> SweepHeader:
    """Return the header of a sweep that begins now, on this machine."""
    of_all = plan.workloads[0] if len(plan.workloads) == 1 else "all"
    return SweepHeader(
        schema=SCHEMA,
        id=new_session_id(f"sweep-{of_all}", wall),
        host=host_name(),
        boot_id=boot_id(),
        wall=wall,
        workloads=tuple(SweptWorkload(name, plan.metrics[name]) for name in plan.workloads),
        options=dict(plan.options),
        vary=plan.variations,
        repeat=plan.repeats,
        seed=seed,
        order=tuple((slot.combination, slot.repeat) for slot in plan.order),
    )


class SweepWriter:
    """Appends to the log of a sweep, and holds its lock.

    Make one by `create` or `resume`. Only this process may hold the log open:
    closing a second descriptor of it would drop the lock.
    """

    def __init__(self, path: Path, fd: int, header: SweepHeader, sweep: Sweep) -> None:
        self.path = path
        self.header = header
        self.sweep = sweep
        """What the log says, kept as it grows."""
        self._fd = fd
        _open_here[path.resolve()] = self

    @classmethod
    def create(cls, log_dir: Path, header: SweepHeader) -> SweepWriter:
        """Make the log of a new sweep.

        Raises:
            LogError: it can't be made.
            SweepError: another sweep of this directory is running.
        """
        refuse_another_sweep(log_dir)
        path, fd, _ = make_log(log_dir, header)
        return cls(path, fd, header, Sweep(plan_of(header)))

    @classmethod
    def resume(cls, path: Path, wall: float) -> SweepWriter:
        """Take up a sweep again.

        Raises:
            LogError: its log can't be read or written.
            SweepError: it, or another one of its directory, is running, or it
                was started on another machine.
        """
        try:
            fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise LogError(f"{path} can't be written: {reason_of(error)}") from None
        try:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SweepError(_running_sentence(path, _lock_holder(path))) from None
            header, sweep = _folded(RecordFollower(path, SweepHeader, fd))
            if header.host != host_name():
                raise SweepError(
                    f"{header.id} was started on {header.host}: times of two machines don't "
                    "compare, so resume it there"
                )
            writer = cls(path, fd, header, sweep)
            refuse_another_sweep(log_directory_of(path))
            if os.pread(fd, 1, os.fstat(fd).st_size - 1) != b"\n":
                # What a power cut tore stays as it is; the next line begins on its own.
                writer._append(b"\n")
            writer.write(Resumed(wall))
        except BaseException:
            _open_here.pop(path.resolve(), None)
            os.close(fd)
            raise
        return writer

    def write(self, event: Event) -> None:
        """Append what happened, and fold it.

        Raises:
            LogError: the disk takes nothing.
        """
        self._append(encode(event))
        self.sweep.fold(event)

    def close(self) -> None:
        _open_here.pop(self.path.resolve(), None)
        os.close(self._fd)

    def _append(self, line: bytes) -> None:
        try:
            if os.write(self._fd, line) < len(line):
                raise OSError(None, "the disk is full")
        except OSError as error:
            raise LogError(f"the sweep can't be recorded any more: {reason_of(error)}") from None
        # What can't be synced is still there for every reader.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)


def list_sweeps(directory: Path) -> list[SweepEntry]:
    """Return all sweeps, oldest first; what is none, or not ours to read, is passed over."""
    entries = read_logs(SweepHeader, directory, _read_entry)
    return sorted(entries, key=lambda entry: entry.header.wall)


def read_sweep(path: Path) -> tuple[SweepHeader, Sweep]:
    """Read the log of a sweep, of which this process may not hold the lock.

    Raises:
        LogError: it can't be read, or is no sweep of this version.
    """
    with contextlib.closing(RecordFollower(path, SweepHeader)) as follower:
        return _folded(follower)


def entry_of(
    header: SweepHeader, records: Iterable[Record], path: Path, status: Status, label: Label
) -> SweepEntry:
    """Return a sweep whose log lies elsewhere.

    Args:
        header: how its log begins.
        records: what follows there.
        path: where the log would lie here.
        status: how it stands where the log doesn't say.
        label: what a person calls it.

    Raises:
        SweepError: it is none.
    """
    sweep = Sweep(plan_of(header))
    for each in records:
        sweep.fold(each)
    if status != Status.RUNNING and sweep.closed is not None:
        status = sweep.closed
    return SweepEntry(header, path, sweep, status, None, label)


def relabel(path: Path, label: Label) -> None:
    """Keep what a session or a sweep is called; the runs that were called as their sweep follow it.

    Raises:
        LogError: it can't be called that, or the file can't be written.
    """
    before = read_label(path).name
    write_label(path, label)
    if path.name != SWEEP_NAME or label.name == before:
        return
    runs = _read_entry(path).sweep.sessions
    # An id that only the log knows could lead anywhere.
    for log in log_paths(SessionHeader, log_directory_of(path)):
        of_run = read_label(log)
        if id_of(log) in runs and of_run.name == before:
            write_label(log, replace(of_run, name=label.name))


def refuse_another_sweep(directory: Path) -> None:
    """Refuse a sweep where another one runs.

    Raises:
        SweepError: another process runs a sweep of this directory on this machine.
    """
    for path in log_paths(SweepHeader, directory):
        holder = None if _open_here.get(path.resolve()) else _lock_holder(path)
        if holder is not None:
            raise SweepError(_running_sentence(path, holder))


def _folded(follower: RecordFollower[SweepHeader]) -> tuple[SweepHeader, Sweep]:
    """Return a sweep as far as its log says; a line that says nothing is passed over."""
    header = follower.header
    try:
        sweep = Sweep(plan_of(header))
    except SweepError:
        raise LogError(f"{follower.path} is not a sweep that dlmon recorded") from None
    try:
        while follower.read_share is not None:
            for record in follower.poll():
                sweep.fold(record)
    except OSError as error:
        raise LogError(f"{follower.path} can't be read: {reason_of(error)}") from None
    return header, sweep


def _read_entry(path: Path) -> SweepEntry:
    held = _open_here.get(path.resolve())
    if held is not None:
        label = read_label(path)
        return SweepEntry(held.header, path, held.sweep, Status.RUNNING, os.getpid(), label)
    with contextlib.closing(RecordFollower(path, SweepHeader)) as follower:
        # The lock first: an end that is written between the two is then found.
        status, pid = status_without_result(follower)
        header, sweep = _folded(follower)
    if status != Status.RUNNING and sweep.closed is not None:
        status = sweep.closed
    return SweepEntry(header, path, sweep, status, pid, read_label(path))


def _running_sentence(path: Path, pid: int | None) -> str:
    process = "" if pid is None else f" (process {pid})"
    return (
        f"{id_of(path)} is running already{process}: two sweeps at once would spoil each other's "
        "figures, so wait for it or stop it"
    )


def _lock_holder(path: Path) -> int | None:
    try:
        return writer_pid(path)
    except OSError:
        return None


def removable(
    sessions: Sequence[SessionEntry],
    sweeps: Sequence[SweepEntry],
    *,
    keep: int | None = None,
    before: float | None = None,
    named: bool = False,
) -> list[SessionEntry | SweepEntry]:
    """Return what a rule removes, the oldest first; never what runs, or may run elsewhere.

    The runs of a sweep that may be running stay. A sweep goes once none of its sessions is left,
    where it is as old as they are: its log holds their results.

    Args:
        sessions: all sessions of a directory.
        sweeps: all its sweeps.
        keep: remove all but so many, the newest.
        before: remove what began before that wall time; this or `keep`.
        named: remove what has a name as well.
    """
    if keep is not None:
        began = sorted(each.header.wall for each in sessions)
        before = next(iter(began[max(0, len(began) - keep) :]), math.inf)
    in_use = {run for each in sweeps if each.status in _MAY_RUN for run in each.sweep.sessions}

    def may_go(entry: SessionEntry | SweepEntry) -> bool:
        is_old = before is not None and entry.header.wall < before
        return is_old and entry.status not in _MAY_RUN and (named or entry.label.name is None)

    going: list[SessionEntry | SweepEntry]
    going = [each for each in sessions if may_go(each) and id_of(each.path) not in in_use]
    left = {id_of(each.path) for each in sessions} - {id_of(each.path) for each in going}
    going += [each for each in sweeps if may_go(each) and not left & each.sweep.sessions.keys()]
    return sorted(going, key=lambda entry: entry.header.wall)
