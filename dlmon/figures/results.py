"""What a run cost, and how much of its hardware it used, in words. Pure."""

from __future__ import annotations

from dlmon.comparison.peaks import flop_s_text
from dlmon.figures import units
from dlmon.records import Result
from dlmon.session.reasons import NO_PRICE


def cost_text(result: Result) -> str:
    """Return what the run cost, or why that isn't known; empty without a price."""
    if result.cost_usd is not None:
        return units.dollars(result.cost_usd)
    reason = result.why.get("cost_usd")
    return f"– ({reason})" if reason and reason != NO_PRICE else ""


def energy_text(result: Result) -> str:
    """Return the energy of an epoch, by what was measured; empty where nothing was."""
    if not result.energy_j_per_epoch:
        return ""
    parts = (f"{name.upper()} {units.energy(j)}" for name, j in result.energy_j_per_epoch.items())
    return f"{', '.join(parts)} per epoch"


def effective_text(result: Result) -> str:
    """Return the operations per second, and their share of the peak where that is known."""
    if result.effective_flop_s is None:
        return ""
    speed = flop_s_text(result.effective_flop_s)
    if result.peak_share is None:
        return speed
    return f"{speed}, {units.share(result.peak_share)} of peak"


def effective_or_reason(result: Result) -> str:
    """Return the same, with the reason why the share is not known."""
    text, reason = effective_text(result), result.why.get("peak_share")
    if text and result.peak_share is None and reason:
        return f"{text} (share of the peak unknown: {reason})"
    return text
