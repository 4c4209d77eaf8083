"""Two runs of a pair that take turns: while one runs, the other is suspended.

On a machine that others use too, what they take changes within seconds. Runs in turns share it
alike, so their ratio is known sooner than from runs after each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import PurePath

from dlmon.comparison.compared_run import RunFigures
from dlmon.records import Batches, BatchSummary, Record, Suspended
from dlmon.statistics.turns import Step, Turn, rate_in_turns

LEAST_TURN_S = 0.5
SUSPENDED_WITHIN_S = 5.0
"""A run that isn't suspended by then is taken to have ended."""
STEPS_A_TURN = 10
"""A turn lasts at least this many steps."""
_ROOM = 0.8
"""Both runs may take this share of the memory."""
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "mpirun",
    "mpiexec",
    "srun",
    "horovodrun",
)


def why_not_in_turns(command: Sequence[str], first_runs: Sequence[RunFigures]) -> str | None:
    """Return why both runs of a pair can't be alive at once; None if they can.

    Args:
        command: the command of the script.
        first_runs: the figures of the first run of each side.
    """
    launcher = next((word for word in command if PurePath(word).name in _LAUNCHERS), None)
    if launcher is not None:
        return f"{PurePath(launcher).name} would time out while one run is suspended"
    if len(first_runs) < 2:
        return "the memory of the first runs is not known"
    facts = first_runs[0].machine
    limits_mib = [mib for mib in (facts.memory_mib, facts.memory_limit_mib) if mib is not None]
    gpus_mib = [gpu.memory_mib for gpu in facts.gpus or () if gpu.memory_mib is not None]
    for key, room_mib, of in (
        ("memory_mib", min(limits_mib, default=None), "memory"),
        ("gpu_memory_mib", min(gpus_mib, default=None), "memory of the GPU"),
    ):
        needed_mib = sum(run.values.get(key, 0.0) for run in first_runs)
        if needed_mib and (room_mib is None or needed_mib > _ROOM * room_mib):
            return f"the {of} does not hold both runs"
    return None


class TurnTimes:
    """The turns of a run, and the steps that it made in them, from its records.

    Its supervisor records when all of its processes were suspended and when they went on.
    """

    def __init__(self) -> None:
        self.is_suspended = False
        self._suspensions: dict[int, Suspended] = {}
        """By their begin, in order."""
        self._steps: list[Step] = []
        self._is_countable = True

    @property
    def turns(self) -> list[Turn]:
        """The times from the end of each suspension to the begin of the next one."""
        return [
            Turn(before.until, after.t)
            for before, after in pairwise(self._suspensions.values())
            if before.until is not None
        ]

    @property
    def seconds(self) -> float:
        """The time of all turns."""
        return sum(turn.end_ns - turn.begin_ns for turn in self.turns) / 1e9

    def add(self, records: Iterable[Record]) -> None:
        """Add the steps and suspensions among new records of the run."""
        for record in records:
            if isinstance(record, Suspended):
                self._suspensions[record.t] = record
                self.is_suspended = record.until is None
            elif isinstance(record, BatchSummary):
                # A turn may end within a summary.
                self._is_countable = False
            elif isinstance(record, Batches):
                later_us = accumulate(record.dt_us[1:], initial=0)
                self._steps += (
                    Step(record.t + 1000 * after_us, 1000 * took_us, size)
                    for size, took_us, after_us in zip(
                        record.counted, record.dt_us, later_us, strict=True
                    )
                )

    def rate(self) -> float | None:
        """Return the samples per second of all turns, or steps if samples are unknown.

        None without a turn, or if the steps have no times of their own.
        """
        turns = self.turns
        if not self._is_countable or not turns:
            return None
        steps = [step for step in self._steps if step.end_ns > turns[0].begin_ns]
        return rate_in_turns(steps, turns)
