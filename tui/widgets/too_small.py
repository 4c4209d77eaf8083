"""What a terminal shows that has no room for the screen."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

LEAST_WIDTH, LEAST_HEIGHT = 60, 16


class TooSmall(Static):
    """Says what size dlmon needs; `dlmon.tcss` shows it in place of all else."""

    def render(self) -> Content:
        """Say the size that is needed, and the one there is."""
        width, height = self.app.size
        return Content(f"dlmon needs {LEAST_WIDTH} × {LEAST_HEIGHT}, this is {width} × {height}")
