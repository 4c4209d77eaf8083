"""A sweep: which combinations of options are run, in which order, and how each run ended. Pure.

A combination may be run several times. A round runs every combination once,
and all combinations are run before any is run again, so that what changes
slowly on a machine (heat, clocks, neighbours) meets all of them alike.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

from dlmon.numbers import whole_number
from dlmon.records import Result
from dlmon.records.sanitize import SHOWN_LENGTH, clean, quoted

Value = str | int | float
"""A value that an option of `run` can have."""

COMPLETED, FAILED, OUT_OF_MEMORY = "completed", "failed", "out of memory"
IMPOSSIBLE, NOT_RUN = "impossible", "not run"
STATUSES = (COMPLETED, FAILED, OUT_OF_MEMORY, IMPOSSIBLE, NOT_RUN)
MOST_RUNS = 10_000

# With what a workload ends whose options can't be run where it is.
WORKLOAD_REFUSED = 69
# How a workload, or the kernel's verdict on it, tells that memory ran out.
_MEMORY_RAN_OUT = "memory ran out"
_LEADING_ZERO = re.compile(r"0\d+", re.ASCII)
# What stands before the comma of a number that is written as 1,024.
_THOUSANDS = re.compile(r"[1-9]\d{0,2}", re.ASCII)


class SweepError(ValueError):
    """A sweep that can't be; the message is one sentence for a person."""


@dataclass(frozen=True)
class Variation:
    """One option that is varied, and the values that it takes."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
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
class Slot:
    """One run to be: a combination, and which of its repeats, from 0."""

    combination: int
    repeat: int


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
        """Every combination; the last option varies fastest, the workload slowest."""
        return combinations_of(self.workloads, self.variations)

    @property
    def varied(self) -> tuple[str, ...]:
        """The names of the options that are varied."""
        return tuple(variation.key for variation in self.variations)

    def check(self) -> None:
        """Check that the order holds every run once.

        Raises:
            SweepError: it doesn't.
        """
        runs = number_of_runs(self.workloads, self.variations, self.repeats)
        # Counted first: what a file claims may be more than memory can hold.
        if runs == len(self.order):
            every = {(c.index, r) for c in self.combinations for r in range(self.repeats)}
            if every == {(slot.combination, slot.repeat) for slot in self.order}:
                return
        raise SweepError("the order of a sweep must hold each of its runs once")


def read_variation(text: str, keys: Sequence[str], read: Callable[[str, str], Value]) -> Variation:
    """Read what `--vary` says, such as batch_size=32,64,128.

    Args:
        text: a key, `=`, and values with commas between them.
        keys: the options that can be varied.
        read: turns a key and the text of a value into the value; raises
            SweepError where it can't be read.

    Raises:
        SweepError: not of that form, no such option, or a value twice, empty,
            unreadable or written with a comma in it.
    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise SweepError(f"--vary takes KEY=A,B,... such as batch_size=32,64, not {quoted(text)}")
    key = name.strip().lstrip("-").replace("-", "_")
    if key not in keys:
        raise SweepError(_unknown_key(key, keys))
    texts = listed.split(",")
    if not listed.strip(", "):
        raise SweepError(f"--vary {key}= names no values: write {key}=A,B")
    if not all(text.strip() for text in texts):
        raise SweepError(
            f"--vary {key}={clean(listed, SHOWN_LENGTH)} has an empty value: take a comma out"
        )
    for text in texts:
        if text != text.strip():
            raise SweepError(
                f"--vary {key} has blanks around {quoted(text.strip())}: leave them out"
            )
    _refuse_leading_zeros(key, texts)
    values = tuple(read(key, part) for part in texts)
    for index, value in enumerate(values):
        if value in values[:index]:
            raise SweepError(f"--vary {key} names {clean(f'{value}', SHOWN_LENGTH)} twice")
    return Variation(key, values)


