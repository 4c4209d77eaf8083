"""Input fields of one row, whose cursor doesn't blink."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input


class TextField(Input):
    """An input of one row; the app cleans pasted text."""

    DEFAULT_CSS = """
    TextField.-textual-compact { padding: 0 1; }
    TextField > .input--placeholder { color: $text-muted; }
    """

    def __init__(
        self, *, placeholder: str = "", tooltip: str | None = None, id: str | None = None
    ) -> None:
        super().__init__(placeholder=placeholder, tooltip=tooltip, id=id, compact=True)
        self.cursor_blink = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the scroll keys to the screen."""
        return not action.startswith(("scroll_", "page_"))


class _Filter(TextField):
    """The field for a list's filter; a screen has at most one."""

    def __init__(self, placeholder: str = "Type to filter") -> None:
        super().__init__(placeholder=placeholder, id="filter")
        self.select_on_focus = False


class WholeFilterField(_Filter):
    """A filter field that is shown on request: every character is text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", tooltip="Keep the filter, and leave its field")
    ]


class FilterField(_Filter):
    """A filter field that always has the keys: letters are text, not commands.

    Only `?` asks for help, and `q` quits while the field is empty.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "Clear the filter", show=False)
    ]

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Leave the command keys to the screen."""
        return not self._is_command(character) and super().check_consume_key(key, character)

    def on_key(self, event: events.Key) -> None:
        if self._is_command(event.character):
            event.prevent_default()

    def action_clear(self) -> None:
        self.value = ""

    def _is_command(self, character: str | None) -> bool:
        return character == "?" or (character == "q" and not self.value)
