"""The rules about CPUs, GPUs and the parts of a step that find the limit of a run."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, Machine, StepParts
from dlmon.records.sanitize import clean
from dlmon.records.stacks import place_text
from dlmon.records.training import STEP_PARTS
from dlmon.records.words import GpuState, gpu_name
from dlmon.script_name import program_name
from dlmon.session.limits.evidence import FORWARD, IDLE, NETWORK, OWN_CODE, TIE, Evidence
from dlmon.session.limits.run_samples import (
    BUSY_PCT,
    CPU_THROTTLED_PCT,
    IDLE_CORES,
    MIN_SAMPLES,
    MOSTLY,
    RunSamples,
    count_of,
    mean_of,
)

# The CPU time of a run whose threads are busy, per thread: it has more threads, such as Python's.
THREADS_TIME = (0.9, 1.25)
# A run hardly waits for a GPU below this utilisation.
IDLE_GPU_PCT = 20.0
NAMED_CORES = 0.1
TO_COMPILE = "compile the model, or "
"""The advice to compile, within other advice."""
FEWER_KERNELS = f"run fewer, larger kernels: {TO_COMPILE}use CUDA graphs"
PIN_ADVICE = "load with pin_memory=True, and copy the batch with non_blocking=True"
IDLE_PCT = 10.0


def other_programs(run: RunSamples) -> Evidence | None:
    """Return evidence if other programs use CPU time that the run wants."""
    use = run.cpu_use
    if use is None or use.run_cores is None or use.other_cores is None or use.idle_cores is None:
        return None
    if not run.wants_cpu:
        return None
    take, takes = run.verb("take", "took"), run.verb("takes", "took")
    busy_pct = 100 - 100 * use.idle_cores / use.cores
    spare = use.cores - BUSY_PCT / 100 * use.allowed_cores
    if not run.is_busy(busy_pct) or not run.reaches(use.other_cores, spare):
        return None
    pid, program, used_cores = _busiest_other(run.samples)
    named = advice = ""
    # From within a container, the busiest program may not be seen.
    is_named = program and used_cores >= use.other_cores * _WORTH_NAMING
    if is_named:
        # Some programs may be hidden from us: only one with half of the time surely has the most.
        part = "most" if used_cores >= use.other_cores / 2 else f"{used_cores:.1f}"
        named = f" ({part}: {program}, pid {pid})"
    if is_named and used_cores >= IDLE_CORES:
        program = f"{program} (pid {pid})"
        action = run.verb(f"end or pause {program}", f"train without {program} beside it")
        advice = f"{action}: it {takes} {used_cores:.1f} cores"
    elif use.knows_steal:
        advice = stop_other_programs(run, use.other_cores)
    who = "other programs" if use.knows_steal else "others"
    reasons = [
        *([] if use.waited_share is None else ["waiting for a CPU"]),
        f"{who} {take} {use.other_cores:.1f} of {cores(use.cores)}{named}",
        f"this run {use.run_cores:.1f}",
    ]
    share = run.explained(use.waited_share)
    figure = "" if use.waited_share is None else f"{100 * use.waited_share:.0f} %"
    return Evidence("other-programs", figure, tuple(reasons), advice, share)


_WORTH_NAMING = 0.25
"""A program that takes this share of the CPU time of all other programs is named."""
LINE_SHARE = 0.6
"""A line of the script's own code is named if it explains this share of that code's time."""


def _busiest_other(samples: Sequence[Machine]) -> tuple[int, str, float]:
    """Return the pid, name and cores of the busiest program outside the run; no name if unknown."""
    used_cores: defaultdict[int, float] = defaultdict(float)
    commands: dict[int, str | None] = {}
    for sample in samples:
        for row in sample.processes or ():
            if row.of_run is False and row.cpu_pct:
                used_cores[row.pid] += row.cpu_pct / 100 / len(samples)
                commands[row.pid] = row.command
    pid = max(commands, key=lambda pid: used_cores[pid], default=0)
    name = program_name(commands.get(pid)) if used_cores[pid] >= NAMED_CORES else None
    return pid, name or "", used_cores[pid]


def stop_other_programs(run: RunSamples, other_cores: float) -> str:
    """Return the advice to stop other programs."""
    return f"stop other programs: they {run.verb('take', 'took')} {other_cores:.1f} cores"


def _raise_cpu_limit(limit: float | None) -> str:
    """Return the advice to raise a container's CPU limit."""
    return f"raise the container's CPU limit{'' if limit is None else f' of {cores(limit)}'}"


