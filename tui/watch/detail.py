"""A machine part by part, each with all of its figures; one can scroll in it."""

from __future__ import annotations

from rich.cells import cell_len

from tui.machine.meters import LEVEL_STYLES, meters_side_by_side
from tui.machine.view import MachineView, is_over
from tui.watch.sections import Section, sections
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import (
    ACCENT,
    BAD,
    MUTED,
    PLAIN,
    STRONG,
    beside,
    cut,
    fitting,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun, fit

_LEAST_COLUMN, _GAP, _MOST_COLUMNS = 36, 2, 4
_LABEL = 13
_INDENT = 1
_MARGIN = 2
"""Cells on the right, for the thumb that says which part is shown."""


class MachineDetail(ScrollingLines):
    """Every GPU, the CPU, memory, disk, network, and the run; what is unknown with its reason."""

    def rows(self, width: int, height: int, view: MachineView) -> list[TextRow]:
        """Return what is known now; what is seen of it stays in place."""
        all_rows = self._all_rows(view, width - _MARGIN)
        return self.scrolled(all_rows, width, height)

    show = shows(rows)

    def _all_rows(self, view: MachineView, width: int) -> list[TextRow]:
        rows: list[TextRow] = []
        for section in sections(view):
            rows += [self._heading(section, view, width), *self._body(section, view, width)]
            rows.append(())
        return [cut(row, width) for row in rows[:-1]]

    def _heading(self, section: Section, view: MachineView, width: int) -> TextRow:
        """Return a title, what has room of what the part is, and a line."""
        runs: list[TextRun] = [(f" {section.title}", ACCENT)]
        if view.stale:
            runs.append((view.stale, BAD))
        elif is_over(view):
            runs.append(("as last read", MUTED))
        runs += ((text, MUTED if number else STRONG) for number, text in enumerate(section.about))
        row = fitting(tuple(runs), width - 2)
        rest = width - row_width(row) - 1
        return (*row, (f" {'─' * rest}", MUTED))

    def _body(self, section: Section, view: MachineView, width: int) -> list[TextRow]:
        room = width - _INDENT
        rows: list[TextRow] = []
        if section.problem:
            lines = wrapped(section.problem, room, 3)
            rows += [((f" {line}", BAD if view.gpus else PLAIN),) for line in lines]
        in_a_row = max(1, min(_MOST_COLUMNS, (room + _GAP) // (_LEAST_COLUMN + _GAP)))
        each = (room - _GAP * (in_a_row - 1)) // in_a_row - _LABEL
        known = [figure for figure in section.figures if figure.known]
        # A text without a bar may be longer than its column.
        texts = (figure for figure in known if figure.fraction is None)
        long = [figure for figure in texts if cell_len(figure.text) > each]
        short = [figure for figure in known if figure not in long]
        stale = bool(view.stale)
        meters = meters_side_by_side(short, in_a_row, room, _LABEL, stale=stale)
        rows += [((" ", PLAIN), *row) for row in meters]
        for figure in long:
            style = MUTED if stale else LEVEL_STYLES[figure.level]
            lines = wrapped(figure.text, room - _LABEL, 3)
            rows += beside(f" {fit(figure.label, _LABEL)}", lines, style)
        for reason, names in section.unknown.items():
            lines = wrapped(f"{names}: {reason}", room, 3)
            rows += [((f" {line}", MUTED),) for line in lines]
        return rows
