"""Compare a session with published times and earlier runs, and write each row in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import field, replace

from dlmon.comparison.arguments import GIVEN, NOT_GIVEN, PROGRAM, is_secret
from dlmon.comparison.compared_run import BACKEND, RunFigures
from dlmon.comparison.conditions import Conditions
from dlmon.comparison.price import cpus_of
from dlmon.comparison.published import Published, PublishedDevice, find_device
from dlmon.comparison.references import (
    INCLUDES_COMPILE,
    ComparisonRow,
    Reference,
    beside,
    compare,
    missing_part,
)
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
    conditions_of,
    default_conditions,
    earlier_sessions,
    has_figure,
)
from dlmon.figures.quantity_text import rows_shown_in
from dlmon.figures.sections import Bar, Bars, Row
from dlmon.figures.session.compared_figure import (
    basis_of_epoch,
    compile_text,
    metric_of,
    timed_unit,
    timing_of,
)
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.run_facts import device_text, effective_text, share_text
from dlmon.figures.session.tables import measured_in_short
from dlmon.figures.session.time_breakdown import regular_steps_text
from dlmon.log.directory import SessionEntry
from dlmon.options.run_options import OPTIONS, RunOptions, known_options
from dlmon.quantities import BY_KEY
from dlmon.records import Result, SessionHeader, TimePart
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.session.run_figures import figures_of_entry, figures_of_snapshot, runs_that_ended
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import SessionSource
from dlmon.statistics.ratios import NOTICEABLE_CHANGE, Ratio
from workloads.catalog import WORKLOADS, Workload

MOST_ARGUMENTS = 3
_LONGEST_ARGUMENT = 24
PUBLISHED = "published "
"""What precedes a device whose published figure is meant."""
MANY_TIMES = 3.0
"""A run that is so many times slower than its device as published is told so first."""
_MAKER = re.compile(r"^(NVIDIA|Intel|AMD) ")


@record(frozen=True)
class Comparison:
    """A session beside the published times of its workload and earlier runs of this machine.

    Attributes:
        snapshot: the session.
        rows: the result of `compare`; empty if the session never had a figure.
        names: the names of the earlier runs, by id.
        earlier: the earlier runs by id, the oldest first.
        runs: the figures of the earlier runs and of this session, by id.
        repeats: runs from which the spread between runs of the same conditions is estimated.
        differences: how the arguments and the code of each earlier run differ from this one's.
        reference: the row that a person chose to compare with.
        is_running: whether the session is still running.
    """

    snapshot: Snapshot
    rows: tuple[ComparisonRow, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    earlier: dict[str, SessionEntry] = field(default_factory=dict)
    runs: Mapping[str, RunFigures] = field(default_factory=dict)
    repeats: Sequence[RunFigures] = ()
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
        """The row that a person chose to compare with; None if it isn't shown."""
        candidates = (row for row in self.rows if row.kind != "this")
        return next((row for row in candidates if row.reference == self.reference), None)

    @property
    def nearest(self) -> ComparisonRow | None:
        """The published row of this device, else that of the nearest figure; None without any."""
        found = self._nearest_to(self.this)
        return found and found[0]

    def _nearest_to(self, this: ComparisonRow | None) -> tuple[ComparisonRow, Ratio] | None:
        """Return the published row to compare a row with, and its factor; None without any."""
        is_steady = self.snapshot.samples_per_second is not None
        published = (row for row in self.rows if row.kind == "published")
        factors = ((row, beside(this, row, is_steady)) for row in published)
        found = ((row, factor) for row, factor in factors if isinstance(factor, Ratio))

        def distance(pair: tuple[ComparisonRow, Ratio]) -> tuple[bool, float]:
            row, factor = pair
            return not self._is_of_this_device(row), abs(math.log(factor.value))

        return min(found, key=distance, default=None)

    def _is_of_this_device(self, row: ComparisonRow) -> bool:
        return units.device(device_text(self.snapshot)).endswith(units.device(row.label))

    @property
    def _whole(self) -> ComparisonRow | None:
        """This run as if it had all parts."""
        return None if self.this is None else replace(self.this, missing=None)

    @property
    def before(self) -> ComparisonRow | None:
        """The newest earlier run that this one can be compared with."""
        by_session = {row.session: row for row in self.rows if row.kind == "earlier"}
        newest_first = (by_session[id] for id in reversed(self.earlier) if id in by_session)
        return next((row for row in newest_first if isinstance(self.factor(row), Ratio)), None)

    def name_of(self, row: ComparisonRow) -> str:
        """Return what to call a row."""
        return self.names.get(row.session or "", units.device(row.label))

    def _in_a_sentence(self, row: ComparisonRow) -> str:
        """Return the name of a row, which says of a published figure that it is one."""
        if row.published is not None and not row.published.own:
            # With its maker it has no room on a small screen.
            return f"{PUBLISHED}{_MAKER.sub('', units.device(row.label))}"
        return self.name_of(row)

    def factor(self, row: ComparisonRow) -> Ratio | str:
        """Return how many times as fast as a row this run is, or why it can't be compared.

        For two runs it is the ratio of their throughputs, with the interval of `dlmon compare`;
        without throughputs it is that of their times, without an interval.
        """
        factor = beside(self.this, row, self.snapshot.samples_per_second is not None)
        if isinstance(factor, str) or row.session is None or row.session not in self.earlier:
            return factor
        theirs, ours = self.runs[row.session], self.runs[self.snapshot.header.id]
        return throughput_ratio(theirs, ours, self.repeats) or Ratio(factor.value)

    def against(self, row: ComparisonRow, name: str = "") -> str:
        """Say how many times as fast as a row this run is, with its interval."""
        factor, unsure = self.factor(row), "1 run each"
        if row.kind == "published":
            unsure = "one published figure"
            if isinstance(factor, Ratio) and not factor.may_be_one:
                # How this run varied says nothing of how the published one did.
                factor = Ratio(factor.value)
        return verdicts.verdict(factor, name or self._in_a_sentence(row), unsure)

    def against_nearest(self) -> str:
        """Compare in words with the nearest published number, or say why there is none."""
        published = [row for row in self.rows if row.kind == "published"]
        if self.this is None or not published:
            return ""
        if not any(row.comparable for row in published):
            return difference("; ".join(published[0].badges))
        if self.this.missing:
            return self._already_slower() or f"not compared: no {self.this.missing} measured"
        if self.this.includes_compile:
            return INCLUDES_COMPILE
        nearest = self.nearest
        return "" if nearest is None else self.against(nearest)

    def _already_slower(self) -> str:
        """Say that this run is slower even without the part that it lacks; empty if it isn't."""
        found = self._nearest_to(self._whole)
        if found is None:
            return ""
        row, factor = found
        most = factor.high or factor.value
        if most > 1 - NOTICEABLE_CHANGE:
            return ""
        # It is a bound, so further digits say nothing; 1.02 must not become 1.
        unit = 0.1 if most < 0.5 else 0.01
        bound = math.floor(1 / most / unit) * unit
        return f"at least {bound:.3g}× as slow as {self._in_a_sentence(row)}"

    def far_slower(self) -> str:
        """Say that this run is many times slower than its device as published; empty if not."""
        found = self._nearest_to(self._whole)
        if found is None or not self._is_of_this_device(found[0]):
            return ""
        most = found[1].high or found[1].value
        # A screen names the device above it.
        text = self.against_nearest().partition(" (")[0]
        return "".join(text.partition(" published")[:2]) if most <= 1 / MANY_TIMES else ""

    def against_before(self) -> str:
        """Compare in words with the run before, and say how its arguments differ."""
        row = self.before
        if row is None:
            return ""
        entry = self.earlier[row.session or ""]
        name, *otherwise = self.names[entry.header.id].split(", ")
        if entry.header.id == next(reversed(self.earlier)):
            name = "the run before"
        elif entry.label.name is None:
            name = f"the {name}"
        name = ", ".join([name, *otherwise, *self.differences[entry.header.id]])
        factor = self.factor(row)
        # The times that stand beside it may well differ: of two runs, throughputs are compared.
        is_unclear = isinstance(factor, Ratio) and factor.may_be_one
        return f"{'throughput: ' * is_unclear}{self.against(row, name)}"

    def verdict(self) -> tuple[str, ...]:
        """Return the figure of a run that is over, how it compares, and the interval of that.

        Empty without a figure.
        """
        timing = timing_of(self.snapshot)
        if timing is None or self.is_running:
            return ()
        figure = f"{units.band(timing)} {timed_unit(metric_of(self.snapshot))}".rstrip()
        against = self.against_before() if self.chosen is None else self.against(self.chosen)
        compared, bracket, interval = (against or self.against_nearest()).partition(" (")
        return tuple(filter(None, (figure, compared, f"{bracket}{interval}".lstrip())))

    def alone(self) -> str:
        """Say that there is nothing to compare with; empty if there is."""
        header = self.snapshot.header
        if not self.rows and timing_of(self.snapshot) is None and not self.is_running:
            return NO_FIGURE
        is_known = header.is_script or header.workload in WORKLOADS
        if not is_known or any(row.kind != "this" or row.cost_usd is not None for row in self.rows):
            return ""
        return "No earlier run to compare with."


