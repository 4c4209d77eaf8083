"""Figures as text, with their units and digits."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from dlmon.records import RateNow
from dlmon.records.words import number_text

# The first screen doesn't need these imports.
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlmon.comparison.compared_run import Timing
    from dlmon.comparison.references import ComparisonRow
    from dlmon.records import SecondsPerEpoch, Throughput


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
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals}f}"


def duration(timing: Timing | ComparisonRow) -> str:
    """Write a compared time in its unit, without its band."""
    return f"{_three_digits(timing.value)} {getattr(timing, 'unit', 's')}"


class Banded(NamedTuple):
    """A figure, rounded to the digits of its band, and half of that band.

    Half the band is at least one unit of the last digit, so that the band covers the true figure.
    If the band is half the figure or more, the figure is uncertain.
    """

    number: str
    half: str
    unit: str
    is_uncertain: bool = False

    @property
    def spread(self) -> str:
        """The band alone: `± 0.05`; empty without one."""
        return f"± {self.half}" if self.half else ""

    def text(self, is_projected: bool = False) -> str:
        """Write the figure and its band: `9.02 s ± 0.05`, `5,540 ± 24 samples/s`, `~ 9.0 s`."""
        mark = "~" if is_projected else ""
        is_rate = self.unit.endswith("/s")
        ends = (self.spread, self.unit) if is_rate else (self.unit, self.spread)
        return " ".join(part for part in (mark, self.number, *ends) if part)

    def noted(self, *notes: str) -> str:
        """Write the figure and its band; add in brackets that it is uncertain, and other notes."""
        in_brackets = "; ".join(filter(None, (UNCERTAIN * self.is_uncertain, *notes)))
        return f"{self.text()} ({in_brackets})" if in_brackets else self.text()


UNCERTAIN = "uncertain"
"""The note on a figure whose band is half of it or more."""


def banded(value: float, half: float | None, text: str, unit: str, most: int = 9) -> Banded:
    """Return a figure with half of its band.

    Args:
        value: the figure.
        half: half the band; None if unknown.
        text: the figure without a band; a band only adds digits to it.
        unit: its unit.
        most: the most decimals that the band may add; it never adds more than four digits in all.
    """
    if not half or half <= 0 or "e" in text:
        return Banded(text, "", unit)
    decimals = len(text.partition(".")[2])
    if value > 0:
        of_band = 0 if value >= 100 and half >= 1 else 1 - math.floor(math.log10(half))
        decimals = max(decimals, min(of_band, 3 - math.floor(math.log10(value)), most))
    number, half = f"{value:,.{decimals}f}", max(half, 10**-decimals)
    half_text = f"{half:,.{decimals if half < 9.995 else 0}f}"
    return Banded(number, half_text, unit, is_uncertain=2 * half >= value)


def with_band(timing: Timing | ComparisonRow | Throughput) -> Banded:
    """Return a time or a throughput with its band."""
    if (mean := getattr(timing, "mean", None)) is not None:
        return banded(mean, timing.band, rate(mean), timing.unit)  # type: ignore[union-attr]
    value, low, high = timing.value, timing.low, timing.high  # type: ignore[union-attr]
    # The lower end may be cut, as no time is below zero.
    half = None if low is None or high is None else max(high - value, value - low)
    if getattr(timing, "is_first_epoch", False):
        # No other epoch tells how much it varies.
        half = None
    unit = getattr(timing, "unit", "s")
    return banded(value, half, _three_digits(value), unit, most=2)


def band(timing: Timing | ComparisonRow) -> str:
    """Write a time with its band: `9.02 s ± 0.05`, or `~ 9.0 s ± 0.3` for a projection."""
    return with_band(timing).text(timing.projected)


def rate_now(now: RateNow | None) -> str:
    """Write the throughput at one moment: 5,540 samples/s; empty if unknown."""
    return "" if now is None else f"{rate(now.per_second)} {now.unit}"


def throughput(value: Throughput) -> str:
    """Write a steady throughput with its 95 % interval: 5,540 ± 24 samples/s."""
    return with_band(value).text()


def throughput_within(value: Throughput, room: int) -> str:
    """Write a steady throughput, and its 95 % interval if it fits and is below half of it.

    Without room for the unit, it is a number a second.
    """
    figure = with_band(value)
    if figure.is_uncertain or len(figure.text()) > room:
        figure = figure._replace(half="")
    return figure.text() if len(figure.text()) <= room else f"{figure.number}/s"


def dollars(value: float) -> str:
    """Write an amount of US dollars: 1.23 USD, 0.00042 USD or 9.0e-09 USD."""
    return f"{number_of_dollars(value)} USD"


def number_of_dollars(value: float) -> str:
    """Write the number of an amount of US dollars: 1.23, 0.00042 or 9.0e-09."""
    if 0 < value < 1e-5:
        return f"{value:.1e}"
    decimals = 2 if value >= 0.1 or value <= 0 else 1 - math.floor(math.log10(value))
    return f"{value:,.{decimals}f}"


def energy(joules: float) -> str:
    """Write an amount of energy: 85 J, 1.23 kJ."""
    return _scaled(joules, ("J", "kJ", "MJ", "GJ"))


def _scaled(value: float, prefixed: Sequence[str]) -> str:
    """Write a figure in the first unit that keeps it below 1,000, else in the last."""
    *smaller, largest = prefixed
    for unit in smaller:
        if value < 999.5:
            return f"{number_text(value)} {unit}"
        value /= 1000
    return f"{number_text(value)} {largest}"


def clock(value: float) -> str:
    """Write a duration as 01:12 or 2:03:04."""
    whole = max(0, int(value))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def short_clock(value: float) -> str:
    """Write a duration as 1:12 or 2:03:04."""
    return clock(value).removeprefix("0")


_MOST_DAYS = 30


def ago(wall: float, now: float) -> str:
    """Write how long ago a wall time was, or its day if that is long ago."""
    seconds_ago = now - wall
    if not -60 < seconds_ago < _MOST_DAYS * 86400:
        return moment(wall, now)
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds_ago >= unit_s:
            return f"{seconds_ago // unit_s:.0f} {unit} ago"
    return "just now"


def time_left(value: float | None) -> str:
    """Write the time left; empty if unknown."""
    return "" if value is None else f"{clock(value)} left"


def usual_epoch(timing: SecondsPerEpoch) -> str:
    """Write the usual time of an epoch if some were slow: usually 1.60 s, once 9.60 s; else ""."""
    if not timing.slow or timing.median is None:
        return ""
    how_often = "once" if timing.slow == 1 else f"{timing.slow:,} times up to"
    return f"usually {seconds(timing.median)}, {how_often} {seconds(timing.longest or 0.0)}"


def rate(value: float) -> str:
    """Write samples per second: 5,540 or 12.3."""
    return number_text(value)


def stalls(count: int, at_openings: int = 0, epoch: str = "epoch") -> str:
    """Write the number of stalls, and how many were at the start of an epoch or a pass."""
    text = counted(count, "stall")
    if not at_openings:
        return text
    some = "" if at_openings == count else f", {at_openings:,}"
    article = "an" if epoch.startswith("e") else "a"
    epochs = f"{article} {epoch}" if at_openings == 1 else plural(epoch)
    return f"{text}{some} at the start of {epochs}"


def counted(number: int, noun: str) -> str:
    """Write a number of things: 1 run, 2 processes, 1,200 epochs."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    return f"{noun}{'es' if noun.endswith(('s', 'tch')) else 's'}"


