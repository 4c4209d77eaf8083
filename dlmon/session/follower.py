"""Follow a session by its log, whatever happens to the log or the session."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.exit_codes import END_UNKNOWN, code_of_script
from dlmon.log.directory import ask_session, read_entry, status_without_result, stop_session
from dlmon.log.folder import LogError
from dlmon.log.log_follower import LogFollower
from dlmon.protocol.control import NotControlled
from dlmon.protocol.stop import BY_OTHER_SCREEN, FROM_SCREEN
from dlmon.records import Notice, Record, Result, Status
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource
from dlmon.system.foreign_processes import is_suspended
from dlmon.system.this_host import boot_id, host_name

# Imported for types only: a screen that follows need not load what starts a session.
if TYPE_CHECKING:
    from dlmon.launch.supervisor_process import SupervisorProcess
    from dlmon.session.index import Index

MIN_FREE_BYTES = 64 * 1024
LONG_LOG_BYTES = 4 << 20
AT_ONCE = 64
"""The number of records between two checks of the time: they take a few milliseconds."""


class SessionFollower(SessionSource):
    """A session that is followed by its log.

    Args:
        path: the log.
        clock: CLOCK_MONOTONIC in nanoseconds, of the viewer's machine.
        supervisor: its supervisor if we started it; it sends the records that its log can't take.
        by_index: resume a long log shortly before its end if it has an index; otherwise write an
            index for the next reader.

    Raises:
        LogError: not a log that can be read.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int] = time.monotonic_ns,
        supervisor: SupervisorProcess | None = None,
        by_index: bool = False,
    ) -> None:
        self.log_dir_there: str | None = None
        """The log directory on its host; None for the default one."""
        self._supervisor = supervisor
        self._by_index = by_index
        self._follower = LogFollower(path)
        self._clock = clock
        self.path = path
        self.session = Session(self._follower.header)
        header = self._follower.header
        # Our clocks agree only on the same boot of the same machine.
        self.is_here = header.host == host_name() and header.boot_id == boot_id()
        self._silence_s = 3.0 * max(1.0, self.session.machine.interval_s)
        self._last_record_at = clock()
        self.status = Status.RUNNING
        self._without_seconds: str | None = None
        self.loss: str | None = None
        """The damage to the log, such as its removal."""
        self.why_unwritten: str | None = None
        """The reason why the log of our running session can't be written at present."""
        self.unreadable: str | None = None
        """The reason why the log can't be read any more."""
        self._is_closed = False
        self._new_index: Index | None = None
        """The index that we build for a long, complete log without one."""

    def poll(self, max_s: float | None = None) -> list[Record]:
        """Read new records, update the status, and return the new records.

        A closed follower returns none, as a screen that is closing may still call it.

        Args:
            max_s: the longest time to read; the next call reads on, and `read_share` is set.
        """
        if self._is_closed:
            self.read_share = None
            return []
        ending = self.status != Status.RUNNING or self.session.result is not None
        status = Status.RUNNING if ending else self.status_without_result()
        # The lock was checked first, so all that was written before its release is read now.
        records = self._read(max_s)
        if records:
            self._last_record_at = self._clock()
        self._read_supervisor()
        at_end = not records and self.unreadable is None and self.read_share is None
        if self.session.result is not None:
            self.status = self.session.result.status
        elif not ending and at_end:
            self.status = status
        self.loss = self._follower.find_damage()
        self._without_seconds = None
        self.problem = self._find_problem()
        return records

    def status_without_result(self) -> Status:
        """Return the status of the session while its log has no result."""
        return status_without_result(self._follower)[0]

    def _read(self, max_s: float | None) -> list[Record]:
        """Read new records within the time, and return them."""
        until = None if max_s is None else time.monotonic() + max_s
        records: list[Record] = []
        try:
            if self._by_index:
                self._take_index()
            new = self._follower.new_records()
            while batch := list(islice(new, AT_ONCE)):
                self.session.add_all(batch)
                if self._new_index is not None:
                    self._new_index.take(lambda: self._follower.position)
                records += batch
                if until is not None and time.monotonic() >= until:
                    break
            self.read_share = self._follower.read_share
            if self._new_index is not None and self.read_share is None:
                self._new_index.save()
                self._new_index = None
        except OSError as error:
            self.unreadable = f"the log can't be read any more: {error.strerror}"
            self.status, records, self.read_share = Status.UNKNOWN, [], None
        return records

    def _take_index(self) -> None:
        """Skip to near the end of a long log by its index."""
        self._by_index = False
        if self._follower.size < LONG_LOG_BYTES:
            return
        # Imported late: the follower of a short log doesn't need it.
        from dlmon.session.index import Index, end_of

        index = Index(self.path, self.session)
        if not index.load(self._follower):
            is_whole = self.status_without_result() != Status.RUNNING
            self._new_index = index if is_whole else None
            return
        entry = index.before(end_of(self._follower))
        if entry is not None:
            self.session = index.restored(entry)
            self._follower.go_to(entry.position.offset)

    def _read_supervisor(self) -> None:
        """Read the records that the supervisor sends because its log can't take them."""
        for record in self._supervisor.new_records() if self._supervisor is not None else ():
            if isinstance(record, Notice):
                self.why_unwritten = record.text or None
                continue
            self.session.add(record)
            if isinstance(record, Result):
                self.why_result_unwritten = self.why_unwritten or "the log can't be written"

    @property
    def script_exit_code(self) -> int:
        """The exit code of a script that has ended, as in a shell."""
        return END_UNKNOWN if self.result is None else code_of_script(self.result.exit_code)

    @property
    def is_ours(self) -> bool:
        return self._supervisor is not None

    def stop(self) -> bool:
        if self._supervisor is not None:
            self._supervisor.send(FROM_SCREEN)
            return True
        try:
            stop_session(read_entry(self.path), BY_OTHER_SCREEN)
        except (LogError, OSError, NotControlled):  # the log is gone, or the session another user's
            return False
        return True

    async def ask(self, request: Mapping[str, Any]) -> Sequence[Record]:
        if not self.running:
            return await super().ask(request)
        entry = await asyncio.to_thread(read_entry, self.path)
        return await ask_session(entry, request)

    def detach(self) -> None:
        if self._supervisor is not None:
            self._supervisor.detach()

    def second(self) -> int:
        """Return the current second of the session by our clock, even after its end."""
        return (self._clock() - self.session.header.t) // 1_000_000_000

    def now(self) -> int:
        """Return the time on the session's own clock, its running time.

        If that is unknown, or the log is not read to its end, return the last moment in it.
        """
        if self.is_here and self.running and self.read_share is None:
            return self.session.running_time.at(self._clock())
        return self.session.last_t

    def snapshot(self) -> Snapshot:
        return self.session.snapshot(self.now(), is_over=self.status == Status.INTERRUPTED)

    def close(self) -> None:
        self._is_closed = True
        self._follower.close()

    @property
    def lasting_problem(self) -> str | None:
        """`problem` without its seconds, so that the text doesn't change every second."""
        return self._without_seconds or self.problem

    def _find_problem(self) -> str | None:
        """Return the reason why a running session is silent, or what is missing."""
        if self.unreadable is not None:
            return self.unreadable
        if self.why_result_unwritten is not None:
            return f"{self.why_result_unwritten}: the result is not recorded"
        if self.status == Status.UNKNOWN:
            host = self.session.header.host
            return f"recorded on {host}: whether it still runs can't be seen from here"
        if self.status == Status.INTERRUPTED:
            if self._follower.was_cut:
                return "the log was cut short by another program, and holds no result"
            interrupted = "interrupted: dlmon's process ended without a result"
            may_run = "; the script may still run" if self.session.header.is_script else ""
            return f"{interrupted}{may_run}"
        if self.running and self.why_unwritten is not None:
            return self.why_unwritten
        if self.loss is not None:
            return f"the log {self.loss} by another program: what it held until then is shown"
        if not self.running:
            return None
        if self._follower.was_cut:
            return "the log was cut short by another program: some of it is missing here"
        silent_s = (self._clock() - self._last_record_at) / 1e9
        if silent_s < self._silence_s:
            return None
        self._without_seconds = self._with_reason("no new record")
        return self._with_reason(f"no new record for {silent_s:.0f} s")

    def _with_reason(self, silence: str) -> str:
        """Return a sentence about silence, with its reason."""
        if _free_bytes(self.path) < MIN_FREE_BYTES:
            full = "the disk that holds the log is full: make room on it; "
            if self.session.header.is_machine_recording:
                return f"{full}no sample is kept until then"
            return f"{full}no training stops, and its epochs are kept until they can be written"
        pid = self._follower.writer_pid()
        suspended = is_suspended(pid) if pid is not None and self.is_here else None
        if suspended is None:
            return f"{silence}: the process that records it may be suspended"
        if suspended:
            return f"{silence}: the process that records it is suspended"
        return f"{silence}: the process that records it may be unable to write"


def _free_bytes(path: Path) -> int:
    try:
        disk = os.statvfs(path)
    except OSError:
        return MIN_FREE_BYTES
    return disk.f_bavail * disk.f_frsize
