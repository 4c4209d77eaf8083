"""The loops of each training process; loops that do the same are merged. Pure."""

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
    CodeSamples,
    Epoch,
    Model,
    StepParts,
    Throughput,
    TokenShares,
    Trainer,
)
from dlmon.records.record import record
from dlmon.records.words import TOKENS_PER_S
from dlmon.session.plain_batches import PlainBatches
from dlmon.session.time_breakdown import DataWait, RecentCode, StepMean, StepPartSums
from dlmon.statistics.projection import ValidationPasses
from dlmon.statistics.steady_state import SteadyState
from dlmon.statistics.totals import total

MAX_LOOPS = 1000
"""Beyond this number, further loops count as the last of them."""
ABOUT = 0.01
"""Loops whose samples differ by at most this share are alike, as in cross-validation."""
# Keras builds a network, and so knows its parameters, with the first batch.
_MOST_HELD = 8
# Keras numbers networks without a name of their own.
_NUMBER = re.compile(r"_\d+$")


def network_of(model: Model) -> str | None:
    """Return the name of a network, without the number that Keras may append."""
    if model.network is None or model.parameters is None:
        return model.network
    return _NUMBER.sub("", model.network)


def are_alike(model: Model, candidate: Model) -> bool:
    """Return whether two loops do the same: with the same network, batch size and samples."""
    if model.samples_per_epoch is None or candidate.samples_per_epoch is None:
        same_length = model.samples_per_epoch == candidate.samples_per_epoch
        same_length = same_length and model.steps_per_epoch == candidate.steps_per_epoch
    else:
        most = max(model.samples_per_epoch, candidate.samples_per_epoch)
        apart = abs(model.samples_per_epoch - candidate.samples_per_epoch)
        same_length = apart <= max(1, ABOUT * most)
    return same_length and (
        (network_of(model), model.parameters, model.batch_size)
        == (network_of(candidate), candidate.parameters, candidate.batch_size)
    )


@record(frozen=True)
class Shares:
    """The shares of tokens in sampled batches that are useful.

    Attributes:
        counts: the useful tokens and all tokens, by the name of the share.
        why: the reason why a share isn't known, by its name.
    """

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def plus(self, record: TokenShares) -> Shares:
        counts = dict(self.counts)
        for name, part in (("not_padding", record.not_padding), ("trained_on", record.trained_on)):
            if part is not None:
                parts, tokens = counts.get(name, (0, 0))
                counts[name] = parts + part, tokens + record.tokens
        why = {name: reason for name, reason in record.why.items() if name not in counts}
        return Shares(counts, why)

    def of(self, name: str) -> float | None:
        parts, tokens = self.counts.get(name, (0, 0))
        return parts / tokens if tokens else None


def in_tokens(record: Batches | BatchSummary) -> Batches | BatchSummary:
    """Return batches with their tokens as samples."""
    return replace(record, samples=record.tokens)  # type: ignore[arg-type]


class Loop:
    """The batches and epochs of one loop, or of several that do the same."""

    def __init__(self, model: Model | None = None) -> None:
        self.model = model
        """The last description."""
        self.count = 1
        """The number of the script's loops that were merged into this one."""
        self.steady = SteadyState()
        self.tokens: SteadyState | None = None
        """The steady state in tokens in place of samples; None if batches hold none."""
        self.shares = Shares()
        self.epochs: dict[int, Epoch] = {}
        """By their begin time."""
        self.held: list[tuple[Batches | BatchSummary, bool]] = []
        """The first batches, kept until the network is known."""
        self.compiling = {0 if model is None else model.first_epoch or 0}
        """The epochs in which it compiles."""
        self._validations: ValidationPasses | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the validations, which follow from the epochs."""
        return vars(self) | {"_validations": None}

    def merge(self, model: Model) -> None:
        """Continue with another of the script's loops; another network compiles again."""
        if self.model is not None and self.model.network != model.network:
            self.steady.compile_again()
            self.compiling.add(model.first_epoch or 0)
        self.model = model
        self.count += 1

    def add(self, record: Batches | BatchSummary, opening: bool = False) -> None:
        """Add batches; `opening` as in `SteadyState.add`."""
        if self.holds_batches:
            self.held.append((record, opening))
        self._add_to(self.steady, record, opening)
        if record.tokens is not None:
            self.tokens = self.tokens or SteadyState()
            self._add_to(self.tokens, in_tokens(record), opening)

    @property
    def holds_batches(self) -> bool:
        """True if it keeps its first batches, because the network isn't known yet."""
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

    def samples_per_second(self) -> Throughput | None:
        return self.steady.throughput()

    def tokens_per_second(self) -> Throughput | None:
        """Return the steady throughput in tokens; None before it, or if batches hold none."""
        rate = None if self.tokens is None else self.tokens.throughput()
        return None if rate is None else replace(rate, unit=TOKENS_PER_S)

    def add_epoch(self, epoch: Epoch) -> None:
        """Add an epoch that has ended, or replace it once its validation is known."""
        self.epochs[epoch.begin] = epoch
        self._validations = None

    @property
    def validations(self) -> ValidationPasses:
        """The validations of all epochs, cached: there may be thousands."""
        if self._validations is None:
            self._validations = ValidationPasses(e.validation for e in self.epochs.values())
        return self._validations

    @property
    def compile_s(self) -> float | None:
        """The compile time, with that of validations; None before the first batch."""
        compile_us = self.steady.compile_us()
        return None if compile_us is None else compile_us / 1e6 + self.validations.compile_s

    def whole_s(self, without: Epoch | None = None) -> tuple[list[float], list[float]]:
        """Return the times of whole epochs without a profile: that compiled, and the others.

        Args:
            without: an epoch that isn't over yet.
        """
        compiled: list[float] = []
        uncompiled: list[float] = []
        for epoch in self.epochs.values():
            if epoch.is_timed and epoch is not without:
                took_s = (epoch.end - epoch.begin) / 1e9
                (compiled if epoch.epoch in self.compiling else uncompiled).append(took_s)
        return compiled, uncompiled


