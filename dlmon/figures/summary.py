"""What came of a session, a row a figure: its name and what there is to say of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dlmon.comparison.compare import missing_part
from dlmon.figures import units
from dlmon.figures.account import (
    PART_NAMES,
    account_rows,
    gap_of_session,
    longest_gaps,
    names_of,
    regular_steps_text,
)
from dlmon.figures.comparison import (
    basis_of_epoch,
    comparable_text,
    device_text,
    earlier_sessions,
    epoch_word,
    match_of,
    metric_of,
    timing_of,
    trainers_text,
    unusual_settings,
    why_no_time,
)
from dlmon.figures.epochs import epoch_text_of
from dlmon.figures.learning import evaluation_text, metrics_line
from dlmon.figures.results import cost_or_reason, effective_or_reason, energy_text
from dlmon.figures.run_comparison import comparison_of, describe_comparison
from dlmon.figures.sections import Bar, Bars, Figures, Note, Row, Section
from dlmon.figures.sessions import device_name, energy_used, status_text
from dlmon.figures.tables import loop_table, measured_loop
from dlmon.figures.validity import validity_text
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import AccountPart, Model, Result, RunSeconds, SecondsPerEpoch, Status
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.metric_figures import metric_figures
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from workloads.catalog import WORKLOADS

Cell = str | int | float | bool | None
"""A value in a table."""

COMMAND, METRICS = "command", "metrics"
VALID, IN_DOUBT = "valid", "in doubt"
_SHOWN_GAPS, _SHOWN_LOOPS, _SHOWN_SLOW = 3, 20, 3
# What a first batch takes beyond a usual one is worth a word from here on.
_A_DELAY_S = 0.01


@dataclass(frozen=True)
class Outcome:
    """A session as it stands, and what a person calls it."""

    session: Session
    snapshot: Snapshot
    status: Status
    label: Label

    @property
    def has_trained(self) -> bool:
        """Whether figures can be missing: of a script that never trained, nothing was too short."""
        return not self.snapshot.header.is_script or self.snapshot.batches > 0


def _nothing(outcome: Outcome) -> Iterable[Row]:
    return ()


def _no_number(outcome: Outcome) -> Sequence[Cell]:
    return ()


@dataclass(frozen=True)
class Figure:
    """One figure of a session: a row wherever it is described, and columns of tables and JSON.

    Attributes:
        rows: yields names and texts; nothing where there is nothing to say.
        columns: what its numbers are called, with their units.
        numbers: returns these; None is unknown.
    """

    rows: Callable[[Outcome], Iterable[Row]] = _nothing
    columns: tuple[str, ...] = ()
    numbers: Callable[[Outcome], Sequence[Cell]] = _no_number


def summary_rows(outcome: Outcome) -> list[Row]:
    """Return the names and texts of what came of a session, and what it is called."""
    if outcome.snapshot.header.is_machine_recording:
        return _machine_summary(outcome.session, outcome.snapshot, outcome.status)
    return [row for figure in FIGURES for row in figure.rows(outcome)]


def summary_columns() -> tuple[str, ...]:
    """Return what the numbers of `summary_numbers` are called."""
    return tuple(column for figure in FIGURES for column in figure.columns)


def summary_numbers(outcome: Outcome) -> tuple[Cell, ...]:
    """Return the numbers of a session, in the order of `summary_columns`; None is unknown."""
    return tuple(cell for figure in FIGURES for cell in figure.numbers(outcome))


def _called(outcome: Outcome) -> Iterator[Row]:
    if outcome.label.name is not None:
        yield "name", outcome.label.name
    if outcome.label.note is not None:
        yield "note", outcome.label.note


def _what_ran(outcome: Outcome) -> Iterator[Row]:
    header, model = outcome.snapshot.header, outcome.snapshot.model
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
    yield "status", status_text(outcome.status, outcome.session.result)
    if model is not None and model.length_from is not None:
        yield "length", _length(model)
    loop = measured_loop(outcome.snapshot)
    if loop:
        yield "figures of", loop


def _whole_run(outcome: Outcome) -> Iterator[Row]:
    run = outcome.snapshot.run_seconds
    if run is not None and timing_of(outcome.snapshot) is run:
        yield "whole run", _run_text(run, outcome.snapshot)


def _epoch(outcome: Outcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    if snapshot.seconds_per_epoch is not None:
        yield "seconds per epoch", _epoch_text(snapshot.seconds_per_epoch, snapshot)
    elif metric_of(snapshot) != "step_ms":
        yield "seconds per epoch", f"– ({why_no_time(snapshot, outcome.status)})"


def _epoch_numbers(outcome: Outcome) -> Sequence[Cell]:
    epoch = outcome.snapshot.seconds_per_epoch
    return (None,) * 4 if epoch is None else (epoch.value, epoch.low, epoch.high, epoch.projected)


def _throughput(outcome: Outcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    measured = snapshot.samples_per_second
    if measured is None:
        result = snapshot.result
        why = snapshot.why | (result.why if result is not None else {})
        if outcome.has_trained:
            yield "throughput", f"– ({why.get('samples_per_second', '')})"
        return
    found = units.with_band(measured, units.rate_unit(snapshot.counts_steps))
    said = (units.VERY_UNCERTAIN * found.is_very_uncertain, trainers_text(snapshot))
    notes = "; ".join(note for note in said if note)
    yield "throughput", f"{found.text()} ({notes})" if notes else found.text()


def _throughput_numbers(outcome: Outcome) -> Sequence[Cell]:
    rate = outcome.snapshot.samples_per_second
    # Where steps are counted, how many samples went by isn't known.
    steps = outcome.snapshot.counts_steps
    return (None, None) if rate is None or steps else (rate.mean, rate.band)


def _step(outcome: Outcome) -> Iterator[Row]:
    step = outcome.snapshot.step_ms
    if step is not None:
        mean = "" if step.mean is None else f"mean {units.step_time(step.mean)}, "
        within = "" if step.p95 is None else f", 95 % within {units.step_time(step.p95)}"
        yield "step", f"{mean}median {units.step_time(step.median)}{within}"


def _step_numbers(outcome: Outcome) -> Sequence[Cell]:
    step = outcome.snapshot.step_ms
    return (None, None) if step is None else (step.median, step.p95)


def _compile(outcome: Outcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    if snapshot.compile_s is not None and snapshot.compiles:
        yield "compile", units.seconds(snapshot.compile_s)
    elif first := _first_batch(snapshot.first_batch_s, snapshot.validation_compile_s):
        yield "first batch", first


def _counts(outcome: Outcome) -> Sequence[Cell]:
    snapshot = outcome.snapshot
    if snapshot.header.is_machine_recording:
        return None, None
    return len(snapshot.epochs), snapshot.batches


def _learned(outcome: Outcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    metrics = metric_figures(snapshot.epochs, outcome.session.learning)
    if metrics:
        yield METRICS, metrics_line(metrics, epoch_word(snapshot.header))
    if snapshot.evaluation is not None:
        yield "evaluation", evaluation_text(snapshot.evaluation)


def _held_up(outcome: Outcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    yield from _slow_epochs(outcome.session, snapshot)
    if snapshot.stalls:
        yield "stalls", _stalls(snapshot)
    if snapshot.regular_steps is not None:
        regular = snapshot.regular_steps
        text = f"{regular_steps_text(regular)}, {units.counted(regular.times, 'time')}"
        yield PART_NAMES[AccountPart.BETWEEN_STEPS], text


def _judged(outcome: Outcome) -> Iterator[Row]:
    snapshot = outcome.snapshot
    if snapshot.validity is not None and outcome.has_trained:
        valid = snapshot.validity.is_valid
        yield VALID if valid else IN_DOUBT, validity_text(snapshot.validity)
    if snapshot.limit is not None:
        yield "what limited it" if snapshot.limit.ended else "what limits it", snapshot.limit.text
        if snapshot.limit.advice:
            yield "try", snapshot.limit.advice
    if snapshot.header.workload in WORKLOADS:
        yield "published", comparable_text(match_of(snapshot), typed=True)


def _of_result(write: Callable[[Result], str], name: str) -> Callable[[Outcome], Iterator[Row]]:
    """Return what yields the row of a figure that only a run that is over has."""

    def rows(outcome: Outcome) -> Iterator[Row]:
        text = "" if outcome.snapshot.result is None else write(outcome.snapshot.result)
        if text:
            yield name, text

    return rows


def _energy_numbers(outcome: Outcome) -> Sequence[Cell]:
    result = outcome.snapshot.result
    energy = (result is not None and result.energy_j_per_epoch) or {}
    return energy.get("cpu"), energy.get("gpu")


def _number(name: str) -> Callable[[Outcome], Sequence[Cell]]:
    return lambda outcome: (getattr(outcome.snapshot, name),)


def _result_number(name: str) -> Callable[[Outcome], Sequence[Cell]]:
    return lambda outcome: (getattr(outcome.snapshot.result, name, None),)


def _run_number(outcome: Outcome) -> Sequence[Cell]:
    run = outcome.snapshot.run_seconds
    return (None if run is None else run.value,)


def _wall(result: Result) -> str:
    return units.seconds(result.wall_s)


FIGURES = (
    Figure(_called),
    Figure(_what_ran),
    Figure(_whole_run, ("run_seconds",), _run_number),
    Figure(
        _epoch,
        ("seconds_per_epoch", "seconds_per_epoch_low", "seconds_per_epoch_high", "projected"),
        _epoch_numbers,
    ),
    Figure(_throughput, ("samples_per_second", "samples_per_second_band"), _throughput_numbers),
    Figure(_step, ("step_ms_median", "step_ms_p95"), _step_numbers),
    Figure(_compile, ("compile_s",), _number("compile_s")),
    Figure(columns=("epochs", "batches"), numbers=_counts),
    Figure(_learned),
    Figure(_held_up, ("stalls",), _number("stalls")),
    Figure(_judged),
    Figure(
        _of_result(lambda result: units.seconds(result.wall_s), "wall"),
        ("wall_s",),
        _result_number("wall_s"),
    ),
    Figure(_of_result(cost_or_reason, "cost"), ("cost_usd",), _result_number("cost_usd")),
    Figure(
        _of_result(energy_text, "energy"),
        ("energy_j_per_epoch_cpu", "energy_j_per_epoch_gpu"),
        _energy_numbers,
    ),
    Figure(
        _of_result(effective_or_reason, "effective"),
        ("effective_flop_s",),
        _result_number("effective_flop_s"),
    ),
)
"""What is said of a run, in this order."""


def _machine_summary(session: Session, snapshot: Snapshot, status: Status) -> list[tuple[str, str]]:
    """Return what is known of a machine that was recorded, with or without a result."""
    use = session.machine.use()
    why = "; ".join(dict.fromkeys(text for name, text in use.why.items() if "energy" in name))
    return [
        ("recorded", f"the machine {snapshot.header.host}"),
        ("status", status_text(status, session.result)),
        ("wall", units.clock(snapshot.elapsed_s)),
        ("mean CPU", units.percent(use.cpu_pct)),
        *((f"mean {device_name(gpu)}", units.percent(pct)) for gpu, pct in use.gpu_pct.items()),
        ("energy", energy_used(use) or f"– ({why})"),
    ]


def _length(model: Model) -> str:
    """Say how long the training was to be, and what says so."""
    number, noun = (model.steps or 0, "step") if model.epochs is None else (model.epochs, "epoch")
    return f"{units.counted(number, noun)}, as {model.length_from} says"


def _first_batch(more_s: float | None, in_validation_s: float) -> str:
    """Say what it took beyond a usual one, and that of the first validation; else nothing."""
    parts = []
    if more_s is not None and more_s >= _A_DELAY_S:
        parts.append(f"{units.seconds(more_s)} more than a usual one")
    if more_s is not None and in_validation_s >= _A_DELAY_S:
        parts.append(f"{units.seconds(in_validation_s)} in validation")
    return ", and ".join(parts)


def _slow_epochs(session: Session, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return each epoch that was slow, and what differed in it: the slowest ones."""
    each, slow = epoch_word(snapshot.header), session.slow_epochs(snapshot.epochs)
    slowest = [one for one in snapshot.epochs if one.begin in slow]
    slowest.sort(key=seconds_of, reverse=True)
    rows = [
        (f"slow {each} {one.epoch + 1}", epoch_text_of(one, session, snapshot))
        for one in sorted(slowest[:_SHOWN_SLOW], key=lambda one: one.begin)
    ]
    left = len(slowest) - _SHOWN_SLOW
    if left > 0:
        rows.append((f"slow {units.plural(each)}", f"{left:,} more"))
    return rows


