"""The rules of what limits a run that look at the CPUs, at the GPU, and at who uses them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, Machine, Process, StepParts
from dlmon.records.sanitize import clean
from dlmon.records.training import STEP_PARTS
from dlmon.records.words import gpu_name
from dlmon.session.limits.seen import (
    BUSY_PCT,
    CPU_THROTTLED_PCT,
    IDLE_CORES,
    MIN_SAMPLES,
    MOSTLY,
    NETWORK,
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
"""From this share of what others take, a program is named."""


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

    What of its time did not wait for data, and was not its own code, was computing.
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
    figures = (use.own_text, *(() if use.idle is None else (f"{use.idle:.1f} idle",)))
    uses = seen.verb("uses", "used")
    headline = f"The run {uses} all of its CPU" + ("" if use.allowed == 1 else "s")
    brief = f"the run's CPUs {pct:.0f} % busy"
    share = _computing_share(seen)
    if share is None and seen.waited_share is not None:
        share = 1 - seen.waited_share
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


# Below this share of the time a GPU is said to wait, above it its clock matters.
WORKING_GPU_PCT = 60.0
NEAR_POWER_LIMIT, NEARLY_SO = 0.95, 0.92
SHARED_GPU_MIB = 512
LONGEST_REASON = 80
# What runs its threads in turn takes little more.
ONE_CORE_PCT = 125.0
FREE_SHARE = 0.5
"""A memory with so much of it free has room for a larger batch."""
LOW_POWER, AT_POWER_LIMIT = 0.5, 0.9
# What a copy reaches is some 90 % of the bandwidth, and a large matrix product of the tensor cores.
BANDWIDTH_PCT, TENSOR_PCT, FEW_SMS_PCT = 70.0, 60.0, 30.0
# From so much of the time on, what loads the data is worth a look.
WAITED_SHARE = 0.1

# What the records call a throttle reason, and what NVML does (nvmlClocksEventReasons).
HEAT = {
    "thermal slowdown": "SW thermal slowdown",
    "hardware thermal slowdown": "HW thermal slowdown",
}
_POWER_CAP, _POWER_BRAKE, _SLOWDOWN = "power cap", "power brake", "hardware slowdown"
_SLOWED_BY = {
    "gpu-thermal": "heat",
    "gpu-power-brake": "an external power brake",
    "gpu-slowdown": "its hardware",
    "gpu-power-cap": "its power cap",
}


def gpu_lost(
    samples: Sequence[Machine], newest: Machine, gpus: Sequence[int], ended: bool
) -> Evidence | None:
    """Hold when a GPU that is trained on gave readings, and the `newest` sample has none."""
    lost = (_lost(samples, newest, number) for number in gpus if not ended)
    return next((evidence for evidence in lost if evidence is not None), None)


def _lost(samples: Sequence[Machine], newest: Machine, number: int) -> Evidence | None:
    rows = [_row_of(sample, number) for sample in samples]
    latest = _row_of(newest, number)
    state = newest.gpus_state if latest is None else latest.state
    was_read = any(row is not None and _is_read(row) for row in rows)
    may_answer = state is not None and state.may_answer_later
    if (latest is not None and _is_read(latest)) or not (was_read or may_answer):
        return None
    why = newest.why.get("gpus") if latest is None else latest.why.get("utilization_pct")
    reason = clean(why or "", LONGEST_REASON) or (str(state) if may_answer else "no reason known")
    headline = f"GPU {number} gives no readings now"
    brief = f"GPU {number} gives no readings"
    return Evidence("gpu-lost", brief, headline, (reason,))


def _row_of(sample: Machine, index: int) -> Gpu | None:
    return next((gpu for gpu in sample.gpus or () if gpu.index == index), None)


def _is_read(gpu: Gpu) -> bool:
    """Whether it tells what it does: of one that is divided or old, not all is known."""
    is_gone = gpu.state is not None and gpu.state.may_answer_later
    said = (gpu.utilization_pct, gpu.power_w, gpu.temperature_c, gpu.memory_used_mib)
    if is_gone and gpu.utilization_pct is None:
        return False
    return any(figure is not None for figure in said)


def gpu_works(seen: Seen) -> Evidence | None:
    """Hold when the GPU's clock is held down while it works, or when it is busy."""
    busy_pct = seen.gpu_pct
    if not seen.gpus or (busy_pct is not None and not seen.reaches(busy_pct, WORKING_GPU_PCT)):
        return None
    share = None if busy_pct is None else busy_pct / 100
    name = seen.gpu_name
    busy = [] if busy_pct is None else [f"busy {busy_pct:.0f} % of the time"]
    power_w = seen.gpu_mean(lambda gpu: gpu.power_w)
    limit_w = seen.gpu_mean(lambda gpu: gpu.power_limit_w)
    power = ""
    if power_w is not None:
        power = f"{power_w:.0f} of {limit_w:.0f} W" if limit_w else f"{power_w:.0f} W"
    slowed = _slowed_by(seen)
    if slowed:
        rules, causes = zip(*slowed, strict=True)
        # A power cap is its own evidence with the power.
        named = list(causes[rules[0] == "gpu-power-cap" and bool(power) :])
        figures = (*named, *([power] if power else []), *busy)
        return Evidence(
            rules[0],
            f"{name} slowed by {causes[0]}",
            f"{name} {seen.gpu_is} slowed by {_SLOWED_BY[rules[0]]}",
            figures,
            _against_slowing(rules[0], seen, power_w, limit_w),
            share,
        )
    if busy_pct is None or not seen.is_busy(busy_pct):
        return None
    brief, often = f"{name} {busy_pct:.0f} % busy", f"{busy_pct:.0f} % of the time"
    of_power = power_w / limit_w if power_w is not None and limit_w else None
    if of_power is not None and of_power >= (NEARLY_SO if seen.holds else NEAR_POWER_LIMIT):
        near = f"near {seen.gpu_its} power limit"
        headline = f"{name} {seen.gpu_verb('works', 'work', 'worked')} {near}"
        brief += f", {near}"
        return Evidence("gpu-near-power", brief, headline, (often, power), share=share)
    figures = (often, *([f"at {power}"] if power else []))
    found = _counted(seen)
    if found is not None:
        rule, headline, figure, advised = found
        return Evidence(rule, f"{brief}, {figure}", headline, (*figures, figure), advised, share)
    advised = ""
    if of_power is not None and of_power < LOW_POWER:
        # Its kernels don't fill it: a larger batch gives each of them more to do.
        advised = _larger_batch(seen)
    return Evidence("gpu", brief, f"{name} {seen.gpu_is} busy", figures, advised, share)


