"""The throughput in tokens, and the shares of useful tokens, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.quantities import BY_KEY, TOKENS_PER_SECOND, value_of

if TYPE_CHECKING:
    from dlmon.session.snapshot import Snapshot

UNIT = BY_KEY[TOKENS_PER_SECOND].unit


def rate_text(snapshot: Snapshot) -> str:
    """Return the steady throughput in tokens without its interval, else the current one."""
    measured = snapshot.tokens_per_second
    if measured is None:
        return units.rate_now(snapshot.tokens_per_second_now)
    return f"{units.rate(measured.mean)} {UNIT}"


def shares_text(snapshot: Snapshot) -> str:
    """Return the known shares: 83 % not padding, 61 % trained on, sampled."""
    shares = ((value_of(snapshot, key), BY_KEY[key].name) for key in ("not_padding", "trained_on"))
    texts = [f"{units.percent(100 * share)} {name}" for share, name in shares if share is not None]
    return ", ".join([*texts, "sampled"]) if texts else ""


def tokens_text(snapshot: Snapshot) -> str:
    """Return the steady throughput in tokens with its interval and shares; empty if unknown."""
    if snapshot.tokens_per_second is None:
        return ""
    throughput = units.with_band(snapshot.tokens_per_second)
    inferred = snapshot.measured_model and snapshot.measured_model.tokens_inferred
    return throughput.noted(shares_text(snapshot), inferred or "")
