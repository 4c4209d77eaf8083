"""Every quantity of a run over time, by the name of its chart."""

from __future__ import annotations

from dlmon.comparison.run import Curve
from dlmon.figures.units import rate_unit
from dlmon.session.session import Session


def curves_of(session: Session, start_ns: int) -> dict[str, Curve]:
    """Return what a run reported of itself, its throughput, and what its machine did.

    Args:
        session: the run.
        start_ns: when its own time begins.
    """
    learning, machine = session.learning, session.machine
    curves = {}
    for name in learning.names:
        metric = learning.metrics[name]
        curves[name] = Curve(
            metric.series,
            start_ns,
            validations=metric.validations,
            newest=metric.newest,
            why=metric.why,
            why_validation=metric.why_validation,
        )
    # Steps and samples per second are not drawn over each other.
    of_steps = " of steps" if session.counts_steps else ""
    others = [
        (f"throughput{of_steps}", rate_unit(session.counts_steps), session.throughput),
        ("CPU", "%", machine.cpu_pct),
        ("CPU power", "W", machine.cpu_power_w),
        ("memory", "MiB", machine.memory_mib),
    ]
    for index in sorted(machine.gpu_utilization_pct.keys() | machine.gpu_memory_mib.keys()):
        for name, unit, of_gpus in (
            ("", "%", machine.gpu_utilization_pct),
            (" memory", "MiB", machine.gpu_memory_mib),
            (" power", "W", machine.gpu_power_w),
            (" temperature", "°C", machine.gpu_temperature_c),
        ):
            if index in of_gpus:
                others.append((f"GPU {index}{name}", unit, of_gpus[index]))
    for name, unit, series in others:
        if series.end_ns is not None:
            curves.setdefault(name, Curve(series, start_ns, unit=unit))
    return curves
