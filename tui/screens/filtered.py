"""A screen of a table that the user sorts and filters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from tui.screens.base import BaseScreen, hidden
from tui.widgets.text_field import FilterField

if TYPE_CHECKING:
    from tui.widgets.tables import SortedTable

FILTER = Binding("slash", "filter", "Filter", key_display="/", tooltip="Show only what matches")
CLEAR_FILTER = Binding("escape", "clear_filter", "Clear", tooltip="Clear the filter")
SORT = Binding(
    "o,greater_than_sign",
    "sort(1)",
    "Sort",
    tooltip="Sort by the next column, < by the one before; a click on a name sorts too",
)
REVERSE = Binding("i", "reverse_order", "Reverse", tooltip="Reverse the order")
SORT_KEYS = (
    hidden("f6", "sort(1)", "Sort"),
    hidden("less_than_sign", "sort(-1)", "Sort by the previous column"),
)
ROW_KEYS = (
    hidden("up", "move(-1)", "Row above"),
    hidden("down", "move(1)", "Row below"),
    hidden("pageup", "move_page(-1)", "Page up"),
    hidden("pagedown", "move_page(1)", "Page down"),
    hidden("home,ctrl+home", "move(-1000000)", "First row"),
    hidden("end,ctrl+end", "move(1000000)", "Last row"),
)


class FilteredScreen(BaseScreen):
    """A screen that lays out `filter_field` and a table; letters are commands until `/`."""

    FILTER_PLACEHOLDER: ClassVar[str] = "Type to filter"

    @property
    def table(self) -> SortedTable[Any]:
        raise NotImplementedError

    @cached_property
    def filter_field(self) -> FilterField:
        """The field for the filter, hidden while there is none."""
        field = FilterField(self.FILTER_PLACEHOLDER)
        field.display = False
        return field

    @property
    def focused_without_filter(self) -> Widget | None:
        """The widget that has the focus while no filter is typed."""
        return None

    def filter(self, typed: str) -> None:
        self.table.filter(typed)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.filter(event.value)

    def on_input_submitted(self) -> None:
        """Give the focus back to the table, and keep the filter."""
        self.filter_field.display = bool(self.filter_field.value)
        self.set_focus(self.focused_without_filter)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to clear the filter only if there is one, and no filter while one is typed."""
        if action == "filter":
            return self.focused is not self.filter_field
        if action == "clear_filter":
            return self.filter_field.display
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        self.filter_field.display = True
        self.set_focus(self.filter_field)
        self.refresh_bindings()

    def action_clear_filter(self) -> None:
        self.filter_field.value = ""
        self.on_input_submitted()

    def action_sort(self, step: int) -> None:
        self.table.sort_by_next(step)

    def action_reverse_order(self) -> None:
        self.table.reverse()

    def action_move(self, steps: int) -> None:
        self.table.move(steps)

    def action_move_page(self, direction: int) -> None:
        self.table.move_page(direction)
