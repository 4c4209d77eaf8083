"""The file of a sweep: one JSON Lines file beside the sessions, `DIR/<id>/sweep.jsonl`.

Its first line is the plan. Then come a line where a run begins, and one where
it ended, with its result; so the file alone tells what came of the sweep, and
what has still to be run. Who runs a sweep holds a POSIX lock on its file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlmon.files import MIB, open_regular, read_regular
from dlmon.host import boot_id, host_name
from dlmon.log.directory import INTERRUPTED, RUNNING, UNKNOWN
from dlmon.log.folder import LogError, new_session_id
from dlmon.log.lock import writer_pid
from dlmon.private_files import make_new_private_folder, make_private_folder, open_private
from dlmon.records.sanitize import quoted
from dlmon.sweep.codec import SweepHeader, _header_line, _line, _parsed
from dlmon.sweep.plan import Plan, SweepError
from dlmon.sweep.progress import Event, Resumed, Sweep

SWEEP_NAME = "sweep.jsonl"
_LARGEST_FILE = 1024 * MIB

# The sweeps whose lock this process holds, by device and inode: whoever lists sweeps must not
# open their files, because closing any descriptor of them would drop the lock.
_held: dict[tuple[int, int], SweepWriter] = {}


class NoSuchSweep(LookupError):
    """No sweep is meant, or more than one; the message is one sentence for a person."""


@dataclass(frozen=True)
class SweepEntry:
    """One sweep of a directory.

    `status` is running while its file is locked; else completed or stopped, as
    its file says, interrupted where that says nothing, and unknown when it was
    written on another host. `pid` is who runs it.
    """

    header: SweepHeader
    path: Path
    sweep: Sweep
    status: str
    pid: int | None

    @property
    def plan(self) -> Plan:
        """What is to be run."""
        return self.sweep.plan


def new_header(plan: Plan, seed: int, wall: float) -> SweepHeader:
    """Return the header of a sweep that begins now, on this machine."""
    of_all = plan.workloads[0] if len(plan.workloads) == 1 else "all"
    return SweepHeader(
        new_session_id(f"sweep-{of_all}", wall), host_name(), boot_id(), wall, seed, plan
    )


class SweepWriter:
    """Appends to the file of a sweep, and holds its lock.

    Make one by `begin` or `resume`. Only this process may hold the file open:
    closing a second descriptor of it would drop the lock.
    """

    def __init__(self, path: Path, fd: int, header: SweepHeader, sweep: Sweep) -> None:
        self.path = path
        self.header = header
        self.sweep = sweep
        """What the file tells, kept as it grows."""
        self._fd = fd
        _held[_identity(os.fstat(fd))] = self

    @classmethod
    def begin(cls, log_dir: Path, header: SweepHeader) -> SweepWriter:
        """Make the file of a new sweep.

        Raises:
            LogError: it can't be made.
            SweepError: another sweep of this directory is running.
        """
        folder = log_dir / header.id
        path = folder / SWEEP_NAME
        try:
            make_private_folder(log_dir)
            make_new_private_folder(folder)
            fd = open_private(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise LogError(
                f"the log directory {log_dir} can't be written ({_reason(error)}); "
                "choose another with --log-dir"
            ) from None
        writer = cls(path, fd, header, Sweep(header.plan))
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            refuse_second(log_dir, path)
            writer._append(_header_line(header))
        except BaseException as error:
            writer.close()
            path.unlink()
            folder.rmdir()
            if isinstance(error, OSError):
                raise LogError(f"the sweep can't be recorded: {_reason(error)}") from None
            raise
        return writer

    @classmethod
    def resume(cls, path: Path, wall: float) -> SweepWriter:
        """Take up a sweep again.

        Raises:
            LogError: its file can't be read or written.
            SweepError: it, or another one of its directory, is running, or it
                was started on another machine.
        """
        try:
            fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise LogError(f"{path} can't be written: {_reason(error)}") from None
        try:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = _lock_holder(path)
                raise SweepError(_running_sentence(path.parent.name, holder)) from None
            content = _read_all(fd)
            header, sweep = _parsed(content, path)
            if header.host != host_name():
                raise SweepError(
                    f"{header.id} was started on {header.host}: times of two machines don't "
                    "compare, so resume it there"
                )
            refuse_second(path.parent.parent, path)
            writer = cls(path, fd, header, sweep)
            if content and not content.endswith(b"\n"):
                # What a power cut tore stays as it is; the next line begins on its own.
                writer._append(b"\n")
            writer.write(Resumed(wall))
        except BaseException:
            _held.pop(_identity(os.fstat(fd)), None)
            os.close(fd)
            raise
        return writer

    def write(self, event: Event) -> None:
        """Append what happened, and fold it.

        Raises:
            LogError: the disk takes nothing.
        """
        try:
            self._append(_line(event))
        except OSError as error:
            raise LogError(f"the sweep can't be recorded any more: {_reason(error)}") from None
        self.sweep.fold(event)

    def close(self) -> None:
        """Close the file and drop the lock."""
        _held.pop(_identity(os.fstat(self._fd)), None)
        os.close(self._fd)

    def _append(self, line: bytes) -> None:
        written = os.write(self._fd, line)
        if written < len(line):
            raise OSError(None, "the disk is full")
        # What can't be synced is still there for every reader.
        with contextlib.suppress(OSError):
            os.fsync(self._fd)


def list_sweeps(directory: Path) -> list[SweepEntry]:
    """Return all sweeps, oldest first; what is none, or not ours to read, is passed over."""
    entries = []
    for path in _sweep_paths(directory):
        try:
            entries.append(_read_entry(path))
        except (LogError, OSError):
            continue
    return sorted(entries, key=lambda entry: entry.header.wall)


def _read_entry(path: Path) -> SweepEntry:
    held = _held_here(path)
    if held is not None:
        return SweepEntry(held.header, path, held.sweep, RUNNING, os.getpid())
    try:
        # The lock first: an end that is written between the two is then found.
        pid = writer_pid(path)
        without_end = INTERRUPTED
    except OSError:
        pid, without_end = None, UNKNOWN
    header, sweep = read_sweep(path)
    if header.host != host_name():
        without_end = UNKNOWN
    status = RUNNING if pid is not None else sweep.closed or without_end
    return SweepEntry(header, path, sweep, status, pid)


def _held_here(path: Path) -> SweepWriter | None:
    """Return what writes a file, where that is this process."""
    try:
        return _held.get(_identity(path.stat()))
    except OSError:
        return None


def _identity(told: os.stat_result) -> tuple[int, int]:
    return told.st_dev, told.st_ino


def read_sweep(path: Path) -> tuple[SweepHeader, Sweep]:
    """Read the file of a sweep, of which this process may not hold the lock.

    Raises:
        LogError: it can't be read, or is no sweep of this version.
    """
    try:
        content = read_regular(path, _LARGEST_FILE)
    except OSError as error:
        raise LogError(f"{path} can't be read: {_reason(error)}") from None
    return _parsed(content, path)


def find_sweep(name: str, directory: Path) -> Path:
    """Return the file that an id of a sweep, a unique prefix of one, a path, or `last` means.

    Raises:
        NoSuchSweep: none, or several, are meant.
    """
    if os.sep in name or name.endswith(".jsonl"):
        given = Path(os.path.expanduser(name))  # noqa: PTH111 - a ~ that names nobody stays
        path = given / SWEEP_NAME if os.path.isdir(given) else given  # noqa: PTH112
        if os.path.exists(path):  # noqa: PTH110 - a name that is too long is no error
            return Path(os.path.abspath(path))  # noqa: PTH100 - links stay as given
        raise NoSuchSweep(f"there is no sweep at {path}")
    paths = {path.parent.name: path for path in _sweep_paths(directory)}
    if not paths:
        raise NoSuchSweep(f"there are no sweeps in {directory} yet; dlmon sweep makes one")
    if name == "last":
        return max(paths.values(), key=_began)
    meant = [i for i in sorted(paths) if i == name] or [
        i for i in sorted(paths) if name and i.startswith(name)
    ]
    if len(meant) == 1:
        return paths[meant[0]]
    if meant:
        shown = ", ".join(meant[:4]) + (", …" if len(meant) > 4 else "")
        raise NoSuchSweep(f"{quoted(name)} could be any of {len(meant)} sweeps: {shown}")
    raise NoSuchSweep(f"there is no sweep {quoted(name)} in {directory}")


def refuse_second(directory: Path, own: Path | None = None) -> None:
    """Refuse a sweep where another one runs.

    Args:
        directory: the log directory.
        own: a sweep's file that counts as none.

    Raises:
        SweepError: another process runs a sweep of this directory on this machine.
    """
    for path in _sweep_paths(directory):
        if path == own or _held_here(path) is not None:
            continue
        holder = _lock_holder(path)
        if holder is not None:
            raise SweepError(_running_sentence(path.parent.name, holder))


def _running_sentence(sweep: str, pid: int | None) -> str:
    process = "" if pid is None else f" (process {pid})"
    return (
        f"{sweep} is running already{process}: two sweeps at once would spoil each other's "
        "figures, so wait for it or stop it"
    )


def _lock_holder(path: Path) -> int | None:
    try:
        return writer_pid(path)
    except OSError:
        return None


def _sweep_paths(directory: Path) -> Iterator[Path]:
    try:
        folders = sorted(directory.iterdir())
    except OSError:
        return
    for folder in folders:
        path = folder / SWEEP_NAME
        # Unlike Path.is_file, this says no to a folder that we may not enter.
        if os.path.isfile(path):  # noqa: PTH113
            yield path


def _began(path: Path) -> float:
    """Return when a sweep began; what can't be read began before all."""
    try:
        return read_sweep(path)[0].wall
    except LogError:
        return float("-inf")


def _read_all(fd: int) -> bytes:
    parts = []
    offset = 0
    while part := os.pread(fd, 1 << 20, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
