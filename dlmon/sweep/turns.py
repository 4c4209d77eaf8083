"""Two runs of a pair that take turns: while one runs, the other is suspended.

On a machine that others use too, what they take changes within seconds. Runs in turns share it
alike, so their ratio is known sooner than from runs after each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import PurePath

from dlmon.comparison.compared_run import RunFigures
from dlmon.records import Batches, BatchSummary, Record, Suspended
from dlmon.statistics.turns import Step, Turn, TurnSum, turn_sums

LEAST_TURN_S = 0.125
"""What others take of a busy machine lasts about half a second: each side meets its part of it.

Records of steps come every 0.25 s. Of one that is no longer than two turns, it is known how many
of its suspensions fell into a wait for data.
"""
SUSPENDED_WITHIN_S = 5.0
"""A run that isn't suspended by then is taken to have ended."""
STEPS_A_TURN, STEPS_A_TURN_ON_GPU = 3, 10
"""A turn lasts at least this many steps.

A GPU goes on with what is queued while its process is suspended: some steps.
"""
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
        self.turns: list[Turn] = []
        """The times from the end of each suspension to the begin of the next one."""
        self.seconds = 0.0
        """The time of all turns."""
        self._resumed_ns: int | None = None
        self._steps: list[Step] = []
        self._is_countable = True

    def add(self, records: Iterable[Record]) -> None:
        """Add the steps and suspensions among new records of the run."""
        for record in records:
            if isinstance(record, Suspended):
                self._add_suspension(record)
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

    def _add_suspension(self, record: Suspended) -> None:
        """Add a suspension when it begins, and again when it ends."""
        if self._resumed_ns is not None:
            self.turns.append(Turn(self._resumed_ns, record.t))
            self.seconds += (record.t - self._resumed_ns) / 1e9
        self._resumed_ns = record.until
        self.is_suspended = record.until is None

    def sums(self) -> tuple[TurnSum, ...]:
        """Return the samples of each turn, or the steps if samples are unknown.

        Empty without a turn, or if the steps have no times of their own.
        """
        if not self._is_countable or not self.turns:
            return ()
        steps = [step for step in self._steps if step.end_ns > self.turns[0].begin_ns]
        return turn_sums(steps, self.turns)
