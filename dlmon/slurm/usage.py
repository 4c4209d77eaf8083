"""What a job asked for and what it used, and the options that would have fitted."""

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
"""What is asked for beyond what was used: another run is not quite like this one."""
LEAST_LIMIT_S = 600.0
_MIB_OF = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


@record(frozen=True)
class Used:
    """What it used of that; what was not measured is None.

    Attributes:
        cpus: processors that were busy, in the mean.
        memory_mib: memory at its peak.
        gpu_busy_pct: how busy its GPUs were, in the mean.
        gpus: GPUs that were busy at all.
        time_s: how long it took.
        most_cpus: processors that were busy on the node that used most of them.
        most_memory_mib: the same of memory.
    """

    cpus: float | None = None
    memory_mib: float | None = None
    gpu_busy_pct: float | None = None
    gpus: int | None = None
    time_s: float | None = None
    most_cpus: float | None = None
    most_memory_mib: float | None = None


def job_in(environment: Mapping[str, str]) -> SlurmJob | None:
    """Return what the job was given that a process with this environment runs in, as it says."""
    number = job_of(environment)
    if number is None:
        return None
    nodes = number_of(environment.get("SLURM_JOB_NUM_NODES"))
    cpus = sum(_cpus_per_node(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))) or None
    memory = None
    for name, times in (("NODE", nodes), ("CPU", cpus)):
        given = number_of(environment.get(f"SLURM_MEM_PER_{name}"))
        if memory is None and given is not None and times is not None:
            memory = float(given * times)
    gpus = number_of(environment.get("SLURM_GPUS"))
    of_node = number_of(environment.get("SLURM_GPUS_ON_NODE"))
    if gpus is None and of_node is not None:
        gpus = of_node * (nodes or 1)
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
    """Return a job with what the queue says of it: its environment says less in older versions.

    Args:
        job: as its environment says.
        environment: of one of its processes.
        timeout_s: how long to wait for the queue.
    """
    number = environment.get("SLURM_JOB_ID", "")
    try:
        asked = read_queue([number], timeout_s=timeout_s)
    except SlurmError:
        return job
    found = next((each for each in asked if each.id == number), None)
    if found is None:
        return job
    given = given_by(found.tres or "")
    known = {name: value for name, value in given.items() if value is not None}
    # Without a limit, its end is that of the year after.
    end_wall = None if found.time_limit_s is None else found.end_wall
    return replace(job, time_limit_s=found.time_limit_s, end_wall=end_wall, **known)


def given_by(tres: str) -> dict[str, Any]:
    """Return the fields of a job that a list of what it has says: `cpu=8,mem=64G,gres/gpu=1`."""
    listed = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
    gpus = number_of(listed.get("gres/gpu"))
    if gpus is None:
        typed = [
            number_of(number) for name, number in listed.items() if name.startswith("gres/gpu:")
        ]
        gpus = sum(filter(None, typed)) if typed else None
    return {
        "nodes": number_of(listed.get("node")),
        "cpus": number_of(listed.get("cpu")),
        "memory_mib": memory_mib(listed.get("mem", "")),
        # Not every site has Slurm count them.
        "gpus": gpus,
    }


def memory_mib(text: str) -> float | None:
    """Return the MiB of `64G`, `9800M` or `512` (of MiB); None where that is no size."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "M")
    try:
        value = float(number) * _MIB_OF[unit]
    except (ValueError, KeyError):
        return None
    return value if 0 <= value < math.inf else None


def _cpus_per_node(text: str) -> list[int]:
    """Return the processors of each node, of `8(x2),4`."""
    found: list[int] = []
    for part in text.split(","):
        number, _, times = part.partition("(x")
        count, repeated = number_of(number), number_of(times.rstrip(")") or "1")
        if count is not None and repeated is not None:
            found += [count] * min(repeated, 100_000)
    return found


def fitting_options(asked: SlurmJob, used: Used, headroom: float = HEADROOM) -> list[str]:
    """Return the options of sbatch that would have fitted, rounded as people write them.

    Only what was both asked for and measured is in it, and never more than was asked for: whoever
    used it all may have wanted more, which can't be seen. Where more memory was used than that,
    as a site without bounds to it gives, or pages that processes share are counted for each, what
    would have fitted is not known.
    """
    nodes = asked.nodes or 1
    options = []
    if asked.cpus is not None and used.cpus is not None:
        needed_cpus = math.ceil((used.most_cpus or used.cpus / nodes) * headroom)
        options.append(f"--cpus-per-task={max(1, min(needed_cpus, -(-asked.cpus // nodes)))}")
    if asked.memory_mib is not None and used.memory_mib is not None:
        most, given = used.most_memory_mib or used.memory_mib / nodes, asked.memory_mib / nodes
        options += [f"--mem={_rounded_memory(most * headroom, given)}"] if most <= given else []
    if asked.gpus is not None and used.gpus is not None and used.gpus < asked.gpus:
        per_node = math.ceil(used.gpus / nodes)
        options += [f"--gpus-per-node={per_node}"] if per_node else []
    if asked.time_limit_s is not None and used.time_s is not None:
        options.append(f"--time={_rounded_time(used.time_s * headroom, asked.time_limit_s)}")
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
