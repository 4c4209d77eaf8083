"""The plan of a sweep: the combinations of options to run, and their order. Pure.

A round runs every combination once, and repeats are further rounds, so that slow changes of a
machine (heat, clocks, other users) affect all combinations alike.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from dlmon.records import PairRule, Slot, SweepHeader, SweptScript, Value, Variation
from dlmon.records.record import record

MAX_RUNS = 10_000
METRICS = ("seconds_per_epoch", "run_seconds", "step_ms", "ms_per_sample")
"""The metrics for comparing combinations. Each is a time: less is faster."""
HOST = "host"
"""The name of the option for the host of a run."""


class SweepError(ValueError):
    """A sweep is impossible; the message is one sentence for the user."""


@record(frozen=True)
class Combination:
    """A workload and a value for each varied option.

    Attributes:
        index: its index in `Plan.combinations`.
        workload: the name of the workload.
        varied: the values of the varied options, by name, in the order of the command line.
    """

    index: int
    workload: str
    varied: Mapping[str, Value]


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Attributes:
        workloads: the names of the workloads, in the order of their runs.
        variations: the varied options and their values.
        options: the options that all runs share, by name.
        metrics: the metric for each workload, one of `METRICS`.
        repeats: the number of runs of each combination.
        order: all runs, in their order.
        script: the command, if the runs are those of a person's script.
        pairs: the rule that ends the runs early, if two combinations are run in pairs.
        search_window_s: the steady training after which a run is ended, if further batch sizes
            follow from the runs before.
    """

    workloads: tuple[str, ...]
    variations: tuple[Variation, ...]
    options: Mapping[str, Value | None]
    metrics: Mapping[str, str]
    repeats: int
    order: tuple[Slot, ...]
    script: SweptScript | None = None
    pairs: PairRule | None = None
    search_window_s: float | None = None

    @cached_property
    def combinations(self) -> tuple[Combination, ...]:
        return combinations_of(self.workloads, self.variations)

    @property
    def is_repeat(self) -> bool:
        """True for runs of one and the same script; the first that fails ends them."""
        return self.script is not None and not self.variations

    @cached_property
    def slots(self) -> frozenset[Slot]:
        return frozenset(self.order)

    def widened(self, value: Value) -> Plan:
        """Return the plan with a run of one more value of its only varied option."""
        (variation,) = self.variations
        values = (*variation.values, value)
        order = (*self.order, Slot(len(variation.values), 0))
        return replace(self, variations=(Variation(variation.key, values),), order=order)

    @property
    def varied(self) -> tuple[str, ...]:
        return tuple(variation.key for variation in self.variations)

    def host_of(self, slot: Slot) -> str | None:
        """Return the name of the host of a run for ssh; None for this host."""
        return self._hosts[slot.combination]

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """The hosts of the runs, in the order of the command line."""
        return tuple(dict.fromkeys(self._hosts))

    @cached_property
    def _hosts(self) -> tuple[str | None, ...]:
        hosts = [c.varied.get(HOST, self.options.get(HOST)) for c in self.combinations]
        return tuple(None if host is None else f"{host}" for host in hosts)


def plan_of(header: SweepHeader) -> Plan:
    """Return the plan in the header of a sweep's log.

    Raises:
        SweepError: the plan is invalid.
    """
    metrics = {workload.name: workload.metric for workload in header.workloads}
    is_valid = set(metrics.values()) <= set(METRICS) and all(v.values for v in header.vary)
    if header.pairs is not None:
        is_valid = is_valid and [len(v.values) for v in header.vary] == [2]
    if header.search_window_s is not None:
        is_valid = is_valid and len(header.vary) == header.repeat == 1
    if header.script is not None:
        is_valid = is_valid and bool(header.script.command) and len(metrics) == 1
    if not is_valid or any(len(run) != 2 for run in header.order):
        raise SweepError("not the plan of a sweep")
    plan = Plan(
        workloads=tuple(metrics),
        variations=header.vary,
        options=header.options,
        metrics=metrics,
        repeats=header.repeat,
        order=tuple(Slot(*run) for run in header.order),
        script=header.script,
        pairs=header.pairs,
        search_window_s=header.search_window_s,
    )
    # Count first: a forged header may have more combinations than fit into memory.
    if number_of_runs(plan.workloads, plan.variations, plan.repeats) == len(plan.order):
        slots = {Slot(c.index, repeat) for c in plan.combinations for repeat in range(plan.repeats)}
        if slots == set(plan.order):
            return plan
    raise SweepError("the order of a sweep must hold each of its runs once")


def combinations_of(
    workloads: Sequence[str], variations: Sequence[Variation]
) -> tuple[Combination, ...]:
    """Return all combinations; the last option varies fastest, the workload slowest."""
    keys = [variation.key for variation in variations]
    choices = list(product(*(variation.values for variation in variations)))
    pairs = product(workloads, choices)
    return tuple(
        Combination(index, workload, dict(zip(keys, values, strict=True)))
        for index, (workload, values) in enumerate(pairs)
    )


def number_of_runs(workloads: Sequence[str], variations: Sequence[Variation], repeats: int) -> int:
    """Return the number of runs of a plan."""
    return len(workloads) * prod(len(variation.values) for variation in variations) * repeats


def check_number_of_runs(
    workloads: Sequence[str], variations: Sequence[Variation], repeats: int
) -> None:
    """Check that there are from 1 to `MAX_RUNS` runs.

    Raises:
        SweepError: there are more, or none.
    """
    if repeats < 1:
        raise SweepError(f"--repeat must be at least 1, not {repeats:,}")
    runs = number_of_runs(workloads, variations, repeats)
    if runs > MAX_RUNS:
        raise SweepError(f"that would be {runs:,} runs; a sweep has at most {MAX_RUNS:,}")


def fair_order(combinations: Sequence[Combination], repeats: int, seed: int) -> tuple[Slot, ...]:
    """Return an order of all runs that favors no combination.

    Each round runs the workloads in their order, and shuffles the combinations of each. Every
    second round reverses the order of the round before it, so that a steady change over two rounds
    has the same effect on each combination.
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
