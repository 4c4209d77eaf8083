"""The loops of each process that trains: what each came to, unlike ones apart. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from dlmon.records import (
    NUMBERS_PER_PART,
    Batches,
    BatchSummary,
    Epoch,
    Model,
    SamplesPerSecond,
    StepParts,
    TokenShares,
    Trainer,
)
from dlmon.records.record import record
from dlmon.session.plain_batches import PlainBatches
from dlmon.session.time_breakdown import DataWait, StepMean, StepPartSums
from dlmon.statistics.projection import ValidationPasses
from dlmon.statistics.steady_state import SteadyState

MAX_LOOPS = 1000
"""Once there are so many, whatever else trains counts as the last of them."""
ABOUT = 0.01
"""Loops whose samples differ by no more than this share are alike, as the folds of one set are."""
# Keras builds a network, and so knows its parameters, with the first batch.
_MOST_HELD = 8
# Keras numbers the networks that were given no name.
_NUMBER = re.compile(r"_\d+$")


def network_of(model: Model) -> str | None:
    """Return what a network is called, without the number that tells it from others of its kind."""
    if model.network is None or model.parameters is None:
        return model.network
    return _NUMBER.sub("", model.network)


def are_alike(one: Model, other: Model) -> bool:
    """Return whether two loops do the same: network, batch and samples are the same."""
    if one.samples_per_epoch is None or other.samples_per_epoch is None:
        same_length = one.samples_per_epoch == other.samples_per_epoch
        same_length = same_length and one.steps_per_epoch == other.steps_per_epoch
    else:
        most = max(one.samples_per_epoch, other.samples_per_epoch)
        apart = abs(one.samples_per_epoch - other.samples_per_epoch)
        same_length = apart <= max(1, ABOUT * most)
    return same_length and (
        (network_of(one), one.parameters, one.batch_size)
        == (network_of(other), other.parameters, other.batch_size)
    )


@record(frozen=True)
class Shares:
    """What share of the tokens of sampled batches means something.

    Attributes:
        counts: by name, how many tokens do, and of how many.
        why: why one isn't known, by its name.
    """

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def and_of(self, one: TokenShares) -> Shares:
        counts = dict(self.counts)
        for name, part in (("not_padding", one.not_padding), ("trained_on", one.trained_on)):
            if part is not None:
                parts, tokens = counts.get(name, (0, 0))
                counts[name] = parts + part, tokens + one.tokens
        why = {name: reason for name, reason in one.why.items() if name not in counts}
        return Shares(counts, why)

    def of(self, name: str) -> float | None:
        parts, tokens = self.counts.get(name, (0, 0))
        return parts / tokens if tokens else None


def in_tokens(record: Batches | BatchSummary) -> Batches | BatchSummary:
    """Return batches with tokens in the place of samples."""
    return replace(record, samples=record.tokens)  # type: ignore[arg-type]


class Loop:
    """Loops that are alike: what their batches and epochs came to."""

    def __init__(self, model: Model | None = None) -> None:
        self.model = model
        """As it was described last."""
        self.count = 1
        """So many of the script's loops it is."""
        self.steady = SteadyState()
        self.tokens: SteadyState | None = None
        """The same of tokens in the place of samples, where batches hold any."""
        self.shares = Shares()
        self.epochs: dict[int, Epoch] = {}
        """By when each began."""
        self.held: list[tuple[Batches | BatchSummary, bool]] = []
        """The first batches, as long as the network isn't known."""
        self.compiling = {0 if model is None else model.first_epoch or 0}
        """The epochs in which it compiles."""
        self._validations: ValidationPasses | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what follows from the epochs."""
        return vars(self) | {"_validations": None}

    def again(self, model: Model) -> None:
        """Go on as another of the script's loops; another network compiles anew."""
        if self.model is not None and self.model.network != model.network:
            self.steady.compile_again()
            self.compiling.add(model.first_epoch or 0)
        self.model = model
        self.count += 1

    def add(self, record: Batches | BatchSummary, opening: bool = False) -> None:
        """Take batches; `opening` as `SteadyState.add` takes it."""
        if self.holds_batches:
            self.held.append((record, opening))
        self._add_to(self.steady, record, opening)
        if record.tokens is not None:
            self.tokens = self.tokens or SteadyState()
            self._add_to(self.tokens, in_tokens(record), opening)

    @property
    def holds_batches(self) -> bool:
        """Whether it keeps its first batches: the network isn't known."""
        is_known = self.model is not None and self.model.parameters is not None
        return not is_known and len(self.held) < _MOST_HELD

    def add_plain(self, plain: PlainBatches) -> None:
        first, dt_us, times_us = plain.records[-1].first, plain.dt_us, plain.times_us
        self.steady.add_plain(dt_us, times_us, first)
        if self.tokens is not None:
            self.tokens.add_plain(dt_us, times_us, first)

    @staticmethod
    def _add_to(steady: SteadyState, record: Batches | BatchSummary, opening: bool) -> None:
        if isinstance(record, BatchSummary):
            steady.add_summary(record, opening)
            return
        steady.add(
            *(record.samples, record.dt_us, opening),
            *(record.opening_us, record.per_execution or 1, record.first),
            wait_us=record.wait_us,
        )

    def samples_per_second(self) -> SamplesPerSecond | None:
        return self.steady.samples_per_second()

    def tokens_per_second(self) -> SamplesPerSecond | None:
        """Return the steady throughput in tokens; None where batches hold none, or before it."""
        return None if self.tokens is None else self.tokens.samples_per_second()

    def add_epoch(self, epoch: Epoch) -> None:
        """Take an epoch that has ended, or that is known to have been validated."""
        self.epochs[epoch.begin] = epoch
        self._validations = None

    @property
    def validations(self) -> ValidationPasses:
        """Those of the epochs; of thousands worked out once, not with each look at them."""
        if self._validations is None:
            every = (epoch.validation for epoch in self.epochs.values())
            self._validations = ValidationPasses(every)
        return self._validations

    @property
    def compile_s(self) -> float | None:
        """What compiled, that of validations included; None before the first batch."""
        compile_us = self.steady.compile_us()
        return None if compile_us is None else compile_us / 1e6 + self.validations.compile_s

    def whole_s(self, without: Epoch | None = None) -> tuple[list[float], list[float]]:
        """Return what the whole epochs took: those in which it compiled, and the others.

        Args:
            without: one that is not over yet.
        """
        compiled: list[float] = []
        others: list[float] = []
        for epoch in self.epochs.values():
            if epoch.whole and epoch.end > epoch.begin and epoch is not without:
                took_s = (epoch.end - epoch.begin) / 1e9
                (compiled if epoch.epoch in self.compiling else others).append(took_s)
        return compiled, others


