"""The comparison over the whole screen, and all that is known of one of its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.run_comparison import Comparison, row_details
from dlmon.figures.sections import Figures
from tui.live.comparison.bars import ComparisonBars
from tui.screens.base import HELP, PALETTE, QUIT, THEME, TickingScreen
from tui.widgets.section_lines import SectionLines


class ComparisonScreen(TickingScreen):
    """The rows of a comparison, one of which is chosen; below them what is known of it.

    Args:
        look: returns the comparison as it stands.
        chosen: the row to begin with; None begins with what this run is compared with.
    """

    CSS_PATH = "comparison.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Choose", key_display="↑↓", tooltip="Choose another row"),
        Binding(
            "enter",
            "compare_with",
            "Compare with it",
            tooltip="Show the factor on the live screen",
        ),
        HELP,
        Binding("q", "leave", "Back", tooltip="Go back"),
        THEME,
        Binding("c,escape", "leave", "Back", show=False),
        Binding("down,j", "move(1)", "Choose the next row", show=False),
        Binding("pageup", "move(-10)", "Ten rows up", show=False),
        Binding("pagedown,space", "move(10)", "Ten rows down", show=False),
        Binding("home", "move(-1000)", "Go to start", show=False),
        Binding("end", "move(1000)", "Go to end", show=False),
        PALETTE,
        QUIT,
    ]

    HELP_PAGES = (Path(__file__).with_name("comparison.md"),)

    def __init__(
        self,
        look: Callable[[], Comparison],
        chosen: ComparisonRow | None = None,
        take: Callable[[ComparisonRow | None], None] = lambda row: None,
    ) -> None:
        """Look at nothing before the screen is shown.

        Args:
            look: returns the comparison as it stands.
            chosen: the row to begin with.
            take: is called with the row that is to be compared with, None for this run's own.
        """
        super().__init__()
        self._take = take
        self._look = look
        self._row = chosen
        self._chosen: int | None = None
        self._bars = ComparisonBars(id="bars", classes="panel")
        self._details = SectionLines(id="details", classes="panel")

    def compose_parts(self) -> ComposeResult:
        """Lay out the rows above the details."""
        yield self._bars
        yield self._details

    def paint(self) -> None:
        """Show the rows, and the chosen one; it stays chosen where others come before it."""
        comparison = self._look()
        rows = comparison.rows
        if not rows:
            return
        chosen = self._find(comparison)
        self._chosen, self._row = chosen, rows[chosen]
        self._bars.border_title = comparison.title
        self._bars.show(comparison)
        self._bars.border_subtitle = self._bars.scale
        self._bars.choose(chosen)
        row = rows[chosen]
        details = row_details(row, comparison.result_of(row))
        if row.kind != "this" and row.comparable:
            # What differs stands in a row of its own.
            details = [("this run", comparison.against(row)), *details]
        name = comparison.name_of(row) if row.kind != "this" else row.label
        self._details.set_titles(name)
        self._details.show(Figures("", tuple(details)))

    def _find(self, comparison: Comparison) -> int:
        """Return where the chosen row stands now; at first what this run is compared with."""
        rows = comparison.rows
        if self._row is not None:
            key = (self._row.kind, self._row.reference)
            same = [n for n, row in enumerate(rows) if (row.kind, row.reference) == key]
            if same:
                return same[0]
        if self._chosen is None:
            first = comparison.chosen or comparison.before or comparison.this
            return 0 if first is None else rows.index(first)
        return min(self._chosen, len(rows) - 1)

    def action_compare_with(self) -> None:
        """Compare with the chosen row from now on, and go back."""
        row = self._row
        self._take(None if row is None or row.kind == "this" else row)
        self.action_leave()

    def action_move(self, rows: int) -> None:
        """Choose another row; up is negative."""
        self._row, self._chosen = None, max(0, (self._chosen or 0) + rows)
        self.paint()

    def on_comparison_bars_pointed(self, message: ComparisonBars.Pointed) -> None:
        """Choose the row that was clicked."""
        self._row = message.row
        self.paint()
