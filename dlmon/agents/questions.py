"""The questions of agents: each reads logs or machines, and changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dlmon.agents.reply import Reply
from dlmon.agents.script_text import ScriptText
from dlmon.comparison.compared_run import Curve
from dlmon.comparison.published import published
from dlmon.comparison.sides import METRIC
from dlmon.figures import units
from dlmon.figures.columns import Column, table_of
from dlmon.figures.comparison.side_rows import describe_sides, without_secrets
from dlmon.figures.lists import session_list
from dlmon.figures.machine import host_rows
from dlmon.figures.machine.readings import machine_line
from dlmon.figures.report.curves import curves_of
from dlmon.figures.report.session_report import SessionReport, session_report
from dlmon.figures.sections import Figures, Heading, Note, Section, Table, as_sentence
from dlmon.figures.session.process_stacks import stack_lines
from dlmon.figures.session.stall import longest_stall
from dlmon.figures.session.tables import describe_profile
from dlmon.figures.session.tracebacks import trace_lines, traceback_rows
from dlmon.figures.sweeps import sweep_report
from dlmon.log import directory as logs
from dlmon.log.directory import NoSuchLog, SessionEntry, SeveralLogs, read_entry
from dlmon.log.folder import id_of, location_options, log_directory_of
from dlmon.log.label import Label
from dlmon.options.read import read_duration
from dlmon.records import Record, SessionHeader, Status, SweepHeader
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.remote.host import Age, HostSnapshot, HostState, WatchedHost
from dlmon.remote.host_names import check_host
from dlmon.remote.host_requests import ask_remote, copy_remote, list_remote
from dlmon.session.local_machine import LocalMachine
from dlmon.session.run_figures import compare_logs, read_session
from dlmon.slurm.standing import list_with_queue
from dlmon.sweep.log import list_sweeps
from dlmon.system.this_host import host_name
from workloads.catalog import WORKLOADS, find

PARTS = {
    "summary": ("Epochs", "Environment", "Options", "Profiles"),
    "epochs": ("Epochs",),
    "environment": ("Environment", "Options"),
    "profiles": ("Profiles",),
}
"""The headings of each part of a session's page; of the summary, those that it leaves out."""
LONGEST_ID = 100
_MOST_SERIES, _TRACEBACK_LINES = 6, 1_000
_MOST_OPERATIONS = 5
"""The operations of the newest profile in a summary."""
_FIRST_SAMPLE_S, _LOOK_S = 20.0, 0.1


class CannotAnswer(Exception):
    """A question that can't be answered; the message is a sentence."""


@record(frozen=True)
class Place:
    """The place of what is asked for.

    Attributes:
        directory: the log directory of this machine.
        log_dir: the log directory as typed, on hosts too; None for the default.
        hosts: the hosts that the settings name.
    """

    directory: Path
    log_dir: str | None = None
    hosts: tuple[str, ...] = ()

    def logs(self, names: str, host: str | None) -> list[Path]:
        """Return the logs that `names` means, oldest first; copy those of a host first.

        Raises:
            NoSuchLog: a name matches no session.
            SshError: the host can't be reached.
            HostRefusal: the host has no such session.
        """
        if host is not None:
            return asyncio.run(copy_remote(check_host(host), names, self.log_dir))
        return logs.find_sessions(names, self.directory, location_options(self.log_dir))

    def ask(
        self, session: str, host: str | None, request: Mapping[str, Any]
    ) -> tuple[SessionHeader, list[Record]]:
        """Send a request to a session that runs; return its header and the answer.

        Raises:
            NotControlled: it does not run, refuses or does not answer.
        """
        if host is not None:
            return asyncio.run(ask_remote(check_host(host), session, request, self.log_dir))
        entry = read_entry(self.logs(session, None)[-1])
        return entry.header, asyncio.run(logs.ask_session(entry, request))