class Loops:
    """All loops of one process. The records of models alone say which of them runs."""

    def __init__(self) -> None:
        self.all = [Loop()]
        self.now = self.all[0]
        """The one that runs, or ran last."""

    def begin(self, model: Model) -> None:
        """Take a loop that begins, or what more is known of the one that runs."""
        now = self.now
        if now.model is None:
            now.model, now.compiling = model, {model.first_epoch or 0}
            return
        is_the_same = model.loop is None or model.loop == now.model.loop
        if is_the_same and (model.loop is None or are_alike(now.model, model)):
            now.model = model
            return
        alike = self.alike(model)
        if is_the_same and now.count == 1:
            if alike is None:
                now.model, now.held = model, []
                return
            # It was not known yet that it is like an earlier one.
            self.all.remove(now)
        if alike is not None:
            alike.again(model)
        elif len(self.all) < MAX_LOOPS:
            alike = Loop(model)
            self.all.append(alike)
        self.now = alike or self.all[-1]
        if is_the_same:
            for record, opening in now.held:
                self.now.add(record, opening)

    def alike(self, model: Model) -> Loop | None:
        known = ((loop, loop.model) for loop in self.all)
        return next((loop for loop, its in known if its and are_alike(its, model)), None)

    def of(self, epoch: Epoch) -> Loop:
        return next((loop for loop in self.all if epoch.begin in loop.epochs), self.now)

    @property
    def number(self) -> int:
        return self.all.index(self.now)

    @property
    def longest(self) -> Loop:
        return max(self.all, key=lambda loop: loop.steady.time_us)

    @property
    def seen(self) -> list[Loop]:
        return [loop for loop in self.all if loop.steady.batches or loop.epochs]


MAX_TRAINERS = 1024


@record(frozen=True)
class TrainerRate:
    """A process that trains, and its own steady throughput; None before it is steady.

    Attributes:
        step_ms: the mean time of its steady steps.
        wait: how long the newest of its steps waited for data, where that is measured.
        work: how long they took outside of backward and the optimiser, where that is measured.
        gpus: NVML's numbers of the GPUs that it trains on, on its machine.
        is_of_tasks: whether several tasks of a Slurm step train.
        tokens_per_second: its throughput in tokens, where samples hold any.
    """

    trainer: Trainer
    samples_per_second: float | None
    step_ms: float | None = None
    wait: StepMean | None = None
    work: StepMean | None = None
    gpus: tuple[int, ...] = ()
    is_of_tasks: bool = False
    tokens_per_second: float | None = None

    @property
    def name(self) -> str:
        """What it is called: its rank, else its task, else its number."""
        task, number = divmod(self.trainer.number, NUMBERS_PER_PART)
        if self.trainer.rank is not None:
            return f"rank {self.trainer.rank}"
        if self.is_of_tasks and not number:
            return f"task {task}"
        return f"task {task}, process {number}" if self.is_of_tasks else f"process {number}"

    @property
    def name_and_host(self) -> str:
        """The same with its machine, where that is another one."""
        host = self.trainer.host
        return self.name if host is None else f"{self.name} on {host}"


