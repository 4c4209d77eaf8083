"""Put a session among the published numbers of its workload and this machine's earlier runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from dlmon.comparison.arguments import GIVEN, PROGRAM, arguments_of, is_secret
from dlmon.comparison.compare import ComparisonRow, beside, compare
from dlmon.comparison.conditions import Conditions, with_defaults
from dlmon.comparison.matching import Match, find_match
from dlmon.comparison.published import STEP_MS, Published
from dlmon.comparison.run import (
    RATE_UNITS,
    SAMPLES_PER_SECOND,
    STEPS_PER_SECOND,
    Figures,
    RunFigures,
    Timing,
    cpus_of,
    metric_of_script,
    timing_by,
)
from dlmon.comparison.same_script import is_same_work
from dlmon.figures import units, verdicts
from dlmon.figures.validity import doubts_of_all, said_of_all
from dlmon.log.directory import SessionEntry
from dlmon.options.run import OPTIONS, RunOptions, as_typed, differing, in_words, known_options
from dlmon.records import (
    WITHOUT_EPOCHS,
    Epoch,
    Requirement,
    Result,
    SecondsPerEpoch,
    SessionHeader,
    Status,
)
from dlmon.records.sanitize import clean
from dlmon.session.figures import figures_of_entry, figures_of_snapshot
from dlmon.session.session import NEVER_STEADY, NOTHING_SEEN
from dlmon.session.snapshot import Snapshot
from dlmon.statistics.ratios import Ratio
from workloads.catalog import WORKLOADS, Workload

EARLIER_SESSIONS = 5
"""So many earlier sessions are compared with; a sweep would else push all else out of view."""
MOST_EARLIER = 100
"""So many one can choose from."""

MOST_ARGUMENTS = 3
_LONGEST_ARGUMENT = 24
_ANOTHER = "(another)"

Command = tuple[str, ...]


def default_conditions(workload: Workload) -> Conditions:
    """Return what a workload's published numbers were taken with."""
    return Conditions(
        workload=workload.name,
        batch_size=workload.batch_size,
        samples=workload.samples,
        epochs=workload.epochs,
        precision=workload.precision,
        mode=workload.mode,
    )


def earlier_sessions(
    entries: Sequence[SessionEntry],
    header: SessionHeader,
    most: int = EARLIER_SESSIONS,
    metric: str | None = None,
) -> list[SessionEntry]:
    """Return the newest earlier sessions of the same work and machine that have a figure.

    Args:
        entries: sessions.
        header: of the session that is compared.
        most: so many.
        metric: what they have a figure of; None is whatever each is compared by.
    """
    earlier = [
        entry
        for entry in entries
        if entry.result is not None
        and entry.result.status in (Status.COMPLETED, Status.STOPPED)
        and has_figure(entry.result, header.workload, metric)
        and is_same_work(entry.header, header)
        and mode_of(entry.header.options) == mode_of(header.options)
        and entry.header.host == header.host
        and entry.header.wall < header.wall
    ]
    return sorted(earlier, key=lambda entry: entry.header.wall)[-most:]


def has_figure(result: Result, workload: str, metric: str | None) -> bool:
    """Return whether a recorded run can be compared by a metric; None is its own."""
    if metric is None:
        return timing_of_result(result, workload) is not None
    return timing_by(metric, result) is not None


def mode_of(options: Mapping[str, Any]) -> str:
    """Return what a session was launched to do: `train` unless its options say otherwise."""
    mode = options.get("mode")
    return mode if isinstance(mode, str) else "train"


def compared_metric(workload: str, mode: str, figures: Figures) -> str:
    """Return what runs are compared by: a batch's time in a mode that has no epochs.

    Of a script it depends on the `figures` that it has.
    """
    if mode in WITHOUT_EPOCHS:
        return STEP_MS
    known = WORKLOADS.get(workload)
    return known.metric if known is not None else metric_of_script(figures)


