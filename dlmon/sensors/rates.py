"""Turn growing counters into rates."""

from __future__ import annotations

BYTES_IN_MIB = 1024 * 1024


class Rates:
    """The growth per second of counters that are read together."""

    def __init__(self) -> None:
        self._last: tuple[int, tuple[int, ...]] | None = None

    def per_second(self, t: int, *counts: int) -> tuple[float, ...]:
        """Return each counter's growth per second since the last call; `t` is in nanoseconds.

        Raises:
            ValueError: there is no window to take a rate over; the message says why.
        """
        last, self._last = self._last, (t, counts)
        if last is None:
            raise ValueError("no earlier reading yet")
        t_before, before = last
        if t <= t_before:
            raise ValueError("no time has passed")
        growth = [now - then for then, now in zip(before, counts, strict=True)]
        if min(growth) < 0:
            raise ValueError("the counter was reset")
        return tuple(grown * 1e9 / (t - t_before) for grown in growth)


def mib_per_second(bytes_per_second: float) -> float:
    """Return MiB/s, rounded to the digits that a record keeps."""
    mib_s = bytes_per_second / BYTES_IN_MIB
    return round(mib_s, 2 if mib_s < 10 else 1)