class Trainers:
    """Folds what the processes of a script report that train beside number 0."""

    def __init__(self) -> None:
        self.known: dict[int, Trainer] = {}
        self.loops: defaultdict[int, Loops] = defaultdict(Loops)
        """Of each but number 0."""
        self._waits: defaultdict[int, DataWait] = defaultdict(DataWait)
        self._parts: defaultdict[int, StepPartSums] = defaultdict(StepPartSums)
        self._epochs: defaultdict[int, dict[int, Epoch]] = defaultdict(dict)

    def fold(self, record: Trainer | Model | Batches | BatchSummary | Epoch | StepParts) -> None:
        if isinstance(record, Trainer):
            if record.number in self.known or len(self.known) < MAX_TRAINERS:
                self.known[record.number] = record
            return
        number = record.trainer or 0
        if number not in self.known:
            return
        if isinstance(record, Epoch):
            self._epochs[record.epoch][number] = record
        elif isinstance(record, StepParts):
            self._parts[number].fold(record)
        elif isinstance(record, Model):
            self.loops[number].begin(record)
        else:
            self.loops[number].now.add(record)
            self._waits[number].fold(record)

    def with_samples(self, epoch: Epoch) -> Epoch:
        """Return an epoch of number 0 with the samples of all of them."""
        others = self._epochs.get(epoch.epoch)
        if not others or epoch.samples is None:
            return epoch
        samples = sum(other.samples or 0 for other in others.values())
        tokens = epoch.tokens
        if tokens is not None:
            tokens += sum(other.tokens or 0 for other in others.values())
        return replace(epoch, samples=epoch.samples + samples, tokens=tokens)

    def _like(self, loop: Loop) -> dict[int, Loop]:
        """Return the loop of each but number 0 that is like one of number 0."""
        found = {}
        for number, loops in self.loops.items():
            # Without a description of both, there is no telling them apart.
            described = loop.model if loops.now.model is not None else None
            alike = loops.now if described is None else loops.alike(described)
            if alike is not None:
                found[number] = alike
        return found

    def samples_of_all(self, loop: Loop) -> int | None:
        """Return the samples of a whole epoch of a loop, those of all processes that share it."""
        models = (one.model for one in (loop, *self._like(loop).values()))
        known = [model.samples_per_epoch for model in models if model is not None]
        return None if None in known or not known else sum(each or 0 for each in known)

    def peak_of_all(self, loop: Loop) -> float | None:
        """Return the most operations per second of all devices that train a loop; None unknown."""
        peaks: dict[Any, float | None] = {}
        for number, one in ((0, loop), *self._like(loop).items()):
            trainer, model = self.known.get(number), one.model
            peak = None if model is None else model.peak_flop_s
            device = None if model is None else model.device
            # Several processes may share one.
            place = (trainer.host if trainer else None, device or number)
            count = 1 if model is None else max(1, len(model.gpus))
            peaks[place] = None if peak is None else peak * count
        known = [peak for peak in peaks.values() if peak is not None]
        return sum(known) if len(known) == len(peaks) else None

    def together(
        self,
        loop: Loop,
        of: Callable[[Loop], SamplesPerSecond | None] = Loop.samples_per_second,
    ) -> SamplesPerSecond | None:
        """Return the throughput of all of them in a loop.

        They step together, so what makes one slow makes all: errors add up.
        """
        own, others = of(loop), [of(one) for one in self._like(loop).values()]
        known = [other for other in others if other is not None]
        if own is None or not known:
            return own
        everyone = [own, *known]
        errors = [one.standard_error for one in everyone if one.standard_error is not None]
        bands = [one.band for one in everyone if one.band is not None]
        return SamplesPerSecond(
            median=sum(one.median for one in everyone),
            mean=sum(one.mean for one in everyone),
            standard_error=sum(errors) if len(errors) == len(everyone) else None,
            jitter=sum(one.jitter for one in everyone),
            band=sum(bands) if len(bands) == len(everyone) else None,
        )

    def rates(
        self,
        own: SamplesPerSecond | None,
        loop: Loop,
        own_wait: DataWait,
        own_parts: StepPartSums,
    ) -> tuple[TrainerRate, ...]:
        """Return each process, with its throughput in a loop; `own` is that of number 0."""
        found, others = [], self._like(loop)
        is_of_tasks = any(number >= NUMBERS_PER_PART for number in self.known)
        for number, trainer in sorted(self.known.items()):
            like = loop if number == 0 else others.get(number)
            if like is None:
                found.append(TrainerRate(trainer, None, is_of_tasks=is_of_tasks))
                continue
            rate = like.steady.samples_per_second() if number else own
            tokens = like.tokens_per_second()
            mean_us, wait = like.steady.mean_step_us, self._waits[number] if number else own_wait
            each = TrainerRate(
                trainer,
                samples_per_second=None if rate is None else rate.mean,
                tokens_per_second=None if tokens is None else tokens.mean,
                step_ms=None if mean_us is None else mean_us / 1000,
                wait=wait.per_step(),
                work=(self._parts[number] if number else own_parts).own_work(),
                gpus=() if like.model is None else like.model.gpus,
                is_of_tasks=is_of_tasks,
            )
            found.append(each)
        return tuple(found)
