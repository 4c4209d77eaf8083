"""Run the runs of a sweep as the tasks of a Slurm job array.

They go on after this process has ended; when the sweep is resumed, it follows them and submits the
runs that are missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from dlmon.log.folder import LOG_NAME
from dlmon.log.submitted import read_submitted
from dlmon.protocol.job import Job
from dlmon.records import Began, Ended, Outcome, Result, RunStatus
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.job_follower import (
    JobWatch,
    SharedQueue,
    SlurmFollower,
    WaitingSession,
    next_session,
)
from dlmon.slurm.submit import read_slurm_options
from dlmon.slurm.submit_session import submit_array
from dlmon.sweep.hosts import CurrentRun
from dlmon.sweep.log import SweepWriter
from dlmon.sweep.plan import Combination, SweepError
from dlmon.sweep.progress import outcome_of
from dlmon.sweep.runner import SweepRun


class ArrayRun(SweepRun):
    """Runs the remaining runs of a sweep in Slurm; `stop` leaves their jobs running.

    Args:
        writer: the log of the sweep, which this closes in the end.
        make_job: returns the job of a combination.
        refusal: returns why a combination can't be run; None if it can.
    """

    def __init__(
        self,
        writer: SweepWriter,
        make_job: Callable[[Combination], Job],
        refusal: Callable[[Combination], str | None],
    ) -> None:
        super().__init__(writer, make_job, refusal)
        self._queue = SharedQueue()

    leaves_jobs = True

    @property
    def queued(self) -> frozenset[int]:
        followed = {current.slot.combination for current in self.current.values()}
        return frozenset(slot.combination for slot in self.sweep.running) - followed

    def _settle_orphans(self) -> None:
        """Do nothing: `_run_all` follows them."""

    async def _run_all(self) -> None:
        followed = list(self.sweep.running.values())
        new = [slot for slot in self.sweep.remaining() if slot not in self.sweep.running]
        if new and not self.stops_after_run:
            combinations = [self.sweep.plan.combinations[slot.combination] for slot in new]
            jobs = [self._make_job(combination) for combination in combinations]
            for slot, log in zip(new, await asyncio.to_thread(self._submit, jobs), strict=True):
                followed.append(Began(slot, log.parent.name, time.time()))
                self._write(followed[-1])
        await asyncio.gather(*(self._follow(began) for began in followed))

    def _submit(self, jobs: list[Job]) -> list[Path]:
        header = self.writer.header
        text = header.slurm or ""
        try:
            options = read_slurm_options(text)
            return submit_array(jobs, options, text, header.at_once, self.writer.path.parent)
        except SlurmError as error:
            raise SweepError(str(error)) from None

    async def _follow(self, began: Began) -> None:
        """Follow a run from the queue to its end, and record its outcome.

        If Slurm requeues its job, the next session counts.
        """
        log = self.directory / began.session / LOG_NAME
        submitted = read_submitted(log)
        if submitted is None or submitted.slurm_job is None:
            outcome = outcome_of(None, began.session, None, "its session is gone")
            self._write(Ended(began.slot, outcome, time.time()))
            return
        number = submitted.slurm_job
        waiting: WaitingSession | None = WaitingSession(log, submitted, self._watch(number))
        while waiting is not None:
            current_log = waiting.poll()
            while current_log is None and waiting.failure is None and not self.stopping:
                await asyncio.sleep(self._poll_s)
                current_log = waiting.poll()
            if self.stopping:
                return
            if current_log is None:
                outcome = Outcome(RunStatus.NOT_RUN, waiting.failure, began.session)
                self._write(Ended(began.slot, outcome, time.time()))
                return
            waiting = await self._follow_log(began, current_log, number)

    async def _follow_log(self, began: Began, log: Path, number: str) -> WaitingSession | None:
        """Follow a session to its end; return the next one if Slurm requeues its job."""
        session = log.parent.name
        follower = SlurmFollower(log, by_index=True, watch=self._watch(number))
        self.current[session] = CurrentRun(began.slot, None, follower)
        try:
            while (records := follower.poll()) or follower.running:
                if self.stopping:
                    return None
                await asyncio.sleep(0 if records else self._poll_s)
            waiting = await asyncio.to_thread(next_session, follower)
            if waiting is None:
                result: Result | None = follower.result
                took_s = None if result is None else result.wall_s
                outcome = outcome_of(result, session, took_s, follower.problem)
                await self._end(began.slot, outcome, follower)
            return waiting
        finally:
            del self.current[session]
            follower.close()

    def _watch(self, number: str) -> JobWatch:
        return JobWatch(number, self._queue.job)
