"""One run as it is compared: its work, its settings and its figures."""

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
    SecondsPerEpoch,
    Status,
    StepTime,
    Throughput,
)
from dlmon.records.record import record
from dlmon.records.words import STEPS_PER_S
from dlmon.statistics.ratios import Error
from dlmon.statistics.series import Series

BACKEND = "backend"
"""The backend of Keras; for a script the one that was observed, if logged."""
# Options that don't change a run.
_OF_NO_EFFECT = frozenset({"log_dir", "detach", "name", "note", "to"})

_LOWER_IS_BETTER = {
    "loss", "error", "err", "mae", "mse", "rmse", "mape", "msle", "perplexity", "ppl", "nll",
    "wer", "cer", "fid", "crossentropy", "divergence", "hinge",
}  # fmt: skip
_HIGHER_IS_BETTER = {
    "accuracy", "acc", "auc", "auroc", "precision", "recall", "f1", "iou", "miou", "dice", "bleu",
    "rouge", "map", "r2", "psnr", "ssim", "ndcg", "mrr",
}  # fmt: skip
# With these, as in neg_log_loss or loss_scale, the rest of the name doesn't tell.
_TELLS_NOTHING = {"neg", "negative", "scale", "weight", "norm"}
_WORDS = re.compile(r"[^\W_]+")


def lower_is_better(name: str) -> bool | None:
    """Return whether a lower value of a metric is better; None if its name doesn't tell."""
    words = {word.lower() for word in _WORDS.findall(name)}
    if words & _TELLS_NOTHING:
        return None
    lower, higher = bool(words & _LOWER_IS_BETTER), bool(words & _HIGHER_IS_BETTER)
    if lower == higher:
        return True if name.lower().endswith(("loss", "error")) else None
    return lower


@record(frozen=True)
class SteadyFigure:
    """The steady-state figure that a run is compared by, with its band if known.

    It is the mean time of a batch (published times are means too), or for scripts without epochs
    the throughput.
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
"""The metrics for which more is faster."""


def pace_of(timing: Timing) -> float:
    """Return a timing as a time: less is faster."""
    return 1 / timing.value if getattr(timing, "unit", "s").endswith("/s") else timing.value


def _throughput_of(metric: str, figures: SpeedFigures) -> SteadyFigure | None:
    """Return a throughput; in steps also if samples were counted."""
    unit, is_in_tokens = RATE_UNITS[metric], metric == TOKENS_PER_SECOND
    rate = figures.tokens_per_second if is_in_tokens else figures.samples_per_second
    if rate is not None and rate.unit == unit:
        if not is_time(rate.mean):
            return None
        if rate.band is None or not 0 <= rate.band < rate.mean:
            return SteadyFigure(rate.mean, None, None, unit)
        return SteadyFigure(rate.mean, rate.mean - rate.band, rate.mean + rate.band, unit)
    step = timing_of_step(figures.step_ms, rate)
    if metric != STEPS_PER_SECOND or step is None or not is_time(step.value):
        return None
    low, high = (None if end is None else 1000 / end for end in (step.high, step.low))
    return SteadyFigure(1000 / step.value, low, high, unit)


def timing_of_step(step: StepTime | None, rate: Throughput | None) -> SteadyFigure | None:
    """Return the mean time of a batch; None before there is one.

    If a log lacks the mean, it follows from the median and from the ratio of the throughput's
    median to its mean, which is the same for batches of one size.
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


class SpeedFigures(Throughputs, Protocol):
    """The figures of a run, while it goes on or after its end."""

    @property
    def seconds_per_epoch(self) -> SecondsPerEpoch | None: ...

    @property
    def run_seconds(self) -> RunSeconds | None: ...

    @property
    def step_ms(self) -> StepTime | None: ...

    @property
    def throughput_unit(self) -> str: ...


def metric_of_script(figures: SpeedFigures) -> str:
    """Return the metric that a script is compared by: epochs, else tokens, samples or steps."""
    if figures.seconds_per_epoch is not None or figures.samples_per_second is None:
        return "seconds_per_epoch"
    return rate_of_script(figures)


def rate_of_script(figures: SpeedFigures, with_tokens: bool = True) -> str:
    """Return the throughput that a script without epochs is compared by: the finest it has."""
    if with_tokens and figures.tokens_per_second is not None:
        return TOKENS_PER_SECOND
    in_steps = figures.throughput_unit == STEPS_PER_S
    return STEPS_PER_SECOND if in_steps else SAMPLES_PER_SECOND


def timing_by(metric: str, figures: SpeedFigures) -> Timing | None:
    """Return the time or throughput of a run by a metric; None if it has none."""
    if metric in RATE_UNITS:
        return _throughput_of(metric, figures)
    if metric == STEP_MS:
        return timing_of_step(figures.step_ms, figures.samples_per_second)
    return {
        "seconds_per_epoch": figures.seconds_per_epoch,
        "run_seconds": figures.run_seconds,
    }.get(metric)


