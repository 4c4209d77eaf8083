"""The summary of a session: its figures as rows of names and texts, and as numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from dlmon.comparison.references import find_match, missing_part
from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import comparable_text, conditions_of, default_conditions
from dlmon.figures.comparison.run_rows import comparison_among, comparison_bars
from dlmon.figures.lists.session_list import (
    device_name,
    energy_used,
    status_text,
    stopped_unasked_text,
)
from dlmon.figures.machine.readings import activity_text
from dlmon.figures.quantity_text import rows_shown_in
from dlmon.figures.sections import Bar, Bars, Figures, Note, Row, Section
from dlmon.figures.session.compared_figure import basis_of_epoch, metric_of, timing_of, why_no_time
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.epochs import epoch_text_of
from dlmon.figures.session.framework_memory import (
    explain_out_of_memory,
    memory_text,
    out_of_memory_advice,
)
from dlmon.figures.session.gap_texts import gap_of_session, longest_gaps
from dlmon.figures.session.headline import headline_of
from dlmon.figures.session.injections import SET_BY_DLMON, injections_text
from dlmon.figures.session.phases import SUSPENDED
from dlmon.figures.session.ranks import step_split, trainers_text
from dlmon.figures.session.run_facts import (
    cost_text,
    device_text,
    effective_or_reason,
    energy_text,
    unusual_settings,
)
from dlmon.figures.session.tables import evaluation_text, loop_table, measured_loop, metrics_line
from dlmon.figures.session.time_breakdown import (
    PART_NAMES,
    STEP_NAMES,
    breakdown_rows,
    names_of,
    regular_steps_text,
)
from dlmon.figures.session.tokens import tokens_text
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.quantities import GPU_ACTIVITY, QUANTITIES, SAMPLES_PER_SECOND, measured_value, number_in
from dlmon.records import RunSeconds, SecondsPerEpoch, Status, TimePart
from dlmon.records.record import record
from dlmon.records.training import WAITS
from dlmon.records.words import STEPS_PER_S, gpu_name
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.learning import metric_figures
from dlmon.session.limits.evidence import Tone
from dlmon.session.run_figures import figures_of_snapshot
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from workloads.catalog import WORKLOADS

Cell = str | int | float | bool | None
"""A value in a table."""

COMMAND, METRICS = "command", "metrics"
VALID, IN_DOUBT, COMPARED = "valid", "in doubt", "compared"
WENT_WRONG, TRY = "what went wrong", "try"
_MOST_GAPS, _MOST_LOOPS, _MOST_SLOW = 3, 20, 3
_LEAST_DELAY_S = 0.01
"""The least extra time of a first batch to mention."""
_STEP_NAMES = {**STEP_NAMES, WAITS: "waiting for other ranks"}


@record(frozen=True)
class SessionOutcome:
    """A session, its snapshot, its status, and its label."""

    session: Session
    snapshot: Snapshot
    status: Status
    label: Label

    @property
    def has_trained(self) -> bool:
        """False for a script that never trained: its missing figures need no reason."""
        return not self.snapshot.header.is_script or self.snapshot.batches > 0


def summary_rows(outcome: SessionOutcome) -> list[Row]:
    """Return the names and texts of the figures of a session, its label first."""
    if outcome.snapshot.header.is_machine_recording:
        return _machine_summary(outcome.session, outcome.snapshot, outcome.status)
    return [row for rows in _ROWS for row in rows(outcome)]


def summary_numbers(outcome: SessionOutcome) -> dict[str, Cell]:
    """Return the numbers of a session by the names of their columns; None if unknown."""
    snapshot = outcome.snapshot
    sources: tuple[object, ...] = (snapshot, snapshot.result)
    if snapshot.header.is_machine_recording:
        sources = (snapshot.result,)
    numbers: dict[str, Cell] = {}
    for quantity in QUANTITIES:
        if not quantity.is_reported:
            continue
        key = quantity.key
        values = (measured_value(source, key) for source in sources)
        value = next((value for value in values if value is not None), None)
        if key == SAMPLES_PER_SECOND and snapshot.throughput_unit == STEPS_PER_S:
            # The number of samples is unknown.
            value = None
        column = key.replace(".", "_")
        numbers[column] = len(value) if isinstance(value, tuple) else number_in(value)
        for part in quantity.parts:
            name = part if part == "projected" else f"{column}_{part}"
            numbers[name] = getattr(value, part, None)
    return numbers


def _what_ran(outcome: SessionOutcome) -> Iterator[Row]:
    header, model = outcome.snapshot.header, outcome.snapshot.model
    label = (("name", outcome.label.name), ("note", outcome.label.note))
    yield from ((name, text) for name, text in label if text is not None)
    if header.command is not None:
        yield COMMAND, shlex.join(header.command)
    else:
        yield "workload", header.workload
    if model is not None:
        yield "device", device_text(outcome.snapshot) or "–"
        if not header.is_script:
            yield "data", model.data or "–"
    unusual = unusual_settings(header.options)
    if unusual:
        yield "settings", ", ".join(unusual)
    if injections := injections_text(outcome.snapshot):
        yield SET_BY_DLMON, injections
    yield "status", status_text(outcome.status, outcome.session.result)
    if reason := explain_out_of_memory(outcome.snapshot):
        yield "GPU memory ran out", reason
        if advice := out_of_memory_advice(outcome.snapshot):
            yield "to avoid it", advice
    if model is not None and model.length_from is not None:
        noun = "step" if model.epochs is None else "epoch"
        length = units.counted(model.epochs or model.steps or 0, noun)
        yield "length", f"{length}, as {model.length_from} says"
    if loop := measured_loop(outcome.snapshot):
        yield "figures of", loop


def _compared(outcome: SessionOutcome) -> Iterator[Row]:
    snapshot, run = outcome.snapshot, outcome.snapshot.run_seconds
    if run is not None and timing_of(snapshot) is run:
        basis = f"{'projected, ' * run.projected}without the start{_left_out(run, snapshot)}"
        yield "whole run", f"{units.band(run)} ({basis})"
    if snapshot.seconds_per_epoch is not None:
        yield "seconds per epoch", _epoch_text(snapshot.seconds_per_epoch, snapshot)
    elif metric_of(snapshot) != "step_ms":
        yield "seconds per epoch", f"– ({why_no_time(snapshot, outcome.status)})"


def _throughput(outcome: SessionOutcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    measured = snapshot.samples_per_second
    if measured is None:
        result = snapshot.result
        why = snapshot.why | (result.why if result is not None else {})
        if outcome.has_trained:
            yield "throughput", f"– ({why.get('samples_per_second', '')})"
        return
    throughput = units.with_band(measured)
    yield "throughput", throughput.noted(trainers_text(snapshot))
    if tokens := tokens_text(snapshot):
        yield "tokens", tokens


def _step(outcome: SessionOutcome) -> Iterator[Row]:
    snapshot, step = outcome.snapshot, outcome.snapshot.step_ms
    if step is not None:
        mean = "" if step.mean is None else f"mean {units.step_time(step.mean)}, "
        within = "" if step.p95 is None else f", 95 % within {units.step_time(step.p95)}"
        yield "step", f"{mean}median {units.step_time(step.median)}{within}"
    if snapshot.compiled_s is not None and snapshot.compiles:
        yield "compile", units.seconds(snapshot.compiled_s)
        return
    delays = (("", snapshot.first_batch_s), (" in validation", snapshot.validation_compile_s))
    texts = [f"+{units.seconds(s)}{phase}" for phase, s in delays if s and s >= _LEAST_DELAY_S]
    if texts:
        yield "first batch", ", ".join(texts)


def _learned(outcome: SessionOutcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    metrics = metric_figures(snapshot.epochs, outcome.session.learning, outcome.session.loops.of)
    if metrics:
        yield METRICS, metrics_line(metrics, epoch_word(snapshot.header))
    if snapshot.evaluation is not None:
        yield "evaluation", evaluation_text(snapshot.evaluation)


def _memory(outcome: SessionOutcome) -> Iterator[Row]:
    if text := memory_text(outcome.snapshot):
        yield "GPU memory", text


def _held_up(outcome: SessionOutcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    if snapshot.suspended_s:
        yield SUSPENDED, f"{units.seconds(snapshot.suspended_s)}, in no figure"
    yield from _slow_epochs(outcome.session, snapshot)
    if snapshot.stalls:
        word, openings = epoch_word(snapshot.header), snapshot.opening_stalls or 0
        stalls = units.stalls(snapshot.stalls, openings, word)
        yield "stalls", f"{stalls}: over ten times the median batch"
    if snapshot.regular_steps is not None:
        regular = snapshot.regular_steps
        text = f"{regular_steps_text(regular)}, {units.counted(regular.times, 'time')}"
        yield PART_NAMES[TimePart.BETWEEN_STEPS], text


def _judged(outcome: SessionOutcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    if snapshot.validity is not None and outcome.has_trained:
        valid = snapshot.validity.is_valid
        against = "; ".join(snapshot.validity.warnings.values())
        yield VALID if valid else IN_DOUBT, against or "nothing casts doubt on the figures"
    if snapshot.limit is not None:
        yield "what limited it" if snapshot.limit.is_over else "what limits it", snapshot.limit.text
        if snapshot.limit.advice:
            yield "try", snapshot.limit.advice
    workload = WORKLOADS.get(snapshot.header.workload)
    if workload is not None:
        defaults = default_conditions(workload)
        ours = conditions_of(figures_of_snapshot(snapshot), snapshot, defaults)
        yield "published", comparable_text(find_match(ours, defaults), typed=True)


def _gpu(outcome: SessionOutcome) -> Iterator[Row]:
    """Yield the activity of the GPUs that train in steady training."""
    gpus, readings = outcome.session.gpus, outcome.session.readings
    names = ("gpu_pct", *GPU_ACTIVITY)
    means = {name: mean for name in names if (mean := readings.mean(name)) is not None}
    if gpus and (text := activity_text(means)):
        yield gpu_name(gpus), text


def _of_result(outcome: SessionOutcome) -> Iterator[Row]:
    result = outcome.snapshot.result
    if result is not None:
        rows = (
            *rows_shown_in("summary", outcome.snapshot, result),
            ("cost", cost_text(result)),
            ("energy", energy_text(result)),
        )
        yield from ((name, text) for name, text in rows if text)
    has_tokens = outcome.snapshot.tokens_per_second is not None
    if effective := effective_or_reason(result or outcome.snapshot.effective, has_tokens):
        yield "effective", effective


def _in_slurm(outcome: SessionOutcome) -> Iterator[Row]:
    if outcome.session.header.slurm is None:
        return
    # Other runs don't need the modules of Slurm.
    from dlmon.figures.session.slurm_queue import slurm_rows

    result = outcome.snapshot.result
    yield from slurm_rows(outcome.session, None if result is None else result.wall_s)


_ROWS = (
    *(_what_ran, _compared, _throughput, _step, _learned, _memory, _held_up, _gpu, _judged),
    _of_result,
    _in_slurm,
)
"""The groups of rows in their order."""


def _machine_summary(session: Session, snapshot: Snapshot, status: Status) -> list[tuple[str, str]]:
    """Return the rows of a recording of a machine, with or without a result."""
    use = session.machine.use()
    why = "; ".join(dict.fromkeys(text for name, text in use.why.items() if "energy" in name))
    return [
        ("recorded", f"the machine {snapshot.header.host}"),
        ("status", status_text(status, session.result)),
        ("wall", units.clock(snapshot.elapsed_s)),
        ("mean CPU", units.percent(use.cpu_pct)),
        *(
            (
                f"mean {device_name(gpu)}",
                ", ".join(filter(None, (units.percent(pct), _activity(session, gpu)))),
            )
            for gpu, pct in use.gpu_pct.items()
        ),
        ("energy", energy_used(use) or f"– ({why})"),
    ]


def _activity(session: Session, gpu: str) -> str:
    """Return the activity of a GPU, named "gpu:N", in a recording; empty if unknown."""
    index = int(gpu.partition(":")[2])
    read = {n: s[index].mean for n, s in session.machine.gpu_activity.items() if index in s}
    return activity_text({name: mean for name, mean in read.items() if mean is not None})


def _slow_epochs(session: Session, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the slowest epochs in their order, with what differed in them."""
    word, begins = epoch_word(snapshot.header), session.slow_epochs(snapshot.epochs)
    slow = [epoch for epoch in snapshot.epochs if epoch.begin in begins]
    slowest = sorted(slow, key=seconds_of, reverse=True)[:_MOST_SLOW]
    rows = [
        (f"slow {word} {epoch.epoch + 1}", epoch_text_of(epoch, session, snapshot))
        for epoch in sorted(slowest, key=lambda epoch: epoch.begin)
    ]
    if len(slow) > _MOST_SLOW:
        rows.append((f"slow {units.plural(word)}", f"{len(slow) - _MOST_SLOW:,} more"))
    return rows


