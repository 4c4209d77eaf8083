"""Bars that are a whole cell thick, in eighths of a cell."""

from __future__ import annotations

import math

from dlmon.figures.glyphs import UNICODE, Glyphs

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_FULL = "█"


def thick_bar(fraction: float | None, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Draw a bar of `fraction` of `width` cells, padded to `width`.

    Anything above zero shows something; None draws nothing. ASCII has whole cells alone.
    """
    if fraction is None or math.isnan(fraction) or fraction <= 0 or width <= 0:
        return " " * max(0, width)
    cells = min(1.0, fraction) * width
    if glyphs.is_ascii:
        return (glyphs.bar * max(1, round(cells))).ljust(width)
    eighths = max(1, round(8 * cells))
    return (_FULL * (eighths // 8) + _EIGHTHS[eighths % 8]).ljust(width)
