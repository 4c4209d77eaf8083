"""Where the reading of a long log can begin: what its session had come to at times.

An entry is a pickle of the session. What it holds that never changes, such as an epoch, and what
grows all the time, as a series, stands beside the entries once: in the session itself, both are
numbers.
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
# The log grows by so many times what the entry before takes.
APART = 2
_BY_TIME = attrgetter("t")
_GROWING = (EnergyPoints, Marks, Series)
_NEVER_CHANGES = (
    *(Alert, Epoch, EpochStatistics, Evaluation, Gap, MachineFacts, Mark, Model, NamedPause),
    *(Notice, Output, PhaseSpan, ProcessStack, Profile, SessionHeader, Stack, Trainer),
)
_APART = frozenset((*_GROWING, *_NEVER_CHANGES))


class Entry(NamedTuple):
    """What a session had come to at a time, and from where its log is to be read on."""

    t: int
    position: LogPosition
    session: bytes
    """Compressed: a day has over a thousand, and few of them are ever read."""


class _Pickler(pickle.Pickler):
    """Pickles a session with numbers for its parts, and adds those that are new."""

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
    """Puts the parts of a session in the place of their numbers."""

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
        log: where it is.
        session: what it comes to, as its records are folded.
        every_ns: an entry comes after so long at least,
        apart: and after so many times the size of the last one.
    """

    def __init__(
        self, log: Path, session: Session, every_ns: int = EVERY_NS, apart: int = APART
    ) -> None:
        self.session = session
        self._log, self._every_ns, self._apart = log, every_ns, apart
        # What limits a run is seen in its last samples.
        self._margin_ns = int(history_s(session.machine.interval_s) * 1e9)
        self._entries: list[Entry] = []
        self._parts: list[Any] = []
        self._numbers: dict[int, int] = {}
        """Of each part, by its identity."""
        self._tried_ns, self._saved_bytes = session.last_t, 0

    def take(self, position: Callable[[], LogPosition]) -> None:
        """Take what the session has folded; `position` is where the next record begins."""
        if self.session.last_t - self._tried_ns < self._every_ns:
            return
        self._tried_ns, here = self.session.last_t, position()
        last = self._entries[-1] if self._entries else None
        if last is None or here.offset - last.position.offset >= self._apart * len(last.session):
            file = io.BytesIO()
            _Pickler(file, self._parts, self._numbers).dump(self.session)
            state = zlib.compress(file.getvalue(), level=1)
            self._entries.append(Entry(self._tried_ns, here, state))

    def load(self, follower: LogFollower) -> bool:
        """Take what lies beside the log; return whether that is its index."""
        content = read_index(self._log, self.session.header.id)
        if content is None:
            return False
        # It is one of ours: a pickle may run anything.
        entries, parts = pickle.loads(content)
        if not entries or not follower.knows(entries[-1].position):
            return False
        self._entries, self._parts = entries, parts
        return True

    def save(self, least_bytes: int = 0) -> None:
        """Write it beside the log, once that has grown by so much since it was written."""
        end = self._entries[-1].position.offset if self._entries else 0
        if end - self._saved_bytes >= max(1, least_bytes):
            self._saved_bytes = end
            content = pickle.dumps((self._entries, self._parts), protocol=5)
            write_index(self._log, self.session.header.id, content)

    def go_on(self) -> int | None:
        """Go on with the session of the last entry; return from where, None without one."""
        if not self._entries:
            return None
        last = self._entries[-1]
        self.session, self._parts = self._restored(last)
        self._numbers = {id(part): number for number, part in enumerate(self._parts)}
        self._tried_ns = last.t
        return last.position.offset

    def before(self, t: int) -> Entry | None:
        """Return the last entry from which a moment can be shown in full."""
        number = bisect_right(self._entries, t - self._margin_ns, key=_BY_TIME) - 1
        return self._entries[number] if number >= 0 else None

    def restored(self, entry: Entry) -> Session:
        """Return the session as it was at an entry."""
        return self._restored(entry)[0]

    def _restored(self, entry: Entry) -> tuple[Session, list[Any]]:
        unpickler = _Unpickler(zlib.decompress(entry.session), self._parts)
        session: Session = unpickler.load()
        return session, unpickler.parts


def end_of(follower: LogFollower) -> int:
    """Return the last moment that a log records.

    Raises:
        OSError: it can't be read any more.
    """
    last = (time_of(record) for record in follower.last_records())
    return max((t for t in last if t is not None), default=follower.header.t)
