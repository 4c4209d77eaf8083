"""The rules of what limits a run that look at the CPUs, and at who uses them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import Machine, Process
from dlmon.session.limits.seen import (
    BUSY_PCT,
    CPU_THROTTLED_PCT,
    IDLE_CORES,
    MOSTLY,
    Evidence,
    Seen,
    count_of,
    program_name,
)

# How far over its number of threads a run's CPU time may be: it has others, such as Python's own.
THREADS_TIME = (0.9, 1.25)
# A GPU that does no more than this is hardly what a run waits for.
IDLE_GPU_PCT = 20.0
NAMED_CORES = 0.1
IDLE_PCT = 10.0


def other_programs(seen: Seen) -> Evidence | None:
    """Hold when the run wants more, and the others take what it could have."""
    use = seen.use
    if use is None or use.own is None or use.others is None or use.idle is None:
        return None
    if not seen.wants_cpu:
        return None
    take, takes = seen.verb("take", "took"), seen.verb("takes", "took")
    busy_pct, spare = 100 - 100 * use.idle / use.cores, use.cores - BUSY_PCT / 100 * use.allowed
    if not seen.is_busy(busy_pct) or not seen.reaches(use.others, spare):
        return None
    took = f"{use.others:.1f} of {cores(use.cores)}"
    own = f"this run {use.own:.1f}"
    waited = "" if use.waited is None else f"{100 * use.waited:.0f} % of the time"
    waits = seen.verb("waits", "waited")
    busiest = _busiest_other(seen.samples)
    if busiest is not None and busiest.cores < use.others * _WORTH_NAMING:
        # Who takes most of it can't be seen from here, as from within a container.
        busiest = None
    named = ""
    if busiest is not None:
        # Others may not be seen from here: only what has half of it has the most for certain.
        share = "most" if busiest.cores >= use.others / 2 else f"{busiest.cores:.1f}"
        named = f" ({share}: {busiest.name}, pid {busiest.pid})"
    advised = ""
    if busiest is not None and busiest.cores >= IDLE_CORES:
        its = f"{busiest.name} (pid {busiest.pid})"
        what = seen.verb(f"end or pause {its}", f"train without {its} beside it")
        advised = f"{what}: it {takes} {busiest.cores:.1f} cores"
    elif use.knows_steal:
        advised = fewer_others(seen, use.others)
    return Evidence(
        "other-programs",
        f"others on {took}",
        f"Other programs {take} the CPU"
        if use.knows_steal
        else f"The CPU {seen.verb('is', 'was')} taken by others",
        (took + named, f"{own}, {waits} for a CPU {waited}" if waited else own),
        advised,
        use.waited,
    )


_WORTH_NAMING = 0.25
"""A program is named from this share of what others take on."""


class _Busiest(NamedTuple):
    """A program that isn't the run's, and the cores that it takes."""

    pid: int
    name: str
    cores: float


def _busiest_other(samples: Sequence[Machine]) -> _Busiest | None:
    """Return the busiest program that isn't the run's, as far as the process table knows one."""
    took: dict[int, float] = {}
    rows: dict[int, Process] = {}
    for sample in samples:
        for row in sample.processes or ():
            if row.of_run is False and row.cpu_pct:
                took[row.pid] = took.get(row.pid, 0.0) + row.cpu_pct / 100 / len(samples)
                rows[row.pid] = row
    if not took:
        return None
    pid = max(took, key=lambda pid: took[pid])
    name = program_name(rows[pid].command)
    if name is None or took[pid] < NAMED_CORES:
        return None
    return _Busiest(pid, name, took[pid])


def fewer_others(seen: Seen, others: float) -> str:
    """Return that other programs take so many cores that the run wants."""
    return f"stop other programs: they {seen.verb('take', 'took')} {others:.1f} cores"


def _raise_cpu_limit(limit: float | None) -> str:
    """Return that a container may be given more of the CPUs."""
    return f"raise the container's CPU limit{'' if limit is None else f' of {cores(limit)}'}"


def _use_a_gpu(seen: Seen) -> str:
    """Return the GPU that nobody uses, for a run that trains on the CPU."""
    busy: dict[int, list[int]] = {}
    for gpu in (gpu for sample in seen.samples for gpu in sample.gpus or ()):
        if gpu.utilization_pct is not None:
            busy.setdefault(gpu.index, []).append(gpu.utilization_pct)
    idle = [(index, max(pcts)) for index, pcts in sorted(busy.items()) if max(pcts) < IDLE_PCT]
    for index, most_pct in idle[:1]:
        return f"train on GPU {index}, if the framework can use it: at most {most_pct} % busy"
    return ""


def own_cpus(seen: Seen) -> Evidence | None:
    """Hold when the run itself takes what it may use of the CPUs.

    What of its time did not wait for data was computing.
    """
    use = seen.use
    if use is None or use.own is None:
        return None
    pct = min(100.0, 100 * use.own / use.allowed)
    if not seen.is_busy(pct):
        return None
    limit = seen.facts.cpu_limit
    idle = 0.0 if use.idle is None else use.idle
    advised = ""
    if use.allowed < use.cores and idle >= 1:
        advised = f"give the run more CPUs: {use.allowed:.0f} used, {cores(int(idle))} idle"
        if use.allowed == limit:
            advised = f"{_raise_cpu_limit(use.allowed)}: {cores(int(idle))} idle"
    if not advised and seen.on_cpu:
        advised = _use_a_gpu(seen)
    of_which = cores(use.cores)
    if use.allowed < use.cores:
        of_which = f"the {cores(use.allowed)} that it may use"
    took = f"this run {use.own:.1f} of {of_which}"
    figures = (took, *(() if use.idle is None else (f"{use.idle:.1f} idle",)))
    uses = seen.verb("uses", "used")
    headline = f"The run {uses} all of its CPU" + ("" if use.allowed == 1 else "s")
    brief = f"the run's CPUs {pct:.0f} % busy"
    share = None if seen.waited_share is None else 1 - seen.waited_share
    return Evidence("cpu", brief, headline, figures, advised, share)


def own_threads(seen: Seen) -> Evidence | None:
    """Hold when the run takes the time of its threads, and more cores are there for it."""
    use, threads = seen.use, count_of(seen.threads)
    if use is None or use.own is None or use.idle is None or threads is None:
        return None
    free = min(use.idle, use.allowed - use.own)
    least, most = (share * threads for share in THREADS_TIME)
    if not seen.reaches(use.own, least) or use.own > most or not seen.reaches(free, IDLE_CORES):
        return None
    figures = (f"{use.own:.1f} cores of CPU time", f"{use.idle:.1f} of {cores(use.cores)} idle")
    are, its_one = seen.verb("are", "were"), seen.verb("is", "was")
    headline = (
        f"The run's threads {are} busy" if threads > 1 else f"The run's one thread {its_one} busy"
    )
    advised = f"use more than --threads {threads}: {free:.1f} cores {are} idle"
    brief = f"--threads {threads} at {use.own:.1f} cores"
    return Evidence("threads", brief, headline, figures, advised)


def one_thread_of_the_cpu(seen: Seen) -> Evidence | None:
    """Hold when one thread of a run on the CPU has a core, and others are left to the run."""
    use, thread_pct = seen.use, seen.thread_pct
    if use is None or use.free is None or thread_pct is None:
        return None
    if not seen.is_busy(thread_pct) or not seen.reaches(use.free, IDLE_CORES):
        return None
    was = seen.verb("is", "was")
    at = f"at {thread_pct:.0f} % of a core"
    left = f"{use.free:.1f} of {cores(use.allowed)}"
    idle = f"{left} {'is' if not seen.ended and use.free <= 1 else seen.verb('are', 'were')} idle"
    return Evidence(
        "thread",
        f"one thread {at}",
        f"One thread of the run {was} busy",
        (f"thread {at}", idle),
    )


def mostly_idle(seen: Seen) -> Evidence | None:
    """Hold when the run neither computes nor wants a CPU: it waits for something else.

    What an unread GPU does isn't known: then this holds only of a run that is known to train on
    the CPU.
    """
    use = seen.use
    if use is None or use.own is None or not seen.is_below(use.own, IDLE_CORES):
        return None
    gpu_pct = seen.gpu_pct
    if not seen.on_cpu and (gpu_pct is None or not seen.is_below(gpu_pct, IDLE_GPU_PCT)):
        return None
    if use.waited is not None:
        wanted = use.own + use.waited
    elif use.idle is not None and seen.reaches(use.idle, IDLE_CORES):
        wanted = use.own
    else:
        return None
    if not seen.is_below(wanted, MOSTLY):
        return None
    waits = seen.verb("waits", "waited")
    own = f"this run {use.own:.1f} of {cores(use.allowed)}"
    figures = (own,) if seen.unmeasured is None else (own, seen.unmeasured)
    return Evidence(
        "idle",
        own,
        f"The run {waits} for something other than a CPU",
        figures,
        advice=f"find what it {waits} for: data, a disk, the network, or a pause in the script",
    )


def all_cores_busy(seen: Seen) -> Evidence | None:
    """Hold when all cores are busy, and nobody knows by whom."""
    use = seen.use
    if use is None or use.own is not None:
        return None
    pct = seen.mean(lambda s: s.cpu.pct if s.cpu else None)
    if pct is None or not seen.is_busy(pct):
        return None
    are = seen.verb("are", "were")
    unknown = "the run's share of it isn't known"
    figures = (f"{pct:.0f} % of {cores(use.cores)}", unknown)
    brief = f"CPU {pct:.0f} %"
    return Evidence("cores", brief, f"All cores {are} busy", figures)


def quota(seen: Seen) -> Evidence | None:
    """Hold when the limit of a container stops the run."""
    pct, limit = seen.stopped_pct, seen.facts.cpu_limit
    if pct is None or not seen.reaches(pct, CPU_THROTTLED_PCT):
        return None
    return Evidence(
        "cpu-quota",
        f"stopped by the CPU limit in {pct:.0f} % of periods",
        f"The container's CPU limit {seen.verb('stops', 'stopped')} it",
        (f"in {pct:.0f} % of periods", *([] if limit is None else [f"limit {cores(limit)}"])),
        _raise_cpu_limit(limit),
    )
