"""The log of a sweep, `DIR/<id>/sweep.jsonl`, beside those of its sessions.

Its header is the plan. A line follows for the start of each run and one for its end, with the
result, so that the file alone suffices to show or resume the sweep. The process that runs the sweep
holds the lock on its log.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path

from dlmon.log.directory import (
    SessionEntry,
    log_paths,
    read_logs,
    signal_writer,
    status_without_result,
)
from dlmon.log.folder import LogError, id_of, log_directory_of, log_of, new_session_id, reason_of
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
from dlmon.sweep.machine_lock import lock_machine, running_sentence, unlock
from dlmon.sweep.plan import Plan, SweepError, plan_of
from dlmon.sweep.progress import Sweep
from dlmon.system.children import handles
from dlmon.system.files import open_regular
from dlmon.system.this_host import boot_id, host_name

SWEEP_NAME = f"{SweepHeader.TYPE}.jsonl"

# The sweeps whose lock this process holds, by path. Their logs must not be opened a second time:
# closing any descriptor of a file drops the lock on it.
_open_here: dict[Path, SweepWriter] = {}
_MAY_RUN = (Status.QUEUED, Status.RUNNING, Status.UNKNOWN)


@record(frozen=True)
class SweepEntry:
    """A sweep in a directory.

    `status` is running while the log is locked; else completed or stopped, as the log says;
    interrupted if it has no end; unknown if another host wrote it. `pid` is the process that runs
    the sweep.
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
    """Return the header of a sweep that begins now, on this host."""
    workload = plan.workloads[0] if len(plan.workloads) == 1 else "all"
    return SweepHeader(
        schema=SCHEMA,
        id=new_session_id(f"{'sweep' if plan.pairs is None else 'ab'}-{workload}", wall),
        host=host_name(),
        boot_id=boot_id(),
        wall=wall,
        workloads=tuple(SweptWorkload(name, plan.metrics[name]) for name in plan.workloads),
        options=dict(plan.options),
        vary=plan.variations,
        repeat=plan.repeats,
        seed=seed,
        order=tuple((slot.combination, slot.repeat) for slot in plan.order),
        script=plan.script,
        pairs=plan.pairs,
        search_window_s=plan.search_window_s,
    )


def read_run_figures(sweep: Sweep, directory: Path) -> None:
    """Read the figures of a sweep's sessions from their logs in a log directory.

    Those whose log is gone are left out: they have no loss, and explain no difference.
    """
    # The first screen lists sweeps without reading sessions.
    from dlmon.session.run_figures import read_figures, read_pair_figures

    read = read_figures if sweep.plan.pairs is None else read_pair_figures
    for outcome in sweep.outcomes.values():
        session = outcome.session
        if outcome.result is not None and session is not None and session not in sweep.figures:
            with contextlib.suppress(LogError):
                sweep.figures[session] = read(log_of(directory / session))


