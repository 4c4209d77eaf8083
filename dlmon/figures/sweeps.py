"""Write what a sweep found the way people read it: table, sentences, JSON, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.comparison.earlier_runs import epoch_text, share_text
from dlmon.figures.comparison.verdicts import doubts_of_results
from dlmon.figures.machine.readings import busy_texts
from dlmon.figures.report.redact import Redaction
from dlmon.figures.report.sections import (
    Bar,
    Bars,
    Chart,
    Heading,
    Line,
    Note,
    Section,
    Table,
    as_sentence,
    with_texts,
)
from dlmon.figures.session import tokens
from dlmon.figures.session.phases import phase_text
from dlmon.log.folder import location_options
from dlmon.log.label import read_label
from dlmon.options.run_options import in_words, option_name
from dlmon.records import Outcome, Result, RunStatus, SweepHeader, to_json
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.sweep.log import read_sweep
from dlmon.sweep.plan import HOST, Combination, Plan
from dlmon.sweep.progress import Sweep
from dlmon.sweep.results import (
    DEVICES,
    MIN_RUNS,
    SAME_WORK,
    CombinationRow,
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

# The first screen needs none of these.
if TYPE_CHECKING:
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
_BROKEN = (RunStatus.FAILED, RunStatus.OUT_OF_MEMORY, RunStatus.IMPOSSIBLE)


def sweep_table(sweep: Sweep, queued: Collection[int] = ()) -> Table:
    """Return a row for each combination, in the order of the plan; of a price, where one is known.

    The best ones are marked. At its end a row says why there is no figure, or that it is a
    projection, and what speaks against its runs.

    Args:
        sweep: as far as it has come.
        queued: the combinations that only wait for others to end, by their places in the plan.
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
    columns["runs" if plan.repeats > 1 else "status"] = [
        "queued"
        if plan.repeats == 1 and row.combination.index in queued
        else _status_text(row, plan, row.combination.index in running)
        for row in rows
    ]
    texts = {option_name(v.key) for v in plan.variations if isinstance(v.values[0], str)}
    texts |= {"", "workload", "runs", "status"}
    metrics = set(plan.metrics.values())
    time = heading_of(plan.metrics[plan.workloads[0]]) if len(metrics) == 1 else "time"
    columns[time] = [_time(row, metrics) for row in rows]
    columns["samples/s"] = _texts([row.samples_per_second for row in rows], units.rate)
    measured: tuple[tuple[str, list[float | None], Callable[[float], str]], ...] = (
        (tokens.UNIT, [row.tokens_per_second for row in rows], units.rate),
        ("of peak", [row.peak_share for row in rows], units.share),
        ("USD/M samples", [row.usd_per_million for row in rows], _price),
    )
    for name, values, text in measured:
        if any(value is not None for value in values):
            columns[name] = _texts(values, text)
    scaling = scaling_of(judged)
    if scaling:
        each = [scaling.get(row.combination.index) for row in rows]
        columns["speed-up"] = [
            "" if one is None else units.ratio(one.speed_up.value) for one in each
        ]
        columns["efficiency"] = ["" if one is None else units.share(one.efficiency) for one in each]
    if plan.repeats > 1:
        columns["best is"] = [_lead(leaders, row) for row in judged]
    # What is said of the runs that a figure is of holds while another one runs.
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
    )


def _texts(values: Iterable[float | None], text: Callable[[float], str]) -> list[str]:
    return ["" if value is None else text(value) for value in values]


def _price(usd: float) -> str:
    return units.dollars(usd).removesuffix(" USD")


def without_result_text(sweep: Sweep) -> str:
    """Say how many of the runs that are done have no result: `, 1 failed, 2 impossible`."""
    statuses = Counter(outcome.status for outcome in sweep.outcomes.values())
    return "".join(f", {statuses[status]} {status}" for status in _BROKEN if statuses[status])


def _names_workloads(plan: Plan) -> bool:
    return len(plan.workloads) > 1 or not plan.variations


def _status_text(row: CombinationRow, plan: Plan, running: bool) -> str:
    """Say how a combination stands; of several runs, how many completed."""
    if running and plan.repeats == 1:
        return "running"
    over = row.status not in (RunStatus.COMPLETED, RunStatus.NOT_RUN)
    if plan.repeats == 1 or (over and not row.completed):
        return row.status
    count = f"{row.completed} of {plan.repeats}"
    return f"{count} …" if running else count


