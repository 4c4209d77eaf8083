"""Of what several processes a command is one, as a scheduler starts it on many machines at once."""

from __future__ import annotations

from collections.abc import Mapping

from dlmon.records.record import record


@record(frozen=True)
class Task:
    """One of the processes of a job step.

    Attributes:
        step: what the step is called, the same for all of them and for no other.
        number: which of them it is, from 0.
        is_first_here: whether it is the first of its machine.
    """

    step: str
    number: int
    is_first_here: bool = True


def task_of(environment: Mapping[str, str]) -> Task | None:
    """Return which task of a Slurm step this is; None where it is alone, or none.

    What `srun` sets for each task is described in its manual; a batch script by itself is no step.
    """
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    numbers = [environment.get(name, "") for name in names]
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        return None
    job, step, number, count = map(int, numbers)
    if count < 2 or number >= count:
        return None
    restarts = environment.get("SLURM_RESTART_COUNT", "0")
    again = f".{restarts}" if restarts.isascii() and restarts.isdecimal() else ""
    is_first_here = environment.get("SLURM_LOCALID", "0") == "0"
    return Task(f"{job}.{step}{again}", number, is_first_here)
