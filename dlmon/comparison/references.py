"""Put a run beside published numbers and earlier runs: like with like.

What is compared is a time, of which less is faster, or the throughput of a script that has no
epochs. It compares with another only where the work behind both is the same; where it is not, its
row stands after those that do, says in badges what differs, and yields no factor. Hardware, backend
and threads are what a person compares, so they are never a difference.

Pure, but for reading published and own reference figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlmon.comparison.compared_run import RATE_UNITS, RunFigures, Timing, cpus_of, is_time
from dlmon.comparison.conditions import (
    SIZED_BY_DATA,
    VOCABULARY_ESTIMATED,
    Conditions,
    find_differences,
    is_capped,
    with_defaults,
)
from dlmon.comparison.price import usd_per_hour_of, year_of
from dlmon.comparison.published import (
    MIXED,
    NO_PRECISION,
    Published,
    published,
    published_metrics,
)
from dlmon.quantities import STEP_MS
from dlmon.records import RunSeconds, SecondsPerEpoch, Status
from dlmon.records.record import record
from dlmon.statistics.intervals import student_95_of
from dlmon.statistics.ratios import Error, Ratio, ratio_of

# The intervals of single times say nothing of their degrees of freedom: as of many.
_MANY = 1e6

KINDS = ("this", "earlier", "published")

Reference = tuple[str | None, Published | None]
"""What a person compares with: a session, by its id, or a published time."""


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
        usd_per_hour: what an hour of the machine cost, where that is known.
        session: the id of the run.
        published: what a published row was read from.
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
        """What `value` cost: an epoch, a run or a batch, as the metric says; None without a price.

        For published times that is the price of their day. A throughput has no cost.
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

    Those of the same work come first, then those of other work; each fastest first. A projection
    that leaves out a part has no rank, so it comes last of its kind.
    A value that is no time (zero, negative, infinite) has no row.

    Args:
        metric: what a workload is compared by: a metric of `published.csv`, or
            `step_ms`, the time of a batch, beside which those of its mode stand; of a script
            what `metric_of_script` says.
        this: the run; without a value it has no row.
        ours: its conditions.
        defaults: the workload's own: what its published numbers were taken with.
        earlier: runs of this machine; those of another workload, those that
            failed, those without a value and this run itself are left out.
    """
    own = _row("this", metric, this, ours)
    ours_timed = _work_timed(ours, projected=own is None or own.projected)
    rows = [] if own is None else [own]
    for run in earlier:
        is_over = run.status in (Status.COMPLETED, Status.STOPPED)
        if not is_over or run.workload != ours.workload or run.session == this.session:
            continue
        theirs = with_defaults(run, defaults)
        row = _row("earlier", metric, run, theirs)
        if row is not None:
            unlike = find_differences(metric, _work_timed(theirs, row.projected), ours_timed)
            unlike = (*unlike, *_cut_short(run, row))
            badges = tuple(dict.fromkeys((*unlike, *row.badges)))
            rows.append(replace(row, comparable=row.comparable and not unlike, badges=badges))
    beside = published_metrics(metric, ours.mode)
    for one in published(ours.workload):
        if one.metric in beside:
            rows.append(_published_row(one, metric, beside[one.metric], ours_timed, defaults))
    rows = [row for row in rows if is_time(row.value)]
    return tuple(sorted(rows, key=_rank))


def _row(kind: str, metric: str, run: RunFigures, conditions: Conditions) -> ComparisonRow | None:
    """Return the row of a run, with what a person should know of its time; None without one."""
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
    if isinstance(timing, SecondsPerEpoch) and timing.epochs == 1 and not timing.first_left_out:
        badges.append("1 epoch, compile included" if run.compiles else "first epoch only")
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
        comparable=not missing,
        badges=(*badges, *run.against.values()),
        year=None if is_this else year_of(run.wall),
        framework=run.framework,
        usd_per_hour=usd_per_hour_of(run.options, cpus_of(run.options, run.machine)),
        session=run.session,
    )


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


def _cut_short(run: RunFigures, row: ComparisonRow) -> tuple[str, ...]:
    """Say where a recorded run ended too soon for its value to be compared."""
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
        # The conditions that differ say it.
        framework=row.framework.removesuffix(f", {NO_PRECISION}"),
        usd_per_hour=row.price_usd_per_hour,
        published=row,
    )


def beside(this: ComparisonRow | None, other: ComparisonRow, steady: bool) -> Ratio | str:
    """Return how many times as fast as `other` this run is, or why that can't be said.

    A projection that leaves out a part doesn't compare, nor does one of a run that is not yet
    `steady`; a steady projection counts, and so does a whole epoch that was measured.

    The interval allows only for how each of the two varied by itself (see `Ratio.basis`). A
    published figure counts as exact.
    """
    if not other.comparable:
        return "; ".join(other.badges)
    if this is None or (this.projected and not steady):
        return "this run has no figure yet"
    if this.missing:
        return f"{this.missing} not measured"
    is_published = other.kind == "published"
    errors = [_error_of(row) for row in ((this,) if is_published else (this, other))]
    return ratio_of([this.pace], [other.pace], within=errors) or "this run has no figure yet"


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


# ---- what would have to be changed ----

Changes = tuple[tuple[str, int | str], ...]
"""Options of `run` with the values that they would need: (("batch_size", 128), ...)."""


@record(frozen=True)
class Match:
    """How many published times are comparable once these options are changed, if any have to be."""

    count: int
    changes: Changes = ()


# A training run stays one where it can, and else keeps its backward pass.
_MODES = ("train", "gradients", "inference")


def find_match(conditions: Conditions, defaults: Conditions) -> Match | None:
    """Return the fewest options to change for some published time to be comparable.

    The changes are empty where one is comparable already; None where no options would do.
    Keeping the mode is preferred, then fewer changes, then more times that become comparable.

    Args:
        conditions: of the run.
        defaults: the workload's own: what its published numbers were taken with.
    """
    ways: Counter[Changes] = Counter()
    for row in published(conditions.workload):
        metric = STEP_MS if row.metric.endswith("_ms") else row.metric
        wanted = replace(
            conditions,
            batch_size=row.batch_size,
            mode=row.mode,
            # No option asks for float16 alone or TF32, so a row of these is never comparable.
            precision=row.precision if row.precision in MIXED else "float32",
            epochs=defaults.epochs if metric == "run_seconds" else conditions.epochs,
            data="real" if row.workload in SIZED_BY_DATA else conditions.data,
            # A projection stands for the whole epoch.
            steps_cap=None,
            devices=1,
        )
        beside = published_metrics(metric, row.mode)
        of_metric = beside.get(row.metric, ("another metric",))
        if not published_differences(row, wanted, defaults, of_metric):
            ways[_changes(conditions, wanted)] += 1
    if not ways:
        return None
    best = min(ways, key=lambda way: (_mode_changed(way), len(way), -ways[way], way))
    return Match(ways[best], best)


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
