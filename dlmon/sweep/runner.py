"""Run the runs of a sweep: one after another on each host, on all hosts at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dlmon.exit_codes import DONE, FAILED, UNREACHABLE
from dlmon.log.directory import read_entry
from dlmon.log.folder import LogError, log_directory_of, log_of
from dlmon.protocol.job import Job, Refused, Started
from dlmon.records import (
    Began,
    Closed,
    Ended,
    Event,
    Outcome,
    PairRule,
    RunStatus,
    Slot,
    Status,
    Widened,
)
from dlmon.session.follower import SessionFollower
from dlmon.session.run_figures import read_figures, read_pair_figures
from dlmon.statistics.turns import log_ratio_error, sum_of_turns
from dlmon.sweep.batch_search import next_size
from dlmon.sweep.hosts import CurrentRun, LocalHost, SweepHost
from dlmon.sweep.log import SweepWriter, read_run_figures
from dlmon.sweep.pair_code import changed_by_pairs
from dlmon.sweep.pair_in_turns import SIDES, PairInTurns
from dlmon.sweep.pairs import BASE, NEW, broken_run, is_enough, seconds_left, verdict_of
from dlmon.sweep.plan import Combination, SweepError
from dlmon.sweep.progress import Sweep, outcome_of, unapplied_text
from dlmon.sweep.turns import why_not_in_turns

POLL_S = 0.2

SHOWN_LINES = 8
"""The lines of a failed run's output that are shown."""
NEVER_STEADY = "it did not train steadily within the time of the experiment (--for, --window)"

