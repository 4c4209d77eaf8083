"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.comparison import compare as comparison
from tui.drawing.bars import thick_bar
from tui.drawing.plot import bar_fractions
from tui.formatting import units
from tui.formatting.comparison import Reference, busy_said_once, difference, row_of
from tui.widgets.following_lines import Wheel
from tui.widgets.lines import ACCENT, BRIGHT, CHOSEN, MUTED, PLAIN, STRONG, Lines, cut, wrapped
from tui.widgets.rows import TextRow, fit

NOT_COMPARABLE = "not comparable with this run:"

BarStyle = Literal["published", "own", "earlier", "this"]

HELP: tuple[tuple[str, str], ...] = (
    (
        "Bars",
        "▶ is this run, ◆ what you chose to compare with (c, Enter), · an earlier run on this "
        "machine, + a reference figure of your own, the rest are published measurements of the "
        "same network on other devices. The shortest bar is the fastest. A click on a row shows "
        "its details.",
    ),
    (
        "logarithmic scale",
        "The times differ so much that equal steps of length stand for equal factors, not for "
        "equal seconds; the numbers beside the bars are what was measured.",
    ),
    (
        "batch 32, not 100",
        "What was different when that number was measured: it was other work, so it stands below "
        "the others (not comparable with this run), without a bar or a factor. Where a note has no "
        "room, (1) stands instead, and the note below the bars.",
    ),
)

_LABEL_SHARE = 0.55
# Where what differs takes the place of bars.
_LABEL_SHARE_BESIDE_WORDS = 0.4
_SHORTEST_BAR, _COMFORTABLE_BAR = 6, 20
_MARKER_WIDTH = 2
_GAP = 2
# With fewer rows, all are for bars.
_LEAST_ROWS_WITH_SCALE = 3
# With fewer rows, none is for what stands above the rows that are not comparable.
_LEAST_ROWS_WITH_HEADING = 6
# One row in so many may be a note below the bars.
_ROWS_PER_NOTE = 3
# Of a text that is cut; less of it says nothing.
_LEAST_OF_NOTE = 20

_MARKERS: dict[BarStyle, str] = {"published": " ", "own": "+", "earlier": "·", "this": "▶"}
_BADGE: tuple[str, ...] = ("comparison-bars--badge",)
_TEXT_STYLES = {"published": PLAIN, "own": PLAIN, "earlier": PLAIN, "this": STRONG}
_BAR_STYLES = {"published": MUTED, "own": BRIGHT, "earlier": BRIGHT, "this": ACCENT}
_ASCII_MARKERS: dict[BarStyle, str] = {"published": " ", "own": "+", "earlier": ".", "this": ">"}


@dataclass(frozen=True)
class BarRow:
    """One row. `fraction` is of the longest bar, None where there is no number to draw.

    `detail` is dropped first where the row is narrow; `badge` says what a person
    should know of the value, and goes below the bars where it has no room beside
    them. One that is not `alike` was measured with other work: what differs, its
    badge, takes the place of the bar. `more` has a place only in a wide row.
    """

    label: str
    fraction: float | None
    value: str
    detail: str = ""
    style: BarStyle = "published"
    badge: str = ""
    more: tuple[str, ...] = ()
    alike: bool = True
    is_reference: bool = False


def bar_rows(
    rows: Sequence[comparison.ComparisonRow],
    names: Mapping[str, str],
    reference: Reference | None = None,
) -> tuple[BarRow, ...]:
    """Return the rows of a comparison as they are drawn.

    `names` are those of earlier sessions, `reference` what was chosen to compare with.

    A run that has no figure to be compared stands above all others, without a bar. What
    `busy_said_once` says of all of them is not in their badges.
    """
    rows, _ = busy_said_once(rows)
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
        label = labels[row] if published else names.get(row.session or "", row.label)
        source = row.published.source if row.published else ""
        drawn.append(
            BarRow(
                label=label,
                fraction=fractions.get(row),
                value=("~" if row.projected else "") + units.duration(row),
                detail=str(row.year or "") if published else "",
                style="own" if row.published and row.published.own else row.kind,  # type: ignore[arg-type]
                # The mark before the value says that it is projected.
                badge="; ".join(b for b in row.badges if not b.startswith("projected")),
                more=(*([_cost(row)] if priced else ()), row.framework or "", source),
                alike=row.comparable,
                is_reference=row is referred,
            )
        )
    return tuple(drawn)


def _cost(row: comparison.ComparisonRow) -> str:
    return "" if row.cost_usd is None else units.dollars(row.cost_usd)


def _fractions(rows: Sequence[comparison.ComparisonRow]) -> dict[comparison.ComparisonRow, float]:
    """Return the length of each bar: of rows that are alike, and only where there are several."""
    alike = [row for row in rows if row.comparable]
    if len(alike) < 2:
        return {}
    return dict(zip(alike, bar_fractions([row.value for row in alike]), strict=True))


