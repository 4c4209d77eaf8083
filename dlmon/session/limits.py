"""Say what limits a run, with the figures that show it.

Pure. Every rule looks at the samples of the last half minute of steady training
and states what was measured, no cause that wasn't: on TensorFlow the wait for
input happens inside the training function and can't be seen. All rules that hold
are kept, and the sentence names the two strongest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dlmon.records import Gpu, Machine, MachineFacts, Process
from dlmon.records.record import record
from dlmon.records.sanitize import clean

WINDOW_S = 30.0
MIN_SAMPLES = 5
# From so much of the time on, what loads the data is worth a look.
WAITED_SHARE = 0.1
BUSY_PCT = 90.0
# Below this share of the time a GPU is said to wait, above it its clock matters.
WORKING_GPU_PCT = 60.0
NEAR_POWER_LIMIT = 0.95
LOW_POWER = 0.5
SWAPPING_MIB_S = 1.0
CPU_THROTTLED_PCT = 5.0
STEAL_PCT = 5.0
PRESSURE_PCT = 10.0
IDLE_CORES = 0.5
# How far over its number of threads a run's CPU time may be: it has others, such as Python's own.
THREADS_TIME = (0.9, 1.25)
SHARED_GPU_MIB = 512
MAX_CORES = 1_000_000
NAMED_CORES = 0.1
NAMED_IN_FULL = 2
NAME_CHARACTERS = 24

_INTERPRETER = re.compile(r"(python[\d.]*|bash|sh|dash|zsh|node|perl|ruby)")
_TAKES_A_VALUE = ("-W", "-X")

# What the records call a throttle reason, and what NVML does (nvmlClocksEventReasons).
_HEAT = {
    "thermal slowdown": "SW thermal slowdown",
    "hardware thermal slowdown": "HW thermal slowdown",
}
_POWER_CAP, _POWER_BRAKE, _SLOWDOWN = "power cap", "power brake", "hardware slowdown"


@record(frozen=True)
class Evidence:
    """One rule that holds: a clause that states what was measured, and its figure in short."""

    rule: str
    text: str
    brief: str


@record(frozen=True)
class Limit:
    """What limits a run: `rule` names the strongest that held, `text` is for a person.

    `evidence` is all that held, the strongest first; none where it isn't clear.
    """

    rule: str
    text: str
    evidence: tuple[Evidence, ...] = ()


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
    found = (
        _data_wait(waited_share, workers, use, gpus),
        _gpu(gpus),
        _quota(samples, facts),
        _other_programs(use, samples),
        _own_cpus(use, facts),
        _own_threads(use, _count(threads)),
        _all_cores_busy(use, samples),
        *_scarcity(samples),
        _one_thread(samples, gpus),
        _io_pressure(samples),
        _gpu_shared(samples, gpu_index),
    )
    evidence = tuple(one for one in found if one is not None)
    if not evidence:
        return Limit("not-clear", _not_clear(use, samples, gpus))
    # The strongest in full and the others in short: none hides another.
    text = " ".join(f"{one.text}." for one in evidence[:NAMED_IN_FULL])
    others = ", ".join(one.brief for one in evidence[NAMED_IN_FULL:])
    return Limit(evidence[0].rule, f"{text} Also: {others}." if others else text, evidence)


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
        own_pct = _mean(s.process.cpu_pct if s.process else None for s in samples)
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
    text = f"{who} {took}{_busiest_other(samples, use.others)}; this run {use.own:.1f}"
    return Evidence("other-programs", text, f"others on {took}")


def _busiest_other(samples: Sequence[Machine], others: float) -> str:
    """Name the busiest program that isn't the run's, as far as the process table knows one."""
    took: dict[int, float] = {}
    rows: dict[int, Process] = {}
    for sample in samples:
        for row in sample.processes or ():
            if row.of_run is False and row.cpu_pct:
                took[row.pid] = took.get(row.pid, 0.0) + row.cpu_pct / 100 / len(samples)
                rows[row.pid] = row
    if not took:
        return ""
    pid = max(took, key=lambda pid: took[pid])
    name = program_name(rows[pid].command)
    if name is None or took[pid] < NAMED_CORES:
        return ""
    # Others may not be seen from here: only what has half of it has the most for certain.
    share = "most" if took[pid] >= others / 2 else f"{took[pid]:.1f}"
    return f" ({share}: {name}, pid {pid})"


def program_name(command: str | None) -> str | None:
    """Return what a person calls a program: without its folder, the script and not its interpreter.

    None where the command isn't known.
    """
    first, *rest = (command or "").split() or [""]
    name = first if first.startswith("[") else first.rpartition("/")[2]
    if _INTERPRETER.fullmatch(name):
        name = _script(rest) or name
    return clean(name, NAME_CHARACTERS) or None


def _script(words: Sequence[str]) -> str | None:
    """Return the module or the script that an interpreter was given; None for what is neither."""
    following = iter(words)
    for word in following:
        if word == "-m":
            return next(following, None)
        if word in _TAKES_A_VALUE:
            next(following, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return word.rpartition("/")[2]
    return None


def _own_cpus(use: _CpuUse | None, facts: MachineFacts) -> Evidence | None:
    """Hold when the run itself takes what it may use of the CPUs."""
    if use is None or use.own is None:
        return None
    pct = min(100.0, 100 * use.own / use.allowed)
    if pct < BUSY_PCT:
        return None
    by_limit = facts.cpu_limit is not None and use.allowed == facts.cpu_limit
    if use.allowed == use.cores:
        whole = "its one core" if use.cores == 1 else f"all {use.cores} cores"
        text = f"The run keeps {whole} busy {pct:.0f} % of the time"
    elif by_limit:
        text = f"The run takes {pct:.0f} % of the {_cores(use.allowed)} that its container may use"
    else:
        allowed = f"{use.allowed:.0f} allowed CPU{'' if use.allowed == 1 else 's'}"
        text = f"The run keeps its {allowed} (of {use.cores}) busy {pct:.0f} % of the time"
    return Evidence("cpu", text, f"the run's CPUs {pct:.0f} % busy")


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
    return Evidence("threads", text, f"--threads {threads} at {use.own:.1f} cores")


def _all_cores_busy(use: _CpuUse | None, samples: Sequence[Machine]) -> Evidence | None:
    """Hold when all cores are busy, and nobody knows by whom."""
    if use is None or use.own is not None:
        return None
    pct = _mean(s.cpu.pct if s.cpu else None for s in samples)
    if pct is None or pct < BUSY_PCT:
        return None
    busy = f"{_cores(use.cores)} are busy {pct:.0f} % of the time"
    return Evidence("cores", f"{busy}, the run's share of it isn't known", f"CPU {pct:.0f} %")


def _quota(samples: Sequence[Machine], facts: MachineFacts) -> Evidence | None:
    pct = _mean(s.cpu.throttled_pct if s.cpu else None for s in samples)
    if pct is None or pct < CPU_THROTTLED_PCT:
        return None
    limit = f" of {_cores(facts.cpu_limit)}" if facts.cpu_limit is not None else ""
    text = f"The container's CPU limit{limit} stopped it in {pct:.0f} % of its periods"
    return Evidence("cpu-quota", text, f"stopped by the CPU limit in {pct:.0f} % of periods")


def _data_wait(
    share: float | None, workers: int | None, use: _CpuUse | None, gpus: Sequence[Gpu]
) -> Evidence | None:
    """Hold when a good part of the time went by without a batch to work on."""
    if share is None or share < WAITED_SHARE:
        return None
    text = f"Waiting for data: {100 * share:.0f} % of the time in the loader"
    gpu_pct = _mean(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        text += f", GPU {gpus[-1].index} busy {gpu_pct:.0f} %"
    if workers is not None and use is not None and use.idle is not None:
        idle = int(min(use.idle, use.allowed))
        if idle >= 1:
            text += f": more workers may help (now {workers}, {_cores(idle)} idle)"
    return Evidence("data-wait", text, f"{100 * share:.0f} % waiting for data")


# ---- memory and disk ----


def _scarcity(samples: Sequence[Machine]) -> Iterator[Evidence]:
    """Yield what holds when memory is short, or the CPU time of a virtual machine."""
    swap_mib_s = _mean(s.memory.swap_mib_s if s.memory else None for s in samples)
    if swap_mib_s is not None and swap_mib_s >= SWAPPING_MIB_S:
        text = f"Memory: {swap_mib_s:.0f} MiB/s go to and from swap"
        yield Evidence("swap", text, f"swap {swap_mib_s:.0f} MiB/s")
    waited_pct = _mean(s.pressure.memory_pct if s.pressure else None for s in samples)
    if waited_pct is not None and waited_pct >= PRESSURE_PCT:
        text = f"Memory: some program waited for it {waited_pct:.0f} % of the time"
        yield Evidence("memory-pressure", text, f"memory pressure {waited_pct:.0f} %")
    steal_pct = _mean(s.cpu.steal_pct if s.cpu else None for s in samples)
    if steal_pct is not None and steal_pct >= STEAL_PCT:
        text = f"The host of this virtual machine took {steal_pct:.0f} % of its CPU time (steal)"
        yield Evidence("steal", text, f"steal {steal_pct:.0f} %")


def _io_pressure(samples: Sequence[Machine]) -> Evidence | None:
    pct = _mean(s.pressure.io_pct if s.pressure else None for s in samples)
    if pct is None or pct < PRESSURE_PCT:
        return None
    text = f"Disk: some program waited for it {pct:.0f} % of the time"
    return Evidence("io-pressure", text, f"I/O pressure {pct:.0f} %")


# ---- the GPU ----


def _gpu(gpus: Sequence[Gpu]) -> Evidence | None:
    """Hold when the GPU's clock is held down while it works, or when it is busy."""
    busy_pct = _mean(gpu.utilization_pct for gpu in gpus)
    if not gpus or (busy_pct is not None and busy_pct < WORKING_GPU_PCT):
        return None
    name = f"GPU {gpus[-1].index}"
    busy = [] if busy_pct is None else [f"busy {busy_pct:.0f} % of the time"]
    power_w = _mean(gpu.power_w for gpu in gpus)
    limit_w = _mean(gpu.power_limit_w for gpu in gpus)
    power = ""
    if power_w is not None:
        power = f"{power_w:.0f} of {limit_w:.0f} W" if limit_w else f"{power_w:.0f} W"
    slowed = _slowed_by(gpus)
    if slowed:
        rules, causes = zip(*slowed, strict=True)
        parts = [*busy, f"slowed by {' and by '.join(causes)}", *([power] if power else [])]
        return Evidence(rules[0], f"{name}: {', '.join(parts)}", f"{name} slowed by {causes[0]}")
    if busy_pct is None or busy_pct < BUSY_PCT:
        return None
    brief = f"{name} {busy_pct:.0f} % busy"
    share = power_w / limit_w if power_w is not None and limit_w else None
    if share is not None and share >= NEAR_POWER_LIMIT:
        text = f"{name}: {busy[0]}, near its power limit ({power})"
        return Evidence("gpu-near-power", text, f"{brief}, near its power limit")
    text = f"{name}: {busy[0]}{f', at {power}' if power else ''}"
    if share is not None and share < LOW_POWER:
        text += ": busy says only that some kernel ran"
    return Evidence("gpu", text, brief)


