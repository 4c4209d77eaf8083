"""A sweep: which combinations of options are run, and in which order. Pure.

A combination may be run several times. A round runs every combination once,
and all combinations are run before any is run again, so that what changes
slowly on a machine (heat, clocks, neighbours) meets all of them alike.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from dlmon.records import Slot, SweepHeader, Value, Variation
from dlmon.records.record import record

MAX_RUNS = 10_000
METRICS = ("seconds_per_epoch", "run_seconds", "step_ms", "ms_per_sample")
"""What combinations are compared by. Each is a time, so that less is faster."""
HOST = "host"
"""The option that says on which machine a run is made."""


class SweepError(ValueError):
    """A sweep that can't be; the message is one sentence for a person."""


@record(frozen=True)
class Combination:
    """One value of everything that is varied.

    Attributes:
        index: its place in `Plan.combinations`.
        varied: the value of each option that is varied, in the order they were given.
    """

    index: int
    workload: str
    varied: Mapping[str, Value]


@dataclass(frozen=True)
class Plan:
    """All that is to be run.

    Attributes:
        workloads: in the order they are run.
        variations: what is varied.
        options: the options that all runs share, by name.
        metrics: what the runs of each workload are compared by, one of `repeats.METRICS`.
        repeats: how often each combination is run.
        order: every run once, in the order they are run.
    """

    workloads: tuple[str, ...]
    variations: tuple[Variation, ...]
    options: Mapping[str, Value | None]
    metrics: Mapping[str, str]
    repeats: int
    order: tuple[Slot, ...]

    @cached_property
    def combinations(self) -> tuple[Combination, ...]:
        return combinations_of(self.workloads, self.variations)

    @property
    def varied(self) -> tuple[str, ...]:
        return tuple(variation.key for variation in self.variations)

    def host_of(self, slot: Slot) -> str | None:
        """Return the machine on which a run is made, as ssh knows it; None for this one."""
        return self._hosts[slot.combination]

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """The machines on which runs are made, each once, in the order they were given."""
        return tuple(dict.fromkeys(self._hosts))

    @cached_property
    def _hosts(self) -> tuple[str | None, ...]:
        named = [c.varied.get(HOST, self.options.get(HOST)) for c in self.combinations]
        return tuple(None if host is None else f"{host}" for host in named)


def plan_of(header: SweepHeader) -> Plan:
    """Return the plan that a sweep's log begins with.

    Raises:
        SweepError: it is none that can be followed.
    """
    metrics = {workload.name: workload.metric for workload in header.workloads}
    known = set(metrics.values()) <= set(METRICS) and all(v.values for v in header.vary)
    if not known or any(len(run) != 2 for run in header.order):
        raise SweepError("not the plan of a sweep")
    plan = Plan(
        workloads=tuple(metrics),
        variations=header.vary,
        options=header.options,
        metrics=metrics,
        repeats=header.repeat,
        order=tuple(Slot(*run) for run in header.order),
    )
    # Counted first: what a file claims may be more than memory can hold.
    if number_of_runs(plan.workloads, plan.variations, plan.repeats) == len(plan.order):
        every = {(c.index, repeat) for c in plan.combinations for repeat in range(plan.repeats)}
        if every == {(slot.combination, slot.repeat) for slot in plan.order}:
            return plan
    raise SweepError("the order of a sweep must hold each of its runs once")


def combinations_of(
    workloads: Sequence[str], variations: Sequence[Variation]
) -> tuple[Combination, ...]:
    """Return every combination; the last option varies fastest, the workload slowest."""
    keys = [variation.key for variation in variations]
    choices = list(product(*(variation.values for variation in variations)))
    pairs = product(workloads, choices)
    return tuple(
        Combination(index, workload, dict(zip(keys, values, strict=True)))
        for index, (workload, values) in enumerate(pairs)
    )


def number_of_runs(workloads: Sequence[str], variations: Sequence[Variation], repeats: int) -> int:
    """Return how many runs there are."""
    return len(workloads) * prod(len(variation.values) for variation in variations) * repeats


def check_number_of_runs(
    workloads: Sequence[str], variations: Sequence[Variation], repeats: int
) -> None:
    """Check that there are from 1 to `MAX_RUNS` runs.

    Raises:
        SweepError: there are more than `MAX_RUNS` runs, or none.
    """
    if repeats < 1:
        raise SweepError(f"--repeat must be at least 1, not {repeats:,}")
    runs = number_of_runs(workloads, variations, repeats)
    if runs > MAX_RUNS:
        raise SweepError(f"that would be {runs:,} runs; a sweep has at most {MAX_RUNS:,}")


def fair_order(combinations: Sequence[Combination], repeats: int, seed: int) -> tuple[Slot, ...]:
    """Return an order of all runs that favours no combination.

    Round after round; in a round workload after workload, as they are given,
    and within a workload its combinations shuffled. Every second round has them
    the other way round than the one before it, so what changes steadily over
    two rounds adds up to the same for each of them.

    Args:
        combinations: those of one plan.
        repeats: the number of rounds.
        seed: the same one gives the same order.
    """
    by_workload: dict[str, list[int]] = {}
    for combination in combinations:
        by_workload.setdefault(combination.workload, []).append(combination.index)
    shuffle = random.Random(seed).shuffle
    order: list[Slot] = []
    for repeat in range(repeats):
        for indices in by_workload.values():
            if repeat % 2:
                indices.reverse()
            else:
                shuffle(indices)
            order.extend(Slot(index, repeat) for index in indices)
    return tuple(order)