def is_logarithmic(rows: Sequence[comparison.ComparisonRow]) -> bool:
    """Return whether the bars of a comparison are logarithmic."""
    fractions = _fractions(rows)
    longest = max((row.value for row in fractions), default=0.0)
    return any(
        not math.isclose(fraction * longest, row.value) for row, fraction in fractions.items()
    )


def _published_labels(
    rows: Sequence[comparison.ComparisonRow],
) -> dict[comparison.ComparisonRow, str]:
    """Return short names of devices that still differ from row to row.

    What stands in brackets goes, where all of that name have the same there; of
    several measurements of a device, what their frameworks don't share is added.
    """
    devices = {row: units.device(row.label) for row in rows}
    same_name: dict[str, list[comparison.ComparisonRow]] = defaultdict(list)
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


class _Number(NamedTuple):
    """What stands before the decimal point, from it on, and the unit with its blank."""

    whole: str
    decimals: str
    unit: str


class _Widths(NamedTuple):
    label: int
    bar: int
    number: tuple[int, int, int]
    value: int
    detail: int
    badge: int
    more: tuple[int, ...]
    badges_below: bool


class _Arranged(NamedTuple):
    """The bars in view by their indices, how they are drawn, and what stands below them."""

    indices: list[int]
    rows: list[BarRow]
    widths: _Widths
    badges_below: list[str]
    notes: list[str]