def _counted(seen: Seen) -> tuple[str, str, str, str] | None:
    """Return what of a busy GPU is used up, or lies idle, by the counters of its hardware.

    That is a rule, a headline, the figure and the advice. How long its memory was busy says nothing
    of its bandwidth: before Hopper, nothing is known.
    """
    name, its = seen.gpu_name, seen.gpu_its
    dram_pct = seen.gpu_mean(lambda gpu: gpu.dram_pct)
    if dram_pct is not None and seen.reaches(dram_pct, BANDWIDTH_PCT):
        return (
            "gpu-memory",
            f"{name} {seen.gpu_verb('works', 'work', 'worked')} near {its} memory bandwidth",
            f"{dram_pct:.0f} % of the memory bandwidth",
            "move less memory: a smaller data type, or kernels that a compiler fuses",
        )
    tensor_pct = seen.gpu_mean(lambda gpu: gpu.tensor_pct)
    if tensor_pct is not None and seen.reaches(tensor_pct, TENSOR_PCT):
        headline = f"{name} {seen.gpu_is} busy on the tensor cores"
        return "gpu-tensor", headline, f"tensor cores {tensor_pct:.0f} %", ""
    sm_pct = seen.gpu_mean(lambda gpu: gpu.sm_active_pct)
    if sm_pct is None or not seen.is_below(sm_pct, FEW_SMS_PCT):
        return None
    advised = ""
    # Several wait for each other in kernels of few SMs: then no larger one helps.
    if len(seen.gpu_numbers) < 2:
        advised = (
            _larger_batch(seen)
            or "run fewer, larger kernels: compile the model, or use CUDA graphs"
        )
    headline = f"{name} {seen.gpu_is} busy, most of {its} SMs {seen.verb('are', 'were')} not"
    return "gpu-kernels", headline, f"{sm_pct:.0f} % of the SMs active", advised


def _against_slowing(rule: str, seen: Seen, power_w: float | None, limit_w: float | None) -> str:
    if rule == "gpu-thermal":
        degrees = seen.gpu_mean(lambda gpu: gpu.temperature_c)
        fan_pct = seen.gpu_mean(lambda gpu: gpu.fan_pct)
        at = ", ".join(
            [
                *([] if degrees is None else [f"{degrees:.0f} °C"]),
                *([] if fan_pct is None else [f"fan at {fan_pct:.0f} %"]),
            ]
        )
        return f"cool the GPU better: {at}" if at else "cool the GPU better"
    # Only where the power is there.
    if rule == "gpu-power-cap" and limit_w and (power_w or 0) >= AT_POWER_LIMIT * limit_w:
        return f"raise the power limit: from {limit_w:.0f} W, if the card allows more"
    return ""


