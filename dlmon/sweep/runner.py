"""Make the runs of a sweep, one session after another, never two at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from dlmon.exit_codes import DONE, FAILED
from dlmon.launch.job import Job, Started
from dlmon.launch.lifeline import Lifeline, launch
from dlmon.log.directory import read_entry
from dlmon.log.folder import LogError, log_directory_of, log_of
from dlmon.records import Began, Closed, Ended, Event, Outcome, RunStatus, Slot, Status
from dlmon.session.follower import SessionFollower
from dlmon.stop import BY_SWEEP
from dlmon.sweep.log import SweepWriter
from dlmon.sweep.plan import Combination, SweepError
from dlmon.sweep.progress import Sweep, outcome_of

POLL_S = 0.2
# A supervisor ends its sensors after the session; one that hangs is waited for 10 s.
_LOOK_FOR_END_S, _LOOKS_FOR_END = 0.05, 200


class SweepRun:
    """Makes what is left of a sweep; whoever shows it reads it between two polls.

    Args:
        writer: the sweep's file, which this takes over and closes.
        make_job: returns the job of a combination.
        refusal: says why a combination can't be run, None where it may.
        start: starts a supervisor.
        poll_s: how often the session that runs is looked at.
    """

    def __init__(
        self,
        writer: SweepWriter,
        make_job: Callable[[Combination], Job],
        refusal: Callable[[Combination], str | None],
        start: Callable[[Job], Lifeline] = launch,
        poll_s: float = POLL_S,
    ) -> None:
        self.writer = writer
        self.follower: SessionFollower | None = None
        """The session that runs, None between two."""
        self.slot: Slot | None = None
        """The current run, from before its session has started."""
        self.problem: str | None = None
        """Why the sweep could not go on."""
        self.ended = False
        self.stopping = False
        """Whether the current run was asked to stop."""
        self.on_event: Callable[[Event], None] | None = None
        """Called with each event once it is recorded."""
        self._make_job = make_job
        self._refusal = refusal
        self._start = start
        self._poll_s = poll_s
        self._lifeline: Lifeline | None = None
        self._begun_at = 0.0
        self._stop_after_run = False

    @property
    def sweep(self) -> Sweep:
        return self.writer.sweep

    @property
    def directory(self) -> Path:
        """Where the sessions lie, and the sweep beside them."""
        return log_directory_of(self.writer.path)

    @property
    def running_for_s(self) -> float:
        return time.monotonic() - self._begun_at if self.slot is not None else 0.0

    @property
    def stops_after_run(self) -> bool:
        """Whether no further run will begin."""
        return self._stop_after_run or self.stopping

    @property
    def exit_code(self) -> int:
        """Done when any combination ran, failed when none did or the sweep could not go on."""
        ran = any(outcome.status == RunStatus.COMPLETED for outcome in self.sweep.outcomes.values())
        return DONE if ran and self.problem is None else FAILED

    async def run(self) -> None:
        """Make all runs that are left, or those until it is stopped; `problem` says what failed."""
        try:
            self._take_over()
            for slot in self.sweep.left():
                if self.stops_after_run:
                    break
                await self._make(slot)
            status = Status.STOPPED if self.sweep.left() else Status.COMPLETED
            self._write(Closed(status, time.time()))
        except (LogError, SweepError, OSError) as error:
            self.problem = str(error)
        finally:
            self.release()
            self.writer.close()
            self.ended = True

    def stop(self) -> None:
        self.stopping = True
        if self._lifeline is not None:
            self._lifeline.send(BY_SWEEP)

    def stop_after_run(self, stop: bool = True) -> None:
        """Let the current run be the last one, or take that back."""
        self._stop_after_run = stop

    def release(self) -> None:
        """Let go of the session that runs; that stops it."""
        if self._lifeline is not None:
            self._lifeline.release()

    def _take_over(self) -> None:
        """Take the end of a run that nobody was there to see, and settle what can't be run.

        Raises:
            SweepError: the session of that run still runs.
        """
        began = self.sweep.running
        if began is not None:
            self._write(Ended(began.slot, self._outcome_of_orphan(began), time.time()))
        for slot in self.sweep.left():
            reason = self._refusal(self.sweep.plan.combinations[slot.combination])
            if reason is not None:
                self._write(Ended(slot, Outcome(RunStatus.IMPOSSIBLE, reason), time.time()))

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

    async def _make(self, slot: Slot) -> None:
        """Make one run, from its launch to its end."""
        combination = self.sweep.plan.combinations[slot.combination]
        self.slot, self._begun_at = slot, time.monotonic()
        self._lifeline = started = self._start(self._make_job(combination))
        answer = await asyncio.to_thread(started.answer)
        if isinstance(answer, Started):
            self._write(Began(slot, answer.session, time.time()))
            outcome = await self._follow(Path(answer.log), answer.session)
            self._write(Ended(slot, outcome, time.time()))
        elif not self.stopping:
            status = RunStatus.IMPOSSIBLE if answer.permanent else RunStatus.NOT_RUN
            self._write(Ended(slot, Outcome(status, answer.reason), time.time()))
        started.release()
        await self._end_of(started)
        self._lifeline, self.slot = None, None

    async def _follow(self, log: Path, session: str) -> Outcome:
        self.follower = follower = SessionFollower(log, launch=self._lifeline)
        try:
            while True:
                records = follower.poll()
                if not follower.running and not records:
                    return outcome_of(
                        follower.result, session, self.running_for_s, follower.problem
                    )
                await asyncio.sleep(0 if records else self._poll_s)
        finally:
            self.follower = None
            follower.close()

    async def _end_of(self, started: Lifeline) -> None:
        """Wait until nothing of a session runs any more: the next one would share the machine."""
        for _ in range(_LOOKS_FOR_END):
            if started.process.poll() is not None:
                return
            await asyncio.sleep(_LOOK_FOR_END_S)

    def _write(self, event: Event) -> None:
        self.writer.write(event)
        if self.on_event is not None:
            self.on_event(event)
