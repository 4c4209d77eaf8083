"""Comparison bars: this run among published numbers and earlier runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len

from dlmon import comparison
from tui import figures
from tui.widgets.lines import cut
from tui.widgets.plot import bar, bar_fractions
from tui.widgets.rows import Row, RowWidget, fit
from tui.widgets.tail import Wheel

BarStyle = Literal["published", "earlier", "this"]

HELP: tuple[tuple[str, str], ...] = (
    (
        "Bars",
        "▶ is this run, · an earlier one on this machine, the rest are published measurements of "
        "the same network on other devices. The shortest bar is the fastest.",
    ),
    (
        "logarithmic scale",
        "The times differ so much that equal steps of length stand for equal factors, not for "
        "equal seconds; the numbers beside the bars are what was measured.",
    ),
    (
        "batch 32, not 100",
        "A note like this says what was different when that number was taken; no factor is "
        "reckoned from it.",
    ),
)

_LABEL_SHARE, _BAR_SHARE = 0.55, 0.3
_SHORTEST_BAR, _COMFORTABLE_BAR = 6, 20
_SHORTEST_BADGE, _LEGIBLE_BADGE = 4, 20
_MARKER_WIDTH = 2
_GAP = 2
# With fewer rows, all are for bars.
_LEAST_ROWS_WITH_NOTE = 3

_MARKERS: dict[BarStyle, str] = {"published": " ", "earlier": "·", "this": "▶"}
_MORE = ("comparison-bars--more",)
_ASCII_MARKERS: dict[BarStyle, str] = {"published": " ", "earlier": ".", "this": ">"}


@dataclass(frozen=True)
class BarRow:
    """One row. `fraction` is of the longest bar, None where there is no number to draw.

    `detail` is dropped first where the row is narrow; `badge` says what differs
    from like with like, and stays. `more` has a place only in a wide row.
    """

    label: str
    fraction: float | None
    value: str
    detail: str = ""
    style: BarStyle = "published"
    badge: str = ""
    more: tuple[str, ...] = ()


def bar_rows(rows: Sequence[comparison.Row], names: Mapping[str, str]) -> tuple[BarRow, ...]:
    """Return the rows of a comparison as they are drawn; `names` are those of earlier sessions."""
    fractions = bar_fractions([row.value for row in rows])
    labels = _published_labels([row for row in rows if row.kind == "published"])
    drawn = []
    for row, fraction in zip(rows, fractions, strict=True):
        published = row.kind == "published"
        label = labels[row] if published else names.get(row.session or "", row.label)
        drawn.append(
            BarRow(
                label=label,
                fraction=fraction,
                value=("~" if row.projected else "") + figures.seconds(row.value),
                detail=str(row.year or "") if published else "",
                style=row.kind,  # type: ignore[arg-type]
                # The mark before the value says that it is projected.
                badge=next((b for b in row.badges if not b.startswith("projected")), ""),
                more=(row.framework or "", row.source or ""),
            )
        )
    return tuple(drawn)


def is_logarithmic(rows: Sequence[comparison.Row]) -> bool:
    """Tell whether the bars of a comparison are longer than in proportion."""
    values = [row.value for row in rows]
    fractions = bar_fractions(values)
    return any(
        not math.isclose(fraction * max(values), value)
        for value, fraction in zip(values, fractions, strict=True)
    )


def _published_labels(rows: Sequence[comparison.Row]) -> dict[comparison.Row, str]:
    """Return short names of devices that still tell the rows apart.

    What stands in brackets goes, where all of that name have the same there; of
    several measurements of a device, what their frameworks don't share is added.
    """
    devices = {row: figures.device(row.label) for row in rows}
    same_name: dict[str, list[comparison.Row]] = defaultdict(list)
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


class _Widths(NamedTuple):
    label: int
    bar: int
    whole: int
    value: int
    detail: int
    badge: int
    more: tuple[int, ...]


class ComparisonBars(Wheel, RowWidget):
    """Rows of label, bar, value and notes; the row of this run is always in view.

    Without scrolling it is where it belongs; beyond the rows in view it takes the
    nearest one's place.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "comparison-bars--published",
        "comparison-bars--earlier",
        "comparison-bars--this",
        "comparison-bars--bar-published",
        "comparison-bars--bar-earlier",
        "comparison-bars--bar-this",
        "comparison-bars--note",
        "comparison-bars--badge",
        "comparison-bars--more",
    }

    DEFAULT_CSS = """
    ComparisonBars {
        & > .comparison-bars--this { text-style: bold; }
        & > .comparison-bars--bar-published { color: $text-muted; }
        & > .comparison-bars--bar-earlier { color: $text-primary; }
        & > .comparison-bars--bar-this { color: $text-accent; text-style: bold; }
        & > .comparison-bars--note { color: $text-muted; }
        & > .comparison-bars--badge { color: $text-warning; text-style: italic; }
        & > .comparison-bars--more { color: $text-muted; }
    }
    """

    def __init__(self, *, ascii: bool = False, id: str | None = None, classes: str | None = None):
        """Draw with plain characters when `ascii` is set."""
        super().__init__(ascii=ascii, id=id, classes=classes)
        self._bars: tuple[BarRow, ...] = ()
        self._logarithmic = False
        self._first = 0
        self._drawn_height = 0
        self._scrolled = False

    def show(self, bars: tuple[BarRow, ...], logarithmic: bool = False) -> None:
        """Show `bars` from top to bottom, repainting only the rows that changed."""
        if (bars, logarithmic) != (self._bars, self._logarithmic):
            self._bars, self._logarithmic = bars, logarithmic
            self.redraw()

    def scroll_lines(self, delta: int) -> None:
        """Bring other rows into view; up is negative."""
        shown, _ = self._division(self.size.height)
        self._first = min(max(0, self._first + delta), max(0, len(self._bars) - shown))
        self._scrolled = True
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the rows in view, and below them what a person should know of them."""
        if width < 1 or height < 1 or not self._bars:
            return []
        shown, with_note = self._division(height)
        this = self._this_run()
        if height != self._drawn_height:
            self._drawn_height, self._first = height, 0
        if self._scrolled:
            self._first = min(self._first, max(0, len(self._bars) - shown))
        else:
            self._first = first_in_view(this, self._first, shown, len(self._bars))
        indices = [*range(self._first, min(self._first + shown, len(self._bars)))]
        if this is not None and this not in indices:
            indices[0 if this < self._first else -1] = this
        in_view = [self._bars[index] for index in indices]
        widths = _share_out(width, in_view)
        rows = [self._row(row, widths) for row in in_view]
        if with_note:
            rows.append(self._note_row(indices, width))
        return [cut(row, width) for row in rows]

    def _division(self, height: int) -> tuple[int, bool]:
        """Return how many bars are in view, and whether a row of notes is."""
        hidden = len(self._bars) > height > 1
        with_note = hidden or (self._logarithmic and height >= _LEAST_ROWS_WITH_NOTE)
        return height - with_note, with_note

    def _note_row(self, indices: list[int], width: int) -> Row:
        above = sum(index not in indices for index in range(max(indices)))
        below = len(self._bars) - len(indices) - above
        hidden = f"  {self.ellipsis} {hidden_text(above, below)}" if above or below else ""
        if not self._logarithmic:
            return ((fit(hidden, width, self.ellipsis), _MORE),)
        room = width - cell_len(hidden) - _MARKER_WIDTH
        scale = "logarithmic scale" if room >= len("logarithmic scale") else "log scale"
        return ((fit(f"{hidden}  {scale}", width, self.ellipsis), _MORE),)

    def _this_run(self) -> int | None:
        return next((i for i, row in enumerate(self._bars) if row.style == "this"), None)

    def _row(self, row: BarRow, widths: _Widths) -> Row:
        marker = (_ASCII_MARKERS if self.ascii else _MARKERS)[row.style]
        ellipsis = "~" if self.ascii else "…"
        # The decimal points stand under each other.
        indent = " " * (widths.whole - cell_len(_whole_part(row.value)))
        text, bar_text = f"comparison-bars--{row.style}", f"comparison-bars--bar-{row.style}"
        runs = (
            (f"{marker} {fit(row.label, widths.label, ellipsis)} ", (text,)),
            (bar(row.fraction, widths.bar, self.ascii), (bar_text,)),
            (" " * _GAP + fit(indent + row.value, widths.value, ellipsis), (text,)),
            (_note(row.detail, widths.detail, ellipsis), ("comparison-bars--note",)),
            *(
                (_note(text, cells, ellipsis), ("comparison-bars--note",))
                for text, cells in zip(row.more, widths.more, strict=False)
            ),
            (_note(row.badge, widths.badge, ellipsis), ("comparison-bars--badge",)),
        )
        return tuple(run for run in runs if run[0])


def _share_out(width: int, bars: Sequence[BarRow]) -> _Widths:
    """Share out the width: the value comes first, then label, bar, badge and details."""
    room = max(0, width - _MARKER_WIDTH - 1 - _GAP)
    whole = max(cell_len(_whole_part(row.value)) for row in bars)
    value = max(whole + cell_len(row.value) - cell_len(_whole_part(row.value)) for row in bars)
    value = min(value, room)
    label = min(max(cell_len(row.label) for row in bars), int(width * _LABEL_SHARE))
    label = min(label, room - value)
    detail = max(cell_len(row.detail) for row in bars)
    longest = max(cell_len(row.badge) for row in bars)
    free = room - value - label
    shortest_bar = max(_SHORTEST_BAR, int(free * _BAR_SHARE))
    legible = min(longest, _LEGIBLE_BADGE)
    if free - _column(detail) - _column(legible) < shortest_bar:
        detail = 0
    free -= _column(detail)
    badge = min(legible, free - shortest_bar - _GAP)
    if badge < min(longest, _SHORTEST_BADGE):
        badge = 0
    free -= _column(badge)
    more = []
    for column in range(max(len(row.more) for row in bars)):
        cells = max(cell_len(row.more[column]) for row in bars if column < len(row.more))
        if free - _column(cells) < _COMFORTABLE_BAR:
            break
        free -= _column(cells)
        more.append(cells)
    rest_of_badge = max(0, min(longest - badge, free - _COMFORTABLE_BAR)) if badge else 0
    badge, free = badge + rest_of_badge, free - rest_of_badge
    return _Widths(label, max(0, free), whole, value, detail, badge, tuple(more))


def first_in_view(this_run: int | None, first: int, shown: int, total: int) -> int:
    """Return the first row to show: `first` where it can stay, else this run in the middle."""
    last_first = max(0, total - shown)
    first = min(first, last_first)
    if this_run is None or first <= this_run < first + shown:
        return first
    return min(max(0, this_run - shown // 2), last_first)


def hidden_text(above: int, below: int) -> str:
    """Say how many rows are out of view, and where."""
    if not above:
        return f"{below} more"
    return f"{above} above, {below} below" if below else f"{above} above"


def _whole_part(value: str) -> str:
    """Return what stands before the decimal point, or where it would."""
    part = value.partition(".")[0]
    return part.rstrip("abcdefghijklmnopqrstuvwxyz ")


def _column(width: int) -> int:
    return width + _GAP if width else 0


def _note(text: str, width: int, ellipsis: str) -> str:
    return " " * _GAP + fit(text, width, ellipsis) if width else ""
