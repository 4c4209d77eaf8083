"""Keep everything that reaches the terminal within ASCII."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from dlmon.render.ascii import plain


class PlainCharacters(LineFilter):
    """Draw lines, marks and arrows with ASCII; any other character becomes question marks.

    Each takes the cells it took before, so nothing moves.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with their text within ASCII."""
        return [
            segment
            if segment.text.isascii()
            else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