def _use_a_gpu(run: RunSamples) -> str:
    """Return the advice to train on an idle GPU; empty if there is none."""
    busy: dict[int, list[int]] = {}
    for gpu in (gpu for sample in run.samples for gpu in sample.gpus or ()):
        if gpu.utilization_pct is not None:
            busy.setdefault(gpu.index, []).append(gpu.utilization_pct)
    idle = [(index, max(pcts)) for index, pcts in sorted(busy.items()) if max(pcts) < IDLE_PCT]
    for index, most_pct in idle[:1]:
        return f"train on GPU {index}, if the framework can use it: at most {most_pct} % busy"
    return ""


def _idle_gpus(run: RunSamples) -> str:
    """Return the advice to train on more GPUs; empty unless others of the same model are idle."""
    names = {gpu.index: gpu.name for gpu in run.facts.gpus or ()}
    name = None if run.gpu_facts is None else run.gpu_facts.name
    alike = [index for index in names if name is not None and names[index] == name]
    idle = [index for index in alike if index not in run.gpu_numbers and _is_idle(run, index)]
    if not idle:
        return ""
    are = run.verb("is" if len(idle) == 1 else "are", "was" if len(idle) == 1 else "were")
    return f"train on more GPUs, if it may use them: {len(idle)} of {len(alike)} {are} idle"


def _is_idle(run: RunSamples, index: int) -> bool:
    """Return whether nobody computes on a GPU, or holds its memory."""
    gpus = [gpu for sample in run.samples for gpu in sample.gpus or () if gpu.index == index]
    busy_pcts = [gpu.utilization_pct for gpu in gpus if gpu.utilization_pct is not None]
    used_mib = [gpu.memory_used_mib for gpu in gpus if gpu.memory_used_mib is not None]
    if min(len(busy_pcts), len(used_mib)) < MIN_SAMPLES:
        return False
    return max(busy_pcts) < IDLE_PCT and max(used_mib) < SHARED_GPU_MIB


def own_cpus(run: RunSamples) -> Evidence | None:
    """Return evidence if the run uses all CPUs that it may use."""
    use = run.cpu_use
    if use is None or use.run_cores is None:
        return None
    pct = min(100.0, 100 * use.run_cores / use.allowed_cores)
    if not run.is_busy(pct):
        return None
    limit = run.facts.cpu_limit
    idle = 0.0 if use.idle_cores is None else use.idle_cores
    advice = ""
    if use.allowed_cores < use.cores and idle >= 1:
        advice = f"give the run more CPUs: {use.allowed_cores:.0f} used, {cores(int(idle))} idle"
        if use.allowed_cores == limit:
            advice = f"{_raise_cpu_limit(use.allowed_cores)}: {cores(int(idle))} idle"
    if not advice and run.on_cpu:
        advice = _use_a_gpu(run)
    figures = (use.run_text, *(() if use.idle_cores is None else (f"{use.idle_cores:.1f} idle",)))
    share = run.explained(None if run.waited_share is None else 1 - run.waited_share)
    return Evidence("cpu", f"{pct:.0f} %", figures, advice, share)


def own_threads(run: RunSamples) -> Evidence | None:
    """Return evidence if the run's threads are busy and more cores are idle."""
    use, threads = run.cpu_use, count_of(run.threads)
    if use is None or use.run_cores is None or use.idle_cores is None or threads is None:
        return None
    free_cores = min(use.idle_cores, use.allowed_cores - use.run_cores)
    least, most = (share * threads for share in THREADS_TIME)
    if (
        not run.reaches(use.run_cores, least)
        or use.run_cores > most
        or not run.reaches(free_cores, IDLE_CORES)
    ):
        return None
    reasons = (
        f"{use.run_cores:.1f} cores of CPU time with --threads {threads}",
        f"{use.idle_cores:.1f} of {cores(use.cores)} idle",
    )
    are = run.verb("are", "were")
    advice = f"use more than --threads {threads}: {free_cores:.1f} cores {are} idle"
    return Evidence("threads", "", reasons, advice)


