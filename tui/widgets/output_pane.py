"""The last lines that the workload printed, and what a person should know."""

from __future__ import annotations

from dlmon.records import Notice, Output
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, cut
from tui.widgets.rows import Row


class OutputPane(Lines):
    """Output and notices in the order of time, newest at the bottom."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id)
        self._lines: list[Output | Notice] = []

    def show(self, output: tuple[Output, ...], notices: tuple[Notice, ...]) -> None:
        """Show lines of output with the notices among them."""
        self._lines = sorted((*output, *notices), key=lambda line: line.t)
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the newest lines that have room."""
        if not self._lines:
            return [(("nothing printed yet", MUTED),)]
        ellipsis = "..." if self.ascii else "…"
        return [cut(self._row(line), width, ellipsis) for line in self._lines[-max(1, height) :]]

    def _row(self, line: Output | Notice) -> Row:
        if isinstance(line, Notice):
            return ((("! " if self.ascii else "▲ ") + line.text, STRONG),)
        return ((line.text, PLAIN if line.stream == "stdout" else MUTED),)