class Loops:
    """All loops of one process. Only `Model` records tell which of them runs."""

    def __init__(self) -> None:
        self.all = [Loop()]
        self.now = self.all[0]
        """The loop that runs, or ran last."""

    def begin(self, model: Model) -> None:
        """Begin a loop, or describe the current one better."""
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
            # Only now it is known to be like an earlier one.
            self.all.remove(now)
        if alike is not None:
            alike.merge(model)
        elif len(self.all) < MAX_LOOPS:
            alike = Loop(model)
            self.all.append(alike)
        self.now = alike or self.all[-1]
        if is_the_same:
            for record, opening in now.held:
                self.now.add(record, opening)

    def alike(self, model: Model) -> Loop | None:
        return next(
            (loop for loop in self.all if loop.model and are_alike(loop.model, model)), None
        )

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
class ProcessRate:
    """The steady throughput of one training process; None before it is steady.

    Attributes:
        step_ms: the median time of its steady steps: one rank alone may stall at the start.
        wait: the wait for data of its newest steps, if measured.
        work: their time outside of backward and the optimizer, if measured.
        parts: the sums of their parts, if `work` is known.
        code: the newest samples of the script's own code.
        gpus: NVML's numbers of the GPUs that it trains on, on its host.
        is_of_tasks: whether several tasks of a Slurm step train.
        tokens_per_second: its throughput in tokens; None if samples hold none.
    """

    trainer: Trainer
    samples_per_second: float | None
    step_ms: float | None = None
    wait: StepMean | None = None
    work: StepMean | None = None
    parts: StepParts | None = None
    code: CodeSamples | None = None
    gpus: tuple[int, ...] = ()
    is_of_tasks: bool = False
    tokens_per_second: float | None = None

    @property
    def name(self) -> str:
        """Its rank, else its task, else its number."""
        task, number = divmod(self.trainer.number, NUMBERS_PER_PART)
        if self.trainer.rank is not None:
            return f"rank {self.trainer.rank}"
        if self.is_of_tasks and not number:
            return f"task {task}"
        return f"task {task}, process {number}" if self.is_of_tasks else f"process {number}"

    @property
    def name_and_host(self) -> str:
        """Its name with its host, if that is another one."""
        host = self.trainer.host
        return self.name if host is None else f"{self.name} on {host}"


