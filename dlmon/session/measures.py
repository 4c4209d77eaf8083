"""What a run costs: energy per epoch, money, and the share of the hardware's arithmetic.

Pure. Each figure is None with a reason where it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dlmon.comparison.price import parse_price
from dlmon.records import Epoch, Model, SamplesPerSecond
from dlmon.session.energy import NO_WHOLE_EPOCH, EnergyMeter, NotMeasured

NO_PRICE = "no price was given (--price)"
NOT_CALIBRATED = "this device was not calibrated (dlmon doctor --calibrate)"


@dataclass(frozen=True)
class Measures:
    """The measures of a run, with the reasons of those that are None.

    Attributes:
        energy_j_per_epoch: joules by "gpu" (the one that was trained on) and
            "cpu" (all packages, whoever else used them); only what was
            measured, with why under "energy_j_per_epoch.cpu" of what wasn't.
        cost_usd: price × wall time.
        effective_flop_s: analytic floating-point operations per sample × mean
            samples per second.
        peak_share: `effective_flop_s` over the calibrated peak, 0 to 1.
    """

    energy_j_per_epoch: dict[str, float] | None = None
    cost_usd: float | None = None
    effective_flop_s: float | None = None
    peak_share: float | None = None
    why: dict[str, str] = field(default_factory=dict)


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
) -> Measures:
    """Return the measures of a run that has ended, or so far.

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
    why: dict[str, str] = {}
    flop_s = None
    try:
        flop_s = effective_flop_s(model, samples_per_second)
    except NotMeasured as reason:
        why["effective_flop_s"] = str(reason)
    share = None
    try:
        share = peak_share(flop_s, peak_flop_s, why_no_peak)
    except NotMeasured as reason:
        why["peak_share"] = why.get("effective_flop_s", str(reason))
    cost = None
    try:
        cost = cost_usd(price, wall_s, cpus)
    except NotMeasured as reason:
        why["cost_usd"] = str(reason)
    return Measures(
        energy_j_per_epoch=_energy_by_device(model, epochs, energy, why),
        cost_usd=cost,
        effective_flop_s=flop_s,
        peak_share=share,
        why=why,
    )


def effective_flop_s(model: Model | None, samples_per_second: SamplesPerSecond | None) -> float:
    """Return the floating-point operations per second that reached the model.

    Raises:
        NotMeasured: a factor is missing.
    """
    if model is None:
        raise NotMeasured("the model is not built yet")
    if model.flops_per_sample is None:
        raise NotMeasured(
            model.why.get("flops_per_sample", "the model's operations are not counted")
        )
    if samples_per_second is None:
        raise NotMeasured("the run was not steady for long enough")
    flop_s = model.flops_per_sample * samples_per_second.mean
    if not 0 < flop_s < math.inf:
        raise NotMeasured("no operation was counted")
    return flop_s


def peak_share(
    flop_s: float | None, peak_flop_s: float | None, why_no_peak: str | None = None
) -> float:
    """Return the share of the calibrated matmul peak, above 0 and at most 1.

    Raises:
        NotMeasured: one of both is not known, or the run beat the peak, which
            only a peak measured on a busy machine allows.
    """
    if flop_s is None:
        raise NotMeasured("the run's operations per second are not known")
    if peak_flop_s is None or not 0 < peak_flop_s < math.inf:
        raise NotMeasured(
            why_no_peak or "this device was not calibrated (dlmon doctor --calibrate)"
        )
    share = flop_s / peak_flop_s
    if share > 1:
        raise NotMeasured(
            f"the run was {share:.2g} times as fast as the calibrated peak: calibrate again "
            "while the machine is idle (dlmon doctor --calibrate)"
        )
    return share


def cost_usd(price: str | None, wall_s: float, cpus: int | None) -> float:
    """Return price × wall time in US dollars.

    Raises:
        NotMeasured: there is no price, or not the number of CPUs that it is for.
    """
    if price is None:
        raise NotMeasured(NO_PRICE)
    try:
        cost = parse_price(price).cost_usd(wall_s, cpus)
    except ValueError as refused:
        raise NotMeasured(str(refused)) from None
    if cost is None:
        raise NotMeasured("the price is per CPU, and the number of CPUs is not known")
    return cost


def _energy_by_device(
    model: Model | None, epochs: Sequence[Epoch], energy: EnergyMeter, why: dict[str, str]
) -> dict[str, float] | None:
    if model is not None and model.why_no_epochs is not None:
        why["energy_j_per_epoch"] = model.why_no_epochs
        return None
    whole = [epoch for epoch in epochs if epoch.whole and epoch.end > epoch.begin]
    if not whole:
        why["energy_j_per_epoch"] = NO_WHOLE_EPOCH
        return None
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
        why.update({f"energy_j_per_epoch.{name}": reason for name, reason in reasons.items()})
        return measured
    why["energy_j_per_epoch"] = "; ".join(
        f"{name.upper()}: {reason}" for name, reason in reasons.items()
    )
    return None