NO_FIGURE = "This run has no figure to compare."


def difference(badge: str) -> str:
    """Say how the published numbers differ from this run, so that they don't compare."""
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
    """Compare a session with published times and the sessions of `earlier_sessions`."""
    if not is_running and timing_of(snapshot) is None:
        return Comparison(snapshot)
    this, workload = figures_of_snapshot(snapshot), WORKLOADS.get(snapshot.header.workload)
    if this.command is not None:
        # What the log of a script doesn't say is assumed to be the same as in earlier runs.
        precision = this.precision or "the script's own precision"
        ours: Conditions = replace(this, precision=precision, data=None)
        defaults = ours
    elif workload is not None:
        defaults = default_conditions(workload)
        ours = conditions_of(this, snapshot, defaults)
    else:
        return Comparison(snapshot, is_running=is_running)
    runs = {entry.header.id: figures_of_entry(entry) for entry in entries}
    differences = {id: given_otherwise(run, this) for id, run in runs.items()}
    rows = [
        row
        if row.kind != "earlier"
        else replace(row, badges=(*differences[row.session or ""], *row.badges))
        for row in compare(metric_of(snapshot), this, ours, defaults, list(runs.values()))
    ]
    earlier = {entry.header.id: entry for entry in entries}
    names = _names(entries, runs, this)
    runs[this.session] = this
    return Comparison(
        snapshot, tuple(rows), names, earlier, runs, repeats, differences, reference, is_running
    )


