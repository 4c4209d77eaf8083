"""Write figures the way people read them: one place for units and digits."""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING

# The first screen writes no time that is compared, so it doesn't pay for these.
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlmon.comparison.compare import ComparisonRow
    from dlmon.comparison.run import Timing
    from dlmon.records import SamplesPerSecond, SecondsPerEpoch


def seconds(value: float) -> str:
    """Write a duration: 0.85 s, 9.02 s, 36.4 s, 382 s."""
    return f"{_three_digits(value)} s"


def milliseconds(value: float) -> str:
    """Write the time of a batch: 0.85 ms, 36.4 ms, 1,240 ms."""
    return f"{_three_digits(value)} ms"


def step_time(value_ms: float) -> str:
    """Write the time of a step that may be long: 3.58 ms, 1.12 s."""
    return milliseconds(value_ms) if value_ms < 999.5 else seconds(value_ms / 1000)


def _three_digits(value: float) -> str:
    return f"{value:,.{_decimals_of_three(value)}f}"


def _decimals_of_three(value: float) -> int:
    return 2 if value < 9.995 else 1 if value < 99.95 else 0


def duration(timing: Timing | ComparisonRow) -> str:
    """Write the time that runs are compared by, in its unit."""
    return f"{_three_digits(timing.value)} {_unit_of(timing)}"


def _unit_of(timing: Timing | ComparisonRow) -> str:
    unit: str = getattr(timing, "unit", "s")
    return unit


def with_half(value: float, half: float, decimals: int, most: int = 9) -> tuple[str, str]:
    """Write a figure and half of its band with as many decimals: 10.66 and 0.01.

    The band is no narrower than one of the last digit, of at most four where `decimals`, those
    that the figure has at least, ask for no more: so the true figure lies in what is shown.

    Args:
        value: the figure.
        half: of its band, or 0.
        decimals: how many the figure has without a band.
        most: decimals that a band may ask for.
    """
    if value > 0 and half > 0:
        whole = value >= 100 and half >= 1
        of_band = 0 if whole else 1 - math.floor(math.log10(half))
        decimals = max(decimals, min(of_band, 3 - math.floor(math.log10(value)), most))
    if half <= 0:
        return f"{value:,.{decimals}f}", ""
    half = max(half, 10**-decimals)
    return f"{value:,.{decimals}f}", f"{half:,.{decimals if half < 9.995 else 0}f}"


def dollars(value: float) -> str:
    """Write an amount of US dollars: 1.23 USD, 0.00042 USD or 9.0e-09 USD."""
    if 0 < value < 1e-5:
        return f"{value:.1e} USD"
    decimals = 2 if value >= 0.1 or value <= 0 else 1 - math.floor(math.log10(value))
    return f"{value:,.{decimals}f} USD"


def energy(joules: float) -> str:
    """Write an amount of energy: 85 J, 1.23 kJ."""
    return _scaled(joules, ("J", "kJ", "MJ", "GJ"))


def _scaled(value: float, prefixed: Sequence[str]) -> str:
    """Write a figure in the first unit in which it is below 1,000, or in the last."""
    *smaller, largest = prefixed
    for unit in smaller:
        if value < 999.5:
            return f"{_three_figures(value)} {unit}"
        value /= 1000
    return f"{_three_figures(value)} {largest}"


def _three_figures(value: float) -> str:
    """Write a figure in three digits, or in as many as it has before its point: 1.2, 85, 12,346."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def clock(value: float) -> str:
    """Write a duration as 01:12 or 2:03:04."""
    whole = max(0, int(value))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def time_left(value: float | None) -> str:
    """Write the time left; empty where it isn't known."""
    return "" if value is None else f"{clock(value)} left"


VERY_UNCERTAIN = "very uncertain"
"""What a figure is whose band reaches down to zero: ~ before it stands in place of its ±."""


def reaches_zero(value: str, half: str) -> bool:
    """Return whether a figure less half of its band, both as they are shown, is no more than 0."""
    return float(half.replace(",", "")) >= float(value.replace(",", ""))