def _refuse_leading_zeros(key: str, texts: Sequence[str]) -> None:
    """Refuse 1,024: commas part the values, so it would be 1 and 24."""
    for index, part in enumerate(texts):
        if not _LEADING_ZERO.fullmatch(part):
            continue
        before = texts[index - 1] if index else ""
        if _THOUSANDS.fullmatch(before):
            write = f"{before}{part} without a comma"
        else:
            write = f"{part.lstrip('0') or '0'} without a zero before it"
        raise SweepError(
            f"--vary {key} has the value {quoted(part)}: write {clean(write, SHOWN_LENGTH)}"
        )


def read_variations(
    texts: Sequence[str], keys: Sequence[str], read: Callable[[str, str], Value]
) -> tuple[Variation, ...]:
    """Read all that `--vary` says.

    Raises:
        SweepError: one of them is wrong, or two vary the same option.
    """
    variations = tuple(read_variation(text, keys, read) for text in texts)
    varied = [variation.key for variation in variations]
    for index, key in enumerate(varied):
        if key in varied[:index]:
            raise SweepError(f"--vary names {key} twice: write all its values after one {key}=")
    return variations


def combinations_of(
    workloads: Sequence[str], variations: Sequence[Variation]
) -> tuple[Combination, ...]:
    """Return every combination; the last option varies fastest, the workload slowest."""
    keys = [variation.key for variation in variations]
    choices = list(product(*(variation.values for variation in variations)))
    told = product(workloads, choices)
    return tuple(
        Combination(index, workload, dict(zip(keys, values, strict=True)))
        for index, (workload, values) in enumerate(told)
    )


def number_of_runs(workloads: Sequence[str], variations: Sequence[Variation], repeats: int) -> int:
    """Return how many runs there are."""
    return len(workloads) * prod(len(variation.values) for variation in variations) * repeats


def read_repeats(text: str) -> int:
    """Return how often each combination is run.

    Raises:
        SweepError: it is no whole number.
    """
    try:
        return whole_number(text)
    except (ValueError, OverflowError):
        raise SweepError(
            f"how often each combination is run is a whole number, not {quoted(text)}"
        ) from None


