"""Add rows of names and values, as tables, JSON lines and W&B have them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dlmon.metric_files.points import RunPoints

STEPS = (
    "global_step", "trainer/global_step", "train/global_step", "dlmon/step", "_step", "step",
    "steps", "iteration", "iter", "batch", "n_iter",
)  # fmt: skip
"""The names of columns that hold a step, the first that is there counts."""
WALLS = ("_timestamp", "timestamp", "wall_time", "walltime", "time", "date")
_OTHERS = frozenset(("_runtime", "epoch", *STEPS, *WALLS))
_EARLIEST_S = 1e8
_NOT_NUMBERS = {"nan": float("nan"), "infinity": float("inf"), "-infinity": float("-inf")}


def number_of(value: object) -> float | None:
    """Return a number, also of a text; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and value:
        try:
            return _NOT_NUMBERS.get(value.lower()) or float(value)
        except ValueError:
            return None
    return None


def _wall_of(value: object) -> float | None:
    number = number_of(value)
    if number is None and isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    # Seconds since the run began, or milliseconds, tell no time of day.
    return number if number is not None and _EARLIEST_S < number < 100 * _EARLIEST_S else None


def add_row(run: RunPoints, row: Mapping[str, object]) -> None:
    """Add the numbers of a row at its step and time, as far as it has these."""
    step = next((s for n in STEPS if (s := number_of(row.get(n))) is not None), None)
    if step is None:
        step = number_of(row.get("epoch"))
    wall = next((w for n in WALLS if (w := _wall_of(row.get(n))) is not None), None)
    for name, value in row.items():
        if name.lower() not in _OTHERS and (number := number_of(value)) is not None:
            run.add(name, step, wall, number)