def band(timing: Timing | ComparisonRow) -> str:
    """Write a time with its band: `9.02 s ± 0.05`, or `~ 9.0 s ± 0.3` for a projection.

    One that is very uncertain is `~ 9.0 s`. A throughput is `5,540 ± 24 samples/s`.
    """
    mark = "~ " if timing.projected or is_very_uncertain(timing) else ""
    number, unit = duration_with_band(timing).split(" ")
    half = spread(timing)
    parts = (number, half, unit) if unit.endswith("/s") else (number, unit, half)
    return mark + " ".join(part for part in parts if part)


def duration_with_band(timing: Timing | ComparisonRow) -> str:
    """Write a time in as many digits as its band has, to stand beside that."""
    if is_very_uncertain(timing):
        return duration(timing)
    return f"{_time_and_half(timing)[0]} {_unit_of(timing)}"


def spread(timing: Timing | ComparisonRow) -> str:
    """Write the band alone: `± 0.05`; empty where there is none, or it reaches down to zero."""
    half = _time_and_half(timing)[1]
    return f"± {half}" if half and not is_very_uncertain(timing) else ""


def ends_of_band(timing: Timing | ComparisonRow) -> str:
    """Write the ends of a band: `10.64 to 10.67 s`; empty where `spread` is, or they are one."""
    if timing.low is None or timing.high is None or not spread(timing):
        return ""
    _, _, digits = _time_and_half(timing)[0].partition(".")
    low, high = (f"{end:,.{len(digits)}f}" for end in (timing.low, timing.high))
    return f"{low} to {high} {_unit_of(timing)}" if low != high else ""


def usual(timing: SecondsPerEpoch) -> str:
    """Say what an epoch usually takes, where some took far longer: usually 1.60 s, once 9.60 s."""
    if not timing.slow or timing.median is None:
        return ""
    how_often = "once" if timing.slow == 1 else f"{timing.slow:,} times up to"
    return f"usually {seconds(timing.median)}, {how_often} {seconds(timing.longest or 0.0)}"


def is_very_uncertain(timing: Timing | ComparisonRow) -> bool:
    """Return whether the band of a time reaches down to zero."""
    value, half = _time_and_half(timing)
    return bool(half) and reaches_zero(value, half)


def _time_and_half(timing: Timing | ComparisonRow) -> tuple[str, str]:
    """Write a time and half of its band; that is empty where there is none."""
    half = 0.0
    if timing.low is not None and timing.high is not None:
        # No time is below zero, so the lower side may be cut.
        half = max(timing.high - timing.value, timing.value - timing.low)
    return with_half(timing.value, half, _decimals_of_three(timing.value), most=2)


def rate(value: float) -> str:
    """Write samples per second: 5,540 or 12.3."""
    return _three_figures(value)


def rate_unit(counts_steps: bool | None) -> str:
    """Return the unit of throughput: steps where the size of a script's batches isn't known."""
    return "steps/s" if counts_steps else "samples/s"


def throughput(
    measured: SamplesPerSecond, unit: str = "samples/s", *, with_band: bool = True
) -> str:
    """Write the steady-state throughput with its 95 % band: 5,540 ± 24 samples/s.

    One that is very uncertain is `~ 5,540 samples/s`.
    """
    if is_rate_very_uncertain(measured):
        return f"~ {rate(measured.mean)} {unit}"
    mean, half = _rate_and_half(measured)
    if not with_band or not half:
        return f"{rate(measured.mean)} {unit}"
    return f"{mean} ± {half} {unit}"


def is_rate_very_uncertain(measured: SamplesPerSecond) -> bool:
    """Return whether the band of a throughput reaches down to zero."""
    mean, half = _rate_and_half(measured)
    return bool(half) and reaches_zero(mean, half)


def _rate_and_half(measured: SamplesPerSecond) -> tuple[str, str]:
    text = rate(measured.mean)
    _, _, decimals = text.partition(".")
    half = measured.band
    if half is None or "e" in text:
        return text, ""
    return with_half(measured.mean, half, len(decimals))


def stalls(count: int, at_openings: int = 0, epoch: str = "epoch") -> str:
    """Write how many stalls there were, and how many at the start of an epoch, or a pass."""
    text = counted(count, "stall")
    if not at_openings:
        return text
    some = "" if at_openings == count else f", {at_openings:,}"
    one = f"{'an' if epoch.startswith('e') else 'a'} {epoch}"
    return f"{text}{some} at the start of {one if at_openings == 1 else plural(epoch)}"


