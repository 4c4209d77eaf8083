"""Axes and bars of values of any size: where they begin and end, and their labels. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dlmon.session.learning import LARGEST, SMALLEST

NO_NUMBERS = "", "", ""
SUFFIXES = ("", "k", "M", "G", "T", "P")
_NICE_STEPS = ("1", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_SHRINK_BELOW = 0.4
# Where an axis may begin, as a part of its top; it goes up only where so much of it is to spare.
_BOTTOMS = (0.0, 0.5, 0.8)
_TO_SPARE = 0.05
_LINEAR_SPAN = 30
_LONGEST_LABEL, _MOST_DECIMALS = 5, 4
# An axis of values begins at zero unless all of them lie far above.
_FAR_ABOVE = 0.5


def value_range(least: float, most: float) -> tuple[float, float]:
    """Return the ends of an axis for values: from zero, unless all lie far from it on one side.

    The ends are such that `axis_numbers` can label them, where any are. What `drawable` refuses
    lies outside of them.
    """
    least, most = (max(-LARGEST, min(value, LARGEST)) for value in (least, most))
    least, most = (0.0 if abs(value) <= SMALLEST else value for value in (least, most))
    if most < 0:
        ends = [(-high, -low) for low, high in _ends_above_zero(-most, -least)]
    elif least < 0:
        ends = [(-low, high) for high in _tops(most) for low in _tops(-least)]
    else:
        ends = _ends_above_zero(least, most)
    return next((found for found in ends if any(axis_numbers(found[1], found[0]))), ends[0])


def _ends_above_zero(least: float, most: float) -> list[tuple[float, float]]:
    """Return ends for values none of which is below zero, the better ones first."""
    if least < _FAR_ABOVE * most or most == 0:
        return [(0.0, top) for top in (_tops(most) if most else (1.0,))]
    return [*_ends_around(least, most), *((0.0, top) for top in _tops(most))]


def _tops(largest: float) -> tuple[float, ...]:
    """Return two round numbers that are no less: one of them has a single digit; 0 for none."""
    if largest <= 0:
        return (0.0,)
    top = nice_top(largest)
    return top, nice_top(math.nextafter(top, math.inf))


def _ends_around(least: float, most: float) -> Iterator[tuple[float, float]]:
    """Yield round numbers around values above zero: of the size of what they differ by, or more."""
    step = nice_step(max((most - least) / 4, most * 1e-3))
    while step <= most:
        low, high = math.floor(least / step) * step, math.ceil(most / step + 1e-9) * step
        yield min(low, least), max(high, most)
        step = nice_step(1.5 * step)


def axis_numbers(top: float, bottom: float) -> tuple[str, str, str]:
    """Label the top, the middle and the bottom of an axis, with as many digits as tell them apart.

    Each takes at most five characters, and stands for its value within 1 % of the axis's height.
    Empty is what can't be written so; where that is an end, all of them are.
    """
    height = top - bottom
    values = top, top / 2 + bottom / 2, bottom
    found = NO_NUMBERS
    for texts in _spellings(values, starts_at_zero=bottom == 0):
        pairs = zip(values, texts, strict=True)
        upper, middle, lower = (_if_true(text, value, height) for value, text in pairs)
        if upper and lower and middle:
            return upper, middle, lower
        if upper and lower and found == NO_NUMBERS:
            found = upper, "", lower
    if found != NO_NUMBERS:
        return found
    # In no spelling of all three: each in one of its own.
    alone = [_first_true(value, height) for value in (top, bottom)]
    return (alone[0], "", alone[1]) if all(alone) else NO_NUMBERS


def _spellings(values: Sequence[float], *, starts_at_zero: bool) -> Iterator[list[str]]:
    """Yield ways to write some numbers alike, the most readable first."""
    short = [short_number(value) for value in values]
    if starts_at_zero:
        yield short
    for decimals in range(_MOST_DECIMALS + 1):
        yield [_fixed(value, decimals) for value in values]
    if not starts_at_zero:
        yield short
    largest = max(map(abs, values))
    if not 0 < largest < math.inf:
        return
    for number, suffix in enumerate(SUFFIXES[1:], 1):
        for decimals in range(3) if largest >= 1000.0**number else ():
            yield [_fixed(value / 1000.0**number, decimals, suffix) for value in values]
    exponent = math.floor(math.log10(largest))
    for size in (exponent, exponent - 1):
        unit = float(f"1e{size}")
        if unit > 0:
            yield [_fixed(value / unit, 0, f"e{size}") for value in values]


def _fixed(value: float, decimals: int, unit: str = "") -> str:
    """Write a number with so many decimals: 2.50, .0508, 12k, 28e-6; zero without a unit."""
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        return "0" if value == 0 else text.lstrip("-")
    if len(text) > _LONGEST_LABEL and text.lstrip("-").startswith("0."):
        text = text.replace("0.", ".", 1)
    return text + unit


def _first_true(value: float, height: float) -> str:
    spellings = (texts[0] for texts in _spellings([value], starts_at_zero=True))
    return next((text for text in spellings if _if_true(text, value, height)), "")


def _if_true(text: str, value: float, height: float) -> str:
    """Return a label; empty where it would stand for another value, or takes too much room."""
    if len(text) > _LONGEST_LABEL:
        return ""
    power = SUFFIXES.index(text[-1]) if text[-1] in SUFFIXES else 0
    digits = text[:-1] if power else text
    try:
        meant = float(digits) * 1000.0**power
    except ValueError:
        return ""
    return text if abs(meant - value) < height / 100 else ""


def nice_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5, times a power of ten, that is `least` or more."""
    exponent = math.floor(math.log10(least))
    steps = (float(f"{digit}e{exponent + more}") for more in (0, 1) for digit in (1, 2, 5))
    return next(step for step in steps if step >= least)


