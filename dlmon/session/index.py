"""Where the reading of a long log can begin: what its session had come to at times.

An entry is a pickle of the session. What it holds that never changes, such as an epoch, stands in
the first entry that has it, and of what grows all the time, as a series, each entry has what is
new: in the session itself, both are numbers.
"""

from __future__ import annotations

import io
import math
import pickle
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from dlmon.log.follower import LogFollower
from dlmon.log.index import IndexWriter, Place, read_index
from dlmon.log.writer import LogWriter
from dlmon.records import (
    Alert,
    Epoch,
    Evaluation,
    MachineFacts,
    Model,
    NamedPause,
    Notice,
    Output,
    ProcessStack,
    Profile,
    Record,
    SessionHeader,
    Stack,
    Trainer,
)
from dlmon.session.energy import EnergyPoints
from dlmon.session.epoch_use import EpochUse
from dlmon.session.gaps import Gap
from dlmon.session.limits.looks import looked_back_s
from dlmon.session.marks import Mark, MarkFinder, time_of
from dlmon.session.session import Session
from dlmon.session.snapshot import PhaseSpan
from dlmon.statistics.series import Series

EVERY_NS = 64 * 10**9
# The log grows by so many times what the entry before takes: no index is larger than half of it.
APART = 2
_GROWING = (EnergyPoints, Series)
_NEVER_CHANGES = (
    *(Alert, Epoch, EpochUse, Evaluation, Gap, MachineFacts, Model, NamedPause, Notice, Output),
    *(PhaseSpan, ProcessStack, Profile, SessionHeader, Stack, Trainer),
)
_APART = frozenset((*_GROWING, *_NEVER_CHANGES))


class Restored(NamedTuple):
    """A session, the place in its log from which it is to be read on, and what it has by number."""

    session: Session
    place: Place
    parts: list[Any]


class _Entry(NamedTuple):
    t: int
    place: Place
    marks: list[Mark]
    new: list[Any]
    """What is numbered on from the entries before; of what grows, its class."""
    grown: dict[int, Any]
    """What is new of what grows, by its number."""
    session: bytes
    """Compressed: a day has over a thousand, and few of them are ever read."""


class _Pickler(pickle.Pickler):
    """Pickles a session with numbers for its parts."""

    def __init__(self, file: io.BytesIO, known: dict[int, tuple[int, Any]], count: int) -> None:
        super().__init__(file, protocol=5)
        self._known, self._count = known, count
        self.found: dict[int, tuple[int, Any]] = {}
        """The parts that the session has now, with their numbers, by their identity."""
        self.new: list[Any] = []

    def persistent_id(self, part: Any) -> Any:
        if type(part) not in _APART:
            return None
        known = self.found.get(id(part)) or self._known.get(id(part))
        if known is None:
            known = self._count + len(self.new), part
            self.new.append(type(part) if isinstance(part, _GROWING) else part)
        self.found[id(part)] = known
        return (known[0], part.end_ns) if isinstance(part, _GROWING) else known[0]