def _stalls(snapshot: Snapshot) -> str:
    count, openings = snapshot.stalls or 0, snapshot.opening_stalls or 0
    parts = []
    if count > openings:
        parts.append(units.counted(count - openings, "batch"))
    if openings:
        parts.append(f"the start of {units.counted(openings, epoch_word(snapshot.header))}")
    return f"{' and '.join(parts)} took over ten times the median batch"


def _epoch_text(timing: SecondsPerEpoch, snapshot: Snapshot) -> str:
    basis = basis_of_epoch(timing, snapshot.compile_s, snapshot.compiles)
    if units.usual(timing):
        basis = f"{units.usual(timing)}; {basis}"
    elif units.with_band(timing).is_very_uncertain:
        basis = f"{units.VERY_UNCERTAIN}; {basis}"
    return f"{units.band(timing)} ({basis}{_left_out(timing, snapshot)})"


def _run_text(timing: RunSeconds, snapshot: Snapshot) -> str:
    band = units.band(timing)
    if timing.projected:
        return f"{band} (projected{_left_out(timing, snapshot)})"
    return f"{band} (without the start)"


def _left_out(timing: RunSeconds | SecondsPerEpoch, snapshot: Snapshot) -> str:
    missing = missing_part(timing, snapshot.why)
    return f", without {missing}" if missing else ""


