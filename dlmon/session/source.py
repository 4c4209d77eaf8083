"""The sources of what a screen shows: a session, or the readings of one machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

# Imported for types only: the first paint needs none of these.
if TYPE_CHECKING:
    from pathlib import Path

    from dlmon.records import MachineFacts, Record, Result, Status
    from dlmon.session.machine_history import MachineHistory
    from dlmon.session.marks import Mark
    from dlmon.session.session import Session
    from dlmon.session.snapshot import Snapshot

# The longest time that reading blocks the event loop.
SLICE_S = 0.015
# A key press goes through several queues, so it needs more than one turn of the event loop.
PAUSE_S = 0.004
SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
# The clock moves by at most this much at once: after a sleep of the machine, playback resumes where
# it was.
MOST_AT_ONCE_NS = 2 * 10**9


class SessionSource:
    """One session, live or recorded."""

    session: Session
    """The session as read so far."""
    path: Path
    """Its log, or the local copy of a remote session's log."""
    status: Status
    """Its status: running, completed, ..."""
    host: str | None = None
    """The host's name for ssh; None for this machine."""
    is_here = False
    """True if it began on this machine since the last boot: its processes may still run."""
    problem: str | None = None
    """The reason why a running session is silent, or what is missing; as of the last `poll`."""
    read_share: float | None = None
    """The share of the log that is read, 0 to 1; None once all is read."""
    why_result_unwritten: str | None = None
    """The reason why the log lacks a result that the supervisor sent only to us."""

    @property
    def running(self) -> bool:
        """True if more records may come."""
        return self.status == "running"

    @property
    def result(self) -> Result | None:
        return self.session.result

    @property
    def directory(self) -> Path:
        """The log directory."""
        return self.path.parent.parent

    @property
    def is_ours(self) -> bool:
        """True if this process started it: it stops with us unless it is detached."""
        return False

    def poll(self, max_s: float | None = None) -> object:
        """Read new records for at most `max_s`; the next call reads on."""
        raise NotImplementedError

    def snapshot(self) -> Snapshot:
        """Return all figures of this moment."""
        return self.session.snapshot(self.now())

    def now(self) -> int:
        """Return the time on the session's own clock, in nanoseconds."""
        raise NotImplementedError

    def second(self) -> int:
        """Return the current second: a screen reads and paints once a second."""
        raise NotImplementedError

    def stop(self) -> bool:
        """Stop the session after the current batch; return whether that is possible."""
        return False

    @property
    def why_not_stopped(self) -> str | None:
        """The reason why a requested stop failed."""
        return None

    async def ask(self, request: Mapping[str, Any]) -> Sequence[Record]:
        """Return the supervisor's answer to a request, or earlier answers if none runs.

        Raises:
            NotControlled: the supervisor refuses, or can't be reached.
        """
        stacks = self.session.stacks
        return (*stacks.of_processes, *stacks.source_lines, *self.session.profiles)

    def detach(self) -> None:
        """Let the session go on without us."""

    async def pause(self) -> None:
        """Let other tasks run before more is read."""
        await asyncio.sleep(PAUSE_S)