def _slowed_by(gpus: Sequence[Gpu]) -> list[tuple[str, str]]:
    """Return the rule and the words for each throttle reason of most of the readings."""
    readings = [gpu.throttle for gpu in gpus if gpu.throttle is not None]
    if len(readings) < MIN_SAMPLES:
        return []
    times = Counter(reason for reasons in readings for reason in set(reasons))
    shares = {reason: count / len(readings) for reason, count in times.items()}
    # In how many of the readings, where it isn't all of them.
    often = {
        reason: "" if share > 0.95 else f" in {100 * share:.0f} % of readings"
        for reason, share in shares.items()
        if share > 0.5
    }
    found = []
    heat = [reason for reason in _HEAT if reason in often]
    if heat:
        names = " and ".join(_HEAT[reason] for reason in heat)
        degrees = _mean(gpu.temperature_c for gpu in gpus)
        at = f" at {degrees:.0f} °C" if degrees is not None else ""
        most_often = max(heat, key=lambda reason: shares[reason])
        found.append(("gpu-thermal", f"{names}{at}{often[most_often]}"))
    if _POWER_BRAKE in often:
        found.append(("gpu-power-brake", f"HW power brake (external){often[_POWER_BRAKE]}"))
    if _SLOWDOWN in often and not {"hardware thermal slowdown", _POWER_BRAKE} & often.keys():
        found.append(("gpu-slowdown", f"HW slowdown{often[_SLOWDOWN]}"))
    if _POWER_CAP in often:
        found.append(("gpu-power-cap", f"SW power cap{often[_POWER_CAP]}"))
    return found


