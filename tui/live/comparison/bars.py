"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures import units
from dlmon.figures.comparison import Reference, doubts_said_once, row_of
from dlmon.figures.value_axis import bar_fractions
from tui.drawing.plot import thick_bar
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import ACCENT, BRIGHT, CHOSEN, MUTED, PLAIN, STRONG, cut, wrapped
from tui.widgets.rows import TextRow, fit

BarStyle = Literal["published", "own", "earlier", "this"]

NOT_COMPARABLE = "not comparable with this run:"


_MARKERS = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_TEXT_STYLES = {"published": PLAIN, "own": PLAIN, "earlier": PLAIN, "this": STRONG}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_NOTE: tuple[str, ...] = ("comparison-bars--note",)
_MARKER_CELLS = 2
_GAP = "  "
_SHORTEST_BAR = 10
_LEAST_NOTE = 12
"""In fewer cells than these, what differs would say nothing."""


@dataclass(frozen=True)
class BarRow:
    """One row. `fraction` is of the longest bar, None where there is no number to draw.

    `note` is what a person should know of the value. One that is not `alike` was measured with
    other work: what differs, its note, takes the place of the bar. `more` has a place only in a
    wide row, and an empty one for each of its texts.
    """

    label: str
    fraction: float | None
    value: str
    style: BarStyle = "published"
    note: str = ""
    more: tuple[str, ...] = ()
    alike: bool = True
    is_reference: bool = False


class _Cells(NamedTuple):
    """The cells of each column."""

    label: int
    bar: int
    value: int
    notes: tuple[int, ...]


