"""The last lines that the workload printed, and what a person should know."""

from __future__ import annotations

from rich.cells import chop_cells

from dlmon.records import Notice, Output
from tui.widgets.following_lines import Tail
from tui.widgets.lines import MUTED, PLAIN, STRONG, cut
from tui.widgets.rows import TextRow

# Where a pane is lower, a long line is cut instead, so that it doesn't push the others out.
WRAPPED_FROM_HEIGHT = 12

HELP: tuple[tuple[str, str], ...] = (
    (
        "Output",
        "What the training script prints, newest at the bottom; what it writes as an error is "
        "grey. The wheel scrolls back, in the log the arrow keys too; at the end it follows again.",
    ),
    (
        "▲ notices",
        "Messages of dlmon itself, such as a GPU that throttles because of heat, among the output "
        "at the time of the event.",
    ),
)


class OutputPane(Tail[Output | Notice]):
    """Output and notices in the order of time, newest at the bottom."""

    _empty = ""

    def show(
        self, output: tuple[Output, ...], notices: tuple[Notice, ...], running: bool = True
    ) -> None:
        """Show lines of output with the notices among them; one that is over prints no more."""
        self._empty = "nothing printed yet" if running else "nothing was printed"
        self.show_lines(sorted((*output, *notices), key=lambda line: line.t), "Output")

    def draw(self, width: int, height: int) -> list[TextRow]:
        if not self._lines:
            return [cut(((self._empty, MUTED),), width, self.ellipsis)]
        return super().draw(width, height)

    def rows_of(self, line: Output | Notice, width: int, height: int) -> list[TextRow]:
        """Return a line, broken where the pane is high, else cut."""
        mark, style = "", PLAIN
        if isinstance(line, Notice):
            mark, style = f"{self.glyphs.warning} ", STRONG
        elif line.stream != "stdout":
            style = MUTED
        room = width - len(mark)
        if height < WRAPPED_FROM_HEIGHT or room < 2:
            return [cut(((mark + line.text, style),), width, self.ellipsis)]
        # A character may take no cell at all; of what is longer, the rest has no room anyway.
        parts = chop_cells(line.text[: 2 * room * height], room) or [""]
        rows: list[TextRow] = [
            (((mark if number == 0 else " " * len(mark)) + part, style),)
            for number, part in enumerate(parts[:height])
        ]
        if len(parts) > height:
            rows[-1] = cut(((rows[-1][0][0] + parts[height], style),), width, self.ellipsis)
        return rows