def one_thread_of_the_cpu(run: RunSamples) -> Evidence | None:
    """Return evidence if one thread of a run on the CPU is busy and cores are free for the run."""
    use, thread_pct = run.cpu_use, run.thread_pct
    if use is None or use.free_cores is None or thread_pct is None:
        return None
    if not run.is_busy(thread_pct) or not run.reaches(use.free_cores, IDLE_CORES):
        return None
    # If others take most of the run's CPU time, they hardly wait for it.
    if thread_pct < 50 * (use.run_cores or 0.0):
        return None
    fills = run.verb("fills", "filled")
    reasons = (
        f"one thread of the run {fills} a core",
        f"{use.free_cores:.1f} of {cores(use.allowed_cores)} idle",
    )
    batch_size = run.model.batch_size if run.model is not None else None
    than = "" if batch_size is None else f" than {batch_size:,}"
    advice = f"use a larger batch{than}, or more threads"
    return Evidence("thread", f"{thread_pct:.0f} %", reasons, advice)


def mostly_idle(run: RunSamples) -> Evidence | None:
    """Return evidence if the run neither computes nor wants a CPU: it waits for something else.

    Without GPU readings, return it only for a run that is known to train on the CPU.
    """
    use = run.cpu_use
    if use is None or use.run_cores is None or not run.is_below(use.run_cores, IDLE_CORES):
        return None
    gpu_pct = run.gpu_pct
    if not run.on_cpu and (gpu_pct is None or not run.is_below(gpu_pct, IDLE_GPU_PCT)):
        return None
    if use.waited_share is not None:
        wanted = use.run_cores + use.waited_share
    elif use.idle_cores is not None and run.reaches(use.idle_cores, IDLE_CORES):
        wanted = use.run_cores
    else:
        return None
    if not run.is_below(wanted, MOSTLY):
        return None
    waits = run.verb("waits", "waited")
    run_text = f"this run {use.run_cores:.1f} of {cores(use.allowed_cores)}"
    unmeasured = () if run.unmeasured is None else (run.unmeasured,)
    reasons = ("not for a CPU", run_text, *unmeasured)
    advice = f"find what it {waits} for: data, a disk, the network, or a pause in the script"
    return Evidence(IDLE, "", reasons, advice)


def all_cores_busy(run: RunSamples) -> Evidence | None:
    """Return evidence if all cores are busy and the run's share of them is unknown."""
    use = run.cpu_use
    if use is None or use.run_cores is not None:
        return None
    pct = run.mean(lambda s: s.cpu.pct if s.cpu else None)
    if pct is None or not run.is_busy(pct):
        return None
    reasons = (f"all {cores(use.cores)}", "the run's share isn't known")
    return Evidence("cores", f"{pct:.0f} %", reasons)


def quota(run: RunSamples) -> Evidence | None:
    """Return evidence if a container's CPU limit stops the run."""
    pct, limit = run.stopped_pct, run.facts.cpu_limit
    if pct is None or not run.reaches(pct, CPU_THROTTLED_PCT):
        return None
    of = "" if limit is None else f" of {cores(limit)}"
    stops = run.verb("stops", "stopped")
    reason = f"the container's limit{of} {stops} the run in {pct:.0f} % of periods"
    return Evidence("cpu-quota", "", (reason,), _raise_cpu_limit(limit))


# Below this utilisation a GPU waits; above it, its clock matters.
WORKING_GPU_PCT = 60.0
NEAR_POWER_LIMIT, LENIENT_POWER_LIMIT = 0.95, 0.92
SHARED_GPU_MIB = 512
LONGEST_REASON = 80
# The most CPU time of a process that runs its threads in turn.
ONE_CORE_PCT = 125.0
FREE_SHARE = 0.5
"""A GPU with this share of its memory free has room for a larger batch."""
LOW_POWER, AT_POWER_LIMIT = 0.5, 0.9
CLOCK_SHARE = 0.03
"""A power cap that leaves the clock this close to its maximum doesn't limit a run."""
# A copy reaches about 90 % of the bandwidth; a large matrix product, of the tensor cores.
BANDWIDTH_PCT, TENSOR_PCT, FEW_SMS_PCT, MOST_SMS_PCT = 70.0, 60.0, 30.0, 80.0
# From this share of the time on, waiting for data is reported.
WAITED_SHARE = 0.1

# The throttle reasons of our records, by the names of NVML (nvmlClocksEventReasons).
_LOST_ADVICE = "look for its error in the kernel's log (dmesg)"
HEAT = {
    "thermal slowdown": "SW thermal slowdown",
    "hardware thermal slowdown": "HW thermal slowdown",
}
_POWER_CAP, _POWER_BRAKE, _SLOWDOWN = "power cap", "power brake", "hardware slowdown"


