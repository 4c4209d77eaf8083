"""The help: the meaning of every panel and figure of a screen, and its keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from dlmon.render.wrap import first_words
from tui.screens.base import PAGE_KEYS, BaseScreen, hidden
from tui.screens.key_groups import GROUPS, KeyHelp, without_function_keys
from tui.widgets.lines import fit

Topic = tuple[str, str]
"""A panel, a figure or a key, and a sentence that explains it."""

_NAME_WIDTH, _KEYS_WIDTH, _COLUMN_WIDTH, _GAP = 18, 7, 25, 2
_DIGITS = re.compile(r"(\d)(?: \d)* (\d)")


def _few_keys(keys: str) -> str:
    """Return the first keys that fit; no function key beside a letter, and digits as a range."""
    if digits := _DIGITS.fullmatch(keys):
        return "–".join(digits.groups())
    first, *others = without_function_keys(keys.split()) or [keys]
    while others and cell_len(" ".join((first, *others))) > _KEYS_WIDTH - 2:
        others.pop()
    return " ".join((first, *others))


def _key_columns(keys: Sequence[KeyHelp], width: int) -> Table:
    """Return the keys by group, in columns, with the name of each."""
    count = max(1, width // _COLUMN_WIDTH)
    room = width // count - _GAP - _KEYS_WIDTH
    columns: list[list[Text]] = [[] for _ in range(count)]
    for group in GROUPS:
        members = [key for key in keys if key.group == group]
        rows = [
            Text.assemble(
                (fit(_few_keys(key.keys), _KEYS_WIDTH), "bold"),
                first_words(key.name or key.sentence, room),
            )
            for key in members
        ]
        if rows:
            heading = Text(group, style="bold underline")
            min(columns, key=len).extend((heading, *rows, Text()))
    table = Table.grid(padding=(0, _GAP, 0, 0), expand=True)
    for _ in columns:
        table.add_column(ratio=1)
    table.add_row(*(Group(*column) for column in columns))
    return table


def _section(heading: str, topics: Sequence[Topic], apart: int) -> Group:
    """Return a heading, and below it each name beside its sentence."""
    rows = Table.grid(padding=(0, 2, apart, 0), collapse_padding=False, expand=True)
    rows.add_column(width=_NAME_WIDTH, style="bold")
    rows.add_column(ratio=1)
    for name, sentence in topics:
        rows.add_row(Text(name), Text(sentence))
    return Group(Text(heading, style="bold underline"), "", rows, *[""] * (1 - apart))


class HelpScreen(BaseScreen):
    """The keys of a screen, then the topics of `first`, its panels and figures, a sentence each.

    The help covers the other screen, so that it need not be drawn behind it.
    """

    CSS_PATH = "help.tcss"
    AUTO_FOCUS = ""
    USES_SENSORS_BELOW = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "close", "Close", key_display="esc"),
        hidden("ctrl+c,ctrl+q", "close"),
        Binding("up,k", "scroll(-1)", "Scroll", key_display="↑↓"),
        hidden("down,j", "scroll(1)", "Scroll down"),
        *PAGE_KEYS,
        hidden("home", "page(-1000)", "Go to start"),
        hidden("end", "page(1000)", "Go to end"),
    ]

    def __init__(
        self, keys: Sequence[KeyHelp], topics: Sequence[Topic], first: Sequence[Topic] = ()
    ) -> None:
        super().__init__()
        self._keys = keys
        in_short = [_section("In short", first, 0)] if first else []
        self._sections = (*in_short, _section("On this screen", topics, 1))
        self._text = Static()
        self._box = VerticalScroll(self._text, id="help", classes="panel")
        self._box.border_title = "Help"

    def compose_parts(self) -> ComposeResult:
        yield self._box

    def on_resize(self) -> None:
        self.call_after_refresh(self._write)

    def _write(self) -> None:
        self._text.update(Group(_key_columns(self._keys, self._text.size.width), *self._sections))

    def action_scroll(self, lines: int) -> None:
        self._box.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_scroll(pages * max(1, self._box.size.height - 1))

    def action_close(self) -> None:
        self.dismiss()
