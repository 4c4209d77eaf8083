"""How long what the sensors read only every few seconds stands for. Pure."""

from __future__ import annotations

import math

# How far apart the sensors' slow readings are, at least: each is taken with a sample.
SLOW_NS = 5_000_000_000


def settled_after_ns(interval_ns: int) -> int:
    """Return after how long the slow readings are of what came since alone.

    A reading stands in each sample until the next one, and is of the time since the one before it.
    """
    period_ns = math.ceil(SLOW_NS / interval_ns) * interval_ns
    return 2 * period_ns - interval_ns