class ComparisonBars(Wheel, Lines):
    """Rows of label, bar, value and notes; the row of this run is always in view.

    Without scrolling it is where it belongs; beyond the rows in view it takes the
    nearest one's place.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"comparison-bars--badge"}
    DEFAULT_CSS = """
    ComparisonBars > .comparison-bars--badge { color: $text-warning; text-style: italic; }
    """

    @dataclass
    class Pointed(Message):
        """A row was clicked: the one of this index."""

        index: int

    _chosen: int | None = None
    _indices: Sequence[int | None] = ()
    _bars: tuple[BarRow, ...] = ()
    _logarithmic = False
    _heading = _of_all = ""
    _first = 0
    _shown = 1
    _drawn_height = 0
    _scrolled = False

    def show(
        self,
        bars: tuple[BarRow, ...],
        logarithmic: bool = False,
        heading: str = "",
        of_all: str = "",
    ) -> None:
        """Show `bars` from top to bottom, repainting only the rows that changed.

        `heading` is the sentence above them; it is not repeated below. `of_all` stands below them.
        """
        shown = (bars, logarithmic, heading, of_all)
        if shown != (self._bars, self._logarithmic, self._heading, self._of_all):
            self._bars, self._logarithmic, self._heading, self._of_all = shown
            self.redraw()

    def choose(self, index: int) -> None:
        """Mark a row; where it is another than before, bring it into view."""
        if index != self._chosen:
            self._chosen, self._scrolled = index, False
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        index = self._indices[event.y] if event.y < len(self._indices) else None
        if index is not None:
            self.post_message(self.Pointed(index))

    def scroll_lines(self, delta: int) -> None:
        """Bring other rows into view; up is negative."""
        self._first = min(max(0, self._first + delta), max(0, len(self._bars) - self._shown))
        self._scrolled = True
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows in view, and below them what a person should know of them."""
        self._indices = []
        if width < 1 or height < 1 or not self._bars:
            return []
        if height != self._drawn_height:
            self._drawn_height, self._first = height, 0
        arranged = None
        if height >= _LEAST_ROWS_WITH_HEADING:
            arranged = self._arranged(width, height - 1)
        place = _first_unlike(arranged.rows) if arranged is not None else 0
        if arranged is None or not place:
            place, arranged = 0, self._arranged(width, height)
        indices, in_view, widths, below, notes = arranged
        self._shown, self._first = len(indices), self._first_of(indices)
        rows = [
            self._row(row, widths, below, index == self._chosen)
            for index, row in zip(indices, in_view, strict=True)
        ]
        self._indices = [*indices]
        if place:
            rows.insert(place, ((" " * _MARKER_WIDTH + NOT_COMPARABLE, MUTED),))
            self._indices.insert(place, None)
        rows.extend(((" " * _MARKER_WIDTH + text, MUTED),) for text in notes)
        return [cut(row, width, self.ellipsis) for row in rows]

    def _arranged(self, width: int, height: int) -> _Arranged:
        """Share out so many rows among bars and notes."""
        shared = _shared_badge(self._bars)
        most_notes = max(1, height // _ROWS_PER_NOTE) if height > 1 else 0
        for notes in range(most_notes + 1):
            indices = self._in_view(height - notes)
            in_view = [self._without(self._bars[index], shared) for index in indices]
            widths = _share_out(width, in_view)
            below = _badges_below(in_view) if widths.badges_below else []
            texts = self._notes(indices, shared, below, width, height)
            note_rows = _packed(texts, width - _MARKER_WIDTH, most_notes, self.ellipsis)
            if len(note_rows) <= notes:
                break
        return _Arranged(indices, in_view, widths, below, note_rows[:notes])

    def _in_view(self, shown: int) -> list[int]:
        """Return which bars are in view: this run's, and the published ones next to it."""
        total, this = len(self._bars), self._this_run()
        if self._chosen is not None and not self._scrolled:
            first = first_in_view(self._chosen, self._first, shown, total)
            return [*range(first, min(first + shown, total))]
        if self._scrolled:
            first = min(self._first, max(0, total - shown))
            indices = [*range(first, min(first + shown, total))]
            if this is not None and this not in indices:
                indices[0 if this < first else -1] = this
            return indices
        first = first_around(this, self._first, shown, total)
        indices = [*range(first, min(first + shown, total))]
        if this is None:
            return indices
        kept = [this, *self._published_beside(this)][:shown]
        if set(kept) <= set(indices):
            return indices
        others = sorted(set(range(total)) - set(kept), key=lambda index: abs(index - this))
        return sorted((*kept, *others[: shown - len(kept)]))

    def _published_beside(self, this: int) -> list[int]:
        """Return the published bars nearest to this run's: the faster, then the slower."""
        published = [i for i, row in enumerate(self._bars) if _is_alike(row)]
        above = [index for index in published if index < this][-1:]
        return above + [index for index in published if index > this][:1]

    def _first_of(self, indices: list[int]) -> int:
        """Return where the view begins; one has scrolled there where this run stands apart."""
        return self._first if self._scrolled else indices[0]

    def _without(self, row: BarRow, badge: str) -> BarRow:
        """Return a row without a badge that all published ones share."""
        shares = badge and row.style == "published"
        return replace(row, badge="") if shares else row

    def _notes(
        self, indices: list[int], shared: str, below: list[str], width: int, height: int
    ) -> list[str]:
        """Return what stands below the bars: the rows out of view, the scale, the badges."""
        notes = []
        above = sum(index not in indices for index in range(max(indices)))
        hidden = len(self._bars) - len(indices)
        if hidden:
            all_between = hidden == above and indices[0] == 0
            text = hidden_text(0, hidden) if all_between else hidden_text(above, hidden - above)
            notes.append(f"{self.ellipsis} {text}")
        if self._logarithmic and height >= _LEAST_ROWS_WITH_SCALE:
            room = width - 2 * _MARKER_WIDTH - sum(map(cell_len, notes))
            notes.append("logarithmic scale" if room >= len("logarithmic scale") else "log scale")
        notes.extend(f"({number}) {badge}" for number, badge in enumerate(below, 1))
        if shared and difference(shared) != self._heading:
            notes.append(difference(shared))
        if self._of_all:
            notes.append(self._of_all)
        return notes

    def _this_run(self) -> int | None:
        return next((i for i, row in enumerate(self._bars) if row.style == "this"), None)

    def _row(self, row: BarRow, widths: _Widths, below: list[str], chosen: bool) -> TextRow:
        marker = (_ASCII_MARKERS if self.glyphs.is_ascii else _MARKERS)[row.style]
        if row.is_reference:
            marker = "=" if self.glyphs.is_ascii else "◆"
        ellipsis = self.glyphs.ellipsis[:2]
        value = _aligned(_number(row.value), widths.number)
        badge = f"({below.index(row.badge) + 1})" if row.badge in below else row.badge
        style, bar_style = _TEXT_STYLES[row.style], _BAR_STYLES[row.style]
        drawn = thick_bar(row.fraction, widths.bar, self.glyphs)
        if not row.alike:
            style, bar_style = MUTED, MUTED
            drawn, badge = fit(row.badge, widths.bar, ellipsis), ""
        if chosen:
            style = CHOSEN
            marker = marker.strip() or ("*" if self.glyphs.is_ascii else "▸")
        runs = (
            (f"{marker} {fit(row.label, widths.label, ellipsis)} ", style),
            (drawn, bar_style),
            (" " * _GAP + fit(value, widths.value, ellipsis), style),
            (_note(row.detail, widths.detail, ellipsis), MUTED),
            *(
                (_note(text, cells, ellipsis), MUTED)
                for text, cells in zip(row.more, widths.more, strict=False)
            ),
            (_note(badge, widths.badge, ellipsis), _BADGE),
        )
        return tuple(run for run in runs if run[0])


def _share_out(width: int, bars: Sequence[BarRow]) -> _Widths:
    """Share out the width: the value comes first, then label, bar, badge and details.

    Beside the badges the bars keep at least a third of the room for both; where that is too
    little, a number stands for each badge, and the badge below the bars.
    """
    room = max(0, width - _MARKER_WIDTH - 1 - _GAP)
    parts = [_number(row.value) for row in bars]
    number = (
        max(cell_len(part.whole) for part in parts),
        max(cell_len(part.decimals) for part in parts),
        max(cell_len(part.unit) for part in parts),
    )
    value = min(sum(number), room)
    words = any(row.badge and not row.alike for row in bars)
    share = _LABEL_SHARE_BESIDE_WORDS if words else _LABEL_SHARE
    label = min(max(cell_len(row.label) for row in bars), int(width * share))
    label = min(label, room - value)
    free = room - value - label
    detail, badge, badges_below = _share_out_notes(free, bars)
    free -= _column(detail) + _column(badge)
    more = []
    for column in range(max(len(row.more) for row in bars)):
        cells = max(cell_len(row.more[column]) for row in bars if column < len(row.more))
        if free - _column(cells) < _COMFORTABLE_BAR:
            break
        free -= _column(cells)
        more.append(cells)
    return _Widths(label, max(0, free), number, value, detail, badge, tuple(more), badges_below)


def _share_out_notes(free: int, bars: Sequence[BarRow]) -> tuple[int, int, bool]:
    """Return the cells for detail and badge, and whether a number stands for each badge."""
    detail = max(cell_len(row.detail) for row in bars)
    badge = max((cell_len(row.badge) for row in bars if row.alike), default=0)
    mark = len(f"({len(_badges_below(bars))})")
    in_full = [(detail, badge, False), (0, badge, False)]
    choices = [*in_full, (detail, mark, True), (0, mark, True)] if badge else in_full[:1]
    shortest_bar = max(_SHORTEST_BAR, free // 3)
    for choice in choices:
        if free - _column(choice[0]) - _column(choice[1]) >= shortest_bar:
            return choice
    return 0, 0, False


def _badges_below(bars: Sequence[BarRow]) -> list[str]:
    """Return the badges that stand beside bars, each once."""
    return list(dict.fromkeys(row.badge for row in bars if row.badge and row.alike))


def _first_unlike(rows: Sequence[BarRow]) -> int:
    """Return before which row those begin that are not comparable; 0 where none is, or all are."""
    return next((place for place, row in enumerate(rows) if not row.alike), 0)


def _is_alike(row: BarRow) -> bool:
    return row.style in ("published", "own") and row.alike


def _shared_badge(bars: Sequence[BarRow]) -> str:
    """Return the badge that all published rows have, if there are several; else nothing."""
    badges = [row.badge for row in bars if row.style == "published"]
    return badges[0] if len(badges) > 1 and len(set(badges)) == 1 else ""


def _packed(texts: Sequence[str], width: int, most: int, ellipsis: str) -> list[str]:
    """Put texts beside each other in at most `most` rows; a long one is broken, the last cut."""
    rows: list[str] = []
    for text in texts:
        longer = f"{rows[-1]}{' ' * _GAP}{text}" if rows else text
        if rows and cell_len(longer) <= width:
            rows[-1] = longer
        elif len(rows) < most:
            rows.extend(wrapped(text, width, most - len(rows), ellipsis))
        elif rows and width - cell_len(rows[-1]) > _LEAST_OF_NOTE:
            rows[-1] = fit(longer, width, ellipsis)
    return rows


def first_in_view(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show: `first` where it can stay, else this run in the middle."""
    last_first = max(0, total - shown)
    first = min(first, last_first)
    if this_run is None or first <= this_run < first + shown:
        return first
    return min(max(0, this_run - shown // 2), last_first)


def first_around(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show around this run: `first` where it can stay.

    Where this run is near the top or the end, that is in view, whatever was before.
    """
    if this_run is not None:
        last_first = max(0, total - shown)
        middle = this_run - shown // 2
        if not 0 < middle < last_first:
            return min(max(0, middle), last_first)
    return first_in_view(this_run, first, shown, total)


def hidden_text(above: int, below: int) -> str:
    """Say how many rows are out of view, and where."""
    if not above:
        return f"{below} more"
    return f"{above} above, {below} below" if below else f"{above} above"


def _number(value: str) -> _Number:
    number, blank, unit = value.partition(" ")
    whole, point, decimals = number.partition(".")
    return _Number(whole, point + decimals, blank + unit)


def _aligned(number: _Number, widths: tuple[int, int, int]) -> str:
    """Return a value whose decimal point and unit stand under those of the others."""
    whole, decimals, unit = (
        " " * (width - cell_len(part)) for part, width in zip(number, widths, strict=True)
    )
    return f"{whole}{number.whole}{number.decimals}{decimals}{number.unit}{unit}"


def _column(width: int) -> int:
    return width + _GAP if width else 0


def _note(text: str, width: int, ellipsis: str) -> str:
    return " " * _GAP + fit(text, width, ellipsis) if width else ""