class MachineSource:
    """The readings of one machine, from its own sensors or from elsewhere."""

    host: str | None = None
    """The host's name for ssh; None for this machine."""
    interval_s: float
    """The sampling interval."""
    history: MachineHistory
    """The readings over time."""
    facts: MachineFacts
    """The facts of the machine."""
    start_ns = 0
    """The start, on the clock of the readings."""
    goes_on = True
    """True if more readings may come; False for a recording that is over."""
    is_on = False
    """True while sampling."""
    is_here = False
    """True if these are the present processes of this machine."""
    status = ""
    """The sensors' last notice, such as why they are lost."""
    _unread_notices: tuple[str, ...] = ()

    @property
    def age_s(self) -> float | None:
        """The age of the newest reading; time in which the source was off doesn't count."""
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

    `start` and `stop` control the reading; the recording goes on either way.
    """

    def __init__(self, session: SessionSource) -> None:
        self._source = session
        self.host, self.is_here = session.host, session.is_here
        self._since_t = session.session.last_t
        self._noticed = frozenset(session.snapshot().notices)
        self._take()

    def _take(self) -> None:
        """Refer to the current session: a replay that goes back in time makes another one."""
        session = self._source.session
        self.history, self.facts, self.start_ns = session.machine, session.facts, session.header.t
        self.interval_s, self.goes_on = session.machine.interval_s, self._source.running

    @property
    def age_s(self) -> float | None:
        """The age of the newest sample now, or at the end."""
        latest = self.history.latest
        return None if latest is None else max(0, self.now() - latest.t) / 1e9

    def now(self) -> int:
        return self._source.now()

    def poll(self) -> list[str]:
        """Read on; return the new notices since the last call."""
        self._source.poll(SLICE_S)
        self._take()
        notices = self._source.snapshot().notices
        # A notice may be read after a sample of the same or a later moment.
        new = [n.text for n in notices if n not in self._noticed and n.t >= self._since_t]
        self._noticed = frozenset(notices)
        return list(dict.fromkeys(new))


class Player:
    """Playback of a recording from any moment of it.

    Args:
        clock: CLOCK_MONOTONIC in nanoseconds, which moves the playback on.
    """

    speed = 1.0
    """The seconds of the recording that pass in one second."""
    is_playing = True
    """False while paused."""
    position_ns: int
    """The moment that is shown, or will be once it is read."""
    read_share: float | None = None
    """The share read of the log up to a new position, 0 to 1; None once all is read."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock, self._clock_ns = clock, clock()

    @property
    def start_ns(self) -> int:
        """The first moment that is recorded."""
        raise NotImplementedError

    @property
    def first_moment_ns(self) -> int:
        """The moment to play from."""
        return self.start_ns

    @property
    def end_ns(self) -> int:
        """The last moment that is recorded."""
        raise NotImplementedError

    @property
    def marks(self) -> Sequence[Mark]:
        """The marks found so far, in the order of time."""
        return ()

    @property
    def is_growing(self) -> bool:
        """True if more may be recorded."""
        raise NotImplementedError

    @property
    def ahead_share(self) -> float | None:
        """The share of the log that was searched for marks; None once all was searched."""
        raise NotImplementedError

    def now(self) -> int:
        """Return the moment that is shown, in nanoseconds."""
        return self.position_ns

    def seek(self, t: int, max_s: float | None = None) -> None:
        """Show another moment; read for at most `max_s`, and leave the rest to `poll`."""
        raise NotImplementedError

    @property
    def at_end(self) -> bool:
        return self.position_ns >= self.end_ns

    @property
    def is_over(self) -> bool:
        """True if all was shown and no more comes."""
        return self.at_end and not self.is_growing

    def play(self) -> None:
        """Resume, from the first moment if the end was reached."""
        if self.is_over:
            self.seek(self.first_moment_ns)
        self.go_on()
        self.is_playing = True

    def stop_clock(self) -> None:
        """Pause; `play` resumes."""
        self.is_playing = False

    def change_speed(self, steps: int) -> None:
        """Play faster or slower by this many steps of `SPEEDS`."""
        self.position_ns = self._moved_ns()
        index = min(max(0, SPEEDS.index(self.speed) + steps), len(SPEEDS) - 1)
        self.speed = SPEEDS[index]

    def go_on(self) -> None:
        """Restart the clock at the current position."""
        self._clock_ns = self._clock()

    def second(self) -> int:
        """Return a number that changes whenever a screen should paint."""
        per_second = 1 if self.speed <= 1 else 4
        return self._clock() * per_second // 10**9

    def _moved_ns(self) -> int:
        """Return the position to which the clock has moved, and restart the clock there."""
        passed_ns = min(self._clock() - self._clock_ns, MOST_AT_ONCE_NS) if self.is_playing else 0
        self.go_on()
        return min(self.position_ns + int(passed_ns * self.speed), self.end_ns)


async def read_to_end(
    source: SessionSource, show: Callable[[float], None] = lambda share: None
) -> None:
    """Read a session to its end and show the share that is read, while other tasks run."""
    while source.read_share is not None:
        show(source.read_share)
        await source.pause()
        source.poll(SLICE_S)
