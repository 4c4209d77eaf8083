"""Play a recorded session: a source whose clock can be paused, sped up and set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlmon.log.folder import LogError, log_directory_of
from dlmon.log.follower import LogFollower
from dlmon.records import Record, Result, Status
from dlmon.session.follower import PAUSE_S
from dlmon.session.marks import Mark, time_of
from dlmon.session.recording import Recording
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot

SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
# How long one call may play: a fast one has hundreds of seconds to fold.
PLAYING_S = 0.06
# How long a seek keeps a key waiting; what is left of it follows by and by.
SEEKING_S = 0.025
# After a suspension of the machine, play goes on where it stood.
MOST_AT_ONCE_NS = 2 * 10**9
WORTH_A_JUMP_BYTES = 256 << 10
_CHUNK_BYTES = 1 << 20


class ReplaySource:
    """A session as it was at the moment that its own clock shows; a `SessionSource`.

    Args:
        path: the log, be it finished or still written.
        clock: CLOCK_MONOTONIC in nanoseconds.

    Raises:
        LogError: not a log that can be read.
    """

    is_ours = False
    host: str | None = None
    why_result_unwritten = None
    why_not_stopped = None

    def __init__(self, path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.path = path
        self._recording = Recording(path)
        if self._recording.is_empty:
            self._recording.close()
            raise LogError(f"{path} holds nothing that could be replayed: it ends where it begins")
        self._follower = LogFollower(path)
        self._clock = clock
        self._clock_ns = clock()
        self._next: Record | None = None
        self.session = Session(self._follower.header)
        self.position_ns = self.start_ns
        """The moment that is shown, on the session's own clock."""
        self.speed = 1.0
        self.is_playing = True
        self.read_share: float | None = None
        self.problem: str | None = None
        self.status = Status.RUNNING

    @property
    def start_ns(self) -> int:
        return self._recording.start_ns

    @property
    def end_ns(self) -> int:
        return self._recording.end_ns

    @property
    def is_growing(self) -> bool:
        return self._recording.is_growing

    @property
    def at_end(self) -> bool:
        return self.position_ns >= self.end_ns

    @property
    def marks(self) -> list[Mark]:
        return self._recording.marks

    @property
    def ahead_share(self) -> float | None:
        """How much of the log was gone through for its marks; None once that is all."""
        return self._recording.read_share

    @property
    def directory(self) -> Path:
        return log_directory_of(self.path)

    @property
    def result(self) -> Result | None:
        return self.session.result

    def _find_status(self) -> Status:
        """Return how the session stood: it runs until its end is shown."""
        if not self.at_end or self.read_share is not None:
            return Status.RUNNING
        if self.session.result is not None:
            return self.session.result.status
        return self._recording.status_without_result

    @property
    def running(self) -> bool:
        return self.status == Status.RUNNING

    def play(self) -> None:
        """Go on; from the start where the end was reached."""
        if self.at_end and self.session.result is not None:
            self.seek(self.start_ns)
        self._clock_ns = self._clock()
        self.is_playing = True

    def stop_clock(self) -> None:
        """Pause; `play` goes on."""
        self.is_playing = False

    def change_speed(self, steps: int) -> None:
        """Play faster, or slower, by steps of `SPEEDS`."""
        self._move_clock()
        place = min(max(0, SPEEDS.index(self.speed) + steps), len(SPEEDS) - 1)
        self.speed = SPEEDS[place]

    def seek(self, t: int, max_s: float | None = None) -> None:
        """Show another moment.

        Args:
            t: the moment.
            max_s: leave what is not read by then to `poll`; `read_share` says so.
        """
        t = min(max(t, self.start_ns), self.end_ns)
        try:
            self._begin_near(t)
        except OSError as error:
            self._take_error(error)
        self.position_ns = t
        self._clock_ns = self._clock()
        self._fold(max_s)

    def seek_mark(self, forward: bool, max_s: float | None = None) -> Mark | None:
        """Show the next mark, or the one before, and return it; `max_s` as for `seek`."""
        mark = self.mark_beside(self.position_ns, forward)
        if mark is not None:
            self.seek(mark.t, max_s)
        return mark

    def mark_beside(self, t: int, forward: bool) -> Mark | None:
        """Return the first mark after a moment, or the last one before it."""
        find = self._recording.mark_after if forward else self._recording.mark_before
        return find(t)

    def read_ahead(self, max_s: float) -> None:
        """Go through more of the log for its marks, for so long."""
        try:
            self._recording.read_on(max_s)
        except OSError as error:
            self._take_error(error)
        if self.problem is None and (loss := self._recording.loss) is not None:
            self.problem = f"the log {loss}: what is shown was read from the old one"

    def poll(self, max_s: float | None = None) -> None:
        if self.read_share is None:
            self._move_clock()
            if not self._fold(PLAYING_S, seeking=False):
                # What can't be read as fast is played as fast as it is read.
                self.position_ns = min(self.position_ns, self.session.last_t)
        else:
            # In a few pieces: each has another one wait for the screen.
            self._fold(None if max_s is None else max(max_s, SEEKING_S))
            self._clock_ns = self._clock()

    def move_to(self, t: int) -> None:
        """Read on to a later moment, which a clock of somebody else's has come to."""
        self.position_ns = min(max(t, self.position_ns), self.end_ns)
        self._fold(None, seeking=False)

    def go_on(self) -> None:
        """Have its own clock go on from what is shown."""
        self._clock_ns = self._clock()

    def _move_clock(self) -> None:
        now_ns = self._clock()
        passed_ns = min(now_ns - self._clock_ns, MOST_AT_ONCE_NS)
        self._clock_ns = now_ns
        if self.is_playing:
            moved_ns = self.position_ns + int(passed_ns * self.speed)
            self.position_ns = min(moved_ns, self.end_ns)

    def _begin_near(self, t: int) -> None:
        """Take up the session somewhere before a moment, where that is less to read."""
        # Of a seek that was not finished, what is shown lies further back than the position.
        goes_back = t < self.position_ns
        place = self._recording.place_before(t)
        here = self._follower.place.offset + WORTH_A_JUMP_BYTES
        is_worth_it = place is not None and (goes_back or place.offset > here)
        found = self._recording.restored_before(t) if is_worth_it else None
        if found is not None and not self._follower.knows(found.place):
            found = None
        if found is None and not goes_back:
            return
        self._follower.go_to(None if found is None else found.place.offset)
        self._next = None
        self.session = Session(self._follower.header) if found is None else found.session

    def _fold(self, max_s: float | None, seeking: bool = True) -> bool:
        """Fold what was recorded until the moment that is shown; return whether that is all."""
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
        """Fold the next record unless it was written later than what is shown."""
        if self._next is None:
            self._next = next(self._follower.new_records(_CHUNK_BYTES), None)
        if self._next is None:
            return False
        t = time_of(self._next)
        if t is not None and t > self.position_ns and not self.at_end:
            return False
        self.session.fold(self._next)
        self._next = None
        return True

    def _take_error(self, error: OSError) -> None:
        self.problem = f"the log can't be read any more: {error.strerror}"

    def snapshot(self) -> Snapshot:
        return self.session.snapshot(self.now())

    def now(self) -> int:
        """Return the moment that is shown; while it is read for, the last that was read."""
        return self.position_ns if self.read_share is None else self.session.last_t

    def second(self) -> int:
        """Return a number that changes as often as a screen should be painted."""
        per_second = 1 if self.speed <= 1 else 4
        return self._clock() * per_second // 10**9

    def stop(self) -> bool:
        return False

    async def ask(self, request: Mapping[str, Any]) -> Sequence[Record]:
        """Return what was recorded last of what its processes did: none of them runs here."""
        return (*self.session.stacks.of_processes, *self.session.profiles)

    def detach(self) -> None:
        """There is nothing that could go on without us."""

    async def pause(self) -> None:
        await asyncio.sleep(PAUSE_S)

    def close(self) -> None:
        self._recording.close()
        self._follower.close()
