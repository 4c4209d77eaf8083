"""Run the runs of a sweep: one after another on each host, on all hosts at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dlmon.exit_codes import DONE, FAILED, UNREACHABLE
from dlmon.launch.supervisor_process import SupervisorProcess, launch
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

T = TypeVar("T")

# A supervisor ends its sensors after the session; if it hangs, it is waited for at most 10 s.
END_POLL_S, END_POLLS = 0.05, 200


class SweepHost(Protocol):
    """A host for runs of a sweep, one at a time: `launch`, `follow`, `finish_run`."""

    name: str | None
    """The name of the host for ssh; None for this host."""
    lost: str | None
    """Why the host is lost for good, as a sentence that names it."""
    left_running: str | None
    """The session that may still run there because it could not be stopped."""

    async def open(self) -> Refused | None:
        """Connect to the host, or return why it can't be used."""

    async def launch(self, job: Job) -> Started | Refused:
        """Start a run; return its session, or why there is none."""

    async def follow(self, started: Started) -> SessionFollower | Refused:
        """Return the session of the run, or why it can't be followed."""

    def poll(self) -> None:
        """Do what is due; this is called regularly during a run."""

    def stop(self) -> None:
        """Stop the run, or the one that is being started."""

    async def finish_run(self) -> None:
        """Wait until no process of a finished run is left: it would slow the next one."""

    async def close(self) -> None:
        """Stop a run that is not over, and disconnect."""


