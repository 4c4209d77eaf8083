"""A sweep as a table, as sentences, as JSON and as a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.machine.readings import busy_texts
from dlmon.figures.pairs import (
    pair_findings,
    pair_sections,
    pairs_json,
    pairs_text,
    progress_text,
    side_names,
)
from dlmon.figures.redact import Redaction
from dlmon.figures.sections import (
    Bar,
    Bars,
    Heading,
    Line,
    LineChart,
    Note,
    Section,
    Table,
    as_sentence,
    with_texts,
)
from dlmon.figures.session import tokens
from dlmon.figures.session.doubts import doubts_of_results
from dlmon.figures.session.epoch_numbers import epoch_text
from dlmon.figures.session.phases import phase_text
from dlmon.figures.session.run_facts import share_text
from dlmon.log.folder import location_options, log_directory_of
from dlmon.log.label import read_label
from dlmon.options.run_options import in_words, option_name
from dlmon.records import Outcome, Result, RunStatus, SweepHeader, to_json
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.records.words import STEPS_PER_S
from dlmon.statistics.pairs import FIRST_PAIRS
from dlmon.sweep.batch_search import next_size, sizes_of
from dlmon.sweep.log import read_run_figures, read_sweep
from dlmon.sweep.pairs import broken_run, is_enough, verdict_of
from dlmon.sweep.plan import HOST, Combination, Plan
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import (
    DEVICES,
    RANKING_METRIC,
    SAME_WORK,
    CombinationRow,
    Loss,
    Scaling,
    axis_of,
    best_of,
    best_rows,
    comparable_groups,
    of_workload,
    ranking_rows,
    rows_of,
    scaling_of,
    time_of,
)
from dlmon.sweep.variants import AS_IT_LIES, COMMIT

# The first screen doesn't need these imports.
if TYPE_CHECKING:
    from dlmon.session.learning import Learning
    from dlmon.session.snapshot import Snapshot
    from dlmon.sweep.runner import SweepRun

_UNITS = {
    "ms_per_sample": "per sample",
    "step_ms": "per step",
    "seconds_per_epoch": "per epoch",
    "run_seconds": "per run",
}
_IN_MILLISECONDS = ("ms_per_sample", "step_ms")
_MOST_VALUES = 8
LOSS = "loss"
STARTING, LOST = "starting", "host lost"
_LOSSES = LOSS, "val_loss"
_BROKEN = (RunStatus.FAILED, RunStatus.OUT_OF_MEMORY, RunStatus.IMPOSSIBLE)
_LACKS = ("No such file or directory", "No module named", "cannot import name")
_BEFORE_TWO = "a comparison needs two finished runs"
_HOW_TO_SEARCH = (
    "the batch size doubles until memory runs out or the throughput no longer grows, "
    "then the sizes between are tried"
)
_FOUND_NONE = "the search ended before it found a batch size"
_WITHOUT_TWO = "fewer than two finished runs can be compared"
_RUN_ONCE = "1 run each"


@record(frozen=True)
class RunningRow:
    """The current figures of a run: its progress, its throughput, and its losses."""

    progress: str = ""
    rate: float | None = None
    losses: tuple[Loss, Loss] = (None, None)


_NOT_RUNNING = RunningRow()
_NOTHING: Mapping[int, RunningRow] = {}


def sweep_table(
    sweep: Sweep,
    queued: Collection[int] = (),
    current: Mapping[int, RunningRow] = _NOTHING,
    goes_on: bool = False,
) -> Table:
    """Return one row per combination, in the order of the plan, with the best ones marked.

    The last column says why there is no figure, or that it is a projection, and the warnings about
    its runs.

    Args:
        sweep: a sweep, complete or not.
        queued: the indices of the combinations that only wait for others to end.
        current: the current figures of combinations that run, by index.
        goes_on: the sweep is running, so what was not run waits.
    """
    plan, rows, judged = sweep.plan, rows_of(sweep), ranking_rows(sweep)
    leaders = best_rows(sweep)
    best = {leader.combination.index for leader in leaders.values()}
    running = {slot.combination for slot in sweep.running}
    columns: dict[str, list[str]] = {"": ["▶" * (row.combination.index in best) for row in rows]}
    if _names_workloads(plan):
        columns["workload"] = [row.combination.workload for row in rows]
    for key in plan.varied:
        columns[option_name(key)] = [f"{row.combination.varied[key]}" for row in rows]
    live = [(row, current.get(row.combination.index, _NOT_RUNNING)) for row in rows]
    columns["runs" if plan.repeats > 1 else "status"] = [
        "queued"
        if plan.repeats == 1 and row.combination.index in queued
        else _status_text(row, plan, row.combination.index in running, now.progress, goes_on)
        for row, now in live
    ]
    texts = {option_name(v.key) for v in plan.variations if isinstance(v.values[0], str)}
    texts |= {"", "workload", "runs", "status"}
    metrics = set(plan.metrics.values())
    time = heading_of(plan.metrics[plan.workloads[0]]) if len(metrics) == 1 else "time"
    columns[time] = [_time(row, metrics) for row in rows]
    rates = [
        now.rate if row.samples_per_second is None else row.samples_per_second for row, now in live
    ]
    columns["samples/s"] = _texts(rates, units.rate)
    if leaders:
        columns["of fastest"] = [_share_of_fastest(leaders, row) for row in judged]
    for n, name in enumerate(_LOSSES):
        losses = [_loss_text(now.losses[n] or row.losses[n]) for row, now in live]
        if any(losses):
            columns[name] = losses
    measured: tuple[tuple[str, list[float | None], Callable[[float], str]], ...] = (
        (tokens.UNIT, [row.tokens_per_second for row in rows], units.rate),
        ("of peak", [row.peak_share for row in rows], units.share),
        ("USD/M samples", [row.usd_per_million for row in rows], units.number_of_dollars),
    )
    for name, values, text in measured:
        if any(value is not None for value in values):
            columns[name] = _texts(values, text)
    if scaling := scaling_of(judged):
        scaled = [scaling.get(row.combination.index) for row in rows]
        columns["speed-up"] = ["" if s is None else units.ratio(s.speed_up.value) for s in scaled]
        columns["efficiency"] = ["" if s is None else units.share(s.efficiency) for s in scaled]
    # The note on completed runs holds while another one runs.
    notes = (
        _note(row) if row.completed or row.combination.index not in running else "" for row in rows
    )
    return Table(
        (*columns, ""),
        tuple(zip(*columns.values(), notes, strict=True)),
        (*(heading not in texts for heading in columns), False),
        levels=tuple(
            "strong" if row.combination.index in best else "bad" if row.status in _BROKEN else ""
            for row in rows
        ),
        # A throughput says the same as a time of a sample.
        dropped=((time,) * (metrics == {RANKING_METRIC}) + tuple(reversed(_LOSSES))),
    )


def running_row(snapshot: Snapshot, learning: Learning) -> RunningRow:
    """Return the current figures of a run of a sweep."""
    rate, loss = snapshot.samples_per_second_now, learning.metrics.get(LOSS)
    return RunningRow(
        epoch_text(snapshot) or STARTING,
        None if rate is None else rate.per_second,
        (None, None)
        if loss is None
        else (loss.why or loss.newest, loss.why_validation or loss.newest_validation),
    )


def _texts(values: Iterable[float | None], text: Callable[[float], str]) -> list[str]:
    return ["" if value is None else text(value) for value in values]


def _loss_text(loss: Loss) -> str:
    return units.metric(loss) if isinstance(loss, float) else loss or ""


def without_result_text(sweep: Sweep, but: RunStatus | None = None) -> str:
    """Return the numbers of runs without a result: `, 1 failed, 2 impossible`.

    Those of the status `but` are said elsewhere.
    """
    statuses: Counter[RunStatus | None]
    statuses = Counter(outcome.status for outcome in sweep.outcomes.values())
    statuses[but] = 0
    return "".join(f", {statuses[status]} {status}" for status in _BROKEN if statuses[status])


def _names_workloads(plan: Plan) -> bool:
    return len(plan.workloads) > 1 or not plan.variations


def _status_text(
    row: CombinationRow, plan: Plan, running: bool, progress: str, goes_on: bool
) -> str:
    """Return the status of a combination; for repeats, how many completed."""
    is_seen = progress not in (STARTING, LOST)
    under_way = ", ".join(filter(None, ("running" * is_seen, progress)))
    if plan.repeats == 1 and (running or progress):
        return under_way
    over = row.status not in (RunStatus.COMPLETED, RunStatus.NOT_RUN)
    if plan.repeats == 1 or (over and not row.completed):
        waits = goes_on and row.status == RunStatus.NOT_RUN and row.reason is None
        return "waiting" if waits else row.status
    count = f"{row.completed} of {plan.repeats}"
    return f"{count}, {under_way}" if running else count


def _time(row: CombinationRow, metrics: Collection[str]) -> str:
    if row.value is None:
        return ""
    time = with_band(row)
    # The heading has the unit if it is the same for all.
    unit = "" if len(metrics) == 1 else f"{time.unit} {_UNITS[row.metric]}"
    mark = "~" if row.projected else ""
    return " ".join(part for part in (f"{mark}{time.number}", time.spread, unit) if part)


def _share_of_fastest(leaders: Mapping[int, CombinationRow], row: CombinationRow) -> str:
    """Return a row's throughput as a share of the fastest of its group, or that it isn't clear."""
    leader = leaders.get(row.combination.index)
    ratio = None if leader is None else leader.speed_up_over(row)
    if leader is None or ratio is None or row.diverged is not None:
        return ""
    if leader.combination is row.combination:
        return "fastest"
    rivals = sum(other is leader for other in leaders.values()) - 1
    is_slower = leader.is_faster_than(row, rivals)
    if _is_run_once(row):
        is_slower = not ratio.may_be_one
    return units.share(1 / ratio.value) if is_slower else "not clear"


def _note(row: CombinationRow) -> str:
    if row.reason is not None:
        # The status says already that memory ran out; what could not be allocated is more.
        is_said = row.status == RunStatus.OUT_OF_MEMORY and "(" not in row.reason
        return "" if is_said and "memory ran out with" in row.reason else row.reason
    notes = ["projected"] if row.projected else []
    completed = [o for o in row.outcomes if o is not None and o.status == RunStatus.COMPLETED]
    notes.append(doubts_of_results(o.result for o in completed if o.result is not None))
    return "; ".join(note for note in notes if note)


def amount(metric: str, value: float) -> str:
    """Write a value of a metric with its unit: 0.41 ms, 9.02 s."""
    if metric not in _IN_MILLISECONDS:
        return units.seconds(value)
    return f"{value:#.3g} ms" if value < 99.95 else f"{value:,.0f} ms"


def heading_of(metric: str) -> str:
    """Return the name of a metric with its unit: ms per sample."""
    return f"{'ms' if metric in _IN_MILLISECONDS else 's'} {_UNITS[metric]}"


def with_band(row: CombinationRow) -> units.Banded:
    """Return the time of a combination with its band: 0.41 ± 0.02."""
    value = row.value or 0.0
    text, _, unit = amount(row.metric, value).partition(" ")
    half = None if row.low is None or row.high is None else (row.high - row.low) / 2
    return units.banded(value, half, text, unit, 9 if row.metric in _IN_MILLISECONDS else 2)


def plan_text(plan: Plan) -> str:
    """Describe the runs of a plan: `12 runs: mlp × batch 32, 64, 128; 3 times each`."""
    if plan.pairs is not None:
        return pairs_text(plan)
    if plan.search_window_s is not None:
        window = units.clock(plan.search_window_s)
        return f"batch sizes of {plan.workloads[0]}, one after another, {window} of training each"
    parts = [swept_text(plan), varied_text(plan)]
    times = f"; {plan.repeats} times each" if 1 < plan.repeats < len(plan.order) else ""
    runs = units.counted(len(plan.order), "run")
    host = plan.options.get(HOST)
    if host is not None and HOST not in plan.varied:
        runs = f"{runs} on {host}"
    return f"{runs}: {' × '.join(part for part in parts if part)}{times}"


def swept_text(plan: Plan) -> str:
    """Return the name of the workload of a sweep, or the number of workloads."""
    several = len(plan.workloads) > 1
    return f"{len(plan.workloads)} workloads" if several else plan.workloads[0]


def varied_text(plan: Plan) -> str:
    """Return the varied options: `device cpu, gpu × batch 32, 64`; empty if none is."""
    parts = []
    for variation in plan.variations:
        values = [f"{value}" for value in variation.values]
        many = len(values) > _MOST_VALUES
        listed = f"{len(values)} values" if many else ", ".join(values)
        parts.append(f"{option_name(variation.key)} {listed}")
    return " × ".join(parts)


def label(combination: Combination, keys: Sequence[str] | None = None) -> str:
    """Name a combination by its varied options, or by those of `keys`: `batch 32, cpu`."""
    varied = combination.varied
    options = varied if keys is None else {key: varied[key] for key in keys}
    return in_words(options) or combination.workload


def slot_text(plan: Plan, combination: Combination, repeat: int | None = None) -> str:
    """Name a run by its workload if there are several, its varied options, and its repeat."""
    if plan.pairs is not None:
        name = side_names(plan)[combination.index]
        return name if repeat is None else f"{name} ({f'pair {repeat}' if repeat else 'warm-up'})"
    parts = [combination.workload] if _names_workloads(plan) else []
    name = ", ".join(filter(None, [*parts, in_words(combination.varied)]))
    if plan.repeats == 1 or repeat is None:
        return name
    return f"{name} (run {repeat + 1} of {plan.repeats})"


def outcome_text(outcome: Outcome, metric: str) -> str:
    """Return the status of a run, its time and its throughput."""
    if outcome.status != RunStatus.COMPLETED or outcome.result is None:
        return f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status
    result = outcome.result
    rate, in_tokens = result.samples_per_second, result.tokens_per_second
    parts = ["completed"]
    time = time_of(metric, result)
    if time is not None:
        # Without a known batch size, a throughput counts steps.
        has_steps = metric == "ms_per_sample" and rate is not None and rate.unit == STEPS_PER_S
        parts.append(f"{amount(metric, time)} {_UNITS['step_ms' if has_steps else metric]}")
    if rate is None:
        parts.append(result.why.get("samples_per_second", ""))
    else:
        parts.append(f"{units.rate(rate.mean)} {rate.unit}")
        parts += "" if in_tokens is None else units.throughput(in_tokens), share_text(result)
    return ", ".join(part for part in parts if part)


def problems_of(run: SweepRun) -> list[str]:
    """Return the problems of a sweep: hosts out of reach, sessions left running, and others."""
    left_running = (
        f"{session} may still run: dlmon stop --host {host} {session} ends it"
        for host, session in run.left_running
    )
    problems = (*run.unreached.values(), *left_running, run.problem, run.remark, missing_file(run))
    return [clean(problem) for problem in problems if problem is not None]


def missing_file(run: SweepRun) -> str | None:
    """Say how a copy of a commit gets what git leaves out, if a run lacked a file or module."""
    script = run.sweep.plan.script
    is_copy = script is not None and script.commit_folder is not None
    if is_copy and any(text in line for line in run.last_lines for text in _LACKS):
        return (
            "a copy of a commit lacks submodules and what git ignores: --link PATH shows it your "
            "file or folder"
        )
    return None


def headline(sweep: Sweep) -> tuple[str, list[str]]:
    """Return what is fastest in capitals, or that nothing is yet, and the sentences behind it."""
    # A run under way may show more than the fastest of those that ended.
    ended = len(sweep.plan.order) - len(sweep.remaining())
    if sweep.plan.is_repeat:
        return f"{units.counted(ended, 'run').upper()} FINISHED", findings(sweep)
    sentences, of_ended = findings(sweep), "" if sweep.closed else f" OF {ended:,} FINISHED"
    for name in ("fastest", "no clear lead"):
        if sentences and sentences[0].startswith(f"{name}: "):
            return name.upper() + of_ended, [sentences[0].removeprefix(f"{name}: "), *sentences[1:]]
    if sentences:
        return "RESULTS" + of_ended, sentences
    if sweep.plan.search_window_s is not None:
        return ("NOTHING FOUND", [_FOUND_NONE]) if sweep.closed else ("SEARCHING", [_HOW_TO_SEARCH])
    if sweep.closed:
        return "NOTHING TO COMPARE", [_WITHOUT_TWO]
    return "FASTEST NOT KNOWN YET", [_BEFORE_TWO]


def findings(sweep: Sweep) -> list[str]:
    """Return the findings of a sweep as sentences, which say what isn't sure."""
    if sweep.plan.pairs is not None:
        return pair_findings(sweep)
    plan, rows = sweep.plan, ranking_rows(sweep)
    if plan.search_window_s is not None:
        return _search(sweep)
    if plan.is_repeat:
        return _repeats(rows[0])
    sentences: list[str] = []
    for workload in plan.workloads:
        workload_rows = of_workload(rows, workload)
        groups = comparable_groups(workload_rows)
        sound = [[row for row in group if row.diverged is None] for group in groups]
        of_workload_sentences = [
            *(_with_shared(group, _best(group, sweep)) for group in groups),
            *(_with_shared(group, _lowest_loss(group, plan)) for group in groups),
            _out_of_memory(workload_rows, plan),
            _diverged(workload_rows),
            *(_with_shared(group, _cheapest(group, plan)) for group in sound),
            *_scaling(workload_rows, plan),
        ]
        prefix = f"{workload}: " if len(plan.workloads) > 1 else ""
        sentences += [f"{prefix}{sentence}" for sentence in of_workload_sentences if sentence]
    axis = axis_of(plan.variations)
    for variation in plan.variations:
        if variation.key in (axis, *SAME_WORK) or len(variation.values) < 2:
            continue
        if axis is not None or len(plan.workloads) > 1:
            sentences += lead_changes(rows, variation.key, axis)
    return sentences