def _larger_batch(seen: Seen) -> str:
    """Return that the batch may grow, where much of the GPU's memory is free."""
    total_mib = seen.gpu_facts.memory_mib if seen.gpu_facts is not None else None
    used_mib = max((gpu.memory_used_mib or 0 for gpu in seen.gpus), default=0)
    if not total_mib or not used_mib or used_mib > (1 - FREE_SHARE) * total_mib:
        return ""
    return f"use a larger batch: {used_mib / 1024:.1f} of {total_mib / 1024:.1f} GiB used"


def _slowed_by(seen: Seen) -> list[tuple[str, str]]:
    """Return the rule and the words for each throttle reason of most of the readings."""
    readings = [gpu.throttle for gpu in seen.gpus if gpu.throttle is not None]
    if len(readings) < MIN_SAMPLES:
        return []
    times = Counter(reason for reasons in readings for reason in set(reasons))
    shares = {reason: count / len(readings) for reason, count in times.items()}
    # In how many of the readings, where it isn't all of them.
    often = {
        reason: "" if share > 0.95 else f" in {100 * share:.0f} % of readings"
        for reason, share in shares.items()
        if share > 0.5 or (seen.holds and seen.reaches(share, 0.5))
    }
    found = []
    heat = [reason for reason in HEAT if reason in often]
    if heat:
        names = " and ".join(HEAT[reason] for reason in heat)
        degrees = seen.gpu_mean(lambda gpu: gpu.temperature_c)
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


def one_core(seen: Seen) -> Evidence | None:
    """Hold when the GPU waits while one thread, or the threads of one process in turn, has a core.

    Python runs one thread at a time: PyTorch computes the gradients in another one than the rest.
    Whether the core feeds the GPU isn't known.
    """
    gpu_pct, thread_pct, process_pct = seen.gpu_pct, seen.thread_pct, seen.process_pct
    if gpu_pct is None or gpu_pct >= BUSY_PCT:
        return None
    if thread_pct is not None and seen.is_busy(thread_pct):
        what, pct = "thread", thread_pct
    elif process_pct is not None and seen.is_busy(process_pct) and process_pct <= ONE_CORE_PCT:
        what, pct = "process", process_pct
    else:
        return None
    beside = f"{seen.gpu_name} at {gpu_pct:.0f} %"
    was = seen.verb("is", "was")
    # Where it is known not to load data, more work per step gives the GPU more to do.
    loads_nothing = seen.waited_share is not None and seen.waited_share < WAITED_SHARE
    return Evidence(
        "thread",
        f"one {what} at {pct:.0f} %, {beside}",
        f"{seen.gpu_name} {seen.gpu_verb('waits', 'wait', 'waited')}, one {what} {was} busy",
        (f"{what} at {pct:.0f} % of a core", beside),
        _larger_batch(seen) if loads_nothing else "",
    )


# From so much of a step on, a part of it is worth a word; so many steps say what it is.
OPTIMIZER_SHARE, COPY_SHARE, LEAST_STEPS = 0.15, 0.1, 5
# Others that have the option can't be fused on every device.
FUSABLE = ("Adam", "AdamW", "SGD")


def optimizer_share(seen: Seen) -> Evidence | None:
    """Hold when a good part of a step is the optimiser's, and that could step in one kernel."""
    share, model = _share_of_step(seen, "optimizer_us"), seen.model
    if share is None or not seen.reaches(share, OPTIMIZER_SHARE):
        return None
    can_fuse = model is not None and model.fused is False and model.optimizer in FUSABLE
    if not can_fuse and not _is_largest(seen, share):
        return None
    name, took = model and model.optimizer, f"optimiser {100 * share:.0f} %"
    backward = _share_of_step(seen, "backward_us")
    beside = "" if backward is None else f"backward {100 * backward:.0f} %, "
    takes = seen.verb("takes", "took")
    of_step = f"the optimiser {takes} {100 * share:.0f} % of a step"
    return Evidence(
        "optimizer",
        f"{took} of a step",
        f"The optimiser {takes} a good part of a step",
        (f"{beside}{took}", *([f"{name} {seen.verb('is', 'was')} not fused"] if can_fuse else ())),
        f"step with {name}(…, fused=True): {of_step}" if can_fuse else "",
        share,
    )


