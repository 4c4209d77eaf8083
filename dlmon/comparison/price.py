"""What a machine costs by the hour, as a person types it. Pure."""

from __future__ import annotations

import math

from dlmon.numbers import decimal_number
from dlmon.records.record import record
from dlmon.records.sanitize import quoted

_MAX_USD_PER_HOUR = 1e9


@record(frozen=True)
class Price:
    """US dollars per hour: of the whole machine, or of each CPU that a run may use."""

    usd_per_hour: float
    per_cpu: bool = False

    def cost_usd(self, wall_s: float, cpus: int | None) -> float | None:
        """Return what `wall_s` seconds cost.

        None where the price is per CPU and their number is not known, or where the time is
        negative or infinite.
        """
        if not 0 <= wall_s < math.inf:
            return None
        cost = self.usd_per_hour * wall_s / 3600
        if not self.per_cpu:
            return cost
        return None if cpus is None or cpus < 1 else cost * cpus


def parse_price(text: str) -> Price:
    """Return the price that `text` names: "0.5" for the machine, "0.00795/cpu" for each CPU.

    Raises:
        ValueError: it is no price; the message is a sentence that says what one looks like.
    """
    amount, slash, unit = text.partition("/")
    try:
        # Blanks may stand around the slash only.
        usd_per_hour = decimal_number(amount.rstrip() if slash else amount)
    except ValueError:
        usd_per_hour = 0.0
    known_unit = not slash or unit.lstrip().lower() == "cpu"
    if not known_unit or not 0 < usd_per_hour <= _MAX_USD_PER_HOUR:
        raise ValueError(
            f"{quoted(text)} is no price: give US dollars per hour, such as 0.5, "
            "or per hour of each CPU, such as 0.00795/cpu"
        )
    return Price(usd_per_hour, per_cpu=bool(slash))
