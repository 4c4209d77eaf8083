"""What a screen shows, wherever it comes from: a session, or the readings of one machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

# Who waits for the first screen waits for none of these.
if TYPE_CHECKING:
    from pathlib import Path

    from dlmon.records import MachineFacts, Record, Result, Status
    from dlmon.session.machine_history import MachineHistory
    from dlmon.session.session import Session
    from dlmon.session.snapshot import Snapshot

# How long reading keeps the event loop from everything else before it is left to that.
SLICE_S = 0.015
# A key goes through several queues before it is answered, so it needs more than one turn of the
# event loop.
PAUSE_S = 0.004
SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
# After a suspension of the machine, play goes on where it stood.
MOST_AT_ONCE_NS = 2 * 10**9


class SessionSource:
    """One session, live or recorded."""

    session: Session
    """What was folded so far."""
    path: Path
    """Its log, of another machine's session as it is copied here."""
    status: Status
    """How it stands: running, completed, ..."""
    host: str | None = None
    """The machine that it is on, as ssh knows it; None for this one."""
    problem: str | None = None
    """Why nothing comes any more though it runs, or what is missing; as of the last `poll`."""
    read_share: float | None = None
    """How much of it is read, 0 to 1, while there is more; else None."""
    why_result_unwritten: str | None = None
    """Why the log has no result, where the supervisor has said it to us alone."""

    @property
    def running(self) -> bool:
        """Whether more may come."""
        return self.status == "running"

    @property
    def result(self) -> Result | None:
        return self.session.result

    @property
    def directory(self) -> Path:
        """Where its log is among others."""
        return self.path.parent.parent

    @property
    def is_ours(self) -> bool:
        """Whether it stops with us, unless it is detached."""
        return False

    def poll(self, max_s: float | None = None) -> object:
        """Fold what is new; leave what is not folded within `max_s` to the next call."""
        raise NotImplementedError

    def snapshot(self) -> Snapshot:
        """Return all figures of this moment."""
        return self.session.snapshot(self.now())

    def now(self) -> int:
        """Return the time on the session's own clock, in nanoseconds."""
        raise NotImplementedError

    def second(self) -> int:
        """Return which second it is: a screen reads and paints once in each."""
        raise NotImplementedError

    def stop(self) -> bool:
        """Stop it after the current batch; return whether that can be."""
        return False

    @property
    def why_not_stopped(self) -> str | None:
        """Why it was not stopped after all, where that was asked for."""
        return None

    async def ask(self, request: Mapping[str, Any]) -> Sequence[Record]:
        """Return what its supervisor answers to a request; what was recorded where none runs.

        Raises:
            NotControlled: it refuses, or can't be asked.
        """
        return (*self.session.stacks.of_processes, *self.session.profiles)

    def detach(self) -> None:
        """Let it go on without us."""

    async def pause(self) -> None:
        """Let other tasks run before more is read."""
        await asyncio.sleep(PAUSE_S)


class MachineSource:
    """The readings of one machine, by its own sensors or from elsewhere."""

    host: str | None = None
    """The machine, as ssh knows it; None for this one."""
    interval_s: float
    """The time between two readings."""
    history: MachineHistory
    """The readings, folded."""
    facts: MachineFacts
    """What the machine is, as far as is known."""
    start_ns = 0
    """When it began, on the clock of the readings."""
    goes_on = True
    """Whether more readings may come; false of a recording that is over."""
    is_on = False
    """Whether sampling is on."""
    status = ""
    """The sensors' last notice, such as why they are lost."""
    _unread_notices: tuple[str, ...] = ()

    @property
    def age_s(self) -> float | None:
        """How old the newest reading is; time in which the source was off on purpose is none."""
        raise NotImplementedError

    def now(self) -> int:
        """Return the time on the clock of the readings, in nanoseconds."""
        raise NotImplementedError

    def start(self) -> None:
        """Start sampling, unless it is on."""
        self.is_on = True

    def stop(self) -> None:
        """Stop sampling."""
        self.is_on = False

    def poll(self) -> list[str]:
        """Return the sensors' notices since the last call, each sentence once."""
        notices, self._unread_notices = self._unread_notices, ()
        return list(notices)

    def _take_notice(self, sentence: str) -> None:
        self.status = sentence
        self._unread_notices += (sentence,)