class SweepWriter:
    """Appends to the log of a sweep, and holds its lock. `create` or `resume` makes one."""

    _machine_fd: int | None = None

    def __init__(self, path: Path, fd: int, header: SweepHeader, sweep: Sweep) -> None:
        self.path = path
        self.header = header
        self.sweep = sweep
        """The state of the sweep by its log, with each event that is written."""
        self._fd = fd
        _open_here[path.resolve()] = self

    @classmethod
    def create(cls, log_dir: Path, header: SweepHeader) -> SweepWriter:
        """Make the log of a new sweep.

        Raises:
            LogError: the log can't be made.
            SweepError: another sweep of this directory, or on this machine, is running.
        """
        refuse_another_sweep(log_dir)
        sweep = Sweep(plan_of(header))
        machine_fd = _lock_machine(header, sweep.plan)
        try:
            path, fd, _ = make_log(log_dir, header)
        except LogError:
            unlock(machine_fd)
            raise
        writer = cls(path, fd, header, sweep)
        writer._machine_fd = machine_fd
        return writer

    @classmethod
    def resume(cls, path: Path, wall: float) -> SweepWriter:
        """Resume a sweep.

        Raises:
            LogError: its log can't be read or written.
            SweepError: a sweep of its directory, or on this machine, is running, or it was started
                on another host.
        """
        machine_fd = None
        try:
            fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise LogError(f"{path} can't be written: {reason_of(error)}") from None
        try:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SweepError(running_sentence(id_of(path), _lock_holder(path))) from None
            header, sweep = _read_all(RecordFollower(path, SweepHeader, fd))
            if header.host != host_name():
                raise SweepError(
                    f"{header.id} was started on {header.host}: times of two machines don't "
                    "compare, so resume it there"
                )
            if header.script is not None and os.fstat(fd).st_uid != os.geteuid():
                raise SweepError(
                    f"{header.id} is another user's: a command in their log is not run"
                )
            writer = cls(path, fd, header, sweep)
            refuse_another_sweep(log_directory_of(path))
            writer._machine_fd = machine_fd = _lock_machine(header, sweep.plan)
            if os.pread(fd, 1, os.fstat(fd).st_size - 1) != b"\n":
                # A power cut may leave half a line; end it, so that the next line is whole.
                writer._append(b"\n")
            writer.write(Resumed(wall))
        except BaseException:
            _open_here.pop(path.resolve(), None)
            os.close(fd)
            unlock(machine_fd)
            raise
        return writer

    def write(self, event: Event) -> None:
        """Append an event to the log, and add it to the sweep.

        Raises:
            LogError: the log can't be written.
        """
        self._append(encode(event))
        self.sweep.add(event)

    def close(self) -> None:
        _open_here.pop(self.path.resolve(), None)
        os.close(self._fd)
        unlock(self._machine_fd)

    def _append(self, line: bytes) -> None:
        try:
            if os.write(self._fd, line) < len(line):
                raise OSError(None, "the disk is full")
        except OSError as error:
            raise LogError(f"the sweep can't be recorded any more: {reason_of(error)}") from None
        # Readers see the line even if it can't be synced.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)


def list_sweeps(directory: Path) -> list[SweepEntry]:
    """Return all sweeps, oldest first; skip files that are unreadable or no log of a sweep."""
    entries = read_logs(SweepHeader, directory, _read_entry)
    return sorted(entries, key=lambda entry: entry.header.wall)


def read_sweep(path: Path) -> tuple[SweepHeader, Sweep]:
    """Read the log of a sweep whose lock this process does not hold.

    Raises:
        LogError: the log can't be read, or is no sweep of this version.
    """
    with contextlib.closing(RecordFollower(path, SweepHeader)) as follower:
        return _read_all(follower)


def stop_sweep(path: Path) -> None:
    """Stop a sweep that runs on this machine, as Ctrl-C does.

    Raises:
        LogError: its log can't be read.
        NotControlled: it does not run here, or belongs to another user.
    """
    entry = _read_entry(path)
    # A shell has its background processes ignore Ctrl-C.
    can_interrupt = handles(entry.pid or 0, signal.SIGINT)
    number = signal.SIGINT if can_interrupt else signal.SIGTERM
    signal_writer(entry.header, entry.status, entry.pid, number)


def session_under_way(path: Path) -> Path:
    """Return the log of the run of a sweep that began last, and is under way on this machine.

    Raises:
        LogError: there is none, or the log of the sweep can't be read.
    """
    entry = _read_entry(path)
    here = [b for b in entry.sweep.running.values() if entry.plan.host_of(b.slot) is None]
    if entry.status != Status.RUNNING or not here:
        raise LogError(f"no run of {id_of(path)} is under way here: dlmon report shows its results")
    return log_of(log_directory_of(path) / here[-1].session)


def entry_of(
    header: SweepHeader, records: Iterable[Record], path: Path, status: Status, label: Label
) -> SweepEntry:
    """Return a sweep of another host from its records.

    Args:
        header: the header of its log.
        records: the other records of its log.
        path: the path for a copy of the log.
        status: its status if the log has no end.
        label: its name and note.

    Raises:
        SweepError: the header is not that of a sweep.
    """
    sweep = Sweep(plan_of(header))
    for event in records:
        sweep.add(event)
    return SweepEntry(header, path, sweep, _status(sweep, status), None, label)


