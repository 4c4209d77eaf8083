"""Replace every character that is not ASCII before it reaches the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from dlmon.render.ascii import plain


class PlainCharacters(LineFilter):
    """Replaces lines, marks and arrows by ASCII of equal width, other characters by "?"."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with ASCII text."""
        return [
            segment
            if segment.text.isascii()
            else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