def _epoch_text(timing: SecondsPerEpoch, snapshot: Snapshot) -> str:
    basis = basis_of_epoch(timing, snapshot.compile_s, snapshot.compiles)
    if usual := units.usual_epoch(timing):
        basis = f"{usual}; {basis}"
    elif units.with_band(timing).is_uncertain:
        basis = f"{units.UNCERTAIN}; {basis}"
    return f"{units.band(timing)} ({basis}{_left_out(timing, snapshot)})"


def _left_out(timing: RunSeconds | SecondsPerEpoch, snapshot: Snapshot) -> str:
    missing = missing_part(timing, snapshot.why)
    return f", without {missing}" if missing else ""


def outcome_rows(outcome: SessionOutcome, entries: Sequence[SessionEntry], most: int) -> list[Row]:
    """Return at most `most` rows of a session that is over: its figures, what limited it, advice.

    Figures without a value are left out; without room, all figures but the first go first.
    """
    snapshot, result = outcome.snapshot, outcome.snapshot.result
    if snapshot.header.is_machine_recording:
        _, *rows = summary_rows(outcome)
        return rows if len(rows) <= most else [*rows[: most - 1], rows[-1]]
    figures = (*_compared(outcome), *_throughput(outcome))
    rows = [(name, text) for name, text in figures if not text.startswith("–")]
    count = len(rows)
    if rows and snapshot.validity is not None and not snapshot.validity.is_valid:
        rows.append((IN_DOUBT, "; ".join(snapshot.validity.warnings.values())))
    comparison = comparison_among(snapshot, entries)
    if compared := comparison.against_before() or comparison.against_nearest():
        rows.append((COMPARED, compared))
    if stopped := result and stopped_unasked_text(result):
        rows.append(("status", stopped))
    headline = headline_of(snapshot, False, outcome.status)
    if headline is not None and headline.rule != "interrupted":
        name = WENT_WRONG if headline.tone is Tone.BAD else "what limited it"
        rows.append((name, headline.text))
        rows += [(TRY, headline.advice)] * bool(headline.advice)
    least_needed = [*rows[1:count][::-1], *(row for row in rows if row[0] in (IN_DOUBT, COMPARED))]
    dropped = least_needed[: max(0, len(rows) - most)]
    return [row for row in rows if row not in dropped][:most]


