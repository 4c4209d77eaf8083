"""Read the entries that lie beside a log, and take its session up near the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

from dlmon.log.follower import LogFollower
from dlmon.log.index import read_index
from dlmon.session.keyframes.entries import Keyframes, Restored
from dlmon.session.keyframes.values import NoKeyframe
from dlmon.session.marks import time_of


class IndexReader:
    """Reads the entries that lie beside a log, by and by."""

    def __init__(self, log: Path, follower: LogFollower) -> None:
        self._follower = follower
        self._lines = read_index(log, follower.header.id)
        self.keyframes = Keyframes(follower.header)
        self.is_read = False

    def read(self, until: float = math.inf) -> None:
        """Read on until a time of the clock; what is no index of this log comes to nothing.

        Raises:
            OSError: the log can't be read any more.
        """
        try:
            for line in () if self.is_read else self._lines:
                self.keyframes.add(line)
                if time.monotonic() >= until:
                    return
            self.keyframes.end()
        except NoKeyframe:
            self.keyframes = Keyframes(self._follower.header)
        self.is_read = True
        place = self.keyframes.last_place
        if place is not None and not self._follower.knows(place):
            self.keyframes = Keyframes(self._follower.header)

    def restored_near_end(self) -> Iterator[Restored]:
        """Yield None many times, and then the session as it was shortly before the end of its log.

        The last is None without an index.

        Raises:
            OSError: the log can't be read any more.
        """
        last = (time_of(record) for record in self._follower.last_records())
        end_ns = max((t for t in last if t is not None), default=self._follower.header.t)
        try:
            yield from self.keyframes.restored_before(end_ns)
        except NoKeyframe:
            yield None
