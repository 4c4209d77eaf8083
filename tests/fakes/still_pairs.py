"""An experiment of pairs whose runs a test makes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dlmon.records import Began, Slot
from dlmon.sweep.runner import SweepRun

from .compared import side
from .sweeps import ended, result_of

MS = [(0.200, 0.212), (0.201, 0.214), (0.199, 0.211), (0.200, 0.213), (0.201, 0.215)]
"""The milliseconds of a sample of both sides, of five pairs."""


class StillRun(SweepRun):
    """An experiment whose runs a test makes; it ends when `over` is set."""

    def __init__(self, writer):
        super().__init__(writer, make_job=None, refusal=None)
        self.slower = "wait"
        self.over = asyncio.Event()

    async def run(self):
        await self.over.wait()
        self.ended = True

    def make(self, *pairs):
        """Make the warm-up and these pairs, each the milliseconds of a sample of both sides."""
        for repeat, pair in enumerate([(0.3, 0.3), *pairs]):
            for number, run in enumerate(pair):
                result = result_of(run) if isinstance(run, float) else run
                end = ended(Slot(number, repeat), result, took_s=20.0)
                session = end.outcome.session
                self._write(Began(end.slot, session, 0.0))
                self.sweep.figures[session] = figures(session, end.outcome.result, self.slower)
                self._write(end)


def figures(session, result, slower="wait"):
    """Return the figures of a run whose slower side takes longer in that part of a step."""
    rate = result.samples_per_second.mean
    parts = {"wait": 2.4, "forward": 5.0, "backward": 8.0, "optimizer": 2.4}
    parts[slower] += 100_000 / rate - sum(parts.values()) - 2
    parts = {f"step.{part}_ms": ms for part, ms in parts.items()}
    (run,) = side(session, rate, values={**parts, "memory_mib": 900.0})
    return replace(run, session=session)
