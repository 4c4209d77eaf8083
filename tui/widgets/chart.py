"""The chart widget, the picture that it shows, and how a picture becomes rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from textual import events
from textual.color import Color
from textual.message import Message
from textual.style import Style

from dlmon.figures.value_axis import axis_numbers
from dlmon.records.record import record
from tui.drawing.plot import (
    COLUMNS_PER_CELL,
    Drawn,
    Tone,
    braille_rows,
    curve_rows,
    mark_row,
    row_of,
    split_rows,
)
from tui.drawing.themes import ANSI_HUES
from tui.drawing.time_axis import NO_LABELS, TimeAxis, TimeLabels
from tui.widgets.lines import (
    ACCENT,
    BAD,
    MUTED,
    NO_RULER,
    Lines,
    Ruler,
    TextRow,
    TextRun,
    fit,
    fit_right,
    wrapped,
)

SHADES = {
    "compile": "$warning 20%",
    "validation": "$secondary 30%",
    "pause": "$foreground 12%",
    "stall": "$error 35%",
}
"""The background of each kind of shaded time span."""

LINE, AREA, BAND = "$line", "$area", "$band"
"""The parts in the hue of the quantity: the line, the area below it, the band around it."""
AXIS = REST = MARK = MUTED
GRID, STALL, REASON = "$foreground 22%", BAD, f"italic {MUTED}"
CURSOR, VALUE, POINT = "$foreground", "bold $foreground", ACCENT

BEHIND = " 40%"
"""The end of the style of a dim line, behind the others."""

_TONES = {
    Tone.CURVE: LINE,
    Tone.BAND: BAND,
    Tone.AREA: AREA,
    Tone.REST: REST,
    Tone.BLANK: LINE,
}

# A chart with fewer rows has no label and no grid line in the middle.
_LEAST_WITH_MIDDLE = 4


@record(frozen=True)
class Dot:
    """A single value, drawn over all lines, with its band if it has one."""

    column: int
    value: float
    marker: str = "◆"
    tone: str = POINT
    low: float | None = None
    high: float | None = None


@record(frozen=True)
class ChartPicture:
    """The content of a chart.

    Attributes:
        columns: values resampled to `Chart.plot_columns`, newest last; None is a gap.
        marks: (column, label) pairs, such as the start of epoch 2.
        shades: (first column, last column, kind), with a kind of `SHADES`.
        left_labels: labels of the axis: top, middle and bottom, or both ends, or the top alone;
            without labels the axis shows its values.
        reason: why the chart is empty.
        cursor: the column of the cursor.
        part: the lower part of each column, drawn filled; the rest is drawn in another tone.
        times: labels at columns, each with a grid line.
        area: draw dots below the line.
        lows: lower edge of the band around the line.
        highs: upper edge of the band.
        value: text of the value at the cursor.
        lines: (style, columns) of lines drawn over each other.
    """

    columns: tuple[float | None, ...] = ()
    top: float = 1.0
    bottom: float = 0.0
    marks: tuple[tuple[int, str], ...] = ()
    shades: tuple[tuple[int, int, str], ...] = ()
    left_labels: tuple[str, ...] = ()
    reason: str = ""
    cursor: int | None = None
    part: tuple[float | None, ...] = ()
    times: TimeLabels = NO_LABELS
    area: bool = False
    lows: tuple[float | None, ...] = ()
    highs: tuple[float | None, ...] = ()
    value: str = ""
    dots: tuple[Dot, ...] = ()
    lines: tuple[tuple[str, tuple[float | None, ...]], ...] = ()

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.columns)


@dataclass
class _Row:
    """The characters of one plot row and their styles."""

    text: list[str]
    tones: list[str]

    def put(self, x: int, text: str, tone: str) -> None:
        """Overwrite the cells from `x` on."""
        end = x + len(text)
        self.text[x:end], self.tones[x:end] = text, [tone] * len(text)


def picture_rows(
    picture: ChartPicture,
    width: int,
    height: int,
    axis_width: int,
    *,
    filled: bool = False,
    tall_shades: bool = False,
) -> list[TextRow]:
    """Return a picture as rows of exactly `width` cells: axis, plot, and the marks below."""
    plot_width = width - axis_width
    has_marks = bool(picture.marks or picture.shades) and height >= 3
    plot_height = height - has_marks
    plot = _plot(picture, plot_width, plot_height, filled)
    says_why = bool(picture.reason) and picture.is_empty
    _put_lines(plot, picture)
    if not says_why:
        _put_grid(plot, picture)
    _put_dots(plot, picture)
    if has_marks:
        plot.append(_marks(picture, plot_width))
    if picture.cursor is not None and 0 <= picture.cursor < COLUMNS_PER_CELL * plot_width:
        _put_cursor(plot, picture, picture.cursor, plot_height)
    if says_why:
        _put_reason(plot, picture.reason, plot_width, plot_height)
    strip = _backgrounds(picture.shades, plot_width)
    labels = _axis_labels(picture, plot_height, axis_width) + [" " * axis_width] * has_marks
    bare = [""] * plot_width
    return [
        _row(label, cells, strip if tall_shades or y >= plot_height else bare)
        for y, (label, cells) in enumerate(zip(labels, plot, strict=True))
    ]


def _plot(picture: ChartPicture, width: int, height: int, filled: bool) -> list[_Row]:
    columns, edges = picture.columns, (picture.top, picture.bottom)
    drawn: Drawn
    if picture.part:
        drawn = split_rows(columns, picture.part, width, height, *edges)
    elif picture.area or picture.lows:
        around = (picture.lows, picture.highs)
        drawn = curve_rows(columns, *around, width, height, *edges, area=picture.area)
    else:
        texts = braille_rows(columns, width, height, *edges, filled)
        return [_Row([*text], [LINE] * width) for text in texts]
    return [_Row([*text], [_TONES[tone] for tone in tones]) for text, tones in drawn]


def _put_grid(plot: list[_Row], picture: ChartPicture) -> None:
    """Draw the grid in empty cells: at the labelled times and in the middle of the axis."""
    upright = {column // COLUMNS_PER_CELL for column, _ in picture.times.marks}
    middle = _middle_row(picture, len(plot)) if _labels_middle(picture) else None
    level, up, crossing = tuple("┈┊┼")
    width = len(plot[0].text) if plot else 0
    for y, row in enumerate(plot):
        for x in range(width) if y == middle else sorted(upright):
            if 0 <= x < width and row.text[x] == " ":
                row.put(x, level if x not in upright else crossing if y == middle else up, GRID)


def _put_lines(plot: list[_Row], picture: ChartPicture) -> None:
    """Draw lines over each other; a cell that two lines cross has the dots of both."""
    for tone, columns in picture.lines:
        width, edges = len(plot[0].text), (picture.top, picture.bottom)
        texts = braille_rows(columns, width, len(plot), *edges)
        for row, text in zip(plot, texts, strict=True):
            for x, drawn in enumerate(text):
                if drawn != " ":
                    under = row.text[x]
                    # A line covers a dim one, such as its own before it was smoothed.
                    is_free = under == " " or row.tones[x].endswith(BEHIND)
                    row.put(x, drawn if is_free else chr(ord(under) | ord(drawn)), tone)


def _put_dots(plot: list[_Row], picture: ChartPicture) -> None:
    """Draw single values over the lines; a value outside the axis range goes to its edge."""

    def row_at(value: float) -> int | None:
        within = min(max(value, picture.bottom), picture.top)
        return row_of(within, len(plot), picture.top, picture.bottom)

    for dot in picture.dots:
        x, y = dot.column // COLUMNS_PER_CELL, row_at(dot.value)
        if y is None or not 0 <= x < len(plot[y].text):
            continue
        if dot.low is not None and dot.high is not None:
            for row in plot[row_at(dot.high) : (row_at(dot.low) or 0) + 1]:
                row.put(x, "│", dot.tone)
        plot[y].put(x, dot.marker[: len(plot[y].text) - x], dot.tone)


def _middle_row(picture: ChartPicture, height: int) -> int | None:
    """Return the row of the axis's middle, or None if the chart is too low for it."""
    middle = (picture.top + picture.bottom) / 2
    has_room = height >= _LEAST_WITH_MIDDLE
    return row_of(middle, height, picture.top, picture.bottom) if has_room else None


