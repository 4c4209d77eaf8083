"""The series and counters of a session by the names that an index has for them."""

from __future__ import annotations

from dlmon.session.energy import EnergyCounter
from dlmon.session.keyframes.values import METRIC, NoKeyframe
from dlmon.session.session import Session
from dlmon.statistics.series import (
    Series,
)

_GPU_SERIES = ("gpu_utilization_pct", "gpu_memory_mib", "gpu_power_w", "gpu_temperature_c")
RATES = ("samples_rate", "steps_rate")
_SERIES = ("cpu_pct", "run_cpu_pct", "cpu_power_w", "memory_mib")


def series_of(session: Session) -> dict[str, Series]:
    """Return the series of a session by their names."""
    machine = session.machine
    named = {name: getattr(session, name) for name in RATES}
    named |= {name: getattr(machine, name) for name in _SERIES}
    metrics = session.learning.metrics
    named |= {f"{METRIC}.{name}": m.series for name, m in metrics.items() if m.is_read}
    for name in _GPU_SERIES:
        of_gpus: dict[int, Series] = getattr(machine, name)
        named |= {f"{name}.{index}": series for index, series in of_gpus.items()}
    return named


def counters_of(session: Session) -> dict[str, EnergyCounter]:
    """Return the counters of energy of a session by their names."""
    energy = session.machine.energy
    return {"cpu": energy.cpu, **{str(index): gpu for index, gpu in energy.gpus.items()}}


def put_series(session: Session, name: str, series: Series) -> None:
    """Give a session the series of a name that `series_of` knows."""
    of_gpus, dot, index = name.partition(".")
    if name in RATES:
        setattr(session, name, series)
    elif name in _SERIES:
        setattr(session.machine, name, series)
    elif dot and of_gpus == METRIC:
        metric = session.learning.metric(index)
        if metric is None:
            raise NoKeyframe("too many metrics")
        metric.series = series
    elif dot and of_gpus in _GPU_SERIES:
        getattr(session.machine, of_gpus)[int(index)] = series
    else:
        raise NoKeyframe("a series of another name")