def _texts_of(entries: Sequence[SessionEntry]) -> ScriptText:
    """Return what keeps the texts of these sessions out of our sentences."""
    text = ScriptText()
    for entry in entries:
        text.learn_session(entry.header, entry.label)
        if entry.result is not None:
            text.record(entry.result)
    return text


def sessions(
    place: Place,
    status: str | None = None,
    name: str | None = None,
    since: str | None = None,
    limit: int = 15,
    host: str | None = None,
) -> Reply:
    """List training runs that dlmon recorded or that run now, newest first. Start here."""
    if host is not None:
        entries, listed = asyncio.run(list_remote(check_host(host), place.log_dir))
        sweeps = session_list.sweeps_of_host(listed)
    else:
        entries, sweeps = list_with_queue(place.directory), list_sweeps(place.directory)
    began = 0.0 if since is None else time.time() - read_duration("since", since)

    def is_meant(entry: session_list.Recorded) -> bool:
        called = entry.label.name or session_list.workload_of(entry)
        is_of_status = status is None or entry.status == status
        is_named = name is None or fnmatchcase(called, name)
        return entry.header.wall >= began and is_of_status and is_named

    chosen = [entry for entry in reversed(entries) if is_meant(entry)]
    shown = chosen[:limit]
    newest_sweeps = [sweep for sweep in reversed(sweeps) if is_meant(sweep)][:limit]
    text = _texts_of(shown)
    for sweep in newest_sweeps:
        text.learn_sweep(sweep)
    of = f"{len(chosen):,} that match, of {units.counted(len(entries), 'session')}"
    count = [Note((f"Newest first: {len(shown):,} of {of}.",))] * bool(entries)
    table = session_list.describe_recorded(shown, newest_sweeps, place.directory)
    runs = [entry for entry in shown if not entry.header.is_machine_recording] or shown
    asks = (f"session({id_of(runs[0].path)!r})", "hosts()") if runs else ("sessions()", "hosts()")
    return Reply((*count, *(table if shown or newest_sweeps or not entries else ())), text, asks)


# ---- one session ----


def session(
    place: Place, session: str = "last", part: str = "summary", host: str | None = None
) -> Reply:
    """Show one run in one page: why is it slow, where does it hang, is it done?

    Its result with the interval, what limits it and what to try, where the time went, slow epochs,
    stalls with their lines, doubts. Also an experiment of ab or a sweep, by its id.
    """
    try:
        log = place.logs(session, host)[-1]
    except SeveralLogs:
        raise
    except NoSuchLog as no_session:
        try:
            return _sweep(place, session)
        except NoSuchLog:
            raise no_session from None
    entry, id = read_entry(log), id_of(log)
    if entry.status is Status.QUEUED:
        waits = Note((f"{id} waits in the queue of Slurm.",))
        return Reply((waits,), ScriptText(), ("sessions(status='queued')",))
    # It is compared with earlier ones, whose names and arguments stand in its sentences.
    text = _texts_of(logs.list_sessions(log_directory_of(log)))
    report = session_report(log, redaction=text)
    heading, *sections = report.sections
    assert isinstance(heading, Heading)
    # An answer always has the id, by which all other questions name the session.
    name = (f"name: {entry.label.name}",) if entry.label.name else ()
    heading, in_summary = Heading(id, (*name, *heading.facts)), part == "summary"
    shown = [s for under, s in _with_headings(sections) if (under in PARTS[part]) != in_summary]
    newest_first = tuple(reversed(report.session.profiles))
    if part == "profiles":
        shown = [section for made in newest_first for section in describe_profile(made, "Profile")]
    if not in_summary:
        none = Note((f"The session has no {part}.",))
        return Reply((heading, *(shown or (none,))), text, (f"session({id!r})",))
    shown += [
        section.first(_MOST_OPERATIONS) if isinstance(section, Table) else section
        for made in newest_first[:1]
        for section in describe_profile(made, "The newest profile")
    ]
    stall = longest_stall(report.session.snapshot())
    source = {} if stall is None else {"source of the longest wait": stall.source_lines}
    asks = tuple(_after(entry, report))
    return Reply((heading, *_state(report), *shown), text, asks, source)


