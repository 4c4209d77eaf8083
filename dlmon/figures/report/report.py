"""Make a whole report of sessions and sweeps, with comparisons and charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon import __version__
from dlmon.comparison.sides import like_groups
from dlmon.figures.comparison.side_rows import Compared, compared
from dlmon.figures.report.curves import TimeMark, chart_json, charts_of, metric_charts
from dlmon.figures.report.session_report import SessionReport, session_report
from dlmon.figures.sections import Heading, LineChart, OverTime, Section, Table
from dlmon.figures.sweeps import SweepReport, sweep_report
from dlmon.records.record import record
from dlmon.session.run_figures import OnRead, earlier_runs, ignore, read_figures

MOST_COMPARED = 6


@record(frozen=True)
class Report:
    """The content of a report, without a format.

    Attributes:
        names: the names of the sessions.
        charts: throughput and hardware over time; several sessions are aligned at their starts.
        metrics: the charts of the metrics, the loss first.
        marks: moments on the time axis, if there is a single session.
        together: the figures of several sessions side by side; None for one.
        compared: the comparisons of the first side with the others.
    """

    sessions: tuple[SessionReport, ...]
    sweeps: tuple[SweepReport, ...]
    names: tuple[str, ...]
    charts: tuple[LineChart, ...]
    metrics: tuple[LineChart, ...]
    marks: tuple[TimeMark, ...]
    together: Table | None
    compared: tuple[Compared, ...] = ()

    @property
    def title(self) -> str:
        titles = [*self.names, *(sweep.title for sweep in self.sweeps)]
        return ", ".join(titles[:4]) + (f" and {len(titles) - 4} more" if len(titles) > 4 else "")

    @property
    def sections(self) -> Iterator[Section]:
        has_charts = bool(self.charts or self.metrics)
        for comparison in self.compared:
            yield from comparison.sections
        if self.together is not None:
            yield self.together
            yield from [OverTime()] * has_charts
        for name, session in zip(self.names, self.sessions, strict=True):
            for section in session.sections:
                if isinstance(section, Heading):
                    yield replace(section, text=name)
                elif not isinstance(section, OverTime) or (has_charts and self.together is None):
                    yield section
        for sweep in self.sweeps:
            yield from sweep.sections

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON, with the numbers of its charts."""
        return {
            "dlmon": __version__,
            "sessions": [session.as_json for session in self.sessions],
            "comparisons": [c.as_json for c in self.compared if c.as_json is not None],
            "sweeps": [sweep.as_json for sweep in self.sweeps],
            "charts": [chart_json(chart) for chart in self.charts],
            "metric_charts": [chart_json(chart) for chart in self.metrics],
        }


def make_report(
    sessions: Sequence[Path],
    sweeps: Sequence[Path],
    full: bool = False,
    on_read: OnRead = ignore,
    base: Container[Path] = (),
) -> Report:
    """Read logs and return their report; a `full` one keeps private details.

    If `base` is given, all other sessions together are compared with its sessions.

    Raises:
        LogError: a log can't be read.
    """

    def reading(number: int) -> OnRead:
        return lambda share: on_read((number + share) / len(sessions))

    reports = tuple(
        session_report(path, full, reading(number)) for number, path in enumerate(sessions)
    )
    names = _names(reports)
    metrics = metric_charts([report.metric_curves for report in reports], names)
    return Report(
        sessions=reports,
        sweeps=tuple(sweep_report(path, full) for path in sweeps),
        names=names,
        charts=charts_of([report.session for report in reports], names) if reports else (),
        metrics=metrics,
        marks=reports[0].marks if len(reports) == 1 else (),
        together=_together(reports, names) if len(reports) > 1 else None,
        compared=_compared(sessions, names, base, full) if len(reports) > 1 else (),
    )


def _compared(
    sessions: Sequence[Path], names: Sequence[str], base: Container[Path], full: bool
) -> tuple[Compared, ...]:
    """Compare the first side with each other one; repeats of the same settings are one side."""
    runs = [read_figures(path) for path in sessions]
    name_of = {run.session: name for run, name in zip(runs, names, strict=True)}
    sides = [[run for run, path in zip(runs, sessions, strict=True) if path in base], []]
    if sides[0]:
        sides[1] = [run for run in runs if run not in sides[0]]
    else:
        sides = like_groups(runs)
        sides = [[run] for run in runs] if len(sides) == 1 else sides
    first, *other_sides = (
        (side, _side_name([name_of[run.session] for run in side]))
        for side in sides[: MOST_COMPARED + 1]
    )
    earlier = earlier_runs(sessions)
    return tuple(compared(first, side, earlier, full) for side in other_sides)


def _side_name(names: Sequence[str]) -> str:
    first, *other_names = names
    if len(other_names) < 2:
        return " and ".join(names)
    return f"{first} and {len(other_names)} more"


def _names(reports: Sequence[SessionReport]) -> tuple[str, ...]:
    """Return a name for each session: its title, with the end of its id if several have it."""
    shared = Counter(report.title for report in reports)
    return tuple(r.title if shared[r.title] == 1 else f"{r.title} ({r.id[-4:]})" for r in reports)


def _metric_texts(report: SessionReport, used_names: Container[str]) -> dict[str, str]:
    """Return the last and best value of each metric, under names that aren't used yet."""
    metrics, texts = report.under("Metrics"), {}
    for name, final, best, _ in metrics.rows if metrics is not None else ():
        row = f"metric {name}" if name in used_names else name
        texts[row] = final if best in ("–", final) else f"{final} (best {best})"
    return texts


def _together(reports: Sequence[SessionReport], names: Sequence[str]) -> Table:
    """Return a table of the sessions' figures, and of the settings that differ."""
    # A script's metric may have the name of a figure or option of any session.
    option_sections = [report.under("Options") for report in reports]
    options = [{} if section is None else dict(section.rows) for section in option_sections]
    used_names = {name for report in reports for name, _ in report.figures}.union(*options)
    columns = [dict(report.figures) | _metric_texts(report, used_names) for report in reports]
    figures = list(dict.fromkeys(name for column in columns for name in column))
    settings = list(dict.fromkeys(name for column in options for name in column))
    rows = [(name, *(column.get(name, "–") for column in columns)) for name in figures]
    for name in settings:
        values = [column.get(name, "–") for column in options]
        if len(set(values)) > 1:
            rows.append((name, *values))
    return Table(("", *names), tuple(rows), heading="Side by side")
