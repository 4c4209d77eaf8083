"""Make the report of one session: redacted sections without a format."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon.figures import units
from dlmon.figures.columns import Column, number_column, table_of
from dlmon.figures.comparison.run_rows import Comparison, comparison_among, comparison_bars
from dlmon.figures.lists.session_list import status_text
from dlmon.figures.machine.readings import identity
from dlmon.figures.redact import Redaction
from dlmon.figures.report.curves import MetricCurves, TimeMark, epoch_marks
from dlmon.figures.report.summary import (
    COMMAND,
    IN_DOUBT,
    METRICS,
    VALID,
    SessionOutcome,
    breakdown_section,
    step_section,
    summary_numbers,
    summary_rows,
)
from dlmon.figures.sections import (
    Code,
    Figures,
    Heading,
    Note,
    OverTime,
    Row,
    Section,
    Table,
    as_sentence,
    with_texts,
)
from dlmon.figures.session.compared_figure import metric_of, timed_unit, timing_of
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.failure import TRACEBACK, failure_rows
from dlmon.figures.session.framework_memory import (
    memory_numbers,
    out_of_memory_advice,
    out_of_memory_error,
)
from dlmon.figures.session.gap_texts import gap_of_session, longest_gaps
from dlmon.figures.session.headline import headline_of
from dlmon.figures.session.ranks import rank_table
from dlmon.figures.session.stall import longest_stall
from dlmon.figures.session.tables import (
    MOST_LOOPS,
    describe_profile,
    epoch_table,
    evaluation_json,
    loop_table,
    metric_table,
)
from dlmon.figures.session.time_breakdown import step_rows
from dlmon.figures.session.tracebacks import trace_lines
from dlmon.log.directory import list_sessions, read_entry
from dlmon.log.folder import LogError, log_directory_of, reason_of
from dlmon.log.label import read_label
from dlmon.log.log_follower import LogFollower
from dlmon.options.jobs import recorded_options
from dlmon.options.option import as_text
from dlmon.quantities import throughputs_of
from dlmon.records import (
    FRAMEWORKS,
    Epoch,
    Model,
    Process,
    Profile,
    Record,
    SessionHeader,
    Status,
    Trainer,
    to_json,
)
from dlmon.records.record import record
from dlmon.session.learning import Learning, figures_json, metric_figures
from dlmon.session.run_figures import OnRead, ignore
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from workloads.catalog import WORKLOADS

SHOWN_OUTPUT, SHOWN_GAPS = 40, 10
_READ_AT_ONCE_BYTES = 1 << 20
NO_WORKLOAD = "the machine alone"
# These have a sentence each above the figures.
_JUDGED = (VALID, IN_DOUBT)
# The framework of a script that reports its batches itself.
_OWN = "dlmon"
_CODE = {"script_sha256": "SHA-256 of the script", "git_commit": "git commit"}
_SHOWN_DIGITS = 12
_OF_ROW = (
    *("kind", "metric", "value", "low", "high", "projected", "comparable", "badges", "year"),
    "session",
)


@record(frozen=True)
class SessionReport:
    """The report of one session.

    Attributes:
        title: its name, or its id.
        sections: the heading, the verdict, the comparison, and all else.
        figures: the summary, with warnings.
        session: the session that was read; its hardware is drawn over time.
        metric_curves: its metrics over time.
        marks: moments on the time axis.
        as_json: the report as JSON.
    """

    id: str
    title: str
    sections: tuple[Section, ...]
    figures: tuple[Row, ...]
    session: Session
    metric_curves: MetricCurves
    marks: tuple[TimeMark, ...]
    as_json: Mapping[str, Any]

    def under(self, heading: str) -> Any:
        """Return the section with a heading; None if there is none."""
        return next((s for s in self.sections if getattr(s, "heading", "") == heading), None)


def session_report(
    path: Path, full: bool = False, on_read: OnRead = ignore, redaction: Redaction | None = None
) -> SessionReport:
    """Read a log and return its report; a `full` one keeps users, host, paths and output.

    A `redaction` of the caller sees all records, and changes all texts.

    Raises:
        LogError: the log can't be read.
    """
    status = read_entry(path).status
    redaction = redaction or Redaction(full)
    with contextlib.closing(LogFollower(path)) as follower:
        redaction.learn_names(follower.header.host, follower.header.options)
        session = Session(follower.header)
        metric_curves = MetricCurves(follower.header, session.running_time)
        redacted = map(redaction.record, records_of(follower, on_read))
        session.add_all(metric_curves.adding(redacted))
    snapshot = session.snapshot(is_over=status == Status.INTERRUPTED)
    if snapshot.header.is_machine_recording:
        # Nothing ran, so there is no time to break down and no figure to judge.
        snapshot = replace(snapshot, time_breakdown={}, validity=None)
    it = SessionOutcome(session, snapshot, status, read_label(path))
    header, text = snapshot.header, redaction.text
    comparison = comparison_among(snapshot, list_sessions(log_directory_of(path)))
    longest = sorted(longest_gaps(snapshot.gaps, SHOWN_GAPS), key=lambda gap: gap.start)
    gaps = [TimeMark(_at_s(gap.start, it), text(gap_of_session(gap, snapshot))) for gap in longest]
    left_out = (METRICS,) if full else (METRICS, COMMAND)
    figures = with_texts(tuple(row for row in summary_rows(it) if row[0] not in left_out), text)
    heading, command = _heading(it), _command(snapshot)
    output = tuple(line.text for line in snapshot.output[-SHOWN_OUTPUT:])
    trainers = session.trainers.known.values()
    environment = environment_rows(header, snapshot.model, trainers)
    environment += [("host", header.host), ("log", str(path))] if full else []
    options = redaction.options(header.options)
    sections = (
        heading,
        *_verdict(snapshot, comparison),
        *(_code(snapshot, session.learning) if full else ()),
        comparison_bars(comparison) if comparison.rows else None,
        OverTime(),
        breakdown_section(snapshot),
        step_section(snapshot),
        _under(
            "The longest times without a batch",
            [(units.clock(mark.at_s), mark.text) for mark in gaps],
        ),
        Figures("Figures", tuple(row for row in figures if row[0] not in _JUDGED)),
        metric_table(
            metric_figures(snapshot.epochs, session.learning, session.loops.of), epoch_word(header)
        ),
        loop_table(snapshot),
        rank_table(session, snapshot),
        epoch_table(snapshot.epochs, snapshot.model),
        *(
            section
            for number, profile in enumerate(session.profiles)
            for section in describe_profile(profile, "" if number else "Profiles")
        ),
        _under("Notices", [(units.clock(_at_s(n.t, it)), n.text) for n in snapshot.notices]),
        _under("Environment", environment),
        _under(
            "Options",
            [
                (name.replace("_", " "), as_word(value))
                for name, value in options.items()
                if value not in (None, "", False) and name != "backend"
            ],
        ),
        Code("To run it again", (command,)) if command is not None else None,
        _processes(snapshot) if full else None,
        Code("Output", output) if full and output else None,
    )
    return SessionReport(
        id=text(header.id),
        title=text(heading.text),
        sections=with_texts(tuple(section for section in sections if section is not None), text),
        figures=figures,
        session=session,
        metric_curves=metric_curves.renamed(text),
        marks=(*epoch_marks(session), *gaps),
        as_json=redaction.value({**_json(it, comparison, full), "options": options}),
    )


def records_of(follower: LogFollower, on_read: OnRead = ignore) -> Iterator[Record]:
    """Yield the records of a log, up to its present end.

    Raises:
        LogError: the log can't be read any more.
    """
    try:
        while (share := follower.read_share) is not None:
            on_read(share)
            yield from follower.new_records(_READ_AT_ONCE_BYTES)
    except OSError as error:
        raise LogError(f"{follower.path} can't be read: {reason_of(error)}") from None


def _at_s(t: int, it: SessionOutcome) -> float:
    return (t - it.session.header.t) / 1e9


def _heading(it: SessionOutcome) -> Heading:
    header = it.snapshot.header
    workload = WORKLOADS.get(header.workload)
    ran = (header.workload or NO_WORKLOAD) + (f" – {workload.title}" if workload else "")
    status = status_text(it.status, it.snapshot.result)
    facts = f"{ran} · {units.day_and_time(header.wall)} · {status}"
    return Heading(it.label.name or header.id, (facts, ", ".join(identity(it.session.facts))))


def _verdict(snapshot: Snapshot, comparison: Comparison) -> Iterator[Section]:
    """Yield the verdict, and the warnings about the figures."""
    limit = snapshot.limit
    limited, advice = (limit.text, limit.advice) if limit else ("", "")
    if out_of_memory_error(snapshot) is not None:
        limited, advice = "", out_of_memory_advice(snapshot)
    sentences = (
        _first_sentence(snapshot),
        comparison.against_nearest(),
        comparison.against_before(),
        limited,
        f"Try: {advice}" if advice else "",
    )
    yield Note(tuple(as_sentence(sentence) for sentence in sentences if sentence), "verdict")
    if snapshot.validity is not None and snapshot.validity.is_valid:
        yield Note(("Nothing casts doubt on these figures.",), "good")
    elif snapshot.validity is not None:
        yield Note(("Take these figures with care.",), "warning")
        yield Note(tuple(map(as_sentence, snapshot.validity.warnings.values())), "list")


def _code(snapshot: Snapshot, learning: Learning) -> Iterator[Section]:
    """Yield the traceback of a run that failed, and the source where it stood longest."""
    heading, rows = failure_rows(snapshot, learning)
    if heading == TRACEBACK:
        yield Code(heading, trace_lines(rows))
    if (stall := longest_stall(snapshot)) is not None:
        yield Code(f"The longest wait: {stall.place}", stall.source_lines)


def _first_sentence(snapshot: Snapshot) -> str:
    """Return why a run failed, else its figure."""
    result, timing = snapshot.result, timing_of(snapshot)
    if result is not None and result.error and (headline := headline_of(snapshot, False)):
        return headline.text
    if timing is not None and snapshot.header.workload in WORKLOADS:
        return f"{units.band(timing)} {timed_unit(metric_of(snapshot))}"
    throughputs = throughputs_of(snapshot)
    return units.throughput(throughputs[-1]) if throughputs else ""


def _command(snapshot: Snapshot) -> str | None:
    header = snapshot.header
    options, workload = recorded_options(header), WORKLOADS.get(header.workload)
    if options is None or workload is None:
        return None
    if options.batch_size == workload.batch_size:
        options = replace(options, batch_size=None)
    if options.epochs == workload.epochs:
        options = replace(options, epochs=None)
    return options.command_line(workload)


def _json(it: SessionOutcome, comparison: Comparison, full: bool) -> dict[str, Any]:
    session, snapshot, label = it.session, it.snapshot, it.label
    header, result, validity = snapshot.header, snapshot.result, snapshot.validity
    evaluation = snapshot.evaluation
    headline = headline_of(snapshot, it.status == Status.RUNNING, it.status)
    # These have keys of their own in the report, made without private details.
    hidden = ["name", "account", "valid", "against", "options", "loops", "t"]
    hidden += [] if full else ["log"]
    machine, gpus = to_json(session.facts), session.facts.gpus
    if not full and gpus is not None:
        # Identifiers of single GPUs are private.
        machine["gpus"] = [to_json(replace(gpu, uuid=None, bus_id=None)) for gpu in gpus]
    return {
        "session": header.id,
        "name": label.name,
        "note": label.note,
        "workload": header.workload,
        "status": str(it.status),
        "wall": header.wall,
        "host": header.host if full else None,
        "versions": header.versions,
        "machine": machine,
        "model": to_json(snapshot.model) if snapshot.model is not None else None,
        "result": None
        if result is None
        else {name: value for name, value in to_json(result).items() if name not in hidden},
        "figures": {**summary_numbers(it), **memory_numbers(snapshot)},
        "limit": None if snapshot.limit is None else snapshot.limit.text,
        "advice": None if snapshot.limit is None else snapshot.limit.advice or None,
        "headline": None if headline is None else headline.as_json,
        "account": {str(part): seconds for part, seconds in snapshot.time_breakdown.items()},
        **_step_json(snapshot),
        "valid": None if validity is None else validity.is_valid,
        "against": {} if validity is None else {str(d): t for d, t in validity.warnings.items()},
        "comparison": [
            {
                # The label of a row may hold a whole command, with its secrets.
                "label": comparison.names.get(row.session or "", row.label),
                **{name: getattr(row, name) for name in _OF_ROW},
            }
            for row in comparison.rows
        ],
        "metrics": figures_json(
            metric_figures(snapshot.epochs, session.learning, session.loops.of)
        ),
        "loops": to_json(snapshot.longest_loops(MOST_LOOPS)) if snapshot.loops[1:] else [],
        "evaluation": None if evaluation is None else evaluation_json(evaluation),
        "epochs": [_epoch_json(epoch, it) for epoch in snapshot.epochs],
        "profiles": [_profile_json(profile, it) for profile in session.profiles],
        "notices": [
            {"at_s": _at_s(notice.t, it), "text": notice.text} for notice in snapshot.notices
        ],
        "command": _command(snapshot),
    }


def _step_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the parts of a step, or why they could not be measured."""
    if snapshot.step_parts is None:
        return {"step_parts": None, "why_no_parts": snapshot.why_no_parts}
    rows = step_rows(snapshot.step_parts)
    parts = {name.replace("_us", "_ms"): ms for name, ms, _ in rows}
    return {"step_parts": {"batches": snapshot.step_parts.steps, **parts}}


