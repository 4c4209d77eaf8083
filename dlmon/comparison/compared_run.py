"""One run as it is compared: what it did, how it was made, and what it came to."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from dlmon.comparison.conditions import Conditions
from dlmon.comparison.same_script import Script
from dlmon.quantities import (
    BY_KEY,
    SAMPLES_PER_SECOND,
    STEP_MS,
    STEPS_PER_SECOND,
    TOKENS_PER_SECOND,
    Throughputs,
)
from dlmon.records import (
    TITLES,
    MachineFacts,
    RunSeconds,
    SamplesPerSecond,
    SecondsPerEpoch,
    Status,
    StepTime,
)
from dlmon.records.record import record
from dlmon.statistics.ratios import Error
from dlmon.statistics.series import Series

BACKEND = "backend"
"""What Keras runs on; of a script what it was seen to run on, where the log says it."""
# Where the log is kept and how a run is watched changes nothing of it.
_OF_NO_EFFECT = frozenset({"log_dir", "detach", "name", "note"})

_LOWER_IS_BETTER = {
    "loss", "error", "err", "mae", "mse", "rmse", "mape", "msle", "perplexity", "ppl", "nll",
    "wer", "cer", "fid", "crossentropy", "divergence", "hinge",
}  # fmt: skip
_HIGHER_IS_BETTER = {
    "accuracy", "acc", "auc", "auroc", "precision", "recall", "f1", "iou", "miou", "dice", "bleu",
    "rouge", "map", "r2", "psnr", "ssim", "ndcg", "mrr",
}  # fmt: skip
# Of these, such as neg_log_loss or loss_scale, the rest of the name says nothing.
_TELLS_NOTHING = {"neg", "negative", "scale", "weight", "norm"}
_WORDS = re.compile(r"[^\W_]+")


def lower_is_better(name: str) -> bool | None:
    """Return whether less of a metric is better; None where its name doesn't tell."""
    words = {word.lower() for word in _WORDS.findall(name)}
    if words & _TELLS_NOTHING:
        return None
    lower, higher = bool(words & _LOWER_IS_BETTER), bool(words & _HIGHER_IS_BETTER)
    if lower == higher:
        return True if name.lower().endswith(("loss", "error")) else None
    return lower


@record(frozen=True)
class SteadyFigure:
    """What a run is compared by in its steady state, with its band where that is known.

    It is the mean time of a batch, as published times of a batch are means, or the throughput, by
    which scripts without epochs are compared.
    """

    value: float
    low: float | None = None
    high: float | None = None
    unit: str = "ms"
    projected: bool = False


Timing = SecondsPerEpoch | RunSeconds | SteadyFigure

RATE_UNITS = {
    key: BY_KEY[key].unit for key in (SAMPLES_PER_SECOND, STEPS_PER_SECOND, TOKENS_PER_SECOND)
}
"""The metrics of which more is faster."""


def pace_of(timing: Timing) -> float:
    """Return how long a run takes for what it is compared by: less is faster."""
    return 1 / timing.value if getattr(timing, "unit", "s").endswith("/s") else timing.value


def _throughput_of(metric: str, figures: Figures) -> SteadyFigure | None:
    """Return a throughput; that in steps also where samples were counted."""
    unit, is_in_tokens = RATE_UNITS[metric], metric == TOKENS_PER_SECOND
    rate = figures.tokens_per_second if is_in_tokens else figures.samples_per_second
    if is_in_tokens or bool(figures.counts_steps) == (metric == STEPS_PER_SECOND):
        if rate is None or not is_time(rate.mean):
            return None
        if rate.band is None or not 0 <= rate.band < rate.mean:
            return SteadyFigure(rate.mean, None, None, unit)
        return SteadyFigure(rate.mean, rate.mean - rate.band, rate.mean + rate.band, unit)
    step = timing_of_step(figures.step_ms, rate)
    if metric == SAMPLES_PER_SECOND or step is None or not is_time(step.value):
        return None
    low, high = (None if end is None else 1000 / end for end in (step.high, step.low))
    return SteadyFigure(1000 / step.value, low, high, unit)


def timing_of_step(step: StepTime | None, rate: SamplesPerSecond | None) -> SteadyFigure | None:
    """Return the time of a batch as it is compared, None before there is one.

    A log without the mean step has the throughput's mean and median: of batches of
    one size, their ratio is that of the steps.
    """
    if step is None:
        return None
    value = step.mean
    if value is None:
        if rate is None or not is_time(rate.mean):
            return None
        value = step.median * rate.median / rate.mean
    if rate is None or rate.band is None or not 0 <= rate.band < rate.mean:
        return SteadyFigure(value)
    share = rate.band / rate.mean
    return SteadyFigure(value, value / (1 + share), value / (1 - share))


class Figures(Throughputs, Protocol):
    """What is known of a run, as it goes on or as it ended."""

    @property
    def seconds_per_epoch(self) -> SecondsPerEpoch | None: ...

    @property
    def run_seconds(self) -> RunSeconds | None: ...

    @property
    def step_ms(self) -> StepTime | None: ...


def metric_of_script(figures: Figures) -> str:
    """Return what a script is compared by: its epochs, else tokens, else samples, else steps."""
    if figures.seconds_per_epoch is not None or figures.samples_per_second is None:
        return "seconds_per_epoch"
    return rate_of_script(figures)


