"""The screen that compares a session with an earlier run or a published figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.references import ComparisonRow
from dlmon.figures.comparison import verdicts
from dlmon.figures.comparison.run_rows import Comparison, row_details
from dlmon.figures.comparison.side_rows import figures_of_run
from dlmon.figures.sections import Figures
from tui.compare.compare_screen import KEYS, ComparedScreen
from tui.live.comparison import ComparisonBars
from tui.screens.base import TickingScreen, hidden

# The table has these rows before the bars have more than a few; from some height on, there is
# room for the throughput of both runs too.
_TABLE_ROWS, _FEW, _HIGH = 18, 3, 36
_MOST_ROWS = 24
_PUBLISHED = "of this to compare with: the bars are published figures."


class ComparisonScreen(ComparedScreen, TickingScreen):
    """This run beside the chosen row as `dlmon compare` prints them, and all rows as bars.

    It begins with the `chosen` row, or with this run's reference. It calls `refer_to` with the row
    to compare with; with None for this run's own choice.
    """

    CSS_PATH = "comparison.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Choose", key_display="↑↓", tooltip="Choose another row"),
        Binding(
            "enter",
            "compare_with",
            "Keep as base",
            tooltip="Compare with it from now on, on the live screen too",
        ),
        Binding(
            "pagedown,space", "page(1)", "Scroll", key_display="PgDn", tooltip="Scroll the table"
        ),
        hidden("c", "leave", "Back"),
        hidden("down,j", "move(1)", "Choose the next row"),
        hidden("home", "move(-1000)", "Go to start"),
        hidden("end", "move(1000)", "Go to end"),
        *KEYS,
    ]
    HELP_PAGES = (*ComparedScreen.HELP_PAGES, Path(__file__).with_name("comparison.md"))
    # The bars say which rows are of other work.
    _anyway = True

    def __init__(
        self,
        get_comparison: Callable[[], Comparison],
        log: Path,
        chosen: ComparisonRow | None = None,
        refer_to: Callable[[ComparisonRow | None], None] = lambda row: None,
    ) -> None:
        super().__init__((), (log,))
        self._refer_to = refer_to
        self._get_comparison = get_comparison
        self._row = chosen
        self._chosen: int | None = None
        self._bars = ComparisonBars(id="bars", classes="panel")

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield self._bars

    def paint(self) -> None:
        """Show the rows and the chosen one, which stays chosen when rows are added."""
        comparison = self._get_comparison()
        rows = comparison.rows
        if not rows:
            return
        chosen = self._find(comparison)
        self._chosen, self._row = chosen, rows[chosen]
        self._bars.border_title = comparison.title
        self._bars.show(comparison)
        self._bars.border_subtitle = self._bars.scale
        self._bars.choose(chosen)
        self._show_row(comparison, rows[chosen])
        self.refresh_bindings()

    def _show_row(self, comparison: Comparison, row: ComparisonRow) -> None:
        """Show this run beside an earlier one, or the details of another row."""
        name = comparison.name_of(row) if row.kind != "this" else row.label
        entry = comparison.earlier.get(row.session or "")
        base = () if entry is None else (entry.path,)
        if base and base != self._base:
            self._table.set_titles(f"base {name}", right="new this run")
            self._comparison = None
            self._base = base
            self.action_refresh()
        self._base = base
        # Beside the few lines about a row that is no run, the bars have the room.
        rows = min(len(comparison.rows), max(_FEW, (self.size.height - _TABLE_ROWS) // 2))
        self._bars.styles.height = 2 + rows if base else 2 + len(comparison.rows)
        self._table.styles.max_height = _MOST_ROWS
        if entry is None:
            self.workers.cancel_node(self)
            self._table.set_titles(name)
            is_this = row.kind == "this"
            details = row_details(row, comparison.snapshot.result if is_this else None)
            if is_this and (run := comparison.runs.get(row.session or "")) is not None:
                details += figures_of_run(run, row.metric)
            self._comparison = None
            self._charts.display = False
            self._headline.display = not is_this or not comparison.earlier
            if is_this:
                self._headline.show("NO EARLIER RUN", [_PUBLISHED])
            else:
                self.answer(verdicts.in_short(comparison.factor(row)), [comparison.against(row)])
            self._table.styles.max_height = len(details) + 2
            self._table.show(Figures("", tuple(details)))

    def _put_titles(self, base: str, new: str, signs: str) -> None:
        """Keep the names that the bars have."""
        self._table.border_subtitle = signs

    def _find(self, comparison: Comparison) -> int:
        """Return the index of the chosen row; at first, that of this run's reference."""
        rows = comparison.rows
        if self._row is not None:
            key = (self._row.kind, self._row.reference)
            for index, row in enumerate(rows):
                if (row.kind, row.reference) == key:
                    return index
        if self._chosen is None:
            first = comparison.chosen or comparison.before or comparison.nearest or comparison.this
            return 0 if first is None else rows.index(first)
        return min(self._chosen, len(rows) - 1)

    def action_compare_with(self) -> None:
        """Make the chosen row this run's reference, or say why it can't be."""
        row = self._row
        if row is not None and row.kind != "this" and not row.comparable:
            self.notify(self._get_comparison().against(row), severity="warning", markup=False)
            return
        is_this = row is None or row.kind == "this"
        self._refer_to(None if is_this else row)
        self.paint()

    WHY_NOT: ClassVar[Mapping[str, str]] = {"compare_with": "choose another row first: ↑↓"}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to keep a row only where that changes what this run is compared with."""
        if action != "compare_with" or self._row is None:
            return True
        comparison = self._get_comparison()
        if self._row.kind == "this":
            return comparison.reference is not None
        return comparison.reference != self._row.reference

    def name_of_action(self, action: str) -> str:
        is_reset = action == "compare_with" and self._row is not None and self._row.kind == "this"
        return "Reset base" if is_reset else super().name_of_action(action)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_curves)

    def _draw_curves(self) -> None:
        super()._draw_curves()
        self._charts.display &= self.size.height >= _HIGH

    def action_move(self, rows: int) -> None:
        self._row, self._chosen = None, max(0, (self._chosen or 0) + rows)
        self.paint()

    def on_comparison_bars_row_clicked(self, message: ComparisonBars.RowClicked) -> None:
        self._row = message.row
        self.paint()
