"""Say how much faster or slower one run is than another. Pure."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.statistics.ratios import NOTICEABLE_CHANGE, Ratio

# Of two or three runs, an interval whose ends differ by more than this factor tells nothing.
_TOO_WIDE = 4.0
TOO_FEW = "too few runs"


def verdict(factor: Ratio | str, name: str, unsure: str = "", subject: str = "") -> str:
    """Say how much faster or slower a run is than another, with the 95 % interval.

    1.049× as fast as base (1.020× to 1.078×), 2.40× as slow as base (2.20× to 2.60×), no clear
    difference from base (0.990× to 1.023×).

    Args:
        factor: how many times as fast it is, or why the two can't be compared.
        name: the name of the other.
        unsure: a remark if the spread between runs is unknown: 1 run each.
        subject: the beginning of the sentence.
    """
    if isinstance(factor, str):
        return f"not compared with {name}: {factor}"
    value, low, high = factor.value, factor.low, factor.high
    is_clear = not factor.may_be_one
    is_slow = is_clear and 0 < value <= 1 - NOTICEABLE_CHANGE
    span = ""
    if low is not None and high is not None:
        span = change(1 / high, 1 / low) if is_slow and low > 0 else change(low, high)
        if is_unknown(factor):
            span = f"{TOO_FEW} to know how much runs differ"
    details = ", ".join(text for text in (span, unsure if factor.p is None else "") if text)
    as_fast = f"{subject}{_how_fast(value)} as {name}"
    text = as_fast if is_clear else f"no clear difference from {name}"
    return f"{text} ({details})" if details else text


def in_short(factor: Ratio | str) -> str:
    """Return a verdict in capitals: FASTER 1.049×, SLOWER 2.40×, AS FAST, NO CLEAR DIFFERENCE."""
    if isinstance(factor, str):
        return "NOT COMPARED"
    if factor.may_be_one:
        return "NO CLEAR DIFFERENCE"
    if not factor.value > 0 or abs(factor.value - 1) < NOTICEABLE_CHANGE:
        return "AS FAST"
    side = "FASTER" if factor.value > 1 else "SLOWER"
    return f"{side} {change(max(factor.value, 1 / factor.value))}"


def how_fast(factor: Ratio) -> str:
    """Say how fast a run is beside another: 1.049× as fast, 2.40× as slow, as fast, not clear."""
    return "not clear" if factor.may_be_one else _how_fast(factor.value)


def _how_fast(value: float) -> str:
    if abs(value - 1) < NOTICEABLE_CHANGE:
        return "as fast"
    return f"{change(1 / value)} as slow" if 0 < value < 1 else f"{change(value)} as fast"


def is_unknown(factor: Ratio) -> bool:
    """Return whether an interval tells nothing because it is taken from two or three runs."""
    if factor.low is None or factor.high is None or factor.p is None:
        return False
    return factor.high > _TOO_WIDE * factor.low and (factor.degrees or 3) < 3


def change(*ratios: float) -> str:
    """Write ratios of new to base: 1.049×, 0.951×, 2.40×, 0.951× to 1.030×."""
    return " to ".join(map(_times, ratios))


def _times(ratio: float) -> str:
    if ratio >= 1e6:
        return "over 1,000,000×"
    # Three decimals tell changes of 0.1 %.
    return units.ratio(ratio) if ratio >= 1.9995 else f"{ratio:.3f}×"
