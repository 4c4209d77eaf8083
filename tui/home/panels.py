"""Panels of the home screen: the last script, and names of workloads and of hosts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dlmon.options.script import ScriptRun
from dlmon.records.sanitize import clean, shown_path
from dlmon.render.wrap import first_words
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, TextRow, fitting, joined, shows

_EXAMPLE = "python train.py …"
_NO_SCRIPT = "your script runs unchanged, dlmon watches it"


class FocusableLines(Lines, can_focus=True):
    """A panel that Tab and a click choose."""

    FOCUS_ON_CLICK = True
    DEFAULT_CLASSES = "panel"


class ScriptPanel(FocusableLines):
    """The last script: its command and its directory; `show` takes it."""

    def rows(self, width: int, height: int, script: ScriptRun | None) -> list[TextRow]:
        if script is None:
            return [joined((("$ ", MUTED), (_EXAMPLE, MUTED)), ((_NO_SCRIPT, MUTED),), width)]
        command = first_words(clean(shlex.join(script.command)), width - 2)
        place = f"in {shown_path(script.directory or '.')}"
        return [fitting((("$ " + command, STRONG), (place, MUTED)), width)]

    def show(self, script: ScriptRun | None) -> None:
        hint = "enter: run a script" if script is None else "enter runs it again, E edits it"
        self.set_titles("My script", hint)
        self._show(script)

    _show = shows(rows)


class NamesPanel(FocusableLines):
    """Names in a row, as many as fit; `show` takes a title, the names, and a note."""

    def rows(self, width: int, height: int, names: Sequence[str]) -> list[TextRow]:
        return [fitting(tuple((clean(name), PLAIN) for name in names), width)]

    def show(self, title: str, names: Sequence[str], note: str) -> None:
        self.set_titles(title, note)
        self._show(names)

    _show = shows(rows)
