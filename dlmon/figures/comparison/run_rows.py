"""A session among the published times of its workload and earlier runs, and each row in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import field, replace
from operator import itemgetter

from dlmon.comparison.arguments import GIVEN, NOT_GIVEN, PROGRAM, is_secret
from dlmon.comparison.compared_run import BACKEND, RunFigures, cpus_of
from dlmon.comparison.conditions import Conditions
from dlmon.comparison.published import Published, PublishedDevice, find_device
from dlmon.comparison.references import ComparisonRow, Reference, beside, compare, missing_part
from dlmon.comparison.same_script import is_same_work, script_of
from dlmon.comparison.sides import (
    Difference,
    argument_differences,
    code_differences,
    throughput_ratio,
)
from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.comparison.earlier_runs import (
    EARLIER_SESSIONS,
    MOST_EARLIER,
    basis_of_epoch,
    compile_text,
    conditions_of,
    default_conditions,
    earlier_sessions,
    effective_text,
    epoch_word,
    has_figure,
    metric_of,
    share_text,
    timed_unit,
    timing_of,
)
from dlmon.figures.quantity_text import rows_shown_in
from dlmon.figures.report.sections import Bar, Bars, Row
from dlmon.figures.session.tables import measured_in_short
from dlmon.figures.session.time_breakdown import regular_steps_text
from dlmon.log.directory import SessionEntry
from dlmon.options.run_options import OPTIONS, RunOptions, known_options
from dlmon.quantities import BY_KEY
from dlmon.records import Result, SessionHeader
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.session.run_figures import figures_of_entry, figures_of_snapshot, runs_that_ended
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource
from dlmon.statistics.ratios import Ratio
from workloads.catalog import WORKLOADS, Workload

MOST_ARGUMENTS = 3
_LONGEST_ARGUMENT = 24


@record(frozen=True)
class Comparison:
    """A session among the published times of its workload, and earlier runs of this machine.

    Attributes:
        snapshot: of the session.
        rows: as `compare` returns them; none where it has no figure, nor will have one.
        names: what to call the earlier runs, by id.
        earlier: those, by id, the oldest first.
        runs: what all of them give for comparing, this session too, by id.
        repeats: runs that may say how far runs of the same conditions differ.
        given: what each of the earlier runs was given otherwise.
        reference: what a person chose to compare with.
        is_running: whether the session goes on.
    """

    snapshot: Snapshot
    rows: tuple[ComparisonRow, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    earlier: dict[str, SessionEntry] = field(default_factory=dict)
    runs: Mapping[str, RunFigures] = field(default_factory=dict)
    repeats: Sequence[RunFigures] = ()
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reference: Reference | None = None
    is_running: bool = False

    @property
    def title(self) -> str:
        unit = BY_KEY[metric_of(self.snapshot)].unit
        return unit.replace("/s", " per second").capitalize()

    @property
    def this(self) -> ComparisonRow | None:
        return next((row for row in self.rows if row.kind == "this"), None)

    @property
    def chosen(self) -> ComparisonRow | None:
        """The row that a person chose to compare with; None where it isn't among them."""
        others = (row for row in self.rows if row.kind != "this")
        return next((row for row in others if row.reference == self.reference), None)

    @property
    def nearest(self) -> ComparisonRow | None:
        """The published row of which this run's factor is nearest to 1; None without any."""
        published = [row for row in self.rows if row.kind == "published"]
        factors = [(self.factor(row), row) for row in published]
        known = [(abs(math.log(one.value)), row) for one, row in factors if isinstance(one, Ratio)]
        return min(known, key=itemgetter(0))[1] if known else None

    @property
    def before(self) -> ComparisonRow | None:
        """The newest earlier run that this one can be compared with."""
        by_session = {row.session: row for row in self.rows if row.kind == "earlier"}
        newest_first = (by_session[one] for one in reversed(self.earlier) if one in by_session)
        return next((row for row in newest_first if isinstance(self.factor(row), Ratio)), None)

    def name_of(self, row: ComparisonRow) -> str:
        """Return what to call a row in a sentence."""
        return self.names.get(row.session or "", units.device(row.label))

    def result_of(self, row: ComparisonRow) -> Result | None:
        """Return the result of a run of ours that is over."""
        if row.kind == "this":
            return self.snapshot.result
        entry = self.earlier.get(row.session or "")
        return None if entry is None else entry.result

    def factor(self, row: ComparisonRow) -> Ratio | str:
        """Return how many times as fast as a row this run is, or why that can't be said.

        Of two runs that is the ratio of their throughputs, as `dlmon compare` gives it.
        """
        found = beside(self.this, row, self.snapshot.samples_per_second is not None)
        if isinstance(found, str) or row.session is None or row.session not in self.earlier:
            return found
        theirs, ours = self.runs[row.session], self.runs[self.snapshot.header.id]
        return throughput_ratio(theirs, ours, self.repeats) or found

    def against(self, row: ComparisonRow, name: str = "") -> str:
        """Say how many times as fast as a row this run is, with its interval."""
        found, unsure = self.factor(row), "1 run each"
        if row.kind == "published":
            is_exact = isinstance(found, Ratio) and found.low is not None
            unsure = "" if is_exact else "one published figure"
        return verdicts.verdict(found, name or self.name_of(row), unsure)

    def against_nearest(self) -> str:
        """Say it of the published number that is nearest, or why there is none."""
        published = [row for row in self.rows if row.kind == "published"]
        if self.this is None or not published:
            return ""
        if not any(row.comparable for row in published):
            return difference("; ".join(published[0].badges))
        if self.this.missing:
            return f"not compared: {self.this.missing} not measured"
        nearest = self.nearest
        return "" if nearest is None else self.against(nearest)

    def against_before(self) -> str:
        """Say it of the run before, and what that was given otherwise."""
        row = self.before
        if row is None:
            return ""
        entry = self.earlier[row.session or ""]
        name, *otherwise = self.names[entry.header.id].split(", ")
        if entry.header.id == next(reversed(self.earlier)):
            name = "the run before"
        elif entry.label.name is None:
            name = f"the {name}"
        return self.against(row, ", ".join([name, *otherwise, *self.given[entry.header.id]]))

    def alone(self) -> str:
        """Say that there is nothing to compare with, where that is so."""
        header = self.snapshot.header
        if not self.rows and timing_of(self.snapshot) is None and not self.is_running:
            return NO_FIGURE
        is_known = header.is_script or header.workload in WORKLOADS
        if not is_known or any(row.kind != "this" or row.cost_usd is not None for row in self.rows):
            return ""
        return "No earlier run to compare with."