class RecordedMachine(MachineSource):
    """The machine of a session, as far as its log is read.

    To start and stop it is to read on, or not: who records goes on either way.

    Args:
        session: where the readings come from.
    """

    def __init__(self, session: SessionSource) -> None:
        self._source = session
        self.host = session.host
        self._since_t = session.session.last_t
        self._noticed = frozenset(session.snapshot().notices)
        self._take()

    def _take(self) -> None:
        """Take what is read by now: a replay that goes back in time folds another session."""
        session = self._source.session
        self.history, self.facts, self.start_ns = session.machine, session.facts, session.header.t
        self.interval_s, self.goes_on = session.machine.interval_s, self._source.running

    @property
    def age_s(self) -> float | None:
        """How old the newest sample is, or was at the end."""
        latest = self.history.latest
        return None if latest is None else max(0, self.now() - latest.t) / 1e9

    def now(self) -> int:
        return self._source.now()

    def poll(self) -> list[str]:
        """Read on; return the notices that came since the last call."""
        self._source.poll(SLICE_S)
        self._take()
        notices = self._source.snapshot().notices
        # A notice may be read after a sample of the same moment, or of a later one.
        new = [n.text for n in notices if n not in self._noticed and n.t >= self._since_t]
        self._noticed = frozenset(notices)
        return list(dict.fromkeys(new))


class Player:
    """What is recorded, shown as it was at a moment that a person chooses.

    Args:
        clock: CLOCK_MONOTONIC in nanoseconds, which plays it.
    """

    speed = 1.0
    """How many seconds pass in one."""
    is_playing = True
    """Whether they pass."""
    position_ns: int
    """The moment that is shown, or read for."""
    read_share: float | None = None
    """How much is read for the moment that was gone to, 0 to 1; None once that is all."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock, self._clock_ns = clock, clock()

    @property
    def start_ns(self) -> int:
        """The first moment that is recorded."""
        raise NotImplementedError

    @property
    def end_ns(self) -> int:
        """The last moment that is recorded."""
        raise NotImplementedError

    @property
    def is_growing(self) -> bool:
        """Whether more may be recorded."""
        raise NotImplementedError

    @property
    def ahead_share(self) -> float | None:
        """How much was gone through for its marks; None once that is all."""
        raise NotImplementedError

    def now(self) -> int:
        """Return the moment that is shown, in nanoseconds."""
        return self.position_ns

    def seek(self, t: int, max_s: float | None = None) -> None:
        """Show another moment; leave what is not read within `max_s` to later."""
        raise NotImplementedError

    @property
    def at_end(self) -> bool:
        return self.position_ns >= self.end_ns

    @property
    def is_over(self) -> bool:
        """Whether all was shown, and no more comes."""
        return self.at_end and not self.is_growing

    def play(self) -> None:
        """Go on; from the start where the end was reached."""
        if self.is_over:
            self.seek(self.start_ns)
        self.go_on()
        self.is_playing = True

    def stop_clock(self) -> None:
        """Pause; `play` goes on."""
        self.is_playing = False

    def change_speed(self, steps: int) -> None:
        """Play faster, or slower, by steps of `SPEEDS`."""
        self.position_ns = self._moved_ns()
        place = min(max(0, SPEEDS.index(self.speed) + steps), len(SPEEDS) - 1)
        self.speed = SPEEDS[place]

    def go_on(self) -> None:
        """Have its clock go on from what is shown."""
        self._clock_ns = self._clock()

    def second(self) -> int:
        """Return a number that changes as often as a screen should be painted."""
        per_second = 1 if self.speed <= 1 else 4
        return self._clock() * per_second // 10**9

    def _moved_ns(self) -> int:
        """Return where what is shown has come to since the clock went on, and have it go on."""
        passed_ns = min(self._clock() - self._clock_ns, MOST_AT_ONCE_NS) if self.is_playing else 0
        self.go_on()
        return min(self.position_ns + int(passed_ns * self.speed), self.end_ns)


async def read_to_end(
    source: SessionSource, show: Callable[[float], None] = lambda share: None
) -> None:
    """Read all that there is of a session, and show how much that is; other tasks run meanwhile."""
    while source.read_share is not None:
        show(source.read_share)
        await source.pause()
        source.poll(SLICE_S)
