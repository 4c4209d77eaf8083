"""The newest sessions, on the home screen: what was run, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from dlmon.figures import units
from dlmon.figures.sessions import outcome, workload_name
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from tui.widgets.lines import fit

_MOST = 20
_LONGEST_NAME = 24
_STATUS_CELLS = len("interrupted")
_STATUS_STYLES = {
    Status.RUNNING: "bold $text-accent",
    Status.COMPLETED: "$text-success",
    Status.STOPPED: "",
    Status.UNKNOWN: "$text-muted 60%",
}


class RecentSessions(OptionList):
    """The newest sessions; while it has the focus, one is highlighted."""

    DEFAULT_CLASSES = "panel"
    DEFAULT_CSS = """
    RecentSessions {
        background: $background;
        padding: 0 1;
        scrollbar-size-vertical: 0;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus { background-tint: transparent; }
        &:blur > .option-list--option-highlighted { background: transparent; color: $foreground; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open", priority=True, tooltip="Open the chosen session"),
    ]

    def on_mount(self) -> None:
        self.border_title = "Recent sessions"

    def show(self, entries: Sequence[SessionEntry]) -> None:
        """Take all sessions, oldest first."""
        self.newest = entries[: -_MOST - 1 : -1]
        names = min(
            _LONGEST_NAME, max((cell_len(_called(each)) for each in self.newest), default=0)
        )
        self.border_subtitle = f"{len(entries)} recorded" if entries else ""
        self.clear_options()
        if self.newest:
            self.add_options(_row(entry, names) for entry in self.newest)
            self.highlighted = 0
        else:
            self.add_option(Option("No sessions yet. Every run is recorded.", disabled=True))


def _row(entry: SessionEntry, names: int) -> Content:
    status = _STATUS_STYLES.get(entry.status, "bold $text-error")
    return Content.assemble(
        (f"{units.day_and_time(entry.header.wall)}  ", "$text-muted 60%"),
        (f"{fit(_called(entry), names)}  ", "bold"),
        (f"{entry.status:<{_STATUS_CELLS}}  ", status),
        "" if entry.status == Status.RUNNING else outcome(entry),
    )


def _called(entry: SessionEntry) -> str:
    """Return a session's own name; without one, what it ran."""
    return entry.label.name or workload_name(entry.header)