def _repeats(row: CombinationRow) -> list[str]:
    """Return the throughput of repeats, and how far they lie apart; none before one has a time."""
    if row.samples_per_second is None or not row.times:
        return []
    rate = f"{units.rate(row.samples_per_second)} samples/s"
    if len(row.times) == 1:
        return [f"{rate}; a second run shows how much runs differ"]
    apart = max(row.times) / min(row.times) - 1
    return [f"{rate}, the median of runs that differ by up to {units.share(apart)}"]


def _search(sweep: Sweep) -> list[str]:
    """Return what a search for a batch size found; none before it is over."""
    sizes = sizes_of(sweep)
    if sizes.largest is None or sizes.enough is None or next_size(sweep) is not None:
        return []
    refused = sizes.refused.get(sizes.too_large or 0)
    if refused is None:
        fits = "still fits, and larger ones were not tried"
    elif refused.status == RunStatus.OUT_OF_MEMORY:
        fits = f"is the largest that fits: memory ran out at {sizes.too_large}"
    else:
        fits = f"is the largest that ran: {sizes.too_large} {refused.status}, {refused.reason}"
    rate = units.rate(sizes.fitting[sizes.enough].samples_per_second or 0.0)
    grows = "still" if sizes.enough == sizes.largest else "no longer"
    found = f"the throughput {grows} grows at batch {sizes.enough}: {rate} samples/s"
    return [f"batch {sizes.largest} {fits}", f"{found} ({_RUN_ONCE})"]


