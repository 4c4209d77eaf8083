"""Write figures the way people read them: one place for units and digits."""

from __future__ import annotations

import time

from dlmon.records import RunSeconds, SamplesPerSecond, SecondsPerEpoch


def seconds(value: float) -> str:
    """Write a duration: 0.85 s, 9.02 s, 36.4 s, 382 s."""
    if value < 10:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def clock(value: float) -> str:
    """Write a duration as 01:12 or 2:03:04."""
    whole = max(0, int(value))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def time_left(value: float | None) -> str:
    """Write the time left; empty where it isn't known."""
    return "" if value is None else f"{clock(value)} left"


def band(timing: SecondsPerEpoch | RunSeconds) -> str:
    """Write a time with its band: `9.02 s ± 0.05`, or `~ 9.0 s ± 0.3` for a projection."""
    half = (timing.high - timing.low) / 2
    mark = "~ " if timing.projected else ""
    spread = f" ± {_digits(half)}" if half > 0 else ""
    return f"{mark}{seconds(timing.value)}{spread}"


def _digits(value: float) -> str:
    if value < 0.01:
        return "0.01"
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def rate(value: float) -> str:
    """Write samples per second: 5,540 or 12.3."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def throughput(measured: SamplesPerSecond) -> str:
    """Write the steady-state throughput with its standard error."""
    error = measured.standard_error
    spread = f" ± {rate(error)}" if error is not None else ""
    return f"{rate(measured.mean)}{spread} samples/s"


def percent(value: float | None) -> str:
    """Write a utilisation; a dash where it isn't known."""
    return "–" if value is None else f"{value:.0f} %"


def gibibytes(mib: float | None) -> str:
    """Write an amount of memory given in MiB."""
    return "–" if mib is None else f"{mib / 1024:.1f} GiB"


def count(value: float) -> str:
    """Write a large number: 101,770 or 1.23 M or 238 MFLOP's 238 M."""
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {suffix}"
    return f"{value:,.0f}"


def day_and_time(wall: float) -> str:
    """Write a wall time in the local zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(wall))


def device(name: str) -> str:
    """Write a device's name without the words that all of its kind share."""
    return name.replace("NVIDIA GeForce ", "NVIDIA ").replace("Intel Core ", "Intel ")


def factor(value: float) -> str:
    """Write how many times as fast: `4.3× as fast`, or as slow where it is slower."""
    return f"{value:.3g}× as fast" if value >= 1 else f"{1 / value:.3g}× as slow"