def _with_headings(sections: Iterable[Section]) -> Iterator[tuple[str, Section]]:
    """Yield each section after the heading that it stands under."""
    under = ""
    for section in sections:
        under = getattr(section, "heading", "") or under
        yield under, section


def _state(report: SessionReport) -> Iterator[Section]:
    """Yield the headline of a session unless its verdict says it."""
    headline = report.as_json["headline"]
    verdicts = [s.sentences for s in report.sections if isinstance(s, Note) and s.kind == "verdict"]
    if headline is not None and headline["reason"] not in str(verdicts):
        title = f"{headline['name']} {headline['figure']}".rstrip()
        advice = f"Try: {headline['advice']}." if headline["advice"] else ""
        state = as_sentence(f"{title}: {headline['reason']}")
        yield Note(tuple(filter(None, (state, advice))), "verdict")


def _after(entry: SessionEntry, report: SessionReport) -> Iterator[str]:
    """Yield the calls that are useful after the page of a session."""
    id = id_of(entry.path)
    yield from [f"stacks({id!r})"] * (entry.status is Status.RUNNING)
    yield from [f"output({id!r})"] * (entry.status in (Status.FAILED, Status.INTERRUPTED))
    yield f"series({id!r})"
    for part in ("epochs", "profiles"):
        is_there = report.under(*PARTS[part]) is not None
        yield from [f"session({id!r}, part={part!r})"] * is_there
    earlier = (row for row in report.as_json["comparison"] if row["kind"] == "earlier")
    if (before := next(earlier, None)) is not None:
        yield f"compare(base={before['session']!r}, new={id!r})"


def _sweep(place: Place, name: str) -> Reply:
    """Return the page of a sweep or of an experiment of pairs."""
    path = logs.find_log(SweepHeader, name, place.directory)
    entry = next(entry for entry in list_sweeps(log_directory_of(path)) if entry.path == path)
    text = ScriptText()
    text.learn_sweep(entry)
    heading, *sections = sweep_report(path).sections
    status = Note((f"Status: {entry.status}, {session_list.done_in_words(entry)} done.",))
    newest = next(reversed(entry.sweep.sessions), None)
    asks = ("sessions()",) if newest is None else (f"session({newest!r})",)
    return Reply((heading, status, *sections), text, asks)


# ---- over time ----


