"""The comparison of a run with published numbers and earlier runs of the same work.

The compared figure is a time, or the throughput of a script without epochs. Two figures compare
only if the work behind both is the same; otherwise the row comes after those that compare, names
the differences in badges, and has no factor. Hardware, backend and threads never count as a
difference: they are what the user compares.

Pure, except that it reads published and own reference figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlmon.comparison.compared_run import RATE_UNITS, RunFigures, Timing, is_time
from dlmon.comparison.conditions import (
    SIZED_BY_DATA,
    VOCABULARY_ESTIMATED,
    Conditions,
    find_differences,
    is_capped,
    with_defaults,
)
from dlmon.comparison.price import usd_per_hour_of, year_of
from dlmon.comparison.published import MIXED, NO_PRECISION, Published, published, published_metrics
from dlmon.quantities import STEP_MS
from dlmon.records import RunSeconds, Status
from dlmon.records.record import record
from dlmon.statistics.intervals import student_95_of
from dlmon.statistics.ratios import Error, Ratio, ratio_of

# The degrees of freedom behind the band of a single time are unknown: assume many.
_MANY_DEGREES = 1e6

KINDS = ("this", "earlier", "published")
INCLUDES_COMPILE = "first epoch with compile"

Reference = tuple[str | None, Published | None]
"""The reference of a comparison: the id of a session, or a published time."""


def missing_part(timing: Timing | None, why: Mapping[str, str]) -> str | None:
    """Return the parts that a projection lacks because they were not measured; None if none."""
    if timing is None or not timing.projected:
        return None
    parts = ["validation", *(["evaluation"] if isinstance(timing, RunSeconds) else [])]
    return " and ".join(part for part in parts if part in why) or None


@record(frozen=True)
class ComparisonRow:
    """One line of a comparison.

    Attributes:
        label: the device.
        kind: one of `KINDS`.
        low, high: the band of `value`; None if published or not known.
        projected: the value stands for an epoch or a run that has not ended.
        missing: the parts that the projection lacks; such a row has no rank.
        is_first_epoch: the time is that of the first epoch alone.
        includes_compile: the time of an epoch holds that of the compilation.
        comparable: the work is the same as this run's, so a factor is meaningful.
        badges: remarks about the value.
        usd_per_hour: the price of an hour of the machine, if known.
        session: the id of the run.
        published: the source of a published row.
    """

    label: str
    metric: str
    kind: str
    value: float
    low: float | None = None
    high: float | None = None
    projected: bool = False
    missing: str | None = None
    is_first_epoch: bool = False
    includes_compile: bool = False
    comparable: bool = True
    badges: tuple[str, ...] = ()
    year: int | None = None
    framework: str | None = None
    usd_per_hour: float | None = None
    session: str | None = None
    published: Published | None = None

    @property
    def reference(self) -> Reference:
        return self.session, self.published

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
        """The cost of the epoch, run or batch of `value`; None without a price.

        A published time is priced as on its day. A throughput has no cost.
        """
        if self.usd_per_hour is None or self.is_rate:
            return None
        seconds = self.value / 1000 if self.unit == "ms" else self.value
        return self.usd_per_hour * seconds / 3600


def compare(
    metric: str,
    this: RunFigures,
    ours: Conditions,
    defaults: Conditions,
    earlier: Sequence[RunFigures] = (),
) -> tuple[ComparisonRow, ...]:
    """Return this run, earlier ones and published times as rows.

    Rows of the same work come first, then others, each sorted by speed. A projection that lacks a
    part comes last of its kind, as does an epoch that includes the compilation. A value that is
    zero, negative or infinite has no row.

    Args:
        metric: a metric of `published.csv`, or `step_ms`, which compares with the batch times of
            its mode; for a script the one of `metric_of_script`.
        this: the run; without a value it has no row.
        ours: its conditions.
        defaults: the conditions of the workload's published numbers.
        earlier: runs of this machine; failed ones, those of another workload or without a value,
            and this run itself are left out.
    """
    own = _row("this", metric, this, ours)
    ours_as_timed = _conditions_of_time(ours, projected=own is None or own.projected)
    rows = [] if own is None else [own]
    for run in earlier:
        is_over = run.status in (Status.COMPLETED, Status.STOPPED)
        if not is_over or run.workload != ours.workload or run.session == this.session:
            continue
        theirs = with_defaults(run, defaults)
        row = _row("earlier", metric, run, theirs)
        if row is not None:
            unlike = find_differences(
                metric, _conditions_of_time(theirs, row.projected), ours_as_timed
            )
            unlike = (*unlike, *_cut_short(run, row))
            badges = tuple(dict.fromkeys((*unlike, *row.badges)))
            rows.append(replace(row, comparable=row.comparable and not unlike, badges=badges))
    metrics = published_metrics(metric, ours.mode)
    for time in published(ours.workload):
        if time.metric in metrics:
            rows.append(_published_row(time, metric, metrics[time.metric], ours_as_timed, defaults))
    rows = [row for row in rows if is_time(row.value)]
    return tuple(sorted(rows, key=_rank))


def _row(kind: str, metric: str, run: RunFigures, conditions: Conditions) -> ComparisonRow | None:
    """Return the row of a run, with remarks about its time; None without a time."""
    timing = run.timings.get(metric)
    if timing is None:
        return None
    missing = missing_part(timing, run.lacking)
    badges = [f"without {missing}"] if missing else []
    if timing.projected:
        is_cut = is_capped(conditions)
        from_steps = f" from {conditions.steps_cap} steps per epoch" if is_cut else ""
        badges.append(f"projected{from_steps}")
    if conditions.workload in SIZED_BY_DATA and conditions.data == "synthetic":
        badges.append(VOCABULARY_ESTIMATED)
    of_first_epoch = run.of_first_epoch if timing is run.seconds_per_epoch else ""
    badges += [of_first_epoch] * bool(of_first_epoch)
    is_this = kind == "this"
    return ComparisonRow(
        label="this run" if is_this else run.device_name or run.device or "device not known",
        metric=metric,
        kind=kind,
        value=timing.value,
        low=timing.low,
        high=timing.high,
        projected=timing.projected,
        missing=missing,
        is_first_epoch=bool(of_first_epoch),
        includes_compile=bool(of_first_epoch) and run.compiles,
        comparable=not missing,
        badges=(*badges, *run.warnings.values()),
        year=None if is_this else year_of(run.wall),
        framework=run.framework,
        usd_per_hour=usd_per_hour_of(run.options, run.machine),
        session=run.session,
    )


def _rank(row: ComparisonRow) -> tuple[bool, bool, bool, float, int, str]:
    """Return a sort key: comparable rows first, then this run before others."""
    incomplete, unlike = row.missing is not None, not row.comparable
    group = (unlike, unlike and row.kind != "this", incomplete)
    return (*group, row.pace, KINDS.index(row.kind), row.label)


def published_differences(
    row: Published, ours: Conditions, defaults: Conditions, of_metric: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the reasons why a published time doesn't compare with one under `ours`.

    Args:
        row: the published time.
        ours: the conditions of a run.
        defaults: the conditions of the workload's published numbers.
        of_metric: the differences of the row's metric, by `published_metrics`.
    """
    theirs = replace(
        defaults,
        batch_size=row.batch_size,
        precision=row.precision,
        # `of_metric` names the difference of modes that still compare.
        mode=ours.mode if of_metric else row.mode,
        data="real",
        steps_cap=None,
    )
    return (*find_differences(row.metric, theirs, ours), *of_metric, *row.caveats)