def in_short(sentences: Sequence[str], most: int) -> list[str]:
    """Return at most `most` sentences, the last of which counts those left out."""
    if len(sentences) <= most:
        return list(sentences)
    return [*sentences[: most - 1], f"{len(sentences) - most + 1} more findings in dlmon report"]


def _best(group: Sequence[CombinationRow], sweep: Sweep) -> str:
    """Name the best row of a group, its lead, and how sure that is; at the end, say if none is."""
    best, keys = best_of(group), _distinguishing_keys(sweep.plan)
    if best is None:
        none = "no fastest combination: fewer than two have a throughput"
        none += " and a loss that is a number" * any(row.diverged for row in group)
        return none if len(group) > 1 and not sweep.remaining() else ""
    assert best.samples_per_second is not None
    rate = units.rate(best.samples_per_second)
    second = best_of([row for row in group if row is not best], 1)
    assert second is not None
    ratio = best.speed_up_over(second)
    assert ratio is not None
    named = label(best.combination, keys)
    if ratio.may_be_one:
        named = f"no clear lead: {named} measured fastest, {rate} samples/s"
    else:
        named = f"fastest: {named}, {rate} samples/s"
    unsure = _RUN_ONCE if sweep.plan.repeats == 1 else "too few runs to be sure"
    return f"{named}; {verdicts.verdict(ratio, label(second.combination, keys), unsure)}"


