"""The rules of what limits a run that look at the CPUs, and at who uses them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, Machine, MachineFacts, Process
from dlmon.records.record import record
from dlmon.session.limits import advice
from dlmon.session.limits.evidence import (
    BUSY_PCT,
    MIN_SAMPLES,
    Evidence,
    is_below,
    is_busy,
    mean_of,
    reaches,
    verb,
)
from dlmon.session.program_name import program_name
from dlmon.session.slow_readings import settled_after_ns

CPU_THROTTLED_PCT = 5.0
IDLE_CORES = 0.5
WAITED_FOR_CPU = 0.1
# What mostly sleeps waits a little for a CPU whenever it wakes on a busy machine.
MOSTLY = 0.5
# How far over its number of threads a run's CPU time may be: it has others, such as Python's own.
THREADS_TIME = (0.9, 1.25)
# By which share of the time between two samples one may be late.
LATENESS = 0.1
# A GPU that does no more than this is hardly what a run waits for.
IDLE_GPU_PCT = 20.0
MAX_CORES = 1_000_000
NAMED_CORES = 0.1


@record(frozen=True)
class CpuUse:
    """Who used a machine's cores, in cores; `own` and what follows are None where unknown.

    `allowed` is how many of them the run may use, and `knows_steal` says that what the host of a
    virtual machine took is not among the `others`. `waited` is the share of the time in which the
    run's thread that waited most for a CPU did so: for those others, so it is unknown where a
    limit of its own stops the run. `thread` is the share in which its busiest one had a CPU.
    """

    cores: int
    allowed: float
    own: float | None = None
    others: float | None = None
    idle: float | None = None
    knows_steal: bool = False
    waited: float | None = None
    thread: float | None = None

    @property
    def free(self) -> float | None:
        if self.idle is None or self.own is None:
            return None
        return max(0.0, min(self.idle, self.allowed - self.own))

    def wants_more(self, holds: bool = False) -> bool:
        """Whether others keep the run from a CPU; by what it takes where no wait is measured."""
        if self.own is None:
            return False
        if self.waited is None:
            return reaches(self.own, IDLE_CORES, holds)
        # What a framework spreads over its threads is more than any of them has.
        wanted = max(min(1.0, self.own), self.thread or 0.0) + self.waited
        return reaches(self.waited, WAITED_FOR_CPU, holds) and reaches(wanted, MOSTLY, holds)


def cpu_use(
    samples: Sequence[Machine], facts: MachineFacts, cpus: int | None, interval_s: float
) -> CpuUse | None:
    """Return who used the CPUs on average; `cpus` is how many of them the run was given."""
    per_core = [len(s.cpu.cores) for s in samples if s.cpu and s.cpu.cores]
    count = per_core[-1] if per_core else facts.cores
    if not count or count < 1:
        return None
    limits = (count, cpus, facts.cores, facts.cpu_limit)
    allowed = min(float(limit) for limit in limits if limit is not None and limit > 0)
    both = [
        (s.process.cpu_pct / 100, s.cpu.pct * count / 100, s.cpu.steal_pct)
        for s in samples
        if s.process and s.cpu and s.process.cpu_pct is not None and s.cpu.pct is not None
    ]
    thread_pct = busiest_thread_pct(samples, interval_s)
    settled = _settled(samples, interval_s)
    waited_pct = mean_of(s.process.cpu_wait_pct if s.process else None for s in settled)
    if (_stopped_pct(samples) or 0) >= CPU_THROTTLED_PCT:
        waited_pct = None
    if len(both) < MIN_SAMPLES:
        own_pct = mean_of(s.process.cpu_pct if s.process else None for s in samples)
        return CpuUse(count, allowed, own=None if own_pct is None else own_pct / 100)
    own = sum(own for own, *_ in both) / len(both)
    busy = sum(busy for _, busy, _ in both) / len(both)
    steals = [steal for *_, steal in both if steal is not None]
    stolen = sum(steals) / len(steals) * count / 100 if steals else 0.0
    return CpuUse(
        count,
        allowed,
        own=own,
        others=max(0.0, busy - stolen - own),
        idle=max(0.0, count - max(busy, own)),
        knows_steal=len(steals) == len(both),
        waited=None if waited_pct is None else waited_pct / 100,
        thread=None if thread_pct is None else thread_pct / 100,
    )


def busiest_thread_pct(samples: Sequence[Machine], interval_s: float) -> float | None:
    """Return which share of the time the run's busiest thread had a CPU."""
    settled = _settled(samples, interval_s)
    return mean_of(s.process.busiest_thread_pct if s.process else None for s in settled)


