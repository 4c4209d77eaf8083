"""The workloads, grouped by family: one of them is highlighted, and what is typed filters them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from textual import events
from textual.message import Message

from dlmon.figures import units
from tui.widgets.following_lines import ScrollingLines
from tui.widgets.lines import CHOSEN, MUTED, PLAIN, UNDERLINED, cut, joined
from tui.widgets.rows import TextRow, TextRun
from workloads.catalog import Workload


def matching(workloads: Iterable[Workload], typed: str) -> list[Workload]:
    """Return the workloads that hold every word of `typed`, families together."""
    # Who begins a search with / elsewhere does so here.
    words = typed.lower().removeprefix("/").split()
    found = [workload for workload in workloads if all(w in _searched(workload) for w in words)]
    families = list(dict.fromkeys(workload.family for workload in found))
    return sorted(found, key=lambda workload: families.index(workload.family))


def _searched(workload: Workload) -> str:
    return f"{workload.name} {workload.family} {workload.title}".lower()


def with_headings(workloads: Sequence[Workload]) -> list[Workload | str]:
    """Put the name of each family before its workloads."""
    lines: list[Workload | str] = []
    family = None
    for workload in workloads:
        if workload.family != family:
            family = workload.family
            lines.append(family)
        lines.append(workload)
    return lines


def pieces(text: str, typed: str) -> list[tuple[str, bool]]:
    """Cut `text` where it begins or ceases to hold a word of `typed`."""
    lowered = text.lower()
    marked = [False] * len(text)
    for word in typed.lower().split():
        start = lowered.find(word)
        while start >= 0:
            marked[start : start + len(word)] = [True] * len(word)
            start = lowered.find(word, start + 1)
    cut: list[tuple[str, bool]] = []
    for character, mark in zip(text, marked, strict=False):
        if cut and cut[-1][1] == mark:
            cut[-1] = (cut[-1][0] + character, mark)
        else:
            cut.append((character, mark))
    return cut


_PARAMETERS_WIDTH, _LAST_WIDTH = 11, 11
# Where there is less room, a column on the right gives way to the names.
_WIDTH_FOR_LAST, _WIDTH_FOR_PARAMETERS = 32, 42
_MARGIN = 1
"""Cells on the right, for the thumb that says which part is shown."""


class WorkloadList(ScrollingLines):
    """A list that scrolls; its headings can't be highlighted.

    It never has the focus: keys go to the field that filters it, and the
    screen moves the highlight.
    """

    class Highlighted(Message):
        """Another workload is highlighted, or none is left."""

    class Picked(Message):
        """A workload was clicked."""

    class Chosen(Message):
        """A workload was clicked twice."""

    def __init__(self, workloads: Sequence[Workload], *, id: str | None = None) -> None:
        """Show all workloads, the first one highlighted."""
        super().__init__(id=id, classes="panel")
        self._all = workloads
        self._shown = matching(workloads, "")
        self._typed = ""
        self._last: Mapping[str, str] = {}
        self.highlighted: Workload | None = self._shown[0] if self._shown else None

    def show_results(self, last: Mapping[str, str]) -> None:
        """Take what each workload took here the last time, by name."""
        self._last = last
        self.redraw()

    def filter(self, typed: str) -> None:
        """Show only what matches; the highlight stays where it can."""
        self._typed = typed
        self._shown = matching(self._all, typed)
        kept = self.highlighted in self._shown
        self._highlight(self.highlighted if kept else next(iter(self._shown), None))
        self._name_columns()

    def move(self, steps: int) -> None:
        """Move the highlight, as far as there are workloads."""
        if self.highlighted is not None:
            index = self._shown.index(self.highlighted) + steps
            self._highlight(self._shown[min(max(index, 0), len(self._shown) - 1)])

    def move_page(self, direction: int) -> None:
        """Move the highlight by about as many rows as are shown."""
        if self.highlighted is None:
            return
        lines = with_headings(self._shown)
        row = lines.index(self.highlighted) + direction * max(2, self.size.height - 1)
        self._highlight(min(self._shown, key=lambda workload: abs(lines.index(workload) - row)))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the visible rows."""
        lines = with_headings(self._shown)
        if not lines:
            return [
                cut(((" No workload matches that.", PLAIN),), width),
                cut(((" Esc clears the filter.", MUTED),), width),
            ]
        room = width - _MARGIN
        rows = [self._row(lines[index], room) for index in self.in_view(len(lines), height)]
        return self.with_thumb(rows, len(lines), width)

    def on_mount(self) -> None:
        """Report the first highlight."""
        self._name_columns()
        self.post_message(self.Highlighted())

    def on_resize(self, event: events.Resize) -> None:
        """Keep the highlight visible, and name the columns that there is room for."""
        self._name_columns()
        self._scroll_to_highlight()

    def on_click(self, event: events.Click) -> None:
        """Highlight what is clicked; a double click chooses it."""
        clicked = event.get_content_offset(self)
        lines = with_headings(self._shown)
        index = None if clicked is None else self.index_at(clicked.y, len(lines))
        line = None if index is None else lines[index]
        if isinstance(line, Workload):
            self._highlight(line)
            self.post_message(self.Chosen() if event.chain == 2 else self.Picked())

    def _highlight(self, workload: Workload | None) -> None:
        changed = workload is not self.highlighted
        self.highlighted = workload
        self._scroll_to_highlight()
        if changed:
            self.post_message(self.Highlighted())

    def _scroll_to_highlight(self) -> None:
        """Scroll so that the highlighted row is seen, and the heading right above it."""
        lines = with_headings(self._shown)
        if self.highlighted is not None and self.size.height:
            row = lines.index(self.highlighted)
            top = row - 1 if isinstance(lines[row - 1], str) and self.size.height > 1 else row
            self._first = max(min(self._first, top), row - self.size.height + 1)
        self.redraw()

    def _row(self, line: Workload | str, width: int) -> TextRow:
        if isinstance(line, str):
            return joined(((f" {line}", MUTED),), (), width)
        highlighted = line is self.highlighted
        plain, match = (CHOSEN, CHOSEN + UNDERLINED) if highlighted else (PLAIN, UNDERLINED)
        pointer = "▸" if highlighted else " "
        name: tuple[TextRun, ...] = tuple(
            (text, match if matches else plain) for text, matches in pieces(line.name, self._typed)
        )
        figures_of = ((self._figures(line, width), CHOSEN if highlighted else MUTED),)
        row = joined(((f" {pointer} ", plain), *name), figures_of, width)
        return tuple((text, plain if style == PLAIN else style) for text, style in row)

    def _figures(self, workload: Workload, width: int) -> str:
        text = ""
        if width >= _WIDTH_FOR_PARAMETERS:
            text += f"{units.count(workload.parameters):>{_PARAMETERS_WIDTH}}"
        if width >= _WIDTH_FOR_LAST:
            text += f"{self._last.get(workload.name, ''):>{_LAST_WIDTH}}"
        return f"{text} " if text else ""

    def _name_columns(self) -> None:
        """Name the columns in the border, and say how many workloads there are."""
        width = self.size.width - _MARGIN
        names = f"{'parameters':>{_PARAMETERS_WIDTH}}" if width >= _WIDTH_FOR_PARAMETERS else ""
        names += f"{'last here':>{_LAST_WIDTH}}" if width >= _WIDTH_FOR_LAST else ""
        total = len(self._all)
        count = f"{len(self._shown)} of {total}" if self._typed.strip() else f"{total} workloads"
        self.set_titles("Workloads", count, right=names.strip())
