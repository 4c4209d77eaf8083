"""Compare the resources that a job was given with those it used, and suggest options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dlmon.records import SlurmJob
from dlmon.records.record import record
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.ending import job_of
from dlmon.slurm.queue import number_of, read_queue

HEADROOM = 1.25
"""The suggested amount over the used amount: another run may need a little more."""
LEAST_LIMIT_S = 600.0
_MIB_OF = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


@record(frozen=True)
class JobUsage:
    """The resources that a job used; None for what was not measured.

    Attributes:
        cpus: mean number of busy processors.
        memory_mib: peak memory.
        gpu_busy_pct: mean GPU utilization.
        gpus: number of GPUs that were busy at all.
        time_s: run time.
        most_cpus: busy processors on the node that used most of them.
        most_memory_mib: memory on the node that used most of it.
    """

    cpus: float | None = None
    memory_mib: float | None = None
    gpu_busy_pct: float | None = None
    gpus: int | None = None
    time_s: float | None = None
    most_cpus: float | None = None
    most_memory_mib: float | None = None


def job_in(environment: Mapping[str, str]) -> SlurmJob | None:
    """Return the job that a process runs in, as its environment describes it; None if in none."""
    number = job_of(environment)
    if number is None:
        return None
    nodes = number_of(environment.get("SLURM_JOB_NUM_NODES"))
    cpus = _total_cpus(environment.get("SLURM_JOB_CPUS_PER_NODE", "")) or None
    memory = None
    for name, times in (("NODE", nodes), ("CPU", cpus)):
        mib = number_of(environment.get(f"SLURM_MEM_PER_{name}"))
        if memory is None and mib is not None and times is not None:
            memory = float(mib * times)
    gpus = number_of(environment.get("SLURM_GPUS"))
    gpus_on_node = number_of(environment.get("SLURM_GPUS_ON_NODE"))
    if gpus is None and gpus_on_node is not None:
        gpus = gpus_on_node * (nodes or 1)
    start, end = (number_of(environment.get(f"SLURM_JOB_{word}_TIME")) for word in ("START", "END"))
    return SlurmJob(
        job=number,
        partition=environment.get("SLURM_JOB_PARTITION"),
        node_list=environment.get("SLURM_JOB_NODELIST"),
        nodes=nodes,
        cpus=cpus,
        memory_mib=memory,
        gpus=gpus,
        time_limit_s=None if start is None or end is None or end <= start else float(end - start),
        end_wall=None if end is None else float(end),
    )


def with_queue(job: SlurmJob, environment: Mapping[str, str], timeout_s: float) -> SlurmJob:
    """Add to a job what the queue says of it: older versions of Slurm set fewer variables.

    Args:
        job: the job as its environment describes it.
        environment: that of one of its processes.
        timeout_s: the time to wait for the queue.
    """
    number = environment.get("SLURM_JOB_ID", "")
    try:
        jobs = read_queue([number], timeout_s=timeout_s)
    except SlurmError:
        return job
    queued = next((queued for queued in jobs if queued.id == number), None)
    if queued is None:
        return job
    resources = {k: v for k, v in parse_tres(queued.tres or "").items() if v is not None}
    # Slurm invents an end, a year ahead, for a job without a time limit.
    end_wall = None if queued.time_limit_s is None else queued.end_wall
    return replace(job, time_limit_s=queued.time_limit_s, end_wall=end_wall, **resources)


def parse_tres(tres: str) -> dict[str, Any]:
    """Return the fields of `SlurmJob` in a list of resources: `cpu=8,mem=64G,gres/gpu=1`."""
    amounts = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
    # Not every site has Slurm count GPUs; some count them by model alone.
    gpus = number_of(amounts.get("gres/gpu"))
    if gpus is None:
        by_model = [number_of(v) for k, v in amounts.items() if k.startswith("gres/gpu:")]
        gpus = sum(filter(None, by_model)) if by_model else None
    return {
        "nodes": number_of(amounts.get("node")),
        "cpus": number_of(amounts.get("cpu")),
        "memory_mib": memory_mib(amounts.get("mem", "")),
        "gpus": gpus,
    }


def memory_mib(text: str) -> float | None:
    """Return the MiB of `64G`, `9800M` or `512` (MiB); None if the text is not a size."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "M")
    try:
        value = float(number) * _MIB_OF[unit]
    except (ValueError, KeyError):
        return None
    return value if 0 <= value < math.inf else None


def _total_cpus(text: str) -> int:
    """Return the number of processors of all nodes: 20 for `8(x2),4`."""
    total = 0
    for part in text.split(","):
        cpus, _, nodes = part.partition("(x")
        total += (number_of(cpus) or 0) * (number_of(nodes.rstrip(")") or "1") or 0)
    return total


def fitting_options(job: SlurmJob, usage: JobUsage) -> list[str]:
    """Return the options of sbatch that would have fitted a job, in round figures.

    An option is there only if its resource was both requested and measured, and never exceeds the
    request. There is none for memory if the job used more than it requested: the site sets no
    bound, or pages shared by processes were counted several times.
    """
    nodes = job.nodes or 1
    options = []
    if job.cpus is not None and usage.cpus is not None:
        needed_cpus = math.ceil((usage.most_cpus or usage.cpus / nodes) * HEADROOM)
        options.append(f"--cpus-per-task={max(1, min(needed_cpus, -(-job.cpus // nodes)))}")
    if job.memory_mib is not None and usage.memory_mib is not None:
        used_mib = usage.most_memory_mib or usage.memory_mib / nodes
        limit_mib = job.memory_mib / nodes
        if used_mib <= limit_mib:
            options.append(f"--mem={_rounded_memory(used_mib * HEADROOM, limit_mib)}")
    if job.gpus is not None and usage.gpus is not None and 0 < usage.gpus < job.gpus:
        options.append(f"--gpus-per-node={math.ceil(usage.gpus / nodes)}")
    if job.time_limit_s is not None and usage.time_s is not None:
        options.append(f"--time={_rounded_time(usage.time_s * HEADROOM, job.time_limit_s)}")
    return options


def _rounded_memory(mib: float, most_mib: float) -> str:
    """Return `12G`, or hundreds of MiB below a GiB, but at most `most_mib`."""
    if mib >= 1024:
        gib = math.ceil(mib / 1024)
        # Whole GiB up to 16, then steps of 2, 4, ...
        step = 2 ** max(0, math.floor(math.log2(gib)) - 3)
        gib = math.ceil(gib / step) * step
        if gib * 1024 < most_mib:
            return f"{gib}G"
    elif (rounded := math.ceil(mib / 100) * 100) < most_mib:
        return f"{rounded}M"
    whole_gib = most_mib / 1024
    return f"{whole_gib:.0f}G" if whole_gib == int(whole_gib) else f"{most_mib:.0f}M"


def _rounded_time(seconds: float, most_s: float) -> str:
    """Return `0:45:00` in steps of 5 minutes, of 15 minutes from 2 h, and of an hour from 8 h.

    Return at least 10 minutes, as nodes may start slowly, but at most `most_s`.
    """
    seconds = max(seconds, LEAST_LIMIT_S)
    step = 300 if seconds <= 7200 else 900 if seconds <= 28800 else 3600
    whole = min(math.ceil(seconds / step) * step, most_s)
    minutes = math.ceil(whole / 60)
    days, minutes = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{minutes // 60:d}:{minutes % 60:02d}:00"
