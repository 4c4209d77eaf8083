"""The list of workloads, grouped by family, with a filter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from dlmon.figures import units
from dlmon.figures.columns import has_words
from tui.textual_internals import SteadyOptionList, put_border_titles
from workloads.catalog import Workload


def matching(workloads: Iterable[Workload], typed: str) -> list[Workload]:
    """Return the workloads whose texts contain every typed word, grouped by family."""
    # Users of other programs may begin a search with a slash.
    typed = typed.removeprefix("/")
    workloads = [w for w in workloads if has_words(f"{w.name} {w.family} {w.title}", typed)]
    families = list(dict.fromkeys(workload.family for workload in workloads))
    return sorted(workloads, key=lambda workload: families.index(workload.family))


def with_headings(workloads: Iterable[Workload]) -> list[Workload | str]:
    """Put the name of each family before its workloads."""
    families = groupby(workloads, attrgetter("family"))
    return [line for family, members in families for line in (family, *members)]


_PARAMETERS_WIDTH, _LAST_WIDTH = 11, 11
# A narrower list has no column of parameters.
_WIDTH_FOR_PARAMETERS = 42
# The cells of the upper border that its title can't use.
_BORDER_CELLS = 6


class WorkloadList(SteadyOptionList):
    """The workloads below the names of their families, which can't be highlighted."""

    DEFAULT_CLASSES = "panel"
    DEFAULT_CSS = """
    WorkloadList {
        background: $background;
        padding: 0;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .option-list--option-disabled { color: $text-muted; }
        & > .option-list--option-hover { background: transparent; }
        & > .option-list--option-highlighted {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: bold;
        }
    }
    """

    class WorkloadChosen(Message):
        """The user double-clicked a workload."""

    def __init__(self, workloads: Sequence[Workload], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._all = workloads
        self._typed = ""
        self._last_results: Mapping[str, str] = {}
        self.filter("")

    @property
    def workload(self) -> Workload | None:
        """The highlighted workload; None if no workload matches."""
        line = None if self.highlighted is None else self._shown[self.highlighted]
        return line if isinstance(line, Workload) else None

    def show_results(self, last: Mapping[str, str]) -> None:
        self._last_results = last
        self._write()

    def filter(self, typed: str) -> None:
        """Show only workloads that match; the highlight stays if its workload does."""
        before = self.workload if self.options else None
        self._typed = typed.lower().removeprefix("/")
        self._shown = with_headings(matching(self._all, typed))
        self.set_options(
            Option(self._prompt(number), disabled=isinstance(line, str))
            for number, line in enumerate(self._shown)
        )
        if not self._shown:
            texts = (" No workload matches that.", " Esc clears the filter.")
            self.add_options(Option(text, disabled=True) for text in texts)
        elif before in self._shown:
            self.highlighted = self._shown.index(before)
        else:
            self.action_first()
        self._write()

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Write the highlighted row with a pointer, so that it differs not only in colour."""
        self._write()
        super().watch_highlighted(highlighted)

    def scroll_to_highlight(self, top: bool = False) -> None:
        """Scroll to the highlighted row, and to the family's name above the first workload."""
        super().scroll_to_highlight(top)
        if self.highlighted == 1 and self.is_mounted:
            self.scroll_home(animate=False)

    def action_page_up(self) -> None:
        """Go a page up, which may end on a family's name; that can't be highlighted."""
        super().action_page_up()  # type: ignore[no-untyped-call]
        if self.highlighted is None:
            self.action_first()

    def action_select(self) -> None:
        """Do nothing: a workload is chosen by a double click."""

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and event.style.meta.get("option") is not None:
            self.post_message(self.WorkloadChosen())

    def on_resize(self) -> None:
        self._write()

    def _write(self) -> None:
        """Write the rows, and the border with the names of the columns and the count."""
        # While the filter changes, the base class has no options for a moment.
        for number in range(min(self.option_count, len(self._shown))):
            self.replace_option_prompt_at_index(number, self._prompt(number))
        matches, total = sum(isinstance(line, Workload) for line in self._shown), len(self._all)
        count = f"{matches} of {total}" if self._typed.strip() else f"{total} workloads"
        last = "last here" if any(self._last_results.values()) else ""
        names = f" {self._columns('parameters', last).strip()}".rstrip()
        dashes = "─" * (self.outer_size.width - _BORDER_CELLS - len(f"Workloads {names}"))
        title = Content("Workloads")
        if names:
            title = Content.assemble("Workloads ", (dashes, "$foreground 30%"), names)
        put_border_titles(self, {0: title, 1: Content(count)})
        self.refresh()

    def _prompt(self, number: int) -> Content:
        line = self._shown[number]
        if isinstance(line, str):
            return Content(f" {line}")
        highlighted = number == self.highlighted
        name = Content(line.name)
        if words := self._typed.split():
            name = name.highlight_regex("|".join(map(re.escape, words)), style="bold underline")
        figures = self._columns(
            units.millions(line.parameters), self._last_results.get(line.name, "")
        )
        room = self.scrollable_content_region.width - len(figures) - 1
        row = Content(f" {'▸' if highlighted else ' '} ") + name
        row = row.truncate(max(0, room), ellipsis=True, pad=True)
        return row + Content.styled(figures, "" if highlighted else "$foreground 70%")

    def _columns(self, parameters: str, last: str) -> str:
        wide = self.scrollable_content_region.width >= _WIDTH_FOR_PARAMETERS
        return f"{parameters:>{_PARAMETERS_WIDTH}}" * wide + f"{last:>{_LAST_WIDTH}}"
