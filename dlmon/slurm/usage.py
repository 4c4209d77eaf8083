"""What a job asked for and what it used, and the options that would have fitted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dlmon.records.record import record

HEADROOM = 1.25
"""What is asked for beyond what was used: another run is not quite like this one."""
LEAST_LIMIT_S = 600.0
_MIB_OF = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


@record(frozen=True)
class Asked:
    """What a job had to itself; what Slurm does not say is None.

    Attributes:
        cpus: processors, of all its nodes.
        memory_mib: memory, of all its nodes.
        gpus: GPUs, of all its nodes.
        nodes: nodes.
        time_s: its time limit; infinite where it had none.
    """

    cpus: int | None = None
    memory_mib: float | None = None
    gpus: int | None = None
    nodes: int | None = None
    time_s: float | None = None


@record(frozen=True)
class Used:
    """What it used of that; what was not measured is None.

    Attributes:
        cpus: processors that were busy, in the mean.
        memory_mib: memory at its peak.
        gpu_busy_pct: how busy its GPUs were, in the mean.
        gpus: GPUs that were busy at all.
        time_s: how long it took.
    """

    cpus: float | None = None
    memory_mib: float | None = None
    gpu_busy_pct: float | None = None
    gpus: int | None = None
    time_s: float | None = None


def asked_of(tres: str, time_s: float | None = None) -> Asked:
    """Return what a job asked for, of a list such as `cpu=8,mem=64G,node=1,gres/gpu=1`.

    Args:
        tres: the trackable resources that it was given, as Slurm lists them.
        time_s: its time limit.
    """
    given = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
    # Where a type is named (gres/gpu:a100=2), the sum over types stands beside it, or doesn't.
    gpus = _count(given.get("gres/gpu"))
    if gpus is None:
        typed = [_count(n) for name, n in given.items() if name.startswith("gres/gpu:")]
        gpus = sum(filter(None, typed)) if typed else None
    if gpus is None and given:
        gpus = 0
    return Asked(
        cpus=_count(given.get("cpu")),
        memory_mib=memory_mib(given.get("mem", "")),
        gpus=gpus,
        nodes=_count(given.get("node")),
        time_s=time_s,
    )


def asked_in(environment: Mapping[str, str]) -> Asked:
    """Return what the job of this process asked for, by the environment that Slurm gives it."""
    nodes = _count(environment.get("SLURM_JOB_NUM_NODES"))
    cpus = sum(_cpus_per_node(environment.get("SLURM_JOB_CPUS_PER_NODE", "")), 0) or None
    memory = _count(environment.get("SLURM_MEM_PER_NODE"))
    total = None if memory is None or nodes is None else float(memory * nodes)
    per_cpu = _count(environment.get("SLURM_MEM_PER_CPU"))
    if total is None and per_cpu is not None and cpus is not None:
        total = float(per_cpu * cpus)
    gpus = _count(environment.get("SLURM_GPUS"))
    if gpus is None and "SLURM_JOB_GPUS" in environment:
        gpus = len(environment["SLURM_JOB_GPUS"].split(",")) * (nodes or 1)
    start, end = (_count(environment.get(f"SLURM_JOB_{word}_TIME")) for word in ("START", "END"))
    time_s = None if start is None or end is None or end <= start else float(end - start)
    return Asked(cpus, total, gpus, nodes, time_s)


def _cpus_per_node(text: str) -> list[int]:
    """Return the processors of each node, of `8(x2),4`."""
    found: list[int] = []
    for part in text.split(","):
        number, _, times = part.partition("(x")
        count, repeated = _count(number), _count(times.rstrip(")") or "1")
        if count is not None and repeated is not None:
            found += [count] * min(repeated, 100_000)
    return found


def memory_mib(text: str) -> float | None:
    """Return the MiB of `64G`, `9800M` or `512` (of MiB); None where that is no size."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "M")
    try:
        value = float(number) * _MIB_OF[unit]
    except (ValueError, KeyError):
        return None
    return value if 0 <= value < math.inf else None


def fitting_options(asked: Asked, used: Used, headroom: float = HEADROOM) -> list[str]:
    """Return the options of sbatch that would have fitted, rounded as people write them.

    Only what was both asked for and measured is in it, and never more than was asked for: whoever
    used it all may have wanted more, which can't be seen.
    """
    nodes = asked.nodes or 1
    options = []
    if asked.cpus is not None and used.cpus is not None:
        cpus = min(asked.cpus, max(1, math.ceil(used.cpus * headroom)))
        options.append(f"--cpus-per-task={max(1, math.ceil(cpus / nodes))}")
    if asked.memory_mib is not None and used.memory_mib is not None:
        needed = used.memory_mib * headroom / nodes
        options.append(f"--mem={_rounded_memory(needed, asked.memory_mib / nodes)}")
    if asked.gpus is not None and used.gpus is not None and used.gpus < asked.gpus:
        per_node = math.ceil(used.gpus / nodes)
        options += [f"--gpus-per-node={per_node}"] if per_node else []
    if asked.time_s is not None and used.time_s is not None:
        options.append(f"--time={_rounded_time(used.time_s * headroom, asked.time_s)}")
    return options


def _rounded_memory(mib: float, most_mib: float) -> str:
    """Return `12G` of what is above a GiB, else hundreds of MiB, and no more than was asked for."""
    if mib >= 1024:
        gib = math.ceil(mib / 1024)
        # Whole numbers up to 16, then steps of 4, 8, ... as memory is sold.
        step = 2 ** max(0, math.floor(math.log2(gib)) - 3)
        gib = math.ceil(gib / step) * step
        if gib * 1024 < most_mib:
            return f"{gib}G"
    elif (rounded := math.ceil(mib / 100) * 100) < most_mib:
        return f"{rounded}M"
    whole_gib = most_mib / 1024
    return f"{whole_gib:.0f}G" if whole_gib == int(whole_gib) else f"{most_mib:.0f}M"


def _rounded_time(seconds: float, most_s: float) -> str:
    """Return `0:45:00`: in steps of 5 minutes, of a quarter of an hour from 2 h, of an hour from 8.

    Ten minutes at least, for a node may have a slow start, and no more than was asked for.
    """
    seconds = max(seconds, LEAST_LIMIT_S)
    step = 300 if seconds <= 7200 else 900 if seconds <= 28800 else 3600
    whole = min(math.ceil(seconds / step) * step, most_s)
    minutes = math.ceil(whole / 60)
    days, minutes = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{minutes // 60:d}:{minutes % 60:02d}:00"


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None