def describe_outcome(outcome: Outcome, entries: Sequence[SessionEntry]) -> Iterator[Section]:
    """Yield what came of a session: its figures, its loops, its time, and what it compares with.

    Args:
        outcome: the session.
        entries: all sessions of its folder.
    """
    snapshot = outcome.snapshot
    yield Figures("", tuple(summary_rows(outcome)))
    if snapshot.header.is_machine_recording:
        return
    for section in (
        loop_table(snapshot, _SHOWN_LOOPS),
        account_section(snapshot),
        _gaps(snapshot),
    ):
        if section is not None:
            yield section
    earlier = earlier_sessions(entries, snapshot.header, metric=metric_of(snapshot))
    comparison = comparison_of(snapshot, earlier)
    # Nothing is published of a script: before its second run there is nothing to compare.
    if not (snapshot.header.is_script and len(comparison.rows) == 1):
        yield from describe_comparison(comparison)


def account_section(snapshot: Snapshot) -> Bars | None:
    """Return where the time went; None where that isn't known."""
    parts = account_rows(snapshot.account, names_of(snapshot))
    bars = tuple(Bar(part.name, part.seconds, part.in_figures) for part in parts)
    return Bars("Where the time went", bars, are_parts=True) if bars else None


def _gaps(snapshot: Snapshot) -> Note | None:
    longest = longest_gaps(snapshot.gaps, _SHOWN_GAPS)
    said = [gap_of_session(gap, snapshot) for gap in longest]
    left = len(snapshot.gaps) - len(longest)
    if left:
        said.append(f"and {units.counted(left, 'more time')} of over a second without a batch")
    return Note(tuple(said), "list") if said else None