def comparison_among(snapshot: Snapshot, entries: Sequence[SessionEntry]) -> Comparison:
    """Compare a session that is over with published times and with those of all `entries`."""
    earlier = earlier_sessions(entries, snapshot.header, metric=metric_of(snapshot))
    return comparison_of(snapshot, earlier, repeats=repeats_of(entries, snapshot.header))


def repeats_of(entries: Sequence[SessionEntry], header: SessionHeader) -> list[RunFigures]:
    """Return the runs of the same work, from which the spread between runs is estimated."""
    same_work = (entry for entry in entries if is_same_work(entry.header, header))
    return runs_that_ended(same_work)


def _names(
    entries: Sequence[SessionEntry], runs: Mapping[str, RunFigures], this: RunFigures
) -> dict[str, str]:
    """Name runs by their name or start time, and by the settings that differ from this run's.

    Runs of equal names show the end of their ids too.
    """
    names = {}
    for entry in entries:
        run = runs[entry.header.id]
        name = run.name or f"run of {units.moment(run.wall, this.wall)}"
        there, here = (compared.device_name or compared.device for compared in (run, this))
        elsewhere = [units.device(there)] if there and there != here else []
        names[run.session] = ", ".join([name, *elsewhere, *computed_otherwise(run, this)])
    shared = Counter(names.values())
    return {
        session: name if shared[name] == 1 else f"{name} ({session.rpartition('-')[2]})"
        for session, name in names.items()
    }


def computed_otherwise(theirs: RunFigures, ours: RunFigures) -> list[str]:
    """Return the settings of an earlier run that differ from this one's, in words.

    Both did the same work, so they compare; but the settings may explain the difference.
    """

    def settings_of(run: RunFigures) -> dict[str, object]:
        # No option names the Keras backend of a script, but the log may.
        usual = vars(RunOptions()) | ({BACKEND: None} if run.command else {})
        return usual | known_options(run.options) | {"cpus": cpus_of(run.options, run.machine)}

    had, have = settings_of(theirs), settings_of(ours)
    return [
        OPTIONS[name].words(had[name])
        for name in (BACKEND, "cpus", "threads", "jit", "python")
        if had[name] != have[name]
        and not (name in (BACKEND, "cpus") and None in (had[name], have[name]))
    ]


def given_otherwise(theirs: RunFigures, ours: RunFigures) -> tuple[str, ...]:
    """Say how the arguments and the code of an earlier run of a script differ from this one's.

    An argument that only this run has reads `without --workers`. Of many, only the first are named.
    These notes go into reports, so they hold no value of a key, a token or a password.
    """
    texts = [_argument_text(argument) for argument in argument_differences([theirs], [ours])]
    more = len(texts) - MOST_ARGUMENTS
    code = [f"other {part.name}" for part in code_differences([theirs], [ours])]
    return (*texts[:MOST_ARGUMENTS], *([f"and {more} more"] if more > 0 else []), *code)


