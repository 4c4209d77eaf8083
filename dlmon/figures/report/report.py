"""A whole report: sessions and sweeps, and what is drawn of several sessions together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlmon import __version__
from dlmon.comparison.sides import like_groups
from dlmon.figures.comparison.side_rows import Compared, compared
from dlmon.figures.report.curves import Mark, chart_json, charts_of, metric_charts
from dlmon.figures.report.sections import Chart, Heading, OverTime, Section, Table
from dlmon.figures.report.session_report import SessionReport, session_report
from dlmon.figures.sweeps import SweepReport, sweep_report
from dlmon.records.record import record
from dlmon.session.run_figures import OnRead, earlier_runs, ignore, read_figures

MOST_COMPARED = 6


@record(frozen=True)
class Report:
    """What is reported.

    Attributes:
        names: of the sessions, each another one.
        charts: over time; with several sessions one line each, from their starts on.
        metrics: what training said of itself over the same time, the loss first.
        marks: on the time axis of a session that is alone.
        together: the figures of several sessions side by side; None of one.
        compared: the first of several beside each of the others, repeats together.
        version: of dlmon.
    """

    sessions: tuple[SessionReport, ...]
    sweeps: tuple[SweepReport, ...]
    names: tuple[str, ...]
    charts: tuple[Chart, ...]
    metrics: tuple[Chart, ...]
    marks: tuple[Mark, ...]
    together: Table | None
    compared: tuple[Compared, ...] = ()
    version: str = __version__

    @property
    def title(self) -> str:
        titles = [*self.names, *(sweep.title for sweep in self.sweeps)]
        return ", ".join(titles[:4]) + (f" and {len(titles) - 4} more" if len(titles) > 4 else "")

    @property
    def sections(self) -> Iterator[Section]:
        has_charts = bool(self.charts or self.metrics)
        for one in self.compared:
            yield from one.sections
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
        """Return the report as JSON: what was drawn as numbers too."""
        return {
            "dlmon": self.version,
            "sessions": [session.as_json for session in self.sessions],
            "comparisons": [one.as_json for one in self.compared if one.as_json is not None],
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
    """Read logs, and return what a report says of them; a full one leaves nothing out.

    With the sessions of `base`, all others are compared together.

    Raises:
        LogError: one can't be read.
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
    """Put one side beside each of the others; those that were made alike are one side."""
    runs = [read_figures(path) for path in sessions]
    name_of = {run.session: name for run, name in zip(runs, names, strict=True)}
    sides = [[run for run, path in zip(runs, sessions, strict=True) if path in base], []]
    if sides[0]:
        sides[1] = [run for run in runs if run not in sides[0]]
    else:
        sides = like_groups(runs)
        sides = [[run] for run in runs] if len(sides) == 1 else sides
    first, *others = (
        (side, _side_name([name_of[run.session] for run in side]))
        for side in sides[: MOST_COMPARED + 1]
    )
    earlier = earlier_runs(sessions)
    return tuple(compared(first, other, earlier, full) for other in others)


def _side_name(names: Sequence[str]) -> str:
    first, *others = names
    if len(others) < 2:
        return " and ".join(names)
    return f"{first} and {len(others)} more"


def _names(reports: Sequence[SessionReport]) -> tuple[str, ...]:
    """Return what to call each session: its title, or its id where another one has that too."""
    shared = Counter(report.title for report in reports)
    titles = [r.title if shared[r.title] == 1 else f"{r.title} ({r.id[-4:]})" for r in reports]
    shared = Counter(titles)
    return tuple(
        title if shared[title] == 1 else f"{title} #{number}"
        for number, title in enumerate(titles, 1)
    )


def _metric_texts(report: SessionReport, taken: Container[str]) -> dict[str, str]:
    """Return what each metric of a session came to, by a name that is none of those taken."""
    metrics, texts = report.under("Metrics"), {}
    for name, final, best, _ in metrics.rows if metrics is not None else ():
        row = f"metric {name}" if name in taken else name
        texts[row] = final if best in ("–", final) else f"{final} (best {best})"
    return texts


def _together(reports: Sequence[SessionReport], names: Sequence[str]) -> Table:
    """Put the figures and settings of sessions side by side; settings only where they differ."""
    # A script may call a metric as a figure of ours is called; of any session, so for all alike.
    found = [report.under("Options") for report in reports]
    options = [{} if section is None else dict(section.rows) for section in found]
    taken = {name for report in reports for name, _ in report.figures}.union(*options)
    columns = [dict(report.figures) | _metric_texts(report, taken) for report in reports]
    figures = list(dict.fromkeys(name for column in columns for name in column))
    settings = list(dict.fromkeys(name for column in options for name in column))
    rows = [(name, *(column.get(name, "–") for column in columns)) for name in figures]
    for name in settings:
        values = [column.get(name, "–") for column in options]
        if len(set(values)) > 1:
            rows.append((name, *values))
    return Table(("", *names), tuple(rows), heading="Side by side")
