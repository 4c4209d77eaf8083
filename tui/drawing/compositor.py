"""Send the terminal what changed in a row, not all that lies left of it as well."""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor


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
                begin, end = max(first, x), min(last, end)
                if strip is not None and begin < end:
                    parts.append(Control.move_to(begin, y).segment.text)
                    parts.append(strip.crop(begin - x, end - x).simplify().render(console))
        return "".join(parts)


class SpansCompositor(Compositor):
    """A compositor whose partial updates are short."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what changed, None for nothing."""
        update = super().render_partial_update()
        if update is None:
            return None
        return SpansUpdate(update.chops, update.spans, update.chop_ends)