def _diverged(rows: Sequence[CombinationRow]) -> str:
    """Name the rows that are not ranked because they diverged."""
    named = [f"{label(row.combination)} ({row.diverged})" for row in rows if row.diverged]
    return f"left out, as the loss is no number: {'; '.join(named)}" if named else ""


def _out_of_memory(rows: Sequence[CombinationRow], plan: Plan) -> str:
    """Name the rows that ran out of memory, and the largest value below that did not."""
    out = [row for row in rows if row.status == RunStatus.OUT_OF_MEMORY]
    if not out:
        return ""
    text = f"memory ran out at {'; '.join(label(row.combination) for row in out)}"
    axis = axis_of(plan.variations)
    if axis is None or [*plan.varied] != [axis]:
        return text

    def size(row: CombinationRow) -> float:
        return float(row.combination.varied[axis])

    least = min(map(size, out))
    fitting = [row for row in rows if row.value is not None and size(row) < least]
    if fitting:
        text = f"{text}; {label(max(fitting, key=size).combination)} still fits"
    return text


def _lowest_loss(group: Sequence[CombinationRow], plan: Plan) -> str:
    """Name the row of a group with the lowest loss, of the validation where that is known."""
    for number, name in reversed([*enumerate(_LOSSES)]):
        losses = [(loss, row) for row in group if isinstance(loss := row.losses[number], float)]
        if len({loss for loss, _ in losses}) > 1:
            loss, row = min(losses, key=itemgetter(0))
            named = label(row.combination, _distinguishing_keys(plan))
            return f"lowest {name}: {named}, {units.metric(loss)}"
    return ""