def _status(sweep: Sweep, by_lock: Status) -> Status:
    return by_lock if by_lock == Status.RUNNING or sweep.closed is None else sweep.closed


def relabel(path: Path, label: Label) -> None:
    """Set the label of a session or a sweep; rename the runs that had the sweep's name as well.

    Raises:
        LogError: the name is not allowed, or the file can't be written.
    """
    before = read_label(path).name
    write_label(path, label)
    if path.name != SWEEP_NAME or label.name == before:
        return
    runs = _read_entry(path).sweep.sessions
    # Paths made of the ids in the log could lead anywhere.
    for log in log_paths(SessionHeader, log_directory_of(path)):
        run_label = read_label(log)
        if id_of(log) in runs and run_label.name == before:
            write_label(log, replace(run_label, name=label.name))


def refuse_another_sweep(directory: Path) -> None:
    """Check that no other process runs a sweep of this directory on this host.

    Raises:
        SweepError: one does.
    """
    for path in log_paths(SweepHeader, directory):
        holder = None if _open_here.get(path.resolve()) else _lock_holder(path)
        if holder is not None:
            raise SweepError(running_sentence(id_of(path), holder))


def _lock_machine(header: SweepHeader, plan: Plan) -> int | None:
    """Take the lock of this machine if a sweep has runs here; jobs of Slurm may run anywhere."""
    return lock_machine(header.id) if None in plan.hosts and header.slurm is None else None


def _read_all(follower: RecordFollower[SweepHeader]) -> tuple[SweepHeader, Sweep]:
    header = follower.header
    try:
        sweep = Sweep(plan_of(header))
    except SweepError:
        raise LogError(f"{follower.path} is not a sweep that dlmon recorded") from None
    try:
        while follower.read_share is not None:
            for record in follower.poll():
                sweep.add(record)
    except OSError as error:
        raise LogError(f"{follower.path} can't be read: {reason_of(error)}") from None
    return header, sweep


def _read_entry(path: Path) -> SweepEntry:
    writer, label = _open_here.get(path.resolve()), read_label(path)
    if writer is not None:
        return SweepEntry(writer.header, path, writer.sweep, Status.RUNNING, os.getpid(), label)
    with contextlib.closing(RecordFollower(path, SweepHeader)) as follower:
        # The lock is read first: if the sweep ends in between, the log has its end.
        status, pid = status_without_result(follower)
        header, sweep = _read_all(follower)
    return SweepEntry(header, path, sweep, _status(sweep, status), pid, label)


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
    """Return the sessions and sweeps to remove, oldest first; never one that may be running.

    A sweep is removed with the last of its sessions, because its log holds their results. While it
    may be running, its sessions stay.

    Args:
        sessions: all sessions of a directory.
        sweeps: all sweeps of the directory.
        keep: keep this number of the newest sessions; else None.
        before: remove what began before this wall time; used without `keep`.
        named: also remove what has a name.
    """
    if keep is not None:
        starts = sorted(session.header.wall for session in sessions)
        before = next(iter(starts[max(0, len(starts) - keep) :]), math.inf)

    def may_go(entry: SessionEntry | SweepEntry) -> bool:
        is_old = before is not None and entry.header.wall < before
        return is_old and entry.status not in _MAY_RUN and (named or entry.label.name is None)

    in_use = {run for entry in sweeps if entry.status in _MAY_RUN for run in entry.sweep.sessions}
    going: list[SessionEntry | SweepEntry]
    going = [
        session for session in sessions if may_go(session) and id_of(session.path) not in in_use
    ]
    staying = {id_of(session.path) for session in sessions} - {id_of(entry.path) for entry in going}
    going += [
        entry for entry in sweeps if may_go(entry) and not staying & entry.sweep.sessions.keys()
    ]
    return sorted(going, key=lambda entry: entry.header.wall)
