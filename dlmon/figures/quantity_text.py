"""The values of quantities as text, by their units."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dlmon.figures import units
from dlmon.figures.sections import Row
from dlmon.quantities import QUANTITIES, Place, Quantity, value_of

_NUMBERS: dict[str, Callable[[float], str]] = {
    "%": "{:.0f}".format,
    "GiB": lambda mib: f"{mib / 1024:.2f}",
    "USD": units.number_of_dollars,
    "USD per epoch": units.number_of_dollars,
    "cores": "{:.2f}".format,
    "metric": units.metric,
    "share": lambda pct: units.share(pct / 100).removesuffix(" %"),
}


def number_of(quantity: Quantity, value: float, compared_to: float | None = None) -> str:
    """Write a value without its unit; a small one with the digits of the value `compared_to`."""
    write = _NUMBERS.get(quantity.number_format or quantity.unit)
    if write is not None:
        return write(value)
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    smallest = min((abs(side) for side in (value, compared_to) if side), default=1.0)
    if smallest < 0.01 and abs(value) < 1:
        digits = 2 - math.floor(math.log10(smallest))
        # Less than a millisecond of a run's time tells nothing.
        digits = min(digits, 3) if quantity.unit == "s" else digits
        return f"{value:.{digits}f}" if value else "0"
    return f"{value:.2f}"


_TEXTS: dict[str, Callable[[float], str]] = {
    "s": units.seconds,
    "ms": units.step_time,
    "%": units.percent,
    "share": units.share,
    "GiB": units.gibibytes,
    "USD": units.dollars,
}


def text_of(quantity: Quantity, value: float) -> str:
    """Write a value with its unit."""
    write = _TEXTS.get(quantity.unit)
    return f"{number_of(quantity, value)} {quantity.unit}" if write is None else write(value)


def rows_shown_in(place: Place, *sources: object) -> Iterator[Row]:
    """Yield names and texts of the quantities of a place, from the first source with a value."""
    for quantity in (quantity for quantity in QUANTITIES if place in quantity.shown_in):
        values = (value_of(source, quantity.key) for source in sources)
        value = next((value for value in values if value is not None), None)
        if value is not None:
            yield quantity.name, text_of(quantity, value)
