"""The straggler among ranks that train together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from dlmon.records.record import record
from dlmon.session.limits.evidence import Evidence
from dlmon.session.loops import ProcessRate

LEAST_APART = 0.05
"""The least extra time of a straggler, as a share of a step."""
# The least extra time, in standard errors.
_ERRORS_APART = 3.0


@record(frozen=True)
class Straggler:
    """The rank that the others wait for.

    Attributes:
        rank: the rank.
        rank_ms: the time per step that it waits for data, or works on its own.
        others_ms: the median of that time over the other ranks.
        waits_for_data: it waits for data; else it works outside backward and the optimiser.
    """

    rank: ProcessRate
    rank_ms: float
    others_ms: float
    waits_for_data: bool


def straggler_of(ranks: Sequence[ProcessRate]) -> Straggler | None:
    """Return the rank that makes all others wait; None if no rank stands out.

    Collectives make the steps of all ranks take the same time. A straggler waits clearly longer for
    its data than the others, or works clearly longer outside of collectives. Processes without a
    rank train separately.
    """
    steps_ms = [rank.step_ms for rank in ranks if rank.step_ms]
    if any(rank.trainer.rank is None for rank in ranks) or len(steps_ms) < len(ranks):
        return None
    if len(ranks) < 2 or max(steps_ms) - min(steps_ms) > LEAST_APART * max(steps_ms):
        # They don't wait for each other.
        return None
    for waits_for_data in (True, False):
        means = [(rank.wait if waits_for_data else rank.work, rank) for rank in ranks]
        times = [(mean.mean_ms, mean.error_ms, rank) for mean, rank in means if mean is not None]
        if len(times) < len(ranks):
            continue
        times.sort(key=lambda time: time[0])
        (next_ms, next_error_ms, _), (rank_ms, error_ms, rank) = times[-2:]
        beyond_ms = _ERRORS_APART * math.hypot(error_ms, next_error_ms)
        if rank_ms - next_ms > max(beyond_ms, LEAST_APART * min(steps_ms)):
            others_ms = median(mean_ms for mean_ms, *_ in times[:-1])
            return Straggler(rank, rank_ms, others_ms, waits_for_data)
    return None


def rank_holds_up(ranks: Sequence[ProcessRate], is_over: bool) -> Evidence | None:
    """Return evidence if the others wait for one rank."""
    straggler = straggler_of(ranks)
    if straggler is None:
        return None
    name = straggler.rank.name_and_host
    rank_time, others_time = (f"{ms:.2g} ms" for ms in (straggler.rank_ms, straggler.others_ms))
    is_two, waits = len(ranks) == 2, "waited" if is_over else "waits"
    who, wait = ("other", waits) if is_two else ("others", "waited" if is_over else "wait")
    they = "the other" if is_two else "they"
    headline = f"The {who} {wait} for {name}"
    if straggler.waits_for_data:
        figure = f"it {waits} {rank_time} per step for data"
        brief = f"{name} waits {rank_time} for data"
        advice = f"look for what {name} loads more slowly: its data, its CPUs, its disk"
    else:
        takes = "took" if is_over else "takes"
        figure = f"it {takes} {rank_time} per step outside backward and optimiser"
        brief = f"{name} {rank_time} per step of its own"
        advice = f"look for what {name} does more slowly: its own code, its CPUs, its GPU"
    return Evidence("ranks", brief, headline, (f"{figure}, {they} {others_time}",), advice)