def _conditions_of_time(conditions: Conditions, projected: bool) -> Conditions:
    """Drop a `steps_cap` that cut nothing: a projection stands for the whole epoch."""
    if is_capped(conditions) and not projected:
        return conditions
    return replace(conditions, steps_cap=None)


def _cut_short(run: RunFigures, row: ComparisonRow) -> tuple[str, ...]:
    """Return the reason if a recorded run ended too soon to be compared."""
    if row.projected:
        return () if "step_ms.median" in run.values else ("ended before it was steady",)
    stopped = row.metric == "run_seconds" and run.status == Status.STOPPED
    return ("stopped early",) if stopped else ()


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
        # A badge names the missing precision.
        framework=row.framework.removesuffix(f", {NO_PRECISION}"),
        usd_per_hour=row.price_usd_per_hour,
        published=row,
    )


def beside(this: ComparisonRow | None, other: ComparisonRow, steady: bool) -> Ratio | str:
    """Return the speed of this run as a multiple of `other`, or the reason why it is unknown.

    A projection that lacks a part doesn't compare, nor one of a run that isn't `steady` yet. Nor
    does the first epoch with a published time if it holds the compilation.

    The interval allows only for the variation within each run (see `Ratio.basis`). A published
    figure counts as exact.
    """
    if not other.comparable:
        return "; ".join(other.badges)
    if this is None or (this.projected and not steady):
        return "this run has no figure yet"
    if this.missing:
        return f"{this.missing} not measured"
    is_published = other.kind == "published"
    if is_published and this.includes_compile:
        return INCLUDES_COMPILE
    errors = [_error_of(row) for row in ((this,) if is_published else (this, other))]
    return ratio_of([this.pace], [other.pace], within=errors) or "this run has no figure yet"


