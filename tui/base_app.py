"""The state of the app that flows work on: its sessions, connections and screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from dlmon.cli.start import Start
from dlmon.records.sanitize import clean
from tui.shown_session import ShownSession, Starting
from tui.textual_internals import PunctualApp

if TYPE_CHECKING:
    from dlmon.comparison.references import Reference
    from dlmon.remote.connection import Connection
    from dlmon.sweep.runner import SweepRun
    from dlmon.sweep.tries import TryRun
    from tui.home.home_screen import HomeScreen
    from tui.sweep.experiment_screen import ExperimentScreen

_ERROR_LENGTH = 400


class BaseApp(PunctualApp[int]):
    """The app without its keys, its flows and its terminal."""

    starting: Starting | None = None
    """The launch that the app waits for."""
    home: HomeScreen | None = None
    sweep_screen: ExperimentScreen | None = None
    refused: str | None = None
    """The reason why dlmon could not show the session that it was started for."""
    previews_themes = False

    def __init__(self, start: Start, ansi_color: bool | None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.start, self.settings = start, start.settings
        self.directory, self.sources = start.directory, start.sources
        self.shown_sessions: list[ShownSession] = []
        self.sweeps: list[SweepRun | TryRun] = []
        self.connections: list[Connection] = []
        self.references: dict[str, Reference] = {}
        """The run that each workload is compared with, if the user chose one."""
        self.cleanups: dict[Screen[Any], Callable[[], object]] = {}
        """The function to call once a screen is closed."""
        self.rings_at_end = self.settings.bell
        self.notifies_at_end = self.settings.notification or self.settings.alerts.desktop
        self.saved_theme = ""

    @property
    def running_sweep(self) -> SweepRun | TryRun | None:
        """The experiment that is running; there is at most one."""
        run = None if self.sweep_screen is None else self.sweep_screen.run
        return None if run is None or run.ended else run

    def is_first(self, screen: Screen[Any]) -> bool:
        """Return whether a screen is the lowest one: leaving it quits dlmon."""
        return screen in self.screen_stack[:1]

    def uncover(self, screen: Screen[Any]) -> None:
        """Close the screens on top of a screen, if it is still open."""
        while screen in self.screen_stack and self.screen is not screen:
            self.close_top_screen()

    def close_top_screen(self) -> None:
        """Close the top screen, and clean up after it."""
        screen = self.screen
        self.workers.cancel_node(screen)
        screen.dismiss()
        self.clean_up(screen)

    def clean_up(self, screen: Screen[Any]) -> None:
        """Call the cleanup of a screen that is closed."""
        self.cleanups.pop(screen, lambda: None)()

    def explain_refusal(self, action: str) -> bool:
        reason = getattr(self.screen, "why_not", lambda action: "")(action.partition("(")[0])
        if reason:
            self.notify(reason, severity="warning", markup=False)
        return bool(reason)

    def show_notice(self, sentence: str) -> None:
        self.notify(sentence, markup=False)

    def show_error(self, reason: str) -> None:
        """Show for a while why an action failed."""
        self.notify(clean(reason, _ERROR_LENGTH), severity="error", markup=False, timeout=10)