def gpu_lost(
    samples: Sequence[Machine], newest: Machine, gpus: Sequence[int], is_over: bool
) -> Evidence | None:
    """Return evidence if a GPU that trains gave readings, and the `newest` sample has none."""
    lost = (_one_gpu_lost(samples, newest, number) for number in gpus if not is_over)
    return next((evidence for evidence in lost if evidence is not None), None)


def _one_gpu_lost(samples: Sequence[Machine], newest: Machine, number: int) -> Evidence | None:
    rows = [_row_of(sample, number) for sample in samples]
    latest = _row_of(newest, number)
    state = newest.gpus_state if latest is None else latest.state
    was_read = any(row is not None and _is_read(row) for row in rows)
    may_answer = state is not None and state.may_answer_later
    if (latest is not None and _is_read(latest)) or not (was_read or may_answer):
        return None
    why = newest.why.get("gpus") if latest is None else latest.why.get("utilization_pct")
    reason = clean(why or "", LONGEST_REASON) or (str(state) if may_answer else "no reason known")
    # The name of the finding says already that it is lost.
    because = "" if reason == GpuState.LOST else f": {reason}"
    read_ns = [
        s.t for s, row in zip(samples, rows, strict=True) if row is not None and _is_read(row)
    ]
    lost_s = (newest.t - read_ns[-1]) / 1e9 if read_ns else 0.0
    figure = f"{lost_s:.0f} s" if lost_s >= 1 else ""
    advice = "" if reason.startswith(str(GpuState.ASLEEP)) else _LOST_ADVICE
    return Evidence("gpu-lost", figure, (f"GPU {number} gives no readings now{because}",), advice)


def _row_of(sample: Machine, index: int) -> Gpu | None:
    return next((gpu for gpu in sample.gpus or () if gpu.index == index), None)


def _is_read(gpu: Gpu) -> bool:
    """Return whether a GPU gives readings; a partitioned or old one doesn't give all of them."""
    is_lost = gpu.state is not None and gpu.state.may_answer_later
    if is_lost and gpu.utilization_pct is None:
        return False
    readings = (gpu.utilization_pct, gpu.power_w, gpu.temperature_c, gpu.memory_used_mib)
    return any(reading is not None for reading in readings)


def gpu_works(run: RunSamples) -> Evidence | None:
    """Return evidence if the GPU is throttled while it works, or is busy."""
    busy_pct = run.gpu_pct
    if not run.gpus or (busy_pct is not None and not run.reaches(busy_pct, WORKING_GPU_PCT)):
        return None
    share = run.explained(None if busy_pct is None else busy_pct / 100)
    name, figure = run.gpu_name, "" if busy_pct is None else f"{busy_pct:.0f} %"
    power_w = run.gpu_mean(lambda gpu: gpu.power_w)
    limit_w = run.gpu_mean(lambda gpu: gpu.power_limit_w)
    power = []
    if power_w is not None:
        power = [f"{power_w:.0f} of {limit_w:.0f} W" if limit_w else f"{power_w:.0f} W"]
    trains = run.gpu_verb("it trains", "they train", "it trained", "they trained")
    often, loss = [f"busy {figure} while {trains}"] if figure else [], ""
    slowed = _slowed_by(run)
    if slowed:
        rules, causes = zip(*slowed, strict=True)
        # With the power in the figures, the words for a power cap say nothing more.
        named = list(causes[rules[0] == "gpu-power-cap" and bool(power) :])
        at = f": {named[0]}" if named else "".join(f" at {watts}" for watts in power)
        power = power if named else []
        slows = f"{name} {run.gpu_is} slowed"
        if rules[0] == "gpu-power-cap" and (clock := _capped_clock(run)) is not None:
            loss = f"−{100 * (1 - clock[0] / clock[1]):.0f} %"
            slows = f"at most, as {name} {run.gpu_verb('runs', 'run', 'ran')}"
            at = f" at {clock[0]:.0f} of {clock[1]:.0f} MHz{at.replace(' at ', ', ')}"
        reasons = (f"{slows}{at}", *named[1:], *power, *often)
        advice = _against_slowing(rules[0], run, power_w, limit_w)
        return Evidence(rules[0], loss, reasons, advice, share)
    if busy_pct is None or not run.is_busy(busy_pct):
        return None
    of_power = power_w / limit_w if power_w is not None and limit_w else None
    near = LENIENT_POWER_LIMIT if run.lenient else NEAR_POWER_LIMIT
    if of_power is not None and of_power >= near:
        busy = f"{name} {run.gpu_is} busy {figure} of the time"
        reasons = (f"{busy}, near {run.gpu_its} power limit", *power)
        capped = [gpu for gpu in run.gpus if _POWER_CAP in (gpu.throttle or ())]
        clock = _capped_clock(run)
        if clock is not None and 2 * len(capped) > len(run.gpus):
            loss = f"−{100 * (1 - clock[0] / clock[1]):.0f} %"
            at = f"{clock[0]:.0f} of {clock[1]:.0f} MHz by {run.gpu_its} power limit ({loss})"
            reasons = (busy, at, *power)
        return Evidence("gpu-near-power", figure, reasons, _idle_gpus(run), share)
    at_power = [f"at {watts}" for watts in power]
    if (of_counter := _by_counters(run)) is not None:
        return replace(of_counter, reasons=(*of_counter.reasons, *at_power, *often), share=share)
    advice, reasons = "", (f"{name} {run.gpu_is} busy {figure} of the time", *at_power)
    sm_pct = run.gpu_mean(lambda gpu: gpu.sm_active_pct)
    if sm_pct is not None and run.is_below(sm_pct, MOST_SMS_PCT):
        reasons = (reasons[0], f"{sm_pct:.0f} % of {run.gpu_its} SMs active", *at_power)
        advice = _fill_sms(run)
    elif of_power is not None and of_power < LOW_POWER:
        # Its kernels don't fill it: a larger batch gives each kernel more to do.
        advice = _larger_batch(run)
    advice = advice or _idle_gpus(run)
    return Evidence("gpu", figure, reasons, advice, share)


