"""The machine alone, large."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.machine.panel import PANEL_HELP, MachinePanel
from tui.textual_internals import send_short_updates
from tui.watch.detail_screens import GpusScreen, MachineScreen, ProcessesScreen
from tui.widgets.key_footer import KeyFooter
from tui.widgets.too_small import TooSmall


class WatchScreen(Screen[None]):
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
        Binding("t", "app.change_theme", "Theme", tooltip="Choose other colours"),
        Binding(
            "question_mark,f1", "app.help", "Help", key_display="?", tooltip="Explain this screen"
        ),
        Binding("q", "leave", "Quit", tooltip="Leave this screen"),
        Binding("escape,ctrl+c,ctrl+q", "leave", "Quit", show=False),
        Binding("ctrl+p", "app.command_palette", "Commands", show=False),
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = PANEL_HELP

    def __init__(
        self,
        leave: Callable[[], None],
        interval_s: float = 1.0,
        *,
        pcie: bool = False,
        ascii: bool = False,
    ) -> None:
        """Sample each `interval_s`; with `pcie`, what crosses the GPUs' PCIe links as well."""
        super().__init__()
        self._pcie = pcie
        send_short_updates(self)
        self._leave = leave
        self._interval_s = interval_s
        self._ascii = ascii

    def compose(self) -> ComposeResult:
        """Lay out the machine's panel over the whole screen."""
        yield MachinePanel(
            interval_s=self._interval_s, pcie=self._pcie, ascii=self._ascii, processes=True
        )
        yield KeyFooter()
        yield TooSmall()

    def on_screen_resume(self) -> None:
        """Read the machine while this screen is on top."""
        self.query_one(MachinePanel).start()

    def on_screen_suspend(self) -> None:
        """Leave the machine to a session's own sensors, but not for what shows the same."""
        if not isinstance(self.app.screen, MachineScreen):
            self.query_one(MachinePanel).stop()

    def action_gpus(self) -> None:
        """Show every GPU in depth."""
        self.app.push_screen(GpusScreen(self.query_one(MachinePanel).look, self._ascii))

    def action_processes(self) -> None:
        """Show what runs on this machine."""
        self.app.push_screen(ProcessesScreen(self.query_one(MachinePanel).look, self._ascii))

    def action_zoom(self, out: bool) -> None:
        """Show more time, or less."""
        self.query_one(MachinePanel).zoom(out=out)

    def action_leave(self) -> None:
        """Go back, or leave dlmon where this is all there is."""
        self._leave()