def _cheapest(group: Sequence[CombinationRow], plan: Plan) -> str:
    """Name the cheapest row of a group; empty without prices."""
    priced = [(row.usd_per_million, row) for row in group if row.usd_per_million is not None]
    if len(priced) < 2:
        return ""
    cost, row = min(priced, key=itemgetter(0))
    named = label(row.combination, _distinguishing_keys(plan))
    return f"cheapest: {named}, {units.dollars(cost)} per million samples"


def _scaling(rows: Sequence[CombinationRow], plan: Plan) -> list[str]:
    """Return the speed-up by more devices: `4 devices are 3.4× as fast as 1: 85 % efficiency`."""
    sentences = []
    by_index = {row.combination.index: row for row in rows}
    for index, scaling in scaling_of(rows).items():
        ratio, varied = scaling.speed_up, dict(by_index[index].combination.varied)
        devices, fewest = varied.pop(DEVICES), scaling.base.combination.varied[DEVICES]
        parts = [_RUN_ONCE] if plan.repeats == 1 else []
        if ratio.low is not None and ratio.high is not None:
            parts.insert(0, f"{units.ratio(ratio.low)} to {units.ratio(ratio.high)}")
        certainty = ", ".join(parts)
        sentence = f"{devices} devices are {units.ratio(ratio.value)} as fast as {fewest}"
        sentence += f" ({certainty})" if certainty else ""
        sentence += f": {units.share(scaling.efficiency)} efficiency"
        sentences.append(": ".join(filter(None, (in_words(varied), sentence))))
    return sentences


