"""Put a run beside published numbers and earlier sessions: like with like.

What is compared is a time, of which less is faster, or the throughput of a script that has no
epochs. It compares with another only where the work behind both is the same; where it is not, its
row stands after those that do, says in badges what differs, and yields no factor. Hardware, backend
and threads are what a person compares, so they are never a difference.

Pure, but for reading published and own reference figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from dlmon.comparison.compiling import compiled_by
from dlmon.comparison.conditions import (
    SIZED_BY_DATA,
    VOCABULARY_ESTIMATED,
    Conditions,
    busy_at_start,
    conditions_of,
    find_differences,
    is_capped,
)
from dlmon.comparison.like_runs import Settings, settings_of
from dlmon.comparison.price import usd_per_hour_of, year_of
from dlmon.comparison.published import STEP_MS, Published, published, published_metrics
from dlmon.comparison.same_script import script_of
from dlmon.records import (
    TITLES,
    Doubt,
    MachineFacts,
    Result,
    RunSeconds,
    SamplesPerSecond,
    SecondsPerEpoch,
    SessionHeader,
    Status,
    StepTime,
)
from dlmon.records.record import record
from dlmon.statistics.intervals import student_95_of
from dlmon.statistics.ratios import Error, Ratio, ratio_of, run_spread

# The intervals of single times say nothing of their degrees of freedom: as of many.
_MANY = 1e6

KINDS = ("this", "earlier", "published")


@record(frozen=True)
class StepMilliseconds:
    """The mean time of a batch in the steady state, as published times of a batch are means.

    Its band is that of the throughput; None where that has none.
    """

    value: float
    low: float | None = None
    high: float | None = None
    projected: bool = False


@record(frozen=True)
class Throughput:
    """The throughput in the steady state, by which scripts without epochs are compared."""

    value: float
    low: float | None
    high: float | None
    unit: str
    projected: bool = False


Timing = SecondsPerEpoch | RunSeconds | StepMilliseconds | Throughput

SAMPLES_PER_SECOND, STEPS_PER_SECOND = "samples_per_second", "steps_per_second"
RATE_UNITS = {SAMPLES_PER_SECOND: "samples/s", STEPS_PER_SECOND: "steps/s"}
"""The metrics of which more is faster."""


def pace_of(timing: Timing) -> float:
    """Return how long a run takes for what it is compared by: less is faster."""
    return 1 / timing.value if isinstance(timing, Throughput) else timing.value


def _throughput_of(metric: str, figures: Figures) -> Throughput | None:
    """Return a throughput; that in steps also where samples were counted."""
    rate, unit = figures.samples_per_second, RATE_UNITS[metric]
    if bool(figures.counts_steps) == (metric == STEPS_PER_SECOND):
        if rate is None or not _is_time(rate.mean):
            return None
        if rate.band is None or not 0 <= rate.band < rate.mean:
            return Throughput(rate.mean, None, None, unit)
        return Throughput(rate.mean, rate.mean - rate.band, rate.mean + rate.band, unit)
    step = timing_of_step(figures.step_ms, rate)
    if metric == SAMPLES_PER_SECOND or step is None or not _is_time(step.value):
        return None
    low, high = (None if end is None else 1000 / end for end in (step.high, step.low))
    return Throughput(1000 / step.value, low, high, unit)


def timing_of_step(step: StepTime | None, rate: SamplesPerSecond | None) -> StepMilliseconds | None:
    """Return the time of a batch as it is compared, None before there is one.

    A log without the mean step has the throughput's mean and median: of batches of
    one size, their ratio is that of the steps.
    """
    if step is None:
        return None
    value = step.mean
    if value is None:
        if rate is None or not _is_time(rate.mean):
            return None
        value = step.median * rate.median / rate.mean
    if rate is None or rate.band is None or not 0 <= rate.band < rate.mean:
        return StepMilliseconds(value)
    share = rate.band / rate.mean
    return StepMilliseconds(value, value / (1 + share), value / (1 - share))


def framework_of(backend: object, header: SessionHeader | None) -> str | None:
    """Name what a session trained with, as the published numbers do; None where that isn't known.

    Args:
        backend: what Keras ran on.
        header: of the session, which has the version where that was recorded.
    """
    if not isinstance(backend, str) or not backend:
        return None
    version = None if header is None else header.versions.get("backend_version")
    name = TITLES.get(backend, backend)
    return f"{name} {version}" if isinstance(version, str) else name


def row_of_run(
    kind: str,
    metric: str,
    timing: Timing,
    label: str,
    session: str,
    header: SessionHeader | None = None,
    *,
    options: Mapping[str, Any] = MappingProxyType({}),
    backend: object = None,
    why: Mapping[str, str] = MappingProxyType({}),
    doubts: Mapping[str, str] = MappingProxyType({}),
    compiles: bool = True,
) -> ComparisonRow:
    """Return the row of one of our runs; `compare` says how it compares.

    Args:
        kind: one of `KINDS`.
        metric: what is compared.
        timing: what the run measured of it.
        label: what to call it.
        session: its id.
        header: what its log begins with.
        options: what it was asked for.
        backend: what Keras ran on.
        why: the reasons for what wasn't measured.
        doubts: sentences against its figures, by the doubt.
        compiles: whether its first batch compiles, as far as that is known.
    """
    vcpus = cpus_of(options, header.machine if header else None)
    badges = list(doubts.values())
    if isinstance(timing, SecondsPerEpoch) and timing.epochs == 1 and not timing.first_left_out:
        badges.insert(0, "1 epoch, compile included" if compiles else "first epoch only")
    return ComparisonRow(
        label=label,
        metric=metric,
        kind=kind,
        value=timing.value,
        low=timing.low,
        high=timing.high,
        projected=timing.projected,
        missing=missing_part(timing, why),
        badges=tuple(badges),
        doubts=tuple(doubts.items()),
        framework=framework_of(backend, header),
        vcpus=vcpus,
        usd_per_hour=usd_per_hour_of(options, vcpus),
        session=session,
    )


def recorded_row(
    metric: str, result: Result, header: SessionHeader | None = None
) -> ComparisonRow | None:
    """Return the row of a recorded run, None where it has no such value."""
    timing = timing_by(metric, result)
    if timing is None:
        return None
    row = row_of_run(
        "earlier",
        metric,
        timing,
        result.device_name or result.device or "device not known",
        result.session,
        header,
        options=result.options,
        backend=result.options.get("backend"),
        why=result.why,
        doubts=_doubts_of(result, header),
        compiles=header is None or compiled_by(header),
    )
    settings = settings_of(
        host=header.host if header else None,
        workload=result.workload,
        command=header.command if header else None,
        device=result.device,
        options=result.options,
        versions=header.versions if header else {},
        samples=result.samples_per_epoch,
        script=script_of(header) if header else None,
        sha256=header.script_sha256 if header else None,
    )
    return replace(row, year=year_of(header.wall if header else result.wall), settings=settings)


def _doubts_of(result: Result, header: SessionHeader | None) -> Mapping[str, str]:
    """Return what speaks against a result; of an older log what its header says."""
    if result.against is not None:
        return result.against
    busy = busy_at_start(header.machine, result.device) if header else None
    return {} if busy is None else {Doubt.BUSY_AT_START: busy}


def missing_part(timing: Timing | None, why: Mapping[str, str]) -> str | None:
    """Return what a projection leaves out, as it was never measured; None where it is whole.

    Args:
        timing: the time.
        why: the reasons of the snapshot or the result that it is from.
    """
    if timing is None or not timing.projected:
        return None
    parts = ["validation", *(["evaluation"] if isinstance(timing, RunSeconds) else [])]
    return " and ".join(part for part in parts if part in why) or None


def cpus_of(options: Mapping[str, Any], machine: MachineFacts | None) -> int | None:
    """Return how many CPUs a run may use: by `--cpus`, else all that the scheduler gives it."""
    asked = options.get("cpus")
    if type(asked) is int and asked > 0:
        return asked
    return machine.cores if machine else None


class Figures(Protocol):
    """What is known of a run, as it goes on or as it ended."""

    @property
    def seconds_per_epoch(self) -> SecondsPerEpoch | None:
        """The time of an epoch."""

    @property
    def run_seconds(self) -> RunSeconds | None:
        """The time of the run."""

    @property
    def step_ms(self) -> StepTime | None:
        """The time of a batch."""

    @property
    def samples_per_second(self) -> SamplesPerSecond | None:
        """The throughput."""

    @property
    def counts_steps(self) -> bool | None:
        """Whether that is of steps."""


def metric_of_script(figures: Figures) -> str:
    """Return what a script is compared by: its epochs, else samples, else steps."""
    if figures.seconds_per_epoch is not None or figures.samples_per_second is None:
        return "seconds_per_epoch"
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


@record(frozen=True)
class ComparisonRow:
    """One line of a comparison.

    Attributes:
        label: the device.
        kind: one of `KINDS`.
        low, high: the band of `value`; None for a published one, and where it isn't known.
        projected: the value stands for an epoch or a run that has not ended.
        missing: what the projection leaves out; such a row is ranked among no others.
        comparable: the work is the same as this run's, so that a factor means something.
        badges: what a person should know about the value, in words.
        doubts: those of them that speak against the figures, by their codes.
        vcpus: how many CPUs it had, where that is known.
        usd_per_hour: what an hour of the machine cost, where that is known.
        session: the id of the run.
        published: what a published row was read from.
        settings: how an earlier run was made.
    """

    label: str
    metric: str
    kind: str
    value: float
    low: float | None = None
    high: float | None = None
    projected: bool = False
    missing: str | None = None
    comparable: bool = True
    badges: tuple[str, ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    year: int | None = None
    framework: str | None = None
    vcpus: int | None = None
    usd_per_hour: float | None = None
    session: str | None = None
    published: Published | None = None
    settings: Settings | None = None

    @property
    def is_rate(self) -> bool:
        return self.metric in RATE_UNITS

    @property
    def unit(self) -> str:
        return RATE_UNITS.get(self.metric) or ("ms" if self.metric.endswith("_ms") else "s")

    @property
    def pace(self) -> float:
        """The value as a time: less is faster."""
        return 1 / self.value if self.is_rate else self.value

    @property
    def cost_usd(self) -> float | None:
        """What `value` cost: an epoch, a run or a batch, as the metric says; None without a price.

        For published times that is the price of their day. A throughput has no cost.
        """
        if self.usd_per_hour is None or self.is_rate:
            return None
        seconds = self.value / 1000 if self.unit == "ms" else self.value
        return self.usd_per_hour * seconds / 3600


def compare(
    metric: str,
    conditions: Conditions,
    defaults: Conditions,
    this: ComparisonRow | None = None,
    earlier: Sequence[Result] = (),
    headers: Mapping[str, SessionHeader] | None = None,
) -> tuple[ComparisonRow, ...]:
    """Return this run, earlier sessions and published times as rows.

    Those of the same work come first, then those of other work; each fastest first. A projection
    that leaves out a part has no rank, so it comes last of its kind.
    A value that is no time (zero, negative, infinite) has no row.

    Args:
        metric: what a workload is compared by: a metric of `published.csv`, or
            `step_ms`, the time of a batch, beside which those of its mode stand; of a script
            what `metric_of_script` says.
        conditions: of this run, or of the run that is being prepared.
        defaults: the workload's own: what its published numbers were taken with.
        this: its row, by `row_of_run`; None while there is no value yet.
        earlier: sessions of this machine; those of another workload, those that
            failed, those without a value and this run itself are left out.
        headers: session ids with their headers, for the year and a busy machine.
    """
    ours = _work_timed(conditions, projected=this is None or this.projected)
    rows = []
    if this:
        rows.append(_compared(this, conditions, ()))
    for result in earlier:
        if not _is_earlier(result, conditions.workload, this):
            continue
        row = recorded_row(metric, result, (headers or {}).get(result.session))
        if row is None:
            continue
        theirs = conditions_of(result, defaults)
        differences = (
            *find_differences(metric, _work_timed(theirs, row.projected), ours),
            *_cut_short(result, row),
        )
        rows.append(_compared(row, theirs, differences))
    beside = published_metrics(metric, conditions.mode)
    for one in published(conditions.workload):
        if one.metric in beside:
            rows.append(_published_row(one, metric, beside[one.metric], ours, defaults))
    rows = [row for row in rows if _is_time(row.value)]
    return tuple(sorted(rows, key=_rank))


def _rank(row: ComparisonRow) -> tuple[bool, bool, bool, float, int, str]:
    """Put what doesn't compare last, this run before the others where it is such."""
    incomplete, unlike = row.missing is not None, not row.comparable
    group = (unlike, unlike and row.kind != "this", incomplete)
    return (*group, row.pace, KINDS.index(row.kind), row.label)


