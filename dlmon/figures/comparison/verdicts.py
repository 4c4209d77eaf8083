"""Write in words how fast one run is beside another, and the doubts about figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlmon.figures import units
from dlmon.records import Doubt, Result
from dlmon.statistics.ratios import NOTICEABLE_CHANGE, Ratio

# From this ratio on (it rounds to 2.00) write a factor, not a percentage.
_A_FACTOR = 1.995


def verdict(factor: Ratio | str, name: str, unsure: str = "", subject: str = "") -> str:
    """Say how fast something is beside another, with the 95 % interval.

    4.9 % faster than base (2.0 to 7.8 %), 2.40× as slow as base (2.20× to 2.60×), no clear
    difference from base (-1.0 to +2.3 %).

    Args:
        factor: how many times as fast it is, or why the two don't compare.
        name: the name of the other.
        unsure: a remark if the spread between runs is unknown: 1 run each.
        subject: the beginning of the sentence.
    """
    if isinstance(factor, str):
        return f"not compared with {name}: {factor}"
    value, low, high = factor.value, factor.low, factor.high
    is_clear = low is None or high is None or not low <= 1 <= high
    span = ""
    if low is not None and high is not None:
        if not is_clear or abs(value - 1) < NOTICEABLE_CHANGE:
            span = f"{signed_pct(low)} to {signed_pct(high)} %"
        elif value >= _A_FACTOR:
            span = f"{units.ratio(low)} to {units.ratio(high)}"
        elif value <= 1 / _A_FACTOR:
            span = f"{units.ratio(1 / high)} to {units.ratio(1 / low)}"
        else:
            ends = sorted(abs(end - 1) for end in (low, high))
            span = f"{pct(ends[0])} to {pct(ends[1])} %"
    details = ", ".join(text for text in (span, unsure if factor.p is None else "") if text)
    text = f"{subject}{_how_fast(value)} {name}" if is_clear else f"no clear difference from {name}"
    return f"{text} ({details})" if details else text


def _how_fast(value: float) -> str:
    if abs(value - 1) < NOTICEABLE_CHANGE:
        return "as fast as"
    if value >= _A_FACTOR:
        return f"{units.ratio(value)} as fast as"
    if 0 < value <= 1 / _A_FACTOR:
        return f"{units.ratio(1 / value)} as slow as"
    return f"{pct(abs(value - 1))} % {'faster' if value > 1 else 'slower'} than"


def pct(share: float) -> str:
    """Write a share in percent: 4.9."""
    return f"{100 * share:,.1f}"


def signed_pct(ratio: float) -> str:
    """Write by how many percent a ratio is off 1: +4.9."""
    change = 100 * (ratio - 1)
    if abs(change) >= 99.95:
        return f"{change:+,.0f}" if change < 1e6 else "over +1,000,000"
    return f"{round(change, 1) + 0:+.1f}"


# ---- doubts about figures ----

DOUBT_NAMES = {
    Doubt.TOO_SHORT: "too short",
    Doubt.NOT_STEADY: "not steady",
    Doubt.STALLS: "stalls",
    Doubt.THROTTLED: "throttled",
    Doubt.GPU_SHARED: "GPU shared",
    Doubt.CPU_SHARED: "CPU shared",
    Doubt.BUSY_AT_START: "busy at the start",
    Doubt.ON_BATTERY: "on battery",
    Doubt.STEAL: "CPU steal",
    Doubt.INFERRED_SAMPLES: "samples inferred",
    Doubt.UNKNOWN: "a doubt that a newer dlmon has",
}

# The numbers in these two sentences differ from run to run; those of other doubts don't.
_VARYING: dict[str, str] = {
    Doubt.CPU_SHARED: "other programs took part of the CPUs",
    Doubt.BUSY_AT_START: "machine was busy at the start",
}


def doubts_of_all(against: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the doubts that all of several runs have, each with a sentence."""
    if len(against) < 2:
        return {}
    shared = {}
    for doubt, text in against[0].items():
        texts = {of_run.get(doubt) for of_run in against}
        if texts == {text}:
            shared[doubt] = text
        elif doubt in _VARYING and None not in texts:
            shared[doubt] = _VARYING[doubt]
    return shared


def in_doubt(codes: Iterable[str]) -> str:
    """Name doubts in a few words: in doubt: too short, stalls; empty without any."""
    names = dict.fromkeys(DOUBT_NAMES[Doubt(code)] for code in codes)
    return f"in doubt: {', '.join(names)}" if names else ""


def doubts_of_results(results: Iterable[Result]) -> str:
    """Name the doubts that any of several results has."""
    codes = [code for result in results for code in result.against or ()]
    return in_doubt(doubt for doubt in Doubt if doubt in {Doubt(code) for code in codes})
