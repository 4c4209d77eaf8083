"""Make the runs of a sweep: on each machine one after another, on different machines at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dlmon.exit_codes import DONE, FAILED, UNREACHABLE
from dlmon.launch.lifeline import Lifeline, launch
from dlmon.log.directory import read_entry
from dlmon.log.folder import LogError, log_directory_of, log_of
from dlmon.protocol.job import Job, Refused, Started
from dlmon.protocol.stop import BY_SWEEP
from dlmon.records import Began, Closed, Ended, Event, Outcome, RunStatus, Slot, Status
from dlmon.session.follower import SessionFollower
from dlmon.sweep.log import SweepWriter
from dlmon.sweep.plan import Combination, SweepError
from dlmon.sweep.progress import Sweep, outcome_of

POLL_S = 0.2

Done = TypeVar("Done")


# A supervisor ends its sensors after the session; one that hangs is waited for 10 s.
LOOK_FOR_END_S, LOOKS_FOR_END = 0.05, 200


class Place(Protocol):
    """A machine on which runs are made, one at a time: `launch`, `follow`, `leave`."""

    host: str | None
    """The machine, as ssh knows it; None for this one."""
    lost: str | None
    """Why nothing can be known of the machine any more; a sentence that names it."""
    left_running: str | None
    """The session that may go on there, for it could not be stopped."""

    async def open(self) -> Refused | None:
        """Make the machine ready for runs, or return why that can't be."""

    async def launch(self, job: Job) -> Started | Refused:
        """Start a run; return its session, or why there is none."""

    async def follow(self, started: Started) -> SessionFollower | Refused:
        """Return the session of the run, or why it can't be followed."""

    def tend(self) -> None:
        """See to what is due; whoever waits for the run calls it again and again."""

    def stop(self) -> None:
        """Have the run stopped, or the one that is being started."""

    async def leave(self) -> None:
        """Wait until nothing of a run that is over runs any more: the next one would suffer."""

    async def close(self) -> None:
        """Have a run that is not over stopped, and let go of the machine."""


class ThisMachine:
    """This machine; a run of it stops when we let go of it.

    Args:
        start: starts a supervisor.
    """

    def __init__(self, start: Callable[[Job], Lifeline] = launch) -> None:
        self.host: str | None = None
        self.lost: str | None = None
        self.left_running: str | None = None
        self._start = start
        self._lifeline: Lifeline | None = None
        self._follower: SessionFollower | None = None

    async def open(self) -> Refused | None:
        return None

    async def launch(self, job: Job) -> Started | Refused:
        self._lifeline = started = self._start(job)
        return await asyncio.to_thread(started.answer)

    async def follow(self, started: Started) -> SessionFollower | Refused:
        self._follower = SessionFollower(Path(started.log), launch=self._lifeline)
        return self._follower

    def tend(self) -> None:
        """Do nothing: a supervisor needs nothing of us."""

    def stop(self) -> None:
        if self._lifeline is not None:
            self._lifeline.send(BY_SWEEP)

    async def leave(self) -> None:
        started = self._lifeline
        await self.close()
        for _ in range(LOOKS_FOR_END if started is not None else 0):
            if started is None or started.process.poll() is not None:
                return
            await asyncio.sleep(LOOK_FOR_END_S)

    async def close(self) -> None:
        lifeline, self._lifeline = self._lifeline, None
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
        if lifeline is not None:
            lifeline.release()


@dataclass
class CurrentRun:
    """A run that is being made.

    Attributes:
        slot: which one.
        host: the machine that it is on, as ssh knows it; None for this one.
        follower: its session; None before that has begun.
        begun_at: when it was launched, by CLOCK_MONOTONIC.
    """

    slot: Slot
    host: str | None
    follower: SessionFollower | None = None
    begun_at: float = field(default_factory=time.monotonic)

    @property
    def running_for_s(self) -> float:
        return time.monotonic() - self.begun_at