def published_differences(
    row: Published, ours: Conditions, defaults: Conditions, of_metric: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Say in words why a published time doesn't compare with one under `ours`.

    Args:
        row: the published time.
        ours: the conditions of a run.
        defaults: the workload's own: what its published numbers were taken with.
        of_metric: what `published_metrics` names as different of the row's metric.
    """
    theirs = replace(
        defaults,
        batch_size=row.batch_size,
        precision=row.precision,
        # Where modes differ and the times still stand side by side, `of_metric` says how.
        mode=ours.mode if of_metric else row.mode,
        data="real",
        steps_cap=None,
    )
    return (*find_differences(row.metric, theirs, ours), *of_metric, *row.caveats)


def _work_timed(conditions: Conditions, projected: bool) -> Conditions:
    """Drop a cap of steps from a projected time, which stands for the whole epoch."""
    if is_capped(conditions) and not projected:
        return conditions
    return replace(conditions, steps_cap=None)


def _is_earlier(result: Result, workload: str, this: ComparisonRow | None) -> bool:
    return (
        result.workload == workload
        and result.status in (Status.COMPLETED, Status.STOPPED)
        and (this is None or result.session != this.session)
    )


def _cut_short(result: Result, row: ComparisonRow) -> tuple[str, ...]:
    """Say where a recorded run ended too soon for its value to be compared."""
    if row.projected:
        return ("ended before it was steady",) if result.step_ms is None else ()
    stopped = row.metric == "run_seconds" and result.status == Status.STOPPED
    return ("stopped early",) if stopped else ()


def _compared(
    row: ComparisonRow, conditions: Conditions, differences: tuple[str, ...]
) -> ComparisonRow:
    """Return the row of a run with what differs in its work, and how it was projected."""
    badges = list(differences)
    if row.missing:
        badges.append(f"without {row.missing}")
    if row.projected and is_capped(conditions):
        badges.append(f"projected from {conditions.steps_cap} steps per epoch")
    elif row.projected:
        badges.append("projected")
    if conditions.workload in SIZED_BY_DATA and conditions.data == "synthetic":
        badges.append(VOCABULARY_ESTIMATED)
    return replace(
        row,
        comparable=not differences and not row.missing,
        badges=tuple(dict.fromkeys((*badges, *row.badges))),
    )


def _published_row(
    row: Published,
    metric: str,
    differences: tuple[str, ...],
    ours: Conditions,
    defaults: Conditions,
) -> ComparisonRow:
    unlike = published_differences(row, ours, defaults, differences)
    return ComparisonRow(
        label=row.device,
        metric=metric,
        kind="published",
        value=row.value,
        comparable=not unlike,
        badges=(*unlike, *row.remarks),
        year=row.year,
        framework=row.framework,
        vcpus=row.vcpus,
        usd_per_hour=row.price_usd_per_hour,
        published=row,
    )


def _is_time(value: float) -> bool:
    return 0 < value < math.inf


def beside(
    this: ComparisonRow | None, other: ComparisonRow, rows: Sequence[ComparisonRow], steady: bool
) -> Ratio | str:
    """Return how many times as fast as `other` this run is, or why that can't be said.

    A projection that leaves out a part doesn't compare, nor does one of a run that is not yet
    `steady`; a steady projection counts, and so does a whole epoch that was measured.

    The interval allows for how runs differ where some of `rows` were made under the same
    conditions, else only for how each of the two varied by itself (see `Ratio.basis`). A published
    figure counts as exact.
    """
    if not other.comparable:
        return "; ".join(other.badges)
    if this is None or (this.projected and not steady):
        return "this run has no figure yet"
    if this.missing:
        return f"{this.missing} not measured"
    is_published = other.kind == "published"
    errors = [_error_of(row) for row in ((this,) if is_published else (this, other))]
    spread = None if is_published else run_spread(_like_runs(rows))
    return ratio_of([this.pace], [other.pace], spread, errors) or "this run has no figure yet"


def _like_runs(rows: Sequence[ComparisonRow]) -> list[list[float]]:
    """Return the times of earlier runs in groups of the same device and the same settings."""
    groups: dict[tuple[str, Settings | None], list[float]] = {}
    for row in rows:
        if row.kind == "earlier" and row.comparable and not row.projected:
            groups.setdefault((row.label, row.settings), []).append(row.pace)
    return list(groups.values())


def _error_of(row: ComparisonRow) -> Error | None:
    """Return the error of a time by its own band; None where that isn't known.

    A band of no width is none: logs of earlier versions have it where nothing was known.
    """
    low, high = row.low, row.high
    if low is None or high is None or low >= high or (row.is_rate and low <= 0):
        return None
    if row.is_rate:
        low, high = 1 / high, 1 / low
    half = max(high - row.pace, row.pace - low)
    return Error(half / row.pace / student_95_of(_MANY), _MANY)
