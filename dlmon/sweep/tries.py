"""Try injections in a script: a first run as it is, then an experiment of pairs for each."""

from __future__ import annotations

import asyncio
import time

from dlmon.protocol.job import Job, Refused
from dlmon.quantities import RUN_CORES
from dlmon.records import Batches, PairRule, RunStatus, Status
from dlmon.records.record import record
from dlmon.records.words import Word
from dlmon.session.follower import SessionFollower
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from dlmon.sweep.candidates import Candidate, FirstRun, first_run_of
from dlmon.sweep.hosts import LocalHost
from dlmon.sweep.pair_causes import loss_difference
from dlmon.sweep.pairs import broken_run, verdict_of
from dlmon.sweep.plan import SweepError
from dlmon.sweep.progress import Sweep
from dlmon.sweep.runner import NEVER_STEADY, POLL_S

# Sensors read the CPU once a second.
_LEAST_WINDOW_S = 3.0
# The parts of slow steps are known after several.
_MOST_WINDOWS = 4


class Judgement(Word):
    """The outcome of a try."""

    KEEP = "keep"
    """It is proven to be faster, and leaves the training as it is."""
    SUGGESTION = "suggestion"
    """It is proven to be faster, and alters the training."""
    NO_GAIN = "no gain"
    NOT_APPLIED = "not applied"
    FAILED = "failed"
    UNDECIDED = "undecided"


@record(frozen=True)
class Try:
    """An injection that was tried.

    Attributes:
        candidate: the injection.
        id: the id of its experiment; None if no time was left for it.
        sweep: its experiment.
    """

    candidate: Candidate
    id: str | None = None
    sweep: Sweep | None = None

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
        if not ratio.is_proven or ratio.value < 1:
            return Judgement.NO_GAIN
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
    """

    id: str
    snapshot: Snapshot
    problem: str | None
    run: FirstRun | None


async def run_as_it_is(job: Job, rule: PairRule) -> FirstSession:
    """Run a script until it has trained steadily for a window; it is stopped if this is cancelled.

    Raises:
        SweepError: it can't be started.
        LogError: its log can't be read.
    """
    host, began_at = LocalHost(), time.monotonic()
    window_s = max(rule.window_s or 0.0, _LEAST_WINDOW_S)
    try:
        answer = await host.launch(job)
        if isinstance(answer, Refused):
            raise SweepError(answer.reason)
        follower = await host.follow(answer)
        assert isinstance(follower, SessionFollower)
        is_ended = joins_batches = False
        while (records := follower.poll()) or follower.running:
            has_window = _has_window(follower.session, window_s)
            if not is_ended and (has_window or time.monotonic() - began_at > rule.for_s):
                is_ended = True
                host.stop()
            joins_batches |= any(isinstance(r, Batches) and r.per_execution for r in records)
            await asyncio.sleep(0 if records else POLL_S)
        snapshot, result = follower.snapshot(), follower.result
        problem = follower.problem if result is None else result.error
        run_cores = follower.session.readings.means.get(RUN_CORES)
        run = first_run_of(snapshot, run_cores, joins_batches)
        if problem is None and follower.status not in (Status.COMPLETED, Status.STOPPED):
            problem = "it left no result"
        elif problem is None and (run is None or snapshot.samples_per_second is None):
            problem = "no steady training was seen"
        return FirstSession(answer.session, snapshot, problem, run)
    finally:
        await host.finish_run()


def _has_window(session: Session, window_s: float) -> bool:
    """Return whether a script trained steadily for a window; PyTorch's parts may come later."""
    loop = session.loops.longest
    steady_s = loop.steady.seconds
    is_torch = loop.model is not None and loop.model.optimizer is not None
    awaits_parts = is_torch and session.step_parts.total is None
    return steady_s >= (_MOST_WINDOWS if awaits_parts else 1) * window_s