def _profile_json(profile: Profile, it: SessionOutcome) -> dict[str, Any]:
    hidden = ("t", "request", "begin", "end")
    at_s = _at_s(profile.begin or profile.t, it)
    return {"at_s": at_s, **{n: v for n, v in to_json(profile).items() if n not in hidden}}


def _epoch_json(epoch: Epoch, it: SessionOutcome) -> dict[str, Any]:
    return {
        "epoch": epoch.epoch + 1,
        "begin_s": _at_s(epoch.begin, it),
        "seconds": (epoch.end - epoch.begin) / 1e9,
        "train_s": (epoch.train_end - epoch.begin) / 1e9,
        "whole": epoch.whole,
        "samples": epoch.samples,
        "tokens": epoch.tokens,
        "metrics": epoch.metrics,
    }


def _under(heading: str, rows: Sequence[Row]) -> Figures | None:
    return Figures(heading, tuple(rows)) if rows else None


def _processes(snapshot: Snapshot) -> Table | None:
    rows: Sequence[Process] = (snapshot.machine and snapshot.machine.processes) or ()
    columns: tuple[Column[Process], ...] = (
        number_column("pid", lambda row: str(row.pid)),
        Column("user", lambda row: row.user or "–"),
        Column("of the run", lambda row: "yes" if row.of_run else ""),
        number_column("CPU", lambda row: units.percent(row.cpu_pct)),
        number_column("memory", lambda row: units.gibibytes(row.rss_mib)),
        Column("command", lambda row: row.command or "–"),
    )
    return table_of(columns, rows, "Processes at the end") if rows else None