class ProcessLoops:
    """The training processes of a script, and the loops of those besides number 0."""

    def __init__(self) -> None:
        self.known: dict[int, Trainer] = {}
        self.loops: defaultdict[int, Loops] = defaultdict(Loops)
        """By process, without number 0."""
        self._waits: defaultdict[int, DataWait] = defaultdict(DataWait)
        self._parts: defaultdict[int, StepPartSums] = defaultdict(StepPartSums)
        self._code: defaultdict[int, RecentCode] = defaultdict(RecentCode)
        self._epochs: defaultdict[int, dict[int, Epoch]] = defaultdict(dict)

    def add(
        self, record: Trainer | Model | Batches | BatchSummary | Epoch | StepParts | CodeSamples
    ) -> None:
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
            self._parts[number].add(record)
        elif isinstance(record, CodeSamples):
            self._code[number].add(record)
        elif isinstance(record, Model):
            self.loops[number].begin(record)
        else:
            self.loops[number].now.add(record)
            self._waits[number].add(record)

    @property
    def ranks(self) -> dict[int, int]:
        """The rank of each process of this host that trains now, by its pid."""
        here = (one for one in self.known.values() if one.host is None and not one.ended)
        return {one.pid: one.rank for one in here if one.rank is not None}

    def with_samples(self, epoch: Epoch) -> Epoch:
        """Return an epoch of process 0 with the samples of all processes."""
        epochs = self._epochs.get(epoch.epoch)
        if not epochs or epoch.samples is None:
            return epoch
        samples = sum(process_epoch.samples or 0 for process_epoch in epochs.values())
        tokens = epoch.tokens
        if tokens is not None:
            tokens += sum(process_epoch.tokens or 0 for process_epoch in epochs.values())
        return replace(epoch, samples=epoch.samples + samples, tokens=tokens)

    def _like(self, loop: Loop) -> dict[int, Loop]:
        """Return the loops of the other processes, by number, that are like one of process 0."""
        alike = {}
        for number, loops in self.loops.items():
            # Without descriptions of both, they can't be told apart.
            model = loop.model if loops.now.model is not None else None
            like = loops.now if model is None else loops.alike(model)
            if like is not None:
                alike[number] = like
        return alike

    def samples_of_all(self, loop: Loop) -> int | None:
        """Return the samples of a whole epoch of a loop, over all processes that share it."""
        models = (like.model for like in (loop, *self._like(loop).values()))
        return total(model.samples_per_epoch for model in models if model is not None)

    def peak_of_all(self, loop: Loop) -> float | None:
        """Return the peak operations per second of all devices of a loop; None if unknown."""
        peaks: dict[Any, float | None] = {}
        for number, like in ((0, loop), *self._like(loop).items()):
            trainer, model = self.known.get(number), like.model
            peak = None if model is None else model.peak_flop_s
            device = None if model is None else model.device
            # Several processes may share one device.
            key = (trainer.host if trainer else None, device or number)
            count = 1 if model is None else max(1, len(model.gpus))
            peaks[key] = None if peak is None else peak * count
        return total(peaks.values())

    def together(
        self, loop: Loop, of: Callable[[Loop], Throughput | None] = Loop.samples_per_second
    ) -> Throughput | None:
        """Return the throughput of all processes in a loop.

        They step together, so a slow one slows all: their errors add up.
        """
        main_rate = of(loop)
        if main_rate is None:
            return None
        other_rates = map(of, self._like(loop).values())
        rates = [main_rate, *(rate for rate in other_rates if rate is not None)]
        return Throughput(
            median=sum(rate.median for rate in rates),
            mean=sum(rate.mean for rate in rates),
            standard_error=total(rate.standard_error for rate in rates),
            jitter=sum(rate.jitter for rate in rates),
            band=total(rate.band for rate in rates),
            unit=main_rate.unit,
        )

    def rates(
        self, loop: Loop, own_wait: DataWait, own_parts: StepPartSums, own_code: RecentCode
    ) -> tuple[ProcessRate, ...]:
        """Return the throughput of each process in a loop; `own_…` is that of process 0."""
        rates, loops = [], self._like(loop)
        is_of_tasks = any(number >= NUMBERS_PER_PART for number in self.known)
        for number, trainer in sorted(self.known.items()):
            like = loop if number == 0 else loops.get(number)
            if like is None:
                rates.append(ProcessRate(trainer, None, is_of_tasks=is_of_tasks))
                continue
            rate, tokens = like.samples_per_second(), like.tokens_per_second()
            usual_us, wait = like.steady.usual_step_us, self._waits[number] if number else own_wait
            parts = self._parts[number] if number else own_parts
            code, work = self._code[number] if number else own_code, parts.own_work()
            process = ProcessRate(
                trainer,
                samples_per_second=None if rate is None else rate.mean,
                tokens_per_second=None if tokens is None else tokens.mean,
                step_ms=None if usual_us is None else usual_us / 1000,
                wait=wait.per_step(),
                work=work,
                parts=None if work is None else parts.recent,
                code=code.newest,
                gpus=() if like.model is None else like.model.gpus,
                is_of_tasks=is_of_tasks,
            )
            rates.append(process)
        return tuple(rates)
