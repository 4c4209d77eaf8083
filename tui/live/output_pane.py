"""The last lines that the workload printed, and what a person should know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len, chop_cells

from dlmon.figures.startup_messages import is_startup_message, startup_text
from dlmon.records import Alert, Notice, Output
from tui.widgets.following_lines import Tail
from tui.widgets.lines import MUTED, PLAIN, STRONG, cut
from tui.widgets.rows import TextRow, fit

# Where a pane is lower, a long line is cut instead, so that it doesn't push the others out.
WRAPPED_FROM_HEIGHT = 12
# Of a line that is cut, what stays of its beginning; its end says more, as a loss does.
_BEGINNING = 0.35
# Where there is less room, only the beginning of it is shown.
_LEAST_OF_BOTH = 8
# Beyond so many characters a cell, a text holds marks that take none.
_CHARACTERS_PER_CELL = 4

HELP: tuple[tuple[str, str], ...] = (
    (
        "Output",
        "What the training script prints, newest at the bottom; what it writes as an error is "
        "grey. The wheel scrolls back, in the log the arrow keys too; at the end it follows again. "
        "Of a line that is too long, the beginning and the end are kept.",
    ),
    (
        "start-up messages",
        "What TensorFlow, CUDA and XLA print at every start, folded into one line; the log (l) "
        "shows them as they came. Nothing that speaks of an error is folded.",
    ),
    (
        "▲ notices",
        "Messages of dlmon itself, such as a GPU that throttles because of heat, among the output "
        "at the time of the event.",
    ),
)


class OutputPane(Tail[Output | Notice | Alert]):
    """Output and notices in the order of time, newest at the bottom."""

    _empty = ""
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
            folded: whether what libraries print at the start is one line.
        """
        self._empty = "nothing printed yet" if running else "nothing was printed"
        lines = self._folded(output, until_ns) if folded else output
        self.show_lines(sorted((*lines, *notices), key=lambda line: line.t), "Output")

    def _folded(self, output: Sequence[Output], until_ns: int | None) -> Sequence[Output]:
        """Return the lines with one in the place of what was printed at the start."""
        # Lines come at the end and go at the beginning.
        known = (id(output[0]), id(output[-1]), len(output), until_ns) if output else ()
        if known != self._known:
            self._known, self._kept = known, fold_startup(output, until_ns)
        return self._kept

    def draw(self, width: int, height: int) -> list[TextRow]:
        if not self._lines:
            return [cut(((self._empty, MUTED),), width, self.ellipsis)]
        return super().draw(width, height)

    def rows_of(self, line: Output | Notice | Alert, width: int, height: int) -> list[TextRow]:
        """Return a line, broken where the pane is high, else cut."""
        mark, style = "", PLAIN
        if not isinstance(line, Output):
            mark, style = f"{self.glyphs.warning} ", STRONG
        elif line.stream != "stdout":
            style = MUTED
        room = width - len(mark)
        if height < WRAPPED_FROM_HEIGHT or room < 2:
            return [((mark + ends_of(line.text, max(0, room), self.ellipsis), style),)]
        # A character may take no cell at all; of what is longer, the rest has no room anyway.
        parts = broken(line.text[-2 * room * height :], room)
        if len(parts) > height:
            parts = [fit(self.ellipsis, room), *parts[len(parts) - height + 1 :]]
        return [
            (((mark if number == 0 else " " * len(mark)) + part, style),)
            for number, part in enumerate(parts)
        ]


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


def ends_of(text: str, width: int, ellipsis: str = "…") -> str:
    """Return a text, or its beginning and its end where it is too wide."""
    if len(text) <= width * _CHARACTERS_PER_CELL and cell_len(text) <= width:
        return text
    room = width - cell_len(ellipsis)
    if room < _LEAST_OF_BOTH:
        return fit(text[: width * _CHARACTERS_PER_CELL], width, ellipsis)
    longest = room * _CHARACTERS_PER_CELL
    begin = chop_cells(text[:longest], int(room * _BEGINNING))[0].rstrip()
    end, at_end = len(text), room - cell_len(begin)
    while end > max(0, len(text) - longest) and cell_len(text[end - 1 :]) <= at_end:
        end -= 1
    return fit(f"{begin}{ellipsis}{text[end:].lstrip()}", width, ellipsis).rstrip()