class _Unpickler(pickle.Unpickler):
    """Puts the parts of a session in the place of their numbers."""

    def __init__(self, data: bytes, parts: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.parts = list(parts)

    def persistent_load(self, number: Any) -> Any:
        if isinstance(number, int):
            return self.parts[number]
        number, end_ns = number
        self.parts[number] = part = self.parts[number].until(end_ns)
        return part


class IndexMaker:
    """Makes entries of a session while its records are added.

    Args:
        session: at its start, or at the last entry of an index.
        begun: that entry.
        every_ns: an entry comes after so long at least,
        apart: and after so many times the size of the last one.
    """

    def __init__(
        self,
        session: Session,
        begun: Restored | None = None,
        every_ns: int = EVERY_NS,
        apart: int = APART,
    ) -> None:
        self._session, self._every_ns, self._apart = session, every_ns, apart
        self._marks: list[Mark] = []
        parts = begun.parts if begun is not None else []
        self._known = {id(part): (number, part) for number, part in enumerate(parts)}
        self._count = len(parts)
        self._ends = {n: part.end_ns for n, part in enumerate(parts) if isinstance(part, _GROWING)}
        self._at_ns, self._offset = session.last_t, begun.place.offset if begun is not None else 0
        self._bytes = 0

    def take(self, marks: Iterable[Mark]) -> None:
        self._marks += marks

    @property
    def is_due(self) -> bool:
        return self._session.last_t - self._at_ns >= self._every_ns

    def make(self, place: Place) -> bytes | None:
        """Return an entry; None where too little was written since the last."""
        self._at_ns = self._session.last_t
        if place.offset - self._offset < self._apart * self._bytes:
            return None
        file = io.BytesIO()
        pickler = _Pickler(file, self._known, self._count)
        pickler.dump(self._session)
        grown = {}
        for number, part in pickler.found.values():
            if isinstance(part, _GROWING):
                grown[number] = part.since(self._ends.get(number))
                self._ends[number] = part.end_ns
        # What the session has no more of never comes again.
        self._known, self._count = pickler.found, self._count + len(pickler.new)
        state = zlib.compress(file.getvalue(), level=1)
        entry = _Entry(self._session.last_t, place, self._marks, pickler.new, grown, state)
        data = pickle.dumps(tuple(entry), protocol=5)
        self._marks, self._offset, self._bytes = [], place.offset, len(data)
        return data


class SessionIndex:
    """Writes the index of a session while its log is written.

    Args:
        log: what writes the log.
        session: what is written, added up.
        every_ns: as for `IndexMaker`.
        apart: the same.
    """

    def __init__(
        self, log: LogWriter, session: Session, every_ns: int = EVERY_NS, apart: int = APART
    ) -> None:
        self._log, self._session = log, session
        self._finder = MarkFinder(session)
        self._maker = IndexMaker(session, every_ns=every_ns, apart=apart)
        self._writer = IndexWriter(log.path, session.header.id)

    def take(self, record: Record) -> None:
        self._maker.take(self._finder.take(record, self._session))
        if self._maker.is_due and (entry := self._maker.make(self._log.place)) is not None:
            self._writer.write(entry)

    def close(self) -> None:
        self._writer.close()


class Index:
    """All entries of a log, so that reading it can begin at any of them; `read` reads them.

    Args:
        log: where it is.
        follower: reads it.
    """

    def __init__(self, log: Path, follower: LogFollower) -> None:
        self._follower = follower
        header = follower.header
        self._unread = read_index(log, header.id)
        self._is_read = False
        # What limits a run is seen in its last samples.
        self._margin_ns = int(looked_back_s(Session(header).machine.interval_s) * 1e9)
        self._forget()

    def _forget(self) -> None:
        self._entries: list[_Entry] = []
        self._parts: list[Any] = []
        self.marks: list[Mark] = []

    def read(self, until: float = math.inf) -> bool:
        """Read on until a time of the clock; return whether all is read.

        What is no index of this log comes to nothing.

        Raises:
            OSError: the log can't be read any more.
        """
        for entry in () if self._is_read else self._unread:
            self.add(entry)
            if time.monotonic() >= until:
                return False
        last = self._entries[-1:] if not self._is_read else ()
        if not all(self._follower.knows(entry.place) for entry in last):
            self._forget()
        self._is_read = True
        return True

    def add(self, data: bytes) -> None:
        """Take the next entry, which is one of ours: a pickle may run anything."""
        entry = _Entry(*pickle.loads(data))
        self._parts += [part() if isinstance(part, type) else part for part in entry.new]
        for number, new in entry.grown.items():
            self._parts[number].put(*new)
        self.marks += entry.marks
        self._entries.append(entry._replace(marks=[], new=[], grown={}))

    def place_before(self, t: int) -> Place | None:
        """Return where `restored_before` has the log read from; None is the start."""
        number = self._number_before(t)
        return None if number is None else self._entries[number].place

    def restored_before(self, t: int) -> Restored | None:
        """Return the session at the last entry from which a moment can be shown in full."""
        number = self._number_before(t)
        return None if number is None else self._restored(number)

    def restored_near_end(self) -> Restored | None:
        """Return the session as it was shortly before the end of its log; None without an index."""
        return self.restored_before(end_of(self._follower))

    def last_session(self) -> Restored | None:
        """Return the session at the last entry; None where there is none."""
        return self._restored(-1) if self._entries else None

    def _number_before(self, t: int) -> int | None:
        number = bisect_right(self._entries, t - self._margin_ns, key=attrgetter("t")) - 1
        return number if number >= 0 else None

    def _restored(self, number: int) -> Restored:
        entry = self._entries[number]
        unpickler = _Unpickler(zlib.decompress(entry.session), self._parts)
        session: Session = unpickler.load()
        return Restored(session, entry.place, unpickler.parts)


def end_of(follower: LogFollower) -> int:
    """Return the last moment that a log records.

    Raises:
        OSError: it can't be read any more.
    """
    last = (time_of(record) for record in follower.last_records())
    return max((t for t in last if t is not None), default=follower.header.t)