def _error_of(row: ComparisonRow) -> Error | None:
    """Return the error of a time from its band; None if it isn't known.

    Earlier versions logged an unknown band as one of width 0.
    """
    low, high = row.low, row.high
    if low is None or high is None or low >= high or (row.is_rate and low <= 0):
        return None
    if row.is_rate:
        low, high = 1 / high, 1 / low
    half = max(high - row.pace, row.pace - low)
    return Error(half / row.pace / student_95_of(_MANY_DEGREES), _MANY_DEGREES)


# ---- changes that make a run comparable ----

Changes = tuple[tuple[str, int | str], ...]
"""Options of `run` with their new values: (("batch_size", 128), ...)."""


@record(frozen=True)
class Match:
    """The number of published times that are comparable after these changes."""

    count: int
    changes: Changes = ()


# By preference: a run that trains goes on training if it can, or at least keeps its backward pass.
_MODES = ("train", "gradients", "inference")


def find_match(conditions: Conditions, defaults: Conditions) -> Match | None:
    """Return the fewest changes of options that make a published time comparable.

    They are empty if one is comparable already; None if no options help. Keeping the mode comes
    first, then fewer changes, then more comparable times.

    Args:
        conditions: of the run.
        defaults: the conditions of the workload's published numbers.
    """
    ways: Counter[Changes] = Counter()
    for row in published(conditions.workload):
        metric = STEP_MS if row.metric.endswith("_ms") else row.metric
        wanted = replace(
            conditions,
            batch_size=row.batch_size,
            mode=row.mode,
            # No option sets pure float16 or TF32, so such a row is never comparable.
            precision=row.precision if row.precision in MIXED else "float32",
            epochs=defaults.epochs if metric == "run_seconds" else conditions.epochs,
            data="real" if row.workload in SIZED_BY_DATA else conditions.data,
            # A projection stands for the whole epoch.
            steps_cap=None,
            devices=1,
        )
        of_metric = published_metrics(metric, row.mode).get(row.metric, ("another metric",))
        if not published_differences(row, wanted, defaults, of_metric):
            ways[_changes(conditions, wanted)] += 1
    if not ways:
        return None
    best = min(ways, key=lambda way: (_mode_changed(way), len(way), -ways[way], way))
    return Match(ways[best], best)


def fastest_published(conditions: Conditions, defaults: Conditions) -> Published | None:
    """Return the fastest published time that compares with a run under these conditions."""
    rows = (
        row
        for row in published(defaults.workload)
        for metric in (STEP_MS if row.metric.endswith("_ms") else row.metric,)
        for of_metric in (published_metrics(metric, conditions.mode).get(row.metric),)
        if of_metric is not None and not published_differences(row, conditions, defaults, of_metric)
    )
    return min(rows, key=lambda row: row.value, default=None)


def _changes(conditions: Conditions, wanted: Conditions) -> Changes:
    names = ("batch_size", "epochs", "data", "mode", "precision", "devices")
    return tuple(
        (name, getattr(wanted, name))
        for name in names
        if getattr(wanted, name) != getattr(conditions, name)
    )


def _mode_changed(way: Changes) -> int:
    mode = dict(way).get("mode")
    return 0 if mode is None else 1 + _MODES.index(str(mode))