def _time(row: CombinationRow, metrics: Collection[str]) -> str:
    if row.value is None:
        return ""
    found = with_band(row)
    # The unit of all stands in the heading.
    unit = "" if len(metrics) == 1 else f"{found.unit} {_UNITS[row.metric]}"
    mark = "~" if row.projected else ""
    return " ".join(part for part in (f"{mark}{found.number}", found.spread, unit) if part)


def _lead(leaders: Mapping[int, CombinationRow], row: CombinationRow) -> str:
    """Say how many times as fast the best of those like a row is; nothing where that isn't sure."""
    leader = leaders.get(row.combination.index)
    if leader is None or leader.combination is row.combination:
        return "" if leader is None else "best"
    others = sum(each is leader for each in leaders.values()) - 1
    ratio = leader.speed_up_over(row)
    return units.ratio(ratio.value) if ratio and leader.is_faster_than(row, others) else ""


def _note(row: CombinationRow) -> str:
    if row.reason is not None:
        return row.reason
    notes = ["projected"] if row.projected else []
    completed = [o for o in row.outcomes if o is not None and o.status == RunStatus.COMPLETED]
    notes.append(doubts_of_results(o.result for o in completed if o.result is not None))
    return "; ".join(note for note in notes if note)


def amount(metric: str, value: float) -> str:
    """Write a time by a metric, with its unit: 0.41 ms, 9.02 s."""
    if metric not in _IN_MILLISECONDS:
        return units.seconds(value)
    return f"{value:#.3g} ms" if value < 99.95 else f"{value:,.0f} ms"


def heading_of(metric: str) -> str:
    """Name a metric with its unit: ms per sample."""
    return f"{'ms' if metric in _IN_MILLISECONDS else 's'} {_UNITS[metric]}"


def with_band(row: CombinationRow) -> units.Banded:
    """Return the time of a combination with how far its runs agree: 0.41 ± 0.02."""
    value = row.value or 0.0
    text, _, unit = amount(row.metric, value).partition(" ")
    half = None if row.low is None or row.high is None else (row.high - row.low) / 2
    return units.banded(value, half, text, unit, 9 if row.metric in _IN_MILLISECONDS else 2)


def plan_text(plan: Plan) -> str:
    """Say what is run: `12 runs: 2 devices × batch 32, 64, 128; 3 times each`."""
    parts = [swept_text(plan), varied_text(plan)]
    times = f"; {plan.repeats} times each" if plan.repeats > 1 else ""
    runs = units.counted(len(plan.order), "run")
    shared = plan.options.get(HOST)
    if shared is not None and HOST not in plan.varied:
        runs = f"{runs} on {shared}"
    return f"{runs}: {' × '.join(part for part in parts if part)}{times}"


def swept_text(plan: Plan) -> str:
    """Name the workload of a sweep, or say how many there are."""
    several = len(plan.workloads) > 1
    return f"{len(plan.workloads)} workloads" if several else plan.workloads[0]


def varied_text(plan: Plan) -> str:
    """Say what is varied: `device cpu, gpu × batch 32, 64`; empty where nothing is."""
    parts = []
    for variation in plan.variations:
        values = [f"{value}" for value in variation.values]
        many = len(values) > _MOST_VALUES
        listed = f"{len(values)} values" if many else ", ".join(values)
        parts.append(f"{option_name(variation.key)} {listed}")
    return " × ".join(parts)


def label(combination: Combination, keys: Sequence[str] | None = None) -> str:
    """Name a combination by what is varied in it, or by some of that: `batch 32, cpu`."""
    varied = combination.varied
    chosen = varied if keys is None else {key: varied[key] for key in keys}
    return in_words(chosen) or combination.workload


def slot_text(plan: Plan, combination: Combination, repeat: int | None = None) -> str:
    """Name a run: its workload where there are several, what is varied, and which repeat."""
    parts = [combination.workload] if _names_workloads(plan) else []
    name = ", ".join(filter(None, [*parts, in_words(combination.varied)]))
    if plan.repeats == 1 or repeat is None:
        return name
    return f"{name} (run {repeat + 1} of {plan.repeats})"