def rate_of_script(figures: Figures) -> str:
    """Return the throughput that a script without epochs is compared by."""
    if figures.tokens_per_second is not None:
        return TOKENS_PER_SECOND
    return STEPS_PER_SECOND if figures.counts_steps else SAMPLES_PER_SECOND


def timing_by(metric: str, figures: Figures) -> Timing | None:
    """Return the time, or the throughput, that a run is compared by, where it has it."""
    if metric in RATE_UNITS:
        return _throughput_of(metric, figures)
    if metric == STEP_MS:
        return timing_of_step(figures.step_ms, figures.samples_per_second)
    return {
        "seconds_per_epoch": figures.seconds_per_epoch,
        "run_seconds": figures.run_seconds,
    }.get(metric)


def timings_of(figures: Figures | None) -> dict[str, Timing]:
    """Return all times that a run could be compared by, by their metrics."""
    metrics = ("seconds_per_epoch", "run_seconds", STEP_MS, *RATE_UNITS)
    found = {} if figures is None else {each: timing_by(each, figures) for each in metrics}
    return {metric: timing for metric, timing in found.items() if timing is not None}


def is_time(value: float) -> bool:
    """Return whether a number can be how long something took."""
    return 0 < value < math.inf


def cpus_of(options: Mapping[str, Any], machine: MachineFacts | None) -> int | None:
    """Return how many CPUs a run may use: by `--cpus`, else all that the scheduler gives it."""
    asked = options.get("cpus")
    if type(asked) is int and asked > 0:
        return asked
    return machine.cores if machine else None


@record(frozen=True)
class Curve:
    """One quantity of a run over time.

    Attributes:
        series: its values.
        start_ns: when the run's own time begins.
        unit: of its values.
        factor: by what those of the series are multiplied.
        validations: of a metric, when each validation ended and what it came to.
        newest: its last value, where the series has but a mean.
        why: what that is where it is no number: NaN or infinite.
        why_validation: the same of the newest validation.
    """

    series: Series
    start_ns: int
    unit: str = ""
    factor: float = 1.0
    validations: Sequence[tuple[int, float | None]] = ()
    newest: float | None = None
    why: str = ""
    why_validation: str = ""

    @property
    def end_ns(self) -> int:
        """When its last value, or its last validation, ended."""
        ends = (self.series.end_ns or 0, *(t for t, _ in self.validations))
        return int(max(self.start_ns, *ends))


@record(frozen=True, kw_only=True)
class RunFigures(Conditions):
    """What one run gives for comparing, and the conditions of its times.

    Attributes:
        name: what a person called it.
        script: which script that was; None of a workload.
        script_sha256: what its file was; None where it isn't known.
        log: the path of its log.
        wall: when it began.
        device: what it ran on: cpu, or gpu:N.
        backend: what Keras ran on.
        compiles: whether its first batch compiles, as far as that is known.
        batches: how many it trained on.
        counts_steps: whether its throughput is of steps, as the size of a script's batches isn't
            known.
        timings: what it can be compared by beside other runs, by their metrics.
        values: its figures by their names, those of `FIGURES`, of metrics and of the account.
        not_numbers: metrics whose last value is no number, with what it is.
        read_once: metrics whose last value is no epoch's: it is of some steps alone.
        throughput_error: how unsure its throughput is by how that varied.
        curve: its throughput over time; None where only its result was read.
        is_projected: whether its seconds per epoch are a projection.
        lacking: the reasons for what wasn't measured.
        error: why it failed, of one that did.
        valid: whether its figures can be relied on; None where that wasn't judged.
        against: sentences against them, by the doubt.
    """

    session: str
    host: str
    wall: float
    status: Status
    options: Mapping[str, Any]
    versions: Mapping[str, Any]
    machine: MachineFacts
    name: str | None = None
    script: Script | None = None
    script_sha256: str | None = None
    log: str | None = None
    device: str | None = None
    device_name: str | None = None
    backend: str | None = None
    compiles: bool = True
    batches: int | None = None
    counts_steps: bool = False
    timings: Mapping[str, Timing] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    not_numbers: Mapping[str, str] = field(default_factory=dict)
    read_once: frozenset[str] = frozenset()
    throughput_error: Error | None = None
    curve: Curve | None = None
    is_projected: bool | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    valid: bool | None = None
    against: Mapping[str, str] = field(default_factory=dict)

    @property
    def work(self) -> tuple[Hashable, ...]:
        """The machine, what was trained there, and what was asked for."""
        options = options_with_effect(self.options)
        asked = repr({name: value for name, value in options.items() if name != "price"})
        # Of a script its samples may depend on more than its arguments.
        samples = None if self.command is None else self.samples
        place = self.script.place if self.script else None
        trained = (self.workload, place, repr(self.command), self.counts_steps, samples)
        return self.host, self.device, asked, *trained

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """How it was made: its work, and the versions of the software and of a script's code."""
        commit = self.script.git_commit if self.script else None
        return *self.work, repr((self.versions, self.script_sha256, commit))

    @property
    def framework(self) -> str | None:
        """What it trained with, as the published numbers name it; None where that isn't known."""
        if not self.backend:
            return None
        version, name = self.versions.get("backend_version"), TITLES.get(self.backend, self.backend)
        return f"{name} {version}" if isinstance(version, str) else name


def options_with_effect(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options that were given, but for those that change nothing of a run."""
    return {
        name: value
        for name, value in sorted(options.items())
        if name not in _OF_NO_EFFECT and value is not None
    }
