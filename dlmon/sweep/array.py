"""Make the runs of a sweep as tasks of a job array of Slurm's, several at once.

What is in the queue or runs there goes on where nobody looks: whoever resumes the sweep takes it
up, and submits what is missing.
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
from dlmon.slurm.job_follower import JobWatch, SharedQueue, SlurmFollower, Waiting, next_session
from dlmon.slurm.submit import read_slurm_options
from dlmon.slurm.submit_session import submit_array
from dlmon.sweep.log import SweepWriter
from dlmon.sweep.plan import Combination, SweepError
from dlmon.sweep.progress import outcome_of
from dlmon.sweep.runner import POLL_S, CurrentRun, SweepRun


class ArrayRun(SweepRun):
    """Makes what is left of a sweep in Slurm.

    To stop it is to look no longer: its jobs stay.

    Args:
        writer: the sweep's file, which this takes over and closes.
        make_job: returns the job of a combination.
        refusal: says why a combination can't be run, None where it may.
        poll_s: how often the sessions are looked at.
    """

    def __init__(
        self,
        writer: SweepWriter,
        make_job: Callable[[Combination], Job],
        refusal: Callable[[Combination], str | None],
        poll_s: float = POLL_S,
    ) -> None:
        super().__init__(writer, make_job, refusal, poll_s=poll_s)
        self._queue = SharedQueue()

    leaves_jobs = True

    @property
    def queued(self) -> frozenset[int]:
        looked_at = {current.slot.combination for current in self.current.values()}
        return frozenset(slot.combination for slot in self.sweep.running) - looked_at

    def _settle_orphans(self) -> None:
        """Leave them: they are followed on."""

    async def _make_all(self) -> None:
        followed = list(self.sweep.running.values())
        new = [slot for slot in self.sweep.left() if slot not in self.sweep.running]
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
        """Follow a run to its end, from the queue on, and record how it ended.

        Where Slurm starts it anew, its next session counts.
        """
        log = self.directory / began.session / LOG_NAME
        submitted = read_submitted(log)
        if submitted is None or submitted.slurm_job is None:
            self._end(began, outcome_of(None, began.session, None, "its session is gone"))
            return
        number = submitted.slurm_job
        waiting: Waiting | None = Waiting(log, submitted, self._watch(number))
        while waiting is not None:
            found = waiting.poll()
            while found is None and waiting.failure is None and not self.stopping:
                await asyncio.sleep(self._poll_s)
                found = waiting.poll()
            if self.stopping:
                return
            if found is None:
                outcome = Outcome(RunStatus.NOT_RUN, waiting.failure, began.session)
                self._end(began, outcome)
                return
            waiting = await self._follow_log(began, found, number)

    async def _follow_log(self, began: Began, log: Path, number: str) -> Waiting | None:
        """Follow a session to its end; return the next one where Slurm starts its job anew."""
        session = log.parent.name
        follower = SlurmFollower(log, by_index=True, watch=self._watch(number))
        self.current[session] = CurrentRun(began.slot, None, follower)
        try:
            while (records := follower.poll()) or follower.running:
                if self.stopping:
                    return None
                await asyncio.sleep(0 if records else self._poll_s)
            following = await asyncio.to_thread(next_session, follower)
            if following is None:
                result: Result | None = follower.result
                took_s = None if result is None else result.wall_s
                self._end(began, outcome_of(result, session, took_s, follower.problem))
            return following
        finally:
            del self.current[session]
            follower.close()

    def _watch(self, number: str) -> JobWatch:
        return JobWatch(number, self._queue.job)

    def _end(self, began: Began, outcome: Outcome) -> None:
        self._write(Ended(began.slot, outcome, time.time()))
