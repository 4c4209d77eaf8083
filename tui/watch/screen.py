"""The machine alone, large."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.session.source import MachineSource
from tui.machine.panel import PANEL_HELP, MachinePanel
from tui.screens.base import HELP, PALETTE, THEME, BaseScreen
from tui.watch.detail_screens import GpusScreen, MachineScreen, ProcessesScreen


class WatchScreen(BaseScreen):
    """This machine, live, until the user leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "plus,equals_sign",
            "zoom(False)",
            "Zoom in",
            key_display="+",
            tooltip="Show less time, down to the last 10 s",
        ),
        Binding(
            "minus",
            "zoom(True)",
            "Zoom out",
            key_display="-",
            tooltip="Show ten minutes, then all since the start",
        ),
        Binding("g,f4", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
        Binding("p,f5", "processes", "Processes", tooltip="Show what runs on this machine"),
        THEME,
        replace(HELP, key_display="?"),
        Binding("q", "leave", "Quit", tooltip="Leave this screen"),
        Binding("escape,ctrl+c,ctrl+q", "leave", "Quit", show=False),
        PALETTE,
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = PANEL_HELP

    def __init__(
        self,
        machine: MachineSource,
    ) -> None:
        """Take where the readings come from; none is asked for before the screen is shown."""
        super().__init__()
        self._source = machine

    def compose_parts(self) -> ComposeResult:
        """Lay out the machine's panel over the whole screen."""
        yield MachinePanel(self._source, processes=True)

    def on_screen_resume(self) -> None:
        """Read the machine while this screen is on top."""
        self.query_one(MachinePanel).start()

    def on_screen_suspend(self) -> None:
        """Leave the machine to a session's own sensors, but not for what shows the same."""
        if not isinstance(self.app.screen, MachineScreen):
            self.query_one(MachinePanel).stop()

    def action_gpus(self) -> None:
        self.app.push_screen(GpusScreen(self.query_one(MachinePanel).look))

    def action_processes(self) -> None:
        self.app.push_screen(ProcessesScreen(self.query_one(MachinePanel).look))

    def action_zoom(self, out: bool) -> None:
        """Show more time, or less."""
        self.query_one(MachinePanel).zoom(out=out)