def environment_rows(
    header: SessionHeader, model: Model | None, trainers: Iterable[Trainer]
) -> list[Row]:
    """Return the names and versions of the software, with reasons for the unknown ones."""
    versions, why, facts = dict(header.versions), header.why, header.machine
    backend, version = versions.pop("backend", None), versions.pop("backend_version", None)
    rows = [(name, _known(value, why.get(f"versions.{name}"))) for name, value in versions.items()]
    if backend:
        reason = why.get("versions.backend_version")
        version_text = _known(version, reason) if version is not None or reason else ""
        rows.append(("backend", f"{as_word(backend)} {version_text}".rstrip()))
    if header.is_script:
        rows += _of_script(header, model, list(trainers))
    if facts.load_1m is not None or "load_1m" in facts.why:
        load = None if facts.load_1m is None else f"{facts.load_1m:.2f}"
        rows.append(("load at the start", _known(load, facts.why.get("load_1m"))))
    if facts.governor:
        rows.append(("governor", facts.governor))
    return list(dict.fromkeys(rows))


def _of_script(
    header: SessionHeader, model: Model | None, trainers: list[Trainer]
) -> Iterator[Row]:
    for name, title in _CODE.items():
        digits = getattr(header, name)
        if digits is not None or name in header.why:
            shortened = None if digits is None else digits[:_SHOWN_DIGITS]
            yield title, _known(shortened, header.why.get(name))
    for process in trainers:
        if process.framework != _OWN:
            name = FRAMEWORKS.get(process.framework, process.framework)
            yield "framework", f"{name} {process.framework_version or ''}".rstrip()
    observed = model.backend if model is not None else None
    if backend := next(filter(None, (observed, *(p.backend for p in trainers))), None):
        version = model.backend_version if model is not None else None
        yield "backend", f"{FRAMEWORKS.get(backend, backend)} {version or ''}".rstrip()
    for process in trainers:
        if process.python is not None and process.python != header.versions.get("python"):
            yield "python of the script", process.python


def _known(value: object, why: str | None) -> str:
    if value is None:
        return "–" if why is None else f"– ({why})"
    return as_word(value)


def as_word(value: object) -> str:
    """Return the value of an option or a version as text."""
    return as_text(value) if isinstance(value, (bool, int, float, str)) else str(value)
