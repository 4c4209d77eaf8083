"""Try injections in a script: a first run as it is, then an experiment of pairs for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from dlmon.exit_codes import DONE, FAILED
from dlmon.log.folder import LogError
from dlmon.protocol.job import Job, Refused
from dlmon.quantities import RUN_CORES
from dlmon.records import Batches, Event, Outcome, Output, PairRule, RunStatus, Slot, Status
from dlmon.records.record import record
from dlmon.records.words import Word
from dlmon.session.follower import SessionFollower
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from dlmon.sweep.candidates import Candidate, FirstRun, candidates_of, first_run_of
from dlmon.sweep.hosts import LocalHost
from dlmon.sweep.pair_causes import loss_difference
from dlmon.sweep.pairs import BASE, broken_run, least_seconds, verdict_of
from dlmon.sweep.plan import SweepError
from dlmon.sweep.progress import Sweep, outcome_of
from dlmon.sweep.runner import NEVER_STEADY, POLL_S, SHOWN_LINES, SweepRun

# Sensors read the CPU once a second.
_LEAST_WINDOW_S = 3.0
# The parts of slow steps are known after several.
_MOST_WINDOWS = 4
STOPPED, NO_TIME = "it was stopped before", "no time was left (--for)"


class Judgement(Word):
    """The outcome of a try."""

    KEEP = "keep"
    """It is proven to be faster, and leaves the training as it is."""
    SUGGESTION = "suggestion"
    """It is proven to be faster, and alters the training."""
    NO_GAIN = "no gain"
    SLOWER = "slower"
    """It is proven to be slower."""
    NOT_APPLIED = "not applied"
    FAILED = "failed"
    UNDECIDED = "undecided"


@record(frozen=True)
class Try:
    """An injection that was tried.

    Attributes:
        candidate: the injection.
        id: the id of its experiment; None before it has begun.
        sweep: its experiment.
        skipped: why it has none; None while it waits for its turn.
    """

    candidate: Candidate
    id: str | None = None
    sweep: Sweep | None = None
    skipped: str | None = None

    @property
    def judgement(self) -> Judgement:
        if self.sweep is None:
            return Judgement.UNDECIDED
        if (broken := broken_run(self.sweep)) is not None:
            if broken[1].status == RunStatus.IMPOSSIBLE:
                return Judgement.NOT_APPLIED
            is_late = broken[1].reason == NEVER_STEADY
            return Judgement.UNDECIDED if is_late else Judgement.FAILED
        ratio = verdict_of(self.sweep).ratio
        if ratio is None or ratio.low is None:
            return Judgement.UNDECIDED
        if not ratio.is_proven:
            # A wide interval holds a gain as well as a loss.
            rule, half = self.sweep.plan.pairs, ratio.half_width
            is_narrow = rule is not None and half is not None and half <= rule.to * 1.005
            return Judgement.NO_GAIN if is_narrow else Judgement.UNDECIDED
        if ratio.value < 1:
            return Judgement.SLOWER
        loss = loss_difference(self.sweep)
        alters = self.candidate.kind.alters_training or (loss is not None and not loss.is_alike)
        return Judgement.SUGGESTION if alters else Judgement.KEEP


@record(frozen=True)
class FirstSession:
    """The session of the script as it is.

    Attributes:
        id: its id.
        snapshot: its figures.
        problem: why there is nothing to choose from; None if it trained.
        run: what the choice of injections depends on.
        outcome: its outcome as the first run of one side, which needs no other.
    """

    id: str
    snapshot: Snapshot
    problem: str | None
    run: FirstRun | None
    outcome: Outcome | None = None


class TryRun:
    """Runs a script as it is, then an experiment of pairs for each injection worth a try.

    A view may read its attributes at any time.

    Args:
        job: the script as it is.
        rule: the rule of all experiments; its time is that of all together.
        begin: begins the experiment of a candidate.
    """

    leaves_jobs = False
    hosts: tuple[str | None, ...] = (None,)

    def __init__(
        self, job: Job, rule: PairRule, begin: Callable[[Candidate, PairRule], SweepRun]
    ) -> None:
        self.job = job
        self.follower: SessionFollower | None = None
        """The script as it is, while it runs and after."""
        self.first: FirstSession | None = None
        """Its outcome; None before it is over, or if it was stopped."""
        self.tries: list[Try] = []
        """All injections to try, with the outcomes so far."""
        self.experiment: SweepRun | None = None
        """The experiment that is under way, else the last one."""
        self.problem: str | None = None
        """Why it could not go on."""
        self.ended = self.stopping = self.stops_after_run = False
        self.on_event: Callable[[Event], None] | None = None
        """Called with each event of an experiment once it is recorded."""
        self._rule, self._begin, self._host = rule, begin, LocalHost()

    @property
    def path(self) -> Path | None:
        """The log of the experiment that is under way, or of the last one."""
        return None if self.experiment is None else self.experiment.path

    @property
    def current(self) -> Try | None:
        """The try whose experiment has begun last; at the end, the first gain."""
        begun = [tried for tried in self.tries if tried.sweep is not None]
        gains = [tried for tried in begun if self.ended and tried.judgement == Judgement.KEEP]
        return next(iter([*gains, *reversed(begun)]), None)

    @property
    def under_way(self) -> SessionFollower | None:
        """A session that is under way."""
        if self.experiment is None:
            return None if self.ended else self.follower
        return next((run.follower for run in self.experiment.current.values()), None)

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last output of the script as it is, if there is nothing to choose from."""
        if self.first is None or self.first.problem is None:
            return ()
        lines = [line.text for line in self.first.snapshot.output if line.text.strip()]
        return tuple(lines[-SHOWN_LINES:])

    @property
    def exit_code(self) -> int:
        is_known = self.first is not None and self.first.problem is None
        return DONE if is_known and self.problem is None else FAILED

    async def run(
        self, make_runs: Callable[[SweepRun], Awaitable[None]] = lambda run: run.run()
    ) -> None:
        """Run all experiments, one after the other, until `stop`; `problem` says what failed.

        Args:
            make_runs: makes the runs of an experiment.
        """
        ends_at = time.monotonic() + self._rule.for_s
        try:
            first = await self._run_as_it_is()
            if self.stopping:
                return
            self.first = first
            if first.problem is None and first.run is not None:
                self.tries = [Try(candidate) for candidate in candidates_of(first.run)]
            for number, tried in enumerate(self.tries):
                left_s, least_s = ends_at - time.monotonic(), least_seconds(self._rule)
                if self.stops_after_run or left_s < least_s:
                    skipped = STOPPED if self.stops_after_run else NO_TIME
                    self.tries[number] = replace(tried, skipped=skipped)
                    continue
                for_s = max(least_s, left_s / (len(self.tries) - number))
                run = self._begin(tried.candidate, replace(self._rule, for_s=for_s))
                run.on_event, self.experiment = self.on_event, run
                self.tries[number] = replace(tried, id=run.writer.header.id, sweep=run.sweep)
                if first.outcome is not None and first.outcome.status is RunStatus.COMPLETED:
                    run.take(Slot(BASE, 0), first.outcome)
                await make_runs(run)
        except (LogError, SweepError, OSError) as error:
            self.problem = str(error)
        finally:
            await self.close()
            self.ended = True

    def stop(self) -> None:
        """Stop the current run, and begin no other."""
        self.stopping = self.stops_after_run = True
        self._host.stop()
        if self.experiment is not None:
            self.experiment.stop()

    def leave_at_once(self) -> None:
        """Stop, because this process ends before the runs have ended."""
        self.stop()
        if self.experiment is not None:
            self.experiment.leave_at_once()

    async def close(self) -> None:
        """Stop the runs that are not over."""
        await self._host.close()
        if self.experiment is not None:
            await self.experiment.close()

    async def _run_as_it_is(self) -> FirstSession:
        """Run the script until it has trained steadily for a window, or until `stop`.

        Raises:
            SweepError: it can't be started.
            LogError: its log can't be read.
        """
        host, rule, began_at = self._host, self._rule, time.monotonic()
        window_s = max(rule.window_s or 0.0, _LEAST_WINDOW_S)
        answer = await host.launch(self.job)
        if isinstance(answer, Refused):
            raise SweepError(answer.reason)
        follower = await host.follow(answer)
        assert isinstance(follower, SessionFollower)
        self.follower = follower
        has_window = is_ended = joins_batches = False
        lines = steps = 0
        while (records := follower.poll()) or follower.running:
            has_window = has_window or _has_window(follower.session, window_s)
            if not is_ended and (has_window or time.monotonic() - began_at > rule.for_s):
                is_ended = True
                host.stop()
            batches = [record for record in records if isinstance(record, Batches)]
            joins_batches |= any(record.per_execution for record in batches)
            steps += sum(len(record.dt_us) for record in batches)
            lines += sum(1 + (r.left_out or 0) for r in records if isinstance(r, Output))
            await asyncio.sleep(0 if records else POLL_S)
        snapshot, result = follower.snapshot(), follower.result
        problem = follower.problem if result is None else result.error
        run_cores = follower.session.readings.means.get(RUN_CORES)
        run = first_run_of(snapshot, run_cores, joins_batches, lines / steps if steps else 0.0)
        if problem is None and follower.status not in (Status.COMPLETED, Status.STOPPED):
            problem = "it left no result"
        elif problem is None and (run is None or snapshot.samples_per_second is None):
            problem = "no steady training was seen"
        await host.finish_run()
        outcome = outcome_of(result, answer.session, None, problem, has_window)
        return FirstSession(answer.session, snapshot, problem, run, outcome)


def _has_window(session: Session, window_s: float) -> bool:
    """Return whether a script trained steadily for a window; PyTorch's parts may come later."""
    loop = session.loops.longest
    steady_s = loop.steady.seconds
    is_torch = loop.model is not None and loop.model.optimizer is not None
    awaits_parts = is_torch and session.step_parts.total is None
    return steady_s >= (_MOST_WINDOWS if awaits_parts else 1) * window_s
