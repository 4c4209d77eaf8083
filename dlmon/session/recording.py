"""A log as something that can be gone through: its length, its marks, where to begin to read."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from pathlib import Path

from dlmon.log.directory import status_without_result
from dlmon.log.folder import LogError, reason_of
from dlmon.log.follower import LogFollower
from dlmon.log.index import Place, write_index
from dlmon.records import Status
from dlmon.session.index import IndexMaker, IndexReader, Restored
from dlmon.session.marks import Mark, MarkFinder, time_of
from dlmon.session.session import Session

MAX_MARKS = 100_000
WORTH_AN_INDEX_BYTES = 8 << 20
LOOK_S = 1.0


class Recording:
    """What is known of a whole log, as far as it was read; `read_on` reads more of it.

    Args:
        path: the log.

    Raises:
        LogError: not a log that can be read.
    """

    def __init__(self, path: Path) -> None:
        self._follower = LogFollower(path)
        self.header = self._follower.header
        self.start_ns = self.header.t
        self.marks: list[Mark] = []
        """All that were found so far, in the order of time."""
        self.read_share: float | None = 0.0
        """How much of the log was gone through, 0 to 1; None once its end was reached."""
        self._session = Session(self.header)
        self._finder = MarkFinder(self._session)
        self._path = path
        self._index = IndexReader(path, self._follower)
        self._is_indexed = False
        self._maker: IndexMaker | None = None
        self._entries: list[bytes] = []
        self._is_over = False
        self._status: Status | None = None
        self._look_at = 0.0
        try:
            last = [time_of(record) for record in self._follower.last_records()]
        except OSError as error:
            raise LogError(f"{path} can't be read: {reason_of(error)}") from None
        self.end_ns = max((t for t in last if t is not None), default=self.start_ns)
        """The last moment that is recorded."""

    def read_on(self, max_s: float) -> None:
        """Go through more of the log, for so long.

        Raises:
            OSError: it can't be read any more.
        """
        until = time.monotonic() + max_s
        self._read_index(until)
        if self._maker is None or self._is_over:
            return
        for record in self._follower.new_records():
            self._session.fold(record)
            marks = self._finder.take(record, self._session)
            if len(self.marks) < MAX_MARKS:
                for mark in marks:
                    insort(self.marks, mark, key=attrgetter("t"))
            self._maker.take(marks)
            if self._maker.is_due and (entry := self._maker.make(self._follower.place)):
                self._index.index.add(entry)
                self._entries.append(entry)
            if time.monotonic() >= until:
                break
        self.end_ns = max(self.end_ns, self._session.last_t)
        self.read_share = self._follower.read_share
        if self.read_share is None:
            self._write_index()
            if self._session.result is not None:
                # Nothing more comes, and a day's session is large.
                self._is_over, self._entries = True, []
                self._fold_into(None)

    def _read_index(self, until: float = math.inf) -> None:
        """Take what is beside the log, and go on to read the log where that ends."""
        if self._maker is not None:
            return
        self._index.read(until)
        if not self._index.is_read:
            return
        found = self._index.index.last_session()
        if found is not None:
            self._follower.go_to(found.place.offset)
            self.marks = sorted(self._index.index.marks, key=attrgetter("t"))[:MAX_MARKS]
        self._is_indexed = found is not None
        self._fold_into(found)

    def _write_index(self) -> None:
        """Leave an index beside the log of a session that is over and has none that is any."""
        size = self._follower.place.offset
        if self._session.result is None or self._is_indexed or size < WORTH_AN_INDEX_BYTES:
            return
        self._is_indexed = True
        write_index(self._path, self.header.id, self._entries)

    def _fold_into(self, begun: Restored | None) -> None:
        """Go on with the session of the last entry of the index; None is its start."""
        self._session = Session(self.header) if begun is None else begun.session
        self._finder = MarkFinder(self._session)
        self._maker = IndexMaker(self._session, begun)

    def place_before(self, t: int) -> Place | None:
        """Return where `restored_before` has the log read from; None is the start."""
        self._read_index()
        return self._index.index.place_before(t)

    def restored_before(self, t: int) -> Restored | None:
        """Return the session near a moment, and where to read on; None is the start of the log."""
        return self._index.index.restored_before(t)

    @property
    def status_without_result(self) -> Status:
        """How the session stands, by its log's lock; looked up once in a second."""
        now = time.monotonic()
        if self._status is None or (self._status == Status.RUNNING and now >= self._look_at):
            self._status, self._look_at = status_without_result(self._follower)[0], now + LOOK_S
        return self._status

    @property
    def loss(self) -> str | None:
        """What happened to the log meanwhile, as far as anything did."""
        return self._follower.find_loss()

    @property
    def is_growing(self) -> bool:
        if self._is_over or self._session.result is not None:
            return False
        return self.status_without_result == Status.RUNNING

    @property
    def is_empty(self) -> bool:
        return self.end_ns <= self.start_ns

    def mark_after(self, t: int) -> Mark | None:
        place = bisect_right(self.marks, t, key=attrgetter("t"))
        return self.marks[place] if place < len(self.marks) else None

    def mark_before(self, t: int) -> Mark | None:
        place = bisect_left(self.marks, t, key=attrgetter("t"))
        return self.marks[place - 1] if place else None

    def close(self) -> None:
        self._follower.close()