def _by_counters(run: RunSamples) -> Evidence | None:
    """Return what a busy GPU's hardware counters show.

    The share of the time in which its memory was busy says nothing of its bandwidth, so GPUs older
    than Hopper have none.
    """
    name, its = run.gpu_name, run.gpu_its
    dram_pct = run.gpu_mean(lambda gpu: gpu.dram_pct)
    if dram_pct is not None and run.reaches(dram_pct, BANDWIDTH_PCT):
        works = run.gpu_verb("works", "work", "worked")
        reason = f"{name} {works} near {its} memory bandwidth"
        advice = "move less memory: a smaller data type, or kernels that a compiler fuses"
        return Evidence("gpu-memory", f"{dram_pct:.0f} %", (reason,), advice)
    tensor_pct = run.gpu_mean(lambda gpu: gpu.tensor_pct)
    if tensor_pct is not None and run.reaches(tensor_pct, TENSOR_PCT):
        reason = f"{name} {run.gpu_is} busy with matrix products"
        return Evidence("gpu-tensor", f"{tensor_pct:.0f} %", (reason,), _idle_gpus(run))
    sm_pct = run.gpu_mean(lambda gpu: gpu.sm_active_pct)
    if sm_pct is None or not run.is_below(sm_pct, FEW_SMS_PCT):
        return None
    reason = f"{name} {run.gpu_is} busy, {sm_pct:.0f} % of {its} SMs active"
    return Evidence("gpu-kernels", "", (reason,), _fill_sms(run))


def _fill_sms(run: RunSamples) -> str:
    """Return what gives a GPU's idle SMs work; empty for several GPUs.

    They wait for each other in kernels on few SMs, and a larger kernel doesn't help.
    """
    return "" if len(run.gpu_numbers) > 1 else _larger_batch(run) or FEWER_KERNELS


def _against_slowing(
    rule: str, run: RunSamples, power_w: float | None, limit_w: float | None
) -> str:
    if rule == "gpu-thermal":
        degrees = run.gpu_mean(lambda gpu: gpu.temperature_c)
        fan_pct = run.gpu_mean(lambda gpu: gpu.fan_pct)
        readings = [] if degrees is None else [f"{degrees:.0f} °C"]
        readings += [] if fan_pct is None else [f"fan at {fan_pct:.0f} %"]
        return ": ".join(filter(None, ("cool the GPU better", ", ".join(readings))))
    # Raising the limit helps only a GPU that draws about as much as it may.
    if rule == "gpu-power-cap" and limit_w and (power_w or 0) >= AT_POWER_LIMIT * limit_w:
        return f"raise the power limit above {limit_w:.0f} W, if the card allows it"
    return ""


