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
    """The rank that the others wait for, and how long it and they wait for data in a step."""

    rank: TrainerRate
    wait_ms: float
    others_ms: float


def straggler_of(ranks: Sequence[TrainerRate]) -> Straggler | None:
    """Return the rank that makes all others wait; None where none stands out.

    What ranks do together evens out how long their steps take. The one that waits for its own
    data beyond what the others do, and beyond the spread of both, is what they wait for. Processes
    without a rank train each on their own.
    """
    if any(one.trainer.rank is None for one in ranks):
        return None
    known = [(rank.wait.mean_ms, rank.wait.error_ms, rank) for rank in ranks if rank.wait]
    steps = [rank.step_ms for rank in ranks if rank.step_ms]
    if len(known) < 2 or len(known) < len(ranks) or len(steps) < len(ranks):
        return None
    if max(steps) - min(steps) > LEAST_APART * max(steps):
        # They don't wait for each other.
        return None
    known.sort(key=lambda each: each[0])
    (next_ms, next_error_ms, _), (wait_ms, error_ms, rank) = known[-2:]
    apart_ms = wait_ms - next_ms
    beyond = _ERRORS_APART * math.hypot(error_ms, next_error_ms)
    if apart_ms <= max(beyond, LEAST_APART * min(steps)):
        return None
    return Straggler(rank, wait_ms, median(mean_ms for mean_ms, *_ in known[:-1]))


def rank_holds_up(ranks: Sequence[TrainerRate], ended: bool) -> Evidence | None:
    """Hold when the others wait for one rank, by how long it waits for its data."""
    found = straggler_of(ranks)
    if found is None:
        return None
    name = found.rank.name_and_host
    own, others = (f"{ms:.2g} ms" for ms in (found.wait_ms, found.others_ms))
    is_two, waits = len(ranks) == 2, "waited" if ended else "waits"
    who, wait = ("other", waits) if is_two else ("others", "waited" if ended else "wait")
    they = "the other" if is_two else "they"
    figures = (f"it {waits} {own} per step for data, {they} {others}",)
    headline = f"The {who} {wait} for {name}"
    advised = f"look for what {name} loads more slowly: its data, its CPUs, its disk"
    return Evidence("ranks", f"{name} waits {own} for data", headline, figures, advised)