def check_number_of_runs(
    workloads: Sequence[str], variations: Sequence[Variation], repeats: int
) -> None:
    """Refuse what would never end.

    Raises:
        SweepError: there are more than `MOST_RUNS` runs, or none.
    """
    if repeats < 1:
        raise SweepError(f"--repeat must be at least 1, not {repeats:,}")
    runs = number_of_runs(workloads, variations, repeats)
    if runs > MOST_RUNS:
        raise SweepError(f"that would be {runs:,} runs; a sweep has at most {MOST_RUNS:,}")


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


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        status: one of `STATUSES`; `not run` also for one that was stopped or interrupted.
        reason: why it did not complete; None where it did.
        session: the id of its session; None where there was none.
        result: what the session ended with; None where it told nothing.
        took_s: from its launch to its end.
    """

    status: str
    reason: str | None = None
    session: str | None = None
    result: Result | None = None
    took_s: float | None = None


@dataclass(frozen=True)
class Began:
    """A run that has begun, in a session."""

    slot: Slot
    session: str
    wall: float


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    slot: Slot
    outcome: Outcome
    wall: float


@dataclass(frozen=True)
class Resumed:
    """The sweep was taken up again."""

    wall: float


@dataclass(frozen=True)
class Closed:
    """The sweep went no further: `completed`, or `stopped`."""

    status: str
    wall: float


Event = Began | Ended | Resumed | Closed


@dataclass
class Sweep:
    """How far a sweep has come: a plan, and what was told since.

    Attributes:
        outcomes: how runs ended.
        sessions: which run each session was, by its id; also of those that were made again.
        running: the run that has begun and not ended; None between two.
        closed: completed or stopped once it went no further; None before.
    """

    plan: Plan
    outcomes: dict[Slot, Outcome] = field(default_factory=dict)
    sessions: dict[str, Slot] = field(default_factory=dict)
    running: Began | None = None
    closed: str | None = None

    def fold(self, event: Event) -> None:
        """Take what was told next; runs that the plan doesn't know are passed over."""
        match event:
            case Began(slot=slot) if slot in self._slots:
                self.running = event
                self.sessions[event.session] = slot
            case Ended(slot=slot, outcome=outcome) if slot in self._slots:
                self.outcomes[slot] = outcome
                if self.running is not None and self.running.slot == slot:
                    self.running = None
            case Resumed():
                self.closed = None
                self._forget_what_never_began()
            case Closed(status=status):
                self.closed = status

    def _forget_what_never_began(self) -> None:
        """Judge again what had no session: the machine, or where we are on it, may be another."""
        self.outcomes = {
            slot: outcome
            for slot, outcome in self.outcomes.items()
            if outcome.status != IMPOSSIBLE or outcome.session is not None
        }

    def left(self) -> list[Slot]:
        """Return the runs that have still to be made, in their order.

        A run that failed is over; one that was stopped or interrupted has to be made.
        """
        return [slot for slot in self.plan.order if not self.is_over(slot)]

    @property
    def combinations_over(self) -> int:
        """How many combinations have no run left to be made."""
        return len(self.plan.combinations) - len({slot.combination for slot in self.left()})

    def is_over(self, slot: Slot) -> bool:
        """Tell whether a run needs not be made any more."""
        outcome = self.outcomes.get(slot)
        return outcome is not None and outcome.status != NOT_RUN

    def seconds_left(self, running_for_s: float = 0.0) -> float | None:
        """Return how long the rest will take, None before anything can be told.

        A run takes as long as the earlier ones of its combination, else of its
        workload, else of all.

        Args:
            running_for_s: how long the run that has begun has taken.
        """
        known: dict[object, list[float]] = {}
        combinations = self.plan.combinations
        for slot, outcome in self.outcomes.items():
            if outcome.took_s is None or outcome.status != COMPLETED:
                continue
            workload = combinations[slot.combination].workload
            for key in (slot.combination, workload, None):
                known.setdefault(key, []).append(outcome.took_s)
        if not known:
            return None
        total = 0.0
        for slot in self.left():
            workload = combinations[slot.combination].workload
            keys: tuple[object, ...] = (slot.combination, workload, None)
            took = next(known[key] for key in keys if key in known)
            takes_s = sum(took) / len(took)
            if self.running is not None and self.running.slot == slot:
                takes_s = max(0.0, takes_s - running_for_s)
            total += takes_s
        return total

    @cached_property
    def _slots(self) -> frozenset[Slot]:
        return frozenset(self.plan.order)


def outcome_of(
    result: Result | None, session: str, took_s: float | None, trouble: str | None = None
) -> Outcome:
    """Return how a run ended, from the result of its session.

    Args:
        result: what its log ends with; None where it has none.
        session: its id.
        took_s: from its launch to its end.
        trouble: why there is no result.
    """
    if result is None:
        return Outcome(NOT_RUN, trouble or "interrupted: it left no result", session, None, took_s)
    if result.status == "completed":
        return Outcome(COMPLETED, None, session, result, took_s)
    if result.status == "stopped":
        return Outcome(NOT_RUN, "stopped before its end", session, result, took_s)
    reason = result.error or "it failed and gave no reason"
    if _MEMORY_RAN_OUT in reason:
        return Outcome(OUT_OF_MEMORY, reason, session, result, took_s)
    status = IMPOSSIBLE if result.exit_code == WORKLOAD_REFUSED else FAILED
    return Outcome(status, reason, session, result, took_s)


def _unknown_key(key: str, keys: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    part = [known for known in keys if key and key in known.split("_")]
    told = f"did you mean {(part or nearest)[0]}?" if part or nearest else f"use {', '.join(keys)}"
    return f"there is no option {quoted(key)} to vary; {told}"
