"""Facts about a run in words: settings, device, cost, energy, and operations per second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dlmon.comparison.peaks import MEASURED, flop_s_text
from dlmon.figures import units
from dlmon.options.run_options import OPTIONS, differing
from dlmon.records import Result
from dlmon.records.words import gpu_name
from dlmon.session.reasons import NO_PRICE

if TYPE_CHECKING:
    from dlmon.session.effective import Effective
    from dlmon.session.snapshot import Snapshot


def unusual_settings(options: Mapping[str, Any]) -> list[str]:
    """Return the settings of a session that are not the default, in words."""
    unusual = differing(options, {}, ("mode", "precision", "backend", "jit", "python", "cpus"))
    if "python" in unusual:
        unusual["python"] = "another Python"
    return [OPTIONS[name].words(value) for name, value in unusual.items()]


def device_text(snapshot: Snapshot) -> str:
    """Name the device of the session: the CPU's model, or the GPU's name."""
    model, machine = snapshot.model, snapshot.header.machine
    if model is None or model.device is None:
        return str(snapshot.header.options.get("device") or "")
    if model.device == "cpu":
        as_several = f"as {model.devices} devices" if model.devices else ""
        return " ".join(filter(None, ("CPU", machine.cpu_model, as_several)))
    number = gpu_name(model.gpus) if model.gpus else "GPU"
    return f"{number} {model.device_name or ''}".strip()


def cost_text(result: Result) -> str:
    """Write the cost of a run, or why it is unknown; empty without a price."""
    if result.cost_usd is not None:
        return units.dollars(result.cost_usd)
    reason = result.why.get("cost_usd")
    return f"– ({reason})" if reason and reason != NO_PRICE else ""


def energy_text(result: Result) -> str:
    """Write the energy of an epoch, by device; empty if none was measured."""
    if not result.energy_j_per_epoch:
        return ""
    parts = (f"{name.upper()} {units.energy(j)}" for name, j in result.energy_j_per_epoch.items())
    return f"{', '.join(parts)} per epoch"


_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "tf32": "TF32"}


def effective_text(figures: Effective | Result) -> str:
    """Write the operations per second, and their share of the peak if it is known."""
    if figures.effective_flop_s is None:
        return ""
    speed = flop_s_text(figures.effective_flop_s)
    share = share_text(figures)
    if figures.hardware_share is not None:
        share = f"{share} ({units.share(figures.hardware_share)} with what is computed again)"
    return f"{speed}, {share}" if share else speed


def share_text(figures: Effective | Result) -> str:
    """Write the share of the peak: 38 % of the measured bf16 peak; empty if unknown."""
    if figures.peak_share is None:
        return ""
    return f"{units.share(figures.peak_share)} of {_peak_text(figures)}"


def _peak_text(figures: Effective | Result) -> str:
    """Name the peak; older logs don't say which one it was."""
    precision = _PRECISIONS.get(figures.peak_precision or "", figures.peak_precision or "")
    if figures.peak_from is None:
        return "peak"
    if figures.peak_from == MEASURED:
        return f"the measured {precision} peak"
    return f"{figures.peak_from}'s dense {precision} figure"


def effective_or_reason(figures: Effective | Result, is_asked_for: bool = False) -> str:
    """Write the operations per second, and why their share of the peak is unknown.

    If the figure `is_asked_for`, also say why the operations are unknown.
    """
    text, why = effective_text(figures), figures.why
    if text and figures.peak_share is None and "peak_share" in why:
        return f"{text} (share of the peak unknown: {why['peak_share']})"
    if not text and is_asked_for and "effective_flop_s" in why:
        return f"– ({why['effective_flop_s']})"
    return text