def _one_thread(samples: Sequence[Machine], gpus: Sequence[Gpu]) -> Evidence | None:
    """Hold when the GPU waits while one thread has a core: whether it feeds the GPU isn't known."""
    gpu_pct = _mean(gpu.utilization_pct for gpu in gpus)
    thread_pct = _mean(s.process.busiest_thread_pct if s.process else None for s in samples)
    if gpu_pct is None or thread_pct is None:
        return None
    if gpu_pct >= WORKING_GPU_PCT or thread_pct < BUSY_PCT:
        return None
    beside = f"GPU {gpus[-1].index} at {gpu_pct:.0f} %"
    text = f"One thread of this run is at {thread_pct:.0f} % of a core, {beside}"
    return Evidence("thread", text, f"one thread at {thread_pct:.0f} %, {beside}")


def _gpu_shared(samples: Sequence[Machine], gpu_index: int | None) -> Evidence | None:
    """Hold when another program has memory on the GPU that is trained on."""
    rows = next((s.processes for s in reversed(samples) if s.processes is not None), ())
    others = [
        row
        for row in rows
        if row.of_run is False
        and gpu_index in row.gpus
        and (row.gpu_memory_mib or 0) >= SHARED_GPU_MIB
    ]
    if not others:
        return None
    most = max(others, key=lambda row: row.gpu_memory_mib or 0)
    name = program_name(most.command) or "unnamed"
    holds = f"{(most.gpu_memory_mib or 0) / 1024:.1f} GiB"
    text = f"Another program has {holds} on GPU {gpu_index} ({name}, pid {most.pid})"
    return Evidence("gpu-shared", text, f"{name} on GPU {gpu_index}")


