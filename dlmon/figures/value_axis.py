"""The ends and labels of axes, and the lengths of bars, for values of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from dlmon.statistics.series import LARGEST, SMALLEST

SUFFIXES = ("", "k", "M", "G", "T", "P")
_NICE_STEPS = ("1", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_SHRINK_BELOW = 0.4
# The allowed bottoms of an axis as shares of its top, and the margin needed before it goes up.
_BOTTOMS = (0.0, 0.5, 0.8)
_MARGIN = 0.05
_LINEAR_SPAN = 30
_LONGEST_LABEL, _MOST_DECIMALS = 5, 4
# An axis begins at zero unless the least value is above this share of the most.
_FAR_ABOVE = 0.25


def value_range(least: float, most: float) -> tuple[float, float]:
    """Return the bottom and the top of an axis: from zero, unless all values lie far from it.

    An axis that `axis_numbers` can't label begins at zero, too. Values that `drawable` refuses may
    lie outside of it.
    """
    least, most = (max(-LARGEST, min(value, LARGEST)) for value in (least, most))
    least, most = (0.0 if abs(value) <= SMALLEST else value for value in (least, most))
    if least < 0 < most:
        return -nice_top(-least), nice_top(most)
    if least < 0:
        bottom, top = value_range(-most, -least)
        return 0.0 - top, 0.0 - bottom
    if least >= _FAR_ABOVE * most > 0:
        step = nice_step(max((most - least) / 6, most * 1e-3))
        first, last = math.floor(least / step), math.ceil(most / step + 1e-9)
        if (last - first) % 2 and f"{step:e}"[0] != "2":
            # The middle, too, is a multiple of the step; half of a 2 is as round.
            last += 1
        bottom, top = first * step, last * step
        bottom, top = min(bottom, least), max(top, most)
        if any(axis_numbers(top, bottom)):
            return bottom, top
    return 0.0, nice_top(most)


def axis_numbers(top: float, bottom: float) -> tuple[str, str, str]:
    """Return labels for the top, the middle and the bottom of an axis that tell them apart.

    A label has at most five characters, and is within 1 % of the axis's height of its value. It is
    empty if that isn't possible; if it is the label of an end, all are empty.
    """
    values = top, top / 2 + bottom / 2, bottom
    decimals = range(_MOST_DECIMALS + 1)
    formats = [[_fixed(value, count) for value in values] for count in decimals]
    formats.insert(0 if bottom <= 0 <= top else len(formats), list(map(short_number, values)))
    labels = [
        tuple(
            _if_close(text, value, top - bottom) for text, value in zip(texts, values, strict=True)
        )
        for texts in formats
    ]
    upper, middle, lower = max(labels, key=lambda texts: (bool(texts[0] and texts[2]), all(texts)))
    return (upper, middle, lower) if upper and lower else ("", "", "")


def _fixed(value: float, decimals: int) -> str:
    """Write a value with that many decimals: 2.50, .0508, 5,500, -5500, 0."""
    text = f"{value:,.{decimals}f}" if value else "0"
    if len(text) > _LONGEST_LABEL:
        text = text.replace(",", "")
    return text.replace("0.", ".", 1) if len(text) > _LONGEST_LABEL and abs(value) < 1 else text


def _if_close(text: str, value: float, height: float) -> str:
    """Return a label; empty if it is too long, or 1 % of the height or more off its value."""
    power = SUFFIXES.index(text[-1]) if text[-1] in SUFFIXES else 0
    text_value = float((text[:-1] if power else text).replace(",", "")) * 1000.0**power
    is_short = len(text) <= _LONGEST_LABEL
    return text if is_short and abs(text_value - value) < height / 100 else ""


def is_doubling(xs: Sequence[float]) -> bool:
    """Return whether each value is at least twice the one before, for a logarithmic axis."""
    ordered = sorted(set(xs))
    return len(ordered) > 1 and ordered[0] > 0 and all(b >= 2 * a for a, b in pairwise(ordered))


def nice_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is at least `least`."""
    exponent = math.floor(math.log10(least))
    steps = (float(f"{digit}e{exponent + more}") for more in (0, 1) for digit in (1, 2, 5))
    return next(step for step in steps if step >= least)


