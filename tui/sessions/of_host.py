"""The screen of another host's sessions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.log.directory import SessionEntry
from dlmon.log.folder import LogError
from dlmon.records.sanitize import clean
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.sweep.log import SweepEntry
from tui.messages import ShowHostSession
from tui.screens.base import topics_of
from tui.sessions.sessions_screen import SessionsScreen

_ABOUT = Path(__file__).with_name("of_host.md")
# Actions that need a log on this machine.
_HERE_ONLY = {
    "metrics",
    "mark",
    "clear_marks",
    "compare",
    "replay",
    "report",
    "export",
    "rename",
    "delete",
}


class HostSessionsScreen(SessionsScreen):
    """All sessions of a host, newest first, in the directory `log_dir` there, or its default."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show", "Show", tooltip="Copy the log of what is highlighted, and show it")
    ]

    def __init__(
        self,
        host: str,
        ask: Callable[[], Awaitable[tuple[list[SessionEntry], list[SweepEntry]]]],
        log_dir: str | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(list, wall_clock=wall_clock)
        self._details.host = clean(host)
        self._host = host
        self._ask = ask
        self._log_dir = log_dir
        self._list.title = f"Sessions on {clean(host)}"
        self._list.advice = (
            "Nothing is recorded there yet.",
            f"dlmon run cifar10-cnn --host {clean(host)}",
        )

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        names = ("Filter", "Order", "result")
        return (*topics_of(_ABOUT), *(topic for topic in super().topics if topic[0] in names))

    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "show": "no session is highlighted",
        **dict.fromkeys(_HERE_ONLY, "the session is on another machine: dlmon fetch copies it"),
    }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer nothing that needs a log on this machine; a sweep can't be shown from here."""
        if action == "show":
            return isinstance(self._list.highlighted, SessionEntry)
        return action not in _HERE_ONLY and super().check_action(action, parameters)

    def action_show(self) -> None:
        entry = self._list.highlighted
        if isinstance(entry, SessionEntry):
            session = entry.path.parent.name
            self.post_message(ShowHostSession(self._host, session, self._log_dir))

    async def _show_again(self) -> None:
        try:
            entries, sweeps = await self._ask()
        except (SshError, HostRefusal, LogError) as error:
            self.notify(clean(str(error)), severity="error", markup=False)
        else:
            self.show_recorded(entries, sweeps)