def _larger_batch(run: RunSamples) -> str:
    """Return the advice to use a larger batch; empty unless much GPU memory is free."""
    facts = run.gpu_facts
    total_mib = facts.memory_mib if facts is not None else None
    used_mib = max((gpu.memory_used_mib or 0 for gpu in run.gpus), default=0)
    if facts is None or not total_mib or not used_mib or used_mib > (1 - FREE_SHARE) * total_mib:
        return ""
    whose = " of the system" if facts.memory_kind == "system" else ""
    return f"use a larger batch: {used_mib / 1024:.1f} of {total_mib / 1024:.1f} GiB{whose} used"


def _slowed_by(run: RunSamples) -> list[tuple[str, str]]:
    """Return the rule and the words for each throttle reason that most readings have."""
    readings = [gpu.throttle for gpu in run.gpus if gpu.throttle is not None]
    if len(readings) < MIN_SAMPLES:
        return []
    times = Counter(reason for reasons in readings for reason in set(reasons))
    shares = {reason: count / len(readings) for reason, count in times.items()}
    # The share of the readings in words; empty for all of them.
    often = {
        reason: "" if share > 0.95 else f" in {100 * share:.0f} % of readings"
        for reason, share in shares.items()
        if share > 0.5 or (run.lenient and run.reaches(share, 0.5))
    }
    slowed = []
    is_nvidia = run.gpu_facts is None or run.gpu_facts.vendor == "nvidia"
    heat = [reason for reason in HEAT if reason in often]
    if heat:
        names = " and ".join(HEAT[reason] if is_nvidia else reason for reason in heat)
        degrees = run.gpu_mean(lambda gpu: gpu.temperature_c)
        at = f" at {degrees:.0f} °C" if degrees is not None else ""
        most_often = max(heat, key=lambda reason: shares[reason])
        slowed.append(("gpu-thermal", f"{names}{at}{often[most_often]}"))
    if _POWER_BRAKE in often:
        slowed.append(("gpu-power-brake", f"HW power brake (external){often[_POWER_BRAKE]}"))
    if _SLOWDOWN in often and not {"hardware thermal slowdown", _POWER_BRAKE} & often.keys():
        slowed.append(("gpu-slowdown", f"HW slowdown{often[_SLOWDOWN]}"))
    if _POWER_CAP in often and _cap_matters(run):
        slowed.append(("gpu-power-cap", f"{'SW ' * is_nvidia}power cap{often[_POWER_CAP]}"))
    return slowed


def _capped_clock(run: RunSamples) -> tuple[float, float] | None:
    """Return the clock of the GPUs under a power cap, and its maximum, in MHz; None if unknown.

    AMD's cards exceed the highest clock that their driver names: that is no maximum.
    """
    most_mhz = {gpu.index: gpu.sm_max_mhz for gpu in run.facts.gpus or ()}
    capped = [gpu for gpu in run.gpus if _POWER_CAP in (gpu.throttle or ())]
    mhz = mean_of(gpu.sm_mhz for gpu in capped)
    most = mean_of(most_mhz.get(gpu.index) for gpu in capped)
    return (mhz, most) if mhz is not None and most and mhz <= most else None


def _cap_matters(run: RunSamples) -> bool:
    """Return whether a power cap may slow the GPUs by more than `CLOCK_SHARE`.

    No work takes longer by more than the clock is below its maximum. It may if that is unknown.
    """
    clock = _capped_clock(run)
    return clock is None or run.reaches(1 - clock[0] / clock[1], CLOCK_SHARE)


def one_core(run: RunSamples) -> Evidence | None:
    """Return evidence if the GPU waits while one thread, or one process, keeps a core busy.

    A process may run its threads in turn: PyTorch computes gradients in a thread of their own.
    It isn't known whether this thread or process feeds the GPU.
    """
    gpu_pct, thread_pct, process_pct = run.gpu_pct, run.thread_pct, run.process_pct
    if gpu_pct is None or gpu_pct >= BUSY_PCT:
        return None
    if thread_pct is not None and run.is_busy(thread_pct):
        name, pct = "thread", thread_pct
    elif process_pct is not None and run.is_busy(process_pct) and process_pct <= ONE_CORE_PCT:
        name, pct = "process", process_pct
    else:
        return None
    waits, fills = run.gpu_verb("waits", "wait", "waited"), run.verb("fills", "filled")
    reasons = (
        f"{run.gpu_name} {waits}, busy {gpu_pct:.0f} %",
        f"one {name} of the run {fills} a core",
    )
    # If the thread is known not to load data, more work per step gives the GPU more to do.
    loads_nothing = run.waited_share is not None and run.waited_share < WAITED_SHARE
    return Evidence("thread", f"{pct:.0f} %", reasons, _larger_batch(run) if loads_nothing else "")