def nice_top(largest: float) -> float:
    """Return the smallest round number that is at least `largest`; 1 if that is near zero.

    A very small or very large one has a single digit, as `short_number` writes it.
    """
    if not SMALLEST < largest < math.inf:
        return 1.0
    exponent = math.floor(math.log10(largest))
    # The logarithm may be off in its last place: try one decade to either side.
    candidates = (
        float(f"{step}e{decade}")
        for decade in (exponent - 1, exponent, exponent + 1)
        for step in _NICE_STEPS
        if -3 <= decade < 18 or len(step) == 1
    )
    return next(top for top in candidates if top >= largest)


def grown_top(current_top: float, largest: float) -> float:
    """Return the top of an axis for a window of data whose largest value is `largest`.

    It grows at once, but shrinks only when the whole window lies below 40 % of it, so that the
    axis doesn't jump to and fro.
    """
    if current_top > 0 and _SHRINK_BELOW * current_top <= largest <= current_top:
        return current_top
    return nice_top(largest)


def fitted_bottom(current_bottom: float, top: float, least: float) -> float:
    """Return the bottom of an axis for values of at least `least`: zero, or a share of the top.

    It goes down at once, but up only with a margin, so that the axis doesn't jump to and fro.
    """
    bottoms = [part * top for part in _BOTTOMS]
    stays = current_bottom if current_bottom in bottoms and current_bottom <= least else 0.0
    higher = [bottom for bottom in bottoms if bottom + _MARGIN * top <= least]
    return max([stays, *higher]) if top > 0 else 0.0


def short_number(value: float) -> str:
    """Return `value` in at most five characters and a minus sign: 0.42, 950, 5.5k, 1.25M.

    Half of any `nice_top` from 0.1 up is exact, so that the middle of an axis can be labelled.
    """
    if not math.isfinite(value):
        return "–"
    magnitude = abs(value)
    sign = "-" if value < 0 else ""
    if magnitude < 1:
        return _small_number(magnitude, sign)
    for suffix in SUFFIXES:
        # A value that rounds to a thousand belongs to the next suffix.
        if magnitude < 999.5:
            return f"{sign}{_rounded(magnitude, suffix)}{suffix}"
        magnitude /= 1000
    return f"{value:.0e}".replace("e+", "e")


def bar_lengths(values: Sequence[float]) -> tuple[tuple[float, ...], bool]:
    """Return each bar's share of the longest, 0 to 1, and whether the scale is logarithmic.

    It is logarithmic if the values span more than 30 to 1, so that small ones still differ
    visibly; the shortest bar is then a tenth.
    """
    positive = [value for value in values if value > 0]
    least, most = min(positive, default=1.0), max(positive, default=1.0)
    if most / least <= _LINEAR_SPAN:
        return tuple(max(0.0, value) / most for value in values), False
    span = math.log(most / least)
    lengths = (0.1 + 0.9 * math.log(value / least) / span if value > 0 else 0.0 for value in values)
    return tuple(lengths), True


_NAMED_SHARE = 0.005
"""A share that is written as at least 1 %."""


def stacked_bar(
    shares: Sequence[float], marks: Sequence[tuple[str, str]], width: int
) -> list[tuple[str, str]]:
    """Return a bar of shares of `width` after each other; from 1 % on, each has a cell.

    `marks` are the glyph and the style of each. A part without a cell takes one of a neighbour, if
    that has several, so that the others stay where they are.
    """
    ends = [min(width, round(end * width)) for end in accumulate(shares)]
    cells = [end - start for start, end in pairwise((0, *ends))]
    for number, share in enumerate(shares):
        if share >= _NAMED_SHARE and not cells[number] and max(cells) > 1:
            around = range(max(0, number - 1), min(len(cells), number + 2))
            near = max(around, key=cells.__getitem__)
            cells[near if cells[near] > 1 else cells.index(max(cells))] -= 1
            cells[number] = 1
    return [(glyph * n, style) for n, (glyph, style) in zip(cells, marks, strict=True) if n]


def _small_number(magnitude: float, sign: str) -> str:
    # Three digits of exponent don't fit in a label, and no measured value needs them.
    if magnitude < 1e-99:
        return "0"
    if magnitude >= 0.001:
        return sign + _trimmed(f"{magnitude:.3f}")
    return f"{sign}{magnitude:.0e}".replace("e-0", "e-")


def _rounded(magnitude: float, suffix: str) -> str:
    """Round to two decimals below 2 (or below 10 without a suffix), one below 100, else none."""
    two_decimals = magnitude < (1.995 if suffix else 9.995)
    decimals = 2 if two_decimals else 1 if magnitude < 99.95 else 0
    return _trimmed(f"{magnitude:.{decimals}f}")


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