NO_FIGURE = "This run has no figure to compare."


def difference(badge: str) -> str:
    """Say what keeps the published numbers from being compared, and which side has what."""
    sides = [part.partition(", not ") for part in badge.split("; ")]
    theirs = ", ".join(theirs for theirs, _, _ in sides)
    ours = ", ".join(ours for _, _, ours in sides if ours)
    return f"published {theirs}; here {ours}" if ours else f"published: {theirs}"


def comparison_of(
    snapshot: Snapshot,
    entries: Sequence[SessionEntry],
    reference: Reference | None = None,
    is_running: bool = False,
    repeats: Sequence[RunFigures] = (),
) -> Comparison:
    """Return a session among published times and earlier sessions, those of `earlier_sessions`."""
    if not is_running and timing_of(snapshot) is None:
        return Comparison(snapshot)
    this, workload = figures_of_snapshot(snapshot), WORKLOADS.get(snapshot.header.workload)
    if this.command is not None:
        # What a script doesn't say is taken to be as it was the last time.
        precision = this.precision or "the script's own precision"
        ours: Conditions = replace(this, precision=precision, data=None)
        defaults = ours
    elif workload is not None:
        defaults = default_conditions(workload)
        ours = conditions_of(this, snapshot, defaults)
    else:
        return Comparison(snapshot, is_running=is_running)
    runs = {entry.header.id: figures_of_entry(entry) for entry in entries}
    given = {id: given_otherwise(run, this) for id, run in runs.items()}
    rows = [
        row
        if row.kind != "earlier"
        else replace(row, badges=(*given[row.session or ""], *row.badges))
        for row in compare(metric_of(snapshot), this, ours, defaults, list(runs.values()))
    ]
    earlier = {entry.header.id: entry for entry in entries}
    names = _names(entries, runs, this)
    runs[this.session] = this
    return Comparison(
        snapshot, tuple(rows), names, earlier, runs, repeats, given, reference, is_running
    )


