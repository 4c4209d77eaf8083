"""A line to type into: one row high, and never blinking."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input


class TextField(Input):
    """An input of one row; the app cleans what is pasted into it."""

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
        """Leave the keys that scroll to the screen: one row has nothing to scroll."""
        return not action.startswith(("scroll_", "page_"))


class _Filter(TextField):
    """What a list is filtered by; a screen has one at most."""

    def __init__(self, placeholder: str = "Type to filter") -> None:
        super().__init__(placeholder=placeholder, id="filter")
        self.select_on_focus = False


class WholeFilterField(_Filter):
    """What a list is filtered by once that is asked for: every character is typed text here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", tooltip="Keep the filter, and leave its field")
    ]


class FilterField(_Filter):
    """What a list is filtered by: typed at once, so letters are no commands here.

    But `q` quits while nothing is typed, and `?` asks for help: no workload has such a name.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "Clear the filter", show=False)
    ]

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Leave the keys alone that are commands."""
        return not self._is_command(character) and super().check_consume_key(key, character)

    def on_key(self, event: events.Key) -> None:
        """Type no key that is a command."""
        if self._is_command(event.character):
            event.prevent_default()

    def action_clear(self) -> None:
        self.value = ""

    def _is_command(self, character: str | None) -> bool:
        return character == "?" or (character == "q" and not self.value)
