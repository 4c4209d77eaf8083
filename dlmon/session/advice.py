"""What to try against what limits a run, as far as what was measured speaks for it. Pure.

Each returns a phrase whose short form stands before its colon, as in "more loader workers: 2 now,
14 cores idle", or nothing where no reading speaks for a next step.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.records import Gpu, GpuFacts

BUSY_SHARE = 0.9
FREE_SHARE = 0.5
"""A memory with so much of it free has room for a larger batch."""
LOW_POWER = 0.5
IDLE_PCT = 10.0
AT_POWER_LIMIT = 0.9


def cores(count: float) -> str:
    """Write a number of cores."""
    return f"{count:g} core{'' if count == 1 else 's'}"


def against_waiting_for_data(
    workers: int | None,
    free_cores: float | None,
    own_share: float | None,
    others: float | None,
    io_pct: float | None,
    least_io_pct: float,
) -> str:
    """Return what may bring batches sooner.

    Args:
        workers: the processes that load; None where that isn't known.
        free_cores: idle cores that the run may use.
        own_share: how much the run takes of the cores that it may use.
        others: the cores that other programs take.
        io_pct: the share of time in which a program waited for a disk,
        least_io_pct: and from where on that counts.
    """
    if io_pct is not None and io_pct >= least_io_pct:
        return f"keep the data in memory or on a faster disk: waited for {io_pct:.0f} % of the time"
    idle = int(free_cores or 0)
    if idle >= 1:
        if workers is None:
            return ""
        if workers == 0:
            return f"load in worker processes: none now, {cores(idle)} idle"
        return f"more loader workers: {workers} now, {cores(idle)} idle"
    if others is not None and others >= 1:
        return f"fewer other programs: they take {others:.1f} cores"
    if own_share is not None and own_share >= BUSY_SHARE:
        return "prepare the data beforehand: no core is free to do it during the run"
    return ""


def larger_batch(gpus: Sequence[Gpu], facts: GpuFacts | None) -> str:
    """Return that the batch may grow, where much of the GPU's memory is free."""
    total_mib = facts.memory_mib if facts is not None else None
    used = [gpu.memory_used_mib for gpu in gpus if gpu.memory_used_mib is not None]
    if not total_mib or not used or max(used) > (1 - FREE_SHARE) * total_mib:
        return ""
    return f"a larger batch: {max(used) / 1024:.1f} of {total_mib / 1024:.1f} GiB used"


def against_heat(degrees: float | None, fan_pct: float | None) -> str:
    """Return that it wants cooling, and what was read."""
    known = [
        *([] if degrees is None else [f"{degrees:.0f} °C"]),
        *([] if fan_pct is None else [f"fan at {fan_pct:.0f} %"]),
    ]
    return f"more cooling: {', '.join(known)}" if known else "more cooling"


def against_power_cap(power_w: float | None, limit_w: float | None) -> str:
    """Return that the limit may be raised, where the power is there."""
    if power_w is None or not limit_w or power_w < AT_POWER_LIMIT * limit_w:
        return ""
    return f"a higher power limit: {limit_w:.0f} W now, if the card allows more"


def use_a_gpu(gpus: Sequence[Gpu]) -> str:
    """Return the GPU that nobody uses, for a run that trains on the CPU."""
    indices = sorted({gpu.index for gpu in gpus})
    for index in indices:
        busy = [gpu.utilization_pct for gpu in gpus if gpu.index == index]
        known = [pct for pct in busy if pct is not None]
        if known and max(known) < IDLE_PCT:
            return f"GPU {index}, if the framework can use it: at most {max(known)} % busy"
    return ""


def against_short_memory(rss_mib: float | None, used_mib: float | None) -> str:
    """Return whose memory to free: the run's where it has the most."""
    if rss_mib is None or not used_mib:
        return ""
    holds = f"{rss_mib / 1024:.1f} of {used_mib / 1024:.1f} GiB in use"
    if rss_mib >= used_mib / 2:
        return f"less memory for this run: it holds {holds}"
    return f"less memory for other programs: this run holds {holds}"