def metric_of(snapshot: Snapshot) -> str:
    """Return what a session is compared by."""
    header, model = snapshot.header, snapshot.model
    if header.is_script and model is not None and model.has_epochs is False:
        return STEPS_PER_SECOND if snapshot.counts_steps else SAMPLES_PER_SECOND
    return compared_metric(header.workload, mode_of(header.options), snapshot)


def timing_of(snapshot: Snapshot) -> Timing | None:
    """Return the time that a session is compared by."""
    return timing_by(metric_of(snapshot), snapshot)


def timing_of_result(result: Result, workload: str) -> Timing | None:
    """Return the time that a session is compared by, as it was recorded."""
    return timing_by(compared_metric(workload, mode_of(result.options), result), result)


def epoch_word(header: SessionHeader) -> str:
    """Return what to call going through the samples once: an epoch only where it trains."""
    return "pass" if mode_of(header.options) in WITHOUT_EPOCHS else "epoch"


def ended_after_an_epoch(snapshot: Snapshot) -> bool:
    """Return whether the epoch that `epoch_text` names was whole when the run ended."""
    last = _last_without_another(snapshot)
    return last is not None and last.whole


def _last_without_another(snapshot: Snapshot) -> Epoch | None:
    """Return the epoch that was recorded last, where a run ended before a batch followed it.

    Of a stop it is the one that was cut short. Where it is known how many epochs there are, and
    nobody stopped it, the next one had begun.
    """
    progress, model, result = snapshot.progress, snapshot.model, snapshot.result
    if progress is None or model is None or result is None or progress.step or not snapshot.epochs:
        return None
    ended = result.status == Status.STOPPED or model.epochs is None
    return snapshot.epochs[-1] if ended else None


def epoch_text(snapshot: Snapshot) -> str:
    """Say which epoch of those that were asked for runs, or a run ended in: epoch 2/3.

    Nothing of a script's loop that has none.

    Epochs that follow so that training lasts as long as `--seconds` says are counted apart:
    epoch 1/1, +4 extra.
    """
    progress, model = snapshot.progress, snapshot.model
    if progress is None or model is None or model.has_epochs is False:
        return ""
    last = _last_without_another(snapshot)
    number = progress.epoch + 1 if last is None else last.epoch + 1
    if model.epochs is None:
        return f"{epoch_word(snapshot.header)} {number}"
    requested = max(1, model.epochs)
    extra = f", +{number - requested} extra" if number > requested else ""
    return f"{epoch_word(snapshot.header)} {min(number, requested)}/{requested}{extra}"


def timed_unit(metric: str) -> str:
    """Return what a time is per: epoch, run or batch; nothing of a throughput."""
    if metric in RATE_UNITS:
        return ""
    return {"run_seconds": "per run", STEP_MS: "per batch"}.get(metric, "per epoch")


def unusual_settings(options: Mapping[str, Any]) -> list[str]:
    """Return how a session computes, as far as that is not the default."""
    unusual = differing(options, {}, ("mode", "precision", "backend", "jit", "python", "cpus"))
    if "python" in unusual:
        unusual["python"] = "another Python"
    return [OPTIONS[name].words(value) for name, value in unusual.items()]


def run_names(snapshot: Snapshot, earlier: Sequence[SessionEntry]) -> dict[str, str]:
    """Return what to call earlier sessions, by id: a name, or when each began, and what differs.

    Where that is the same of several, they show the end of their ids too.
    """
    header, model = snapshot.header, snapshot.model
    device = model.device if model else None
    cpu = header.machine.cpu_model if device == "cpu" else None
    here = (model.device_name if model else None) or cpu or device
    names = {}
    for entry in earlier:
        name = entry.label.name or f"run of {units.moment(entry.header.wall, header.wall)}"
        result = entry.result
        there = (result.device_name or result.device) if result is not None else None
        elsewhere = [units.device(there)] if there and there != here else []
        names[entry.header.id] = ", ".join([name, *elsewhere, *other_settings(entry, snapshot)])
    shared = Counter(names.values())
    return {
        session: name if shared[name] == 1 else f"{name} ({session.rpartition('-')[2]})"
        for session, name in names.items()
    }


