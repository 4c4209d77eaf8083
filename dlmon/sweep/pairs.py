"""The pairs of an experiment: their ratios, which of them count, and when there are enough. Pure.

Both combinations of the plan are run in each round. The first round warms up what later runs find
(page cache, compiled kernels) and counts in no figure; each later round is a pair.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from dlmon.comparison.compared_run import rate_of_script, timing_by
from dlmon.quantities import STEPS_PER_SECOND
from dlmon.records import Doubt, Outcome, PairRule, Result, RunStatus, Slot
from dlmon.records.record import record
from dlmon.statistics.pairs import PairedRatio, is_proven_early, paired_ratio, pairs_needed
from dlmon.sweep.progress import Sweep

MOST_PAIRS = 100
"""The pairs that a plan has room for; the rule ends nearly all experiments before."""
BASE, NEW = 0, 1
"""The indices of the two combinations."""

OF_THE_MACHINE = (
    Doubt.THROTTLED,
    Doubt.GPU_SHARED,
    Doubt.CPU_SHARED,
    Doubt.BUSY_AT_START,
    Doubt.STEAL,
    Doubt.ON_BATTERY,
)
"""Warnings for which a pair is set aside if they hold for one of its runs alone."""
# A side that has a warning in more of its runs than this brings it about itself.
_BY_CHANCE = 0.5
_BROKEN = (RunStatus.FAILED, RunStatus.OUT_OF_MEMORY, RunStatus.IMPOSSIBLE)


@record(frozen=True)
class Pair:
    """One run of each side, made after each other or in turns.

    Attributes:
        number: from 1.
        base, new: the results of both runs.
        rates: the rates of both, in the unit of `rate_metric` or, in turns, in samples or steps;
            None if a run has none.
        set_aside: the warning for which the pair doesn't count, with the side that has it.
        error: the standard error of the logarithm of its ratio, by turns; None without them.
    """

    number: int
    base: Result
    new: Result
    rates: tuple[float | None, float | None]
    set_aside: tuple[Doubt, int] | None = None
    error: float | None = None

    @property
    def ratio(self) -> float | None:
        """The rate of new over that of base; None if one of them has no rate."""
        base, new = self.rates
        return new / base if base and new and math.isfinite(new / base) else None


def rate_metric(sweep: Sweep) -> str:
    """Return the rate that the sides are compared by: the finest that all runs have."""
    results = [_result(outcome) for pair in _rounds(sweep) for outcome in pair]
    in_turns = any(outcome.rate is not None for pair in _rounds(sweep) for outcome in pair)
    # Turns count samples, or steps.
    metrics = {rate_of_script(result, with_tokens=not in_turns) for result in results}
    return metrics.pop() if len(metrics) == 1 else STEPS_PER_SECOND


def pairs_of(sweep: Sweep) -> tuple[Pair, ...]:
    """Return the pairs that are complete, in the order in which they were run."""
    metric, rounds = rate_metric(sweep), _rounds(sweep)[1:]
    warnings = [[_warnings(outcome) for outcome in pair] for pair in rounds]
    caused = {
        (doubt, side)
        for side in (BASE, NEW)
        for doubt, count in Counter(d for pair in warnings for d in pair[side]).items()
        if len(rounds) > 1 and count > _BY_CHANCE * len(rounds)
    }
    return tuple(
        Pair(
            number,
            _result(base),
            _result(new),
            (_rate(base, metric), _rate(new, metric)),
            _reason(of_pair, caused),
            base.ratio_error,
        )
        for number, ((base, new), of_pair) in enumerate(zip(rounds, warnings, strict=True), 1)
    )


def _reason(
    of_pair: Sequence[frozenset[Doubt]], caused: set[tuple[Doubt, int]]
) -> tuple[Doubt, int] | None:
    """Return the first warning that one run of a pair alone has, unless its side causes it."""
    for doubt in OF_THE_MACHINE:
        sides = [side for side in (BASE, NEW) if doubt in of_pair[side]]
        if len(sides) == 1 and (doubt, sides[0]) not in caused:
            return doubt, sides[0]
    return None


def _rounds(sweep: Sweep) -> list[tuple[Outcome, Outcome]]:
    """Return the rounds of which both runs completed, the first round included."""
    rounds = []
    for repeat in range(sweep.plan.repeats):
        base, new = (sweep.outcomes.get(Slot(side, repeat)) for side in (BASE, NEW))
        if base is not None and new is not None and _is_complete(base) and _is_complete(new):
            rounds.append((base, new))
    return rounds


def _is_complete(outcome: Outcome) -> bool:
    return outcome.status == RunStatus.COMPLETED and outcome.result is not None


def _result(outcome: Outcome) -> Result:
    assert outcome.result is not None
    return outcome.result


def _warnings(outcome: Outcome) -> frozenset[Doubt]:
    """Return what a run met that its pair may be set aside for; runs in turns met the same."""
    if outcome.rate is not None:
        return frozenset()
    return frozenset(doubt for doubt in OF_THE_MACHINE if doubt in (_result(outcome).against or {}))


def _rate(outcome: Outcome, metric: str) -> float | None:
    if outcome.rate is not None:
        return outcome.rate
    rate = timing_by(metric, _result(outcome))
    return None if rate is None else rate.value


@record(frozen=True)
class Verdict:
    """What the pairs say so far.

    Attributes:
        pairs: the complete pairs.
        ratio: the ratio of the pairs that count; None without one.
        with_all: the same with the pairs that were set aside; None if none was.
        needed: the number of pairs that give the width that was asked for, or the proof; None if
            not yet known.
        metric: the rate that is compared.
        is_over: no pair follows.
    """

    pairs: tuple[Pair, ...]
    ratio: PairedRatio | None
    with_all: PairedRatio | None
    needed: int | None
    metric: str
    is_over: bool

    @property
    def set_aside(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if pair.set_aside is not None)

    @property
    def counted(self) -> tuple[Pair, ...]:
        """The pairs whose ratio counts."""
        return tuple(p for p in self.pairs if p.set_aside is None and p.ratio is not None)

    @property
    def is_settled(self) -> bool:
        """Whether the pairs may be judged: at their end, or once there are as many as it takes."""
        return self.is_over or self.missing == 0

    @property
    def is_proven(self) -> bool:
        return self.is_settled and self.ratio is not None and self.ratio.is_proven

    @property
    def missing(self) -> int | None:
        """The number of pairs that are still needed; None if not yet known."""
        return None if self.needed is None else max(0, self.needed - len(self.counted))


def verdict_of(sweep: Sweep) -> Verdict:
    """Return what the pairs of an experiment say so far."""
    rule, pairs = sweep.plan.pairs, pairs_of(sweep)
    assert rule is not None
    counted = _ratios_of(pair for pair in pairs if pair.set_aside is None)
    every = _ratios_of(pairs)
    is_proven = rule.until_proven and is_proven_early(*counted)
    return Verdict(
        pairs=pairs,
        ratio=paired_ratio(*counted),
        with_all=paired_ratio(*every) if every != counted else None,
        needed=len(counted[0]) if is_proven else pairs_needed(*counted, rule.to),
        metric=rate_metric(sweep),
        is_over=sweep.closed is not None,
    )


def _ratios_of(pairs: Iterable[Pair]) -> tuple[list[float], list[float | None]]:
    """Return the ratios of the pairs that have one, and the errors of their logarithms."""
    known = [(pair.ratio, pair.error) for pair in pairs if pair.ratio is not None]
    return [ratio for ratio, _ in known], [error for _, error in known]


def least_seconds(rule: PairRule) -> float:
    """Return the time that an experiment needs for the first run of each side and a pair."""
    return 4 * (rule.window_s or 0.0)


def is_slower_by(verdict: Verdict, share: float) -> bool | None:
    """Return whether all of the interval shows the new side slower by more than `share`.

    None without an interval.
    """
    high = None if verdict.ratio is None else verdict.ratio.high
    return None if high is None else high < 1 - share


def broken_run(sweep: Sweep) -> tuple[Slot, Outcome] | None:
    """Return the first run that failed or could not begin, which ends an experiment."""
    broken = (
        (slot, outcome)
        for slot, outcome in sweep.outcomes.items()
        if outcome.status in _BROKEN or (outcome.session is None and outcome.result is None)
    )
    return next(broken, None)


def run_without_rate(sweep: Sweep) -> Result | None:
    """Return the first run of a side if it had no throughput: no other run would have one."""
    outcomes = (sweep.outcomes.get(Slot(side, 0)) for side in (BASE, NEW))
    firsts = (_result(outcome) for outcome in outcomes if outcome and _is_complete(outcome))
    return next((first for first in firsts if first.samples_per_second is None), None)


def pair_s(sweep: Sweep) -> float | None:
    """Return the mean time of a pair, its starts included; None before one is complete."""
    times = [o.took_s for o in sweep.outcomes.values() if o.took_s is not None]
    return 2 * sum(times) / len(times) if len(times) > 1 else None


def seconds_left(sweep: Sweep) -> float | None:
    """Return the time of the missing pairs, within that of the experiment.

    None if it isn't known, or if no pair is missing.
    """
    rule, missing, took_s = sweep.plan.pairs, verdict_of(sweep).missing, pair_s(sweep)
    if rule is None or not missing or took_s is None:
        return None
    return max(0.0, min(missing * took_s, rule.for_s - _spent_s(sweep)))


def _spent_s(sweep: Sweep) -> float:
    return sum(outcome.took_s or 0.0 for outcome in sweep.outcomes.values())


def is_enough(sweep: Sweep) -> bool:
    """Return whether an experiment needs no further run.

    Repeats of one command end with one that failed. Pairs end with a run that failed or ran
    without its injection, with the width or the proof that was asked for, or before their time is
    over. A pair that has begun is completed.
    """
    rule = sweep.plan.pairs
    if rule is None:
        return sweep.plan.is_repeat and broken_run(sweep) is not None
    if broken_run(sweep) is not None or run_without_rate(sweep) is not None:
        return True
    if sum(map(sweep.is_over, sweep.outcomes)) % 2:
        return False
    if _spent_s(sweep) + (pair_s(sweep) or 0.0) > rule.for_s:
        return True
    return verdict_of(sweep).missing == 0
