"""What a sweep varies in words: its combinations, and where along an option the lead changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

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
    """Say which value of one option takes less time, and where along another that changes.

    `cpu up to batch 64, gpu:0 from batch 128`. Where several runs of each are asked for and don't
    show which is faster, neither leads; of single runs, the sentence says that it isn't sure.
    Nothing is said of fewer than two points, or where no two values can be compared.

    Args:
        rows: of all combinations, as they are judged.
        by: the option whose values compete, such as device.
        axis: an option whose values are numbers; None for the workloads.
    """
    groups: dict[object, dict[object, list[CombinationRow]]] = {}
    for row in rows:
        varied = row.combination.varied
        if row.value is None or by not in varied:
            continue
        workload = None if axis is None else row.combination.workload
        fixed = tuple((k, v) for k, v in varied.items() if k not in (by, axis))
        place: object = row.combination.workload if axis is None else varied[axis]
        groups.setdefault((workload, fixed), {}).setdefault(place, []).append(row)
    sentences = []
    for (workload, fixed), places in groups.items():  # type: ignore[misc]
        leaders = {place: _leader(rivals, by) for place, rivals in places.items()}
        sentence = _sentence(leaders, axis)
        if sentence:
            if _is_run_once(rows[0]):
                sentence += f" (1 run each; --repeat {MIN_RUNS} would show how sure that is)"
            where = in_words(dict(fixed))
            if workload is not None and len({row.combination.workload for row in rows}) > 1:
                where = ", ".join(filter(None, [workload, where]))
            sentences.append(f"{where}: {sentence}" if where else sentence)
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


def _sentence(leaders: Mapping[object, str | None], axis: str | None) -> str:
    """Say who leads where; empty where fewer than two places have a leader."""
    known = {place: leader for place, leader in leaders.items() if leader is not None}
    if len(known) < 2:
        return ""
    if axis is None:
        by_leader: dict[str, list[str]] = {}
        for place, leader in known.items():
            by_leader.setdefault(leader, []).append(f"{place}")
        parts = [f"{leader} on {' and '.join(where)}" for leader, where in by_leader.items()]
        return f"less time: {'; '.join(parts)}"
    ordered = sorted(leaders.items(), key=itemgetter(0))
    ranges = [
        (leader, [place for place, _ in places])
        for leader, places in groupby(ordered, key=itemgetter(1))
    ]
    name = option_name(axis)
    if len(ranges) == 1:
        return f"less time at every {name}: {ranges[0][0]}"
    parts = []
    for number, (leader, where) in enumerate(ranges):
        if leader is None:
            continue
        if number == 0:
            parts.append(f"{leader} up to {name} {where[-1]}")
        elif number == len(ranges) - 1:
            parts.append(f"{leader} from {name} {where[0]}")
        else:
            several = f"from {name} {where[0]} to {where[-1]}"
            parts.append(f"{leader} {f'at {name} {where[0]}' if len(where) == 1 else several}")
    return f"less time: {', '.join(parts)}"
