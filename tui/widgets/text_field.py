"""Input fields of one row, whose cursor doesn't blink."""

from __future__ import annotations

from typing import ClassVar

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
        return not action.startswith(("scroll_", "page_"))


class FilterField(TextField):
    """The field for a list's filter, shown on request; a screen has at most one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", tooltip="Keep the filter, and leave its field")
    ]

    def __init__(self, placeholder: str = "Type to filter") -> None:
        super().__init__(placeholder=placeholder, id="filter")
        self.select_on_focus = False