def counted(number: int, noun: str) -> str:
    """Write how many there are of something: 1 run, 2 processes, 1,200 epochs."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural(noun)}"


def cores(count: float) -> str:
    """Write how many cores there are, or may be used: 1 core, 1.5 cores, 16 cores."""
    text = _three_figures(count)
    return f"{text} core{'' if text == '1' else 's'}"


def plural(noun: str) -> str:
    """Write what several are called."""
    return f"{noun}{'es' if noun.endswith(('s', 'tch')) else 's'}"


def metric(value: float) -> str:
    """Write a loss, an accuracy or the like, so that a column of them lines up."""
    return f"{value:.4f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.4g}"


def percent(value: float | None) -> str:
    """Write a utilisation; a dash where it isn't known."""
    return "–" if value is None else f"{value:.0f} %"


def share(value: float) -> str:
    """Write a part of 1 in percent: 34 %, 5.9 %, 0.15 %, under 0.1 %."""
    percentage = 100 * value
    if 0 < percentage < 0.1:
        return "under 0.1 %"
    return f"{percentage:.0f} %" if percentage >= 9.5 else f"{percentage:.2g} %"


def gibibytes(mib: float | None) -> str:
    """Write an amount of memory given in MiB."""
    return "–" if mib is None else f"{mib / 1024:.1f} GiB"


def size(count: int) -> str:
    """Write a number of bytes: 640 B, 12 kB, 3.4 MB."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def memory_in_use(used_mib: float | None, total_mib: float | None) -> str:
    """Write how much of a memory is in use: 4.7 of 6.0 GiB."""
    if total_mib is None:
        return gibibytes(used_mib)
    used = "–" if used_mib is None else f"{used_mib / 1024:.1f}"
    return f"{used} of {gibibytes(total_mib)}"


def short_memory_in_use(used_mib: float, total_mib: float) -> str:
    """Write the same in few cells, of a whole number of GiB: 4.7/6G, 79.1/80G, 139/140G."""
    used, total = used_mib / 1024, total_mib / 1024
    decimals = 1 if used < 9.95 or total < 100 else 0
    return f"{used:.{decimals}f}/{total:.{'0f' if total >= 2 else '2g'}}G"


def count(value: float) -> str:
    """Write a large number: 101,770 or 1.23 M or 238 MFLOP's 238 M."""
    return f"{value:,.0f}" if value < 999_999.5 else _scaled(value / 1e6, ("M", "G", "T"))


def day_and_time(wall: float) -> str:
    """Write a wall time in the local zone, to the minute; a dash for no time that can be."""
    return _local(wall, "%Y-%m-%d %H:%M")


def day_and_second(wall: float) -> str:
    """Write a wall time in the local zone, to the second; a dash for no time that can be."""
    return _local(wall, "%Y-%m-%d %H:%M:%S")


def time_of_day(wall: float) -> str:
    """Write a wall time in the local zone as 14:56:03; a dash for no time that can be."""
    return _local(wall, "%H:%M:%S")


def _local(wall: float, form: str) -> str:
    try:
        return time.strftime(form, time.localtime(wall))
    except (OverflowError, OSError, ValueError):  # a foreign log may name any time
        return "–"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def moment(wall: float, now: float) -> str:
    """Write a wall time as seen from `now`: 14:56, 19 Nov 14:56, 2025-11-19; a dash for none."""
    try:
        then, today = time.localtime(wall), time.localtime(now)
    except (OverflowError, OSError, ValueError):  # a foreign log may name any time
        return "–"
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if then.tm_year == today.tm_year:
        return f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]} {time.strftime('%H:%M', then)}"
    return time.strftime("%Y-%m-%d", then)


# What makers add to the name of a processor: marks, its clock, and words that all share.
_MARKS = re.compile(r"\((?:R|TM|C|model not stated)\)")
_SHARED = re.compile(
    r"\bGeForce\b|\bCore(?= i\d)|(?<!^)\bCPU\b(?: @ [\d.]+GHz)?|(?:\b\d+-Core )?\bProcessor\b"
)


def device(name: str) -> str:
    """Write a device's name without the words that all of its kind share."""
    short = " ".join(_SHARED.sub(" ", _MARKS.sub("", name)).split())
    return short or name


def ratio(value: float) -> str:
    """Write a bound of a factor: 1.05×, 12.3×."""
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals}f}×"
