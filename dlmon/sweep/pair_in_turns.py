"""Two runs of a pair that are alive at once: while one trains, the other is suspended."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dlmon.protocol.job import Job, Refused
from dlmon.protocol.stop import RESUME, SUSPEND
from dlmon.records import PairRule, Slot
from dlmon.session.follower import SessionFollower
from dlmon.statistics.steady_batches import WARM_UP_BATCHES
from dlmon.sweep.hosts import LocalHost
from dlmon.sweep.turns import (
    LEAST_TURN_S,
    STEPS_A_TURN,
    STEPS_A_TURN_ON_GPU,
    SUSPENDED_WITHIN_S,
    TurnTimes,
)

POLL_S, SUSPEND_POLL_S = 0.02, 0.001
WARM_UP_US = 250_000
"""A run has trained this long, without what compiled, before it takes turns.

What is cold after ten steps of it is cold on both sides, and the second of a session's steady state
would be trained twice a pair.
"""
SIDES = 2


@dataclass
class RunInTurns:
    """One of two runs that take turns."""

    slot: Slot
    host: LocalHost
    session: str
    follower: SessionFollower
    times: TurnTimes = field(default_factory=TurnTimes)

    def poll(self) -> bool:
        """Read what is new, and return whether there may be more."""
        records = self.follower.poll()
        self.times.add(records)
        return bool(records) or self.follower.running

    @property
    def turn_s(self) -> float:
        """The time of its next turn."""
        session = self.follower.session
        steps = STEPS_A_TURN_ON_GPU if session.gpus else STEPS_A_TURN
        step_us = session.loops.longest.steady.usual_step_us or 0.0
        return max(LEAST_TURN_S, steps * step_us / 1e6)

    @property
    def is_warm(self) -> bool:
        """True once it may take turns."""
        steady = self.follower.session.loops.longest.steady
        return steady.warm_up_batches >= WARM_UP_BATCHES and steady.warm_up_us >= WARM_UP_US


class PairInTurns:
    """Both runs of a pair: `launch` and `warm_up` each, then `take_turns` and `follow_to_end`.

    Args:
        rule: the rule of the experiment.
    """

    def __init__(self, rule: PairRule) -> None:
        self.hosts = tuple(LocalHost() for _ in range(SIDES))
        self.runs: list[RunInTurns] = []
        self._rule = rule
        self._began_at = time.monotonic()
        self._is_stopping = False

    @property
    def took_s(self) -> float:
        """The time of one of both runs so far."""
        return (time.monotonic() - self._began_at) / SIDES

    @property
    def is_whole(self) -> bool:
        """True if both had turns, and neither a stop nor the time of the experiment ended them.

        A run that ends by itself before its window ends the turns of both.
        """
        has_turns = len(self.runs) == SIDES and all(run.times.turns for run in self.runs)
        return has_turns and not (self._is_stopping or self._is_over_time)

    async def launch(self, slot: Slot, job: Job) -> RunInTurns | Refused:
        """Start the next run; return it, or why there is none."""
        # Before a run, the machine is watched for an interval.
        job = replace(job, interval_s=min(job.interval_s, LEAST_TURN_S))
        host = self.hosts[len(self.runs)]
        answer = await host.launch(job)
        if isinstance(answer, Refused):
            return answer
        follower = await host.follow(answer)
        assert isinstance(follower, SessionFollower)
        self.runs.append(RunInTurns(slot, host, answer.session, follower))
        return self.runs[-1]

    async def warm_up(self, run: RunInTurns) -> None:
        """Follow a run until it is warm, then suspend it.

        One that never is has the time of the whole experiment.
        """
        await self._follow_until(
            lambda: run.is_warm or self._is_stopping or self._is_over_time, run
        )
        await self._suspend(run)

    async def take_turns(self) -> None:
        """Let both runs train in turns until both have had their window, or one has ended."""
        going: RunInTurns | None = None
        while self._has_turn:
            # In random order, so that no side always follows the other.
            for run in random.sample(self.runs, SIDES):
                if run is not going:
                    if going is not None:
                        await self._suspend(going)
                    run.host.send(RESUME)
                    going = run
                await asyncio.sleep(run.turn_s)
        if going is not None:
            await self._suspend(going)

    async def follow_to_end(self, run: RunInTurns) -> None:
        await self._follow_until(lambda: False, run)

    def ask_to_stop(self) -> None:
        """Stop both runs, because the experiment is stopped."""
        self._is_stopping = True
        self.stop()

    def stop(self) -> None:
        """Stop both runs, also one that is being started."""
        for host in self.hosts:
            host.stop()

    @property
    def _is_over_time(self) -> bool:
        return time.monotonic() - self._began_at > self._rule.for_s

    @property
    def _has_turn(self) -> bool:
        """True while both runs go on, and one of them has yet to have its window."""
        if self._is_stopping or len(self.runs) < SIDES or self._is_over_time:
            return False
        window_s = self._rule.window_s or 0.0
        is_training = all(run.follower.running and run.is_warm for run in self.runs)
        return is_training and any(run.times.seconds < window_s for run in self.runs)

    async def _suspend(self, run: RunInTurns) -> None:
        """Suspend a run, and wait until it is: the other one must not run beside it."""
        run.poll()
        run.host.send(SUSPEND)
        by = time.monotonic() + SUSPENDED_WITHIN_S
        await self._follow_until(
            lambda: run.times.is_suspended or time.monotonic() > by, run, SUSPEND_POLL_S
        )

    async def _follow_until(
        self, is_enough: Callable[[], bool], run: RunInTurns, poll_s: float = POLL_S
    ) -> None:
        """Follow a run until it has ended, or `is_enough`."""
        while run.poll():
            if is_enough():
                return
            await asyncio.sleep(poll_s)
