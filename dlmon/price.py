"""What a machine costs by the hour, as a person types it. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dlmon.sanitize import clean

_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class Price:
    """US dollars per hour: of the whole machine, or of each CPU that a run may use."""

    usd_per_hour: float
    per_cpu: bool = False

    def cost_usd(self, wall_s: float, cpus: int | None) -> float | None:
        """Return what `wall_s` seconds cost.

        None where the price is per CPU and nobody knows how many there are, or
        the time is none (negative, infinite).
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
    amount, slash, unit = text.strip().partition("/")
    amount = amount.strip()
    known_unit = not slash or unit.strip().lower() == "cpu"
    if not known_unit or not _AMOUNT.fullmatch(amount) or float(amount) <= 0:
        raise ValueError(
            f'"{clean(text, 40)}" is no price: give US dollars per hour, such as 0.5, '
            "or per hour of each CPU, such as 0.00795/cpu"
        )
    return Price(float(amount), per_cpu=bool(slash))