def other_settings(entry: SessionEntry, snapshot: Snapshot) -> list[str]:
    """Return how an earlier session computed, as far as this one does it otherwise.

    It did the same work, so the two compare; but a person should know what makes the difference.
    """
    result, model = entry.result, snapshot.model
    theirs = _computed(entry.header, None if result is None else result.options.get("backend"))
    ours = _computed(snapshot.header, None if model is None else model.backend)
    return [
        OPTIONS[name].words(value)
        for name, value in theirs.items()
        if name in ours and ours[name] != value
    ]


def _computed(header: SessionHeader, seen: object) -> dict[str, object]:
    """Return the options by which a session computes, as far as they are known.

    Of a script no option says it: `seen` is what its Keras was seen to run on.
    """
    options = vars(RunOptions()) | known_options(header.options)
    backend = seen if header.is_script else options["backend"]
    cpus = cpus_of(header.options, header.machine)
    known = {name: each for name, each in (("backend", backend), ("cpus", cpus)) if each}
    return {**known, **{name: options[name] for name in ("threads", "jit", "python")}}


def factor_of_nearest(rows: Sequence[ComparisonRow], steady: bool) -> str:
    """Return this run against the published number that is nearest to it, or why there is none."""
    this = _this(rows)
    others = [row for row in rows if row.kind == "published"]
    if this is None or not others:
        return ""
    if not any(row.comparable for row in others):
        return difference("; ".join(others[0].badges))
    if this.missing:
        return f"not compared: {this.missing} not measured"
    other = nearest_published(rows, steady)
    return (
        "" if other is None else factor_of_reference(rows, other, units.device(other.label), steady)
    )


def nearest_published(rows: Sequence[ComparisonRow], steady: bool) -> ComparisonRow | None:
    """Return the published row of which this run's factor is nearest to 1; None without any."""
    this = _this(rows)
    factors = [(beside(this, row, rows, steady), row) for row in rows if row.kind == "published"]
    known = [
        (abs(math.log(found.value)), row) for found, row in factors if isinstance(found, Ratio)
    ]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def _this(rows: Sequence[ComparisonRow]) -> ComparisonRow | None:
    return next((row for row in rows if row.kind == "this"), None)


def factor_of_run_before(
    rows: Sequence[ComparisonRow],
    earlier: Sequence[SessionEntry],
    names: Mapping[str, str],
    steady: bool,
    header: SessionHeader,
) -> str:
    """Return this run against the newest earlier one that it can be compared with."""
    by_session = {row.session: row for row in rows if row.kind == "earlier"}
    for entry in reversed(earlier):
        other = by_session.get(entry.header.id)
        if other is not None and isinstance(beside(_this(rows), other, rows, steady), Ratio):
            called = names[entry.header.id]
            if entry is earlier[-1]:
                _, comma, otherwise = called.partition(", ")
                called = f"the run before{comma}{otherwise}"
            elif entry.label.name is None:
                called = f"the {called}"
            called = ", ".join([called, *_given_otherwise(entry, header)])
            return factor_of_reference(rows, other, called, steady)
    return ""


class Reference(NamedTuple):
    """What a person compares with: a session, or a published number."""

    session: str | None
    published: Published | None = None

    @classmethod
    def of(cls, row: ComparisonRow) -> Reference:
        """Return what is kept in mind of a row."""
        return cls(row.session, row.published)


def row_of(rows: Sequence[ComparisonRow], reference: Reference | None) -> ComparisonRow | None:
    """Return the row that a person chose to compare with; None where it isn't among them."""
    if reference is None:
        return None
    others = (row for row in rows if row.kind != "this")
    return next((row for row in others if Reference.of(row) == reference), None)