def _argument_text(difference: Difference) -> str:
    """Write the earlier run's value of an argument, or that it had none.

    For a positional argument, add this run's value: `argument 1 "a", not "b"`.
    """
    name = clean(difference.name, _LONGEST_ARGUMENT)
    if difference.name == PROGRAM or difference.name.startswith(("argument ", "word ")):
        theirs, ours = (
            None if value == NOT_GIVEN else f'{name} "{clean(value, _LONGEST_ARGUMENT)}"'
            for value in (difference.base, difference.new)
        )
        if theirs is None:
            return f"without {ours}"
        return theirs if ours is None else f"{theirs}, not{ours.removeprefix(name)}"
    if difference.base == NOT_GIVEN:
        return f"without {name}"
    value = "(another)" if is_secret(difference.name) else clean(difference.base, _LONGEST_ARGUMENT)
    if name.startswith("-"):
        return name if difference.base == GIVEN else f"{name} {value}"
    return f"{name}={value}"


def comparison_bars(comparison: Comparison) -> Bars:
    """Return this run and the rows beside it as bars."""
    rows = comparison.rows
    # The cost of other rows is shown only if this run has a price too.
    is_priced = comparison.this is not None and comparison.this.cost_usd is not None
    bars = tuple(_bar(row, comparison.names, is_priced) for row in rows)
    per = timed_unit(rows[0].metric) if rows else ""
    return Bars("Comparison", bars, per or "throughput")


def _bar(row: ComparisonRow, names: Mapping[str, str], is_priced: bool) -> Bar:
    of_peak = peak_share(row.published)[0] if row.published else None
    own_figure = row.published if row.published is not None and row.published.own else None
    # A note of a person's own figure; the notes of published ones all cite the same article.
    note = own_figure.note if own_figure is not None and own_figure.note not in row.badges else ""
    other = None if row.comparable or row.kind == "this" else "other"
    kinds = (row.kind, own_figure and "own", other)
    return Bar(
        label=names.get(row.session or "", units.device(row.label)),
        value=row.value,
        text=("~ " if row.projected else "") + units.duration(row),
        kind=" ".join(kind for kind in kinds if kind),
        note="; ".join(filter(None, (*row.badges, note))),
        more=(
            # The name of a recorded run already says when it was.
            str(row.year) if row.kind == "published" and row.year else "",
            row.framework or "",
            "" if of_peak is None else f"{units.share(of_peak)} of its peak",
            units.dollars(row.cost_usd) if is_priced and row.cost_usd is not None else "",
        ),
        session=row.session or "" if row.kind == "earlier" else "",
    )


