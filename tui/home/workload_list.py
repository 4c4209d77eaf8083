"""The workloads, grouped by family: one of them is highlighted, and what is typed filters them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from textual import events

from dlmon.figures import units
from tui.widgets.lines import CHOSEN, MUTED, PLAIN, UNDERLINED, cut, joined
from tui.widgets.row_list import MARGIN, RowList
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
    words = "|".join(map(re.escape, typed.lower().split()))
    marked = [False] * len(text)
    # Those that overlap as well.
    for found in re.finditer(f"(?=({words}))", text.lower()) if words else ():
        marked[found.start(1) : found.end(1)] = [True] * len(found[1])
    parts = groupby(zip(text, marked, strict=False), lambda pair: pair[1])
    return [("".join(character for character, _ in part), mark) for mark, part in parts]


_PARAMETERS_WIDTH, _LAST_WIDTH = 11, 11
# Where there is less room, a column on the right gives way to the names.
_WIDTH_FOR_LAST, _WIDTH_FOR_PARAMETERS = 32, 42


class WorkloadList(RowList):
    """A list that scrolls; its headings can't be highlighted.

    It never has the focus: keys go to the field that filters it, and the
    screen moves the highlight.
    """

    HEADINGS = 0

    def __init__(self, workloads: Sequence[Workload], *, id: str | None = None) -> None:
        """Show all workloads, the first one highlighted."""
        super().__init__(id=id)
        self._all = workloads
        self._lines = with_headings(matching(workloads, ""))
        self._typed = ""
        self._last: Mapping[str, str] = {}
        self.index = 1

    @property
    def count(self) -> int:
        return len(self._lines)

    @property
    def highlighted(self) -> Workload | None:
        """The highlighted workload; None where none is left."""
        line = self._lines[self.index] if self.index < self.count else None
        return line if isinstance(line, Workload) else None

    @property
    def _rows_of_workloads(self) -> list[int]:
        return [n for n, line in enumerate(self._lines) if isinstance(line, Workload)]

    def show_results(self, last: Mapping[str, str]) -> None:
        """Take what each workload took here the last time, by name."""
        self._last = last
        self.redraw()

    def filter(self, typed: str) -> None:
        """Show only what matches; the highlight stays where it can."""
        before = self.highlighted
        self._typed = typed
        self._lines = with_headings(matching(self._all, typed))
        self._name_columns()
        self.highlight(self._lines.index(before) if before in self._lines else 0)

    def highlight(self, index: int, *, scroll: bool = True) -> None:
        """Highlight the workload that is nearest to a row."""
        rows = self._rows_of_workloads
        super().highlight(min(rows, key=lambda row: abs(row - index), default=0), scroll=scroll)

    def move(self, steps: int) -> None:
        """Move the highlight, as far as there are workloads."""
        rows = self._rows_of_workloads
        if self.index in rows:
            self.highlight(rows[min(max(rows.index(self.index) + steps, 0), len(rows) - 1)])

    def move_page(self, direction: int) -> None:
        """Move the highlight by about as many rows as are shown."""
        self.highlight(self.index + direction * max(2, self.size.height - 1))

    def bring_into_view(self, index: int, height: int) -> None:
        """Scroll so that a row is seen, and the heading right above it."""
        if index > 0 and height > 1 and isinstance(self._lines[index - 1], str):
            super().bring_into_view(index - 1, height)
        super().bring_into_view(index, height)

    def on_mount(self) -> None:
        """Report the first highlight."""
        self._name_columns()
        self.post_message(self.Highlighted())

    def on_resize(self, event: events.Resize) -> None:
        """Name the columns that there is room for."""
        self._name_columns()

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        lines = ((" No workload matches that.", PLAIN), (" Esc clears the filter.", MUTED))
        return [cut((line,), width) for line in lines]

    def row_drawn(self, index: int, width: int) -> TextRow:
        return self.row_of(index, width)

    def row_of(self, index: int, width: int) -> TextRow:
        line = self._lines[index]
        if isinstance(line, str):
            return joined(((f" {line}", MUTED),), (), width)
        highlighted = index == self.index
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
        width = self.size.width - MARGIN
        names = f"{'parameters':>{_PARAMETERS_WIDTH}}" if width >= _WIDTH_FOR_PARAMETERS else ""
        names += f"{'last here':>{_LAST_WIDTH}}" if width >= _WIDTH_FOR_LAST else ""
        shown, total = len(self._rows_of_workloads), len(self._all)
        count = f"{shown} of {total}" if self._typed.strip() else f"{total} workloads"
        self.set_titles("Workloads", count, right=names.strip())
