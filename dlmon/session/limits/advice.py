"""What to try against what limits a run, as far as what was measured speaks for it. Pure.

Each returns what stands after "Try:", in the imperative, or nothing where no reading speaks for a
next step. Its short form stands before its colon, as in "use more loader workers: 2 used, 14 cores
idle". It holds of a run that is over as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, GpuFacts
from dlmon.session.limits.evidence import verb

FREE_SHARE = 0.5
"""A memory with so much of it free has room for a larger batch."""
LOW_POWER = 0.5
IDLE_PCT = 10.0
AT_POWER_LIMIT = 0.9


def faster_disk(waited_pct: float) -> str:
    """Return that the data may come from elsewhere."""
    waited = f"some program waited for a disk {waited_pct:.0f} % of the time"
    return f"keep the data in memory or on a faster disk: {waited}"


def more_workers(workers: int | None, figure: str) -> str:
    """Return that more processes may load the data, with the figure that speaks for it."""
    if workers is None:
        return ""
    if workers == 0:
        return f"load the data in worker processes: num_workers is 0; try 2 ({figure})"
    return f"use more loader workers: {workers} used, {figure}"


def fewer_others(others: float, ended: bool) -> str:
    """Return that other programs take so many cores that the run wants."""
    return f"stop other programs: they {verb(ended, 'take', 'took')} {others:.1f} cores"


def raise_cpu_limit(limit: float | None, figure: str = "") -> str:
    """Return that a container may be given more of the CPUs."""
    now = "" if limit is None else f" of {cores(limit)}"
    return f"raise the container's CPU limit{now}{f': {figure}' if figure else ''}"


def larger_batch(gpus: Sequence[Gpu], facts: GpuFacts | None) -> str:
    """Return that the batch may grow, where much of the GPU's memory is free."""
    total_mib = facts.memory_mib if facts is not None else None
    used = [gpu.memory_used_mib for gpu in gpus if gpu.memory_used_mib is not None]
    if not total_mib or not used or max(used) > (1 - FREE_SHARE) * total_mib:
        return ""
    return f"use a larger batch: {max(used) / 1024:.1f} of {total_mib / 1024:.1f} GiB used"


def against_heat(degrees: float | None, fan_pct: float | None) -> str:
    """Return that it wants cooling, and what was read."""
    known = [
        *([] if degrees is None else [f"{degrees:.0f} °C"]),
        *([] if fan_pct is None else [f"fan at {fan_pct:.0f} %"]),
    ]
    return f"cool the GPU better: {', '.join(known)}" if known else "cool the GPU better"


def against_power_cap(power_w: float | None, limit_w: float | None) -> str:
    """Return that the limit may be raised, where the power is there."""
    if power_w is None or not limit_w or power_w < AT_POWER_LIMIT * limit_w:
        return ""
    return f"raise the power limit: from {limit_w:.0f} W, if the card allows more"


def use_a_gpu(gpus: Sequence[Gpu]) -> str:
    """Return the GPU that nobody uses, for a run that trains on the CPU."""
    indices = sorted({gpu.index for gpu in gpus})
    for index in indices:
        busy = [gpu.utilization_pct for gpu in gpus if gpu.index == index]
        known = [pct for pct in busy if pct is not None]
        if known and max(known) < IDLE_PCT:
            return f"train on GPU {index}, if the framework can use it: at most {max(known)} % busy"
    return ""


def against_short_memory(rss_mib: float | None, used_mib: float | None) -> str:
    """Return whose memory to free: the run's where it has the most."""
    if rss_mib is None or not used_mib:
        return ""
    holds = f"{rss_mib / 1024:.1f} of {used_mib / 1024:.1f} GiB in use"
    if rss_mib >= used_mib / 2:
        return f"make this run use less memory: {holds}"
    return f"end programs that hold memory: this run {holds}"
