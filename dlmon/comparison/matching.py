"""Say which options would let a run be compared with published numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dlmon.comparison.compare import published_differences
from dlmon.comparison.conditions import SIZED_BY_DATA, Conditions
from dlmon.comparison.published import STEP_MS, published, published_metrics
from dlmon.records.record import record

Changes = tuple[tuple[str, int | str], ...]
"""Options of `run` with the values that they would need: (("batch_size", 128), ...)."""


@record(frozen=True)
class Match:
    """How many published times are comparable once these options are changed, if any have to be."""

    count: int
    changes: Changes = ()


# A training run stays one where it can, and else keeps its backward pass.
_MODES = ("train", "gradients", "inference")


def find_match(conditions: Conditions, defaults: Conditions) -> Match | None:
    """Return the fewest options to change for some published time to be comparable.

    The changes are empty where one is comparable already; None where no options would do.
    Keeping the mode is preferred, then fewer changes, then more times that become comparable.

    Args:
        conditions: of the run.
        defaults: the workload's own: what its published numbers were taken with.
    """
    ways: Counter[Changes] = Counter()
    for row in published(conditions.workload):
        metric = STEP_MS if row.metric.endswith("_ms") else row.metric
        wanted = replace(
            conditions,
            batch_size=row.batch_size,
            mode=row.mode,
            # No option asks for float16 alone, so a row of it is never comparable.
            precision="float32",
            epochs=defaults.epochs if metric == "run_seconds" else conditions.epochs,
            data="real" if row.workload in SIZED_BY_DATA else conditions.data,
            # A projection stands for the whole epoch.
            steps_cap=None,
        )
        beside = published_metrics(metric, row.mode)
        of_metric = beside.get(row.metric, ("another metric",))
        if not published_differences(row, wanted, defaults, of_metric):
            ways[_changes(conditions, wanted)] += 1
    if not ways:
        return None
    best = min(ways, key=lambda way: (_mode_changed(way), len(way), -ways[way], way))
    return Match(ways[best], best)


def _changes(conditions: Conditions, wanted: Conditions) -> Changes:
    names = ("batch_size", "epochs", "data", "mode", "precision")
    return tuple(
        (name, getattr(wanted, name))
        for name in names
        if getattr(wanted, name) != getattr(conditions, name)
    )


def _mode_changed(way: Changes) -> int:
    mode = dict(way).get("mode")
    return 0 if mode is None else 1 + _MODES.index(str(mode))