def repeats_of(entries: Sequence[SessionEntry], header: SessionHeader) -> list[RunFigures]:
    """Return the runs of the same work: those of the same conditions say how far runs differ."""
    same_work = (entry for entry in entries if is_same_work(entry.header, header))
    return runs_that_ended(same_work)


def _names(
    entries: Sequence[SessionEntry], runs: Mapping[str, RunFigures], this: RunFigures
) -> dict[str, str]:
    """Return what to call runs: a name, or when each began, and how it computed otherwise.

    Where that is the same of several, they show the end of their ids too.
    """
    names = {}
    for entry in entries:
        run = runs[entry.header.id]
        name = run.name or f"run of {units.moment(run.wall, this.wall)}"
        there, here = (one.device_name or one.device for one in (run, this))
        elsewhere = [units.device(there)] if there and there != here else []
        names[run.session] = ", ".join([name, *elsewhere, *computed_otherwise(run, this)])
    shared = Counter(names.values())
    return {
        session: name if shared[name] == 1 else f"{name} ({session.rpartition('-')[2]})"
        for session, name in names.items()
    }


def computed_otherwise(theirs: RunFigures, ours: RunFigures) -> list[str]:
    """Return how an earlier run computed, as far as this one does it otherwise.

    It did the same work, so the two compare; but a person should know what makes the difference.
    """

    def known(run: RunFigures) -> dict[str, object]:
        # No option says what the Keras of a script runs on: it may have been seen.
        usual = vars(RunOptions()) | ({BACKEND: None} if run.command else {})
        return usual | known_options(run.options) | {"cpus": cpus_of(run.options, run.machine)}

    had, have = known(theirs), known(ours)
    return [
        OPTIONS[name].words(had[name])
        for name in (BACKEND, "cpus", "threads", "jit", "python")
        if had[name] != have[name]
        and not (name in (BACKEND, "cpus") and None in (had[name], have[name]))
    ]


def given_otherwise(theirs: RunFigures, ours: RunFigures) -> tuple[str, ...]:
    """Say what an earlier run of a script was given otherwise, and that its code was another.

    What this one has more is named as missing there: `without --workers`. Of very many the first
    are named. These notes go into reports, so they hold no value of what is called a key, a token
    or a password.
    """
    texts = [_argument_text(each) for each in argument_differences([theirs], [ours])]
    more = len(texts) - MOST_ARGUMENTS
    code = [f"other {each.name}" for each in code_differences([theirs], [ours])]
    return (*texts[:MOST_ARGUMENTS], *([f"and {more} more"] if more > 0 else []), *code)


def _argument_text(found: Difference) -> str:
    """Write what the earlier run had of an argument, or that it had none.

    Of one that has a place and no name, also what this run has there: `argument 1 "a", not "b"`.
    """
    name = clean(found.name, _LONGEST_ARGUMENT)
    if found.name == PROGRAM or found.name.startswith(("argument ", "word ")):
        theirs, ours = (
            None if value == NOT_GIVEN else f'{name} "{clean(value, _LONGEST_ARGUMENT)}"'
            for value in (found.base, found.new)
        )
        if theirs is None:
            return f"without {ours}"
        return theirs if ours is None else f"{theirs}, not{ours.removeprefix(name)}"
    if found.base == NOT_GIVEN:
        return f"without {name}"
    value = "(another)" if is_secret(found.name) else clean(found.base, _LONGEST_ARGUMENT)
    if name.startswith("-"):
        return name if found.base == GIVEN else f"{name} {value}"
    return f"{name}={value}"


def comparison_bars(comparison: Comparison) -> Bars:
    """Return this run among the others as bars."""
    rows = comparison.rows
    # What others cost then is worth a word where this run has a price as well.
    is_priced = comparison.this is not None and comparison.this.cost_usd is not None
    bars = tuple(_bar(row, comparison.names, is_priced) for row in rows)
    per = timed_unit(rows[0].metric) if rows else ""
    return Bars("Comparison", bars, per or "throughput")


