"""The screen that puts two sides of recorded runs beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.sides import NotComparable, SidesComparison
from dlmon.figures.sides import (
    ARGUMENTS,
    COLUMNS,
    GAP,
    FigureRow,
    differences,
    doubts,
    figure_rows,
    legends,
    notes,
    shown_columns,
    side_name,
    verdict,
)
from dlmon.log.folder import LogError
from dlmon.session.figures import OnRead, compare_logs
from tui.screens.base import HELP, PALETTE, QUIT, THEME, hidden
from tui.screens.export import EXPORT, ExportControls
from tui.screens.reading import read_in_thread
from tui.sessions.curves import CurvesChart
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import BAD, GOOD, HIGH, MUTED, PLAIN, STRONG, cut, wrapped
from tui.widgets.rows import TextRow, fit

Read = Callable[[Sequence[Path], Sequence[Path], OnRead], SidesComparison]

_STYLES = {True: GOOD, False: BAD, None: PLAIN}
_MOST_LINES = 6


class SidesTable(ScrollingLines):
    """What may be said of two sides, their figures, and what differs."""

    DEFAULT_CLASSES = "panel"

    _comparison: SidesComparison | None = None
    _sentence = ""
    _anyway = False

    def show_sentence(self, sentence: str) -> None:
        """Show a sentence in place of a table."""
        self._comparison, self._sentence = None, sentence
        self.redraw()

    def show(self, comparison: SidesComparison, anyway: bool) -> None:
        """Show a comparison; one of unlike runs only where that was asked for."""
        self._comparison, self._anyway = comparison, anyway
        self.set_titles("Compare")
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows that are in view."""
        if self._comparison is None:
            return _wrapped(self._sentence, width, PLAIN, self.ellipsis)
        rows = self._all_rows(self._comparison, width - 1)
        return self.scrolled([cut(row, width - 1, self.ellipsis) for row in rows], width, height)

    def _all_rows(self, comparison: SidesComparison, width: int) -> list[TextRow]:
        sides: list[TextRow] = [
            ((f"{name:<5}", MUTED), (side_name(side), STRONG))
            for name, side in (("base", comparison.base), ("new", comparison.new))
        ]
        if comparison.unlike and not self._anyway:
            refused = [f"Not comparable: {each}." for each in comparison.unlike]
            refused.append("Press Enter to see them side by side anyway.")
            lines = [line for each in refused for line in self._lines(each, width, PLAIN)]
            return [*sides, (), *lines]
        figures = figure_rows(comparison)
        shown = shown_columns(figures, width)
        table = [_cells(COLUMNS, shown, MUTED)]
        table.extend(_cells(row.cells, shown, _style(row)) for row in figures)
        said = self._lines(verdict(comparison), width, STRONG)
        for doubt in doubts(comparison):
            said.extend(self._lines(doubt, width, HIGH))
        below = [self._lines(text, width, MUTED) for text in legends(figures)]
        for title, texts in differences(comparison, self.glyphs):
            lines = self._lines(f"{title.capitalize()}: {'; '.join(texts)}", width, PLAIN)
            if title == ARGUMENTS:
                # What a person gave to a script is what they compare.
                said.extend(lines)
            else:
                below.append(lines)
        below.extend(self._lines(note, width, MUTED) for note in notes(comparison))
        return [*sides, *said, (), *table, (), *(row for rows in below for row in rows)]

    def _lines(self, text: str, width: int, style: tuple[str, ...]) -> list[TextRow]:
        return _wrapped(text, width, style, self.ellipsis)


def _wrapped(text: str, width: int, style: tuple[str, ...], ellipsis: str) -> list[TextRow]:
    return [((line, style),) for line in wrapped(text, width, _MOST_LINES, ellipsis)]


def _style(row: FigureRow) -> tuple[str, ...]:
    return _STYLES[row.is_better]


