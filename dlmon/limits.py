"""Say in one sentence what limits a run, with the figures that show it.

Pure. The rules are tried in order over the samples of the last half minute of
steady training, and nothing is claimed that isn't measured: on TensorFlow the
wait for input happens inside the training function and can't be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlmon.records import Gpu, Machine, MachineFacts

WINDOW_S = 30.0
LEAST_SAMPLES = 5
BUSY_PCT = 90.0
IDLE_GPU_PCT = 60.0
AT_LIMIT_SHARE = 0.95
SWAPPING_MIB_S = 1.0
CPU_THROTTLED_PCT = 5.0


@dataclass(frozen=True)
class Limit:
    """What limits a run: `rule` names the rule that held, `text` is for a person."""

    rule: str
    text: str


def find_limit(
    samples: Sequence[Machine], facts: MachineFacts, gpu_index: int | None
) -> Limit | None:
    """Return what limits the run, None before there are samples enough to say.

    Args:
        samples: whole samples (nothing left out) of steady training, oldest first.
        facts: of the machine.
        gpu_index: the GPU that is trained on, by NVML's number; None on the CPU.
    """
    if len(samples) < LEAST_SAMPLES:
        return None
    gpus = [gpu for sample in samples for gpu in sample.gpus or () if gpu.index == gpu_index]
    return (
        _gpu_at_its_limit(gpus)
        or _gpu_busy(gpus)
        or _cpu_throttled(samples, facts)
        or _swapping(samples)
        or _cores_busy(samples, facts)
        or _host_too_slow(samples, gpus)
        or _not_clear(samples, gpus)
    )


def _gpu_at_its_limit(gpus: Sequence[Gpu]) -> Limit | None:
    busy_pct = _mean(gpu.utilization_pct for gpu in gpus)
    if busy_pct is None or busy_pct < BUSY_PCT:
        return None
    name, busy = f"GPU {gpus[-1].index}", f"busy {busy_pct:.0f} % of the time"
    often = len(gpus) / 2
    heat = sum(any("thermal" in reason for reason in gpu.throttle or ()) for gpu in gpus)
    temperature_c = _mean(gpu.temperature_c for gpu in gpus)
    if heat > often:
        at = f" at {temperature_c:.0f} °C" if temperature_c is not None else ""
        return Limit("gpu-thermal", f"{name}: {busy}, slowed down by its temperature{at}.")
    power_w = _mean(gpu.power_w for gpu in gpus)
    limit_w = _mean(gpu.power_limit_w for gpu in gpus)
    powered = sum(any("power" in reason for reason in gpu.throttle or ()) for gpu in gpus)
    capped = powered > often
    near = power_w is not None and limit_w and power_w >= AT_LIMIT_SHARE * limit_w
    if capped or near:
        limit = f" of {limit_w:.0f} W" if limit_w else ""
        return Limit("gpu-power", f"{name}: {busy}, held at its power limit{limit}.")
    return None


def _gpu_busy(gpus: Sequence[Gpu]) -> Limit | None:
    busy_pct = _mean(gpu.utilization_pct for gpu in gpus)
    if busy_pct is None or busy_pct < BUSY_PCT:
        return None
    return Limit("gpu", f"GPU {gpus[-1].index}: busy {busy_pct:.0f} % of the time.")


def _cpu_throttled(samples: Sequence[Machine], facts: MachineFacts) -> Limit | None:
    throttled_pct = _mean(s.cpu.throttled_pct if s.cpu else None for s in samples)
    if throttled_pct is None or throttled_pct < CPU_THROTTLED_PCT:
        return None
    allowed = f" of {facts.cpu_limit:g} cores" if facts.cpu_limit is not None else ""
    return Limit(
        "cpu-quota",
        f"The container's CPU limit{allowed}: it held the run back in "
        f"{throttled_pct:.0f} % of its periods.",
    )


def _swapping(samples: Sequence[Machine]) -> Limit | None:
    rate = _mean(s.memory.swap_mib_s if s.memory else None for s in samples)
    if rate is None or rate < SWAPPING_MIB_S:
        return None
    return Limit("swap", f"Memory: the machine swaps {rate:.0f} MiB a second.")


def _cores_busy(samples: Sequence[Machine], facts: MachineFacts) -> Limit | None:
    """Hold when every core that the run may use is busy.

    Where it may use only some of the machine's cores, which ones isn't told,
    so the run's own CPU time is held against their number.
    """
    cores = facts.cores
    if not cores:
        return None
    per_core = [s.cpu.cores for s in samples if s.cpu and s.cpu.cores]
    if per_core and len(per_core[-1]) == cores:
        same = [told for told in per_core if len(told) == cores]
        means = [sum(told[core] for told in same) / len(same) for core in range(cores)]
        if min(means) < BUSY_PCT:
            return None
        busy_pct = sum(means) / cores
        return Limit("cpu", f"The CPU: all {cores} cores busy {busy_pct:.0f} % of the time.")
    own_pct = _mean(s.process.cpu_pct if s.process else None for s in samples)
    if own_pct is None or own_pct / cores < BUSY_PCT:
        return None
    return Limit(
        "cpu", f"The CPU: the run keeps its {cores} cores busy {own_pct / cores:.0f} % of the time."
    )


def _host_too_slow(samples: Sequence[Machine], gpus: Sequence[Gpu]) -> Limit | None:
    gpu_pct = _mean(gpu.utilization_pct for gpu in gpus)
    thread_pct = _mean(s.process.busiest_thread_pct if s.process else None for s in samples)
    if gpu_pct is None or thread_pct is None:
        return None
    if gpu_pct >= IDLE_GPU_PCT or thread_pct < BUSY_PCT:
        return None
    return Limit(
        "host",
        f"The host: it feeds GPU {gpus[-1].index} too slowly. The GPU is busy {gpu_pct:.0f} % of "
        f"the time, while one thread of the run takes {thread_pct:.0f} % of a core.",
    )


def _not_clear(samples: Sequence[Machine], gpus: Sequence[Gpu]) -> Limit:
    figures: list[tuple[str, float | None, str]] = [
        ("CPU", _mean(s.cpu.pct if s.cpu else None for s in samples), " %"),
        ("GPU", _mean(gpu.utilization_pct for gpu in gpus), " %"),
        (
            "busiest thread",
            _mean(s.process.busiest_thread_pct if s.process else None for s in samples),
            " % of a core",
        ),
    ]
    told = [f"{name} {value:.0f}{unit}" for name, value, unit in figures if value is not None]
    return Limit("not-clear", f"Not clear: {', '.join(told) or 'nothing is measured'}.")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
