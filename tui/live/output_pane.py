"""The pane of the workload's output, with dlmon's notices and alerts among it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, takewhile

from rich.cells import chop_cells
from textual import events

from dlmon.figures import units
from dlmon.figures.session.output import merge_startup_messages
from dlmon.records import Alert, Notice, Output
from tui.widgets.lines import CHOSEN, MUTED, PLAIN, STRONG, TextRow, cut_inside, fit
from tui.widgets.tables import FollowingLines

_Line = Output | Notice | Alert
_FOUND = "bold $text-warning underline"
_LEAST_WIDTH_WITH_TIME = 40


class OutputPane(FollowingLines):
    """Output and notices in the order of time; the newest are in view unless one scrolls back."""

    DEFAULT_CLASSES = "panel"

    _lines: Sequence[_Line] = ()
    _empty = ""
    _folded = True
    _last_shown: tuple[object, ...] = ()
    _rows_of_width: tuple[int, list[TextRow]] = (-1, [])
    earlier: Sequence[Output] = ()
    """Lines of the log that are searched too, though the session keeps them no more."""
    begin_ns: int | None = None
    """The start of the session, from which on times stand before the lines; None for no times."""
    _first_rows: Sequence[int] = ()
    """The first row of each line."""
    _searched = ""
    _matches: Sequence[int] = ()
    """The lines that contain the text that is searched for, by their index."""
    _match = 0

    def search(self, text: str) -> None:
        """Mark the lines that contain a text, and go to the newest; an empty text ends that."""
        self._searched, self._match = text.lower(), 0
        self._find_matches()
        self.go_to_match(-1)

    def search_again(self) -> None:
        """Search for the same text, because there are other lines."""
        if self._searched:
            self.search(self._searched)

    def go_to_match(self, step: int) -> None:
        """Go to a later match, or with a negative step to an earlier one, in a circle."""
        if self._matches:
            self._match = (self._match + step) % len(self._matches)
            self._all_rows(self.size.width)
            first_row = self._first_rows[self._matches[self._match]]
            self._first, self._scrolled = first_row - self.size.height // 2, True
        self.redraw()

    def _find_matches(self) -> None:
        text = self._searched
        lines = enumerate(self._lines if text else ())
        self._matches = [number for number, line in lines if text in line.text.lower()]
        self._match = min(self._match, max(0, len(self._matches) - 1))

    def show(
        self,
        output: tuple[Output, ...],
        notices: tuple[Notice | Alert, ...],
        running: bool = True,
        until_ns: int | None = None,
        folded: bool = True,
    ) -> None:
        """Show lines of output with the notices among them.

        If `folded`, the output of the start-up, until `until_ns`, is one line, and long lines are
        cut rather than wrapped.
        """
        self._empty = "nothing printed yet" if running else "nothing was printed"
        if self.earlier and output:
            before_ns = output[0].t
            output = (*(line for line in self.earlier if line.t < before_ns), *output)
        content = (*output[:1], *output[-1:], len(output), notices, until_ns, folded)
        if content != self._last_shown:
            self._last_shown, self._folded = content, folded
            lines = merge_startup_messages(output, until_ns) if folded else output
            before, self._lines = self._lines, sorted((*lines, *notices), key=lambda line: line.t)
            self._keep_in_view(before)
            self._find_matches()
        self.redraw()

    def _keep_in_view(self, before: Sequence[_Line]) -> None:
        """Keep the same lines in view after lines were added at the end or dropped at the start."""
        width, rows = self._rows_of_width
        self._rows_of_width = (-1, [])
        if self._scrolled and before:
            new = takewhile(lambda line: line != before[-1], reversed(self._lines))
            added = sum(len(_rows_of(line, width, self._folded, self.begin_ns)) for line in new)
            to_end = len(rows) - self._first + added
            self._first = len(self._all_rows(width)) - to_end

    def _all_rows(self, width: int) -> list[TextRow]:
        if self._rows_of_width[0] != width:
            of_lines = [_rows_of(line, width, self._folded, self.begin_ns) for line in self._lines]
            self._rows_of_width = width, [row for rows in of_lines for row in rows]
            self._first_rows = [0, *accumulate(map(len, of_lines))]
        return self._rows_of_width[1]

    def draw(self, width: int, height: int) -> list[TextRow]:
        if width < 1 or height < 1:
            return []
        if not self._lines:
            return [((fit(self._empty, width), MUTED),)]
        rows = self._all_rows(width)
        in_view = self.in_view(len(rows), height)
        if self._folded and not self._scrolled and self._first_rows[-2] < in_view.start:
            # Of an alert without room, the beginning tells what happened.
            in_view = range(self._first_rows[-2], self._first_rows[-2] + height)
        if not self._matches:
            return rows[in_view.start : in_view.stop]
        line = self._matches[self._match]
        current = range(self._first_rows[line], self._first_rows[line + 1])
        return [self._marked(rows[n], CHOSEN if n in current else _FOUND) for n in in_view]

    def _marked(self, row: TextRow, mark: str) -> TextRow:
        """Mark the text that is searched for in a row."""
        *time, (text, style) = row
        parts = re.split(f"({re.escape(self._searched)})", text, flags=re.IGNORECASE)
        marked = ((part, mark if n % 2 else style) for n, part in enumerate(parts) if part)
        return (*time, *marked)

    def redraw(self) -> None:
        """Draw the lines, and write the number of newer ones in the border."""
        super().redraw()
        below = len(self._rows_of_width[1]) - self._in_view.stop if self._scrolled else 0
        found = f"{self._match + 1} of {len(self._matches)}" if self._matches else "no match"
        more = f"{below} newer below" if below else ""
        how_to = "" if self._folded or self._searched else "↑↓ scrolls  / searches"
        count = "" if self._folded else units.counted(len(self._lines), "line")
        self.set_titles("Output", more or how_to, right=found if self._searched else count)

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()


@lru_cache(maxsize=4096)
def _rows_of(line: _Line, width: int, folded: bool, begin_ns: int | None) -> list[TextRow]:
    """Return the rows of a line, behind its time: one of output that is folded."""
    mark, style = "", PLAIN
    time = "" if begin_ns is None else f"{units.clock(max(0, line.t - begin_ns) / 1e9):>7}  "
    if time and width >= _LEAST_WIDTH_WITH_TIME:
        rest = _rows_of(line, width - len(time), folded, None)
        times = [time, *[" " * len(time)] * (len(rest) - 1)]
        return [((text, MUTED), *row) for text, row in zip(times, rest, strict=True)]
    if not isinstance(line, Output):
        mark, style = "▲ ", STRONG
    elif line.stream != "stdout":
        style = MUTED
    room = max(1, width - len(mark))
    is_cut = folded and isinstance(line, Output)
    parts = [cut_inside(line.text, room)] if is_cut else split_line(line.text, room)
    return [((f"{' ' * len(mark) if n else mark}{part}", style),) for n, part in enumerate(parts)]


def split_line(text: str, width: int) -> list[str]:
    """Return a text in parts of at most `width` cells, split at a blank in a part's second half."""
    if len(text) <= width and text.isascii():
        return [text]
    parts = []
    while text:
        part = next(iter(chop_cells(text, width)), text) or text
        blank = part.rfind(" ")
        if len(part) < len(text) and text[len(part)] != " " and blank > len(part) // 2:
            part = part[:blank]
        parts.append(part)
        text = text[len(part) :].removeprefix(" ")
    return parts or [""]