def series(
    place: Place,
    session: str = "last",
    names: Sequence[str] = (),
    points: int = 20,
    host: str | None = None,
) -> Reply:
    """Show metrics, throughput, GPU and CPU readings of a run over time; without names, list them.

    A value is the mean over an interval.
    """
    log = place.logs(session, host)[-1]
    entry, id = read_entry(log), id_of(log)
    text, start_ns = _texts_of([entry]), entry.header.t
    curves = curves_of(read_session(log), start_ns)
    # All others have names of ours.
    text.learn(name for name, curve in curves.items() if not curve.unit)
    chosen = [n for n in curves if any(fnmatchcase(n, wanted) for wanted in names)]
    # A question needs a name as it is, not our reference to it.
    own = {"names of series": tuple(n for n in chosen or curves if text.text(n) != n)}
    if not chosen:
        unknown = [Note(("None of these names is a series of the session.",))] * bool(names)
        rows = tuple((name, curve.unit or "a metric") for name, curve in curves.items())
        table = Table(("series", "unit"), rows, heading=f"Series of {id}")
        asks = tuple(
            f"series({id!r}, names=[{name!r}])" for name in curves if text.text(name) == name
        )[:1]
        return Reply((*unknown, table), text, asks or (f"session({id!r})",), own)
    shown = {name: curves[name] for name in chosen[:_MOST_SERIES]}
    length_ns = max(curve.end_ns for curve in shown.values()) - start_ns
    width_ns = max(1_000_000_000, -(-length_ns // points))
    table = _means(shown, start_ns, width_ns, -(-length_ns // width_ns))
    width = units.seconds(width_ns / 1e9)
    sentence = f"A row is the mean over {width}; s counts from the start of {id}."
    more = len(chosen) - len(shown)
    left_out = [f"{more} more series match; at most {_MOST_SERIES} are shown."] * bool(more)
    return Reply((Note((sentence, *left_out)), table), text, (f"session({id!r})",), own)


def _means(curves: Mapping[str, Curve], start_ns: int, width_ns: int, count: int) -> Table:
    """Return a row for each interval, and a column for each series and for its validation."""
    columns = {"s": [f"{number * width_ns / 1e9:.1f}" for number in range(count)]}
    for name, curve in curves.items():
        means = curve.series.columns(start_ns, width_ns, count)
        title = f"{name}, {curve.unit}" if curve.unit else name
        columns[title] = [_number(mean, curve.factor) for mean in means]
        if curve.validations:
            ends = {(t - 1 - start_ns) // width_ns: value for t, value in curve.validations}
            columns[f"val {name}"] = [_number(ends.get(number)) for number in range(count)]
    return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _number(value: float | None, factor: float = 1.0) -> str:
    return "–" if value is None else f"{factor * value:.4g}"


def compare(place: Place, base: str, new: str, host: str | None = None) -> Reply:
    """Compare two runs, or two sides of repeated runs: is it faster than before?

    Shows the change of each figure with its 95 % interval, and differing arguments and code. With
    a host, new was recorded there.
    """
    try:
        base_logs = place.logs(base, None)
    except NoSuchLog:
        base_logs = place.logs(base, host)
    new_logs = place.logs(new, host)
    text = _texts_of([read_entry(log) for log in (*base_logs, *new_logs)])
    sides = compare_logs(base_logs, new_logs)
    names = [figure.name for figure in sides.figures]
    text.learn(name.removeprefix(METRIC) for name in names if name.startswith(METRIC))
    text.learn(file.name for file in (sides.code.files or () if sides.code else ()))
    asks = [f"session({id_of(new_logs[-1])!r})"]
    if min(len(base_logs), len(new_logs)) < 2:
        asks.append("ab(…), which runs both in pairs: one run a side proves nothing")
    return Reply(tuple(describe_sides(without_secrets(sides), anyway=False)), text, tuple(asks))


# ---- what runs now, and what it printed ----


def stacks(place: Place, session: str = "last", host: str | None = None) -> Reply:
    """Show the line of code at which each process of a running session is: where does it hang?"""
    header, records = place.ask(session, host, {"ask": "stack"})
    text, id = ScriptText(), clean(header.id, LONGEST_ID)
    text.learn_session(header, Label())
    lines = list(stack_lines([text.record(answered) for answered in records], is_folded=True))
    stand = tuple(line for line, style in lines if style == "strong" and line[:1] != " ")
    asks = (f"stacks({id!r}) again: does it move?", f"session({id!r})")
    own = {"stacks": tuple(line for line, _ in lines)}
    return Reply((Note((f"{id} is now at:", *stand), "list"),), text, asks, own)


def output(place: Place, session: str = "last", lines: int = 40, host: str | None = None) -> Reply:
    """Show the last lines that a script printed, its error and its traceback: why did it fail?"""
    log = place.logs(session, host)[-1]
    entry, id, printed = read_entry(log), id_of(log), logs.read_output(log)
    text = _texts_of([entry])
    rows = [("status", session_list.status_text(entry.status, entry.result))]
    if entry.result is not None and entry.result.error:
        rows.append(("error", entry.result.error))
    rows.append(("lines of output", f"{len(printed):,}"))
    trace = traceback_rows(printed[-_TRACEBACK_LINES:], entry.header.directory)
    own = {
        "traceback": trace_lines(trace),
        "last output": tuple(line.text for line in printed[-lines:]),
    }
    return Reply((Figures(f"Output of {id}", tuple(rows)),), text, (f"session({id!r})",), own)


# ---- machines ----


def hosts(place: Place, names: Sequence[str] = ()) -> Reply:
    """Show this machine and the hosts of the settings, or named ones: which GPU is free?"""
    snapshots = asyncio.run(_look_at([*map(check_host, names)] or place.hosts, not names))
    text, running = ScriptText(), []
    for snapshot in snapshots:
        for run in snapshot.sessions or ():
            text.learn((run.name, run.workload))
            running.append((snapshot.name, ", ".join(host_rows.session_parts(run))))
    columns: tuple[Column[HostSnapshot], ...] = (
        Column("host", lambda it: it.name),
        Column("state", lambda it: host_rows.sentence_of(it) or host_rows.status_of(it)[0]),
        Column("free", lambda it: host_rows.free_words(it) or "no GPU seen"),
        Column("free GPUs", lambda it: ", ".join(map(str, sorted(it.free_gpus or ()))) or "–"),
        Column("now", lambda it: machine_line(it.machine, it.facts) if it.machine else "–"),
    )
    rule = Note(("A GPU is free if it is idle, and no process that is seen uses it.",))
    runs = [Figures("Running", tuple(running))] * bool(running)
    return Reply((table_of(columns, snapshots), rule, *runs), text, ("sessions(status='running')",))


async def _look_at(names: Sequence[str], with_here: bool) -> list[HostSnapshot]:
    """Return the state of this machine and of others, once each has answered, or could not."""
    here, others = LocalMachine(), [WatchedHost(name) for name in names]
    sources: list[LocalMachine | WatchedHost] = [*[here] * with_here, *others]
    for source in sources:
        source.start()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SAMPLE_S):
                await asyncio.gather(*map(_answered, sources))
        latest, history = here.history.latest, here.history
        seen = HostSnapshot(f"{host_name()} (here)", HostState.CONNECTED, facts=here.facts)
        age = None if latest is None else Age.FRESH
        seen = replace(seen, machine=latest, history=history, age=age)
        return [*[seen] * with_here, *(host.snapshot() for host in others)]
    finally:
        here.stop()
        await asyncio.gather(*(host.close() for host in others))


async def _answered(source: LocalMachine | WatchedHost) -> None:
    while not _is_known(source):  # noqa: ASYNC110 - two sources, of two records each
        await asyncio.sleep(_LOOK_S)


def _is_known(source: LocalMachine | WatchedHost) -> bool:
    """Return whether the processes and sessions of a machine were read, or can't be."""
    latest = source.history.latest
    is_read = latest is not None and (latest.processes is not None or "processes" in latest.why)
    if isinstance(source, LocalMachine):
        return is_read
    host = source.snapshot()
    is_there = host.state in (HostState.CONNECTING, HostState.CONNECTED)
    return not is_there or (is_read and (host.sessions, host.sessions_problem) != (None, None))


def workloads(place: Place, name: str | None = None) -> Reply:
    """List the networks that come with dlmon, or the published figures of one on other hardware."""
    listed = tuple(WORKLOADS.values()) if name is None else (find(name),)
    table, sources = session_list.describe_workloads(listed)
    if name is None:
        assert isinstance(table, Table)
        return Reply((table.without("source"),), ScriptText(), ("workloads(name=…)",))
    rows = tuple(
        (
            *(row.device, row.framework, str(row.year), row.metric, f"{row.value:g}"),
            *(str(row.batch_size), "; ".join((*row.caveats, *row.remarks))),
        )
        for row in sorted(published(listed[0].name), key=lambda row: (row.metric, row.value))
    )
    headings = ("device", "framework", "year", "metric", "value", "batch", "differs")
    note = Note(("Metrics that end in _ms are milliseconds a step, others seconds.",))
    figures = Table(headings, rows, heading="Published figures").filled()
    return Reply((table, sources, note, figures), ScriptText(), (f"sessions(name={name!r})",))
