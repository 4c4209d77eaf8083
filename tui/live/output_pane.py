"""The pane of the workload's output, with dlmon's notices and alerts among it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from rich.cells import chop_cells
from textual import events

from dlmon.figures.session.output import merge_startup_messages
from dlmon.records import Alert, Notice, Output
from tui.widgets.lines import MUTED, PLAIN, STRONG, TextRow, cut_inside, fit
from tui.widgets.tables import FollowingLines

_Line = Output | Notice | Alert


class OutputPane(FollowingLines):
    """Output and notices in the order of time; the newest are in view unless one scrolls back."""

    DEFAULT_CLASSES = "panel"

    _lines: Sequence[_Line] = ()
    _empty = ""
    _folded = True
    _last_shown: tuple[object, ...] = ()
    _rows_of_width: tuple[int, list[TextRow]] = (-1, [])

    def show(
        self,
        output: tuple[Output, ...],
        notices: tuple[Notice | Alert, ...],
        running: bool = True,
        until_ns: int | None = None,
        folded: bool = True,
    ) -> None:
        """Show lines of output with the notices among them.

        Args:
            output: the lines, oldest first.
            notices: dlmon's notices and alerts.
            running: whether more may come.
            until_ns: the end of the start-up; None before it.
            folded: fold the output of the start-up into one line, and cut long lines rather than
                wrap them.
        """
        self._empty = "nothing printed yet" if running else "nothing was printed"
        content = (*output[:1], *output[-1:], len(output), notices, until_ns, folded)
        if content != self._last_shown:
            self._last_shown, self._folded = content, folded
            lines = merge_startup_messages(output, until_ns) if folded else output
            before, self._lines = self._lines, sorted((*lines, *notices), key=lambda line: line.t)
            self._keep_in_view(before)
        self.redraw()

    def _keep_in_view(self, before: Sequence[_Line]) -> None:
        """Keep the same lines in view after lines were added at the end or dropped at the start."""
        width, rows = self._rows_of_width
        self._rows_of_width = (-1, [])
        if self._scrolled and before:
            new = takewhile(lambda line: line != before[-1], reversed(self._lines))
            to_end = len(rows) - self._first + sum(len(self._rows_of(line, width)) for line in new)
            self._first = len(self._all_rows(width)) - to_end

    def _all_rows(self, width: int) -> list[TextRow]:
        if self._rows_of_width[0] != width:
            rows = [row for line in self._lines for row in self._rows_of(line, width)]
            self._rows_of_width = width, rows
        return self._rows_of_width[1]

    def draw(self, width: int, height: int) -> list[TextRow]:
        if width < 1 or height < 1:
            return []
        if not self._lines:
            return [((fit(self._empty, width), MUTED),)]
        rows = self._all_rows(width)
        in_view = self.in_view(len(rows), height)
        return rows[in_view.start : in_view.stop]

    def redraw(self) -> None:
        """Draw the lines, and write the number of newer ones in the border."""
        super().redraw()
        below = len(self._rows_of_width[1]) - self._in_view.stop if self._scrolled else 0
        self.set_titles("Output", f"{below} newer below" if below else "")

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def _rows_of(self, line: _Line, width: int) -> list[TextRow]:
        """Return the rows of a line: one if folded, otherwise as many as it takes."""
        mark, style = "", PLAIN
        if not isinstance(line, Output):
            mark, style = "▲ ", STRONG
        elif line.stream != "stdout":
            style = MUTED
        room = max(1, width - len(mark))
        parts = [cut_inside(line.text, room)] if self._folded else split_line(line.text, room)
        return [
            ((f"{' ' * len(mark) if n else mark}{part}", style),) for n, part in enumerate(parts)
        ]


def split_line(text: str, width: int) -> list[str]:
    """Return a text in parts of at most `width` cells, split at a blank in a part's second half."""
    parts = []
    while text:
        part = next(iter(chop_cells(text, width)), text) or text
        blank = part.rfind(" ")
        if len(part) < len(text) and text[len(part)] != " " and blank > len(part) // 2:
            part = part[:blank]
        parts.append(part)
        text = text[len(part) :].removeprefix(" ")
    return parts or [""]
