"""The screen of what was recorded, and of what runs: pick a session or a sweep to see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from dlmon.log.directory import SessionEntry
from dlmon.sweep.log import SweepEntry
from tui.screens.base import QUIT, BaseScreen
from tui.sessions.session_details import SessionDetails
from tui.sessions.session_list import SessionList
from tui.widgets.text_field import FilterField


class SessionsScreen(BaseScreen):
    """All sessions and sweeps of the log directory, newest first.

    Args:
        read: returns the sessions as they are now.
        read_sweeps: returns the sweeps as they are now.
    """

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = "#filter"
    # Letters go to the filter, so no letter is a command while something is typed.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show", "Show", priority=True, tooltip="Show what is highlighted"),
        Binding("escape", "back", "Back", priority=True, tooltip="Clear the filter, or go back"),
        Binding("ctrl+l", "refresh", "Refresh", tooltip="Read the sessions again"),
        Binding("f1,question_mark", "app.help", "Help", tooltip="Explain this screen"),
        Binding(
            "ctrl+p",
            "app.command_palette",
            "Commands",
            priority=True,
            tooltip="Search for a command",
        ),
        Binding("f3", "app.change_theme", "Theme", tooltip="Choose other colours"),
        Binding("q", "leave", "Back", show=False),
        QUIT,
        Binding("up", "move(-1)", "Newer session", show=False),
        Binding("down", "move(1)", "Older session", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("ctrl+home", "move(-1000000)", "Newest session", show=False),
        Binding("ctrl+end", "move(1000000)", "Oldest session", show=False),
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            "Sessions",
            "Every training run that was recorded here, newest first, and those that are running "
            "now. Enter or a double click shows one, finished or live.",
        ),
        (
            "Sweeps",
            "A sweep has a row of its own, and its runs stand below it, joined to it by ├ and ╰, "
            "with what was varied at the end of the row. Enter on the sweep shows its table and "
            "its chart, and resumes it.",
        ),
        (
            "Filter",
            "Type parts of a name, a device, a date or a status, such as: cnn failed 2026-11. "
            "The name of a sweep finds it with its runs. "
            "While nothing is typed, q goes back.",
        ),
        (
            "status",
            "completed, stopped by a person, or failed; running; interrupted if its "
            "supervisor vanished; unknown if that can't be determined, as for another "
            "machine's session.",
        ),
        (
            "time",
            "How long an epoch, or a whole run, took; ± is its 95 % band, and ~ says that the "
            "time is projected because no epoch had ended. Where a run failed, its error; where "
            "there is no time, why.",
        ),
    )

    class SessionChosen(Message):
        """A session is to be shown."""

        def __init__(self, log: Path) -> None:
            super().__init__()
            self.log = log

    class SweepChosen(Message):
        """A sweep is to be shown, and gone on with."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    def __init__(
        self,
        read: Callable[[], list[SessionEntry]],
        read_sweeps: Callable[[], list[SweepEntry]] = list,
    ) -> None:
        """Read nothing before the screen is shown."""
        super().__init__()
        self._read = read
        self._read_sweeps = read_sweeps
        self._filter = FilterField(
            placeholder="Type to filter the sessions", select_on_focus=False, id="filter"
        )
        self._list = SessionList(id="sessions")
        self._details = SessionDetails(id="details")

    def compose_parts(self) -> ComposeResult:
        """Lay out the filter, the list, and what is known of the highlighted session."""
        with Horizontal(id="heading"):
            yield Static(Content("dlmon"))
            yield self._filter
        yield self._list
        yield self._details

    def on_screen_resume(self) -> None:
        """Read the sessions as they are now, but let the screen be painted first."""
        self.call_after_refresh(self.action_refresh)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list.filter(event.value)

    def on_row_list_highlighted(self) -> None:
        """Show the details of what is highlighted."""
        self._details.show(self._list.highlighted, self._list.run_of_sweep)
        self.refresh_bindings()

    def on_row_list_chosen(self) -> None:
        self.action_show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to show something only where there is something."""
        return action != "show" or self._list.highlighted is not None

    def action_show(self) -> None:
        """Show the highlighted session; go on with a sweep."""
        entry = self._list.highlighted
        if isinstance(entry, SessionEntry):
            self.post_message(self.SessionChosen(entry.path))
        elif entry is not None:
            self.post_message(self.SweepChosen(entry.path))

    def action_back(self) -> None:
        """Clear what is typed; else go back."""
        if self._filter.value:
            self._filter.value = ""
        else:
            self.action_leave()

    def action_refresh(self) -> None:
        self._list.show(self._read(), self._read_sweeps())

    def action_move(self, steps: int) -> None:
        self._list.move(steps)

    def action_move_page(self, direction: int) -> None:
        self._list.move_page(direction)