def outcome_text(outcome: Outcome, metric: str) -> str:
    """Say how one run ended, and how fast it was."""
    if outcome.status != RunStatus.COMPLETED or outcome.result is None:
        return f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status
    result = outcome.result
    parts = ["completed"]
    time = time_of(metric, result)
    if time is not None:
        parts.append(f"{amount(metric, time)} {_UNITS[metric]}")
    if result.samples_per_second is not None:
        parts.append(f"{units.rate(result.samples_per_second.mean)} samples/s")
        parts += tokens.band_text(result.tokens_per_second), share_text(result)
    else:
        parts.append(result.why.get("samples_per_second", ""))
    return ", ".join(part for part in parts if part)


def problems_of(run: SweepRun) -> list[str]:
    """Say what went wrong while a sweep was run: machines that were away, sessions left running."""
    left_running = (
        f"{session} may still run: dlmon stop --host {host} {session} ends it"
        for host, session in run.left_running
    )
    said = (*run.unreached.values(), *left_running, run.problem, run.remark)
    return [clean(problem) for problem in said if problem is not None]


def findings(sweep: Sweep) -> list[str]:
    """Say what the sweep found, a sentence each; what isn't sure is said to be so."""
    plan, rows = sweep.plan, ranking_rows(sweep)
    found: list[str] = []
    for name in plan.workloads:
        own = of_workload(rows, name)
        groups = comparable_groups(own)
        out = [label(row.combination) for row in own if row.status == RunStatus.OUT_OF_MEMORY]
        said = [
            *(_with_shared(like, _best(like, sweep)) for like in groups),
            f"memory ran out at {'; '.join(out)}" if out else "",
            *(_with_shared(like, _cheapest(like, plan)) for like in groups),
            *_scaling(own, plan),
        ]
        of_workloads = f"{name}: " if len(plan.workloads) > 1 else ""
        found += [f"{of_workloads}{sentence}" for sentence in said if sentence]
    axis = axis_of(plan.variations)
    for variation in plan.variations:
        if variation.key in (axis, *SAME_WORK) or len(variation.values) < 2:
            continue
        if axis is not None or len(plan.workloads) > 1:
            found += lead_changes(rows, variation.key, axis)
    return found


def _best(like: Sequence[CombinationRow], sweep: Sweep) -> str:
    """Name the best of rows that are like each other, how much faster it is, and how sure that is.

    At the end, say where there is none.
    """
    best, keys = best_of(like), _distinguishing_keys(sweep.plan)
    if best is None:
        none = "no best combination: fewer than two have a throughput"
        return none if len(like) > 1 and not sweep.remaining() else ""
    assert best.samples_per_second is not None
    rate = units.rate(best.samples_per_second)
    named = f"best: {label(best.combination, keys)}, {rate} samples/s"
    others = [row for row in like if row.value is not None and row is not best]
    after = min(others, key=lambda row: row.value or 0.0)
    ratio = best.speed_up_over(after)
    assert ratio is not None
    once = f"1 run each; --repeat {MIN_RUNS} would show how sure that is"
    unsure = once if sweep.plan.repeats == 1 else "too few runs to be sure"
    return f"{named}; {verdicts.verdict(ratio, label(after.combination, keys), unsure)}"


def _cheapest(like: Sequence[CombinationRow], plan: Plan) -> str:
    """Name the cheapest of rows that are like each other, where a price was given."""
    priced = [(row.usd_per_million, row) for row in like if row.usd_per_million is not None]
    if len(priced) < 2:
        return ""
    cost, row = min(priced, key=lambda pair: pair[0])
    named = label(row.combination, _distinguishing_keys(plan))
    return f"cheapest: {named}, {units.dollars(cost)} per million samples"


def _scaling(rows: Sequence[CombinationRow], plan: Plan) -> list[str]:
    """Say how many times as fast more devices are: `4 devices are 3.4× as fast as 1: 85 %`."""
    said = []
    by_index = {row.combination.index: row for row in rows}
    for index, scaling in scaling_of(rows).items():
        ratio, varied = scaling.speed_up, dict(by_index[index].combination.varied)
        devices, fewest = varied.pop(DEVICES), scaling.base.combination.varied[DEVICES]
        known = "1 run each" if plan.repeats == 1 else ""
        if ratio.low is not None and ratio.high is not None:
            known = f"{units.ratio(ratio.low)} to {units.ratio(ratio.high)}"
        sentence = f"{devices} devices are {units.ratio(ratio.value)} as fast as {fewest}"
        sentence += f" ({known})" if known else ""
        sentence += f": {units.share(scaling.efficiency)} efficiency"
        said.append(": ".join(filter(None, (in_words(varied), sentence))))
    return said


