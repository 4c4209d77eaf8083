"""Follow one session for a person: its log folded, and how it stands, whatever happens to it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from dlmon.host import boot_id, host_name
from dlmon.log import LogFollower
from dlmon.records import Record, Result
from dlmon.session import Session, Snapshot
from dlmon.sessions import INTERRUPTED, RUNNING, UNKNOWN, standing_without_result

LEAST_FREE_BYTES = 64 * 1024


class Viewer:
    """A session as seen from its log.

    Args:
        path: the log.
        clock: CLOCK_MONOTONIC in nanoseconds, of the viewer's machine.

    Raises:
        LogError: not a log that can be read.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._follower = LogFollower(path)
        self._clock = clock
        self.path = path
        self.session = Session(self._follower.header)
        header = self._follower.header
        # Only on the same boot of the same machine do our clocks agree.
        self._same_clock = header.host == host_name() and header.boot_id == boot_id()
        interval_s = header.options.get("interval")
        self._silence_s = 3.0 * max(
            1.0, interval_s if isinstance(interval_s, (int, float)) else 1.0
        )
        self._heard_at = clock()
        self.status = RUNNING
        self.trouble: str | None = None
        self._unreadable: str | None = None

    def poll(self) -> list[Record]:
        """Fold what is new, decide how the session stands, and return the new records."""
        ending = self.status != RUNNING or self.session.result is not None
        status = RUNNING if ending else standing_without_result(self._follower)[0]
        # The lock was read first: what was written before it was dropped is read now.
        try:
            records = self._follower.poll()
        except OSError as error:
            self._unreadable = f"the log can't be read any more: {error.strerror}"
            self.status, records = UNKNOWN, []
        for record in records:
            self.session.fold(record)
        if records:
            self._heard_at = self._clock()
        if self.session.result is not None:
            self.status = self.session.result.status
        elif not ending and not records and self._unreadable is None:
            self.status = status
        self.trouble = self._find_trouble()
        return records

    @property
    def running(self) -> bool:
        """Whether more records may come."""
        return self.status == RUNNING

    @property
    def writer_pid(self) -> int | None:
        """The pid of the session's supervisor, None when none runs."""
        return self._follower.writer_pid()

    @property
    def result(self) -> Result | None:
        """The session's result, once there is one."""
        return self.session.result

    def now(self) -> int:
        """Return the time on the session's own clock; where that can't be told, its last moment."""
        if self._same_clock and self.running:
            return self._clock()
        return self.session.last_t

    def snapshot(self) -> Snapshot:
        """Return all figures of this moment."""
        return self.session.snapshot(self.now())

    def close(self) -> None:
        """Close the log."""
        self._follower.close()

    def _find_trouble(self) -> str | None:
        """Say why nothing comes any more from a session that still runs."""
        if self._unreadable is not None:
            return self._unreadable
        if self.status == UNKNOWN:
            host = self.session.header.host
            return f"recorded on {host}: whether it still runs can't be told from here"
        if self.status == INTERRUPTED:
            return "interrupted: its supervisor is gone and left no result"
        silent_s = (self._clock() - self._heard_at) / 1e9
        if not self.running or silent_s < self._silence_s:
            return None
        if _free_bytes(self.path) < LEAST_FREE_BYTES:
            return (
                "the disk that holds the log is full: make room on it; training goes on, and its "
                "epochs are kept until they can be written"
            )
        return f"no new record for {silent_s:.0f} s: the supervisor may be suspended"


def _free_bytes(path: Path) -> int:
    try:
        disk = os.statvfs(path)
    except OSError:
        return LEAST_FREE_BYTES
    return disk.f_bavail * disk.f_frsize