def _cells(
    texts: Sequence[str], shown: Sequence[tuple[int, int]], style: tuple[str, ...]
) -> TextRow:
    cells = [
        texts[index].rjust(width) if index else fit(texts[index], width) for index, width in shown
    ]
    return (((" " * GAP).join(cells), style),)


class CompareScreen(ExportControls):
    """Two sides: what may be said, the table, and their throughput over each other.

    Args:
        base: the logs of one side.
        new: those of the other.
        read: returns the comparison, as `compare_logs` does; it runs in a thread.
    """

    CSS_PATH = "compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓", tooltip="Scroll the table"),
        Binding("enter", "anyway", "Anyway", tooltip="Compare runs of different work anyway"),
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
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "Throughput",
            "Samples per second of both sides over the time since each began to train; steps per "
            "second where a script's batches have no known size. The base is dotted. Where a side "
            "has several runs, all of them are drawn. The axis begins at zero, unless all lies in "
            "its upper half.",
        ),
        (
            "change",
            "By how much new differs from base, each the geometric mean of its runs. ~ says that "
            "it isn't significant: the interval beside it holds 0 %. ? says that it wasn't tested: "
            "one run a side can't show how much runs differ from time to time.",
        ),
        (
            "95 % interval",
            "What the true change lies in, in 95 of 100 cases. From two runs a side on it allows "
            "for how runs differ; with one, for how other runs of the same conditions did. Where "
            "there are none, it is of how the two runs varied by themselves, and says nothing of "
            "how runs differ: repeat them (dlmon sweep WORKLOAD --repeat 3).",
        ),
        (
            "p, n",
            "p is how likely such a change would be by chance, n how many runs of base and new "
            "have the figure.",
        ),
        (
            "Not comparable",
            "Runs of another network or script, batch size, precision, mode or data did other "
            "work: their figures don't compare.",
        ),
    )

    def __init__(
        self, base: Sequence[Path], new: Sequence[Path], read: Read = compare_logs
    ) -> None:
        """Read nothing before the screen is shown."""
        super().__init__()
        self._base, self._new, self._read_sides = base, new, read
        self._comparison: SidesComparison | None = None
        self._anyway = False
        self._chart = CurvesChart(id="curves")
        self._table = SidesTable(id="sides")

    @property
    def exported_logs(self) -> Sequence[Path]:
        return (*self._base, *self._new)

    def compose_parts(self) -> ComposeResult:
        """Lay out the table above the curves."""
        yield self._table
        yield self._chart

    def on_mount(self) -> None:
        """Read the sessions once the screen is painted."""
        self._table.set_titles("Compare")
        self.call_after_refresh(self.action_refresh)

    def action_refresh(self) -> None:
        self.run_worker(self._read_both(), exclusive=True)

    async def _read_both(self) -> None:
        if self._comparison is None:
            self._show_share(0.0)
        try:
            read = partial(self._read_sides, self._base, self._new)
            self._comparison = await read_in_thread(read, self._show_share)
        except (LogError, NotComparable) as refused:
            self._comparison = None
            self._table.show_sentence(str(refused))
            self._chart.show((), ())
        else:
            self._show(self._comparison)
        self.refresh_bindings()

    def _show_share(self, share: float) -> None:
        if self._comparison is None:
            self._table.show_sentence(f"reading the sessions: {100 * share:.0f} %")

    def _show(self, comparison: SidesComparison) -> None:
        self._table.show(comparison, self._anyway)
        curves = [
            [run.curve for run in side if run.curve is not None]
            for side in (comparison.base, comparison.new)
        ]
        self._chart.show(*curves)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to compare unlike runs only where they are."""
        if action == "anyway":
            unlike = self._comparison is not None and bool(self._comparison.unlike)
            return unlike and not self._anyway
        return True

    def action_anyway(self) -> None:
        self._anyway = True
        if self._comparison is not None:
            self._show(self._comparison)
        self.refresh_bindings()

    def action_scroll(self, lines: int) -> None:
        self._table.scroll_lines(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by a page; up is negative."""
        self._table.scroll_pages(pages)