def _distinguishing_keys(plan: Plan) -> list[str]:
    """Return the varied options that differ within a group."""
    return [key for key in plan.varied if key not in SAME_WORK]


def _with_shared(group: Sequence[CombinationRow], sentence: str) -> str:
    """Put the varied options that a group has in common before a sentence about it."""
    varied = group[0].combination.varied
    shared = in_words({key: varied[key] for key in SAME_WORK if key in varied})
    return f"{shared}: {sentence}" if shared and sentence else sentence


def lead_changes(rows: Sequence[CombinationRow], by: str, axis: str | None) -> list[str]:
    """Return sentences on the values of one option that take least time at values of another.

    For example: `faster: cpu at batch 32, 64; gpu:0 at batch 128`. If repeats don't show which
    value is faster, none leads; for single runs, the sentence says that it isn't sure. There is no
    sentence if fewer than two values of the axis have a leader.

    Args:
        rows: the rows of all combinations, as they are ranked.
        by: the option whose values compete, such as device.
        axis: an option with numbers as values; None for the workloads.
    """
    groups: dict[tuple[Any, ...], dict[object, list[CombinationRow]]] = {}
    for row in rows:
        varied, workload = row.combination.varied, row.combination.workload
        if row.value is not None and row.diverged is None and by in varied:
            fixed = tuple((k, v) for k, v in varied.items() if k not in (by, axis))
            axis_value = workload if axis is None else varied[axis]
            group = (None if axis is None else workload, *fixed)
            groups.setdefault(group, {}).setdefault(axis_value, []).append(row)
    has_several = axis is not None and len({row.combination.workload for row in rows}) > 1
    sentences = []
    for (workload, *fixed_options), by_value in groups.items():
        led: dict[str, list[str]] = {}
        ordered = by_value.items() if axis is None else sorted(by_value.items(), key=itemgetter(0))
        for value, rivals in ordered:
            if leader := _leader(rivals, by):
                led.setdefault(leader, []).append(f"{value}")
        if sum(map(len, led.values())) < 2:
            continue
        preposition = "on" if axis is None else f"at {option_name(axis)}"
        parts = (f"{leader} {preposition} {', '.join(values)}" for leader, values in led.items())
        sentence = f"faster: {'; '.join(parts)}"
        if _is_run_once(rows[0]):
            sentence += f" ({_RUN_ONCE})"
        shared = [f"{workload}"] * has_several + [in_words(dict(fixed_options))]
        sentences.append(": ".join(filter(None, (", ".join(filter(None, shared)), sentence))))
    return sentences


def _leader(rivals: Sequence[CombinationRow], by: str) -> str | None:
    """Return the value that takes the least time; None if unclear."""
    if len(rivals) < 2:
        return None
    fastest, *slower = sorted(rivals, key=lambda row: row.value or 0.0)
    if _is_run_once(fastest):
        ratios = (fastest.speed_up_over(row) for row in slower)
        is_clear = not any(ratio is not None and ratio.may_be_one for ratio in ratios)
    else:
        is_clear = all(map(fastest.is_faster_than, slower))
    if not is_clear:
        return None
    return label(fastest.combination, [by])


def _is_run_once(row: CombinationRow) -> bool:
    return len(row.outcomes) == 1


def sweep_json(
    header: SweepHeader, sweep: Sweep, path: str, name: str | None = None
) -> dict[str, Any]:
    """Return a sweep as `--json` prints it; `name` is the name of the sweep and its runs."""
    if sweep.plan.pairs is not None:
        return pairs_json(header, sweep, path, name)
    rows, best = rows_of(sweep), {row.combination.index for row in best_rows(sweep).values()}
    scaling = scaling_of(ranking_rows(sweep))
    return {
        "sweep": header.id,
        "name": name,
        "log": path,
        "seed": header.seed,
        "rows": [
            _row_json(
                sweep.plan,
                row,
                row.combination.index in best,
                scaling.get(row.combination.index),
            )
            for row in rows
        ],
        "findings": findings(sweep),
    }