def metric(value: float) -> str:
    """Write a loss, an accuracy or another metric with digits that line up in a column."""
    return f"{value:.4f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.4g}"


def percent(value: float | None) -> str:
    """Write a utilisation; a dash if unknown."""
    return "–" if value is None else f"{value:.0f} %"


def share(value: float) -> str:
    """Write a part of 1 in percent: 34 %, 5.9 %, 0.15 %, under 0.1 %."""
    percentage = 100 * value
    if 0 < percentage < 0.1:
        return "under 0.1 %"
    return f"{percentage:.0f} %" if percentage >= 9.5 else f"{percentage:.2g} %"


def whole_share(value: float) -> str:
    """Write a part of 1 in whole percent: 34 %, 1 %, <1 %."""
    return "<1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"


def gibibytes(mib: float | None) -> str:
    """Write an amount of memory in GiB, or in MiB below 51; a dash if unknown."""
    if mib is not None and 1 <= mib < 51:
        return f"{mib:.0f} MiB"
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
    """Write the memory in use: 4.7 of 6.0 GiB."""
    if total_mib is None:
        return gibibytes(used_mib)
    used = "–" if used_mib is None else f"{used_mib / 1024:.1f}"
    return f"{used} of {gibibytes(total_mib)}"


def short_memory_in_use(used_mib: float, total_mib: float) -> str:
    """Write the memory in use in few cells: 4.7/6G, 79.1/80G, 139/140G."""
    used, total = used_mib / 1024, total_mib / 1024
    decimals = 1 if used < 9.95 or total < 100 else 0
    return f"{used:.{decimals}f}/{total:.{'0f' if total >= 2 else '2g'}}G"


