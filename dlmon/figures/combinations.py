"""What a sweep varies in words: its combinations, and which of them leads where."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from dlmon.options.run import in_words, option_name
from dlmon.sweep.plan import Combination
from dlmon.sweep.results import MIN_RUNS, SAME_WORK, CombinationRow


def label(combination: Combination, keys: Sequence[str] | None = None) -> str:
    """Name a combination by what is varied in it, or by some of that: `batch 32, cpu`."""
    varied = combination.varied
    chosen = varied if keys is None else {key: varied[key] for key in keys}
    return in_words(chosen) or combination.workload


def shared_text(rows: Sequence[CombinationRow]) -> str:
    """Name what a group of `comparable_groups` has in common, as far as that is varied."""
    varied = rows[0].combination.varied
    return in_words({key: varied[key] for key in SAME_WORK if key in varied})


def lead_changes(rows: Sequence[CombinationRow], by: str, axis: str | None) -> list[str]:
    """Say which value of one option takes least time at which value of another.

    `less time: cpu at batch 32, 64; gpu:0 at batch 128`. Where several runs of each are asked for
    and don't show which is faster, neither leads; of single runs, the sentence says that it isn't
    sure. Nothing is said of fewer than two places.

    Args:
        rows: of all combinations, as they are judged.
        by: the option whose values compete, such as device.
        axis: an option whose values are numbers; None for the workloads.
    """
    groups: dict[tuple[Any, ...], dict[object, list[CombinationRow]]] = {}
    for row in rows:
        varied, workload = row.combination.varied, row.combination.workload
        if row.value is not None and by in varied:
            fixed = tuple((k, v) for k, v in varied.items() if k not in (by, axis))
            place = workload if axis is None else varied[axis]
            group = (None if axis is None else workload, *fixed)
            groups.setdefault(group, {}).setdefault(place, []).append(row)
    several = axis is not None and len({row.combination.workload for row in rows}) > 1
    sentences = []
    for (workload, *others), places in groups.items():
        led: dict[str, list[str]] = {}
        ordered = places.items() if axis is None else sorted(places.items(), key=itemgetter(0))
        for at, rivals in ordered:
            if leader := _leader(rivals, by):
                led.setdefault(leader, []).append(f"{at}")
        if sum(map(len, led.values())) < 2:
            continue
        where = "on" if axis is None else f"at {option_name(axis)}"
        parts = (f"{leader} {where} {', '.join(places)}" for leader, places in led.items())
        sentence = f"less time: {'; '.join(parts)}"
        if _is_run_once(rows[0]):
            sentence += f" (1 run each; --repeat {MIN_RUNS} would show how sure that is)"
        alike = [f"{workload}"] * several + [in_words(dict(others))]
        sentences.append(": ".join(filter(None, (", ".join(filter(None, alike)), sentence))))
    return sentences


def _leader(rivals: Sequence[CombinationRow], by: str) -> str | None:
    """Return the value that takes the least time; None where that is unclear."""
    if len(rivals) < 2:
        return None
    first, *others = sorted(rivals, key=lambda row: row.value or 0.0)
    if not _is_run_once(first) and not all(map(first.is_faster_than, others)):
        return None
    return label(first.combination, [by])


def _is_run_once(row: CombinationRow) -> bool:
    return len(row.outcomes) == 1
