"""A minimal Textual app, the reference for dlmon's screen.

It shows one Static of 200 cells; with --sparklines also four one-row sparklines that a timer
updates at 1 Hz.
"""

from __future__ import annotations

import argparse
import random

from textual.app import App, ComposeResult
from textual.widgets import Sparkline, Static

MARKER = "a-bare-app"
CELLS = 200
POINTS = 120


class BareApp(App[None]):
    """A text of 200 cells that begins with the marker."""

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield Static(MARKER.ljust(CELLS, "."))


class SparklineApp(BareApp):
    """Four one-row sparklines, each with a new point every second."""

    CSS = "Sparkline { height: 1; }"

    def compose(self) -> ComposeResult:
        """Yield the marker and the sparklines."""
        yield from super().compose()
        self._random = random.Random(1)
        for _ in range(4):
            yield Sparkline([self._random.random() for _ in range(POINTS)])

    def on_mount(self) -> None:
        """Start the timer."""
        self.set_interval(1.0, self._step)

    def _step(self) -> None:
        for line in self.query(Sparkline):
            line.data = [*(line.data or ())[1:], self._random.random()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sparklines", action="store_true")
    (SparklineApp if parser.parse_args().sparklines else BareApp)().run()
