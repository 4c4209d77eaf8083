"""The comparison of a session with published figures and earlier runs: a panel and a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from dlmon.comparison.references import ComparisonRow
from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import (
    timing_of,
    why_no_time,
)
from dlmon.figures.comparison.run_rows import (
    Comparison,
    SessionComparison,
    basis_of,
    comparison_bars,
    facts_of_epoch,
    row_details,
)
from dlmon.figures.comparison.verdicts import in_doubt
from dlmon.figures.sections import Bar, Figures
from dlmon.figures.value_axis import bar_lengths
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from tui.drawing.plot import thick_bar
from tui.screens.base import HELP, PALETTE, QUIT, THEME, TickingScreen
from tui.widgets.lines import (
    ACCENT,
    BRIGHT,
    CHOSEN,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    TextRun,
    beside,
    cut,
    digits_of,
    fit,
    fitting,
    shows,
    wrapped,
)
from tui.widgets.tables import ScrollingLines, SectionLines

_MARKERS = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_NOTE = "italic $text-warning"
_MARKER_CELLS = 2
_GAP = "  "
# Bars get at least a fifth of the width before notes get any.
_LEAST_BAR_DIVISOR = 5


class ComparisonBars(ScrollingLines):
    """Rows of label, bar, value and notes, scrolled to this run or to the chosen row."""

    @dataclass
    class RowClicked(Message):
        """Posted when a row is clicked."""

        row: ComparisonRow

    scale = ""
    """A note on the scale of the bars, unless that is linear."""
    _compared: Sequence[ComparisonRow] = ()
    _bars: tuple[Bar, ...] = ()
    _fractions: tuple[float, ...] = ()
    _instead = ""
    _reference: int | None = None
    _chosen: int | None = None
    _scrolled = False

    def show(self, comparison: Comparison, instead: str = "") -> None:
        """Show a comparison, or the text `instead` if that is given."""
        section = comparison_bars(comparison)
        self._bars, self._instead = section.bars, instead
        self._compared = comparison.rows
        has_bars = sum(map(is_alike, section.bars)) > 1
        values = [bar.value if has_bars and is_alike(bar) else 0.0 for bar in section.bars]
        self._fractions, is_logarithmic = bar_lengths(values)
        self.scale = "logarithmic scale" * is_logarithmic
        chosen = comparison.chosen
        self._reference = None if chosen is None else comparison.rows.index(chosen)
        self.redraw()

    def choose(self, index: int) -> None:
        """Choose a row; scroll to it if it is not the present one."""
        if index != self._chosen:
            self._chosen, self._scrolled = index, False
            self.redraw()

    def scroll_lines(self, delta: int) -> None:
        self._scrolled = True
        super().scroll_lines(delta)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = None if offset is None else self.index_at(offset.y, len(self._bars))
        if index is not None:
            self.post_message(self.RowClicked(self._compared[index]))

    def draw(self, width: int, height: int) -> list[TextRow]:
        if self._instead or not self._bars:
            return [((text, MUTED),) for text in wrapped(self._instead, width, height)]
        if not self._scrolled:
            this_run = (n for n, bar in enumerate(self._bars) if kind_of(bar) == "this")
            centre = next(this_run, 0) if self._chosen is None else self._chosen
            self._first = min(centre, len(self._bars) - 1) - height // 2
        in_view = self.in_view(len(self._bars), height)
        inner = width - 2 if self.scrolls else width
        rows = [cut(self._row(index, inner), inner) for index in in_view]
        return self.with_thumb(rows, len(self._bars), width)

    def _row(self, index: int, width: int) -> TextRow:
        bars, bar = self._bars, self._bars[index]
        kind, alike = kind_of(bar), is_alike(bar)
        value_cells = max(cell_len(bar.text) for bar in bars)
        label_cells = max(cell_len(bar.label) for bar in bars)
        room = width - _MARKER_CELLS - 1 - len(_GAP) - value_cells
        label_cells = min(label_cells, width // 2, max(0, room))
        room -= label_cells
        most = min(room // 2, room - max(10, width // _LEAST_BAR_DIVISOR))
        is_brief = max(cell_len(_note(bar)) for bar in bars) > most
        note_cells = max(0, min(most, max(cell_len(_note(bar, is_brief)) for bar in bars)))
        bar_cells = max(0, room - note_cells - (len(_GAP) if note_cells else 0))
        marker = "◆" if index == self._reference else _MARKERS[kind]
        style, bar_style = STRONG if kind == "this" else PLAIN, _BAR_STYLES[kind]
        note_style = _NOTE if bar.note and alike else MUTED
        bar_text = thick_bar(self._fractions[index], bar_cells)
        if not alike:
            style = bar_style = MUTED
            bar_text = fit(bar.note, bar_cells)
        if index == self._chosen:
            style, marker = CHOSEN, marker.strip() or "▸"
        return (
            (f"{marker} {fit(bar.label, label_cells)} ", style),
            (bar_text, bar_style),
            (f"{_GAP}{' ' * (value_cells - cell_len(bar.text))}{bar.text}", style),
            (_GAP * bool(note_cells) + fit(_note(bar, is_brief), note_cells), note_style),
        )


def kind_of(bar: Bar) -> str:
    """Return the kind of a bar: `this`, `earlier`, `published` or `own`."""
    return "own" if "own" in bar.kind.split() else bar.kind.split()[0]


def is_alike(bar: Bar) -> bool:
    """Return True if a bar is of the same work as this run."""
    return "other" not in bar.kind.split()


def _note(bar: Bar, is_brief: bool = False) -> str:
    """Return the notes of a bar; the warnings of this run are in the headline instead."""
    note = bar.note if is_alike(bar) and kind_of(bar) != "this" else ""
    return _GAP.join(filter(None, (note, *bar.more[: 1 if is_brief else None])))


_APART = 3
# From this height on the figure has large digits, with three rows beside them.
_LARGE_HEIGHT = 4


class EpochHeadline(Lines):
    """The figure that is compared, in large digits if they fit, and its basis."""

    DEFAULT_CSS = """
    EpochHeadline { height: 2; }
    .-tall EpochHeadline, .-high EpochHeadline { height: 4; }
    """
    SCOPED_CSS = False

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        nearest: str,
        against: str = "",
        status: Status = Status.RUNNING,
        chosen: bool = False,
    ) -> list[TextRow]:
        """Return a session's figures, compared with a published number and with an earlier run.

        Args:
            width: of the panel.
            height: of the panel.
            snapshot: of the session.
            nearest: the factor to the nearest published number.
            against: the factor to an earlier run, or to the chosen row.
            status: of the session.
            chosen: whether a person chose that row, which then comes first.
        """
        timing = timing_of(snapshot)
        factors = [_sentence(text, width) for text in (nearest, against) if text]
        if timing is None:
            lines = wrapped(why_no_time(snapshot, status), width - _APART, height)
            return [*beside("–  ", lines or [""], MUTED, ACCENT), *factors]
        basis: TextRun = (basis_of(snapshot), MUTED)
        facts = tuple((fact, MUTED) for fact in facts_of_epoch(snapshot))
        if height < _LARGE_HEIGHT:
            row = fitting(((units.band(timing), ACCENT), basis, *facts), width, _APART)
            return [row, *(reversed(factors) if chosen else factors)]
        figure = units.with_band(timing)
        spread = f"{figure.spread} {f'({units.UNCERTAIN})' * figure.is_uncertain}".rstrip()
        digits = digits_of(figure.number.replace(",", ""))
        marks = ("  ", "~ ", "  ") if timing.projected else ("",) * len(digits)
        room = width - len(marks[0]) - len(digits[0]) - _APART
        # Each has its own row, so that none moves when another one appears.
        figures = [
            fitting(((f"{figure.unit} {spread}".rstrip(), STRONG), basis), room, _APART),
            fitting(facts, room, _APART),
            _sentence(nearest, room),
        ]
        rows = [
            ((mark + text + " " * _APART, ACCENT), *row)
            for mark, text, row in zip(marks, digits, figures, strict=True)
        ]
        return [*rows, _sentence(against, width)]

    show = shows(rows)


def _sentence(sentence: str, width: int) -> TextRow:
    """Return a sentence, without the interval at its end if that doesn't fit."""
    text, bracket, interval = sentence.rpartition(" (")
    if not sentence.endswith(")"):
        text, bracket, interval = sentence, "", ""
    runs = ((text, MUTED), (f"{bracket}{interval}".lstrip(), MUTED))
    return fitting(runs[: 2 if interval else 1], width, 1)


