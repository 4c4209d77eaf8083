"""Single values over a chart's line, such as what each validation came to."""

from __future__ import annotations

from collections.abc import Sequence

from tui.drawing.plot import COLUMNS_PER_CELL
from tui.widgets.rows import TextRow, TextRun

POINT = "chart--point"


def with_points(
    rows: list[TextRow],
    points: Sequence[tuple[int, float]],
    mark: str,
    axis_width: int,
    height: int,
    top: float,
    bottom: float,
) -> list[TextRow]:
    """Draw points over the rows of a plot.

    Args:
        rows: of the plot, the top one first, and what stands below it.
        points: (column, value); what lies outside of the axis is drawn at its edge.
        mark: one cell.
        axis_width: cells left of the plot.
        height: rows of the plot.
        top: the value at the top.
        bottom: the value at the bottom.
    """
    drawn = list(rows)
    if height < 1 or not top > bottom:
        return drawn
    for column, value in points:
        share = (min(max(value, bottom), top) - bottom) / (top - bottom)
        y = height - 1 - min(height - 1, int(share * height))
        at = axis_width + column // COLUMNS_PER_CELL
        if column >= 0 and y < len(drawn):
            drawn[y] = _replaced(drawn[y], at, mark)
    return drawn


def _replaced(row: TextRow, at: int, mark: str) -> TextRow:
    """Put a mark in the place of a cell: a chart's rows hold one character a cell."""
    runs: list[TextRun] = []
    start = 0
    for text, components in row:
        end = start + len(text)
        if start <= at < end:
            parts = (
                (text[: at - start], components),
                (mark, (*components[:-1], POINT)),
                (text[at - start + 1 :], components),
            )
            runs.extend(part for part in parts if part[0])
        else:
            runs.append((text, components))
        start = end
    return tuple(runs)