def _bar(row: ComparisonRow, names: Mapping[str, str], is_priced: bool) -> Bar:
    of_peak = peak_share(row.published)[0] if row.published else None
    own = row.published if row.published is not None and row.published.own else None
    # What a person wrote of their own figure; of the others, each note is of the same article.
    note = own.note if own is not None and own.note not in row.badges else ""
    kinds = (row.kind, own and "own", None if row.comparable or row.kind == "this" else "other")
    return Bar(
        label=names.get(row.session or "", units.device(row.label)),
        value=row.value,
        text=("~ " if row.projected else "") + units.duration(row),
        kind=" ".join(kind for kind in kinds if kind),
        note="; ".join(filter(None, (*row.badges, note))),
        more=(
            # What a run of ours is called says when it was.
            str(row.year) if row.kind == "published" and row.year else "",
            row.framework or "",
            "" if of_peak is None else f"{units.share(of_peak)} of its peak",
            units.dollars(row.cost_usd) if is_priced and row.cost_usd is not None else "",
        ),
        session=row.session or "" if row.kind == "earlier" else "",
    )


def row_details(row: ComparisonRow, result: Result | None = None) -> list[Row]:
    """Return names and texts for a row; `result` is that of a run of ours that is over."""
    time = units.with_band(row)
    uncertain = f" ({units.UNCERTAIN})" * time.is_uncertain
    batch = f", batch {row.published.batch_size}" if row.published else ""
    details = [
        (
            "throughput" if row.is_rate else "time",
            f"{time.text()} {timed_unit(row.metric)}".rstrip() + batch + uncertain,
        ),
        ("to know" if row.comparable else "differs", "; ".join(row.badges)),
        ("measured", ", ".join(str(part) for part in (row.framework, row.year) if part)),
    ]
    if row.published:
        details.extend(_published_details(row.published))
    elif result is not None:
        details.append(("speed", effective_text(result)))
    if row.cost_usd is not None:
        details.append(("cost", f"{units.dollars(row.cost_usd)} {timed_unit(row.metric)}"))
    return [(name, text) for name, text in details if text]


def _published_details(row: Published) -> list[Row]:
    device = find_device(row.device)
    share, why = peak_share(row)
    details = [("of its peak", f"– ({why})" if share is None else units.share(share))]
    if device is not None:
        details += [("device", _device_text(device)), ("about it", device.note or "")]
    details += [("note", row.note), ("source", row.source)]
    if device is not None and device.source != row.source:
        details.append(("device by", device.source))
    return details


def peak_share(row: Published) -> tuple[float | None, str | None]:
    """Return the operations of a published time as a share of its device's peak, or why not."""
    device = find_device(row.device)
    workload = WORKLOADS.get(row.workload)
    if device is None or workload is None:
        return None, "this device or this workload is not known"
    if row.differs:
        return None, f"its operations are not known: {row.differs}"
    seconds = row.value / 1000 if row.metric.endswith("_ms") else row.value
    return device.peak_share(operations(row, workload) / seconds, row.precision)


def operations(row: Published, workload: Workload) -> float:
    """Count the floating-point operations that a published time stands for."""
    more = 1 + row.more_operations_pct / 100
    if row.metric.endswith("_ms"):
        forward = row.metric == "forward_ms"
        of_sample = workload.forward_flops if forward else workload.train_flops
        return more * of_sample * row.batch_size
    epochs = workload.epochs if row.metric == "run_seconds" else 1
    training = epochs * workload.samples * workload.train_flops
    validated = (workload.validation_samples or 0) + (workload.evaluation_samples or 0)
    return training + validated * workload.forward_flops


def _device_text(device: PublishedDevice) -> str:
    """Name what is known of a device: cores, clocks, memory, peak, price."""
    clocks = [mhz for mhz in (device.base_mhz, device.boost_mhz) if mhz is not None]
    size = "" if device.memory_gb is None else f"{device.memory_gb:g} GB"
    memory = " ".join(part for part in (size, device.memory) if part)
    bandwidth = device.bandwidth_gb_s
    printed = device.printed_tflop_s
    as_printed = printed is not None and printed != device.tflop_s_float32
    parts = [
        "" if device.cores is None else f"{device.cores:,} cores",
        f"{' to '.join(f'{mhz:,}' for mhz in clocks)} MHz" if clocks else "",
        memory,
        "" if bandwidth is None else f"{bandwidth:g} GB/s",
        "" if device.tflop_s_float32 is None else f"{device.tflop_s_float32:g} TFLOP/s float32",
        f"the article prints {printed:g}" if as_printed else "",
        "" if device.price_usd is None else f"{device.price_usd:,.0f} USD then",
    ]
    return ", ".join(part for part in parts if part)


# A first batch that compiles nothing is named where it takes this much more than a usual one.
_A_DELAY_S = 0.1


