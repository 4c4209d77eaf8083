"""A sweep as a job array: each run is a task of it, and so many run at once."""

from __future__ import annotations

from collections.abc import Iterable

TASK_VARIABLE = "SLURM_ARRAY_TASK_ID"


def array_option(tasks: Iterable[int], at_once: int | None = None) -> str:
    """Return the option of sbatch that makes an array, such as `--array=0-3,7%4`.

    Args:
        tasks: the numbers of its tasks; those of a sweep that is resumed may have gaps.
        at_once: how many of them may run at the same time; None for all.
    """
    spans: list[list[int]] = []
    for task in sorted(set(tasks)):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    listed = ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
    return f"--array={listed}" + ("" if at_once is None else f"%{at_once}")