def _distinguishing_keys(plan: Plan) -> list[str]:
    """Return what is varied among the rows of a group that are like each other."""
    return [key for key in plan.varied if key not in SAME_WORK]


def _with_shared(like: Sequence[CombinationRow], sentence: str) -> str:
    """Say before a sentence what the combinations have in common, as far as that is varied."""
    varied = like[0].combination.varied
    shared = in_words({key: varied[key] for key in SAME_WORK if key in varied})
    return f"{shared}: {sentence}" if shared and sentence else sentence


def lead_changes(rows: Sequence[CombinationRow], by: str, axis: str | None) -> list[str]:
    """Say which value of one option takes least time at which value of another.

    `less time: cpu at batch 32, 64; gpu:0 at batch 128`. Where several runs of each are asked for
    and don't show which is faster, neither leads; of single runs, the sentence says that it isn't
    sure. Nothing is said of fewer than two places.

    Args:
        rows: of all combinations, as they are judged.
        by: the option whose values compete, such as device.
        axis: an option whose values are numbers; None for the workloads.
    """
    groups: dict[tuple[Any, ...], dict[object, list[CombinationRow]]] = {}
    for row in rows:
        varied, workload = row.combination.varied, row.combination.workload
        if row.value is not None and by in varied:
            fixed = tuple((k, v) for k, v in varied.items() if k not in (by, axis))
            place = workload if axis is None else varied[axis]
            group = (None if axis is None else workload, *fixed)
            groups.setdefault(group, {}).setdefault(place, []).append(row)
    several = axis is not None and len({row.combination.workload for row in rows}) > 1
    sentences = []
    for (workload, *others), places in groups.items():
        led: dict[str, list[str]] = {}
        ordered = places.items() if axis is None else sorted(places.items(), key=itemgetter(0))
        for at, rivals in ordered:
            if leader := _leader(rivals, by):
                led.setdefault(leader, []).append(f"{at}")
        if sum(map(len, led.values())) < 2:
            continue
        where = "on" if axis is None else f"at {option_name(axis)}"
        parts = (f"{leader} {where} {', '.join(places)}" for leader, places in led.items())
        sentence = f"less time: {'; '.join(parts)}"
        if _is_run_once(rows[0]):
            sentence += f" (1 run each; --repeat {MIN_RUNS} would show how sure that is)"
        alike = [f"{workload}"] * several + [in_words(dict(others))]
        sentences.append(": ".join(filter(None, (", ".join(filter(None, alike)), sentence))))
    return sentences


def _leader(rivals: Sequence[CombinationRow], by: str) -> str | None:
    """Return the value that takes the least time; None where that is unclear."""
    if len(rivals) < 2:
        return None
    first, *others = sorted(rivals, key=lambda row: row.value or 0.0)
    if not _is_run_once(first) and not all(map(first.is_faster_than, others)):
        return None
    return label(first.combination, [by])


def _is_run_once(row: CombinationRow) -> bool:
    return len(row.outcomes) == 1