T = TypeVar("T")


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
        self.last_lines: tuple[str, ...] = ()
        """The last output of a run that failed, and so ended an experiment of pairs."""
        self.prepare: Callable[[], str | None] | None = None
        """Called in a thread before the first run; returns a note, or raises SweepError."""
        self.clean_up: Callable[[], None] | None = None
        """Called in a thread once all runs are over, on every way out."""
        self._make_job = make_job
        self._refusal = refusal
        self._make_host = make_host
        self._poll_s = poll_s
        self._hosts: dict[str | None, SweepHost] = {}
        self._in_turns: PairInTurns | None = None
        self.notes: list[str] = []
        """What the user is told once, at any time before the end."""

    @property
    def sweep(self) -> Sweep:
        return self.writer.sweep

    @property
    def path(self) -> Path:
        """The log of the sweep."""
        return self.writer.path

    @property
    def directory(self) -> Path:
        """The log directory of the sweep and of its sessions on this host."""
        return log_directory_of(self.path)

    @property
    def hosts(self) -> tuple[str | None, ...]:
        return self.sweep.plan.hosts

    @property
    def seconds_left(self) -> float | None:
        """The estimated time of the remaining runs; None before any run has completed.

        None in a search too, which doesn't know how many runs follow.
        """
        if self.sweep.plan.search_window_s is not None:
            return None
        if self.sweep.plan.pairs is not None:
            return seconds_left(self.sweep)
        running_for_s = {run.slot: run.running_for_s for run in self.current.values()}
        return self.sweep.seconds_left(running_for_s, self.unreached)

    @property
    def left_running(self) -> list[tuple[str, str]]:
        """The sessions that may still run because they could not be stopped, with their hosts."""
        hosts = self._hosts.values()
        return [(h.name, h.left_running) for h in hosts if h.name and h.left_running]

    @property
    def exit_code(self) -> int:
        """`DONE` if any run completed; `UNREACHABLE` if no host could be reached; else `FAILED`.

        Repeats of a script are `FAILED` if one of them is.
        """
        if self.problem is not None:
            return FAILED
        outcomes = self.sweep.outcomes.values()
        if self.sweep.plan.pairs is not None:
            return FAILED if verdict_of(self.sweep).ratio is None else DONE
        if self.sweep.plan.is_repeat and broken_run(self.sweep) is not None:
            return FAILED
        if any(outcome.status == RunStatus.COMPLETED for outcome in outcomes):
            return DONE
        is_unreachable = bool(self._hosts) and self._hosts.keys() == self.unreached.keys()
        return UNREACHABLE if is_unreachable else FAILED

    async def run(self) -> None:
        """Run the remaining runs until all are over or `stop`; `problem` says what failed."""
        try:
            if self.prepare is not None:
                note = await asyncio.to_thread(self.prepare)
                if note is not None:
                    self.notes.append(note)
                self.sweep.changed = await asyncio.to_thread(changed_by_pairs, self.sweep.plan)
            self._take_over()
            await asyncio.to_thread(read_run_figures, self.sweep, self.directory)
            await self._run_all()
            is_left = bool(self.sweep.remaining()) or self._size_to_try() is not None
            has_all = is_enough(self.sweep) or not is_left
            status = Status.COMPLETED if has_all else Status.STOPPED
            if self.sweep.plan.pairs is not None and broken_run(self.sweep) is not None:
                status = Status.FAILED
            self._write(Closed(status, time.time()))
            if self.at_end is not None and not self.stops_after_run:
                self.remark = await self.at_end()
        except (LogError, SweepError, OSError) as error:
            self.problem = str(error)
        finally:
            await self.close()
            self.writer.close()
            self.ended = True

    def take(self, slot: Slot, outcome: Outcome) -> None:
        """Record a run that was made before."""
        self._write(Ended(slot, outcome, time.time()))

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
        if self._in_turns is not None:
            self._in_turns.ask_to_stop()

    def leave_at_once(self) -> None:
        """Stop all runs and clean up, because this process ends before they have ended."""
        self.stop()
        clean_up, self.clean_up = self.clean_up, None
        if clean_up is not None:
            clean_up()

    async def close(self) -> None:
        """Stop the runs that are not over, disconnect from all hosts, and clean up."""
        in_turns = () if self._in_turns is None else self._in_turns.hosts
        hosts = (*self._hosts.values(), *in_turns)
        await asyncio.gather(*(host.close() for host in hosts))
        clean_up, self.clean_up = self.clean_up, None
        if clean_up is not None:
            await asyncio.to_thread(clean_up)

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
        for slot in self._with_search(slots):
            if host.lost is not None or self.stops_after_run or is_enough(self.sweep):
                break
            if self.sweep.is_over(slot):
                continue
            pair, rule = self._pair_in_turns(slot), self.sweep.plan.pairs
            if pair is not None and rule is not None:
                await self._run_in_turns(pair, rule)
            else:
                await self._run(host, slot)
        if host.lost is not None:
            self._give_up(host, slots, host.lost)

    def _with_search(self, slots: Sequence[Slot]) -> Iterator[Slot]:
        """Yield these runs, and those that a search adds after each."""
        yield from slots
        while not self.stops_after_run and (size := self._size_to_try()) is not None:
            self._write(Widened(size, time.time()))
            yield self.sweep.plan.order[-1]

    def _size_to_try(self) -> int | None:
        """Return the batch size that a search adds next; None if there is none."""
        is_search = self.sweep.plan.search_window_s is not None and not self.sweep.remaining()
        return next_size(self.sweep) if is_search else None

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
        elif host.lost is None:
            self._end_refused(current.slot, answer)

    def _end_refused(self, slot: Slot, answer: Refused) -> None:
        """Record that a run could not be started, unless it was stopped before."""
        if not self.stopping:
            status = RunStatus.IMPOSSIBLE if answer.permanent else RunStatus.NOT_RUN
            self._write(Ended(slot, Outcome(status, answer.reason), time.time()))

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
        has_window = is_late = False
        while (records := follower.poll()) or follower.running:
            host.poll()
            if host.lost is not None:
                return
            if not has_window and self._has_window(follower):
                has_window = True
                host.stop()
            elif not is_late and self._is_late(current):
                is_late = True
                host.stop()
            await asyncio.sleep(0 if records else self._poll_s)
        result, session = follower.result, started.session
        took_s = current.running_for_s if is_ours else result.wall_s if result else None
        is_whole = has_window and not self.stopping
        outcome = outcome_of(result, session, took_s, follower.problem, is_whole)
        if is_late:
            outcome = replace(outcome, status=RunStatus.FAILED, reason=NEVER_STEADY)
        await self._end(current.slot, outcome, follower)

    async def _end(self, slot: Slot, outcome: Outcome, follower: SessionFollower) -> None:
        """Record the outcome of a run, and keep its figures; of pairs, the last lines of a failure.

        A run without an injection that was asked for counts as impossible.
        """
        unapplied = unapplied_text(follower.session.header.injected, follower.session.injections)
        if unapplied is not None and outcome.status == RunStatus.COMPLETED:
            outcome = replace(outcome, status=RunStatus.IMPOSSIBLE, reason=unapplied)
        has_failed = outcome.status == RunStatus.FAILED and outcome.reason != NEVER_STEADY
        if self.sweep.plan.pairs is not None and has_failed:
            lines = [line.text for line in follower.snapshot().output]
            self.last_lines = tuple(line for line in lines if line.strip())[-SHOWN_LINES:]
        if outcome.result is not None and outcome.session is not None:
            await self._read_figures(outcome.session, follower.path)
        self._write(Ended(slot, outcome, time.time()))

    def _is_late(self, current: CurrentRun) -> bool:
        """Return whether a run takes longer than the whole experiment may."""
        rule = self.sweep.plan.pairs
        return rule is not None and current.running_for_s > rule.for_s

    def _pair_in_turns(self, slot: Slot) -> tuple[Slot, ...] | None:
        """Return the runs of a pair that has yet to begin, if they are to take turns."""
        plan, rule = self.sweep.plan, self.sweep.plan.pairs
        is_here = plan.host_of(slot) is None
        if rule is None or not rule.in_turns or slot.repeat == 0 or not is_here:
            return None
        pair = tuple(other for other in plan.order if other.repeat == slot.repeat)
        if any(map(self.sweep.is_over, pair)):
            return None
        first_runs = [
            self.sweep.figures[outcome.session]
            for first in (Slot(BASE, 0), Slot(NEW, 0))
            if (outcome := self.sweep.outcomes.get(first)) is not None
            and outcome.session in self.sweep.figures
        ]
        command = plan.script.command if plan.script is not None else ()
        reason = why_not_in_turns(command, first_runs)
        if reason is None:
            return pair
        note = f"the runs of a pair come one after the other: {reason}"
        if note not in self.notes:
            self.notes.append(note)
        return None

    async def _run_in_turns(self, slots: Sequence[Slot], rule: PairRule) -> None:
        """Run both runs of a pair at once, one suspended while the other runs."""
        pair = self._in_turns = PairInTurns(rule)
        try:
            for slot in slots:
                if self.stopping:
                    break
                job = self._make_job(self.sweep.plan.combinations[slot.combination])
                run = await pair.launch(slot, job)
                if isinstance(run, Refused):
                    self._end_refused(slot, run)
                    break
                self._write(Began(slot, run.session, time.time()))
                self.current[run.session] = CurrentRun(slot, None, run.follower)
                await pair.warm_up(run)
            await pair.take_turns()
        finally:
            pair.stop()
        is_whole = pair.is_whole
        for run in pair.runs:
            await pair.follow_to_end(run)
        sums = [run.times.sums() for run in pair.runs]
        error = log_ratio_error(*sums) if len(sums) == SIDES else None
        for run, turns in zip(pair.runs, sums, strict=True):
            follower = run.follower
            outcome = outcome_of(
                follower.result, run.session, pair.took_s, follower.problem, is_whole
            )
            self.current.pop(run.session, None)
            rate = sum_of_turns(turns).rate
            await self._end(run.slot, replace(outcome, rate=rate, ratio_error=error), follower)
        await asyncio.gather(*(host.finish_run() for host in pair.hosts))
        self._in_turns = None

    async def _read_figures(self, session: str, log: Path) -> None:
        """Read the loss of a run, and what tells where a difference comes from."""
        try:
            read = read_figures if self.sweep.plan.pairs is None else read_pair_figures
            self.sweep.figures[session] = await asyncio.to_thread(read, log)
        except LogError as error:
            self.remark = f"the figures of a run are not known: {error}"

    def _has_window(self, follower: SessionFollower) -> bool:
        """Return whether a run has trained steadily for as long as its experiment asks for."""
        rule = self.sweep.plan.pairs
        window_s = self.sweep.plan.search_window_s if rule is None else rule.window_s
        return window_s is not None and follower.session.loops.longest.steady.seconds >= window_s

    def _write(self, event: Event) -> None:
        self.writer.write(event)
        if self.on_event is not None:
            self.on_event(event)
