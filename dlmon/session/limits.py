"""Say what limits a run, with the figures that show it.

Pure. Every rule looks at the samples of the last half minute of steady training
and states what was measured, no cause that wasn't: on TensorFlow the wait for
input happens inside the training function and can't be seen. All rules that hold
are kept, and the sentence names the two strongest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dlmon.records import Gpu, Machine, MachineFacts, Process
from dlmon.records.record import record
from dlmon.session import advice
from dlmon.session.advice import cores as _cores
from dlmon.session.evidence import MIN_SAMPLES, NAMED_IN_FULL, Evidence, Limit, LimitKind, mean_of
from dlmon.session.gpu_limits import BUSY_PCT, WAITED_SHARE, gpu_shared, gpu_works, one_thread
from dlmon.session.program_name import program_name

WINDOW_S = 30.0
SWAPPING_MIB_S = 1.0
CPU_THROTTLED_PCT = 5.0
STEAL_PCT = 5.0
PRESSURE_PCT = 10.0
IDLE_CORES = 0.5
# How far over its number of threads a run's CPU time may be: it has others, such as Python's own.
THREADS_TIME = (0.9, 1.25)
MAX_CORES = 1_000_000
NAMED_CORES = 0.1


def find_limit(
    samples: Sequence[Machine],
    facts: MachineFacts,
    gpu_index: int | None,
    cpus: object = None,
    threads: object = None,
    waited_share: float | None = None,
    workers: int | None = None,
) -> Limit | None:
    """Return what limits the run, None before there are samples enough to say.

    Args:
        samples: whole samples (nothing left out) of steady training, oldest first.
        facts: of the machine.
        gpu_index: the GPU that is trained on, by NVML's number; None on the CPU.
        cpus: the CPUs that the run was given (`--cpus`), if it was.
        threads: the threads that it was to compute with (`--threads`), if that was said.
        waited_share: what part of the time it waited for data, 0 to 1, where that is measured.
        workers: how many processes load the data, where that is known.
    """
    if len(samples) < MIN_SAMPLES:
        return None
    gpus = [gpu for sample in samples for gpu in sample.gpus or () if gpu.index == gpu_index]
    use = _cpu_use(samples, facts, _count(cpus))
    # What is used up comes first, then what was taken away, then what may be a sign of either.
    of_gpu = next((one for one in facts.gpus or () if one.index == gpu_index), None)
    found = (
        _data_wait(waited_share, workers, use, gpus, samples),
        gpu_works(gpus, of_gpu),
        _quota(samples, facts),
        _other_programs(use, samples),
        _own_cpus(use, facts, samples if gpu_index is None else ()),
        _own_threads(use, _count(threads)),
        _all_cores_busy(use, samples),
        *_scarcity(samples),
        one_thread(samples, gpus, of_gpu, waited_share),
        _io_pressure(samples),
        gpu_shared(samples, gpu_index),
    )
    evidence = tuple(one for one in found if one is not None)
    measured = _measured(use, samples, gpus)
    if not evidence:
        listed = ", ".join(text for _, text in measured) or "nothing is measured"
        return Limit("not-clear", f"Not clear: {listed}.", measured=measured)
    # The strongest in full and the others in short: none hides another.
    text = " ".join(f"{one.text}." for one in evidence[:NAMED_IN_FULL])
    others = ", ".join(one.brief for one in evidence[NAMED_IN_FULL:])
    text = f"{text} Also: {others}." if others else text
    return Limit(evidence[0].rule, text, evidence, measured)


# ---- the CPUs ----


@record(frozen=True)
class _CpuUse:
    """Who used a machine's cores, in cores; `own` and what follows are None where unknown.

    `allowed` is how many of them the run may use, and `knows_steal` says that what the host of a
    virtual machine took is not among the `others`.
    """

    cores: int
    allowed: float
    own: float | None = None
    others: float | None = None
    idle: float | None = None
    knows_steal: bool = False

    @property
    def free(self) -> float | None:
        """Idle cores that the run may use."""
        if self.idle is None or self.own is None:
            return None
        return max(0.0, min(self.idle, self.allowed - self.own))


def _cpu_use(samples: Sequence[Machine], facts: MachineFacts, cpus: int | None) -> _CpuUse | None:
    per_core = [len(s.cpu.cores) for s in samples if s.cpu and s.cpu.cores]
    cores = per_core[-1] if per_core else facts.cores
    if not cores or cores < 1:
        return None
    limits = (cores, cpus, facts.cores, facts.cpu_limit)
    allowed = min(float(limit) for limit in limits if limit is not None and limit > 0)
    both = [
        (s.process.cpu_pct / 100, s.cpu.pct * cores / 100, s.cpu.steal_pct)
        for s in samples
        if s.process and s.cpu and s.process.cpu_pct is not None and s.cpu.pct is not None
    ]
    if len(both) < MIN_SAMPLES:
        own_pct = mean_of(s.process.cpu_pct if s.process else None for s in samples)
        return _CpuUse(cores, allowed, own=None if own_pct is None else own_pct / 100)
    own = sum(own for own, *_ in both) / len(both)
    busy = sum(busy for _, busy, _ in both) / len(both)
    steals = [steal for *_, steal in both if steal is not None]
    stolen = sum(steals) / len(steals) * cores / 100 if steals else 0.0
    return _CpuUse(
        cores,
        allowed,
        own=own,
        others=max(0.0, busy - stolen - own),
        idle=max(0.0, cores - max(busy, own)),
        knows_steal=len(steals) == len(both),
    )


def _other_programs(use: _CpuUse | None, samples: Sequence[Machine]) -> Evidence | None:
    """Hold when the others take more than the cores that the run leaves, or may not use, anyway."""
    if use is None or use.own is None or use.others is None or use.idle is None:
        return None
    spare = use.cores - BUSY_PCT / 100 * use.allowed
    if use.others <= spare or use.idle > (1 - BUSY_PCT / 100) * use.cores:
        return None
    who = "Other programs take" if use.knows_steal else "Everything but this run takes"
    took = f"{use.others:.1f} of {_cores(use.cores)}"
    busiest = _busiest_other(samples)
    named = ""
    if busiest is not None:
        # Others may not be seen from here: only what has half of it has the most for certain.
        share = "most" if busiest.cores >= use.others / 2 else f"{busiest.cores:.1f}"
        named = f" ({share}: {busiest.name}, pid {busiest.pid})"
    text = f"{who} {took}{named}; this run {use.own:.1f}"
    advised = ""
    if busiest is not None and busiest.cores >= IDLE_CORES:
        pid = f"{busiest.name} (pid {busiest.pid})"
        advised = f"end {pid} or wait for it: it takes {busiest.cores:.1f} cores"
    elif use.knows_steal:
        advised = f"fewer other programs: they take {use.others:.1f} cores"
    return Evidence(
        "other-programs",
        text,
        f"others on {took}",
        "Other programs take the CPU" if use.knows_steal else "The CPU is taken by others",
        (f"{use.others:.1f} of {_cores(use.cores)}", f"this run {use.own:.1f}"),
        advised,
    )


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


def _own_cpus(
    use: _CpuUse | None, facts: MachineFacts, on_cpu: Sequence[Machine]
) -> Evidence | None:
    """Hold when the run itself takes what it may use of the CPUs.

    `on_cpu` are the samples where it trains on them.
    """
    if use is None or use.own is None:
        return None
    pct = min(100.0, 100 * use.own / use.allowed)
    if pct < BUSY_PCT:
        return None
    by_limit = facts.cpu_limit is not None and use.allowed == facts.cpu_limit
    idle = 0.0 if use.idle is None else use.idle
    advised = ""
    if use.allowed == use.cores:
        whole = "its one core" if use.cores == 1 else f"all {use.cores} cores"
        text = f"The run keeps {whole} busy {pct:.0f} % of the time"
    elif by_limit:
        text = f"The run takes {pct:.0f} % of the {_cores(use.allowed)} that its container may use"
        if idle >= 1:
            now = f"{use.allowed:g} now, {_cores(int(idle))} idle"
            advised = f"a higher CPU limit for the container: {now}"
    else:
        allowed = f"{use.allowed:.0f} allowed CPU{'' if use.allowed == 1 else 's'}"
        text = f"The run keeps its {allowed} (of {use.cores}) busy {pct:.0f} % of the time"
        if idle >= 1:
            advised = f"more CPUs for the run: {use.allowed:.0f} now, {_cores(int(idle))} idle"
    advised = advised or advice.use_a_gpu([gpu for one in on_cpu for gpu in one.gpus or ()])
    took = f"this run takes {use.own:.1f} of {_cores(use.allowed)}"
    figures = (took, *(() if use.idle is None else (f"{use.idle:.1f} idle",)))
    headline = "The run uses all of its CPU" + ("" if use.allowed == 1 else "s")
    return Evidence("cpu", text, f"the run's CPUs {pct:.0f} % busy", headline, figures, advised)


def _own_threads(use: _CpuUse | None, threads: int | None) -> Evidence | None:
    """Hold when the run takes the time of its threads, and more cores are there for it."""
    if use is None or use.own is None or use.idle is None or threads is None:
        return None
    free = min(use.idle, use.allowed - use.own)
    least, most = (share * threads for share in THREADS_TIME)
    if not least <= use.own <= most or free < IDLE_CORES:
        return None
    its = f"{threads} thread{'' if threads == 1 else 's'} (--threads {threads})"
    text = (
        f"The run keeps its {its} busy: {use.own:.1f} cores of CPU time, while "
        f"{use.idle:.1f} of {_cores(use.cores)} are idle"
    )
    figures = (f"{use.own:.1f} cores of CPU time", f"{use.idle:.1f} of {_cores(use.cores)} idle")
    headline = "The run's threads are busy" if threads > 1 else "The run's one thread is busy"
    advised = f"more threads: --threads {threads} now, {free:.1f} cores idle"
    brief = f"--threads {threads} at {use.own:.1f} cores"
    return Evidence("threads", text, brief, headline, figures, advised)


def _all_cores_busy(use: _CpuUse | None, samples: Sequence[Machine]) -> Evidence | None:
    """Hold when all cores are busy, and nobody knows by whom."""
    if use is None or use.own is not None:
        return None
    pct = mean_of(s.cpu.pct if s.cpu else None for s in samples)
    if pct is None or pct < BUSY_PCT:
        return None
    busy = f"{_cores(use.cores)} are busy {pct:.0f} % of the time"
    unknown = "the run's share of it isn't known"
    figures = (f"{pct:.0f} % of {_cores(use.cores)}", unknown)
    brief = f"CPU {pct:.0f} %"
    return Evidence("cores", f"{busy}, {unknown}", brief, "All cores are busy", figures)


def _quota(samples: Sequence[Machine], facts: MachineFacts) -> Evidence | None:
    pct = mean_of(s.cpu.throttled_pct if s.cpu else None for s in samples)
    if pct is None or pct < CPU_THROTTLED_PCT:
        return None
    limit = f" of {_cores(facts.cpu_limit)}" if facts.cpu_limit is not None else ""
    text = f"The container's CPU limit{limit} stopped it in {pct:.0f} % of its periods"
    now = "" if facts.cpu_limit is None else f": {facts.cpu_limit:g} now"
    return Evidence(
        "cpu-quota",
        text,
        f"stopped by the CPU limit in {pct:.0f} % of periods",
        "The container's CPU limit stops it",
        (
            f"in {pct:.0f} % of periods",
            *([] if facts.cpu_limit is None else [f"limit {_cores(facts.cpu_limit)}"]),
        ),
        f"a higher CPU limit for the container{now}",
    )


def _data_wait(
    share: float | None,
    workers: int | None,
    use: _CpuUse | None,
    gpus: Sequence[Gpu],
    samples: Sequence[Machine],
) -> Evidence | None:
    """Hold when a good part of the time went by without a batch to work on."""
    if share is None or share < WAITED_SHARE:
        return None
    text = f"Waiting for data: {100 * share:.0f} % of the time in the loader"
    figures = [f"{100 * share:.0f} % of the time in the loader"]
    gpu_pct = mean_of(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        text += f", GPU {gpus[-1].index} busy {gpu_pct:.0f} %"
        figures.append(f"GPU {gpus[-1].index} busy {gpu_pct:.0f} %")
    own_share = None if use is None or use.own is None else use.own / use.allowed
    advised = advice.against_waiting_for_data(
        workers,
        None if use is None else use.free,
        own_share,
        None if use is None else use.others,
        mean_of(s.pressure.io_pct if s.pressure else None for s in samples),
        PRESSURE_PCT,
    )
    brief = f"{100 * share:.0f} % waiting for data"
    return Evidence("data-wait", text, brief, "Waiting for data", tuple(figures), advised)


# ---- memory and disk ----


def _scarcity(samples: Sequence[Machine]) -> Iterator[Evidence]:
    """Yield what holds when memory is short, or the CPU time of a virtual machine."""
    used_mib = mean_of(s.memory.used_mib if s.memory else None for s in samples)
    rss_mib = mean_of(s.process.rss_mib if s.process else None for s in samples)
    advised = advice.against_short_memory(rss_mib, used_mib)
    swap_mib_s = mean_of(s.memory.swap_mib_s if s.memory else None for s in samples)
    if swap_mib_s is not None and swap_mib_s >= SWAPPING_MIB_S:
        text = f"Memory: {swap_mib_s:.0f} MiB/s go to and from swap"
        brief = f"swap {swap_mib_s:.0f} MiB/s"
        yield Evidence("swap", text, brief, "Too little memory", (brief,), advised)
    waited_pct = mean_of(s.pressure.memory_pct if s.pressure else None for s in samples)
    if waited_pct is not None and waited_pct >= PRESSURE_PCT:
        waited = f"some program waited for it {waited_pct:.0f} % of the time"
        brief = f"memory pressure {waited_pct:.0f} %"
        headline = "Memory is short"
        yield Evidence("memory-pressure", f"Memory: {waited}", brief, headline, (waited,), advised)
    steal_pct = mean_of(s.cpu.steal_pct if s.cpu else None for s in samples)
    if steal_pct is not None and steal_pct >= STEAL_PCT:
        text = f"The host of this virtual machine took {steal_pct:.0f} % of its CPU time (steal)"
        brief = f"steal {steal_pct:.0f} %"
        headline = "The host takes this virtual machine's CPU time"
        yield Evidence("steal", text, brief, headline, (brief,), "run it later, or elsewhere")


def _io_pressure(samples: Sequence[Machine]) -> Evidence | None:
    pct = mean_of(s.pressure.io_pct if s.pressure else None for s in samples)
    if pct is None or pct < PRESSURE_PCT:
        return None
    waited = f"some program waited for it {pct:.0f} % of the time"
    brief = f"I/O pressure {pct:.0f} %"
    return Evidence(
        "io-pressure", f"Disk: {waited}", brief, "The disk is slow to answer", (waited,)
    )


# ---- when nothing holds ----


def _measured(
    use: _CpuUse | None, samples: Sequence[Machine], gpus: Sequence[Gpu]
) -> tuple[tuple[LimitKind, str], ...]:
    figures: list[tuple[LimitKind, str]] = []
    if use is not None and use.own is not None:
        of_which = _cores(use.cores)
        if use.allowed < use.cores:
            of_which = f"the {_cores(use.allowed)} that it may use"
        figures.append((LimitKind.CPU, f"this run {use.own:.1f} of {of_which}"))
    if use is not None and use.others is not None:
        figures.append((LimitKind.CPU, f"everything else {use.others:.1f}"))
    else:
        cpu_pct = mean_of(s.cpu.pct if s.cpu else None for s in samples)
        figures += [] if cpu_pct is None else [(LimitKind.CPU, f"CPU {cpu_pct:.0f} %")]
    gpu_pct = mean_of(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        figures.append((LimitKind.GPU, f"GPU {gpus[-1].index} {gpu_pct:.0f} %"))
    thread_pct = mean_of(s.process.busiest_thread_pct if s.process else None for s in samples)
    if thread_pct is not None:
        figures.append((LimitKind.CPU, f"busiest thread {thread_pct:.0f} % of a core"))
    return tuple(figures)


def _count(value: object) -> int | None:
    """Return a number of CPUs or threads from a log's options, which may hold anything."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_CORES:
        return value
    return None
