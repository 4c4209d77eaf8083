"""What came of a session, a row a figure: its name and what there is to say of it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from dlmon.comparison.compare import ComparisonRow, missing_part
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
    busy_said_once,
    comparable_text,
    comparison_rows,
    device_text,
    earlier_sessions,
    epoch_word,
    match_of,
    metric_of,
    run_names,
    timed_unit,
    timing_of,
    trainers_text,
    unusual_settings,
    why_no_time,
)
from dlmon.figures.comparison_row import peak_share
from dlmon.figures.epoch_tables import loop_table
from dlmon.figures.epochs import epoch_text_of
from dlmon.figures.loops import measured_loop
from dlmon.figures.metrics import evaluation_text, metrics_line
from dlmon.figures.results import result_figures
from dlmon.figures.sections import Bar, Bars, Figures, Note, Section, Table
from dlmon.figures.sessions import device_name, energy_used, status_text
from dlmon.figures.validity import validity_text
from dlmon.log.directory import SessionEntry
from dlmon.log.label import Label
from dlmon.records import AccountPart, Model, RunSeconds, SecondsPerEpoch, Status
from dlmon.session.epoch_comparison import seconds_of
from dlmon.session.metric_figures import metric_figures
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from workloads.catalog import WORKLOADS

_MARKS = {"this": "▶", "earlier": "·"}
COMMAND, METRICS = "command", "metrics"
VALID, IN_DOUBT = "valid", "in doubt"
_SHOWN_GAPS, _SHOWN_LOOPS, _SHOWN_SLOW = 3, 20, 3
# What a first batch takes beyond a usual one is worth a word from here on.
_A_DELAY_S = 0.01


def describe_outcome(
    session: Session,
    snapshot: Snapshot,
    status: Status,
    label: Label,
    entries: Sequence[SessionEntry],
    with_ids: bool,
) -> Iterator[Section]:
    """Yield what came of a session: its figures, its loops, its time, and what it compares with.

    Args:
        session: what was recorded.
        snapshot: of it.
        status: how it stands.
        label: what a person calls it.
        entries: all sessions of its folder.
        with_ids: name earlier runs by their ids too.
    """
    yield Figures("", tuple(summary_rows(session, snapshot, status, label)))
    if snapshot.header.is_machine_recording:
        return
    for section in (
        loop_table(snapshot, _SHOWN_LOOPS),
        account_section(snapshot),
        _gaps(snapshot),
    ):
        if section is not None:
            yield section
    if timing_of(snapshot) is not None:
        earlier = earlier_sessions(entries, snapshot.header, metric=metric_of(snapshot))
        rows = comparison_rows(snapshot, earlier)
        # Nothing is published of a script: before its second run there is nothing to compare.
        if rows and not (snapshot.header.is_script and len(rows) == 1):
            yield from comparison_sections(rows, run_names(snapshot, earlier), with_ids)


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


def comparison_sections(
    rows: Sequence[ComparisonRow], names: Mapping[str, str], with_ids: bool
) -> Iterator[Section]:
    """Yield a table of this run among published and earlier ones, this one marked."""
    rows, of_all = busy_said_once(rows)
    unit = timed_unit(rows[0].metric) or "throughput"
    # Years tell published figures apart; among one's own runs the names do.
    has_years = any(row.kind == "published" for row in rows)
    priced = any(row.kind == "this" and row.cost_usd is not None for row in rows)
    headings = ("", "device", unit, "USD", "year", "of peak", "framework", "")
    cells = []
    for row in rows:
        is_own = row.published is not None and row.published.own
        share = peak_share(row.published)[0] if row.published else None
        own = [row.session] if with_ids and row.kind == "earlier" and row.session else []
        cells.append(
            (
                "+" if is_own else _MARKS.get(row.kind, ""),
                names.get(row.session or "", row.label),
                ("~ " if row.projected else "") + units.duration(row),
                units.dollars(row.cost_usd).removesuffix(" USD")
                if priced and row.cost_usd is not None
                else "",
                str(row.year) if has_years and row.year else "",
                "" if share is None else units.share(share),
                row.framework or "",
                "; ".join([*own, *row.badges]),
            )
        )
    shown = [index for index in range(len(headings)) if any(row[index] for row in cells)]
    yield Table(
        tuple(headings[index] for index in shown),
        tuple(tuple(row[index] for index in shown) for row in cells),
        tuple(headings[index] in (unit, "USD", "of peak") for index in shown),
    )
    if of_all:
        yield Note((of_all,))


def summary_rows(
    session: Session, snapshot: Snapshot, status: Status, label: Label
) -> list[tuple[str, str]]:
    """Return the names and texts of what came of a session, and what it is called."""
    if snapshot.header.is_machine_recording:
        return _machine_summary(session, snapshot, status)
    model, result = snapshot.model, snapshot.result
    why = snapshot.why | (result.why if result is not None else {})
    named = (("name", label.name), ("note", label.note))
    rows = [(row, text) for row, text in named if text is not None]
    if snapshot.header.command is not None:
        rows.append((COMMAND, shlex.join(snapshot.header.command)))
    else:
        rows.append(("workload", snapshot.header.workload))
    if model is not None:
        rows.append(("device", device_text(snapshot) or "–"))
        if not snapshot.header.is_script:
            rows.append(("data", model.data or "–"))
    unusual = unusual_settings(snapshot.header.options)
    if unusual:
        rows.append(("settings", ", ".join(unusual)))
    rows.append(("status", status_text(status, session.result)))
    if model is not None and model.length_from is not None:
        rows.append(("length", _length(model)))
    if measured_loop(snapshot):
        rows.append(("figures of", measured_loop(snapshot)))
    timing = timing_of(snapshot)
    if snapshot.run_seconds is not None and timing is snapshot.run_seconds:
        rows.append(("whole run", _run_text(snapshot.run_seconds, snapshot)))
    if snapshot.seconds_per_epoch is not None:
        rows.append(("seconds per epoch", _epoch_text(snapshot.seconds_per_epoch, snapshot)))
    elif metric_of(snapshot) != "step_ms":
        rows.append(("seconds per epoch", f"– ({why_no_time(snapshot, status)})"))
    # Of a script that never trained, nothing was too short.
    has_trained = not snapshot.header.is_script or snapshot.batches > 0
    if snapshot.samples_per_second is not None:
        rows.append(("throughput", _throughput(snapshot)))
    elif has_trained:
        rows.append(("throughput", f"– ({why.get('samples_per_second', '')})"))
    if snapshot.step_ms is not None:
        step = snapshot.step_ms
        mean = "" if step.mean is None else f"mean {units.step_time(step.mean)}, "
        within = "" if step.p95 is None else f", 95 % within {units.step_time(step.p95)}"
        rows.append(("step", f"{mean}median {units.step_time(step.median)}{within}"))
    if snapshot.compile_s is not None and snapshot.compiles:
        rows.append(("compile", units.seconds(snapshot.compile_s)))
    elif first := _first_batch(snapshot.first_batch_s, snapshot.validation_compile_s):
        rows.append(("first batch", first))
    metrics = metric_figures(snapshot.epochs, session.learning)
    if metrics:
        rows.append((METRICS, metrics_line(metrics, epoch_word(snapshot.header))))
    if snapshot.evaluation is not None:
        rows.append(("evaluation", evaluation_text(snapshot.evaluation)))
    rows.extend(_slow_epochs(session, snapshot))
    if snapshot.stalls:
        rows.append(("stalls", _stalls(snapshot)))
    if snapshot.regular_steps is not None:
        regular = snapshot.regular_steps
        text = f"{regular_steps_text(regular)}, {units.counted(regular.times, 'time')}"
        rows.append((PART_NAMES[AccountPart.BETWEEN_STEPS], text))
    validity = snapshot.validity
    if validity is not None and has_trained:
        rows.append((VALID if validity.is_valid else IN_DOUBT, validity_text(validity)))
    if snapshot.limit is not None:
        heading = "what limited it" if snapshot.limit.ended else "what limits it"
        rows.append((heading, snapshot.limit.text))
        if snapshot.limit.advice:
            rows.append(("try", snapshot.limit.advice))
    if snapshot.header.workload in WORKLOADS:
        rows.append(("published", comparable_text(match_of(snapshot), as_typed=True)))
    if result is not None:
        rows.append(("wall", units.seconds(result.wall_s)))
        rows.extend(result_figures(result))
    return rows


def _throughput(snapshot: Snapshot) -> str:
    assert snapshot.samples_per_second is not None
    unit = units.rate_unit(snapshot.counts_steps)
    text = units.throughput(snapshot.samples_per_second, unit=unit)
    uncertain = units.is_rate_very_uncertain(snapshot.samples_per_second)
    said = (units.VERY_UNCERTAIN if uncertain else "", trainers_text(snapshot))
    notes = "; ".join(note for note in said if note)
    return f"{text} ({notes})" if notes else text


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
    elif units.is_very_uncertain(timing):
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