def _row_json(
    plan: Plan, row: CombinationRow, best: bool, scaling: Scaling | None
) -> dict[str, Any]:
    typical = _typical_result(row)
    scaled = {}
    if scaling is not None:
        ratio = scaling.speed_up
        scaled = {"speed_up": ratio.value, "speed_up_low": ratio.low, "speed_up_high": ratio.high}
        scaled["efficiency"] = scaling.efficiency
    return {
        "workload": row.combination.workload,
        "options": {**plan.options, **row.combination.varied},
        "status": row.status,
        "reason": row.reason,
        "metric": row.metric,
        "value": row.value,
        "low": row.low,
        "high": row.high,
        "projected": row.projected,
        "samples_per_second": row.samples_per_second,
        "tokens_per_second": row.tokens_per_second,
        "peak_share": row.peak_share,
        **{
            name: loss if isinstance(loss, float) else None
            for name, loss in zip(_LOSSES, row.losses, strict=True)
        },
        **scaled,
        "cost_usd": row.cost_usd,
        "usd_per_million_samples": row.usd_per_million,
        "best": best,
        "result": None if typical is None else to_json(typical),
        "runs": [
            {
                "status": outcome.status if outcome else RunStatus.NOT_RUN,
                "reason": outcome.reason if outcome else None,
                "session": outcome.session if outcome else None,
                "result": to_json(outcome.result) if outcome and outcome.result else None,
            }
            for outcome in row.outcomes
        ],
    }


