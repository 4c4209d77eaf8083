"""What a run costs: energy per epoch, money, and the share of the hardware's arithmetic.

Pure. Each figure is None with a reason where it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dlmon.comparison.price import parse_price
from dlmon.records import Epoch, Model, SamplesPerSecond
from dlmon.session.energy import NO_WHOLE_EPOCH, EnergyMeter, NotMeasured
from dlmon.session.reasons import NO_PRICE

NOT_CALIBRATED = "this device was not calibrated (dlmon doctor --calibrate)"


def measure(
    model: Model | None,
    epochs: Sequence[Epoch],
    energy: EnergyMeter,
    samples_per_second: SamplesPerSecond | None,
    wall_s: float,
    price: str | None,
    cpus: int | None,
    peak_flop_s: float | None,
    why_no_peak: str | None = None,
) -> dict[str, Any]:
    """Return what a run that has ended cost, as fields of its `Result`; `why` has the reasons.

    Args:
        model: what runs; its `flops_per_sample` are those of its mode.
        epochs: that have ended.
        energy: has folded the session's samples.
        samples_per_second: of the steady state.
        wall_s: the run's wall time.
        price: as it was typed.
        cpus: how many a price per CPU counts: those that the run may use.
        peak_flop_s: of this device in this precision, by calibration.
        why_no_peak: the reason where that is None.
    """
    flop_s, why_no_flop_s = _effective_flop_s(model, samples_per_second)
    share, why_no_share = None, why_no_flop_s
    if flop_s is not None:
        share, why_no_share = peak_share(flop_s, peak_flop_s, why_no_peak)
    cost, why_no_cost = _cost_usd(price, wall_s, cpus)
    energy_j_per_epoch, why = _energy_by_device(model, epochs, energy)
    reasons = {
        "effective_flop_s": why_no_flop_s,
        "peak_share": why_no_share,
        "cost_usd": why_no_cost,
    }
    why |= {name: reason for name, reason in reasons.items() if reason is not None}
    return {
        "energy_j_per_epoch": energy_j_per_epoch,
        "cost_usd": cost,
        "effective_flop_s": flop_s,
        "peak_share": share,
        "why": why,
    }


_Figure = tuple[float | None, str | None]
"""A figure, or None and why it is unknown."""


def _effective_flop_s(model: Model | None, samples_per_second: SamplesPerSecond | None) -> _Figure:
    if model is None:
        return None, "the run ended before the model was built"
    if model.flops_per_sample is None:
        return None, model.why.get("flops_per_sample", "the model's operations are not counted")
    if samples_per_second is None:
        return None, "the run was not steady for long enough"
    flop_s = model.flops_per_sample * samples_per_second.mean
    return (flop_s, None) if 0 < flop_s < math.inf else (None, "no operation was counted")


def peak_share(flop_s: float, peak_flop_s: float | None, why_no_peak: str | None = None) -> _Figure:
    """Return the share of the calibrated matmul peak, above 0 and at most 1.

    Only a peak that was measured on a busy machine lets a run beat it.
    """
    if peak_flop_s is None or not 0 < peak_flop_s < math.inf:
        return None, why_no_peak or NOT_CALIBRATED
    share = flop_s / peak_flop_s
    if share <= 1:
        return share, None
    return None, (
        f"the run was {share:.2g} times as fast as the calibrated peak: calibrate again "
        "while the machine is idle (dlmon doctor --calibrate)"
    )


def _cost_usd(price: str | None, wall_s: float, cpus: int | None) -> _Figure:
    if price is None:
        return None, NO_PRICE
    try:
        cost = parse_price(price).cost_usd(wall_s, cpus)
    except ValueError as refused:
        return None, str(refused)
    if cost is None:
        return None, "the price is per CPU, and the number of CPUs is not known"
    return cost, None


def _energy_by_device(
    model: Model | None, epochs: Sequence[Epoch], energy: EnergyMeter
) -> tuple[dict[str, float] | None, dict[str, str]]:
    """Return joules per epoch by device, and why those that are missing are unknown."""
    if model is not None and model.why_no_epochs is not None:
        return None, {"energy_j_per_epoch": model.why_no_epochs}
    whole = [epoch for epoch in epochs if epoch.whole and epoch.end > epoch.begin]
    if not whole:
        return None, {"energy_j_per_epoch": NO_WHOLE_EPOCH}
    counters = {"cpu": energy.cpu}
    if model is not None and model.device is not None and model.device.startswith("gpu"):
        counters = {"gpu": energy.gpu(model.gpu_index), **counters}
    measured: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for name, counter in counters.items():
        try:
            measured[name] = counter.per_epoch(whole)
        except NotMeasured as reason:
            reasons[name] = str(reason)
    if measured:
        return measured, {f"energy_j_per_epoch.{name}": why for name, why in reasons.items()}
    why = "; ".join(f"{name.upper()}: {reason}" for name, reason in reasons.items())
    return None, {"energy_j_per_epoch": why}
