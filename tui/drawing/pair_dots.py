"""Draw the ratios of pairs on one axis: a dot for each, and the interval of all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlmon.figures.comparison import verdicts
from dlmon.statistics.pairs import PairedRatio

DOT, ASIDE, CENTER, ZERO = "●", "○", "◆", "│"
_MARGIN = 1.15


def axis_reach(ratios: Sequence[float], interval: PairedRatio | None, to: float) -> float:
    """Return the logarithm at the right end of an axis that holds all ratios; 0 is its middle.

    It holds the interval of all pairs too, and the half-width `to` that is asked for.
    """
    edges = [*ratios, 1 + to]
    if interval is not None and interval.low is not None and interval.high is not None:
        # A wide interval of two pairs would press all dots into the middle.
        edges += [max(interval.low, min(ratios) ** 2), min(interval.high, max(ratios) ** 2)]
    return _MARGIN * max(abs(math.log(edge)) for edge in edges)


def dot_row(ratio: float | None, is_set_aside: bool, reach: float, width: int) -> str:
    """Return the row of one pair, with the line of no change."""
    cells = _with_zero(width)
    if ratio is not None:
        cells[_column(ratio, reach, width)] = ASIDE if is_set_aside else DOT
    return "".join(cells)


def interval_row(interval: PairedRatio | None, reach: float, width: int) -> str:
    """Return the row of all pairs: their mean, and the interval around it."""
    cells = _with_zero(width)
    if interval is None:
        return "".join(cells)
    if interval.low is not None and interval.high is not None:
        first, last = (_column(end, reach, width) for end in (interval.low, interval.high))
        cells[first : last + 1] = "─" * (last + 1 - first)
        cells[first], cells[last] = "├", "┤"
    cells[_column(interval.value, reach, width)] = CENTER
    return "".join(cells)


def axis_row(reach: float, width: int) -> str:
    """Return the ends of the axis as ratios, with 1× in its middle: 0.875× … 1× … 1.143×."""
    low, high = (verdicts.change(math.exp(end)) for end in (-reach, reach))
    middle = width // 2
    if width < len(low) + len(high) + 5:
        return "1×".rjust(middle + 2)[:width]
    row = [*low.ljust(width)]
    row[middle : middle + 2] = "1×"
    row[width - len(high) :] = high
    return "".join(row)


def _with_zero(width: int) -> list[str]:
    cells = [" "] * width
    cells[width // 2] = ZERO
    return cells


def _column(ratio: float, reach: float, width: int) -> int:
    share = math.log(ratio) / reach if reach > 0 else 0.0
    return max(0, min(width - 1, width // 2 + round(share * (width // 2))))