# ---- when nothing holds ----


def _not_clear(use: _CpuUse | None, samples: Sequence[Machine], gpus: Sequence[Gpu]) -> str:
    figures: list[str] = []
    if use is not None and use.own is not None:
        of_which = _cores(use.cores)
        if use.allowed < use.cores:
            of_which = f"the {_cores(use.allowed)} that it may use"
        figures.append(f"this run {use.own:.1f} of {of_which}")
    if use is not None and use.others is not None:
        figures.append(f"everything else {use.others:.1f}")
    else:
        cpu_pct = _mean(s.cpu.pct if s.cpu else None for s in samples)
        figures += [] if cpu_pct is None else [f"CPU {cpu_pct:.0f} %"]
    gpu_pct = _mean(gpu.utilization_pct for gpu in gpus)
    if gpu_pct is not None:
        figures.append(f"GPU {gpus[-1].index} {gpu_pct:.0f} %")
    thread_pct = _mean(s.process.busiest_thread_pct if s.process else None for s in samples)
    if thread_pct is not None:
        figures.append(f"busiest thread {thread_pct:.0f} % of a core")
    return f"Not clear: {', '.join(figures) or 'nothing is measured'}."


def _cores(count: float) -> str:
    return f"{count:g} core{'' if count == 1 else 's'}"


def _count(value: object) -> int | None:
    """Return a number of CPUs or threads from a log's options, which may hold anything."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_CORES:
        return value
    return None


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean, None where too few readings are known to stand for the half minute."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) >= MIN_SAMPLES else None