def copy_share(seen: Seen) -> Evidence | None:
    """Hold when the GPU waits for batches to be copied from memory that isn't pinned."""
    share, model = _share_of_step(seen, "copy_us"), seen.model
    if share is None or not seen.reaches(share, COPY_SHARE):
        return None
    can_pin = model is not None and model.pin_memory is False
    if not can_pin and not _is_largest(seen, share):
        return None
    copied = f"{100 * share:.0f} % of a step, the copy of the batch in it"
    return Evidence(
        "copy",
        f"copy {100 * share:.0f} % of a step",
        f"Time {seen.verb('goes', 'went')} by before the network runs",
        (copied, *([f"pin_memory {seen.verb('is', 'was')} False"] if can_pin else ())),
        "load with pin_memory=True, and copy the batch with non_blocking=True" if can_pin else "",
        share,
    )


def own_code(seen: Seen) -> Evidence | None:
    """Hold when most of what a step is made of is neither data, nor network, nor optimiser."""
    parts = _parts(seen)
    if parts is None or not _is_largest(seen, parts.rest_us / parts.step_us):
        return None
    share = parts.rest_us / parts.step_us
    pct = f"{100 * share:.0f} %"
    return Evidence(
        "own-code",
        f"other code {pct} of a step",
        f"The largest part of a step {seen.verb('is', 'was')} other code",
        (f"{pct}, in neither loader, network nor optimiser",),
        share=share,
    )


def network(seen: Seen) -> Evidence | None:
    """Hold when the network takes the largest part of a step."""
    forward, backward = (_share_of_step(seen, name) for name in ("forward_us", "backward_us"))
    share = (forward or 0.0) + (backward or 0.0)
    if not share or not _is_largest(seen, share):
        return None
    known = (("forward", forward), ("backward", backward))
    figures = tuple(f"{name} {100 * of:.0f} %" for name, of in known if of is not None)
    headline = f"The largest part of a step {seen.verb('is', 'was')} forward and backward"
    brief = f"forward and backward {100 * share:.0f} % of a step"
    return Evidence(NETWORK, brief, headline, figures, share=share)


def _is_largest(seen: Seen, share: float) -> bool:
    """Whether no other part of a step is larger; what goes forward and backward is one."""
    parts = _parts(seen)
    if parts is None:
        return False
    took = {name: parts.share(name) or 0.0 for name in STEP_PARTS}
    took["forward_us"] += took.pop("backward_us")
    return seen.reaches(share, max(*took.values(), parts.rest_us / parts.step_us))


def _computing_share(seen: Seen) -> float | None:
    """Return the share of a step that the network and the optimiser take."""
    of = [_share_of_step(seen, name) for name in ("forward_us", "backward_us", "optimizer_us")]
    return None if _parts(seen) is None else sum(share or 0.0 for share in of)


def _parts(seen: Seen) -> StepParts | None:
    """Return what steps went into, where enough of them were measured."""
    return None if seen.parts is None or seen.parts.steps < LEAST_STEPS else seen.parts


def _share_of_step(seen: Seen, name: str) -> float | None:
    parts = _parts(seen)
    return None if parts is None else parts.share(name)


def gpu_shared(seen: Seen) -> Evidence | None:
    """Hold when another program has memory on the GPU that is trained on."""
    if seen.is_lost:
        return None
    rows = next((s.processes for s in reversed(seen.samples) if s.processes is not None), ())
    others = [row for row in rows if row.is_other_on(seen.gpu_numbers)]
    most = max(others, key=lambda row: row.gpu_memory_mib or 0, default=None)
    if most is None or (most.gpu_memory_mib or 0) < SHARED_GPU_MIB:
        return None
    name = program_name(most.command) or "unnamed"
    shared = [number for number in seen.gpu_numbers if number in most.gpus]
    held = f"{(most.gpu_memory_mib or 0) / 1024:.1f} GiB"
    its = f"{name} (pid {most.pid})"
    has, is_there = seen.verb("has", "had"), seen.verb("is", "was")
    return Evidence(
        "gpu-shared",
        f"{name} on {gpu_name(shared)}",
        f"Another program {is_there} on {gpu_name(shared)}",
        (f"{name}, pid {most.pid}", f"{has} {held}"),
        seen.verb(f"wait for {its} to end", f"train without {its} on the GPU")
        + ", if it computes there",
    )


def allocator_frees(seen: Seen) -> Evidence | None:
    """Hold when the allocator freed all that it kept, for which the GPU is waited for."""
    if not seen.retries or seen.is_lost:
        return None
    times = "once" if seen.retries == 1 else f"{seen.retries:,} times"
    return Evidence(
        "allocator",
        f"GPU memory short {times}",
        f"GPU memory {seen.verb('is', 'was')} short",
        (f"the allocator freed all that it kept {times}, to go on",),
        "use a smaller batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    )