def _typical_result(row: CombinationRow) -> Result | None:
    """Return the result of the run with the median time; without times, the last result."""
    results = [(o.status, o.result) for o in row.outcomes if o is not None and o.result is not None]
    times = [(time_of(row.metric, r), r) for status, r in results if status == RunStatus.COMPLETED]
    timed = sorted(((time, r) for time, r in times if time is not None), key=itemgetter(0))
    if timed:
        return timed[(len(timed) - 1) // 2][1]
    return results[-1][1] if results else None


def resumed_by(sweep: str, directory: Path | None = None, usual: Path | None = None) -> str:
    """Return the command that resumes a sweep, with its log directory unless that is usual."""
    options = location_options(None if directory == usual else directory)
    return f"dlmon sweep --resume {sweep}{options}"


def left_text(sweep: Sweep) -> str | None:
    """Say what a resumed sweep would run: 3 runs left, or more pairs; a plan has room for many.

    None if it would run nothing: a run that failed ends an experiment of pairs for good, one that
    could not begin doesn't.
    """
    count, is_of_pairs = len(sweep.remaining()), sweep.plan.pairs is not None
    broken = broken_run(sweep) if is_of_pairs else None
    if not count or (broken is not None and broken[1].session is not None):
        return None
    return "more pairs" if is_of_pairs else f"{units.counted(count, 'run')} left"


# ---- report ----


@record(frozen=True)
class SweepReport:
    """The report of one sweep: its sections, and the same as JSON."""

    title: str
    sections: tuple[Section, ...]
    as_json: Mapping[str, Any]

    @property
    def charts(self) -> list[LineChart]:
        return [section for section in self.sections if isinstance(section, LineChart)]


def sweep_report(path: Path, full: bool = False) -> SweepReport:
    """Read the log of a sweep, and return its report; unless `full`, without private names.

    Raises:
        LogError: the log can't be read.
    """
    header, sweep = read_sweep(path)
    read_run_figures(sweep, log_directory_of(path))
    if sweep.plan.pairs is not None:
        _read_changed(sweep)
    redaction = Redaction(full)
    redaction.learn_hosts([host for host in sweep.plan.hosts if host is not None])
    redaction.learn_names(header.host, header.options)
    plan = sweep.plan
    # How often the hardware is read says nothing of a run.
    options = {k: v for k, v in plan.options.items() if v is not None and k != "interval"}
    sides = () if plan.pairs is None else side_names(plan)
    name = read_label(path).name
    title = name or header.id
    kind = "Sweep" if plan.pairs is None else "Pairs"
    sections: list[Section] = [
        Heading(
            f"{kind} {title}",
            (f"{units.day_and_time(header.wall)} · {plan_text(plan)}",),
        ),
        Note(tuple(as_sentence(text, sides) for text in findings(sweep)), "verdict"),
    ]
    sections += _combination_sections(sweep) if plan.pairs is None else pair_sections(sweep)
    if options:
        sections.append(Note((f"All with {in_words(options)}.",)))
    as_json = sweep_json(header, sweep, str(path), name)
    if not full:
        del as_json["log"]
        _remove_log_paths(as_json)
    return SweepReport(
        title=redaction.text(title),
        sections=with_texts(tuple(sections), redaction.text),
        as_json=redaction.value(as_json),
    )


def _combination_sections(sweep: Sweep) -> Iterator[Section]:
    """Yield a chart, or else bars, for each workload, and a table of all combinations."""
    for workload in sweep.plan.workloads:
        chart = picture_of(sweep, workload)
        if chart is None:
            yield _bars(sweep, workload)
        else:
            yield replace(chart, title=f"{workload}: {chart.title}")
    yield replace(sweep_table(sweep), heading="All combinations")


def _read_changed(sweep: Sweep) -> None:
    # The first screen lists sweeps without reading code.
    from dlmon.sweep.pair_code import changed_by_pairs

    if AS_IT_LIES not in (f"{c.varied.get(COMMIT)}" for c in sweep.plan.combinations):
        # Files that were not committed may have changed since.
        sweep.changed = changed_by_pairs(sweep.plan)


def picture_of(sweep: Sweep, workload: str) -> LineChart | None:
    """Return a chart of the times of a workload; None if no varied option has numbers."""
    axis, all_rows = axis_of(sweep.plan.variations), of_workload(ranking_rows(sweep), workload)
    rows = [row for row in all_rows if row.status != RunStatus.IMPOSSIBLE]
    if axis is None or not rows:
        return None
    keys = [key for key in sweep.plan.varied if key != axis]
    by_line: dict[str, list[CombinationRow]] = {}
    for row in rows:
        name = label(row.combination, keys) if keys else workload
        by_line.setdefault(name, []).append(row)

    def x_of(row: CombinationRow) -> float:
        return float(row.combination.varied[axis])

    lines = []
    for name, points in by_line.items():
        points.sort(key=x_of)
        means, lows, highs = zip(*((row.value, row.low, row.high) for row in points), strict=True)
        out = tuple(x_of(row) for row in points if row.status == RunStatus.OUT_OF_MEMORY)
        xs = tuple(map(x_of, points))
        lines.append(Line(name, xs, means, lows, highs, out_of_memory=out))
    x_labels = {x_of(row): f"{row.combination.varied[axis]}" for row in rows}
    title = f"{heading_of(rows[0].metric)} against {option_name(axis)}"
    return LineChart(title, "", tuple(lines), x_labels=tuple(sorted(x_labels.items())))


def _bars(sweep: Sweep, workload: str) -> Bars:
    best = {row.combination.index for row in best_rows(sweep).values()}
    bars = []
    for row in of_workload(ranking_rows(sweep), workload):
        text = with_band(row).text() if row.value is not None else row.reason or str(row.status)
        kind = "this" if row.combination.index in best else ""
        bars.append(Bar(label(row.combination), row.value or 0.0, text, kind))
    return Bars(workload, tuple(bars))


def _remove_log_paths(as_json: dict[str, Any]) -> None:
    """Remove the paths of logs from the results of a sweep's runs."""
    for row in as_json.get("rows", ()):
        for run in (row, *row["runs"]):
            if run["result"]:
                run["result"].pop("log", None)


def run_text(name: str, snapshot: Snapshot) -> str:
    """Return the state of a run: its phase, its throughput, and the load of the machine."""
    parts = (
        name,
        phase_text(snapshot.phase) or "starting",
        epoch_text(snapshot),
        units.rate_now(snapshot.samples_per_second_now),
        *busy_texts(snapshot.machine),
    )
    return "  ".join(filter(None, parts))


def progress_texts(run: SweepRun) -> tuple[str, str, float]:
    """Return how many runs are done, what is left, and the share that is done."""
    sweep, count = run.sweep, len(run.sweep.plan.order)
    if sweep.plan.pairs is not None:
        verdict = verdict_of(sweep)
        pairs = len(verdict.pairs)
        missing = max(1, FIRST_PAIRS - pairs) if verdict.missing is None else verdict.missing
        done = units.counted(pairs, "pair")
        if is_enough(sweep):
            return done, "" if run.ended else "no further pair; it is ending", 1.0
        return done, progress_text(sweep), pairs / (pairs + missing)
    left = len(sweep.remaining())
    # The findings name those that ran out of memory.
    broken = without_result_text(sweep, but=RunStatus.OUT_OF_MEMORY)
    done = f"{count - left} of {count} runs done{broken}"
    lost = sum(current.is_lost for current in run.current.values())
    running = len(run.current) - lost
    counts = [(running, "running"), (lost, "lost")]
    if not run.ended:
        # Those of a host that is lost don't wait for anything.
        under_way = {current.slot for current in run.current.values()}
        ended = (o for slot, o in sweep.outcomes.items() if slot not in under_way)
        not_run = sum(outcome.status == RunStatus.NOT_RUN for outcome in ended)
        counts += [(left - len(run.current) - not_run, "waiting"), (not_run, "not run")]
    parts = [f"{number} {state}" for number, state in counts if number > 0]
    if not run.ended and run.seconds_left is not None:
        parts.append(f"about {units.time_left(run.seconds_left)}")
    return done, "  ".join(parts), (count - left) / count if count else 1.0


def status_of(run: SweepRun) -> str:
    """Return the status of a sweep."""
    if run.ended:
        return "failed" if run.problem is not None else run.sweep.closed or "stopped"
    return "stopping" if run.stopping else "running"
