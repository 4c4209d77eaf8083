"""How the room of the comparison bars is shared out: columns, bars, and the notes below them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.cells import cell_len

from dlmon.figures.comparison import difference
from tui.live.comparison.bar_rows import BarRow, Legend
from tui.widgets.lines import wrapped
from tui.widgets.rows import fit

_LABEL_SHARE = 0.55
# Where what differs takes the place of bars.
_LABEL_SHARE_BESIDE_WORDS = 0.4
_SHORTEST_BAR, _COMFORTABLE_BAR = 6, 20
MARKER_WIDTH = 2
GAP = 2
# With fewer rows, all are for bars.
_LEAST_ROWS_WITH_SCALE = 3
# With fewer rows, none is for what stands above the rows that are not comparable, nor for these.
_LEAST_ROWS_WITH_HEADING = 6
# One row in so many may be a note below the bars.
_ROWS_PER_NOTE = 3
# Of a text that is cut; less of it says nothing.
_LEAST_OF_NOTE = 20


class Widths(NamedTuple):
    """The cells of each column; those of `number` are before, from and after the decimals."""

    label: int
    bar: int
    number: tuple[int, int, int]
    value: int
    detail: int
    badge: int
    more: tuple[int, ...]
    badges_below: bool


class Arranged(NamedTuple):
    """The bars in view, and what stands between and below them.

    Attributes:
        indices: which they are.
        rows: how they are drawn.
        widths: the cells of their columns.
        badges_below: those that a number stands for.
        notes: the rows of text below the bars.
        heading_at: before which of the rows a heading of the others stands; 0 is none.
    """

    indices: list[int]
    rows: list[BarRow]
    widths: Widths
    badges_below: list[str]
    notes: list[str]
    heading_at: int = 0


def arrange(
    bars: Sequence[BarRow],
    in_view: Callable[[int, int], list[int]],
    size: tuple[int, int],
    legend: Legend,
    ellipsis: str,
) -> Arranged:
    """Share out the rows and cells of a widget among bars, notes and a heading.

    Args:
        bars: at least one.
        in_view: returns which are shown, of so many first ones, for how many there is room.
        size: columns and rows.
        legend: what there is to say of all of them.
        ellipsis: what stands where a text is cut.
    """
    width, height = size
    alike = _first_unlike(bars)
    if not alike or height < _LEAST_ROWS_WITH_HEADING:
        return _bars_and_notes(bars, in_view, size, legend, ellipsis, alike or len(bars))
    arranged = _bars_and_notes(bars, in_view, (width, height - 1), legend, ellipsis, len(bars))
    place = _first_unlike(arranged.rows)
    if not place:
        return _bars_and_notes(bars, in_view, size, legend, ellipsis, alike)
    return arranged._replace(heading_at=place)


def _bars_and_notes(
    bars: Sequence[BarRow],
    in_view: Callable[[int, int], list[int]],
    size: tuple[int, int],
    legend: Legend,
    ellipsis: str,
    most: int,
) -> Arranged:
    """Share out so many rows among the first bars, at most so many, and notes."""
    width, height = size
    shared = _shared_badge(bars)
    most_notes = max(1, height // _ROWS_PER_NOTE) if height > 1 else 0
    for notes in range(most_notes + 1):
        indices = in_view(most, height - notes)
        rows = [_without(bars[index], shared) for index in indices]
        widths = _share_out(width, rows)
        rows = [_without_cut(row, widths.bar, legend) for row in rows]
        widths = _share_out(width, rows)
        below = _badges_below(rows) if widths.badges_below else []
        hidden = _hidden(indices, bars, ellipsis)
        texts = [*hidden, *_notes(hidden, shared, below, size, legend)]
        note_rows = _packed(texts, width - MARKER_WIDTH, most_notes, ellipsis)
        if len(note_rows) <= notes:
            break
    return Arranged(indices, rows, widths, below, note_rows[:notes])


def _without(row: BarRow, badge: str) -> BarRow:
    """Return a row without a badge that all published ones share."""
    shares = badge and row.style == "published"
    return replace(row, badge="") if shares else row


def _without_cut(row: BarRow, bar: int, legend: Legend) -> BarRow:
    """Return a row without what would be cut in the place of its bar, where it is whole above."""
    above = row.badge in legend.heading or difference(row.badge) == legend.heading
    return replace(row, badge="") if above and not row.alike and cell_len(row.badge) > bar else row


def _hidden(indices: list[int], bars: Sequence[BarRow], ellipsis: str) -> list[str]:
    """Return what says how many bars are out of view."""
    above = sum(index not in indices for index in range(max(indices)))
    hidden = len(bars) - len(indices)
    if not hidden:
        return []
    if not any(bar.alike for index, bar in enumerate(bars) if index not in indices):
        return [f"{ellipsis} {hidden} not comparable"]
    all_between = hidden == above and indices[0] == 0
    text = _hidden_text(0, hidden) if all_between else _hidden_text(above, hidden - above)
    return [f"{ellipsis} {text}"]


def _notes(
    hidden: list[str],
    shared: str,
    below: list[str],
    size: tuple[int, int],
    legend: Legend,
) -> list[str]:
    """Return what stands below the bars beside what is `hidden`: the scale, the badges."""
    width, height = size
    notes = []
    if legend.logarithmic and height >= _LEAST_ROWS_WITH_SCALE:
        room = width - 2 * MARKER_WIDTH - sum(map(cell_len, hidden))
        notes.append("logarithmic scale" if room >= len("logarithmic scale") else "log scale")
    notes.extend(f"({number}) {badge}" for number, badge in enumerate(below, 1))
    if shared and difference(shared) != legend.heading:
        notes.append(difference(shared))
    if legend.of_all:
        notes.append(legend.of_all)
    return notes


def _share_out(width: int, bars: Sequence[BarRow]) -> Widths:
    """Share out the width: the value comes first, then label, bar, badge and details.

    Beside the badges the bars keep at least a third of the room for both; where that is too
    little, a number stands for each badge, and the badge below the bars.
    """
    room = max(0, width - MARKER_WIDTH - 1 - GAP)
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
    return Widths(label, max(0, free), number, value, detail, badge, tuple(more), badges_below)


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
    """Return before which row those begin that are not comparable with this run.

    0 where none is, or all that are shown are.
    """
    others = (place for place, row in enumerate(rows) if not row.alike and row.style != "this")
    return next(others, 0)


def _shared_badge(bars: Sequence[BarRow]) -> str:
    """Return the badge that all published rows have, if there are several; else nothing."""
    badges = [row.badge for row in bars if row.style == "published"]
    return badges[0] if len(badges) > 1 and len(set(badges)) == 1 else ""


def _packed(texts: Sequence[str], width: int, most: int, ellipsis: str) -> list[str]:
    """Put texts beside each other in at most `most` rows; a long one is broken, the last cut."""
    rows: list[str] = []
    for text in texts:
        longer = f"{rows[-1]}{' ' * GAP}{text}" if rows else text
        if rows and cell_len(longer) <= width:
            rows[-1] = longer
        elif len(rows) < most:
            rows.extend(wrapped(text, width, most - len(rows), ellipsis))
        elif rows and width - cell_len(rows[-1]) > _LEAST_OF_NOTE:
            rows[-1] = fit(longer, width, ellipsis)
    return rows


def _hidden_text(above: int, below: int) -> str:
    """Say how many rows are out of view, and where."""
    if not above:
        return f"{below} more"
    return f"{above} above, {below} below" if below else f"{above} above"


class _Number(NamedTuple):
    """What stands before the decimal point, from it on, and the unit with its blank."""

    whole: str
    decimals: str
    unit: str


def _number(value: str) -> _Number:
    number, blank, unit = value.partition(" ")
    whole, point, decimals = number.partition(".")
    return _Number(whole, point + decimals, blank + unit)


def aligned(value: str, widths: tuple[int, int, int]) -> str:
    """Return a value whose decimal point and unit stand under those of the others."""
    number = _number(value)
    whole, decimals, unit = (
        " " * (width - cell_len(part)) for part, width in zip(number, widths, strict=True)
    )
    return f"{whole}{number.whole}{number.decimals}{decimals}{number.unit}{unit}"


def _column(width: int) -> int:
    return width + GAP if width else 0
