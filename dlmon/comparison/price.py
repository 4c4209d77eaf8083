"""The price of a machine per hour, the CPUs of a run, and the year of a figure. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from dlmon.numbers import decimal_number
from dlmon.records import MachineFacts
from dlmon.records.record import record
from dlmon.records.sanitize import quoted


@record(frozen=True)
class Price:
    """US dollars per hour, for the whole machine or for each CPU that a run may use."""

    usd_per_hour: float
    per_cpu: bool = False

    def cost_usd(self, wall_s: float, cpus: int | None) -> float | None:
        """Return the cost of `wall_s` seconds.

        None if the price is per CPU and their number is unknown, or if the time is negative or
        infinite.
        """
        if not 0 <= wall_s < math.inf:
            return None
        cost = self.usd_per_hour * wall_s / 3600
        if not self.per_cpu:
            return cost
        return None if cpus is None or cpus < 1 else cost * cpus


def parse_price(text: str) -> Price:
    """Return the price in a text: "0.5" for the machine, "0.00795/cpu" for each CPU.

    Raises:
        ValueError: it isn't a price; the message is a sentence with examples.
    """
    amount, slash, unit = text.partition("/")
    try:
        # Blanks may stand around the slash only.
        usd_per_hour = decimal_number(amount.rstrip() if slash else amount)
    except ValueError:
        usd_per_hour = 0.0
    is_known_unit = not slash or unit.lstrip().lower() == "cpu"
    if not is_known_unit or not 0 < usd_per_hour <= 1e9:
        raise ValueError(
            f"{quoted(text)} is not a price: give US dollars per hour, such as 0.5, "
            "or per hour of each CPU, such as 0.00795/cpu"
        )
    return Price(usd_per_hour, per_cpu=bool(slash))


def cpus_of(options: Mapping[str, Any], machine: MachineFacts | None) -> int | None:
    """Return the number of CPUs that a run may use: `--cpus`, else all that are available."""
    cpus = options.get("cpus")
    if type(cpus) is int and cpus > 0:
        return cpus
    return machine.cores if machine else None


def usd_per_hour_of(options: Mapping[str, Any], machine: MachineFacts | None) -> float | None:
    """Return the price of an hour of a run; None without a valid `--price` or the CPUs it needs."""
    price = options.get("price")
    if not isinstance(price, str):
        return None
    try:
        return parse_price(price).cost_usd(3600.0, cpus_of(options, machine))
    except ValueError:
        return None


def year_of(wall: float | None) -> int | None:
    """Return the year of a time; None if it is unknown or beyond the calendar."""
    if wall is None:
        return None
    try:
        return datetime.fromtimestamp(wall, timezone.utc).year
    except (OverflowError, OSError, ValueError):  # a foreign log may name any time
        return None