def nice_top(largest: float) -> float:
    """Return the smallest round number that is no less than `largest`; 1 for none."""
    if not 0 < largest < math.inf:
        return 1.0
    exponent = math.floor(math.log10(largest))
    # The logarithm may be off in its last place: look one decade to either side.
    decades = (exponent - 1, exponent, exponent + 1)
    candidates = (float(f"{step}e{n}") for n in decades for step in _NICE_STEPS)
    return next(top for top in candidates if top >= largest)


def grown_top(current_top: float, largest: float) -> float:
    """Return the top of an axis for a window of data whose largest value is `largest`.

    It grows at once, and shrinks only when the whole window lies below 40 % of
    it, so that the axis doesn't jump to and fro.
    """
    if current_top > 0 and _SHRINK_BELOW * current_top <= largest <= current_top:
        return current_top
    return nice_top(largest)


def fitted_bottom(current_bottom: float, top: float, least: float) -> float:
    """Return where an axis begins that fits values of at least `least`: above 0 in its upper half.

    It goes down at once, and up only where something is to spare, so that it doesn't jump to and
    fro.
    """
    bottoms = [part * top for part in _BOTTOMS]
    stays = current_bottom if current_bottom in bottoms and current_bottom <= least else 0.0
    higher = [bottom for bottom in bottoms if bottom + _TO_SPARE * top <= least]
    return max([stays, *higher]) if top > 0 else 0.0


def short_number(value: float) -> str:
    """Return `value` in at most five characters and a minus sign: 0.42, 950, 5.5k, 1.25M.

    Half of any `nice_top` from 0.1 up comes out exactly, so that the middle of
    an axis can be labelled.
    """
    if not math.isfinite(value):
        return "–"
    magnitude = abs(value)
    sign = "-" if value < 0 else ""
    if magnitude < 1:
        return _small_number(magnitude, sign)
    for suffix in SUFFIXES:
        # What rounds to a thousand belongs to the next suffix.
        if magnitude < 999.5:
            return f"{sign}{_rounded(magnitude, suffix)}{suffix}"
        magnitude /= 1000
    return f"{value:.0e}".replace("e+", "e")


def bar_fractions(values: Sequence[float]) -> list[float]:
    """Return each value's share of the longest bar.

    Bars are logarithmic where the values span more than 30 to 1, so that the
    small ones still differ visibly; the shortest is then a tenth.
    """
    if not values:
        return []
    least, most = min(values), max(values)
    if least <= 0 or most / least <= _LINEAR_SPAN:
        return [value / most if most > 0 else 0.0 for value in values]
    span = math.log(most / least)
    return [0.1 + 0.9 * math.log(value / least) / span for value in values]


def _small_number(magnitude: float, sign: str) -> str:
    # Three digits of exponent have no room in a label, and nothing that is measured needs them.
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
