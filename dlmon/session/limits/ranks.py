"""Which of the ranks that train together the others wait for. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from dlmon.records.record import record
from dlmon.session.limits.seen import Evidence
from dlmon.session.loops import TrainerRate

LEAST_APART = 0.05
"""What a rank does longer than the others is this share of a step at least, before it is named."""
_ERRORS_APART = 3.0


@record(frozen=True)
class Straggler:
    """The rank that the others wait for, with how long it and they take in a step.

    That is for waiting for data, or for all that is outside of backward and the optimiser.
    """

    rank: TrainerRate
    own_ms: float
    others_ms: float
    waits_for_data: bool


def straggler_of(ranks: Sequence[TrainerRate]) -> Straggler | None:
    """Return the rank that makes all others wait; None where none stands out.

    What ranks do together evens out how long their steps take. The one that waits for its own
    data beyond what the others do, or takes longer outside of where ranks wait for each other, and
    beyond the spread of both, is what they wait for. Processes without a rank train each on their
    own.
    """
    steps = [rank.step_ms for rank in ranks if rank.step_ms]
    if any(one.trainer.rank is None for one in ranks) or len(steps) < len(ranks):
        return None
    if len(ranks) < 2 or max(steps) - min(steps) > LEAST_APART * max(steps):
        # They don't wait for each other.
        return None
    for waits_for_data in (True, False):
        means = [(one.wait if waits_for_data else one.work, one) for one in ranks]
        known = [(mean.mean_ms, mean.error_ms, one) for mean, one in means if mean is not None]
        if len(known) < len(ranks):
            continue
        known.sort(key=lambda each: each[0])
        (next_ms, next_error_ms, _), (own_ms, error_ms, rank) = known[-2:]
        beyond = _ERRORS_APART * math.hypot(error_ms, next_error_ms)
        if own_ms - next_ms > max(beyond, LEAST_APART * min(steps)):
            others_ms = median(mean_ms for mean_ms, *_ in known[:-1])
            return Straggler(rank, own_ms, others_ms, waits_for_data)
    return None


def rank_holds_up(ranks: Sequence[TrainerRate], ended: bool) -> Evidence | None:
    """Hold when the others wait for one rank, by how long it waits for its data, or works."""
    found = straggler_of(ranks)
    if found is None:
        return None
    name = found.rank.name_and_host
    own, others = (f"{ms:.2g} ms" for ms in (found.own_ms, found.others_ms))
    is_two, waits = len(ranks) == 2, "waited" if ended else "waits"
    who, wait = ("other", waits) if is_two else ("others", "waited" if ended else "wait")
    they = "the other" if is_two else "they"
    headline = f"The {who} {wait} for {name}"
    if found.waits_for_data:
        figure, brief = f"it {waits} {own} per step for data", f"{name} waits {own} for data"
        advised = f"look for what {name} loads more slowly: its data, its CPUs, its disk"
    else:
        takes = "took" if ended else "takes"
        figure = f"it {takes} {own} per step outside backward and optimiser"
        brief = f"{name} {own} per step of its own"
        advised = f"look for what {name} does more slowly: its own code, its CPUs, its GPU"
    return Evidence("ranks", brief, headline, (f"{figure}, {they} {others}",), advised)
