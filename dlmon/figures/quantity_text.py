"""The values of quantities as text: the one place that writes a figure by its unit. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dlmon.figures import units
from dlmon.figures.report.sections import Row
from dlmon.quantities import QUANTITIES, Place, Quantity, value_of

_WRITTEN: dict[str, Callable[[float], str]] = {
    "%": "{:.0f}".format,
    "GiB": lambda mib: f"{mib / 1024:.2f}",
    "USD": lambda usd: units.dollars(usd).removesuffix(" USD"),
    "USD per epoch": lambda usd: units.dollars(usd).removesuffix(" USD"),
    "cores": "{:.2f}".format,
    "metric": units.metric,
    "share": lambda pct: units.share(pct / 100).removesuffix(" %"),
}


def number_of(quantity: Quantity, value: float, other: float | None = None) -> str:
    """Write the number of a value without its unit.

    It has the digits of the `other` side of a comparison, if both are small.
    """
    write = _WRITTEN.get(quantity.number_format or quantity.unit)
    if write is not None:
        return write(value)
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    smallest = min((abs(side) for side in (value, other) if side), default=1.0)
    if smallest < 0.01 and abs(value) < 1:
        return f"{value:.{2 - math.floor(math.log10(smallest))}f}" if value else "0"
    return f"{value:.2f}"


_TOLD: dict[str, Callable[[float], str]] = {
    "s": units.seconds,
    "ms": units.step_time,
    "%": units.percent,
    "share": units.share,
    "GiB": units.gibibytes,
    "USD": units.dollars,
}


def text_of(quantity: Quantity, value: float) -> str:
    """Write a value with its unit."""
    write = _TOLD.get(quantity.unit)
    return f"{number_of(quantity, value)} {quantity.unit}" if write is None else write(value)


def told(place: Place, *figures: object) -> Iterator[Row]:
    """Yield names and texts of what is told in a place of a snapshot, else of a result."""
    for quantity in QUANTITIES:
        values = (value_of(one, quantity.key) for one in figures if place in quantity.told_in)
        value = next((value for value in values if value is not None), None)
        if value is not None:
            yield quantity.name, text_of(quantity, value)
