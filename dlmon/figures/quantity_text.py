"""The values of quantities as text: the one place that writes a figure by its unit. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from dlmon.figures import units
from dlmon.quantities import Quantity

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
    write = _WRITTEN.get(quantity.written or quantity.unit)
    if write is not None:
        return write(value)
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    smallest = min((abs(side) for side in (value, other) if side), default=1.0)
    if smallest < 0.01 and abs(value) < 1:
        return f"{value:.{2 - math.floor(math.log10(smallest))}f}" if value else "0"
    return f"{value:.2f}"
