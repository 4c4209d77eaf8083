"""The screen that compares two sides of recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.sides import NotComparable, RunComparison
from dlmon.figures.comparison.side_rows import describe_sides
from dlmon.figures.sections import Note
from dlmon.log.folder import LogError
from dlmon.session.run_figures import OnRead, compare_logs
from tui.drawing.time_axis import TimeAxis
from tui.messages import ShowMetrics
from tui.metrics.curve_chart import SIGNS, CurveChart
from tui.screens.base import HELP, PALETTE, QUIT, THEME, hidden
from tui.screens.chart_screen import METRICS
from tui.screens.export import EXPORT, ExportControls
from tui.screens.starting import read_in_thread
from tui.widgets.tables import SectionLines

Read = Callable[[Sequence[Path], Sequence[Path], OnRead], RunComparison]

_BASE, _NEW = 1, 0
"""The line style of each side: the base is dashed."""
_LEGEND = f"{SIGNS[_BASE]} base  {SIGNS[_NEW]} new"
_TWO_UNITS = "not drawn over each other: some runs count steps, others samples"
_HOW_TO = "Press Enter to see them side by side anyway."


class CompareScreen(ExportControls):
    """The verdict, a table of both sides, and their throughput over each other.

    Args:
        base: the logs of one side.
        new: the logs of the other side.
        read: returns the comparison, as `compare_logs` does; it runs in a thread.
    """

    CSS_PATH = "compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓", tooltip="Scroll the table"),
        Binding("enter", "anyway", "Anyway", tooltip="Compare runs of different work anyway"),
        METRICS,
        EXPORT,
        Binding("ctrl+l", "refresh", "Refresh", tooltip="Read the sessions again"),
        HELP,
        Binding("q", "leave", "Back", tooltip="Go back"),
        THEME,
        hidden("escape", "leave", "Back"),
        hidden("down,j", "scroll(1)", "Scroll down"),
        hidden("pageup", "page(-1)", "Page up"),
        hidden("pagedown,space", "page(1)", "Page down"),
        hidden("home", "page(-1000)", "Go to start"),
        hidden("end", "page(1000)", "Go to end"),
        PALETTE,
        QUIT,
    ]
    HELP_PAGES = (Path(__file__).with_name("compare.md"),)

    def __init__(
        self, base: Sequence[Path], new: Sequence[Path], read: Read = compare_logs
    ) -> None:
        super().__init__()
        self._base, self._new, self._read_sides = base, new, read
        self._comparison: RunComparison | None = None
        self._anyway = False
        self._chart = CurveChart(id="curves")
        self._table = SectionLines(id="sides", classes="panel")

    @property
    def exported_logs(self) -> Sequence[Path]:
        return (*self._base, *self._new)

    def compose_parts(self) -> ComposeResult:
        yield self._table
        yield self._chart

    def on_mount(self) -> None:
        """Read the sessions once the screen is painted."""
        self._table.set_titles("Compare")
        self.call_after_refresh(self.action_refresh)

    def action_refresh(self) -> None:
        self.run_worker(self._read_both, exclusive=True)

    async def _read_both(self) -> None:
        if self._comparison is None:
            self._show_share(0.0)
        try:
            read_sides = partial(self._read_sides, self._base, self._new)
            self._comparison = await read_in_thread(read_sides, self._show_share)
        except (LogError, NotComparable) as error:
            self._comparison = None
            self._show_sentence(str(error))
            self._chart.display = False
        else:
            self._show(self._comparison)
        self.refresh_bindings()

    def _show_share(self, share: float) -> None:
        if self._comparison is None:
            self._show_sentence(f"reading the sessions: {100 * share:.0f} %")

    def _show_sentence(self, sentence: str) -> None:
        self._table.show(Note((sentence,), "list"))

    def _show(self, comparison: RunComparison) -> None:
        how_to = [Note((_HOW_TO,))] if comparison.unlike and not self._anyway else []
        self._table.show(*describe_sides(comparison, self._anyway), *how_to)
        self._chart.display = True
        self._draw_curves()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_curves)

    def _draw_curves(self) -> None:
        """Draw the throughput of all runs, each from its first batch on."""
        if self._comparison is None:
            return
        sides = self._comparison.base, self._comparison.new
        curves = [
            (number, run.curve)
            for number, side in zip((_BASE, _NEW), sides, strict=False)
            for run in side
            if run.curve is not None
        ]
        count = self._chart.plot_columns
        span_ns = max((curve.end_ns - curve.start_ns for _, curve in curves), default=0)
        axis = TimeAxis(0, max(1, span_ns // max(1, count)), count, count)
        units = sorted({curve.unit for _, curve in curves})
        if len(units) > 1:
            self._chart.show_curves("Throughput", (), axis, reason=_TWO_UNITS, right="")
            return
        reason = "no throughput over time was recorded"
        title = ", ".join(("Throughput", *units))
        self._chart.show_curves(title, curves, axis, reason=reason, right=_LEGEND, least_span=0.1)

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

    def action_metrics(self) -> None:
        self.post_message(ShowMetrics(self.exported_logs))

    def action_scroll(self, lines: int) -> None:
        self._table.scroll_lines(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by pages; up is negative."""
        self._table.scroll_pages(pages)
