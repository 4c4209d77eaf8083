"""A session among published figures and earlier runs: bars, the panel, and the whole screen."""

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
from dlmon.figures.report.sections import Bar, Figures
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
_LEAST_BAR = 5
"""A bar takes this part of the width at the least, before notes have any."""


class ComparisonBars(ScrollingLines):
    """Rows of label, bar, value and notes around this run, or around the one that is chosen."""

    @dataclass
    class Pointed(Message):
        """A row was clicked."""

        row: ComparisonRow

    scale = ""
    """What to know of how long the bars are."""
    _compared: Sequence[ComparisonRow] = ()
    _bars: tuple[Bar, ...] = ()
    _fractions: tuple[float, ...] = ()
    _instead = ""
    _reference: int | None = None
    _chosen: int | None = None
    _scrolled = False

    def show(self, comparison: Comparison, instead: str = "") -> None:
        """Show a comparison from top to bottom; `instead` is said where there is nothing."""
        section = comparison_bars(comparison)
        self._bars, self._instead = section.bars, instead
        self._compared = comparison.rows
        is_drawn = sum(map(is_alike, section.bars)) > 1
        values = [bar.value if is_drawn and is_alike(bar) else 0.0 for bar in section.bars]
        self._fractions, is_logarithmic = bar_lengths(values)
        self.scale = "logarithmic scale" * is_logarithmic
        chosen = comparison.chosen
        self._reference = None if chosen is None else comparison.rows.index(chosen)
        self.redraw()

    def choose(self, index: int) -> None:
        """Mark a row; where it is another than before, bring it into view."""
        if index != self._chosen:
            self._chosen, self._scrolled = index, False
            self.redraw()

    def scroll_lines(self, delta: int) -> None:
        """Show what is further up or down."""
        self._scrolled = True
        super().scroll_lines(delta)

    def on_click(self, event: events.Click) -> None:
        within = event.get_content_offset(self)
        index = None if within is None else self.index_at(within.y, len(self._bars))
        if index is not None:
            self.post_message(self.Pointed(self._compared[index]))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows in view."""
        if self._instead or not self._bars:
            return [((text, MUTED),) for text in wrapped(self._instead, width, height)]
        if not self._scrolled:
            this = (n for n, bar in enumerate(self._bars) if kind_of(bar) == "this")
            centre = next(this, 0) if self._chosen is None else self._chosen
            self._first = min(centre, len(self._bars) - 1) - height // 2
        seen = self.in_view(len(self._bars), height)
        inner = width - 2 if self.scrolls else width
        rows = [cut(self._row(index, inner), inner) for index in seen]
        return self.with_thumb(rows, len(self._bars), width)

    def _row(self, index: int, width: int) -> TextRow:
        bar = self._bars[index]
        kind, alike = kind_of(bar), is_alike(bar)
        values = max(cell_len(each.text) for each in self._bars)
        labels = max(cell_len(each.label) for each in self._bars)
        room = width - _MARKER_CELLS - 1 - len(_GAP) - values
        labels = min(labels, width // 2, max(0, room))
        room -= labels
        most = min(room // 2, room - max(10, width // _LEAST_BAR))
        is_brief = max(cell_len(_note(each)) for each in self._bars) > most
        notes = max(0, min(most, max(cell_len(_note(each, is_brief)) for each in self._bars)))
        bars = max(0, room - notes - (len(_GAP) if notes else 0))
        marker = "◆" if index == self._reference else _MARKERS[kind]
        style, bar_style = STRONG if kind == "this" else PLAIN, _BAR_STYLES[kind]
        style_of_notes = _NOTE if bar.note and alike else MUTED
        drawn = thick_bar(self._fractions[index], bars)
        if not alike:
            style = bar_style = MUTED
            drawn = fit(bar.note, bars)
        if index == self._chosen:
            style, marker = CHOSEN, marker.strip() or "▸"
        return (
            (f"{marker} {fit(bar.label, labels)} ", style),
            (drawn, bar_style),
            (f"{_GAP}{' ' * (values - cell_len(bar.text))}{bar.text}", style),
            (_GAP * bool(notes) + fit(_note(bar, is_brief), notes), style_of_notes),
        )


def kind_of(bar: Bar) -> str:
    """Return what a bar is of: this run, an earlier one, a published time, or an own one."""
    return "own" if "own" in bar.kind.split() else bar.kind.split()[0]


def is_alike(bar: Bar) -> bool:
    """Return whether a bar is of the same work as this run."""
    return "other" not in bar.kind.split()


def _note(bar: Bar, is_brief: bool = False) -> str:
    """Return what stands behind a value; of this run the headline says what speaks against it."""
    note = bar.note if is_alike(bar) and kind_of(bar) != "this" else ""
    return _GAP.join(filter(None, (note, *bar.more[: 1 if is_brief else None])))


_APART = 3
_LARGE = 4
"""In so many rows the figure has large digits, and three rows beside them."""


class EpochHeadline(Lines):
    """The figure that is compared, large where there is room, and what it rests on."""

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
            nearest: the factor to the published number that is nearest.
            against: that to an earlier run, or to what was chosen.
            status: how the session stands.
            chosen: whether a person chose that, so that it comes first where one has room.
        """
        timing = timing_of(snapshot)
        said = [_sentence(one, width) for one in (nearest, against) if one]
        if timing is None:
            lines = wrapped(why_no_time(snapshot, status), width - _APART, height)
            return [*beside("–  ", lines or [""], MUTED, ACCENT), *said]
        basis: TextRun = (basis_of(snapshot), MUTED)
        facts = tuple((fact, MUTED) for fact in facts_of_epoch(snapshot))
        if height < _LARGE:
            row = fitting(((units.band(timing), ACCENT), basis, *facts), width, _APART)
            return [row, *(reversed(said) if chosen else said)]
        found = units.with_band(timing)
        spread = units.VERY_UNCERTAIN if found.is_very_uncertain else found.spread
        is_about = timing.projected or found.is_very_uncertain
        digits = digits_of(found.number.replace(",", ""))
        marks = ("  ", "~ ", "  ") if is_about else ("",) * len(digits)
        room = width - len(marks[0]) - len(digits[0]) - _APART
        # Each has a place of its own, so that none moves when another one comes.
        figures = [
            fitting(((f"{found.unit} {spread}".rstrip(), STRONG), basis), room, _APART),
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
    """Return a sentence, without the interval at its end where that has no room."""
    text, bracket, interval = sentence.rpartition(" (")
    if not sentence.endswith(")"):
        text, bracket, interval = sentence, "", ""
    runs = ((text, MUTED), (f"{bracket}{interval}".lstrip(), MUTED))
    return fitting(runs[: 2 if interval else 1], width, 1)


class ComparisonPanel(Vertical):
    """This run among others, in short."""

    def __init__(self) -> None:
        super().__init__(id="compared", classes="panel")
        self.border_title = "Seconds per epoch"
        self._headline, self._bars = EpochHeadline(), ComparisonBars()

    def compose(self) -> ComposeResult:
        yield self._headline
        yield self._bars

    def show(self, snapshot: Snapshot, comparison: SessionComparison, status: Status) -> None:
        """Show how a session compares as it stands."""
        shown = comparison.in_short(snapshot)
        validity = snapshot.validity
        chosen = shown.chosen
        against = shown.against_before() if chosen is None else shown.against(chosen)
        nearest = shown.against_nearest()
        self._headline.show(snapshot, nearest, against, status, chosen is not None)
        self._bars.show(shown, shown.alone() if comparison.is_known else "")
        doubts = in_doubt(validity.against if validity is not None else ())
        below = doubts or self._bars.scale
        if (self.border_title, self.border_subtitle) != (shown.title, below):
            self.border_title, self.border_subtitle = shown.title, below


class ComparisonScreen(TickingScreen):
    """The rows of a comparison, one of which is chosen; below them what is known of it."""

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
            chosen: the row to begin with; None begins with what this run is compared with.
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
