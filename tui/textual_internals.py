"""Every use of what Textual keeps private: where to look when a new version breaks something."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget


class SpansUpdate(ChopsUpdate):
    """An update that sends each span from where it begins.

    Textual's own begins at the left of the widget that the span lies in: several
    times the bytes, where a chart grows at its right.
    """

    def render_segments(self, console: Console) -> str:
        """Return what is written to the terminal."""
        parts = []
        for y, first, last in self.spans:
            strips = self.chops[y].items()
            for end, (x, strip) in zip(self.chop_ends[y], strips, strict=False):
                start, end = max(first, x), min(last, end)
                if strip is not None and start < end:
                    parts.append(Control.move_to(start, y).segment.text)
                    parts.append(strip.crop(start - x, end - x).simplify().render(console))
        return "".join(parts)


class _SpansCompositor(Compositor):
    """A compositor whose partial updates are short."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what changed, None for nothing."""
        update = super().render_partial_update()
        if update is None:
            return None
        return SpansUpdate(update.chops, update.spans, update.chop_ends)


def send_short_updates(screen: Screen[Any]) -> None:
    """Have a screen send the terminal what changed in a row, not all that lies left of it as well.

    A screen takes no compositor as a parameter. Call this where it is made.
    """
    screen._compositor = _SpansCompositor()


def put_border_titles(widget: Widget, title: Content, subtitle: Content) -> None:
    """Set both titles of a border, and repaint nothing.

    The public attributes would repaint the whole widget, twice a second for one number.
    """
    widget._border_title, widget._border_subtitle = title, subtitle


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Send the terminal an escape sequence that Textual has no method for, if there is one."""
    if app._driver is not None:
        app._driver.write(sequence)
