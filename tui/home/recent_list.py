"""The list of recent sessions on the home screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType

from dlmon.figures import units
from dlmon.figures.lists.recent_sessions import RecentSession
from dlmon.render.wrap import first_words
from dlmon.session.learning import drawable
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
from tui.widgets.lines import BAD, BAR, MUTED, PLAIN, STRONG, TextRow, fit, whole_parts
from tui.widgets.tables import RowList

_HEADINGS = ("What", "When", "Result", "vs before", "Loss")
_GAP = 2
_RESULT = 2
_LEAST_NAME, _LOSS_CELLS = 20, 6
_EMPTY = "No sessions yet. Every run is recorded."
# How long ago the sessions were is written anew.
_REFRESH_S = 30.0


class RecentList(RowList, can_focus=True):
    """The newest sessions."""

    FOCUS_ON_CLICK = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Session above", show=False),
        Binding("down", "move(1)", "Session below", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
    ]

    sessions: Sequence[RecentSession] | None = None
    """The sessions, newest first; None until they are read."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        super().__init__(id="recent")
        self._wall_clock = wall_clock

    def on_mount(self) -> None:
        self.set_titles("Recent sessions")
        self.set_interval(_REFRESH_S, self.redraw)

    def show(self, sessions: Sequence[RecentSession], recorded: int) -> None:
        """Show the sessions; the highlight stays on its session while the list has the focus."""
        highlighted = self.chosen.entry.path if self.chosen and self.has_focus else None
        paths = [session.entry.path for session in sessions]
        self.sessions = sessions
        self.set_titles("Recent sessions", f"{recorded:,} recorded" if recorded else "")
        self.highlight(paths.index(highlighted) if highlighted in paths else self.index)

    @property
    def chosen(self) -> RecentSession | None:
        return self.sessions[self.index] if self.sessions else None

    @property
    def count(self) -> int:
        return len(self.sessions or ())

    def action_move(self, steps: int) -> None:
        self.move(steps)

    def action_move_page(self, direction: int) -> None:
        self.move_page(direction)

    def watch_has_focus(self, has_focus: bool) -> None:
        """Draw the highlight only while the list has the focus."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def _texts(self, session: RecentSession) -> tuple[str, ...]:
        when = units.ago(session.entry.header.wall, self._wall_clock())
        return session.name, when, session.result, session.change_text, _spark(session.losses)

    def _cells(self, width: int) -> list[int]:
        """Return the cells of each column, 0 for one without content.

        The name has what the results and the others leave, the warnings of results the rest.
        """
        columns = [*zip(*map(self._texts, self.sessions or ()), strict=True)]
        widest = [max(map(cell_len, texts)) for texts in columns]
        cells = [n and max(n, len(name)) for n, name in zip(widest, _HEADINGS, strict=True)]
        results = max(cell_len(text.partition("; ")[0]) for text in columns[_RESULT])
        others = sum(n + _GAP for n in cells if n) - _GAP - cells[0] - cells[_RESULT]
        cells[0] = min(cells[0], max(_LEAST_NAME, width // 4, width - others - results))
        others = sum(n + _GAP for n in cells if n) - cells[_RESULT]
        cells[_RESULT] = min(cells[_RESULT], max(0, width + _GAP - others))
        return cells

    def heading(self, width: int) -> TextRow:
        return self._row(_HEADINGS, (MUTED,) * len(_HEADINGS), width)

    def row_of(self, index: int, width: int) -> TextRow:
        session = (self.sessions or ())[index]
        result = BAD if session.is_bad else PLAIN
        return self._row(self._texts(session), (STRONG, MUTED, result, PLAIN, BAR), width)

    def _row(self, texts: Sequence[str], styles: Sequence[str], width: int) -> TextRow:
        row: TextRow = ()
        room = self._cells(width)
        texts = [
            *texts[:_RESULT],
            whole_parts(texts[_RESULT], room[_RESULT]),
            *texts[_RESULT + 1 :],
        ]
        for text, style, cells in zip(texts, styles, room, strict=True):
            if cells:
                gap = " " * _GAP if row else ""
                row = (*row, (gap + fit(first_words(text, cells), cells), style))
        return row

    def _row_drawn(self, index: int, width: int) -> TextRow:
        return super()._row_drawn(index, width) if self.has_focus else self.row_of(index, width)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        return [(("reading the sessions …" if self.sessions is None else _EMPTY, MUTED),)]


def _spark(losses: Sequence[float]) -> str:
    """Draw values in a row, filled, from the least to the largest."""
    values = [drawable(loss) for loss in losses]
    known = [value for value in values if value is not None]
    if not known:
        return ""
    columns = _LOSS_CELLS * COLUMNS_PER_CELL
    picked = [values[n * len(values) // columns] for n in range(columns)]
    low, high = min(known), max(known)
    (row,) = braille_rows(
        picked, _LOSS_CELLS, 1, high if high > low else low + abs(low) + 1, low, filled=True
    )
    return row
