"""The operations per second of a training, and their share of the peak (MFU). Pure."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

from dlmon.comparison.peaks import MEASURED
from dlmon.records import Model, Throughput
from dlmon.records.record import record
from dlmon.records.words import STEPS_PER_S
from dlmon.session.reasons import NEVER_BUILT

if TYPE_CHECKING:
    from dlmon.session.session import Session
    from dlmon.statistics.series import Series


@record(frozen=True)
class Effective:
    """Fields as in `Result`; `why` holds the reasons of those that are None."""

    effective_flop_s: float | None = None
    peak_share: float | None = None
    hardware_share: float | None = None
    peak_from: str | None = None
    peak_precision: str | None = None
    why: dict[str, str] = field(default_factory=dict)


def effective_of(
    model: Model | None,
    samples: Throughput | None,
    tokens: Throughput | None,
    peak_flop_s: float | None,
) -> Effective:
    """Return the operations per second of a training, and their share of the peak.

    Args:
        model: what runs, with the source of the peak, or the reason why it is unknown.
        samples: its steady throughput in samples or steps.
        tokens: its steady throughput in tokens.
        peak_flop_s: of all devices that train together.
    """
    rates = _flop_s(model, samples, tokens)
    if model is None or isinstance(rates, str):
        return Effective(why=dict.fromkeys(("effective_flop_s", "peak_share"), str(rates)))
    (flop_s, recomputed_flop_s), reason = rates, model.why.get("peak_flop_s")
    share, why_no_share = peak_share(flop_s, peak_flop_s, reason, model.peak_from)
    hardware = None
    if share is not None and peak_flop_s and recomputed_flop_s:
        hardware = (flop_s + recomputed_flop_s) / peak_flop_s
    return Effective(
        effective_flop_s=flop_s,
        peak_share=share,
        # The backward pass may have computed less again than assumed.
        hardware_share=hardware if hardware is not None and hardware <= 1 else None,
        peak_from=None if share is None else model.peak_from,
        peak_precision=None if share is None else model.compute_precision,
        why={} if why_no_share is None else {"peak_share": why_no_share},
    )


def _flop_s(
    model: Model | None, samples: Throughput | None, tokens: Throughput | None
) -> tuple[float, float] | str:
    """Return operations per second, and recomputed ones beside them, or why they are unknown."""
    if model is None:
        return NEVER_BUILT
    recomputed_flop_s = 0.0
    if model.flops_per_sample is None and model.flops_per_token is None:
        why = model.why.get("flops_per_sample", "the model's operations are not counted")
        return model.why.get("flops_per_token", why)
    if samples is None:
        return "the run was not steady for long enough"
    if model.flops_per_sample is not None:
        flop_s = model.flops_per_sample * samples.mean
    else:
        if tokens is None:
            return "its batches hold no tokens that could be counted"
        sequence = None if samples.unit == STEPS_PER_S else tokens.mean / samples.mean
        sequence = model.sequence or sequence
        attention, recomputed = model.attention_flops or {}, model.recomputed_flops_per_token
        # Imported late: only such trainings need it.
        from dlmon.statistics.operations import per_token

        without_attention = model.flops_per_token or 0
        flops = per_token(without_attention, attention, sequence)
        if flops is None:
            return "how many tokens a sequence has is not known"
        flop_s = flops * tokens.mean
        if recomputed:
            # The forward pass is a third of attention.
            recomputed_flop_s = (recomputed + (flops - without_attention) / 3) * tokens.mean
    return (flop_s, recomputed_flop_s) if 0 < flop_s < math.inf else "no operation was counted"


def peak_share(
    flop_s: float,
    peak_flop_s: float | None,
    why_no_peak: str | None = None,
    peak_from: str | None = None,
) -> tuple[float | None, str | None]:
    """Return the share of the peak, above 0 and at most 1, or None and the reason.

    A run can only beat a measured peak if the machine was busy during the measurement.
    """
    if peak_flop_s is None or not 0 < peak_flop_s < math.inf:
        return None, why_no_peak or "this device was not calibrated (dlmon doctor --calibrate)"
    share = flop_s / peak_flop_s
    if share <= 1:
        return share, None
    if peak_from not in (None, MEASURED):
        return None, f"the run was {share:.2g} times as fast as the figure of {peak_from}"
    return None, (
        f"the run was {share:.2g} times as fast as the calibrated peak: calibrate again "
        "while the machine is idle (dlmon doctor --calibrate)"
    )


def share_over_time(session: Session) -> tuple[Series, float] | None:
    """Return the rate that the share of the peak follows, and the percent per unit of rate.

    None if the share is unknown, or if several networks train one after the other.
    """
    model = session.loops.longest.model
    if model is None or model.peak_flop_s is None or len(session.loops.seen) > 1:
        return None
    snapshot = session.snapshot()
    series, rate = session.throughput, snapshot.samples_per_second
    if model.flops_per_sample is None:
        series, rate = session.tokens_rate, snapshot.tokens_per_second
    share = snapshot.effective.peak_share
    return None if share is None or rate is None else (series, 100 * share / rate.mean)