def factor_of_reference(
    rows: Sequence[ComparisonRow], other: ComparisonRow, name: str, steady: bool
) -> str:
    """Say how many times as fast as the chosen one this run is, with its interval.

    Args:
        rows: all of the comparison.
        other: the one that was chosen.
        name: what to call it.
        steady: whether this run is.
    """
    found = beside(_this(rows), other, rows, steady)
    if other.kind == "earlier":
        return verdicts.verdict(found, name, "1 run each")
    is_exact = isinstance(found, Ratio) and found.low is not None
    return verdicts.verdict(found, name, "" if is_exact else "one published figure")


def basis_of_epoch(timing: SecondsPerEpoch, compile_s: float | None, compiles: bool = True) -> str:
    """Say what seconds per epoch rest on: `3 epochs, the first left out: it compiles`.

    Without a word of compilation where the first batch doesn't compile.
    """
    if timing.projected:
        return "projected mean epoch"
    if timing.first_left_out:
        why = ": it compiles" if compiles else ""
        if timing.left_out is not None:
            all_epochs = timing.epochs + timing.left_out
            return f"{all_epochs:,} epochs, the first of each fit left out{why}"
        return f"{timing.epochs + 1:,} epochs, the first left out{why}"
    with_first = timing.epochs == 1 and compile_s is not None
    compiled = f", {'compile' if compiles else 'first batch'} included" if with_first else ""
    return f"{units.counted(timing.epochs, 'epoch')}{compiled}"


def compile_text(compile_s: float, compiles: bool) -> str:
    """Say what the first batch took beyond a usual one: compile 1.40 s, first batch +1.40 s."""
    seconds = units.seconds(compile_s)
    return f"compile {seconds}" if compiles else f"first batch +{seconds}"


def difference(badge: str) -> str:
    """Say what keeps the published numbers from being compared, and which side has what."""
    sides = [part.partition(", not ") for part in badge.split("; ")]
    theirs = ", ".join(theirs for theirs, _, _ in sides)
    ours = ", ".join(ours for _, _, ours in sides if ours)
    return f"published {theirs}; here {ours}" if ours else f"published: {theirs}"


_ENDED = {
    Status.FAILED: "failed",
    Status.STOPPED: "was stopped",
    Status.INTERRUPTED: "was interrupted",
}


def why_no_time(snapshot: Snapshot, status: Status) -> str:
    """Say why a session has no time that is compared: of one that is over, nothing comes yet."""
    why = snapshot.why
    name = "seconds_per_epoch" if "seconds_per_epoch" in why else "run_seconds"
    metric = metric_of(snapshot)
    if metric == STEP_MS and "step_ms" in why:
        name = "step_ms"
    elif metric in RATE_UNITS and "samples_per_second" in why:
        name = "samples_per_second"
    reason = why.get(name, "")
    if status == Status.RUNNING:
        return reason
    if snapshot.lacking.get(name) == Requirement.STEADY_STATE:
        return NEVER_STEADY
    if snapshot.model is None and snapshot.header.is_script:
        return NOTHING_SEEN
    if snapshot.model is None:
        return f"the run {_ENDED.get(status, 'ended')} before the model was built"
    return reason


def match_of(snapshot: Snapshot) -> Match | None:
    """Return how a session compares with published times; None for a workload not of ours."""
    workload = WORKLOADS.get(snapshot.header.workload)
    if workload is None:
        return None
    defaults = default_conditions(workload)
    return find_match(_conditions_of(figures_of_snapshot(snapshot), snapshot, defaults), defaults)


def match_of_options(workload: Workload, options: RunOptions) -> Match | None:
    """Return how a run with these options would compare with published times."""
    defaults = default_conditions(workload)
    conditions = replace(
        defaults,
        batch_size=options.batch_size or workload.batch_size,
        epochs=options.epochs or workload.epochs,
        precision=options.precision,
        mode=options.mode,
        # What `auto` finds is known once it was looked for.
        data=None if options.data == "auto" else options.data,
        steps_cap=options.steps,
    )
    return find_match(conditions, defaults)