class ComparisonBars(ScrollingLines):
    """Rows of label, bar, value and notes around this run, or around the one that is chosen."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"comparison-bars--note"}
    DEFAULT_CSS = """
    ComparisonBars > .comparison-bars--note { color: $text-warning; text-style: italic; }
    """

    @dataclass
    class Pointed(Message):
        """A row was clicked: the one of this index."""

        index: int

    _bars: tuple[BarRow, ...] = ()
    _below = _instead = ""
    _chosen: int | None = None
    _scrolled = False

    def show(self, bars: tuple[BarRow, ...], below: str = "", instead: str = "") -> None:
        """Show bars from top to bottom.

        Args:
            bars: the rows.
            below: what there is to say of all of them.
            instead: what is said where there is nothing to compare with.
        """
        if (bars, below, instead) != (self._bars, self._below, self._instead):
            self._bars, self._below, self._instead = bars, below, instead
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
        lines = self._lines()
        line = self.index_at(event.y, len(lines))
        index = None if line is None else lines[line]
        if index is not None:
            self.post_message(self.Pointed(index))

    def _lines(self) -> list[int | None]:
        """Return which bar stands in each line; None is the heading of those of other work."""
        unlike = [n for n, bar in enumerate(self._bars) if not bar.alike and bar.style != "this"]
        lines: list[int | None] = [*range(len(self._bars))]
        if unlike and unlike[0] > 0:
            lines.insert(unlike[0], None)
        return lines

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows in view, and below them what is to be said of all."""
        if self._instead or not self._bars:
            texts = wrapped(self._instead, width, height)
            return [((text, MUTED),) for text in texts]
        below: list[TextRow] = (
            [((" " * _MARKER_CELLS + self._below, MUTED),)] if self._below else []
        )
        lines, room = self._lines(), max(1, height - len(below))
        if not self._scrolled:
            self._first = lines.index(self._centre) - room // 2
        seen = self.in_view(len(lines), room)
        inner = width - 2 if self.scrolls else width
        cells = self._share_out(inner)
        rows = [
            ((" " * _MARKER_CELLS + NOT_COMPARABLE, MUTED),) if n is None else self._row(n, cells)
            for n in (lines[line] for line in seen)
        ]
        rows = self.with_thumb([cut(row, inner) for row in rows], len(lines), width)
        return [*rows, *(cut(row, width) for row in below)][:height]

    @property
    def _centre(self) -> int:
        """The row that is to be seen: the chosen one, else this run's."""
        this = next((n for n, bar in enumerate(self._bars) if bar.style == "this"), 0)
        return this if self._chosen is None else min(self._chosen, len(self._bars) - 1)

    def _share_out(self, width: int) -> _Cells:
        """Share out the width: notes, the first one first, as far as they leave room for bars."""
        value = max(cell_len(bar.value) for bar in self._bars)
        free = max(0, width - _MARKER_CELLS - 1 - len(_GAP) - value)
        label = min(max(cell_len(bar.label) for bar in self._bars), width // 2, free)
        free -= label
        notes = []
        for texts in zip_longest(*map(_notes, self._bars), fillvalue=""):
            cells = min(max(map(cell_len, texts)), width // 4)
            has_room = free - cells - len(_GAP) >= max(_SHORTEST_BAR, width // 5)
            notes.append(cells if has_room else 0)
            free -= cells + len(_GAP) if cells and has_room else 0
        return _Cells(label, max(0, free), value, tuple(notes))

    def _row(self, index: int, cells: _Cells) -> TextRow:
        bar = self._bars[index]
        marker = _MARKERS[bar.style]
        if bar.is_reference:
            marker = "◆"
        style, bar_style = _TEXT_STYLES[bar.style], _BAR_STYLES[bar.style]
        drawn = thick_bar(bar.fraction, cells.bar)
        if not bar.alike:
            style = bar_style = MUTED
            drawn = fit(bar.note if cells.bar >= _LEAST_NOTE else "", cells.bar)
        if index == self._chosen:
            style = CHOSEN
            marker = marker.strip() or "▸"
        value = " " * (cells.value - cell_len(bar.value)) + bar.value
        first, *others = (
            (_GAP + fit(text, width) if width else "", MUTED)
            for text, width in zip(_notes(bar), cells.notes, strict=False)
        )
        is_note = bool(bar.note) and bar.alike
        return (
            (f"{marker} {fit(bar.label, cells.label)} ", style),
            (drawn, bar_style),
            (_GAP + value, style),
            (first[0], _NOTE if is_note else MUTED),
            *others,
        )


def _notes(bar: BarRow) -> tuple[str, ...]:
    """Return what stands behind a value: the note, or where there is none what is next."""
    year, *more = bar.more or ("",)
    return (bar.note if bar.note and bar.alike else year, *more)


def said_of_all(rows: Sequence[ComparisonRow]) -> str:
    """Return what there is to say of all rows of a comparison at once."""
    _, of_all = doubts_said_once(rows)
    fractions = _fractions(rows)
    longest = max((row.value for row in fractions), default=0.0)
    logarithmic = any(
        not math.isclose(fraction * longest, row.value) for row, fraction in fractions.items()
    )
    return _GAP.join(text for text in ("logarithmic scale" if logarithmic else "", of_all) if text)


def bar_rows(
    rows: Sequence[ComparisonRow],
    names: Mapping[str, str],
    reference: Reference | None = None,
) -> tuple[BarRow, ...]:
    """Return the rows of a comparison as they are drawn.

    `names` are those of earlier sessions, `reference` what was chosen to compare with.

    A run that has no figure to be compared stands above all others, without a bar. What
    `said_of_all` says is not in their notes.
    """
    rows, _ = doubts_said_once(rows)
    fractions = _fractions(rows)
    labels = _published_labels([row for row in rows if row.kind == "published"])
    drawn = []
    referred = row_of(rows, reference)
    # What others cost then is worth a column where this run has a price as well.
    priced = any(row.kind == "this" and row.cost_usd is not None for row in rows)
    if rows and not any(row.kind == "this" for row in rows):
        drawn.append(BarRow(label="this run", fraction=None, value="–", style="this"))
    for row in rows:
        published = row.kind == "published"
        cost = "" if row.cost_usd is None else units.dollars(row.cost_usd)
        source = row.published.source if row.published else ""
        drawn.append(
            BarRow(
                label=labels[row] if published else names.get(row.session or "", row.label),
                fraction=fractions.get(row),
                value=("~" if row.projected else "") + units.duration(row),
                style="own" if row.published and row.published.own else row.kind,  # type: ignore[arg-type]
                # The mark before the value says that it is projected; the headline says the rest
                # of this run.
                note="; ".join(
                    badge
                    for badge in row.badges
                    if row.kind != "this" and not badge.startswith("projected")
                ),
                more=(
                    str(row.year or "") if published else "",
                    *([cost] if priced else ()),
                    row.framework or "",
                    source,
                ),
                alike=row.comparable,
                is_reference=row is referred,
            )
        )
    return tuple(drawn)


def _fractions(rows: Sequence[ComparisonRow]) -> dict[ComparisonRow, float]:
    """Return the length of each bar: of rows that are alike, and only where there are several."""
    alike = [row for row in rows if row.comparable]
    if len(alike) < 2:
        return {}
    return dict(zip(alike, bar_fractions([row.value for row in alike]), strict=True))


def _published_labels(
    rows: Sequence[ComparisonRow],
) -> dict[ComparisonRow, str]:
    """Return short names of devices that still differ from row to row.

    What stands in brackets goes, where all of that name have the same there; of
    several measurements of a device, what their frameworks don't share is added.
    """
    devices = {row: units.device(row.label) for row in rows}
    same_name: dict[str, list[ComparisonRow]] = defaultdict(list)
    for row, device in devices.items():
        same_name[device.partition(" (")[0]].append(row)
    labels = {}
    for name, group in same_name.items():
        if len({devices[row] for row in group}) > 1:
            labels.update({row: devices[row] for row in group})
            continue
        frameworks = [(row.framework or "").split() for row in group]
        shared = _shared_words(frameworks)
        for row, words in zip(group, frameworks, strict=True):
            own = " ".join(words[shared:])
            labels[row] = f"{name}, {own}" if own else name
    return labels


def _shared_words(texts: Sequence[Sequence[str]]) -> int:
    """Return with how many words all texts begin alike."""
    return next(
        (i for i, words in enumerate(zip_longest(*texts)) if len(set(words)) > 1),
        max(map(len, texts)),
    )
