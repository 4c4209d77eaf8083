"""Search in the log, over the whole screen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType

from dlmon.log.directory import read_output
from dlmon.log.folder import LogError
from tui.live.output_pane import OutputPane
from tui.screens.base import hidden
from tui.screens.export import ExportControls
from tui.screens.filtered import FilteredScreen

SEARCH_KEYS: list[BindingType] = [
    Binding("slash", "search", "Search", key_display="/", tooltip="Search in the log", show=False),
    hidden("n", "next_match(1)", "Next match", "Go to the next line that matches"),
    hidden("N", "next_match(-1)", "Previous match", "Go to the line before that matches"),
]


class LogSearch(ExportControls, FilteredScreen):
    """A screen with a log: `/` searches in it, n and N go on, and Esc ends that."""

    WHY_NOT: ClassVar[Mapping[str, str]] = {"next_match": "/ searches in the log first"}
    _output: OutputPane

    FILTER_PLACEHOLDER = "Search in the log"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "next_match":
            return self.filter_field.display
        return super().check_action(action, parameters)

    def name_of_action(self, action: str) -> str:
        if action == "close_log" and self.filter_field.display:
            return "End search"
        return super().name_of_action(action)

    def action_search(self) -> None:
        self.action_filter()
        if not self._output.earlier:
            self.run_worker(self._read_earlier)

    async def _read_earlier(self) -> None:
        """Read the lines that the session keeps no more."""
        path = self.exported_logs[0]
        with contextlib.suppress(LogError, OSError):
            self._output.earlier = await asyncio.to_thread(read_output, path)
            # What was typed meanwhile was searched for without them.
            self.paint()
            self._output.search_again()

    def paint(self) -> None:
        raise NotImplementedError

    def filter(self, typed: str) -> None:
        self._output.search(typed)

    def action_next_match(self, step: int) -> None:
        self._output.go_to_match(step)

    def minimize(self) -> None:
        """End the search, or show the other panes again: Textual calls this at Esc."""
        if self.filter_field.display:
            self.end_search()
        else:
            super().minimize()

    def end_search(self) -> None:
        self._output.earlier = ()
        self.action_clear_filter()
