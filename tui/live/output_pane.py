"""The last lines that the workload printed, and what a person should know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len, chop_cells
from textual import events

from dlmon.figures.startup_messages import is_startup_message, startup_text
from dlmon.records import Alert, Notice, Output
from tui.widgets.following_lines import Wheel
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines
from tui.widgets.rows import TextRow, fit

# Of a line that is cut, what stays of its beginning; its end says more, as a loss does.
_BEGINNING = 0.35
# Beyond so many characters a cell, a text holds marks that take none.
_CHARACTERS_PER_CELL = 4


_Line = Output | Notice | Alert


class OutputPane(Wheel, Lines):
    """Output and notices in the order of time, newest at the bottom, unless one scrolls back."""

    DEFAULT_CLASSES = "panel"

    _lines: Sequence[_Line] = ()
    _lowest: _Line | None = None
    """The lowest line in view; None follows the newest."""
    _empty = ""
    _folded = True
    _known: tuple[object, ...] = ()
    _kept: Sequence[Output] = ()

    def show(
        self,
        output: tuple[Output, ...],
        notices: tuple[Notice | Alert, ...],
        running: bool = True,
        until_ns: int | None = None,
        folded: bool = True,
    ) -> None:
        """Show lines of output with the notices among them; one that is over prints no more.

        Args:
            output: the lines, oldest first.
            notices: those of dlmon.
            running: whether more may come.
            until_ns: when the start was over; None while it isn't.
            folded: whether what libraries print at the start is one line, and no line is broken.
        """
        self._empty = "nothing printed yet" if running else "nothing was printed"
        self._folded = folded
        # Lines come at the end and go at the beginning.
        known = (id(output[0]), id(output[-1]), len(output), until_ns) if output else ()
        if folded and known != self._known:
            self._known, self._kept = known, fold_startup(output, until_ns)
        lines = self._kept if folded and output else output
        self._lines = sorted((*lines, *notices), key=lambda line: line.t)
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the lines that end at the newest, or where one has scrolled to."""
        if not self._lines:
            return [((fit(self._empty, width), MUTED),)]
        rows: list[TextRow] = []
        for line in reversed(self._lines[: self._end(width, height)]):
            if len(rows) >= height:
                break
            rows[:0] = self._rows_of(line, width)[len(rows) - height :]
        return rows

    def redraw(self) -> None:
        """Draw again, and say how many lines lie below."""
        super().redraw()
        below = len(self._lines) - self._end(*self.size)
        self.set_titles("Output", f"{below} newer below" if below else "")

    def on_resize(self, event: events.Resize) -> None:
        """Say again how many lines lie below."""
        self.redraw()

    def scroll_lines(self, delta: int) -> None:
        """Scroll by lines: back is negative; at the newest it follows again."""
        end = max(self._end(*self.size) + delta, self._from_top(*self.size))
        self._lowest = self._lines[end - 1] if end < len(self._lines) else None
        self.redraw()

    def _end(self, width: int, height: int) -> int:
        """Return the number of lines down to the lowest in view: no room is left below it."""
        if self._lowest is None:
            return len(self._lines)
        places = (n for n in range(len(self._lines), 0, -1) if self._lines[n - 1] is self._lowest)
        return max(next(places, 0), self._from_top(width, height))

    def _from_top(self, width: int, height: int) -> int:
        """Return how many lines fit, from the oldest on: further back there is nothing."""
        rows = 0
        for count, line in enumerate(self._lines):
            rows += len(self._rows_of(line, width))
            if rows > height:
                return max(1, count)
        return len(self._lines)

    def _rows_of(self, line: _Line, width: int) -> list[TextRow]:
        """Return a line, broken in the whole log, else cut."""
        mark, style = "", PLAIN
        if not isinstance(line, Output):
            mark, style = "▲ ", STRONG
        elif line.stream != "stdout":
            style = MUTED
        room = max(1, width - len(mark))
        if self._folded:
            return [((mark + ends_of(line.text, room), style),)]
        blank = " " * len(mark)
        parts = broken(line.text, room)
        return [((f"{blank if n else mark}{part}", style),) for n, part in enumerate(parts)]


def fold_startup(output: Iterable[Output], until_ns: int | None) -> tuple[Output, ...]:
    """Return lines with one in place of all that libraries print at the start.

    It stands where the first of them was.

    Args:
        output: the lines, oldest first.
        until_ns: when the start was over; None while it isn't.
    """
    kept: list[Output] = []
    first: int | None = None
    count = 0
    for line in output:
        is_early = until_ns is None or line.t <= until_ns
        if is_early and is_startup_message(line):
            count += 1
            if first is None:
                first = len(kept)
                kept.append(line)
        else:
            kept.append(line)
    if first is not None and count > 1:
        kept[first] = replace(kept[first], stream="stderr", text=startup_text(count))
    return tuple(kept)


def broken(text: str, width: int) -> list[str]:
    """Return a text in parts of at most `width` cells, broken at blanks that are not far off."""
    parts = []
    while text:
        part = next(iter(chop_cells(text, width)), text) or text
        blank = part.rfind(" ")
        if len(part) < len(text) and text[len(part)] != " " and blank > len(part) // 2:
            part = part[:blank]
        parts.append(part)
        text = text[len(part) :].removeprefix(" ")
    return parts or [""]


def ends_of(text: str, width: int) -> str:
    """Return a text, or its beginning and its end where it is too wide."""
    text = text if len(text) <= width * _CHARACTERS_PER_CELL else f"{text[:width]}{text[-width:]}"
    if cell_len(text) <= width:
        return text
    room = width - 1
    begin = chop_cells(text, max(1, int(room * _BEGINNING)))[0].rstrip()
    end = text
    while end and cell_len(end) > room - cell_len(begin):
        end = end[1:]
    return fit(f"{begin}…{end.lstrip()}", width).rstrip()