class LocalHost:
    """This host; its run stops when it is closed.

    Args:
        start: starts a supervisor.
    """

    def __init__(self, start: Callable[[Job], SupervisorProcess] = launch) -> None:
        self.name: str | None = None
        self.lost: str | None = None
        self.left_running: str | None = None
        self._start = start
        self._supervisor: SupervisorProcess | None = None
        self._follower: SessionFollower | None = None

    async def open(self) -> Refused | None:
        return None

    async def launch(self, job: Job) -> Started | Refused:
        self._supervisor = started = self._start(job)
        return await asyncio.to_thread(started.answer)

    async def follow(self, started: Started) -> SessionFollower | Refused:
        self._follower = SessionFollower(Path(started.log), supervisor=self._supervisor)
        return self._follower

    def poll(self) -> None:
        """Do nothing: the supervisor works alone."""

    def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.send(BY_SWEEP)

    async def finish_run(self) -> None:
        supervisor = self._supervisor
        await self.close()
        for _ in range(END_POLLS):
            if supervisor is None or supervisor.process.poll() is not None:
                return
            await asyncio.sleep(END_POLL_S)

    async def close(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
        if supervisor is not None:
            supervisor.release()


@dataclass
class CurrentRun:
    """A run that is under way.

    Attributes:
        slot: its slot in the plan.
        host: the name of its host for ssh; None for this host.
        follower: its session; None until that has begun.
        launched_at: the time of its launch, by CLOCK_MONOTONIC.
    """

    slot: Slot
    host: str | None
    follower: SessionFollower | None = None
    launched_at: float = field(default_factory=time.monotonic)

    @property
    def running_for_s(self) -> float:
        return time.monotonic() - self.launched_at


class SweepRun:
    """Runs the remaining runs of a sweep; a view may read its attributes between two polls.

    Args:
        writer: the log of the sweep, which this closes in the end.
        make_job: returns the job of a combination.
        refusal: returns why a combination can't be run; None if it can.
        make_host: returns the host of this name.
        poll_s: the time between two polls of running sessions.
    """

    def __init__(
        self,
        writer: SweepWriter,
        make_job: Callable[[Combination], Job],
        refusal: Callable[[Combination], str | None],
        make_host: Callable[[str | None], SweepHost] = lambda name: LocalHost(),
        poll_s: float = POLL_S,
    ) -> None:
        self.writer = writer
        self.current: dict[str | None, CurrentRun] = {}
        """The runs that are under way or being launched, by host."""
        self.connecting: list[str] = []
        """The hosts that have yet to be connected."""
        self.unreached: dict[str, str] = {}
        """The hosts that can't be used any more, and why."""
        self.problem: str | None = None
        """Why the sweep could not go on."""
        self.ended = False
        self.stopping = False
        """True once the current runs were asked to stop."""
        self.stops_after_run = False
        """True if no further run will begin; this may be undone."""
        self.on_event: Callable[[Event], None] | None = None
        """Called with each event once it is recorded."""
        self.at_end: Callable[[], Awaitable[str | None]] | None = None
        """Awaited if the sweep ends without being stopped; returns a remark for the user."""
        self.remark: str | None = None
        self._make_job = make_job
        self._refusal = refusal
        self._make_host = make_host
        self._poll_s = poll_s
        self._hosts: dict[str | None, SweepHost] = {}

    @property
    def sweep(self) -> Sweep:
        return self.writer.sweep

    @property
    def directory(self) -> Path:
        """The log directory of the sweep and of its sessions on this host."""
        return log_directory_of(self.writer.path)

    @property
    def seconds_left(self) -> float | None:
        """The estimated time of the remaining runs; None before any run has completed."""
        running_for_s = {run.slot: run.running_for_s for run in self.current.values()}
        return self.sweep.seconds_left(running_for_s, self.unreached)

    @property
    def left_running(self) -> list[tuple[str, str]]:
        """The sessions that may still run because they could not be stopped, with their hosts."""
        hosts = self._hosts.values()
        return [(h.name, h.left_running) for h in hosts if h.name and h.left_running]

    @property
    def exit_code(self) -> int:
        """`DONE` if any run completed; `UNREACHABLE` if no host could be reached; else `FAILED`."""
        if self.problem is not None:
            return FAILED
        if any(outcome.status == RunStatus.COMPLETED for outcome in self.sweep.outcomes.values()):
            return DONE
        is_unreachable = bool(self._hosts) and self._hosts.keys() == self.unreached.keys()
        return UNREACHABLE if is_unreachable else FAILED

    async def run(self) -> None:
        """Run the remaining runs until all are over or `stop`; `problem` says what failed."""
        try:
            self._take_over()
            await self._run_all()
            status = Status.STOPPED if self.sweep.remaining() else Status.COMPLETED
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
    """True if its runs go on, and begin, after this process has ended."""

    @property
    def queued(self) -> frozenset[int]:
        """The indices of combinations whose runs are submitted but have not begun."""
        return frozenset()

    def stop(self) -> None:
        """Stop all runs on all hosts, and begin no other."""
        self.stopping = self.stops_after_run = True
        for host in self._hosts.values():
            host.stop()

    async def close(self) -> None:
        """Stop the runs that are not over, and disconnect from all hosts."""
        await asyncio.gather(*(host.close() for host in self._hosts.values()))

    def _take_over(self) -> None:
        """Record the ends of runs that an earlier process began, and of runs that are impossible.

        A run on another host may still go on, and is followed later.

        Raises:
            SweepError: a run on this host still goes on.
        """
        self._settle_orphans()
        for slot in self.sweep.remaining():
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

    async def _run_all(self) -> None:
        """Run the remaining runs on all hosts; stop them all if one can't be recorded."""
        slots_by_host: dict[str | None, list[Slot]] = {}
        for slot in self.sweep.remaining():
            slots_by_host.setdefault(self.sweep.plan.host_of(slot), []).append(slot)
        self._hosts = {name: self._make_host(name) for name in slots_by_host}
        self.connecting = [name for name in slots_by_host if name is not None]
        tasks = [
            asyncio.create_task(self._run_on(self._hosts[name], slots))
            for name, slots in slots_by_host.items()
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_on(self, host: SweepHost, slots: Sequence[Slot]) -> None:
        refused = await self._wait_unless_stopped(host.open())
        if host.name is not None:
            self.connecting.remove(host.name)
        if refused is not None:
            self._give_up(host, slots, refused.reason)
            return
        for began in [self.sweep.running[slot] for slot in slots if slot in self.sweep.running]:
            await self._run(host, began.slot, began)
        for slot in slots:
            if host.lost is not None or self.stops_after_run:
                break
            if not self.sweep.is_over(slot):
                await self._run(host, slot)
        if host.lost is not None:
            self._give_up(host, slots, host.lost)

    async def _wait_unless_stopped(self, coroutine: Coroutine[Any, Any, T]) -> T | None:
        waiting = asyncio.ensure_future(coroutine)
        try:
            while not waiting.done() and not self.stopping:
                await asyncio.wait({waiting}, timeout=self._poll_s)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()

    def _give_up(self, host: SweepHost, slots: Sequence[Slot], reason: str) -> None:
        """Record why the remaining runs of a host are not run.

        A run that has begun may go on there: it is left for when the sweep is resumed.
        """
        if self.stopping or host.name is None:
            return
        self.unreached[host.name] = reason
        for slot in slots:
            if not self.sweep.is_over(slot) and slot not in self.sweep.running:
                self._write(Ended(slot, Outcome(RunStatus.NOT_RUN, reason), time.time()))

    async def _run(self, host: SweepHost, slot: Slot, began: Began | None = None) -> None:
        """Run a run, or follow one to its end that an earlier process began on another host."""
        current = self.current[host.name] = CurrentRun(slot, host.name)
        try:
            if began is not None:
                await self._follow_to_end(host, current, Started(began.session, ""), is_ours=False)
            else:
                await self._launch(host, current)
            if host.lost is None:
                await host.finish_run()
        finally:
            del self.current[host.name]

    async def _launch(self, host: SweepHost, current: CurrentRun) -> None:
        job = self._make_job(self.sweep.plan.combinations[current.slot.combination])
        answer = await host.launch(job)
        if isinstance(answer, Started):
            self._write(Began(current.slot, answer.session, time.time()))
            await self._follow_to_end(host, current, answer)
        elif not self.stopping and host.lost is None:
            status = RunStatus.IMPOSSIBLE if answer.permanent else RunStatus.NOT_RUN
            self._write(Ended(current.slot, Outcome(status, answer.reason), time.time()))

    async def _follow_to_end(
        self, host: SweepHost, current: CurrentRun, started: Started, is_ours: bool = True
    ) -> None:
        """Follow a run to its end, and record its outcome.

        Args:
            host: its host.
            current: the run.
            started: its session.
            is_ours: this process launched it, and so knows its time.
        """
        follower = await host.follow(started)
        if isinstance(follower, Refused):
            if host.lost is None:
                outcome = outcome_of(None, started.session, None, follower.reason)
                self._write(Ended(current.slot, outcome, time.time()))
            return
        current.follower = follower
        while (records := follower.poll()) or follower.running:
            host.poll()
            if host.lost is not None:
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
