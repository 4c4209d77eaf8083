"""Our task in a run on several hosts: a Slurm job step, or one that each host has joined."""

from __future__ import annotations

from collections.abc import Mapping

from dlmon.records.record import record


@record(frozen=True)
class Task:
    """One of the processes of a job step, or of a run that hosts join.

    Attributes:
        step: a unique name of the step, the same for all its tasks.
        number: the number of the task, from 0.
        is_first_here: true for the first task on its host.
    """

    step: str
    number: int
    is_first_here: bool = True


def task_of(environment: Mapping[str, str]) -> Task | None:
    """Return our task of a Slurm step; None if we are no task, or the only one.

    The manual of `srun` lists the variables; a batch script by itself is no step.
    """
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    numbers = [environment.get(name, "") for name in names]
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        return None
    job, step, number, count = map(int, numbers)
    if count < 2 or number >= count:
        return None
    restarts = environment.get("SLURM_RESTART_COUNT", "0")
    suffix = f".{restarts}" if restarts.isascii() and restarts.isdecimal() else ""
    is_first_here = environment.get("SLURM_LOCALID", "0") == "0"
    return Task(f"{job}.{step}{suffix}", number, is_first_here)