class SweepRun:
    """Makes what is left of a sweep; whoever shows it reads it between two polls.

    Args:
        writer: the sweep's file, which this takes over and closes.
        make_job: returns the job of a combination.
        refusal: says why a combination can't be run, None where it may.
        place_of: returns the machine that a host names.
        poll_s: how often the sessions that run are looked at.
    """

    def __init__(
        self,
        writer: SweepWriter,
        make_job: Callable[[Combination], Job],
        refusal: Callable[[Combination], str | None],
        place_of: Callable[[str | None], Place] = lambda host: ThisMachine(),
        poll_s: float = POLL_S,
    ) -> None:
        self.writer = writer
        self.current: dict[str | None, CurrentRun] = {}
        """The runs that are being made, by the machine, from before their sessions have started."""
        self.connecting: list[str] = []
        """The machines that are still to be reached."""
        self.unreached: dict[str, str] = {}
        """The machines that can't be used any more, and why."""
        self.problem: str | None = None
        """Why the sweep could not go on."""
        self.ended = False
        self.stopping = False
        """Whether the current runs were asked to stop."""
        self.stops_after_run = False
        """Whether no further run will begin; that may be taken back."""
        self.on_event: Callable[[Event], None] | None = None
        """Called with each event once it is recorded."""
        self.at_end: Callable[[], Awaitable[str | None]] | None = None
        """Awaited where it ends without being stopped; returns what is to be said of that."""
        self.remark: str | None = None
        self._make_job = make_job
        self._refusal = refusal
        self._place_of = place_of
        self._poll_s = poll_s
        self._places: dict[str | None, Place] = {}

    @property
    def sweep(self) -> Sweep:
        return self.writer.sweep

    @property
    def directory(self) -> Path:
        """Where the sessions of this machine lie, and the sweep beside them."""
        return log_directory_of(self.writer.path)

    @property
    def seconds_left(self) -> float | None:
        """How long what is left will take, None before any run has completed."""
        running_for_s = {run.slot: run.running_for_s for run in self.current.values()}
        return self.sweep.seconds_left(running_for_s, self.unreached)

    @property
    def left_running(self) -> list[tuple[str, str]]:
        """The sessions that may go on though they should not, each with its machine."""
        places = self._places.values()
        return [(p.host, p.left_running) for p in places if p.host and p.left_running]

    @property
    def exit_code(self) -> int:
        """Done when any combination ran, failed when none did or the sweep could not go on.

        Where none ran because no machine could be reached, that is what it says.
        """
        ran = any(outcome.status == RunStatus.COMPLETED for outcome in self.sweep.outcomes.values())
        if ran and self.problem is None:
            return DONE
        nowhere = bool(self._places) and self._places.keys() == self.unreached.keys()
        return UNREACHABLE if nowhere and self.problem is None else FAILED

    async def run(self) -> None:
        """Make all runs that are left, or those until it is stopped; `problem` says what failed."""
        try:
            self._take_over()
            await self._make_all()
            status = Status.STOPPED if self.sweep.left() else Status.COMPLETED
            self._write(Closed(status, time.time()))
            if self.at_end is not None and not self.stops_after_run:
                self.remark = await self.at_end()
        except (LogError, SweepError, OSError) as error:
            self.problem = str(error)
        finally:
            await self.close()
            self.writer.close()
            self.ended = True

    leaves_jobs = False
    """Whether its runs go on, or begin, without anybody who looks."""

    @property
    def queued(self) -> frozenset[int]:
        """The combinations whose runs were handed over and have not begun, by their places."""
        return frozenset()

    def stop(self) -> None:
        """Stop all runs, wherever they are made, and begin no other."""
        self.stopping = self.stops_after_run = True
        for place in self._places.values():
            place.stop()

    async def close(self) -> None:
        """Let go of all machines; what still runs there is stopped."""
        await asyncio.gather(*(place.close() for place in self._places.values()))

    def _take_over(self) -> None:
        """Take the end of runs that nobody was there to see, and settle what can't be run.

        A run on another machine is taken up there, for it may go on.

        Raises:
            SweepError: the session of one on this machine still runs.
        """
        self._settle_orphans()
        for slot in self.sweep.left():
            reason = self._refusal(self.sweep.plan.combinations[slot.combination])
            if reason is not None and slot not in self.sweep.running:
                self._write(Ended(slot, Outcome(RunStatus.IMPOSSIBLE, reason), time.time()))

    def _settle_orphans(self) -> None:
        for slot, began in list(self.sweep.running.items()):
            if self.sweep.plan.host_of(slot) is None:
                self._write(Ended(slot, self._outcome_of_orphan(began), time.time()))

    def _outcome_of_orphan(self, began: Began) -> Outcome:
        try:
            entry = read_entry(log_of(self.directory / began.session))
        except (LogError, OSError):
            return outcome_of(None, began.session, None, "its session is gone")
        if entry.status == Status.RUNNING:
            raise SweepError(
                f"{began.session}, a run of this sweep, is still running: "
                f"dlmon stop {began.session} ends it"
            )
        took_s = entry.result.wall_s if entry.result is not None else None
        return outcome_of(entry.result, began.session, took_s)

    async def _make_all(self) -> None:
        """Make the runs of all machines; where one of them can't be recorded, make no other."""
        left: dict[str | None, list[Slot]] = {}
        for slot in self.sweep.left():
            left.setdefault(self.sweep.plan.host_of(slot), []).append(slot)
        for host in left:
            self._places[host] = self._place_of(host)
        self.connecting = [host for host in left if host is not None]
        making = [
            asyncio.create_task(self._make_on(self._places[host], slots))
            for host, slots in left.items()
        ]
        try:
            await asyncio.gather(*making)
        finally:
            for each in making:
                each.cancel()
            await asyncio.gather(*making, return_exceptions=True)

    async def _make_on(self, place: Place, slots: Sequence[Slot]) -> None:
        refused = await self._unless_stopped(place.open())
        if place.host is not None:
            self.connecting.remove(place.host)
        if refused is not None:
            self._give_up(place, slots, refused.reason)
            return
        for began in [self.sweep.running[slot] for slot in slots if slot in self.sweep.running]:
            await self._make(place, began.slot, began)
        for slot in slots:
            if place.lost is not None or self.stops_after_run:
                break
            if not self.sweep.is_over(slot):
                await self._make(place, slot)
        if place.lost is not None:
            self._give_up(place, slots, place.lost)

    async def _unless_stopped(self, wait: Coroutine[Any, Any, Done]) -> Done | None:
        """Wait for something no longer than until the sweep is stopped."""
        waiting = asyncio.ensure_future(wait)
        try:
            while not waiting.done() and not self.stopping:
                await asyncio.wait({waiting}, timeout=self._poll_s)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()

    def _give_up(self, place: Place, slots: Sequence[Slot], reason: str) -> None:
        """Say of the runs of a machine that can't be used why they are not made.

        One that has begun may go on there: it is left as it is, for whoever resumes the sweep.
        """
        if self.stopping or place.host is None:
            return
        self.unreached[place.host] = reason
        for slot in slots:
            if not self.sweep.is_over(slot) and slot not in self.sweep.running:
                self._write(Ended(slot, Outcome(RunStatus.NOT_RUN, reason), time.time()))

    async def _make(self, place: Place, slot: Slot, begun: Began | None = None) -> None:
        """Make a run, or follow one to its end that an earlier process began on another machine."""
        current = self.current[place.host] = CurrentRun(slot, place.host)
        try:
            if begun is not None:
                await self._finish(place, current, Started(begun.session, ""), is_ours=False)
            else:
                await self._launch(place, current)
            if place.lost is None:
                await place.leave()
        finally:
            del self.current[place.host]

    async def _launch(self, place: Place, current: CurrentRun) -> None:
        job = self._make_job(self.sweep.plan.combinations[current.slot.combination])
        answer = await place.launch(job)
        if isinstance(answer, Started):
            self._write(Began(current.slot, answer.session, time.time()))
            await self._finish(place, current, answer)
        elif not self.stopping and place.lost is None:
            status = RunStatus.IMPOSSIBLE if answer.permanent else RunStatus.NOT_RUN
            self._write(Ended(current.slot, Outcome(status, answer.reason), time.time()))

    async def _finish(
        self, place: Place, current: CurrentRun, started: Started, is_ours: bool = True
    ) -> None:
        """Follow a run to its end, and record how it ended.

        Args:
            place: where it is made.
            current: the run.
            started: its session.
            is_ours: whether we launched it, and so know how long it took.
        """
        follower = await place.follow(started)
        if isinstance(follower, Refused):
            if place.lost is None:
                outcome = outcome_of(None, started.session, None, follower.reason)
                self._write(Ended(current.slot, outcome, time.time()))
            return
        current.follower = follower
        while (records := follower.poll()) or follower.running:
            place.tend()
            if place.lost is not None:
                return
            await asyncio.sleep(0 if records else self._poll_s)
        result = follower.result
        took_s = current.running_for_s if is_ours else result.wall_s if result else None
        outcome = outcome_of(result, started.session, took_s, follower.problem)
        self._write(Ended(current.slot, outcome, time.time()))

    def _write(self, event: Event) -> None:
        self.writer.write(event)
        if self.on_event is not None:
            self.on_event(event)