def row_details(row: ComparisonRow, result: Result | None = None) -> list[Row]:
    """Return the details of a row; for this run with its result if it is over."""
    time = units.with_band(row)
    uncertain = f" ({units.UNCERTAIN})" * time.is_uncertain
    batch = f", batch {row.published.batch_size}" if row.published else ""
    details = [
        (
            "throughput" if row.is_rate else f"time {timed_unit(row.metric)}",
            f"{time.text()} {timed_unit(row.metric) * row.is_rate}".rstrip() + batch + uncertain,
        ),
        ("conditions" if row.comparable else "differs", "; ".join(row.badges)),
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
    """Return the share of its device's peak that a published time reaches, or why it is unknown."""
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
    """Write the facts about a device: cores, clocks, memory, peak, price."""
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


# A first batch that doesn't compile is mentioned if it takes this much longer than others.
_A_DELAY_S = 0.1


class SessionComparison:
    """The comparison of a session, from each of its snapshots.

    `references` holds the chosen row of each workload, and is shared with other sessions.
    """

    def __init__(self, source: SessionSource, references: MutableMapping[str, Reference]) -> None:
        self._source = source
        self._references = references
        self._all_earlier: list[SessionEntry] = []
        self._repeats: list[RunFigures] = []
        self.is_known = False
        """False until the earlier sessions were read."""

    def take_entries(self, entries: list[SessionEntry]) -> None:
        """Set the earlier sessions to compare with."""
        header = self._source.session.header
        self.is_known = True
        self._all_earlier = earlier_sessions(entries, header, MOST_EARLIER)
        self._repeats = repeats_of(entries, header)

    @property
    def account_before(self) -> Mapping[str, float]:
        """The time breakdown of the newest earlier run that trained; empty without one."""
        results = (entry.result for entry in reversed(self._all_earlier))
        accounts = (result.account for result in results if result is not None and result.account)
        return next((account for account in accounts if TimePart.TRAINING in account), {})

    @property
    def reference(self) -> Reference | None:
        """The chosen row to compare with, for this workload."""
        return self._references.get(self._work)

    def refer_to(self, row: ComparisonRow | None) -> None:
        """Compare runs of this workload with a row from now on; None means the run before each."""
        if row is None:
            self._references.pop(self._work, None)
        else:
            self._references[self._work] = row.reference

    @property
    def _work(self) -> str:
        """The workload, or a script with its path, as many scripts have the same name."""
        header = self._source.session.header
        script = script_of(header)
        return header.workload if script is None else f"{script.place}: {script.name}"

    def in_short(self, snapshot: Snapshot) -> Comparison:
        """Return the comparison with the newest earlier sessions and the chosen one."""
        chosen = self.reference and self.reference[0]
        metric, workload = metric_of(snapshot), snapshot.header.workload
        comparable = [
            entry
            for entry in self._all_earlier
            if entry.result is not None and has_figure(entry.result, workload, metric)
        ]
        first = len(comparable) - EARLIER_SESSIONS
        newest = [e for n, e in enumerate(comparable) if n >= first or e.header.id == chosen]
        return self._comparison_of(snapshot, newest)

    def in_full(self) -> Comparison:
        """Return the comparison with all earlier sessions, as of now, with this run's readings."""
        comparison = self._comparison_of(self._source.snapshot(), self._all_earlier)
        readings, runs = self._source.session.readings, {**comparison.runs}
        if (this := runs.get(comparison.snapshot.header.id)) is not None:
            values = {**this.values, **readings.means, **readings.maxima}
            runs[this.session] = replace(this, values=values)
        return replace(comparison, runs=runs)

    def _comparison_of(self, snapshot: Snapshot, entries: Sequence[SessionEntry]) -> Comparison:
        is_running = self._source.running
        return comparison_of(snapshot, entries, self.reference, is_running, self._repeats)


PROJECTED = "projected"


def facts_of_epoch(snapshot: Snapshot) -> list[str]:
    """Return further facts, such as the time of an epoch if the figure is of the whole run."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    facts = []
    if timing is snapshot.run_seconds and per_epoch is not None:
        facts.append(f"{units.band(per_epoch)} per epoch")
    samples = snapshot.model.samples_per_epoch if snapshot.model is not None else None
    if timing is per_epoch and samples and basis_of(snapshot) == PROJECTED:
        facts.append(f"to {samples:,} samples")
    if snapshot.stalls:
        word = epoch_word(snapshot.header)
        facts.append(units.stalls(snapshot.stalls, snapshot.opening_stalls or 0, word))
    first_s = snapshot.compiled_s if snapshot.compiles else snapshot.first_batch_s
    # The time breakdown says how long compiling took.
    is_said = TimePart.COMPILING in snapshot.time_breakdown
    if first_s is not None and not is_said and (snapshot.compiles or first_s >= _A_DELAY_S):
        facts.append(compile_text(first_s, snapshot.compiles))
    if snapshot.regular_steps is not None:
        facts.append(f"{regular_steps_text(snapshot.regular_steps)} between")
    facts.extend(map(" ".join, rows_shown_in("live", snapshot)))
    effective = snapshot.result or snapshot.effective
    # There isn't room for both.
    share = share_text(effective) if effective.peak_from is not None else ""
    facts.append(share or effective_text(effective))
    return [fact for fact in facts if fact]


def basis_of(snapshot: Snapshot) -> str:
    """Say whether the figure was measured or projected, and from which epochs."""
    timing, per_epoch = timing_of(snapshot), snapshot.seconds_per_epoch
    if metric_of(snapshot) == "step_ms" and snapshot.step_ms is not None:
        p95 = snapshot.step_ms.p95
        return "mean" if p95 is None else f"mean, p95 {units.milliseconds(p95)}"
    if timing is not None and timing.projected:
        missing = missing_part(timing, snapshot.why)
        return f"{missing} not included" if missing else PROJECTED
    if per_epoch is None or timing is snapshot.run_seconds:
        return "measured" if timing is not snapshot.run_seconds else "measured, without the start"
    # The number of epochs is shown below.
    basis = basis_of_epoch(per_epoch, snapshot.compile_s, snapshot.compiles).rpartition(", ")[2]
    if per_epoch.first_left_out:
        basis = "excludes the first epoch"
    parts = (units.usual_epoch(per_epoch), measured_in_short(snapshot), basis)
    return "; ".join(part for part in parts if part)
