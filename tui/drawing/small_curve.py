"""A curve in one row of a few cells, for where a chart has no room. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.session.learning import LEAST_CHANGE
from tui.drawing.plot import braille_rows
from tui.drawing.time_axis import TimeAxis

# So many widths of columns lie between a power of two and the next one.
_WIDTHS = 32


def axis_of_all(start_ns: int, end_ns: int, count: int) -> TimeAxis | None:
    """Return `count` columns over all of a time that grows; None where that is too short.

    Nearly all of them are over, and they keep their places until the time has grown by some
    percent, so that a picture along them changes only when another column is over.
    """
    length_ns = end_ns - start_ns
    if count < 1 or length_ns < 2 * _WIDTHS * count:
        return None
    width_ns = -(-length_ns // count)
    step_ns = max(1, (1 << width_ns.bit_length() - 1) // _WIDTHS)
    width_ns = -(-width_ns // step_ns) * step_ns
    return TimeAxis(start_ns, width_ns, count, length_ns // width_ns)


def small_curve(columns: Sequence[float | None], cells: int) -> str:
    """Draw columns, two a cell, as a line from the lowest of them to the highest.

    Where they differ by no more than noise it is straight; what is unknown is a gap.
    """
    known = [value for value in columns if value is not None]
    bottom, top = min(known, default=0.0), max(known, default=0.0)
    if top - bottom <= LEAST_CHANGE * max(abs(top), abs(bottom)):
        columns, bottom, top = [None if value is None else 0.0 for value in columns], -1.0, 1.0
    return braille_rows(columns, cells, 1, top, bottom)[0]
