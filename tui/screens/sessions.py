"""The screen of the recorded sessions, and of those that run: pick one to see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from dlmon.sessions import SessionEntry
from tui.widgets.session_details import SessionDetails
from tui.widgets.session_list import SessionList
from tui.widgets.text_field import FilterField
from tui.widgets.too_small import TooSmall


class SessionsScreen(Screen[None]):
    """All sessions of the log directory, newest first.

    Args:
        read: returns them as they are now, oldest first.
        show: called with the log of the session that was picked.
        leave: called when the user wants to go back.
        ascii: draw with plain characters.
    """

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = "#filter"
    # Letters go to the filter, so no letter is a command while something is typed.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show", "Show", priority=True, tooltip="Show the highlighted session"),
        Binding("escape", "back", "Back", priority=True, tooltip="Clear the filter, or go back"),
        Binding("ctrl+r", "refresh", "Refresh", tooltip="Read the sessions again"),
        Binding("f1,question_mark", "app.help", "Help", tooltip="Explain this screen"),
        Binding(
            "ctrl+p",
            "app.command_palette",
            "Commands",
            priority=True,
            tooltip="Look for a command by its name",
        ),
        Binding("f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        Binding("q", "leave", "Back", show=False),
        Binding("ctrl+c,ctrl+q", "app.quit", "Quit", show=False, priority=True),
        Binding("up", "move(-1)", "Newer session", show=False),
        Binding("down", "move(1)", "Older session", show=False),
        Binding("pageup", "move_page(-1)", "A page up", show=False),
        Binding("pagedown", "move_page(1)", "A page down", show=False),
        Binding("ctrl+home", "move(-1000000)", "Newest session", show=False),
        Binding("ctrl+end", "move(1000000)", "Oldest session", show=False),
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "Sessions",
            "Every training run that was recorded here, newest first, and those that are running "
            "now. Enter or a double click shows one, as it ended or as it goes on.",
        ),
        (
            "Filter",
            "Type parts of a name, a device, a date or a status, such as: cnn failed 2026-11. "
            "While nothing is typed, q goes back.",
        ),
        (
            "status",
            "completed, stopped by a person, or failed; running; interrupted when what watched "
            "over it vanished; unknown where that can't be told, as of another machine's session.",
        ),
        (
            "time",
            "How long an epoch, or a whole run, took; ± is its 95 % band, and ~ says that the "
            "time is projected because no epoch had ended. Where a run failed, its error.",
        ),
    )

    def __init__(
        self,
        read: Callable[[], list[SessionEntry]],
        show: Callable[[Path], None],
        leave: Callable[[], None],
        ascii: bool = False,
    ) -> None:
        """Read nothing before the screen is shown."""
        super().__init__()
        self._read = read
        self._show = show
        self._leave = leave
        self._filter = FilterField(
            placeholder="Type to filter the sessions", select_on_focus=False, id="filter"
        )
        self._list = SessionList(ascii=ascii, id="sessions")
        self._details = SessionDetails(ascii=ascii, id="details")

    def compose(self) -> ComposeResult:
        """Lay out the filter, the list, and what is known of the highlighted session."""
        with Horizontal(id="heading"):
            yield Static(Content("dlmon"))
            yield self._filter
        yield self._list
        yield self._details
        yield Footer(show_command_palette=False)
        yield TooSmall()

    def on_screen_resume(self) -> None:
        """Read the sessions as they are now, but let the screen be painted first."""
        self.call_after_refresh(self.action_refresh)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list by what is typed."""
        self._list.filter(event.value)

    def on_session_list_highlighted(self) -> None:
        """Tell what is known of the highlighted session."""
        self._details.show(self._list.highlighted)
        self.refresh_bindings()

    def on_session_list_chosen(self) -> None:
        """Show what was clicked twice."""
        self.action_show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to show a session only where there is one."""
        return action != "show" or self._list.highlighted is not None

    def action_show(self) -> None:
        """Show the highlighted session."""
        if self._list.highlighted is not None:
            self._show(self._list.highlighted.path)

    def action_back(self) -> None:
        """Clear what is typed; else go back."""
        if self._filter.value:
            self._filter.value = ""
        else:
            self._leave()

    def action_leave(self) -> None:
        """Go back."""
        self._leave()

    def action_refresh(self) -> None:
        """Read the sessions again."""
        self._list.show(self._read())

    def action_move(self, steps: int) -> None:
        """Move the highlight."""
        self._list.move(steps)

    def action_move_page(self, direction: int) -> None:
        """Move the highlight by a page."""
        self._list.move_page(direction)
