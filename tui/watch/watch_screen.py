"""The screen of this machine without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.session.source import MachineSource
from tui.machine.help import PANEL
from tui.screens.base import HELP, PALETTE, THEME
from tui.screens.panes import ALONE, PANE_KEYS, PanesScreen

# Imported after the first paint: the charts take as long to import as all the rest.
if TYPE_CHECKING:
    from tui.machine.machine import MachinePanel

ZOOM: tuple[BindingType, ...] = (
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
)
IN_DEPTH: tuple[BindingType, ...] = (
    Binding("g,f4", "gpus", "GPU", tooltip="Show every GPU in depth, and the CPU"),
    Binding("p,f5", "processes", "Processes", tooltip="Show what runs on this machine"),
)
LEAVE: tuple[BindingType, ...] = (
    Binding("q", "leave", "Quit", tooltip="Leave this screen"),
    Binding("escape,ctrl+c,ctrl+q", "leave", "Quit", show=False),
)


# A copy of `tui.machine.machine.PARTS`, which is imported later.
_PANES = ("cpu", "cores", "gpus", "processes")


class WatchScreen(PanesScreen):
    """This machine, live, until the user leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ALONE,
        *ZOOM,
        *IN_DEPTH,
        THEME,
        HELP,
        *LEAVE,
        *PANE_KEYS,
        PALETTE,
    ]
    ALLOW_IN_MAXIMIZED_VIEW = "Headline, KeyFooter, TooSmall"
    HELP_PAGES = PANEL
    READS_WHEN_COVERED: ClassVar[bool] = False

    def __init__(self, machine: MachineSource) -> None:
        super().__init__()
        self._source = machine
        self._panel: MachinePanel | None = None

    def compose_parts(self) -> ComposeResult:
        from tui.machine.machine import MachinePanel

        self._panel = MachinePanel(self._source, processes=True)
        self._panel.hide(self.hidden_panes)
        yield self._panel

    @property
    def panes(self) -> tuple[str, ...]:
        return _PANES

    def arrange_panes(self) -> None:
        if self._panel is not None:
            self._panel.hide(self.hidden_panes)
            self.call_after_refresh(self._panel.show_again)

    def on_screen_resume(self) -> None:
        """Start the sensors after the first paint."""
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        if self._panel is not None and self.is_current:
            self._panel.start()

    def on_screen_suspend(self) -> None:
        """Stop the sensors, unless the screen above is a form or shows their readings."""
        if self._panel is not None and not (self.READS_WHEN_COVERED or self.keeps_sampling):
            self._panel.stop()

    def action_gpus(self) -> None:
        from tui.watch.detail_screens import GpusScreen

        if self._panel is not None:
            self.app.push_screen(GpusScreen(self._panel.view))

    def action_processes(self) -> None:
        from tui.watch.processes_screen import ProcessesScreen

        if self._panel is not None:
            self.app.push_screen(ProcessesScreen(self._panel.view))

    def action_zoom(self, out: bool) -> None:
        if self._panel is not None:
            self._panel.zoom(out=out)
