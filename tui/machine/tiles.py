"""A chart of one part of the machine, with its figures beside it or in its border."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len
from textual import events
from textual.color import Color

from dlmon.figures.glyphs import UNICODE, Glyphs
from dlmon.figures.machine import LEVELS, Figure, Level, without_detail, worst
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.machine.meters import meter_rows
from tui.widgets.chart import Chart, ChartPicture, newest
from tui.widgets.lines import BAD, BRIGHT, HIGH, MUTED, PLAIN, cut, row_width
from tui.widgets.rows import NO_RULER, Ruler, TextRow, fit

# Three dots wide and five tall, row by row from the top.
_DOTS = {
    "0": ("###", "# #", "# #", "# #", "###"),
    "1": (" # ", "## ", " # ", " # ", "###"),
    "2": ("###", "  #", "###", "#  ", "###"),
    "3": ("###", "  #", "###", "  #", "###"),
    "4": ("# #", "# #", "###", "  #", "  #"),
    "5": ("###", "#  ", "###", "  #", "###"),
    "6": ("###", "#  ", "###", "# #", "###"),
    "7": ("###", "  #", "  #", "  #", "  #"),
    "8": ("###", "# #", "###", "# #", "###"),
    "9": ("###", "# #", "###", "  #", "###"),
    "%": ("# #", "  #", " # ", "#  ", "# #"),
    "–": ("   ", "   ", "###", "   ", "   "),
    " ": (" ", " ", " ", " ", " "),
}
_TALL = 5
SMALL_ROWS, LARGE_ROWS = 3, 5
_HALVES = {"##": "█", "# ": "▀", " #": "▄", "  ": " "}


def big_digits(text: str, *, large: bool = False, glyphs: Glyphs = UNICODE) -> list[str]:
    """Return rows that draw `text`: `SMALL_ROWS`, or `LARGE_ROWS` where large or in ASCII.

    A character that has no drawing is left out.
    """
    drawn = [_DOTS[character] for character in text if character in _DOTS]
    rows = ["".join(f"{dots[y]} " for dots in drawn)[:-1] for y in range(_TALL)]
    if glyphs.is_ascii:
        return rows
    if large:
        return ["".join("██" if dot == "#" else "  " for dot in row) for row in rows]
    rows.append(" " * len(rows[0]))
    return [
        "".join(_HALVES[upper + lower] for upper, lower in zip(rows[y], rows[y + 1], strict=True))
        for y in range(0, _TALL, 2)
    ]


# Figures stand above the chart in a tile of at least this size, beside it in a wide or a low one,
# and in its border else.
_ABOVE_WIDTH = 44
_BESIDE_WIDTH, _BESIDE_HEIGHT, _LEAST_BESIDE_HEIGHT = 64, 5, 3
_NARROW_SIDE, _WIDE_SIDE, _WIDE_FROM = 30, 40, 84
_LARGE_FROM_HEIGHT = 12
# In a narrower border a mark stands in place of a word.
_WORDS_WIDTH = 36
_DIGITS_WIDTH = 19
# So much text stands on the line of the labels of time, or what has room before them.
TEXT_BESIDE_TIMES = 34
# In the border, what stood below comes after so many figures.
_BEFORE_BELOW = 2
_LABEL = 8
_ROW_ORDER = (
    *("MIG", "memory", "swap", "busy", "power", "temp", "clock", "run", "limited", "allowed"),
    *(
        "held by",
        "ECC",
        "PCIe",
        "load",
        "fan",
        "NVLink",
        "encoder",
        "decoder",
        "energy",
        "threads",
        "package",
        "faults",
    ),
)
_LEVEL_STYLES = {"": BRIGHT, "high": HIGH, "bad": BAD}


@dataclass(frozen=True)
class TileContent:
    """What a tile shows: its headline and its figures, or the problem with them.

    Figures that come with a problem are stale.
    In the border the figures are words alone: `first` before all, then of
    `more` as many as have room (`marked` where there is little), and `below`
    at the bottom. There the `note` stands too, wherever the figures are.
    """

    title: str
    name: str = ""
    headline: str = ""
    level: Level = ""
    figures: tuple[Figure, ...] = ()
    problem: str = ""
    first: str = ""
    more: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    below: str = ""
    note: str = ""


class ChartTile(Chart):
    """A filled chart, with its figures large beside it where there is room.

    Args:
        side: whether figures may stand beside or above the chart at all. The chart then stands
            at the right: those of a screen begin and end alike where they have as many columns.
    """

    def __init__(self, *, side: bool = False, id: str | None = None, classes: str | None = None):
        super().__init__(filled=True, id=id, classes=classes)
        self._side = side
        self._tile_content = TileContent("")
        self._title_colours: tuple[Color | None, Color | None] = (None, None)

    @property
    def plot_columns(self) -> int:
        """How many columns of data fit now, beside the figures."""
        size = self.size
        width = size.width - self._own_side(*size)
        return COLUMNS_PER_CELL * max(0, width - self._axis_width(width))

    def on_resize(self, event: events.Resize) -> None:
        """Show the same again: the border has room for more or less now."""
        self.show_content(self._tile_content, self._picture)

    def show_content(self, content: TileContent, picture: ChartPicture) -> None:
        """Show figures and chart, repainting only the rows that they change."""
        changed = content != self._tile_content or picture != self._picture
        self._tile_content, self._picture = content, picture
        form = self._form(*self.size)
        if form is _Form.BORDER:
            self._show_in_border()
        else:
            title = "  ".join(filter(None, (content.title, content.name)))
            left_out = self._ordered[self._digits_rows :] if form is _Form.ABOVE else []
            # Without a headline, what stands first in a border says why there is none.
            reasons = [] if content.headline or not content.first else [content.first]
            words = (*reasons, *brief_words(left_out))
            right, *more = [content.problem] if content.problem else words or [""]
            note = content.note
            if self._goes_above(note, title, right):
                note, more = "", [note, *more]
            below = self._below(note)
            self.set_titles(title, below, right=right, more=tuple(more), ruler=self._times(below))
            self._colour_titles(())
        if changed:
            self.redraw()

    def _show_in_border(self) -> None:
        content = self._tile_content
        below = content.note or ("" if content.problem else content.below)
        more = content.more if self.outer_size.width >= _WORDS_WIDTH else content.marked
        more = () if content.problem else more
        right = self._problem_in_title or content.first
        # What may have a warning keeps its place.
        kept = more[:_BEFORE_BELOW]
        goes_above = self._goes_above(below, content.title, "  ".join((right, *kept)))
        if goes_above:
            below, more = "", (*kept, below, *more[_BEFORE_BELOW:])
        below = self._below(below, content.name)
        self.set_titles(content.title, below, right=right, more=more, ruler=self._times(below))
        self._colour_titles(content.figures, all_above=goes_above)

    def _goes_above(self, text: str, title: str, right: str) -> bool:
        """Return whether what stands below goes up, so that it meets no label of time."""
        if not text or not self._picture.times.are_shown:
            return False
        above = cell_len(f"{title}   {right}  {text}")
        return above <= self.outer_size.width - 6

    def _times(self, below: str) -> Ruler:
        """Return the labels of time, in cells from the left border on; the name where it fits."""
        times = newest(self._picture, self.plot_columns).times
        if not times.are_shown:
            return NO_RULER
        start = self._plot_start
        marks = tuple(
            (start + column // COLUMNS_PER_CELL, text)
            for column, text in times.marks
            if column >= 0
        )
        ends = max((cell + 1 + cell_len(text) for cell, text in marks), default=0)
        named = not below and ends + cell_len(times.name) + 4 <= self.outer_size.width
        return Ruler(marks, times.last or (times.name if named else ""))

    @property
    def _plot_start(self) -> int:
        """The cell, from the left border on, at which the columns begin."""
        size = self.size
        left = self._aligned_start(*size)
        return 1 + left + self._axis_width(size.width - left)

    def _colour_titles(self, in_border: tuple[Figure, ...], *, all_above: bool = False) -> None:
        """Let a title stand out in which a figure is near its limit, or is too old."""
        content = self._tile_content
        stands_below = "" if all_above else content.below
        above = worst(figure for figure in in_border if figure.text != stands_below)
        below = worst(figure for figure in in_border if figure.text == stands_below)
        colours = self._colour("high" if content.problem else above), self._colour(below)
        if colours != self._title_colours:
            self._title_colours = colours
            styles = self.styles
            styles.border_title_color, styles.border_subtitle_color = colours
            # The sheet's own colour is an automatic one, which would win.
            above_stands_out, below_stands_out = (colour is not None for colour in colours)
            styles.auto_border_title_color = False if above_stands_out else None
            styles.auto_border_subtitle_color = False if below_stands_out else None

    def _colour(self, level: Level) -> Color | None:
        if not level:
            return None
        return self.get_component_styles(*_LEVEL_STYLES[level]).color

    @property
    def _problem_in_title(self) -> str:
        """The problem, as far as the title has room for it."""
        content = self._tile_content
        return without_detail(content.problem, self.outer_size.width - cell_len(content.title) - 9)

    def _below(self, text: str, more: str = "") -> str:
        """Return what has room in the border at the bottom: `more` only where all of it has."""
        room = max(0, self.outer_size.width - 6)
        if self._picture.times.are_shown:
            before = self._plot_start - 5
            room = min(room, max(TEXT_BESIDE_TIMES, before))
            # A name would take the place of labels.
            more = more if before >= TEXT_BESIDE_TIMES else ""
        longer = "  ".join(filter(None, (text, more)))
        if cell_len(longer) <= room:
            return longer
        short = without_detail(text or more, room)
        return short if cell_len(short) <= room else fit(short, room, self.ellipsis)

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the rows of the chart, with those of the figures where they have room."""
        form, left = self._form(width, height), self._chart_start(width, height)
        above = [*self._above(width), ()] if form is _Form.ABOVE else []
        chart = super().draw(width - left, height - len(above))
        if not left:
            return [*above, *chart]
        beside = self._beside(left - 2, height) if form is _Form.BESIDE else []
        beside += [()] * (len(chart) - len(beside))
        rows = zip(beside, chart, strict=True)
        return [*above, *((*_padded(figures, left), *row) for figures, row in rows)]

    def _above(self, width: int) -> list[TextRow]:
        """Return the headline, and at its right as many figures as it has rows."""
        content, tall = self._tile_content, self._digits_rows
        digits = big_digits(content.headline, glyphs=self.glyphs)
        shown = self._ordered[:tall]
        meters = self._meters(shown, width - _DIGITS_WIDTH - 1)
        meters += [()] * (tall - len(meters))
        return [
            (*_padded(((f" {text}", self._headline_style),), _DIGITS_WIDTH), *meter)
            for text, meter in zip(digits, meters, strict=True)
        ]

    def _beside(self, width: int, height: int) -> list[TextRow]:
        """Return the headline, and the figures below it."""
        content, ordered = self._tile_content, self._ordered
        large = width >= _WIDE_SIDE - 2 and height >= _LARGE_FROM_HEIGHT
        tall = LARGE_ROWS if large else self._digits_rows
        style = self._headline_style
        rows: list[TextRow] = [((f" {content.headline}", style),)] if content.headline else []
        if content.headline and height >= tall + min(3, len(ordered)):
            digits = big_digits(content.headline, large=large, glyphs=self.glyphs)
            rows = [((f" {text}", style),) for text in digits]
        if rows and height > len(rows) + len(ordered):
            rows.append(())
        shown = ordered[: height - len(rows)]
        meters = self._meters(shown, width - 1)
        return [*rows, *(((" ", PLAIN), *row) for row in meters)]

    def _meters(self, shown: list[Figure], width: int) -> list[TextRow]:
        stale = bool(self._tile_content.problem)
        return meter_rows(shown, width, self.glyphs, _LABEL, stale=stale)

    @property
    def _headline_style(self) -> tuple[str, ...]:
        return MUTED if self._tile_content.problem else _LEVEL_STYLES[self._tile_content.level]

    @property
    def _ordered(self) -> list[Figure]:
        """The figures in the order in which they stand in rows, the worst before all."""
        by_label = {figure.label: figure for figure in self._tile_content.figures}
        ordered = [by_label[label] for label in _ROW_ORDER if label in by_label]
        return sorted(ordered, key=lambda figure: -LEVELS.index(figure.level))

    @property
    def _digits_rows(self) -> int:
        return LARGE_ROWS if self.glyphs.is_ascii else SMALL_ROWS

    def _form(self, width: int, height: int) -> _Form:
        """Return where the figures stand: what the chart leaves free is for them."""
        if not self._has_large_figures:
            return _Form.BORDER
        left = self._chart_start(width, height)
        if left >= _NARROW_SIDE and height >= _LEAST_BESIDE_HEIGHT:
            return _Form.BESIDE
        return _Form.ABOVE if self._has_room_above(width, height) else _Form.BORDER

    def _chart_start(self, width: int, height: int) -> int:
        """Return the cells before the chart; why it is empty has all the room that there is."""
        picture = self._picture
        if picture.reason and all(value is None for value in picture.columns):
            return self._own_side(width, height)
        return self._aligned_start(width, height)

    def _aligned_start(self, width: int, height: int) -> int:
        """Return the cells before the chart: all that its columns and its labels leave."""
        if not self._side or not self._picture.columns:
            return self._own_side(width, height)
        cells = -(-len(self._picture.columns) // COLUMNS_PER_CELL)
        return max(0, width - self._axis_width(width) - cells)

    def _own_side(self, width: int, height: int) -> int:
        """Return the cells for figures beside the chart, where it may be as wide as it likes."""
        if not self._has_large_figures or self._has_room_above(width, height):
            return 0
        if width < _BESIDE_WIDTH or height < _BESIDE_HEIGHT:
            return 0
        return _WIDE_SIDE if width >= _WIDE_FROM else _NARROW_SIDE

    @property
    def _has_large_figures(self) -> bool:
        return self._side and bool(self._tile_content.figures or not self._tile_content.problem)

    def _has_room_above(self, width: int, height: int) -> bool:
        least = self._digits_rows + 1 + _BESIDE_HEIGHT
        return _ABOVE_WIDTH <= width < _WIDE_FROM and height >= least


class _Form(Enum):
    """Where the figures stand: in the border, or large above or beside the chart."""

    BORDER, ABOVE, BESIDE = range(3)


def brief_words(figures: list[Figure]) -> tuple[str, ...]:
    """Return what is known of figures, each in a few words."""
    return tuple(figure.brief for figure in figures if figure.known)


def _padded(row: TextRow, width: int) -> TextRow:
    """Return a row that takes exactly `width` cells; its last run is made longer."""
    *before, (text, style) = cut(row, width) or (("", PLAIN),)
    return (*before, (text + " " * (width - row_width((*before, (text, style)))), style))