def timings_of(figures: SpeedFigures | None) -> dict[str, Timing]:
    """Return all times and throughputs of a run, by metric."""
    if figures is None:
        return {}
    metrics = ("seconds_per_epoch", "run_seconds", STEP_MS, *RATE_UNITS)
    return {
        metric: timing for metric in metrics if (timing := timing_by(metric, figures)) is not None
    }


def is_time(value: float) -> bool:
    """Return whether a number can be a duration."""
    return 0 < value < math.inf


@record(frozen=True)
class Curve:
    """One quantity of a run over time.

    Attributes:
        series: its values.
        start_ns: the start of the run's own time.
        unit: of its values.
        factor: the factor for the values of the series.
        validations: for a metric, the end and the value of each validation.
        newest: its last value, if the series has only a mean.
        mean: for a throughput, that of the run, if it is steady.
        why: the reason if that is None: NaN or infinite.
        why_validation: the reason if the newest validation is None.
        not_numbers: the number of its values that are NaN or infinite.
    """

    series: Series
    start_ns: int
    unit: str = ""
    factor: float = 1.0
    validations: Sequence[tuple[int, float | None]] = ()
    newest: float | None = None
    mean: float | None = None
    why: str = ""
    why_validation: str = ""
    not_numbers: int = 0

    @property
    def end_ns(self) -> int:
        """The end of its last value or validation."""
        ends = (self.series.end_ns or 0, *(t for t, _ in self.validations))
        return int(max(self.start_ns, *ends))


@record(frozen=True, kw_only=True)
class RunFigures(Conditions):
    """The figures of one run, and the conditions of its times.

    Attributes:
        name: the name that the user gave it.
        script: its script; None for a workload.
        script_sha256: of the script's file; None if not known.
        log: the path of its log.
        wall: its begin.
        device: cpu, or gpu:N.
        backend: the backend of Keras.
        compiles: whether its first batch compiles, as far as known.
        batches: the number of batches that it trained on.
        throughput_unit: steps/s if the batch size of a script isn't known, else samples/s.
        timings: its times and throughputs, by metric.
        values: its figures by name: those of `FIGURES`, metrics and the time breakdown.
        not_numbers: metrics whose last value isn't a number, with NaN or infinite.
        read_once: metrics whose last value covers some steps, not an epoch.
        throughput_error: the error of its throughput, from its variation.
        curve: its throughput over time; None if only its result was read.
        loss: its loss over time; None if it reports none, or only its result was read.
        is_projected: whether its seconds per epoch are a projection.
        lacking: the reasons for figures that weren't measured.
        error: the reason of a failed run.
        valid: whether its figures are reliable; None if that wasn't judged.
        warnings: sentences about unreliable figures, by kind.
        imported: the files of its repository that it imported, by their paths there; empty if
            that isn't known.
        losses: of a run of a pair, numbers of steps and the sum of the loss over them.
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
    throughput_unit: str = RATE_UNITS[SAMPLES_PER_SECOND]
    timings: Mapping[str, Timing] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    not_numbers: Mapping[str, str] = field(default_factory=dict)
    read_once: frozenset[str] = frozenset()
    throughput_error: Error | None = None
    curve: Curve | None = None
    loss: Curve | None = None
    is_projected: bool | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    valid: bool | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)
    imported: frozenset[str] = frozenset()
    losses: Sequence[tuple[int, float]] = ()

    @property
    def seconds_per_epoch(self) -> SecondsPerEpoch | None:
        timing = self.timings.get("seconds_per_epoch")
        return timing if isinstance(timing, SecondsPerEpoch) else None

    @property
    def of_first_epoch(self) -> str:
        """The remark on seconds per epoch that are those of the first epoch alone; else empty."""
        timing = self.seconds_per_epoch
        if timing is None or not timing.is_first_epoch:
            return ""
        return "1 epoch, compile included" if self.compiles else "first epoch only"

    @property
    def work(self) -> tuple[Hashable, ...]:
        """The host and device, the options, and the workload or script."""
        options = options_with_effect(self.options)
        options_text = repr({name: value for name, value in options.items() if name != "price"})
        # The samples of a script may depend on more than its arguments.
        samples = None if self.command is None else self.samples
        place = self.script.place if self.script else None
        program = (self.workload, place, repr(self.command), self.throughput_unit, samples)
        return self.host, self.device, options_text, *program

    @property
    def settings(self) -> tuple[Hashable, ...]:
        """Its work, with the versions of the software and of a script's code."""
        commit = self.script.git_commit if self.script else None
        return *self.work, repr((self.versions, self.script_sha256, commit))

    @property
    def framework(self) -> str | None:
        """The framework, as published numbers name it; None if not known."""
        if not self.backend:
            return None
        version, name = self.versions.get("backend_version"), TITLES.get(self.backend, self.backend)
        return f"{name} {version}" if isinstance(version, str) else name


def options_with_effect(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the given options, without those that don't change a run."""
    return {
        name: value
        for name, value in sorted(options.items())
        if name not in _OF_NO_EFFECT and value is not None
    }