def count(value: float) -> str:
    """Write a large number: 101,770 or 1.23 M."""
    return f"{value:,.0f}" if value < 999_999.5 else _scaled(value / 1e6, ("M", "G", "T"))


def millions(value: float) -> str:
    """Write a number in millions, for a column: 0.10 M, 1.34 M, 146 M."""
    return f"{_three_digits(value / 1e6)} M"


def day_and_time(wall: float) -> str:
    """Write a wall time in the local zone, to the minute; a dash if it is out of range."""
    return _local(wall, "%Y-%m-%d %H:%M")


def day_and_second(wall: float) -> str:
    """Write a wall time in the local zone, to the second; a dash if it is out of range."""
    return _local(wall, "%Y-%m-%d %H:%M:%S")


def time_of_day(wall: float) -> str:
    """Write a wall time in the local zone as 14:56:03; a dash if it is out of range."""
    return _local(wall, "%H:%M:%S")


def _local(wall: float, form: str) -> str:
    try:
        return time.strftime(form, time.localtime(wall))
    except (OverflowError, OSError, ValueError):  # a foreign log may name any time
        return "–"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def moment(wall: float, now: float) -> str:
    """Write a wall time briefly, relative to `now`: 14:56, 19 Nov 14:56, 2025-11-19.

    A time out of range is a dash.
    """
    try:
        then, today = time.localtime(wall), time.localtime(now)
    except (OverflowError, OSError, ValueError):  # a foreign log may name any time
        return "–"
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if then.tm_year == today.tm_year:
        return f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]} {time.strftime('%H:%M', then)}"
    return time.strftime("%Y-%m-%d", then)


# Parts of processor names that tell nothing: trademarks, the clock, and words of all models.
_MARKS = r"\((?:R|TM|C|model not stated)\)"
_COMMON_WORDS = (
    r"\bGeForce\b|\bWorkstation Edition\b|\bCore(?= i\d)|(?<!^)\bCPU\b(?: @ [\d.]+GHz)?"
    r"|(?:\b\d+-Core )?\bProcessor\b"
)


def device(name: str) -> str:
    """Write a device's name without trademarks and words that all models have."""
    short = " ".join(re.sub(_COMMON_WORDS, " ", re.sub(_MARKS, "", name)).split())
    return short or name


def ratio(value: float) -> str:
    """Write a factor: 1.05×, 12.3×."""
    return f"{_three_digits(value)}×"


def gpus_text(gpus: Iterable[int]) -> str:
    """Write the numbers of GPUs: 0, or 0-3,6."""
    numbers = sorted(set(gpus))
    parts = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *more = (number for _, number in run)
        parts.append(f"{first}-{more[-1]}" if more else str(first))
    return ",".join(parts)
