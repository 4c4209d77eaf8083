"""Play a recorded session: a source whose clock can be paused, sped up and set."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from pathlib import Path

from dlmon.log.directory import status_without_result
from dlmon.log.folder import LogError, reason_of
from dlmon.log.log_follower import LogFollower
from dlmon.records import Record, Status
from dlmon.session.follower import AT_ONCE
from dlmon.session.index import Index, end_of
from dlmon.session.marks import Mark
from dlmon.session.session import Session, time_of
from dlmon.session.source import Player, SessionSource

# The longest time of one call while playing: at high speed it reads hundreds of seconds.
PLAYING_S = 0.06
# The longest time that a seek blocks a key; later calls read the rest.
SEEKING_S = 0.025
WORTH_A_JUMP_BYTES = 256 << 10
WORTH_AN_INDEX_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 20
_BY_TIME = attrgetter("t")


class ReplaySource(Player, SessionSource):
    """A session as it was at the moment that its own clock shows.

    Args:
        path: the log, complete or still growing.
        clock: CLOCK_MONOTONIC in nanoseconds.

    Raises:
        LogError: not a log that can be read.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.path = path
        self._follower, self._ahead = LogFollower(path), LogFollower(path)
        # A second reader searches the whole log for its end, its marks and index entries.
        self._index = Index(path, Session(self._ahead.header))
        self._is_loaded: bool | None = None
        self._ahead_share: float | None = 0.0
        try:
            self._end_ns = end_of(self._ahead)
        except OSError as error:
            self.close()
            raise LogError(f"{path} can't be read: {reason_of(error)}") from None
        if self.end_ns <= self.start_ns:
            self.close()
            raise LogError(f"{path} has nothing to replay: it ends where it begins")
        super().__init__(clock)
        self._next: Record | None = None
        self.session = Session(self._follower.header)
        self.position_ns = self.start_ns
        self.status = Status.RUNNING

    @property
    def start_ns(self) -> int:
        return self._follower.header.t

    @property
    def end_ns(self) -> int:
        return self._end_ns

    @property
    def first_moment_ns(self) -> int:
        # What comes before training shows nothing that moves.
        return self._index.session.training_start or self.start_ns

    @property
    def is_growing(self) -> bool:
        if self._index.session.result is not None:
            return False
        return status_without_result(self._ahead)[0] == Status.RUNNING

    @property
    def marks(self) -> list[Mark]:
        """The marks found so far, in the order of time."""
        return self._index.session.marks

    @property
    def ahead_share(self) -> float | None:
        """The share of the log that was searched for marks; None once all was searched."""
        return self._ahead_share

    def _find_status(self) -> Status:
        """Return the status at the shown moment: running until the end is shown."""
        if not self.at_end or self.read_share is not None:
            return Status.RUNNING
        if self.session.result is not None:
            return self.session.result.status
        return status_without_result(self._ahead)[0]

    def seek(self, t: int, max_s: float | None = None) -> None:
        """Show another moment.

        Args:
            t: the moment.
            max_s: the longest time to read; `poll` reads on, and `read_share` is set.
        """
        t = min(max(t, self.start_ns), self.end_ns)
        try:
            self._begin_near(t)
        except OSError as error:
            self._take_error(error)
        self.position_ns = t
        self.go_on()
        self._read(max_s)

    def seek_mark(self, forward: bool, max_s: float | None = None) -> Mark | None:
        """Show the next or previous mark, and return it; `max_s` is that of `seek`."""
        mark = self.mark_beside(self.position_ns, forward)
        if mark is not None:
            self.seek(mark.t, max_s)
        return mark

    def mark_beside(self, t: int, forward: bool) -> Mark | None:
        """Return the first mark after a moment, or the last one before it."""
        if forward:
            return next(iter(self.marks[bisect_right(self.marks, t, key=_BY_TIME) :]), None)
        return next(reversed(self.marks[: bisect_left(self.marks, t, key=_BY_TIME)]), None)

    def read_ahead(self, max_s: float) -> None:
        """Search more of the log for marks, for at most `max_s`."""
        until = time.monotonic() + max_s
        try:
            self._load_index()
            new = self._ahead.new_records()
            while batch := list(islice(new, AT_ONCE)):
                self._index.session.add_all(batch)
                self._index.take(lambda: self._ahead.position)
                if time.monotonic() >= until:
                    break
            self._end_ns = max(self._end_ns, self._index.session.last_t)
            self._ahead_share = self._ahead.read_share
            if self._ahead_share is None and self._index.session.running_time.was_suspended:
                # Until now it was the last time in the log.
                self._end_ns = self._index.session.last_t
        except OSError as error:
            self._take_error(error)
        is_over = self._ahead_share is None and self._index.session.result is not None
        if is_over and not self._is_loaded and self._ahead.size >= WORTH_AN_INDEX_BYTES:
            self._is_loaded = True
            self._index.save()
        if self.problem is None and (loss := self._ahead.find_damage()) is not None:
            self.problem = f"the log {loss}: what is shown was read from the old one"

    def _load_index(self) -> None:
        """Load the index beside the log, and read the log from its last entry on."""
        if self._is_loaded is None:
            self._is_loaded = self._index.load(self._ahead)
            self._ahead.go_to(self._index.go_on())

    def poll(self, max_s: float | None = None) -> None:
        if self.read_share is None:
            self.position_ns = self._moved_ns()
            if not self._read(PLAYING_S, seeking=False):
                # Playback is no faster than reading.
                self.position_ns = min(self.position_ns, self.session.last_t)
        else:
            # Read in a few large slices, as the screen delays each of them.
            self._read(None if max_s is None else max(max_s, SEEKING_S))
            self.go_on()

    def move_to(self, t: int) -> None:
        """Read on to a later moment of another player's clock."""
        self.position_ns = min(max(t, self.position_ns), self.end_ns)
        self._read(None, seeking=False)

    def _begin_near(self, t: int) -> None:
        """Resume the session at an index entry before a moment, if that saves reading."""
        # During an unfinished seek, the session lies before the position.
        goes_back = t < self.position_ns
        self._load_index()
        entry = self._index.before(t)
        least = 0 if goes_back else self._follower.position.offset + WORTH_A_JUMP_BYTES
        if entry is not None and entry.position.offset < least:
            entry = None
        if entry is None and not goes_back:
            return
        self._follower.go_to(None if entry is None else entry.position.offset)
        self._next = None
        header = self._follower.header
        self.session = Session(header) if entry is None else self._index.restored(entry)

    def _read(self, max_s: float | None, seeking: bool = True) -> bool:
        """Read up to the shown moment; return whether that was reached."""
        until = None if max_s is None else time.monotonic() + max_s
        begin_ns, reached = self.session.last_t, True
        try:
            while reached and self._take_next():
                if until is not None and time.monotonic() >= until:
                    reached = False
        except OSError as error:
            self._take_error(error)
        self.read_share = None
        if seeking and not reached:
            span_ns = max(1, self.position_ns - self.start_ns)
            done = (max(begin_ns, self.session.last_t) - self.start_ns) / span_ns
            self.read_share = min(max(0.0, done), 1.0)
        self.status = self._find_status()
        return reached

    def _take_next(self) -> bool:
        """Add the next record unless it is later than the shown moment; return whether it was."""
        if self._next is None:
            self._next = next(self._follower.new_records(_CHUNK_BYTES), None)
        if self._next is None:
            return False
        t = time_of(self._next)
        is_later = t is not None and self.session.running_time.at(t) > self.position_ns
        if is_later and not self.at_end:
            return False
        self.session.add(self._next)
        self._next = None
        return True

    def _take_error(self, error: OSError) -> None:
        self.problem = f"the log can't be read any more: {error.strerror}"

    def now(self) -> int:
        """Return the shown moment; until it is read, the last one that was."""
        return self.position_ns if self.read_share is None else self.session.last_t

    def close(self) -> None:
        self._ahead.close()
        self._follower.close()