def comparable_text(match: Match | None, *, typed: bool = False) -> str:
    """Say how many published numbers are comparable, and which options would make them so.

    These are in words, or as one types them in a shell.
    """
    if match is None:
        return "none comparable"
    if not match.changes:
        return f"{match.count} comparable"
    changes = dict(match.changes)
    options = " ".join(as_typed(changes)) if typed else in_words(changes)
    return f"none comparable; {match.count} with {options}"


def how_to_match(snapshot: Snapshot) -> str:
    """Return the options that would make published numbers comparable; empty where some are."""
    match = match_of(snapshot)
    if match is None or not match.changes:
        return ""
    return f"published with {in_words(dict(match.changes))}"


def comparison_rows(
    snapshot: Snapshot, earlier: Sequence[SessionEntry]
) -> tuple[ComparisonRow, ...]:
    """Return the rows of the comparison, as `compare` does; none for a workload not of ours."""
    this, workload = figures_of_snapshot(snapshot), WORKLOADS.get(snapshot.header.workload)
    if snapshot.header.is_script:
        # What a script doesn't say is taken to be as it was the last time.
        precision = this.precision or "the script's own precision"
        conditions = defaults = replace(this.conditions, precision=precision, data=None)
    elif workload is None:
        return ()
    else:
        defaults = default_conditions(workload)
        conditions = _conditions_of(this, snapshot, defaults)
    runs = [figures_of_entry(entry) for entry in earlier]
    rows = compare(metric_of(snapshot), this, conditions, defaults, runs)
    by_session = {entry.header.id: entry for entry in earlier}
    return tuple(
        _with_settings(row, by_session[row.session], snapshot)
        if row.kind == "earlier" and row.session in by_session
        else row
        for row in rows
    )


def doubts_said_once(rows: Sequence[ComparisonRow]) -> tuple[tuple[ComparisonRow, ...], str]:
    """Return rows without the doubts that all runs of ours share, and the sentence that says them.

    The sentence is empty, and the rows are as they were, where there is nothing of that kind.
    """
    shared = doubts_of_all([dict(row.doubts) for row in rows if row.kind != "published"])

    def told(row: ComparisonRow) -> ComparisonRow:
        said = {text for doubt, text in row.doubts if doubt in shared}
        return replace(row, badges=tuple(badge for badge in row.badges if badge not in said))

    return (tuple(map(told, rows)) if shared else tuple(rows)), said_of_all(shared)


def _with_settings(row: ComparisonRow, entry: SessionEntry, snapshot: Snapshot) -> ComparisonRow:
    """Return the row of an earlier run with what it did otherwise."""
    given = _given_otherwise(entry, snapshot.header)
    label = ", ".join([row.label, *other_settings(entry, snapshot)])
    return replace(row, label=label, badges=(*given, *row.badges))


def _given_otherwise(entry: SessionEntry, header: SessionHeader) -> tuple[str, ...]:
    """Say what an earlier run of a script was given otherwise, and that its code was another."""
    given = other_arguments(entry.header.command, header.command, header.workload)
    if _is_other(entry.header.script_sha256, header.script_sha256):
        return (*given, f"{header.workload} differs")
    if _is_other(entry.header.git_commit, header.git_commit):
        return (*given, "another git commit")
    return given