def describe_outcome(outcome: SessionOutcome, entries: Sequence[SessionEntry]) -> Iterator[Section]:
    """Yield the figures, loops, time breakdown and gaps of a session, and its comparison."""
    snapshot = outcome.snapshot
    yield Figures("", tuple(summary_rows(outcome)))
    if snapshot.header.is_machine_recording:
        return
    for section in (
        loop_table(snapshot, _MOST_LOOPS),
        breakdown_section(snapshot),
        step_section(snapshot),
        _gaps(snapshot),
    ):
        if section is not None:
            yield section
    comparison = comparison_among(snapshot, entries)
    # A script has no published figures: before its second run there is nothing to compare.
    if len(comparison.rows) > (1 if snapshot.header.is_script else 0):
        yield comparison_bars(comparison)


def breakdown_section(snapshot: Snapshot) -> Bars | None:
    """Return the time breakdown; None if unknown."""
    rows = breakdown_rows(snapshot.time_breakdown, names_of(snapshot))
    bars = tuple(Bar(row.name, row.seconds, row.in_figures) for row in rows)
    return Bars("Where the time went", bars, are_parts=True) if bars else None


def step_section(snapshot: Snapshot) -> Bars | Note | None:
    """Return the parts of a step, or why they are unknown; None without a reason."""
    parts, split = snapshot.step_parts, step_split(snapshot, snapshot.step_parts)
    if parts is None or split is None:
        why = snapshot.why_no_parts
        return Note((f"What a step is made of is not known: {why}.",)) if why else None
    bars = tuple(
        Bar(_STEP_NAMES[name], ms, f"{units.step_time(ms)}, {units.share(share)}")
        for name, ms, share in split.rows
    )
    step = units.step_time(split.step_ms)
    of = "of" if split.title == "A step" else "takes"
    heading = f"{split.title} {of} {step} (the mean of {parts.steps:,} that were measured)"
    return Bars(heading, bars, are_parts=True)


def _gaps(snapshot: Snapshot) -> Note | None:
    longest = longest_gaps(snapshot.gaps, _MOST_GAPS)
    texts = [gap_of_session(gap, snapshot) for gap in longest]
    more = len(snapshot.gaps) - len(longest)
    if more:
        texts.append(f"and {units.counted(more, 'more time')} of over a second without a batch")
    return Note(tuple(texts), "list") if texts else None