class SessionComparison:
    """What a session is compared with, as more is known of it.

    What each workload is compared with, as it was chosen, stands in `references`, for others too.
    """

    def __init__(self, source: SessionSource, references: MutableMapping[str, Reference]) -> None:
        self._source = source
        self._references = references
        self._all_earlier: list[SessionEntry] = []
        self._repeats: list[RunFigures] = []
        self.is_known = False
        """Whether the earlier sessions were read."""

    def take_entries(self, entries: list[SessionEntry]) -> None:
        """Compare with the sessions that were recorded before."""
        header = self._source.session.header
        self.is_known = True
        self._all_earlier = earlier_sessions(entries, header, MOST_EARLIER)
        self._repeats = repeats_of(entries, header)

    @property
    def reference(self) -> Reference | None:
        """What this run is compared with, as it was chosen for its workload."""
        return self._references.get(self._work)

    def refer_to(self, row: ComparisonRow | None) -> None:
        """Compare runs of this workload with a row from now on; None is the run before each."""
        if row is None:
            self._references.pop(self._work, None)
        else:
            self._references[self._work] = row.reference

    @property
    def _work(self) -> str:
        """What runs: of a script its path too, as many are called alike."""
        header = self._source.session.header
        script = script_of(header)
        return header.workload if script is None else f"{script.place}: {script.name}"

    def in_short(self, snapshot: Snapshot) -> Comparison:
        """Return it with the newest earlier sessions alone, and the one that was chosen."""
        chosen = self.reference and self.reference[0]
        metric, workload = metric_of(snapshot), snapshot.header.workload
        known = [
            entry
            for entry in self._all_earlier
            if entry.result is not None and has_figure(entry.result, workload, metric)
        ]
        first = len(known) - EARLIER_SESSIONS
        newest = [each for n, each in enumerate(known) if n >= first or each.header.id == chosen]
        return self._comparison_of(snapshot, newest)

    def in_full(self) -> Comparison:
        """Return it as it stands now, with all earlier sessions."""
        return self._comparison_of(self._source.snapshot(), self._all_earlier)

    def _comparison_of(self, snapshot: Snapshot, entries: Sequence[SessionEntry]) -> Comparison:
        is_running = self._source.running
        return comparison_of(snapshot, entries, self.reference, is_running, self._repeats)


def facts_of_epoch(snapshot: Snapshot) -> list[str]:
    """Return the time of an epoch where the figure is that of a whole run, and other facts."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    facts = []
    if timing is snapshot.run_seconds and per_epoch is not None:
        facts.append(f"{units.band(per_epoch)} per epoch")
    if snapshot.stalls:
        word = epoch_word(snapshot.header)
        facts.append(units.stalls(snapshot.stalls, snapshot.opening_stalls or 0, word))
    first_s = snapshot.compiled_s if snapshot.compiles else snapshot.first_batch_s
    if first_s is not None and (snapshot.compiles or first_s >= _A_DELAY_S):
        facts.append(compile_text(first_s, snapshot.compiles))
    if snapshot.regular_steps is not None:
        facts.append(f"{regular_steps_text(snapshot.regular_steps)} between")
    facts.extend(map(" ".join, rows_shown_in("live", snapshot)))
    effective = snapshot.result or snapshot.effective
    # There is no room for both.
    share = share_text(effective) if effective.peak_from is not None else ""
    facts.append(share or effective_text(effective))
    return [fact for fact in facts if fact]


def basis_of(snapshot: Snapshot) -> str:
    """Say whether the figure was measured or projected, and from what."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    if metric_of(snapshot) == "step_ms" and snapshot.step_ms is not None:
        p95 = snapshot.step_ms.p95
        return "mean" if p95 is None else f"mean, p95 {units.milliseconds(p95)}"
    if timing is not None and timing.projected:
        missing = missing_part(timing, snapshot.why)
        return f"projected without {missing}" if missing else "projected"
    if per_epoch is None or timing is snapshot.run_seconds:
        return "measured" if timing is not snapshot.run_seconds else "measured, without the start"
    # How many epochs there are is seen below.
    basis = basis_of_epoch(per_epoch, snapshot.compile_s, snapshot.compiles).rpartition(", ")[2]
    if per_epoch.first_left_out:
        basis = "excludes the first epoch"
    parts = (units.usual_epoch(per_epoch), measured_in_short(snapshot), basis)
    return "; ".join(part for part in parts if part)
