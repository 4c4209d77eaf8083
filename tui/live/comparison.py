"""The comparison of a session with published figures and earlier runs: a panel and a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from dlmon.comparison.references import INCLUDES_COMPILE, ComparisonRow
from dlmon.figures import units
from dlmon.figures.comparison.run_rows import (
    PUBLISHED,
    Comparison,
    SessionComparison,
    basis_of,
    comparison_bars,
    facts_of_epoch,
)
from dlmon.figures.sections import Bar
from dlmon.figures.session.compared_figure import timing_of, why_no_time
from dlmon.figures.session.doubts import in_doubt
from dlmon.figures.value_axis import bar_lengths
from dlmon.records import Status
from dlmon.session.snapshot import Snapshot
from tui.drawing.plot import thick_bar
from tui.widgets.lines import (
    ACCENT,
    BRIGHT,
    CHOSEN,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    beside,
    cut,
    digits_of,
    fit,
    fitting,
    fitting_parts,
    shows,
    wrapped,
)
from tui.widgets.tables import ScrollingLines

_MARKERS = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_NOTE = "italic $text-warning"
_MARKER_CELLS = 2
_GAP = "  "
# A note in place of a bar is left out if it has no room, and not cut to less than this.
_LEAST_NOTE = 12
# Bars get at least a fifth of the width before notes get any.
_LEAST_BAR_DIVISOR = 5
_LONGEST_LABEL = 0.55


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
    _reference: int | None = None
    _chosen: int | None = None
    _scrolled = False
    _first_shown: frozenset[int] = frozenset()

    def show(self, comparison: Comparison) -> None:
        section = comparison_bars(comparison)
        self._bars = section.bars
        self._compared = comparison.rows
        has_bars = sum(map(is_alike, section.bars)) > 1
        values = [bar.value if has_bars and is_alike(bar) else 0.0 for bar in section.bars]
        self._fractions, is_logarithmic = bar_lengths(values)
        self.scale = "logarithmic scale" * is_logarithmic
        chosen = comparison.chosen
        self._reference = None if chosen is None else comparison.rows.index(chosen)
        this = comparison.this
        distance = {
            n: abs(row.value - this.value)
            for n, row in enumerate(comparison.rows)
            if this is not None and row.kind in ("this", "published")
        }
        self._first_shown = frozenset(sorted(distance, key=distance.__getitem__)[:2])
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
            row = self._compared[self._in_order(self.size.height)[index]]
            self.post_message(self.RowClicked(row))

    def _in_order(self, height: int) -> list[int]:
        """Return the rows, where few fit those of this run, the chosen and the nearest first."""
        rows = [*range(len(self._bars))]
        if self._chosen is None or not height < len(rows):
            return rows
        first = {self._chosen, *self._first_shown}
        return sorted(rows, key=lambda n: n not in first) if height <= len(first) else rows

    def draw(self, width: int, height: int) -> list[TextRow]:
        if not self._bars:
            return []
        order = self._in_order(height)
        if not self._scrolled:
            this_run = (n for n, row in enumerate(self._compared) if row.kind == "this")
            centre = next(this_run, 0) if self._chosen is None else self._chosen
            self._first = order.index(min(centre, len(self._bars) - 1)) - height // 2
        in_view = self.in_view(len(self._bars), height)
        inner = width - 2 if self.scrolls else width
        rows = [cut(self._row(order[index], inner), inner) for index in in_view]
        return self.with_thumb(rows, len(self._bars), width)

    def _row(self, index: int, width: int) -> TextRow:
        bars, bar = self._bars, self._bars[index]
        kind, alike = kind_of(bar), is_alike(bar)
        value_cells = max(cell_len(bar.text) for bar in bars)
        label_cells = max(cell_len(bar.label) for bar in bars)
        room = width - _MARKER_CELLS - 1 - len(_GAP) - value_cells
        label_cells = min(label_cells, round(_LONGEST_LABEL * width), max(0, room))
        room -= label_cells
        most = min(room // 2, room - max(10, width // _LEAST_BAR_DIVISOR))
        compared = [*zip(bars, self._compared, strict=True)]
        is_brief = max(cell_len(_note(*each)) for each in compared) > most
        notes = [fitting_parts(_note(*each, is_brief), most) for each in compared]
        note_cells = max(map(cell_len, notes))
        bar_cells = max(0, room - note_cells - (len(_GAP) if note_cells else 0))
        marker = "◆" if index == self._reference else _MARKERS[kind]
        style, bar_style = STRONG if kind == "this" else PLAIN, _BAR_STYLES[kind]
        note_style = _NOTE if bar.note and alike else MUTED
        bar_text = thick_bar(self._fractions[index], bar_cells)
        if not alike:
            style = bar_style = MUTED
            # Without room it names the other work, and not this run's.
            reason = (
                bar.note if cell_len(bar.note) <= bar_cells else bar.note.partition(", not ")[0]
            )
            fits = bar_cells >= min(_LEAST_NOTE, cell_len(reason))
            bar_text = fit(next(iter(wrapped(reason, bar_cells, 1)), "") * fits, bar_cells)
        if index == self._chosen:
            style, marker = CHOSEN, marker.strip() or "▸"
        return (
            (f"{marker} {fit(bar.label, label_cells)} ", style),
            (bar_text, bar_style),
            (f"{_GAP}{' ' * (value_cells - cell_len(bar.text))}{bar.text}", style),
            (_GAP * bool(note_cells) + fit(notes[index], note_cells), note_style),
        )


def kind_of(bar: Bar) -> str:
    """Return the kind of a bar: `this`, `earlier`, `published` or `own`."""
    return "own" if "own" in bar.kind.split() else bar.kind.split()[0]


def is_alike(bar: Bar) -> bool:
    """Return True if a bar is of the same work as this run."""
    return "other" not in bar.kind.split()


def _note(bar: Bar, row: ComparisonRow, is_brief: bool = False) -> str:
    """Return the notes of a bar; the warnings of this run are in the headline instead."""
    note = bar.note if is_alike(bar) and kind_of(bar) != "this" else ""
    if row.includes_compile:
        note = "with compile"
    return _GAP.join(filter(None, (note, *bar.more[: 1 if is_brief else None])))


_APART = 3
# From this height on the figure has large digits, with three rows beside them.
_LARGE_HEIGHT = 4


class EpochHeadline(Lines):
    """The figure that is compared, in large digits if they fit, and its basis."""

    DEFAULT_CSS = """
    EpochHeadline { height: 2; }
    .-large EpochHeadline { height: 4; }
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
    ) -> list[TextRow]:
        """Return a session's figures, compared with a published number and with an earlier run.

        `against` is the factor to an earlier run, or to the row that a person has chosen; it comes
        first where only one has room.
        """
        timing = timing_of(snapshot)
        compared = _sentence(against, width) if against else ()
        factors = [_sentence(nearest, width)] if nearest else []
        factors += [compared] if compared else []
        if timing is None:
            lines = wrapped(why_no_time(snapshot, status), width - _APART, height)
            return [*beside("–  ", lines or [""], MUTED, ACCENT), *factors]
        # What keeps it from being compared is said once.
        is_said = nearest == INCLUDES_COMPILE and (height >= _LARGE_HEIGHT or not compared)
        basis = () if is_said else ((basis_of(snapshot), MUTED),)
        facts = tuple((fact, MUTED) for fact in facts_of_epoch(snapshot))
        if height < _LARGE_HEIGHT:
            figure_and_basis = ((units.band(timing), ACCENT), *basis)
            if not factors:
                return [fitting(runs, width, _APART) for runs in (figure_and_basis, facts)]
            return [fitting((*figure_and_basis, *facts), width, _APART), *reversed(factors)]
        figure = units.with_band(timing)
        spread = f"{figure.spread} {f'({units.UNCERTAIN})' * figure.is_uncertain}".rstrip()
        digits = digits_of(figure.number.replace(",", ""))
        marks = ("  ", "~ ", "  ") if timing.projected else ("",) * len(digits)
        room = width - len(marks[0]) - len(digits[0]) - _APART
        # Each has its own row, so that none moves when another one appears.
        figures = [
            fitting(((f"{figure.unit} {spread}".rstrip(), STRONG), *basis), room, _APART),
            fitting(facts, room, _APART),
            _sentence(nearest, room),
        ]
        rows = [
            ((mark + text + " " * _APART, ACCENT), *row)
            for mark, text, row in zip(marks, digits, figures, strict=True)
        ]
        return [*rows, compared]

    show = shows(rows)


