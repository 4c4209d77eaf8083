"""What a report says of one session: texts and figures, redacted, of no format yet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures import units
from dlmon.figures.account import account_rows, gap_of_session, longest_gaps, names_of
from dlmon.figures.comparison import (
    busy_said_of_each,
    comparison_rows,
    earlier_sessions,
    epoch_word,
    factor_of_nearest,
    factor_of_run_before,
    metric_of,
    run_names,
    timed_unit,
    timing_of,
)
from dlmon.figures.curves import Mark, SessionCurves
from dlmon.figures.environment import as_word, environment_rows
from dlmon.figures.epoch_tables import (
    MOST_LOOPS,
    epoch_table,
    loop_table,
    metric_table,
    profile_table,
)
from dlmon.figures.machine import identity
from dlmon.figures.metric_curves import MetricCurves
from dlmon.figures.metrics import evaluation_json
from dlmon.figures.parts import Bar, Row, Table
from dlmon.figures.redact import Redaction
from dlmon.figures.summary import COMMAND, IN_DOUBT, METRICS, VALID, summary_rows
from dlmon.log.directory import list_sessions, read_entry
from dlmon.log.folder import LogError, log_directory_of, reason_of
from dlmon.log.follower import LogFollower
from dlmon.log.label import Label, read_label
from dlmon.options.jobs import recorded_options
from dlmon.records import (
    Alert,
    Epoch,
    GpuFacts,
    Notice,
    Process,
    Profile,
    Record,
    Status,
    to_json,
)
from dlmon.session.figures import OnRead, ignore
from dlmon.session.gaps import Gap
from dlmon.session.metric_figures import figures_json, metric_figures
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from workloads.catalog import WORKLOADS

SHOWN_OUTPUT, SHOWN_GAPS = 40, 10
_READ_AT_ONCE_BYTES = 1 << 20
NO_WORKLOAD = "the machine alone"
# A report says these above its figures, a sentence each.
_JUDGED = (VALID, IN_DOUBT)


@dataclass(frozen=True)
class SessionReport:
    """One session.

    Attributes:
        title: its name, or its id.
        verdict: what it found, a sentence each.
        valid: whether nothing speaks against its figures; None before there are any.
        against: what does.
        judged: both in one row, for a table of several sessions.
        metrics: what each metric came to; None where there is none.
        bars: itself among published and earlier times; `per` is what a time is of, and `of_all`
            what there is to say of each of its own.
        account: seconds by what they went into.
        gaps: when there was no batch for longest, and what the machine did meanwhile.
        profiles: what was profiled, and the operations that took the time.
        notices: when they were written, and what they say.
        command: what reproduces it; None for what is no run of a workload of ours.
        processes: only where a full report was asked for, as is `output`.
        curves: what is drawn over time.
        metric_curves: what training said of itself, over time too.
        marks: on its axis.
        as_json: all of this as numbers and words.
    """

    id: str
    title: str
    workload: str
    about: str
    machine: str
    status: str
    began: str
    verdict: tuple[str, ...]
    valid: bool | None
    against: tuple[str, ...]
    judged: tuple[Row, ...]
    figures: tuple[Row, ...]
    metrics: Table | None
    per: str
    bars: tuple[Bar, ...]
    of_all: str
    account: tuple[Bar, ...]
    gaps: tuple[Row, ...]
    loops: Table | None
    epochs: Table | None
    profiles: tuple[tuple[str, Table], ...]
    notices: tuple[Row, ...]
    environment: tuple[Row, ...]
    options: tuple[Row, ...]
    command: str | None
    processes: Table | None
    output: tuple[str, ...]
    curves: SessionCurves
    metric_curves: MetricCurves
    marks: tuple[Mark, ...]
    as_json: Mapping[str, Any]


def session_report(path: Path, full: bool = False, on_read: OnRead = ignore) -> SessionReport:
    """Read a log, and return what a report says of it.

    Args:
        path: the log.
        full: leave nothing out: processes, users, host, paths and output.
        on_read: see `OnRead`.

    Raises:
        LogError: it can't be read.
    """
    status = read_entry(path).status
    redaction = Redaction(full)
    with contextlib.closing(LogFollower(path)) as follower:
        redaction.learn_names(follower.header.host, follower.header.options)
        session = Session(follower.header)
        curves = SessionCurves(follower.header, session.machine.interval_s)
        metric_curves = MetricCurves(follower.header)
        for record in records_of(follower, on_read):
            kept = redaction.record(record)
            session.fold(kept)
            curves.fold(kept)
            metric_curves.fold(kept)
    return _Gathered(path, session, curves, metric_curves, status, redaction, full).report()


def records_of(follower: LogFollower, on_read: OnRead = ignore) -> Iterator[Record]:
    """Yield the records of a log behind its header, up to its end as it is now.

    Raises:
        LogError: it can't be read any more.
    """
    try:
        while (share := follower.read_share) is not None:
            on_read(share)
            yield from follower.new_records(_READ_AT_ONCE_BYTES)
    except OSError as error:
        raise LogError(f"{follower.path} can't be read: {reason_of(error)}") from None


@dataclass(frozen=True)
class _Gathered:
    """A session that was read to its end, and what is made of it."""

    path: Path
    session: Session
    curves: SessionCurves
    metric_curves: MetricCurves
    status: Status
    redaction: Redaction
    full: bool

    def report(self) -> SessionReport:
        snapshot = self.session.snapshot(ended=self.status == Status.INTERRUPTED)
        if snapshot.header.is_machine_recording:
            # Nothing ran whose time or whose figures there is anything to say of.
            snapshot = replace(snapshot, account={}, validity=None)
        text = self.redaction.text
        header = snapshot.header
        workload = WORKLOADS.get(header.workload)
        label = read_label(self.path)
        account = account_rows(snapshot.account, names_of(snapshot))
        validity = snapshot.validity
        gaps = [
            Mark((gap.start - header.t) / 1e9, text(gap_of_session(gap, snapshot)))
            for gap in sorted(longest_gaps(snapshot.gaps, SHOWN_GAPS), key=_begin_of)
        ]
        listed = list_sessions(log_directory_of(self.path))
        entries = earlier_sessions(listed, header, metric=metric_of(snapshot))
        # A run without a figure of its own is compared with nothing.
        bars = () if timing_of(snapshot) is None else comparison_rows(snapshot, entries)
        shown, of_all = busy_said_of_each(bars)
        names = run_names(snapshot, entries)
        rows = [
            (name, text(said))
            for name, said in summary_rows(self.session, snapshot, self.status, label)
            if name != METRICS and (self.full or name != COMMAND)
        ]
        steady = snapshot.samples_per_second is not None
        verdict = [
            self._headline(snapshot),
            factor_of_nearest(bars, steady),
            factor_of_run_before(bars, entries, names, steady, header),
            *_limit_sentences(snapshot),
        ]
        return SessionReport(
            id=text(header.id),
            title=text(label.name or header.id),
            workload=text(header.workload) or NO_WORKLOAD,
            about=workload.title if workload is not None else "",
            machine=text(", ".join(identity(self.session.facts))),
            status=str(self.status),
            began=units.day_and_time(header.wall),
            verdict=tuple(as_sentence(text(one)) for one in verdict if one),
            valid=None if validity is None else validity.is_valid,
            against=tuple(
                as_sentence(text(one)) for one in (validity.against.values() if validity else ())
            ),
            judged=tuple(row for row in rows if row[0] in _JUDGED),
            figures=tuple(row for row in rows if row[0] not in _JUDGED),
            metrics=metric_table(
                metric_figures(snapshot.epochs, self.session.learning), epoch_word(header), text
            ),
            per=timed_unit(bars[0].metric) or "throughput" if bars else "",
            bars=tuple(self._bar(row, names) for row in shown),
            of_all=as_sentence(of_all) if of_all else "",
            account=tuple(
                Bar(row.name, row.seconds, f"{row.time}, {units.share(row.share)}")
                for row in account
            ),
            gaps=tuple((units.clock(mark.at_s), mark.text) for mark in gaps),
            loops=loop_table(snapshot, text),
            epochs=epoch_table(snapshot.epochs, snapshot.model, text),
            profiles=tuple(profile_table(profile, text) for profile in self.session.profiles),
            notices=tuple(self._notice(notice) for notice in snapshot.notices),
            environment=tuple(self._environment(snapshot)),
            options=tuple(self._options(snapshot)),
            command=self._command(snapshot),
            processes=self._processes(snapshot) if self.full else None,
            output=tuple(o.text for o in snapshot.output[-SHOWN_OUTPUT:]) if self.full else (),
            curves=self.curves,
            metric_curves=self.metric_curves.renamed(text),
            marks=(*self.curves.marks, *gaps),
            as_json=self._json(snapshot, bars, names, label),
        )

    def _headline(self, snapshot: Snapshot) -> str:
        result, timing = snapshot.result, timing_of(snapshot)
        if result is not None and result.error:
            return f"failed: {result.error}"
        if timing is not None and snapshot.header.workload in WORKLOADS:
            return f"{units.band(timing)} {timed_unit(metric_of(snapshot))}"
        if snapshot.samples_per_second is not None:
            unit = units.rate_unit(snapshot.counts_steps)
            return units.throughput(snapshot.samples_per_second, unit=unit)
        return ""

    def _bar(self, row: ComparisonRow, names: Mapping[str, str]) -> Bar:
        label = names.get(row.session or "", row.label)
        year = row.year if row.kind == "published" else None
        measured = ", ".join(str(part) for part in (year, row.framework) if part)
        own = row.published if row.published is not None and row.published.own else None
        # What a person wrote of their own figure; of the others, each note is of the same article.
        note = own.note if own is not None and own.note not in row.badges else ""
        return Bar(
            self.redaction.text(label),
            row.value,
            ("~ " if row.projected else "") + units.duration(row),
            row.kind if row.comparable or row.kind == "this" else f"{row.kind} other",
            self.redaction.text("; ".join(part for part in (measured, *row.badges, note) if part)),
        )

    def _notice(self, notice: Notice | Alert) -> Row:
        at_s = (notice.t - self.session.header.t) / 1e9
        return units.clock(at_s), self.redaction.text(notice.text)

    def _environment(self, snapshot: Snapshot) -> list[Row]:
        header = snapshot.header
        trainers = self.session.trainers.known.values()
        rows = environment_rows(header, snapshot.model, trainers)
        if self.full:
            rows += [("host", header.host), ("log", str(self.path))]
        return [(self.redaction.text(name), self.redaction.text(text)) for name, text in rows]

    def _options(self, snapshot: Snapshot) -> list[Row]:
        options = self.redaction.options(snapshot.header.options)
        return [
            (name.replace("_", " "), as_word(value))
            for name, value in options.items()
            if value not in (None, "", False) and name != "backend"
        ]

    def _command(self, snapshot: Snapshot) -> str | None:
        header = snapshot.header
        options, workload = recorded_options(header), WORKLOADS.get(header.workload)
        if options is None or workload is None:
            return None
        if options.batch_size == workload.batch_size:
            options = replace(options, batch_size=None)
        if options.epochs == workload.epochs:
            options = replace(options, epochs=None)
        return self.redaction.text(options.command_line(workload))

    def _processes(self, snapshot: Snapshot) -> Table | None:
        rows: Sequence[Process] = (snapshot.machine and snapshot.machine.processes) or ()
        if not rows:
            return None
        return Table(
            ("pid", "user", "of the run", "CPU", "memory", "command"),
            tuple(
                (
                    str(row.pid),
                    row.user or "–",
                    "yes" if row.of_run else "",
                    units.percent(row.cpu_pct),
                    units.gibibytes(row.rss_mib),
                    row.command or "–",
                )
                for row in rows
            ),
            (True, False, False, True, True, False),
        )

    def _json(
        self,
        snapshot: Snapshot,
        bars: Sequence[ComparisonRow],
        names: Mapping[str, str],
        label: Label,
    ) -> dict[str, Any]:
        header, result, validity = snapshot.header, snapshot.result, snapshot.validity
        evaluation = snapshot.evaluation
        # What stands beside it here, made of what is not left out.
        hidden = ["name", "account", "valid", "against", "options", "loops", "t"]
        hidden += [] if self.full else ["log"]
        machine = to_json(self.session.facts)
        if not self.full:
            machine["gpus"] = _without_ids(self.session.facts.gpus)
        whole = {
            "session": header.id,
            "name": label.name,
            "note": label.note,
            "workload": header.workload,
            "status": str(self.status),
            "wall": header.wall,
            "host": header.host if self.full else None,
            "options": self.redaction.options(header.options),
            "versions": header.versions,
            "machine": machine,
            "model": to_json(snapshot.model) if snapshot.model is not None else None,
            "result": None
            if result is None
            else {name: value for name, value in to_json(result).items() if name not in hidden},
            "limit": None if snapshot.limit is None else snapshot.limit.text,
            "advice": None if snapshot.limit is None else snapshot.limit.advice or None,
            "account": {str(part): seconds for part, seconds in snapshot.account.items()},
            "valid": None if validity is None else validity.is_valid,
            "against": {} if validity is None else {str(d): t for d, t in validity.against.items()},
            "comparison": [
                {
                    # The label of a row may hold a whole command, with its secrets.
                    "label": names.get(row.session or "", row.label),
                    "kind": row.kind,
                    "metric": row.metric,
                    "value": row.value,
                    "low": row.low,
                    "high": row.high,
                    "projected": row.projected,
                    "comparable": row.comparable,
                    "badges": list(row.badges),
                    "year": row.year,
                    "session": row.session,
                }
                for row in bars
            ],
            "metrics": figures_json(metric_figures(snapshot.epochs, self.session.learning)),
            "loops": to_json(snapshot.longest_loops(MOST_LOOPS)) if snapshot.loops[1:] else [],
            "evaluation": None if evaluation is None else evaluation_json(evaluation),
            "epochs": [self._epoch_json(epoch) for epoch in snapshot.epochs],
            "profiles": [self._profile_json(profile) for profile in self.session.profiles],
            "notices": [
                {"at_s": (notice.t - header.t) / 1e9, "text": notice.text}
                for notice in snapshot.notices
            ],
            "command": self._command(snapshot),
        }
        cleaned: dict[str, Any] = self.redaction.value(whole)
        return cleaned

    def _profile_json(self, profile: Profile) -> dict[str, Any]:
        hidden = ("t", "request", "begin", "end")
        known = {name: value for name, value in to_json(profile).items() if name not in hidden}
        return {"at_s": ((profile.begin or profile.t) - self.session.header.t) / 1e9, **known}

    def _epoch_json(self, epoch: Epoch) -> dict[str, Any]:
        began = self.session.header.t
        return {
            "epoch": epoch.epoch + 1,
            "begin_s": (epoch.begin - began) / 1e9,
            "seconds": (epoch.end - epoch.begin) / 1e9,
            "train_s": (epoch.train_end - epoch.begin) / 1e9,
            "whole": epoch.whole,
            "samples": epoch.samples,
            "metrics": epoch.metrics,
        }


def _limit_sentences(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what limited it, and what to try where the readings speak for something."""
    limit = snapshot.limit
    if limit is None:
        return ()
    return (limit.text, f"Try: {limit.advice}" if limit.advice else "")


def _begin_of(gap: Gap) -> int:
    return gap.start


def _without_ids(gpus: Sequence[GpuFacts] | None) -> list[Any] | None:
    """Return GPUs without what tells one from all others of its kind."""
    if gpus is None:
        return None
    return [to_json(replace(gpu, uuid=None, bus_id=None)) for gpu in gpus]


_END = re.compile(r"[.!?…]$")


def as_sentence(text: str, names: tuple[str, ...] = ()) -> str:
    """Return a text as a sentence: a capital first, but of `names`, and a full stop last."""
    if not text.startswith(names):
        text = text[:1].upper() + text[1:]
    return text if _END.search(text) else f"{text}."
