"""The base of the screens that show the readings of the screen below them."""

from __future__ import annotations

from collections.abc import Callable

from tui.machine.view import MachineView
from tui.screens.base import TickingScreen

GetView = Callable[[], MachineView]
"""Returns the present readings of the machine."""


class MachineScreen(TickingScreen):
    """A screen that shows the readings of the screen below it."""

    CSS_PATH = "machine_detail.tcss"
    USES_SENSORS_BELOW = True
    # Without a focus in the filter field, letters are commands.
    AUTO_FOCUS = ""

    def __init__(self, get_view: GetView) -> None:
        super().__init__()
        self._get_view = get_view
        self._painted: tuple[object, ...] = ()

    def on_resize(self) -> None:
        self._painted = ()

    def tick(self) -> None:
        """Paint the readings if they changed, even below a menu."""
        if not self.is_showing:
            return
        view = self._get_view()
        readings = self.readings(view)
        if readings != self._painted:
            self._painted = readings
            self.paint_machine(view)

    def readings(self, view: MachineView) -> tuple[object, ...]:
        """Return what the screen shows: it is painted when any of it changes."""
        return (
            *(view.history.latest, view.facts, view.stale, view.age_s is None, view.training),
            view.cursor_ns,
        )

    def paint_again(self) -> None:
        self._painted = ()
        self.tick()

    def paint_machine(self, view: MachineView) -> None:
        raise NotImplementedError

    async def show_instead(self, action: str) -> None:
        """Close this screen, and let the one below open another in its place."""
        below = self.app.screen_stack[-2]
        self.app.pop_screen()
        await self.app.run_action(action, below)