@lru_cache(64)
def other_arguments(theirs: Command | None, ours: Command | None, script: str) -> tuple[str, ...]:
    """Return the arguments that an earlier run was given, as far as this one was given others.

    What this one has more is named as missing there: `without --workers`. Of very many the first
    are named. Empty where either is no script. These notes go into reports, so they hold no value
    of what is called a key, a token or a password.

    Args:
        theirs: the command of the earlier run.
        ours: that of this one.
        script: what both are called.
    """
    if theirs is None or ours is None or theirs == ours:
        return ()
    had, have = arguments_of((theirs, ours), script)
    names = [name for name in dict.fromkeys([*had, *have]) if had.get(name) != have.get(name)]
    texts = [_argument_text(name, had.get(name), have.get(name)) for name in names]
    more = len(texts) - MOST_ARGUMENTS
    return tuple(
        texts if more <= 0 else [*texts[:MOST_ARGUMENTS], f"{more} more differ{'s' * (more == 1)}"]
    )


def _argument_text(name: str, had: str | None, have: str | None) -> str:
    """Write what the earlier run had of an argument, or that it had none."""
    if had is None:
        is_option = have == GIVEN or not name.startswith("argument ")
        return f"without {clean(name if is_option else have or '', _LONGEST_ARGUMENT)}"
    value = _ANOTHER if is_secret(name) else clean(had, _LONGEST_ARGUMENT)
    if had == GIVEN and name.startswith("-"):
        return clean(name, _LONGEST_ARGUMENT)
    if name.startswith("-"):
        return f"{clean(name, _LONGEST_ARGUMENT)} {value}"
    if name == PROGRAM or name.startswith(("argument ", "word ")):
        return value
    return f"{clean(name, _LONGEST_ARGUMENT)}={value}"


def _is_other(theirs: str | None, ours: str | None) -> bool:
    return theirs is not None and ours is not None and theirs != ours


def _conditions_of(run: RunFigures, snapshot: Snapshot, defaults: Conditions) -> Conditions:
    """Return what a run of a workload does: before it has a model, as it was asked to."""
    conditions = run.conditions
    return conditions if snapshot.model is not None else with_defaults(conditions, defaults)


def trainers_text(snapshot: Snapshot) -> str:
    """Say how many processes train together, and how far apart they are; empty for one."""
    rates = [one.samples_per_second for one in snapshot.trainers]
    known = [rate for rate in rates if rate is not None]
    if len(rates) < 2:
        return ""
    count = f"{len(rates)} processes"
    if len(known) < 2:
        return count
    return f"{count}, {units.rate(min(known))} to {units.rate(max(known))} each"


def device_text(snapshot: Snapshot) -> str:
    """Name the device that the session trains on: the CPU's model, or the GPU's name."""
    model, machine = snapshot.model, snapshot.header.machine
    if model is None or model.device is None:
        return str(snapshot.header.options.get("device") or "")
    if model.device == "cpu":
        return f"CPU {machine.cpu_model or ''}".strip()
    number = "" if model.gpu_index is None else f" {model.gpu_index}"
    return f"GPU{number} {model.device_name or ''}".strip()


NO_FIGURE = "This run has no figure to compare."
_NEXT = {
    Status.RUNNING: "Once this run completes, the next is compared with it.",
    Status.COMPLETED: "The next run is compared with this one.",
    Status.STOPPED: "The next run is compared with this one.",
}


def nothing_to_compare(rows: Sequence[ComparisonRow], snapshot: Snapshot, status: Status) -> str:
    """Say that there is nothing to compare with, and what will be.

    Empty where there is something, and where the row of the run says what stands nowhere else.

    Args:
        rows: of the comparison with all earlier runs that are known.
        snapshot: of the session.
        status: how it stands.
    """
    header, has_figure = snapshot.header, timing_of(snapshot) is not None
    if not has_figure and status != Status.RUNNING:
        return NO_FIGURE
    is_known = header.is_script or header.workload in WORKLOADS
    if not is_known or any(row.kind != "this" or row.cost_usd is not None for row in rows):
        return ""
    # What has no figure, or failed, is not compared with.
    coming = _NEXT.get(status, "") if has_figure else ""
    return f"No earlier run to compare with. {coming}".rstrip()
