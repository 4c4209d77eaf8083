"""The screen of every metric of a run, or of several over each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dlmon.comparison.compared_run import Curve
from dlmon.figures import units
from dlmon.figures.columns import matches
from dlmon.figures.report.curves import (
    EPOCHS,
    RATES,
    STEPS,
    TIME,
    X_AXES,
    Progress,
    along,
    curves_of,
    metric_in_words,
    progress_of,
    unit_of,
)
from dlmon.figures.session.phases import reading_text
from dlmon.figures.value_axis import nice_step
from dlmon.metric_files.file_session import FileSession, group_of
from dlmon.session.learning import LOSS, MOST_METRICS
from dlmon.session.source import SLICE_S, SessionSource, read_to_end
from dlmon.statistics.series import Series
from tui.drawing.time_axis import WHOLE_RUN, RunSpan, TimeWindow, ViewLength
from tui.machine.machine import grid_columns
from tui.metrics.curve_chart import (
    NO_SMOOTHING,
    SMOOTHING,
    CurveChart,
    CurveStyle,
    sign_of,
    values_of,
)
from tui.screens.base import BACK, TickingScreen, hidden
from tui.screens.chart_screen import AXIS, CURSOR, NEXT_VIEW, ChartsScreen
from tui.screens.filtered import CLEAR_FILTER, FILTER, FilteredScreen
from tui.screens.panes import ALONE, PanesScreen
from tui.widgets.chart import ChartPicture
from tui.widgets.lines import first_parts, fit

_LEAST_WIDTH, _LEAST_HEIGHT = 38, 7
_NOTHING_YET = "no metric yet: the loss comes with the first steps, others as they are reported"
_NOTHING_EVER = "no metric was reported"
_HOW_TO_REPORT = "a loop of your own reports with dlmon.step(loss=loss)"
_MOST_NAMED = 3
# Stands for a run that doesn't report a quantity, so that each run's value keeps its place.
_NO_CURVE = Curve(Series(), 0)
_NO_MATCH = "no metric has such a name"
# A quantity of the machine within these of its lowest value is steady: in % of the whole for a
# share, else as a part of that value.
_STEADY_PCT, _STEADY_PART = 10.0, 0.05
_STEADY, _BETWEEN = "steady: ", ", "
_MOST_CHARTS = 60
_ALL_GROUPS = ""
_APART, _LEAST_NAME, _LEGEND_ROWS = "   ", 8, 3
_INTERVAL_NS, _LEAST_SPAN = 1_000_000_000, 0.05
# On a grid of so many columns, the loss has two rows and two columns.
_LEAST_WITH_LARGE = 3
_MIB_PER_GIB = 1024
# A chart this much wider than the narrowest has a time axis of its own.
_WIDE = 1.5


class ChartGrid(VerticalScroll, can_focus=False, inherit_bindings=False):
    """Charts that scroll with the chosen one; the screen handles the arrow keys."""


class MetricsScreen(PanesScreen, ChartsScreen, TickingScreen, FilteredScreen):
    """A chart for each metric of one or several runs, the newest values in its border.

    It reads the logs itself only if it `reads`: a live screen below does that otherwise.
    """

    CSS_PATH = "metrics.tcss"
    ALLOW_IN_MAXIMIZED_VIEW = "#runs, KeyFooter, TooSmall"
    HELP_PAGES = (Path(__file__).with_name("metrics.md"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        replace(ALONE, tooltip="Show the chosen chart alone, or all again"),
        FILTER,
        # Before "Back", which has the same key while there is no filter.
        CLEAR_FILTER,
        Binding("x", "next_x_axis", "Axis", tooltip="Over time, steps, epochs or tokens"),
        Binding("y", "log", "Log", tooltip="A logarithmic axis for metrics, or a linear one"),
        Binding("b", "smooth", "Smooth", tooltip="Smooth curves lightly, strongly, or not"),
        NEXT_VIEW,
        *CURSOR,
        hidden("escape", "escape", "Back to all", "Remove the cursor, then see the whole run"),
        hidden("m", "leave", "Back"),
        hidden("g", "next_group", "Group", "Show only one group of metrics, such as perf/, or all"),
        hidden("up", "choose(-1)", "Chart above", "Choose the chart above"),
        hidden("down", "choose(1)", "Chart below", "Choose the chart below"),
        hidden("tab", "choose_pane(1)", "Next chart", "Choose the next chart"),
        hidden("shift+tab", "choose_pane(-1)", "Previous chart", "Choose the chart before"),
        *AXIS,
        *BACK,
    ]

    def __init__(
        self, sources: Sequence[SessionSource], names: Sequence[str], *, reads: bool = False
    ) -> None:
        super().__init__()
        self._sources, self._given_names, self._reads = sources, names, reads
        self._charts: dict[str, CurveChart] = {}
        self._typed = ""
        self._group = _ALL_GROUPS
        self._groups: Sequence[str] = ()
        self._left_out = 0
        """The number of charts that are not shown, because there are too many."""
        self._written: dict[str, str | Content] = {}
        """The texts above the charts."""
        self._steady_text = ""
        """What hardly moved in the only run."""
        self._x_axis = TIME
        self._ranges: dict[tuple[int, str], tuple[int, float, float]] = {}
        """By run and quantity: until when it was looked at, its lowest and its highest value."""
        self._progress: Sequence[Progress | None] = ()
        self._progress_read_to: tuple[object, ...] = ()
        self._unit_ns = 1e9
        """The length on the axis that stands for one step, epoch or token."""
        self._style = CurveStyle()
        self.window = TimeWindow(ViewLength.WHOLE)

    def compose_parts(self) -> ComposeResult:
        yield Static(id="runs")
        yield Static(id="steady", markup=False)
        yield self.filter_field
        yield Static(id="nothing")
        yield ChartGrid(id="charts")

    def on_mount(self) -> None:
        if self._reads:
            self.run_worker(self._read)

    async def _read(self) -> None:
        for source in self._sources:
            source.poll()
            await read_to_end(source, lambda share: self._show_runs(reading_text(share)))
        self.tick()

    def tick(self) -> None:
        if self._reads:
            for source in self._sources:
                source.poll(SLICE_S)
        super().tick()

    # ---- the time that is shown ----

    def _start_ns(self, source: SessionSource) -> int:
        """Return the start of a run's time: the session's, or with several runs the training's."""
        session = source.session
        if len(self._sources) == 1 or session.training_start is None:
            return session.header.t
        return session.training_start

    @property
    def run(self) -> RunSpan:
        """The time, or the count, from the start to the end of the longest run."""
        lengths = [source.now() - self._start_ns(source) for source in self._sources]
        running = any(source.running for source in self._sources)
        longest_ns = max(1, *lengths)
        counts = [progress.counts[-1] for progress in self._progress if progress]
        if counts:
            # About as long as the run, so that zooming has the same steps; rounded, so that it
            # seldom changes.
            self._unit_ns = nice_step(longest_ns / max(counts))
            longest_ns = int(max(counts) * self._unit_ns)
        return RunSpan(0, max(1, longest_ns), running, _INTERVAL_NS)

    def _x_axes(self) -> list[str]:
        sessions = [source.session for source in self._sources]
        counts = [x for x in X_AXES[1:] if any(progress_of(each, x) for each in sessions)]
        return counts if counts and self._lacks_times else [TIME, *counts]

    @property
    def _files(self) -> list[FileSession]:
        """The runs that other programs have recorded."""
        sessions = (source.session for source in self._sources)
        return [session for session in sessions if isinstance(session, FileSession)]

    @property
    def _names(self) -> list[str]:
        """The names of the runs; a file may tell its own only as it is read."""
        sessions = (source.session for source in self._sources)
        return [
            session.points.name if isinstance(session, FileSession) else name
            for name, session in zip(self._given_names, sessions, strict=True)
        ]

    @property
    def _lacks_times(self) -> bool:
        return any(file.points.metrics and not file.has_times for file in self._files)

    def _along_axis(
        self, curves: Mapping[str, Curve], progress: Progress | None
    ) -> Mapping[str, Curve]:
        """Return the curves of a run along the axis; none if it has no such count."""
        if self._x_axis == TIME:
            return curves
        if progress is None:
            return {}
        return {name: along(curve, progress, self._unit_ns) for name, curve in curves.items()}

    @property
    def _visible_charts(self) -> list[CurveChart]:
        if isinstance(self.maximized, CurveChart):
            return [self.maximized]
        return [chart for chart in self._charts.values() if chart.display]

    @property
    def plot_columns(self) -> int:
        return min((chart.plot_columns for chart in self._visible_charts), default=0)

    # ---- what is painted ----

    def paint(self) -> None:
        """Draw the visible charts and the legend of the runs."""
        if not self.has_parts:
            return
        if self._x_axis == TIME and self._lacks_times:
            self._x_axis = self._x_axes()[0]
        until = (self._x_axis, *(source.session.last_t for source in self._sources))
        if until != self._progress_read_to:
            self._progress_read_to = until
            self._progress = [
                None if self._x_axis == TIME else progress_of(source.session, self._x_axis)
                for source in self._sources
            ]
        run, over_steps = self.run, self._x_axis == STEPS
        of_time = [
            {
                name: _in_gibibytes(curve)
                for name, curve in curves_of(
                    source.session, self._start_ns(source), over_steps
                ).items()
            }
            for source in self._sources
        ]
        of_runs = list(map(self._along_axis, of_time, self._progress))
        curves = {
            name: [(number, of_run.get(name, _NO_CURVE)) for number, of_run in enumerate(of_runs)]
            for name in dict.fromkeys(name for of_run in of_runs for name in of_run)
        }
        # What is searched for has its chart.
        unsearched = [] if self._typed else curves
        steady = [name for name in unsearched if self._is_steady(name, of_time)]
        if len(steady) == len(curves):
            # Flat charts say more than an empty screen.
            steady = []
        self._show_steady(steady, of_time)
        self._lay_out({name: curves[name] for name in curves if name not in steady}, [*curves])
        columns = self.plot_columns
        if columns < 1:
            self._show_runs("")
            return
        shared = self.window.axis(run, columns)
        for name, chart in self._charts.items():
            if chart in self._visible_charts and chart.is_on_screen:
                is_wide = chart.plot_columns > _WIDE * columns
                axis = self.window.axis(run, chart.plot_columns) if is_wide else shared
                labels = axis.time_elapsed(0)
                if self._x_axis != TIME:
                    labels = axis.counted(self._unit_ns)
                cursor = self.window.cursor_column(axis)
                chart.axes = shared, axis
                # Of a metric, any change may matter; of the machine, not that of a thousandth.
                has_unit = any(curve.unit for _, curve in curves[name])
                chart.show_curves(
                    name,
                    curves[name],
                    axis,
                    ChartPicture(cursor=cursor, times=labels.unlabelled),
                    "no value in this time",
                    least_span=_LEAST_SPAN if has_unit else 0.0,
                    style=self._style,
                    labels=labels,
                )
        self._show_runs(self._window_text())

    def paint_window(self) -> None:
        self.paint()

    @property
    def panes(self) -> tuple[str, ...]:
        """No pane can be hidden, other than by the filter."""
        return ()

    def arrange_panes(self) -> None:
        self.call_after_refresh(self.tick)

    def _lay_out(self, names: Collection[str], order: Sequence[str]) -> None:
        """Show a chart for each name that matches the filter; the grid scrolls if it must."""
        grid = self.query_one(ChartGrid)
        groups = list(dict.fromkeys(filter(None, map(group_of, names))))
        # A single group leaves nothing to choose from.
        self._groups = groups if len(groups) > 1 else []
        names = list(filter(self._is_searched, names))
        self._left_out = max(0, len(names) - _MOST_CHARTS)
        names = names[:_MOST_CHARTS]
        new = [name for name in names if name not in self._charts]
        for name in new:
            self._charts[name] = CurveChart()
            self._charts[name].can_focus = True
        for name, chart in self._charts.items():
            chart.display = name in names
        shown = [chart for chart in self._charts.values() if chart.display]
        count = len(shown)
        self.query_one("#nothing").display = not count
        self._write("#nothing", _NO_MATCH if self._typed else self._no_metric)
        most = max(1, grid.size.width // _LEAST_WIDTH)
        has_large = most >= _LEAST_WITH_LARGE and count > _LEAST_WITH_LARGE and LOSS in names[:1]
        for number, chart in enumerate(shown):
            cells = 2 if has_large and not number else 1
            chart.styles.column_span = chart.styles.row_span = cells
        cells = count + 3 * has_large
        columns = grid_columns(cells, *grid.size)
        if not 0 < columns <= most:
            columns = min(most, max(1, count))
        has_room = -(-cells // columns) * _LEAST_HEIGHT <= grid.size.height
        grid.styles.grid_size_columns = columns
        grid.styles.grid_rows = "1fr" if has_room else str(_LEAST_HEIGHT)
        if new:
            grid.mount_all([self._charts[name] for name in new])
            # What comes later has its place among the others: a loss before the machine.
            known = [name for name in order if name in self._charts]
            gone = [name for name in self._charts if name not in known]
            self._charts = {name: self._charts[name] for name in (*known, *gone)}
            places = {chart: place for place, chart in enumerate(self._charts.values())}
            grid.sort_children(key=lambda chart: places[chart])  # type: ignore[index]
            self.call_after_refresh(self._mounted)

    def _is_searched(self, name: str) -> bool:
        """Return whether a metric is of the chosen group, and has the typed words in its names."""
        if self._group not in (_ALL_GROUPS, group_of(name)):
            return False
        recorded = (raw for file in self._files for raw in file.names_of(name))
        return matches((metric_in_words(name), *recorded), self._typed)

    def _mounted(self) -> None:
        """Focus the first chart if none is focused, and draw the charts in their new sizes."""
        if self.focused is None and self._visible_charts:
            self.set_focus(self._visible_charts[0])
        self.paint()

    def _window_text(self) -> str:
        """Say how the curves are drawn, and which part is shown, or where the cursor is."""
        run, columns = self.run, self.plot_columns
        axis = self.window.axis(run, columns)
        start, end = map(self._place_text, (axis.start_ns, axis.end_ns))
        if (read_ns := self.window.read_ns(axis)) is not None:
            part = f"at {self._place_text(read_ns)}"
        elif self.window.is_paused(run, columns):
            part = f"{start} – {end}, f follows"
        else:
            part = self.window.shown_part(run, columns)
            if part == WHOLE_RUN:
                part = ""
            elif self._x_axis != TIME:
                part = f"{start} – {end}"
        style = self._style
        sessions = (source.session for source in self._sources)
        counts = [len(s.learning.names) for s in sessions if not isinstance(s, FileSession)]
        most = max(counts, default=0)
        if any(file.points.names_left_out for file in self._files):
            most = max(len(file.points.metrics) for file in self._files)
        problems = dict.fromkeys(file.points.problem for file in self._files)
        parts = (
            *(problem or "" for problem in problems),
            self._no_metric,
            f"the first {most:,} metrics" * (most >= MOST_METRICS),
            f"{self._left_out:,} more charts: / searches" * bool(self._left_out),
            self._group_text,
            f"over {self._x_axis}",
            "log y" * style.is_log,
            f"{style.smoothing} smoothing" * (style.smoothing != NO_SMOOTHING),
            part,
            self._zoom_note,
        )
        text = _BETWEEN.join(filter(None, parts))
        room = self.size.width - 2 - len(text) - len(_APART)
        steady = first_parts(self._steady_text, room, _BETWEEN)
        return f"{text}{_APART}{steady}" if steady and len(steady) <= room else text

    @property
    def _no_metric(self) -> str:
        """Say that there is no metric; a script is told how to report one, a workload does it."""
        sessions = [source.session for source in self._sources]
        if any(session.learning.names for session in sessions):
            return ""
        is_running = any(source.running for source in self._sources)
        is_script = any(session.header.is_script for session in sessions)
        text = _NOTHING_YET if is_running else _NOTHING_EVER
        return f"{text}{f'; {_HOW_TO_REPORT}' * is_script}"

    def _is_steady(self, name: str, of_runs: Sequence[Mapping[str, Curve]]) -> bool:
        """Return whether a quantity of the machine hardly moved in any run, and differs in none."""
        curves = {number: curves[name] for number, curves in enumerate(of_runs) if name in curves}
        unit = unit_of([*curves.values()])
        if not unit or unit in RATES:
            return False
        ends: list[float] = []
        for number, curve in curves.items():
            since, *known = self._ranges.get((number, name), (0,))
            until = curve.series.end_ns or 0
            known += curve.series.extremes(since, until) or ()
            if known:
                self._ranges[number, name] = until, min(known), max(known)
            ends += known
        most = _STEADY_PCT if unit == "%" else _STEADY_PART * min(ends, default=0.0)
        return not ends or max(ends) - min(ends) <= most

    def _show_steady(self, names: Sequence[str], of_runs: Sequence[Mapping[str, Curve]]) -> None:
        """Write the values of what is steady in one row, in place of flat charts."""
        texts = []
        for name in names:
            values, unit = values_of(name, [of_run.get(name, _NO_CURVE) for of_run in of_runs])
            texts.append(f"{name} {values} {unit}".rstrip())
        row = first_parts(_BETWEEN.join(texts), self.size.width - 2 - len(_STEADY), _BETWEEN)
        is_alone = len(of_runs) == 1
        # The row above has room beside the axis of one run.
        self._steady_text = f"{_STEADY}{row}" if texts and is_alone else ""
        self.query_one("#steady").display = bool(texts) and not is_alone
        self._write("#steady", f"{_STEADY}{row}")

    def _write(self, selector: str, text: str | Content) -> None:
        """Write a text unless it stands there: each update lays the screen out."""
        if text != self._written.get(selector):
            self._written[selector] = text
            self.query_one(selector, Static).update(text)

    @property
    def _group_text(self) -> str:
        if self._group != _ALL_GROUPS:
            return f"group {self._group}/"
        if not self._groups:
            return ""
        named = " ".join(f"{group}/" for group in self._groups[:_MOST_NAMED])
        more = f" and {len(self._groups) - _MOST_NAMED} more" * (len(self._groups) > _MOST_NAMED)
        return f"groups {named}{more}: g shows one"

    def _place_text(self, t_ns: int) -> str:
        if self._x_axis == TIME:
            return units.clock(t_ns / 1e9)
        count = t_ns / self._unit_ns
        if self._x_axis == EPOCHS:
            return f"{f'{count:,.1f}'.removesuffix('.0')} epochs"
        return f"{count:,.0f} {self._x_axis}"

    def _show_runs(self, text: str) -> None:
        """Write the legend of the runs, and a text after it, in up to `_LEGEND_ROWS` rows."""
        width = max(_LEAST_NAME, self.size.width - 2)
        own_names = self._names
        if len(own_names) == 1:
            # The screen below says which session it is.
            text = _APART.join(filter(None, (own_names[0] if self._files else "", text)))
            self.query_one("#runs").display = bool(text)
            self._write("#runs", Content.styled(text, "$text-muted 60%"))
            return
        signs = [sign_of(number) for number in range(len(own_names))]
        for most in range(width - _LEAST_NAME, _LEAST_NAME, -_LEAST_NAME):
            names = [fit(first_parts(name, most, ", "), most).rstrip() for name in own_names]
            texts = [f"{sign} {name}" for (sign, _), name in zip(signs, names, strict=True)]
            apart = _between([*texts, text], width)
            if apart.count("\n") < _LEGEND_ROWS:
                break
        parts = [
            Content.assemble(Content.styled(sign, hue), " ", name, between)
            for (sign, hue), name, between in zip(signs, names, apart, strict=True)
        ]
        runs_text = Content.assemble(*parts, Content.styled(text, "$text-muted 60%"))
        self._write("#runs", runs_text)

    # ---- what keys do ----

    def action_next_x_axis(self) -> None:
        """Draw over the next axis that the runs have; a part that was zoomed to is left."""
        axes = self._x_axes()
        if len(axes) == 1:
            self.notify("these runs have no steps, epochs or tokens yet: x is the time")
        self._x_axis = axes[(axes.index(self._x_axis) + 1) % len(axes)]
        self.window = TimeWindow(ViewLength.WHOLE)
        self.paint()

    def action_next_group(self) -> None:
        """Show the metrics of the next group, which is named before a `/`; after the last, all."""
        groups = [_ALL_GROUPS, *self._groups]
        if len(groups) == 1:
            self.notify("there are no two groups: a group is what is before a / in a name")
        at = groups.index(self._group) if self._group in groups else 0
        self._group = groups[(at + 1) % len(groups)]
        self.filter(self._typed)

    def action_log(self) -> None:
        self._style = replace(self._style, is_log=not self._style.is_log)
        self.paint()

    def action_smooth(self) -> None:
        names = list(SMOOTHING)
        after = names.index(self._style.smoothing) + 1
        self._style = replace(self._style, smoothing=names[after % len(names)])
        self.paint()

    def action_choose(self, rows: int) -> None:
        """Focus the nearest chart below, or above if `rows` is negative."""
        charts = self._visible_charts
        if (focused := self.focused) in charts:
            here = focused.virtual_region
            there = [
                (abs(region.y - here.y), region.x, number)
                for number, region in enumerate(chart.virtual_region for chart in charts)
                if (region.y - here.y) * rows > 0
                and region.x < here.right
                and here.x < region.right
            ]
            if there:
                self.set_focus(charts[min(there)[-1]])
        elif charts:
            self.set_focus(charts[0])

    def on_descendant_focus(self) -> None:
        """Draw the charts that scrolled into view."""
        self.call_after_refresh(self.paint)

    def filter(self, typed: str) -> None:
        self._typed = typed
        self.paint()
        self.call_after_refresh(self.paint)

    @property
    def focused_without_filter(self) -> CurveChart | None:
        return next(iter(self._visible_charts), None)

    def action_escape(self) -> None:
        """Remove the cursor, or else show the whole run, or else go back."""
        if self.window.cursor_ns is not None:
            super().action_escape()
        elif self.window != (whole := TimeWindow(ViewLength.WHOLE)):
            self._show_window(whole)
        else:
            self.action_leave()


def _in_gibibytes(curve: Curve) -> Curve:
    if curve.unit != "MiB":
        return curve
    return replace(curve, unit="GiB", factor=curve.factor / _MIB_PER_GIB)


def _between(texts: Sequence[str], width: int) -> list[str]:
    """Return what stands between texts side by side: a gap, or a new line if a text is too long."""
    between, taken = [], cell_len(texts[0])
    for text in texts[1:]:
        taken += len(_APART) + cell_len(text)
        between.append(_APART if taken <= width else "\n")
        taken = taken if taken <= width else cell_len(text)
    return between