def busiest_process_pct(samples: Sequence[Machine], interval_s: float) -> float | None:
    """Return the CPU time of the run's busiest process, all its threads together."""
    settled = _settled(samples, interval_s)
    return mean_of(s.process.busiest_process_pct if s.process else None for s in settled)


def _settled(samples: Sequence[Machine], interval_s: float) -> Sequence[Machine]:
    """Return those samples whose slow readings are of the time since the first of them alone.

    In the ones before, they are of the imports, too, and of the compilation.
    """
    interval_ns = int(interval_s * 1e9)
    # A sample may come a little early.
    least_ns = settled_after_ns(interval_ns) - LATENESS * interval_ns
    return [sample for sample in samples if sample.t - samples[0].t >= least_ns]


def _stopped_pct(samples: Sequence[Machine]) -> float | None:
    """Return in how many of its periods a CPU limit stopped the run."""
    return mean_of(s.cpu.throttled_pct if s.cpu else None for s in samples)


def other_programs(
    use: CpuUse | None, samples: Sequence[Machine], ended: bool, holds: bool = False
) -> Evidence | None:
    """Hold when the run wants more, and the others take what it could have."""
    if use is None or use.own is None or use.others is None or use.idle is None:
        return None
    if not use.wants_more(holds):
        return None
    take, takes = verb(ended, "take", "took"), verb(ended, "takes", "took")
    busy_pct, spare = 100 - 100 * use.idle / use.cores, use.cores - BUSY_PCT / 100 * use.allowed
    if not is_busy(busy_pct, holds) or not reaches(use.others, spare, holds):
        return None
    took = f"{use.others:.1f} of {cores(use.cores)}"
    own = f"this run {use.own:.1f}"
    waited = "" if use.waited is None else f"{100 * use.waited:.0f} % of the time"
    waits = verb(ended, "waits", "waited")
    busiest = _busiest_other(samples)
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
        what = verb(ended, f"end or pause {its}", f"train without {its} beside it")
        advised = f"{what}: it {takes} {busiest.cores:.1f} cores"
    elif use.knows_steal:
        advised = advice.fewer_others(use.others, ended)
    return Evidence(
        "other-programs",
        f"others on {took}",
        f"Other programs {take} the CPU"
        if use.knows_steal
        else f"The CPU {verb(ended, 'is', 'was')} taken by others",
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


def own_cpus(
    use: CpuUse | None,
    facts: MachineFacts,
    on_cpu: Sequence[Machine],
    ended: bool,
    waited_share: float | None = None,
    holds: bool = False,
) -> Evidence | None:
    """Hold when the run itself takes what it may use of the CPUs.

    `on_cpu` are the samples where it is known to train on them. What of its time did not wait for
    data, `waited_share`, was computing.
    """
    if use is None or use.own is None:
        return None
    pct = min(100.0, 100 * use.own / use.allowed)
    if not is_busy(pct, holds):
        return None
    by_limit = facts.cpu_limit is not None and use.allowed == facts.cpu_limit
    idle = 0.0 if use.idle is None else use.idle
    advised = ""
    if use.allowed < use.cores and idle >= 1:
        advised = f"give the run more CPUs: {use.allowed:.0f} used, {cores(int(idle))} idle"
        if by_limit:
            advised = advice.raise_cpu_limit(use.allowed, f"{cores(int(idle))} idle")
    advised = advised or advice.use_a_gpu([gpu for one in on_cpu for gpu in one.gpus or ()])
    of_which = cores(use.cores)
    if use.allowed < use.cores:
        of_which = f"the {cores(use.allowed)} that it may use"
    took = f"this run {use.own:.1f} of {of_which}"
    figures = (took, *(() if use.idle is None else (f"{use.idle:.1f} idle",)))
    uses = verb(ended, "uses", "used")
    headline = f"The run {uses} all of its CPU" + ("" if use.allowed == 1 else "s")
    brief = f"the run's CPUs {pct:.0f} % busy"
    share = None if waited_share is None else 1 - waited_share
    return Evidence("cpu", brief, headline, figures, advised, share)


def own_threads(
    use: CpuUse | None, threads: int | None, ended: bool, holds: bool
) -> Evidence | None:
    """Hold when the run takes the time of its threads, and more cores are there for it."""
    if use is None or use.own is None or use.idle is None or threads is None:
        return None
    free = min(use.idle, use.allowed - use.own)
    least, most = (share * threads for share in THREADS_TIME)
    if not reaches(use.own, least, holds) or use.own > most or not reaches(free, IDLE_CORES, holds):
        return None
    figures = (f"{use.own:.1f} cores of CPU time", f"{use.idle:.1f} of {cores(use.cores)} idle")
    are, its_one = verb(ended, "are", "were"), verb(ended, "is", "was")
    headline = (
        f"The run's threads {are} busy" if threads > 1 else f"The run's one thread {its_one} busy"
    )
    advised = f"use more than --threads {threads}: {free:.1f} cores {are} idle"
    brief = f"--threads {threads} at {use.own:.1f} cores"
    return Evidence("threads", brief, headline, figures, advised)


def one_thread_of_the_cpu(
    use: CpuUse | None, thread_pct: float | None, ended: bool, holds: bool
) -> Evidence | None:
    """Hold when one thread of a run on the CPU has a core, and others are left to the run."""
    if use is None or use.free is None or thread_pct is None:
        return None
    if not is_busy(thread_pct, holds) or not reaches(use.free, IDLE_CORES, holds):
        return None
    was = verb(ended, "is", "was")
    at = f"at {thread_pct:.0f} % of a core"
    left = f"{use.free:.1f} of {cores(use.allowed)}"
    idle = f"{left} {'is' if not ended and use.free <= 1 else verb(ended, 'are', 'were')} idle"
    return Evidence(
        "thread",
        f"one thread {at}",
        f"One thread of the run {was} busy",
        (f"thread {at}", idle),
    )


def mostly_idle(
    use: CpuUse | None,
    gpus: Sequence[Gpu],
    on_cpu: bool,
    unmeasured: str | None,
    ended: bool,
    holds: bool,
) -> Evidence | None:
    """Hold when the run neither computes nor wants a CPU: it waits for something else.

    What an unread GPU does isn't known: then this holds only of a run that is known to train
    `on_cpu`. `unmeasured` is what it may wait for and is not measured of it, as a clause.
    """
    if use is None or use.own is None or not is_below(use.own, IDLE_CORES, holds):
        return None
    gpu_pct = mean_of(gpu.utilization_pct for gpu in gpus)
    if not on_cpu and (gpu_pct is None or not is_below(gpu_pct, IDLE_GPU_PCT, holds)):
        return None
    if use.waited is not None:
        wanted = use.own + use.waited
    elif use.idle is not None and reaches(use.idle, IDLE_CORES, holds):
        wanted = use.own
    else:
        return None
    if not is_below(wanted, MOSTLY, holds):
        return None
    waits = verb(ended, "waits", "waited")
    own = f"this run {use.own:.1f} of {cores(use.allowed)}"
    figures = (own,) if unmeasured is None else (own, unmeasured)
    return Evidence(
        "idle",
        own,
        f"The run {waits} for something other than a CPU",
        figures,
        advice=f"find what it {waits} for: data, a disk, the network, or a pause in the script",
    )


def all_cores_busy(
    use: CpuUse | None, samples: Sequence[Machine], ended: bool, holds: bool
) -> Evidence | None:
    """Hold when all cores are busy, and nobody knows by whom."""
    if use is None or use.own is not None:
        return None
    pct = mean_of(s.cpu.pct if s.cpu else None for s in samples)
    if pct is None or not is_busy(pct, holds):
        return None
    are = verb(ended, "are", "were")
    unknown = "the run's share of it isn't known"
    figures = (f"{pct:.0f} % of {cores(use.cores)}", unknown)
    brief = f"CPU {pct:.0f} %"
    return Evidence("cores", brief, f"All cores {are} busy", figures)


def quota(
    samples: Sequence[Machine], facts: MachineFacts, ended: bool, holds: bool = False
) -> Evidence | None:
    """Hold when the limit of a container stops the run."""
    pct = _stopped_pct(samples)
    if pct is None or not reaches(pct, CPU_THROTTLED_PCT, holds):
        return None
    return Evidence(
        "cpu-quota",
        f"stopped by the CPU limit in {pct:.0f} % of periods",
        f"The container's CPU limit {verb(ended, 'stops', 'stopped')} it",
        (
            f"in {pct:.0f} % of periods",
            *([] if facts.cpu_limit is None else [f"limit {cores(facts.cpu_limit)}"]),
        ),
        advice.raise_cpu_limit(facts.cpu_limit),
    )


def count_of(value: object) -> int | None:
    """Return a number of CPUs or threads from a log's options, which may hold anything."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_CORES:
        return value
    return None
