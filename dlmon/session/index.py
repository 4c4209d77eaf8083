"""The index of a long log: saved states of its session, from which reading can resume.

An entry is a pickle of the session. Parts that never change, such as an epoch, or only grow, such
as a series, are stored once beside the entries; the pickle has numbers in their place.
"""

from __future__ import annotations

import io
import pickle
import zlib
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from dlmon.log.index import LogPosition, read_index, write_index
from dlmon.log.log_follower import LogFollower
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
    SessionHeader,
    SourceLines,
    Stack,
    Trainer,
)
from dlmon.session.epoch_comparison import EpochStatistics
from dlmon.session.gaps import Gap
from dlmon.session.limits.find import history_s
from dlmon.session.machine_history import EnergyPoints
from dlmon.session.marks import Mark, Marks
from dlmon.session.session import Session, time_of
from dlmon.session.snapshot import PhaseSpan
from dlmon.statistics.series import Series

EVERY_NS = 64 * 10**9
# The least growth of the log between two entries, in multiples of the earlier entry's size.
APART = 2
_BY_TIME = attrgetter("t")
_GROWING = (EnergyPoints, Marks, Series)
_NEVER_CHANGES = (
    *(Alert, Epoch, EpochStatistics, Evaluation, Gap, MachineFacts, Mark, Model, NamedPause),
    *(Notice, Output, PhaseSpan, ProcessStack, Profile, SessionHeader),
    *(SourceLines, Stack, Trainer),
)
_APART = frozenset((*_GROWING, *_NEVER_CHANGES))


class Entry(NamedTuple):
    """The state of a session at a time, and the position from which its log is read on."""

    t: int
    position: LogPosition
    session: bytes
    """The compressed pickle: a day has over a thousand, and few are ever read."""


class _Pickler(pickle.Pickler):
    """Pickles a session with numbers for its parts, and adds new parts."""

    def __init__(self, file: io.BytesIO, parts: list[Any], numbers: dict[int, int]) -> None:
        super().__init__(file, protocol=5)
        self._parts, self._numbers = parts, numbers

    def persistent_id(self, part: Any) -> Any:
        if type(part) not in _APART:
            return None
        number = self._numbers.get(id(part))
        if number is None:
            number = self._numbers[id(part)] = len(self._parts)
            self._parts.append(part)
        if not isinstance(part, _GROWING):
            return number
        return number, len(part) if isinstance(part, Marks) else part.end_ns


class _Unpickler(pickle.Unpickler):
    """Unpickles a session with its parts in place of their numbers."""

    def __init__(self, data: bytes, parts: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.parts = list(parts)

    def persistent_load(self, number: Any) -> Any:
        if isinstance(number, int):
            return self.parts[number]
        number, end = number
        self.parts[number] = part = self.parts[number].until(end)
        return part


class Index:
    """The entries of a log, so that reading it can begin at any of them.

    Args:
        log: the log.
        session: its session, which grows as the log is read.
        every_ns: the least time between two entries.
        apart: the least growth of the log between them, in multiples of the earlier one's size.
    """

    def __init__(
        self, log: Path, session: Session, every_ns: int = EVERY_NS, apart: int = APART
    ) -> None:
        self.session = session
        self._log, self._every_ns, self._apart = log, every_ns, apart
        # The limit of a run follows from samples before the moment shown.
        self._margin_ns = int(history_s(session.machine.interval_s) * 1e9)
        self._entries: list[Entry] = []
        self._parts: list[Any] = []
        self._numbers: dict[int, int] = {}
        """The number of each part, by its identity."""
        self._tried_ns, self._saved_bytes = session.last_t, 0

    def take(self, position: Callable[[], LogPosition]) -> None:
        """Add an entry if one is due; `position` returns the position of the next record."""
        if self.session.last_t - self._tried_ns < self._every_ns:
            return
        self._tried_ns, next_record = self.session.last_t, position()
        last = self._entries[-1] if self._entries else None
        grown = last is None or (
            next_record.offset - last.position.offset >= self._apart * len(last.session)
        )
        if grown:
            file = io.BytesIO()
            _Pickler(file, self._parts, self._numbers).dump(self.session)
            state = zlib.compress(file.getvalue(), level=1)
            self._entries.append(Entry(self._tried_ns, next_record, state))

    def load(self, follower: LogFollower) -> bool:
        """Load the index beside the log; return whether it is valid."""
        content = read_index(self._log, self.session.header.id)
        if content is None:
            return False
        # Its signature is ours: a pickle may run any code.
        entries, parts = pickle.loads(content)
        if not entries or not follower.knows(entries[-1].position):
            return False
        self._entries, self._parts = entries, parts
        return True

    def save(self, least_bytes: int = 0) -> None:
        """Write the index if it covers `least_bytes` more of the log than the last one written."""
        end = self._entries[-1].position.offset if self._entries else 0
        if end - self._saved_bytes >= max(1, least_bytes):
            self._saved_bytes = end
            content = pickle.dumps((self._entries, self._parts), protocol=5)
            write_index(self._log, self.session.header.id, content)

    def go_on(self) -> int | None:
        """Restore the session of the last entry; return its offset, or None without entries."""
        if not self._entries:
            return None
        last = self._entries[-1]
        self.session, self._parts = self._restored(last)
        self._numbers = {id(part): number for number, part in enumerate(self._parts)}
        self._tried_ns = last.t
        return last.position.offset

    def before(self, t: int) -> Entry | None:
        """Return the last entry from which all figures of a moment follow."""
        number = bisect_right(self._entries, t - self._margin_ns, key=_BY_TIME) - 1
        return self._entries[number] if number >= 0 else None

    def restored(self, entry: Entry) -> Session:
        """Return the session of an entry."""
        return self._restored(entry)[0]

    def _restored(self, entry: Entry) -> tuple[Session, list[Any]]:
        unpickler = _Unpickler(zlib.decompress(entry.session), self._parts)
        session: Session = unpickler.load()
        return session, unpickler.parts


def end_of(follower: LogFollower) -> int:
    """Return the last moment in a log.

    Raises:
        OSError: the log can't be read any more.
    """
    last = (time_of(record) for record in follower.last_records())
    return max((t for t in last if t is not None), default=follower.header.t)