# The least shares of a step that are reported, and the least steps to know them by.
OPTIMIZER_SHARE, COPY_SHARE, LEAST_STEPS = 0.15, 0.1, 5
# A forward pass usually takes half as long as backward: one this much longer is named alone.
_MUCH_LONGER = 3.0
_CALLED = {
    "wait_us": "waiting for data",
    "copy_us": "copying",
    "forward_us": "forward and backward",
    "optimizer_us": "the optimiser",
    "collective_us": "collectives",
    "rest_us": "your code",
}
# Other optimisers with this option can't be fused on every device.
FUSABLE = ("Adam", "AdamW", "SGD")


def optimizer_share(run: RunSamples) -> Evidence | None:
    """Return evidence if the optimiser takes a good part of a step, and could be fused."""
    share, model = _shares_of_step(run).get("optimizer_us"), run.model
    if share is None or not run.reaches(share, OPTIMIZER_SHARE):
        return None
    can_fuse = model is not None and model.fused is False and model.optimizer in FUSABLE
    if not can_fuse and not _is_largest(run, share):
        return None
    reasons, advice = [part_text(run.parts, "optimizer_us")], ""
    if model is not None and can_fuse:
        reasons.append(f"{model.optimizer} {run.verb('is', 'was')} not fused")
        advice = f"step with {model.optimizer}(…, fused=True)"
    return Evidence("optimizer", f"{100 * share:.0f} %", tuple(reasons), advice, share)


def copy_share(run: RunSamples) -> Evidence | None:
    """Return evidence if the copy of batches to the GPU takes a good part of a step."""
    share, model = _shares_of_step(run).get("copy_us"), run.model
    if share is None or not run.reaches(share, COPY_SHARE):
        return None
    can_pin = model is not None and model.pin_memory is False
    if not can_pin and not _is_largest(run, share):
        return None
    reasons = [f"{part_text(run.parts, 'copy_us')} before the network runs"]
    reasons += [f"pin_memory {run.verb('is', 'was')} False"] if can_pin else []
    figure = f"{100 * share:.0f} %"
    return Evidence("copy", figure, tuple(reasons), PIN_ADVICE if can_pin else "", share)


def collectives(run: RunSamples) -> Evidence | None:
    """Return evidence if collective operations take the largest part of a step."""
    share = _shares_of_step(run).get("collective_us")
    if not share or not _is_largest(run, share):
        return None
    took = part_text(run.parts, "collective_us")
    reason = f"{took} sending to other ranks or waiting for them"
    return Evidence("collectives", f"{100 * share:.0f} %", (reason,), share=share)


def own_code(run: RunSamples) -> Evidence | None:
    """Return evidence if the largest part of a step is neither data, network nor optimiser."""
    share = _shares_of_step(run).get("rest_us")
    if share is None or not _is_largest(run, share):
        return None
    took = part_text(run.parts, "rest_us")
    reasons: tuple[str, ...] = (f"{took} outside loader, network, optimiser",)
    advice, code = "", run.code
    line = code.places[0] if code is not None and code.places else None
    if code and line and line.looks >= LINE_SHARE * share * code.samples:
        place = place_text(line.script, line.inner)
        reasons = (f"{place}: {_of_line(run.parts, share, line.looks / code.samples)}",)
        advice = f"take {place.partition(' in ')[0]} out of the loop, or run it every few steps"
    return Evidence(OWN_CODE, f"{100 * share:.0f} %", reasons, advice, share)


def network(run: RunSamples) -> Evidence | None:
    """Return evidence if the network takes the largest part of a step."""
    share, parts = _shares_of_step(run).get("forward_us"), run.parts
    if not share or parts is None or not _is_largest(run, share):
        return None
    named = [name for name in ("forward_us", "backward_us") if parts.share(name) is not None]
    reasons = (part_text(parts, *named),)
    is_forward = (parts.forward_us or 0) > _MUCH_LONGER * (parts.backward_us or 0)
    rule = FORWARD if is_forward else NETWORK
    return Evidence(rule, f"{100 * share:.0f} %", reasons, share=share)


