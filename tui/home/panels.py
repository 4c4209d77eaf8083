"""Panels of the home screen: the last script, and names of workloads and of hosts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from textual.binding import Binding

from dlmon.options.script import ScriptRun
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.wrap import first_words
from tui.widgets.lines import (
    ACCENT,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    TextRow,
    fit,
    fitting,
    joined,
    shows,
)

_NO_SCRIPT = "type its command, and run it"
_ENTER = Binding("enter", "")
_UNCHANGED = "it runs unchanged, dlmon watches it"
_APART = 4


class FocusableLines(Lines, can_focus=True):
    """A panel that Tab and a click choose."""

    FOCUS_ON_CLICK = True
    DEFAULT_CLASSES = "panel"


class ScriptPanel(FocusableLines):
    """The last script: its command and its directory; `show` takes it."""

    script: ScriptRun | None = None

    def rows(self, width: int, height: int, script: ScriptRun | None) -> list[TextRow]:
        if script is None:
            key = f"{self.app.get_key_display(_ENTER)}  "
            return [joined(((key, ACCENT), (_NO_SCRIPT, STRONG)), ((_UNCHANGED, MUTED),), width)]
        command = first_words(clean(shlex.join(script.command)), width - 2)
        place = f"in {shown_path(script.directory or '.')}"
        return [fitting((("$ " + command, STRONG), (place, MUTED)), width)]

    def show(self, script: ScriptRun | None) -> None:
        self.script = script
        key = self.app.get_key_display(_ENTER)
        self.set_titles("My script", "" if script is None else f"{key} runs it, E edits")
        self._show(script)

    _show = shows(rows)


class NamesPanel(FocusableLines):
    """Names in columns, each with its facts; without the room for that, the names alone."""

    _facts: Mapping[str, str] = {}

    def rows(self, width: int, height: int, facts: Mapping[str, str]) -> list[TextRow]:
        names = [clean(name) for name in facts]
        longest, cells = self._cells(facts)
        count = self.rows_with_facts(width)
        if count > height:
            return self._names_alone(names, width)[:height]
        rows: list[TextRow] = [()] * count
        for number, (name, text) in enumerate(zip(names, facts.values(), strict=True)):
            line = number % count
            gap = " " * _APART if rows[line] else ""
            room = cells - _APART - longest - 2
            runs = ((gap + fit(name, longest + 2), PLAIN), (fit(text, room), MUTED))
            rows[line] = (*rows[line], *runs)
        return rows

    def _names_alone(self, names: Sequence[str], width: int) -> list[TextRow]:
        rows: list[TextRow] = []
        while names:
            rows.append(fitting(tuple((name, PLAIN) for name in names), width))
            names = names[max(1, len(rows[-1])) :]
        return rows

    def _cells(self, facts: Mapping[str, str]) -> tuple[int, int]:
        """Return the cells of the longest name, and of a column with its gap."""
        longest = max(map(cell_len, facts), default=0)
        return longest, longest + 2 + max(map(cell_len, facts.values()), default=0) + _APART

    def rows_with_facts(self, width: int) -> int:
        """Return the rows that all names take with their facts."""
        columns = max(1, (width + _APART) // self._cells(self._facts)[1])
        return max(1, -(-len(self._facts) // columns))

    def rows_of_names(self, width: int) -> int:
        """Return the rows that all names take without their facts."""
        return len(self._names_alone([*self._facts], width))

    def show(self, title: str, facts: Mapping[str, str], note: str) -> None:
        """Show names, each with its facts, and a note in the border."""
        self._facts = facts
        self.set_titles(title, note)
        self._show(facts)

    _show = shows(rows)