def sweep_json(
    header: SweepHeader, sweep: Sweep, path: str, name: str | None = None
) -> dict[str, Any]:
    """Return a sweep as `--json` prints it; `name` is what it and its runs are called."""
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
    """Return that of the run whose time is the middle one; without a time, the last there is."""
    ended = [(o.status, o.result) for o in row.outcomes if o is not None and o.result is not None]
    times = [(time_of(row.metric, r), r) for status, r in ended if status == RunStatus.COMPLETED]
    timed = sorted(((time, r) for time, r in times if time is not None), key=itemgetter(0))
    if timed:
        return timed[(len(timed) - 1) // 2][1]
    return ended[-1][1] if ended else None


def resumed_by(sweep: str, directory: Path | None = None, usual: Path | None = None) -> str:
    """Return the command that runs the rest of a sweep; it names no directory that is usual."""
    return (
        f"dlmon sweep --resume {sweep}{location_options(None if directory == usual else directory)}"
    )


# ---- what a report says ----


@record(frozen=True)
class SweepReport:
    """One sweep: what a report says of it, and as numbers and words."""

    title: str
    sections: tuple[Section, ...]
    as_json: Mapping[str, Any]

    @property
    def charts(self) -> list[Chart]:
        return [section for section in self.sections if isinstance(section, Chart)]


def sweep_report(path: Path, full: bool = False) -> SweepReport:
    """Read the log of a sweep, and return what a report says of it.

    Raises:
        LogError: it can't be read.
    """
    header, sweep = read_sweep(path)
    redaction = Redaction(full)
    redaction.learn_hosts([host for host in sweep.plan.hosts if host is not None])
    redaction.learn_names(header.host, header.options)
    plan = sweep.plan
    given = {key: value for key, value in plan.options.items() if value is not None}
    name = read_label(path).name
    title = name or header.id
    sections: list[Section] = [
        Heading(f"Sweep {title}", (f"{units.day_and_time(header.wall)} · {plan_text(plan)}",)),
        Note(tuple(map(as_sentence, findings(sweep))), "verdict"),
    ]
    for workload in plan.workloads:
        chart = picture_of(sweep, workload)
        if chart is not None:
            sections.append(replace(chart, title=f"{workload}: {chart.title}"))
        else:
            sections.append(_bars(sweep, workload))
    sections.append(replace(sweep_table(sweep), heading="All combinations"))
    if given:
        said = in_words(given)
        sections.append(Note((f"All with {said}.",)))
    as_json = sweep_json(header, sweep, str(path), name)
    if not full:
        del as_json["log"]
        _leave_out_paths(as_json)
    return SweepReport(
        title=redaction.text(title),
        sections=with_texts(tuple(sections), redaction.text),
        as_json=redaction.value(as_json),
    )


def picture_of(sweep: Sweep, workload: str) -> Chart | None:
    """Return what a workload's combinations took; None where nothing that is varied is a number."""
    axis, all_rows = axis_of(sweep.plan.variations), of_workload(ranking_rows(sweep), workload)
    rows = [row for row in all_rows if row.status != RunStatus.IMPOSSIBLE]
    if axis is None or not rows:
        return None
    others = [key for key in sweep.plan.varied if key != axis]
    found: dict[str, list[CombinationRow]] = {}
    for row in rows:
        name = label(row.combination, others) if others else workload
        found.setdefault(name, []).append(row)

    def place(row: CombinationRow) -> float:
        return float(row.combination.varied[axis])

    lines = []
    for name, points in found.items():
        points.sort(key=place)
        means, lows, highs = zip(*((row.value, row.low, row.high) for row in points), strict=True)
        out = tuple(place(row) for row in points if row.status == RunStatus.OUT_OF_MEMORY)
        xs = tuple(map(place, points))
        lines.append(Line(name, xs, means, lows, highs, out_of_memory=out))
    shown = {place(row): f"{row.combination.varied[axis]}" for row in rows}
    title = f"{heading_of(rows[0].metric)} against {option_name(axis)}"
    return Chart(title, "", tuple(lines), x_labels=tuple(sorted(shown.items())))


def _bars(sweep: Sweep, workload: str) -> Bars:
    best = {row.combination.index for row in best_rows(sweep).values()}
    bars = []
    for row in of_workload(ranking_rows(sweep), workload):
        said = with_band(row).text() if row.value is not None else row.reason or str(row.status)
        kind = "this" if row.combination.index in best else ""
        bars.append(Bar(label(row.combination), row.value or 0.0, said, kind))
    return Bars(workload, tuple(bars))


def _leave_out_paths(found: dict[str, Any]) -> None:
    """Take the paths of logs out of the results of a sweep's runs."""
    for row in found["rows"]:
        for run in (row, *row["runs"]):
            if run["result"]:
                run["result"].pop("log", None)


def run_text(name: str, snapshot: Snapshot) -> str:
    """Say how a run goes: what it does, how fast it is, and how busy the machine is."""
    speed = snapshot.samples_per_second_now
    parts = (
        name,
        phase_text(snapshot.phase) or "starting",
        epoch_text(snapshot),
        "" if speed is None else f"{units.rate(speed)} samples/s",
        *busy_texts(snapshot.machine),
    )
    return "  ".join(filter(None, parts))


def status_of(run: SweepRun) -> str:
    """Return how a sweep stands, in a word."""
    if run.ended:
        return "failed" if run.problem is not None else run.sweep.closed or "stopped"
    return "stopping" if run.stopping else "running"