def no_part_leads(run: RunSamples) -> Evidence | None:
    """Return that the limit is not clear if the two largest parts of a step are about as large."""
    shares = _shares_of_step(run)
    if not shares:
        return None
    (first, share), (second, next_share) = sorted(shares.items(), key=lambda s: -s[1])[:2]
    margin = run.margin_of(first, second)
    if share - next_share >= (margin / 2 if run.lenient else margin):
        return None
    named = (f"{_CALLED[name]} {100 * shares[name]:.0f} %" for name in (first, second))
    reasons = (f"{' and '.join(named)} of a step",)
    return Evidence(TIE, "", reasons, share=share)


def part_text(parts: StepParts | None, *names: str) -> str:
    """Return the time of parts, and of a whole step: forward 2.1 and backward 9.6 of 17.5 ms."""
    assert parts is not None
    step, digits, unit = _step(parts)
    times = (getattr(parts, name) * step / parts.step_us for name in names)
    called = (f"{name.partition('_')[0]} " if len(names) > 1 else "" for name in names)
    listed = (f"{name}{time:.{digits}f}" for name, time in zip(called, times, strict=True))
    return f"{' and '.join(listed)} of {step:.{digits}f} {unit} a step"


def _of_line(parts: StepParts | None, share: float, of_samples: float) -> str:
    """Say what a line takes of the time of a part, by its share of the stack's samples."""
    assert parts is not None
    step, digits, unit = _step(parts)
    part, line = share * step, min(share, of_samples) * step
    return f"about {line:.{max(0, digits - 1)}f} of the {part:.{digits}f} {unit}"


def _step(parts: StepParts) -> tuple[float, int, str]:
    """Return the time of a step, the decimals that it has in words, and its unit."""
    step_ms = parts.step_us / parts.steps / 1000
    per_unit_ms, unit = (1000.0, "s") if step_ms >= 1000 else (1.0, "ms")
    step = step_ms / per_unit_ms
    return step, max(0, 2 - math.floor(math.log10(step))) if step > 0 else 0, unit


def _shares_of_step(run: RunSamples) -> dict[str, float]:
    """Return the shares of a step by part, forward with backward; empty if too few steps ended."""
    if run.parts is None or run.parts.steps < LEAST_STEPS:
        return {}
    shares = {name: run.parts.share(name) or 0.0 for name in (*STEP_PARTS, "rest_us")}
    shares["forward_us"] += shares.pop("backward_us")
    return shares


def _is_largest(run: RunSamples, share: float) -> bool:
    """Return whether no part of a step is larger."""
    return run.reaches(share, max(_shares_of_step(run).values(), default=math.inf))


def gpu_shared(run: RunSamples) -> Evidence | None:
    """Return evidence if another program has memory on a GPU that trains."""
    if run.is_lost:
        return None
    rows = next((s.processes for s in reversed(run.samples) if s.processes is not None), ())
    on_gpus = [row for row in rows if row.is_other_on(run.gpu_numbers)]
    most = max(on_gpus, key=lambda row: row.gpu_memory_mib or 0, default=None)
    if most is None or (most.gpu_memory_mib or 0) < SHARED_GPU_MIB:
        return None
    name = program_name(most.command) or "unnamed"
    shared = [number for number in run.gpu_numbers if number in most.gpus]
    held = f"{(most.gpu_memory_mib or 0) / 1024:.1f} GiB"
    program = f"{name} (pid {most.pid})"
    on = gpu_name(shared)
    reason = f"{program} {run.verb('has', 'had')} {held} on {on}"
    advice = run.verb(f"wait for {program} to end", f"train without {program} on the GPU")
    return Evidence("gpu-shared", "", (reason,), f"{advice}, if it computes there")


def allocator_frees(run: RunSamples) -> Evidence | None:
    """Return evidence if the allocator freed its cached memory, which waits for the GPU."""
    if not run.retries or run.is_lost:
        return None
    times = "once" if run.retries == 1 else f"{run.retries:,} times"
    reason = f"the allocator freed all that it kept {times}, to go on"
    advice = "use a smaller batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    return Evidence("allocator", "", (reason,), advice)
