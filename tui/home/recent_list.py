"""The list of recent sessions on the home screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType

from dlmon.figures import units
from dlmon.figures.lists.recent_sessions import RecentSession
from dlmon.render.wrap import first_words
from tui.drawing.plot import fitted_rows
from tui.widgets.lines import BAD, BAR, MUTED, PLAIN, STRONG, TextRow, fit, whole_parts
from tui.widgets.tables import RowList

_HEADINGS = ("What", "When", "Speed", "vs before", "Result", "Loss")
_BRIEF = ("What", "When", "Result", "vs before", "Loss")
_GAP = 2
# In a narrower list the speed, which is compared, stands for the result.
_WIDTH_FOR_BOTH = 100
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

    def _texts(self, session: RecentSession, width: int) -> tuple[str, ...]:
        when = units.ago(session.entry.header.wall, self._wall_clock())
        figures: Sequence[str] = (session.speed, session.change_text, session.result)
        if width < _WIDTH_FOR_BOTH:
            figures = (session.speed_or_result, session.change_text)
        return session.name, when, *figures, *fitted_rows(session.losses, _LOSS_CELLS)

    def _cells(self, width: int) -> list[int]:
        """Return the cells of each column, 0 for one without content.

        The name has what the results and the others leave, the warnings of results the rest.
        """
        names = _headings(width)
        result = names.index("Result")
        texts = (self._texts(session, width) for session in self.sessions or ())
        columns = [*zip(*texts, strict=True)]
        widest = [max(map(cell_len, texts)) for texts in columns]
        cells = [n and max(n, len(name)) for n, name in zip(widest, names, strict=True)]
        results = max(cell_len(text.partition("; ")[0]) for text in columns[result])
        others = sum(n + _GAP for n in cells if n) - _GAP - cells[0] - cells[result]
        cells[0] = min(cells[0], max(_LEAST_NAME, width // 4, width - others - results))
        others = sum(n + _GAP for n in cells if n) - cells[result]
        cells[result] = min(cells[result], max(0, width + _GAP - others))
        return cells

    def heading(self, width: int) -> TextRow:
        names = _headings(width)
        return self._row(names, dict.fromkeys(names, MUTED), width)

    def row_of(self, index: int, width: int) -> TextRow:
        session = (self.sessions or ())[index]
        result = BAD if session.is_bad else PLAIN
        styles = {"What": STRONG, "When": MUTED, "Result": result, "Loss": BAR}
        return self._row(self._texts(session, width), styles, width)

    def _row(self, texts: Sequence[str], styles: Mapping[str, str], width: int) -> TextRow:
        row: TextRow = ()
        for name, text, cells in zip(_headings(width), texts, self._cells(width), strict=True):
            if cells:
                text = whole_parts(text, cells) if name == "Result" else first_words(text, cells)
                gap = " " * _GAP if row else ""
                row = (*row, (gap + fit(text, cells), styles.get(name, PLAIN)))
        return row

    def _row_drawn(self, index: int, width: int) -> TextRow:
        return super()._row_drawn(index, width) if self.has_focus else self.row_of(index, width)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        return [(("reading the sessions …" if self.sessions is None else _EMPTY, MUTED),)]


def _headings(width: int) -> Sequence[str]:
    return _HEADINGS if width >= _WIDTH_FOR_BOTH else _BRIEF
