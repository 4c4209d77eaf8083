"""The screen that compares two sides of recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from dlmon.comparison.compared_run import Curve, RunFigures
from dlmon.comparison.sides import NotComparable, NoThroughput, RunComparison
from dlmon.figures.comparison.side_rows import (
    SAME,
    describe_sides,
    signs_text,
    verdict_in_short,
)
from dlmon.figures.sections import Figures, Note, Section
from dlmon.log.folder import LogError
from dlmon.render.lines import lines_of
from dlmon.session.run_figures import OnRead, compare_logs
from tui.drawing.time_axis import TimeAxis
from tui.messages import ShowMetrics
from tui.metrics.curve_chart import SIGNS, CurveChart
from tui.screens.base import BACK, PAGE_KEYS, hidden
from tui.screens.chart_screen import METRICS
from tui.screens.export import EXPORT, ExportControls
from tui.screens.starting import read_in_thread
from tui.widgets.headline import Headline
from tui.widgets.lines import BAD, GOOD, STRONG
from tui.widgets.tables import MARGIN, SectionLines

Read = Callable[[Sequence[Path], Sequence[Path], OnRead], RunComparison]

_BASE, _NEW = 1, 0
"""The line style of each side: the base is dashed."""
_LEGEND = f"{SIGNS[_BASE]} base  {SIGNS[_NEW]} new"
# A narrower table says only how many figures are the same, and no loss is drawn below it.
_WIDTH_FOR_SAME = 100
_HOW_TO = "Press Enter to see them side by side anyway."


KEYS: tuple[BindingType, ...] = (
    METRICS,
    EXPORT,
    Binding("ctrl+l", "refresh", "Refresh", tooltip="Read the sessions again"),
    *PAGE_KEYS,
    *BACK,
)
"""The keys of a table of two sides, after those of the screen."""


class ComparedScreen(ExportControls):
    """A table of both sides, as `dlmon compare` prints it, and their curves over each other."""

    HELP_PAGES: ClassVar[tuple[Path, ...]] = (Path(__file__).with_name("compare.md"),)
    _anyway = False
    _table_rows = 0

    def __init__(
        self, base: Sequence[Path], new: Sequence[Path], read: Read = compare_logs
    ) -> None:
        super().__init__()
        self._base, self._new, self._read_sides = base, new, read
        self._comparison: RunComparison | None = None
        self._headline = Headline(id="headline")
        self._table = SectionLines(id="sides", classes="panel")
        self._chart, self._losses = CurveChart(id="curves"), CurveChart(id="losses")
        self._charts = Horizontal(self._chart, self._losses, id="charts")
        self._charts.display = self._chart.display = False

    def compose_parts(self) -> ComposeResult:
        yield self._headline
        yield self._table
        yield self._charts

    @property
    def exported_logs(self) -> Sequence[Path]:
        return (*self._base, *self._new)

    def action_refresh(self) -> None:
        self.run_worker(self._read_both, exclusive=True)

    async def _read_both(self) -> None:
        if self._comparison is None:
            self._show_share(0.0)
        try:
            read_sides = partial(self._read_sides, self._base, self._new)
            self._comparison = await read_in_thread(read_sides, self._show_share)
        except NoThroughput as refused:
            self._comparison = refused.comparison
        except (LogError, NotComparable) as error:
            self._comparison = None
            self._show_sentence(str(error))
        if self._comparison is not None:
            self._show(self._comparison)
        self._draw_curves()
        self.refresh_bindings()

    def on_chart_plot_resized(self) -> None:
        self._draw_curves()

    def _draw_curves(self) -> None:
        """Draw the throughput of all runs, and beside it their losses, where there is room."""
        self._draw(self._chart, "Throughput", lambda run: run.curve, least_span=0.1)
        self._draw(self._losses, "Loss", lambda run: run.loss)
        self._losses.display &= self.size.width >= _WIDTH_FOR_SAME
        self._charts.display = self._chart.display

    def _draw(
        self,
        chart: CurveChart,
        title: str,
        curve_of: Callable[[RunFigures], Curve | None],
        least_span: float = 0.0,
    ) -> None:
        """Draw a quantity of all runs, each from its first batch on, if it has one unit."""
        sides = (self._comparison.base, self._comparison.new) if self._comparison else ()
        curves = [
            (number, curve)
            for number, side in zip((_BASE, _NEW), sides, strict=False)
            for curve in map(curve_of, side)
            if curve is not None
        ]
        units = {curve.unit for _, curve in curves}
        chart.display = len(units) == 1 and len({side for side, _ in curves}) == len(sides)
        if chart.display:
            count = chart.plot_columns
            span_ns = max(curve.end_ns - curve.start_ns for _, curve in curves)
            axis = TimeAxis(0, max(1, span_ns // max(1, count)), count, count)
            title = ", ".join(filter(None, (title, *units)))
            chart.show_curves(title, curves, axis, right=_LEGEND, least_span=least_span)

    def _show_share(self, share: float) -> None:
        if self._comparison is None and self._base:
            self._show_sentence(f"reading the sessions: {100 * share:.0f} %")

    def _show_sentence(self, sentence: str) -> None:
        self._headline.display = False
        self._table.show(Note((sentence,), "list"))

    def _show(self, comparison: RunComparison) -> None:
        how_to = [Note((_HOW_TO,))] if comparison.unlike and not self._anyway else []
        # The border names both sides.
        names, verdict, *sections = describe_sides(comparison, self._anyway)
        is_refused = bool(comparison.unlike) and not self._anyway
        self.answer(
            "NOT COMPARED" if is_refused else verdict_in_short(comparison),
            getattr(verdict, "sentences", ()),
        )
        base, new = (": ".join(row) for row in getattr(names, "rows", ()))
        signs = "" if is_refused else signs_text(comparison)
        (workload, *others) = {run.workload for run in (*comparison.base, *comparison.new)}
        self._put_titles(base, new, "  ".join(filter(None, (signs, "" if others else workload))))
        shown = (*map(self._in_short, sections), *how_to)
        self._table.show(*shown)
        self._table_rows = len([*lines_of(shown, self.size.width - MARGIN - 1)])

    def _in_short(self, section: Section) -> Section:
        """Return a section, or in a narrow table the number of figures that are the same."""
        if self.size.width >= _WIDTH_FOR_SAME or getattr(section, "heading", "") != SAME:
            return section
        count = len(section.rows) if isinstance(section, Figures) else 0
        return Note((f"{count} other figures are about the same.",))

    def on_resize(self) -> None:
        if self._comparison is not None:
            self._show(self._comparison)

    def answer(self, word: str, sentences: Sequence[str]) -> None:
        """Show the verdict above the table."""
        self._headline.display = True
        is_slow, is_fast = word.startswith("SLOWER"), word.startswith("FASTER")
        # The sentence may begin with the very words.
        told = f"New is {word.partition(' ')[2]} as {'slow' if is_slow else 'fast'} as base in "
        rest = [
            f"new against base {text.removeprefix(told).partition(' ')[2]}"
            if text.startswith(told)
            else text.removeprefix(word.capitalize()).lstrip()
            for text in sentences
        ]
        self._headline.show(word, rest, BAD if is_slow else GOOD if is_fast else STRONG)

    def _put_titles(self, base: str, new: str, signs: str) -> None:
        self._table.set_titles(base, signs, right=new)

    def action_metrics(self) -> None:
        self.post_message(ShowMetrics(self.exported_logs))

    def action_scroll(self, lines: int) -> None:
        self._table.scroll_lines(lines)

    def action_page(self, pages: int) -> None:
        self._table.scroll_pages(pages)


class CompareScreen(ComparedScreen):
    """Two sides of recorded runs."""

    CSS_PATH = "compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓", tooltip="Scroll the table"),
        Binding("enter", "anyway", "Anyway", tooltip="Compare runs of different work anyway"),
        hidden("down,j", "scroll(1)", "Scroll down"),
        hidden("home", "page(-1000)", "Go to start"),
        hidden("end", "page(1000)", "Go to end"),
        *KEYS,
    ]

    def on_mount(self) -> None:
        """Read the sessions once the screen is painted."""
        self._table.set_titles("Compare")
        self.call_after_refresh(self.action_refresh)

    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "anyway": "the figures are shown already",
    }

    def _draw_curves(self) -> None:
        """Leave the charts the room that the table doesn't need."""
        super()._draw_curves()
        self._table.styles.max_height = self._table_rows + 2 if self._charts.display else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to compare anyway only if the runs differ in their work."""
        if action == "anyway":
            unlike = self._comparison is not None and bool(self._comparison.unlike)
            return unlike and not self._anyway
        return True

    def action_anyway(self) -> None:
        self._anyway = True
        if self._comparison is not None:
            self._show(self._comparison)
        self.refresh_bindings()