def _labels_middle(picture: ChartPicture) -> bool:
    labels = picture.left_labels
    return not labels or (len(labels) == 3 and bool(labels[1]))


def _marks(picture: ChartPicture, width: int) -> _Row:
    """Draw the row under the plot; stalls and alerts have a sign of their own."""
    signs = {"stall": "▲", "alert": "⚑"}
    stretches = tuple(shade for shade in picture.shades if shade[2] not in signs)
    row = _Row([*mark_row(picture.marks, stretches, width)], [MARK] * width)
    for first, last, kind in picture.shades:
        start = max(0, first // COLUMNS_PER_CELL)
        if kind in signs and start <= last // COLUMNS_PER_CELL and start < width:
            row.put(start, signs[kind], STALL)
    return row


def _put_cursor(plot: list[_Row], picture: ChartPicture, cursor: int, height: int) -> None:
    """Draw a thin vertical line, a dot on the curve, and the value beside the dot."""
    x, side = divmod(cursor, COLUMNS_PER_CELL)
    for row in plot:
        row.put(x, "▏▕"[side], CURSOR)
    value = picture.columns[cursor] if cursor < len(picture.columns) else None
    y = row_of(value, height, picture.top, picture.bottom)
    if y is None:
        return
    row = plot[y]
    row.put(x, "●", CURSOR)
    text = f" {picture.value} "
    start = x + 1 if x + 1 + len(text) <= len(row.text) else x - len(text)
    if picture.value and start >= 0:
        row.put(start, text, VALUE)


def _put_reason(plot: list[_Row], reason: str, width: int, height: int) -> None:
    lines = wrapped(reason, width - 2, height)
    for y, line in enumerate(lines, (height - len(lines)) // 2):
        text = fit(" " * ((width - cell_len(line)) // 2) + line, width)
        # A wide character takes two cells, so the row is one run, not one character per cell.
        plot[y] = _Row([text], [REASON])


def _axis_labels(picture: ChartPicture, height: int, axis_width: int) -> list[str]:
    """Return one text of `axis_width` cells for each row of the plot."""
    if not axis_width:
        return [""] * height
    texts = picture.left_labels or axis_numbers(picture.top, picture.bottom)
    # If two labels fall in one row, the upper one stays.
    label_at = {height - 1: texts[-1]} if len(texts) > 1 else {}
    middle = _middle_row(picture, height)
    if len(texts) == 3 and middle is not None:
        label_at[middle] = texts[1]
    label_at[0] = texts[0]
    labels = [label_at.get(y, "") for y in range(height)]
    room = axis_width - 1
    return [fit_right(label, room) + " " for label in labels]


def _backgrounds(shades: Sequence[tuple[int, int, str]], width: int) -> list[str]:
    """Return the background of each cell, "" if it has none; a stall covers other shades."""
    cells = [""] * width
    for first, last, kind in sorted(shades, key=lambda shade: shade[2] == "stall"):
        if kind in SHADES:
            start = max(0, first // COLUMNS_PER_CELL)
            end = max(start, min(width, last // COLUMNS_PER_CELL + 1))
            cells[start:end] = [SHADES[kind]] * (end - start)
    return cells


def _row(label: str, row: _Row, backgrounds: Sequence[str]) -> TextRow:
    """Return the axis label and the cells, in runs of equal background and tone."""
    runs: list[TextRun] = [(label, AXIS)] if label else []
    if row.tones == [REASON]:
        return (*runs, (row.text[0], REASON))
    start = 0
    for (tone, background), cells in groupby(zip(row.tones, backgrounds, strict=True)):
        end = start + len([*cells])
        style = f"{tone} on {background}" if background else tone
        runs.append(("".join(row.text[start:end]), style))
        start = end
    return tuple(runs)


_SHARES = {LINE: 100, AREA: 60, BAND: 60}
"""The opacity of each part, in %."""
_HUE_ITSELF = 0.6
"""The level of a filled area at which it has the hue of the quantity."""
_LOW_SHARE, _HIGH_SHARE = 0.5, 0.4
"""The share of the background at the bottom of a filled area, of the foreground at its top."""


def shaded(hue: Color, level: float, low: Color, high: Color) -> Color:
    """Return a hue at a level from 0 to 1: dark at first, then the hue itself, then bright."""
    if level < _HUE_ITSELF:
        return hue.blend(low, _LOW_SHARE * (1 - level / _HUE_ITSELF))
    return hue.blend(high, _HIGH_SHARE * (level - _HUE_ITSELF) / (1 - _HUE_ITSELF))


class Chart(Lines):
    """A line over time. The screen asks for `plot_columns` and calls `show`."""

    @dataclass
    class ColumnClicked(Message):
        """The user clicked a column; it may lie outside the picture."""

        column: int

    class Grabbed(Message):
        """The user pressed the mouse button over the chart, and may drag it from now on."""

    @dataclass
    class Dragged(Message):
        """The user dragged the chart by `columns` since it was grabbed; left is negative."""

        columns: int

    @dataclass
    class Scrolled(Message):
        """The user turned the mouse wheel over the chart."""

        up: bool

    class PlotResized(Message):
        """The chart was shown or has another size: its picture has to have as many columns."""

        def can_replace(self, message: Message) -> bool:
            """Let a screen draw once for all of its charts."""
            return isinstance(message, Chart.PlotResized)

    DEFAULT_CLASSES = "panel"
    AXIS_WIDTH = 6
    """Cells for the labels and the blank after them; a narrow chart has no labels."""
    filled = False
    """The area under the line is filled."""
    tall_shades = False
    """The whole plot is shaded, and not only the row of marks, by which few rows are repainted."""
    hue = "$primary"
    """The hue of the quantity, such as `$chart-cpu`."""
    axes: tuple[TimeAxis, TimeAxis] | None = None
    """The axis that all charts share, whose columns messages count, and this chart's own."""

    _picture = ChartPicture()
    _grabbed_x: int | None = None
    _dragged = False

    @property
    def plot_columns(self) -> int:
        """The number of data columns that fit now."""
        width = self.size.width
        return COLUMNS_PER_CELL * (width - self._axis_width(width))

    def show(self, picture: ChartPicture) -> None:
        """Show `picture`, and repaint only the rows that change."""
        if picture != self._picture:
            self._picture = picture
            self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        if width < 1 or height < 1:
            return []
        return picture_rows(
            self._picture,
            width,
            height,
            self._axis_width(width),
            filled=self.filled,
            tall_shades=self.tall_shades,
        )

    def style_of(self, style: str, y: int) -> Style:
        """Return the style of a run; a filled area is brighter toward its top."""
        tone, _, shade = style.partition(" on ")
        is_ansi = self.app.native_ansi_color
        if (share := _SHARES.get(tone)) is not None:
            if self.app.console.color_system == "standard" and not is_ansi:
                # The nearest of 16 colours to a shade of another hue may be red.
                plain_hue = ANSI_HUES.get(self.hue[1:], "ansi_blue").removeprefix("ansi_")
                return super().style_of(plain_hue, y)
            level = 1 - y / max(1, self.size.height - 1)
            if tone == AREA:
                # Below its line it is no brighter than that.
                level *= _HUE_ITSELF
            if (self.filled or tone == AREA) and not is_ansi:
                variables = self.app.theme_variables
                hue, *ends = (
                    Color.parse(variables[name])
                    for name in (self.hue[1:], "background", "foreground")
                )
                colour = Style(foreground=shaded(hue, level, *ends))
                return super().style_of(f"on {shade}" if shade else "", y) + colour
            faint = "dim " if tone != LINE else ""
            tone = f"{faint}{self.hue}" if is_ansi else f"{self.hue} {share}%"
        if is_ansi:
            # ANSI colours have no opacity.
            if tone.endswith(BEHIND):
                tone = f"dim {tone.removesuffix(BEHIND)}"
            shade = "ansi_red" if shade == SHADES["stall"] else ""
            tone = {GRID: "ansi_bright_black", STALL: tone if not shade else "bold"}.get(tone, tone)
        return super().style_of(f"{tone} on {shade}" if shade else tone, y)

    def ruler_of(self, times: TimeLabels) -> Ruler:
        """Return times as labels in the bottom border."""
        if not times.are_shown:
            return NO_RULER
        # The border begins a cell before the chart.
        start = 1 + self._axis_width(self.size.width)
        marks = ((start + column // COLUMNS_PER_CELL, text) for column, text in times.marks)
        return Ruler(tuple(marks), times.last)

    def on_resize(self, event: events.Resize) -> None:
        self.post_message(self.PlotResized())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1:
            self._grabbed_x, self._dragged = event.screen_x, False
            self.capture_mouse()
            self.post_message(self.Grabbed())

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grabbed_x is None:
            return
        if event.button == 0:
            # The button was released outside, so no event said so.
            self._release()
            return
        cells = event.screen_x - self._grabbed_x
        if cells or self._dragged:
            self._dragged = True
            columns = COLUMNS_PER_CELL * cells
            if self.axes is not None:
                shared, axis = self.axes
                columns = columns * axis.column_ns // shared.column_ns
            self.post_message(self.Dragged(columns))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._grabbed_x is None:
            return
        self._release()
        if not self._dragged:
            self.post_message(self.ColumnClicked(self._column_at(event.screen_x)))

    def on_hide(self) -> None:
        self._release()

    def _release(self) -> None:
        if self._grabbed_x is not None:
            self._grabbed_x = None
            self.release_mouse()

    def on_mouse_scroll_up(self) -> None:
        self.post_message(self.Scrolled(up=True))

    def on_mouse_scroll_down(self) -> None:
        self.post_message(self.Scrolled(up=False))

    def _column_at(self, screen_x: int) -> int:
        """Return the left one of the two columns in a cell of the screen."""
        region = self.content_region
        x = screen_x - region.x - self._axis_width(region.width)
        column = COLUMNS_PER_CELL * x
        if self.axes is None:
            return column
        shared, axis = self.axes
        return shared.column_of(axis.start_ns + column * axis.column_ns)

    def _axis_width(self, width: int) -> int:
        return self.AXIS_WIDTH if width >= 3 * self.AXIS_WIDTH else 0