def _sentence(sentence: str, width: int) -> TextRow:
    """Return a sentence, without its interval if that has no room; nothing without the other."""
    text, bracket, interval = sentence.rpartition(" (")
    if not sentence.endswith(")"):
        text, bracket, interval = sentence, "", ""
    if cell_len(text) > width:
        if " from " in text:
            return ()
        text = text.replace(f" {PUBLISHED}", " ")
    runs = ((text, MUTED), (f"{bracket}{interval}".lstrip(), MUTED))
    return fitting(runs[: 2 if interval else 1], width, 1)


class ComparisonPanel(Vertical):
    """The figure, and the bars of this run and those beside it."""

    bars = 0
    """The rows of the comparison; 0 if there is nothing to compare with."""

    def __init__(self) -> None:
        super().__init__(id="comparison", classes="panel")
        self.border_title = "Seconds per epoch"
        self._headline, self._bars = EpochHeadline(), ComparisonBars()

    def compose(self) -> ComposeResult:
        yield self._headline
        yield self._bars

    def show(
        self, snapshot: Snapshot, comparison: SessionComparison, status: Status, is_said: bool
    ) -> None:
        """Show a session; how it compares, in words, unless the headline says so."""
        brief = comparison.in_short(snapshot)
        validity = snapshot.validity
        chosen = brief.chosen
        against = brief.against_before() if chosen is None else brief.against(chosen)
        texts = ("", "") if is_said else (brief.against_nearest(), against)
        self._headline.show(snapshot, *texts, status)
        # The headline says why published figures don't compare.
        rows = [r for r in brief.rows if r.comparable or r.kind != "published" or r is chosen]
        self.bars = len(rows) if len(rows) > 1 else 0
        self._bars.display = self.bars > 0
        # Beside "this run", a time is enough.
        names = {id: name.removeprefix("run of ") for id, name in brief.names.items()}
        self._bars.show(replace(brief, rows=tuple(rows), names=names))
        warnings = in_doubt(validity.warnings if validity is not None else ())
        has_room = self.size.height > self._headline.size.height
        below = warnings or self._bars.scale * has_room
        if (self.border_title, self.border_subtitle) != (brief.title, below):
            self.border_title, self.border_subtitle = brief.title, below