class ComparisonPanel(Vertical):
    """The headline and the bars of this run's comparison."""

    def __init__(self) -> None:
        super().__init__(id="compared", classes="panel")
        self.border_title = "Seconds per epoch"
        self._headline, self._bars = EpochHeadline(), ComparisonBars()

    def compose(self) -> ComposeResult:
        yield self._headline
        yield self._bars

    def show(self, snapshot: Snapshot, comparison: SessionComparison, status: Status) -> None:
        """Show the present comparison of a session."""
        brief = comparison.in_short(snapshot)
        validity = snapshot.validity
        chosen = brief.chosen
        against = brief.against_before() if chosen is None else brief.against(chosen)
        nearest = brief.against_nearest()
        self._headline.show(snapshot, nearest, against, status, chosen is not None)
        self._bars.show(brief, brief.alone() if comparison.is_known else "")
        warnings = in_doubt(validity.warnings if validity is not None else ())
        below = warnings or self._bars.scale
        if (self.border_title, self.border_subtitle) != (brief.title, below):
            self.border_title, self.border_subtitle = brief.title, below


class ComparisonScreen(TickingScreen):
    """The rows of a comparison, and below them the details of the chosen one.

    Args:
        get_comparison: returns the present comparison.
        chosen: the row to begin with; None begins with this run's reference.
        refer_to: is called with the row to compare with; with None for this run's own choice.
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
        get_comparison: Callable[[], Comparison],
        chosen: ComparisonRow | None = None,
        refer_to: Callable[[ComparisonRow | None], None] = lambda row: None,
    ) -> None:
        super().__init__()
        self._refer_to = refer_to
        self._get_comparison = get_comparison
        self._row = chosen
        self._chosen: int | None = None
        self._bars = ComparisonBars(id="bars", classes="panel")
        self._details = SectionLines(id="details", classes="panel")

    def compose_parts(self) -> ComposeResult:
        yield self._bars
        yield self._details

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
        row = rows[chosen]
        details = row_details(row, comparison.result_of(row))
        if row.kind != "this" and row.comparable:
            details = [("this run", comparison.against(row)), *details]
        name = comparison.name_of(row) if row.kind != "this" else row.label
        self._details.set_titles(name)
        self._details.show(Figures("", tuple(details)))

    def _find(self, comparison: Comparison) -> int:
        """Return the index of the chosen row; at first, that of this run's reference."""
        rows = comparison.rows
        if self._row is not None:
            key = (self._row.kind, self._row.reference)
            for index, row in enumerate(rows):
                if (row.kind, row.reference) == key:
                    return index
        if self._chosen is None:
            first = comparison.chosen or comparison.before or comparison.this
            return 0 if first is None else rows.index(first)
        return min(self._chosen, len(rows) - 1)

    def action_compare_with(self) -> None:
        """Make the chosen row this run's reference, and go back."""
        row = self._row
        self._refer_to(None if row is None or row.kind == "this" else row)
        self.action_leave()

    def action_move(self, rows: int) -> None:
        """Move the choice by rows; negative rows go up."""
        self._row, self._chosen = None, max(0, (self._chosen or 0) + rows)
        self.paint()

    def on_comparison_bars_row_clicked(self, message: ComparisonBars.RowClicked) -> None:
        self._row = message.row
        self.paint()
