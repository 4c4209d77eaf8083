"""The operations per second that a training comes to, and their share of the peak (MFU). Pure."""

from __future__ import annotations

import math
from dataclasses import field

from dlmon.comparison.peaks import MEASURED
from dlmon.records import Model, SamplesPerSecond
from dlmon.records.record import record

NOT_CALIBRATED = "this device was not calibrated (dlmon doctor --calibrate)"
NO_TOKENS = "its batches hold no tokens that could be counted"
NO_LENGTH = "how many tokens a sequence has is not known"
NOT_STEADY = "the run was not steady for long enough"
# Of attention, a third is the way forward.
_FORWARD = 3


@record(frozen=True)
class Effective:
    """Fields of `Result` of the same names; `why` has the reasons of those that are None."""

    effective_flop_s: float | None = None
    peak_share: float | None = None
    hardware_share: float | None = None
    peak_from: str | None = None
    peak_precision: str | None = None
    why: dict[str, str] = field(default_factory=dict)


def effective_of(
    model: Model | None,
    samples: SamplesPerSecond | None,
    tokens: SamplesPerSecond | None,
    peak_flop_s: float | None,
    counts_steps: bool = False,
) -> Effective:
    """Return what a training comes to.

    Args:
        model: what runs, with who says the peak, or why that isn't known.
        samples: its steady throughput; in steps where `counts_steps`.
        tokens: the same in tokens.
        peak_flop_s: of all devices that train together.
        counts_steps: whether the samples of a batch aren't known.
    """
    flop_s, again_flop_s, why = _flop_s(model, samples, tokens, counts_steps)
    if model is None or flop_s is None:
        return Effective(why=dict.fromkeys(("effective_flop_s", "peak_share"), why or ""))
    reason = model.why.get("peak_flop_s")
    share, why_no_share = peak_share(flop_s, peak_flop_s, reason, model.peak_from)
    hardware = None
    if share is not None and peak_flop_s and again_flop_s:
        hardware = (flop_s + again_flop_s) / peak_flop_s
    return Effective(
        effective_flop_s=flop_s,
        peak_share=share,
        # What is computed again may be less than all.
        hardware_share=hardware if hardware is not None and hardware <= 1 else None,
        peak_from=None if share is None else model.peak_from,
        peak_precision=None if share is None else model.compute_precision,
        why={} if why_no_share is None else {"peak_share": why_no_share},
    )


def _flop_s(
    model: Model | None,
    samples: SamplesPerSecond | None,
    tokens: SamplesPerSecond | None,
    counts_steps: bool,
) -> tuple[float | None, float, str | None]:
    """Return operations per second, those that are done again, and why the first are unknown."""
    if model is None:
        return None, 0.0, "the run ended before the model was built"
    again = 0.0
    if model.flops_per_sample is not None:
        if samples is None:
            return None, 0.0, NOT_STEADY
        flop_s = model.flops_per_sample * samples.mean
    elif model.flops_per_token is not None:
        if samples is None:
            return None, 0.0, NOT_STEADY
        if tokens is None:
            return None, 0.0, NO_TOKENS
        sequence = None if counts_steps else tokens.mean / samples.mean
        sequence = model.tokens_per_sample or model.sequence or sequence
        attention, recomputed = model.attention_flops or {}, model.recomputed_flops_per_token
        # Who watches no such training waits for none of it.
        from dlmon.statistics.operations import per_token

        each = per_token(model.flops_per_token, attention, sequence)
        if each is None:
            return None, 0.0, NO_LENGTH
        flop_s = each * tokens.mean
        if recomputed:
            again = (recomputed + (each - model.flops_per_token) / _FORWARD) * tokens.mean
    else:
        counted = model.why.get("flops_per_sample", "the model's operations are not counted")
        return None, 0.0, model.why.get("flops_per_token", counted)
    if not 0 < flop_s < math.inf:
        return None, 0.0, "no operation was counted"
    return flop_s, again, None


def peak_share(
    flop_s: float,
    peak_flop_s: float | None,
    why_no_peak: str | None = None,
    peak_from: str | None = None,
) -> tuple[float | None, str | None]:
    """Return the share of the peak, above 0 and at most 1; else None and why.

    Only a peak that was measured on a busy machine lets a run beat it.
    """
    if peak_flop_s is None or not 0 < peak_flop_s < math.inf:
        return None, why_no_peak or NOT_CALIBRATED
    share = flop_s / peak_flop_s
    if share <= 1:
        return share, None
    if peak_from not in (None, MEASURED):
        return None, f"the run was {share:.2g} times as fast as the figure of {peak_from}"
    return None, (
        f"the run was {share:.2g} times as fast as the calibrated peak: calibrate again "
        "while the machine is idle (dlmon doctor --calibrate)"
    )
