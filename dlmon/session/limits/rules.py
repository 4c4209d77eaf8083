"""The rules about CPUs, GPUs and the parts of a step that find the limit of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dlmon.comparison.conditions import cores
from dlmon.records import Gpu, Machine, Process, StepParts
from dlmon.records.sanitize import clean
from dlmon.records.stacks import place_text
from dlmon.records.training import STEP_PARTS
from dlmon.records.words import gpu_name
from dlmon.session.limits.evidence import NETWORK, Evidence
from dlmon.session.limits.run_samples import (
    BUSY_PCT,
    CPU_THROTTLED_PCT,
    IDLE_CORES,
    MIN_SAMPLES,
    MOSTLY,
    RunSamples,
    count_of,
    program_name,
)

# The CPU time of a run whose threads are busy, per thread: it has more threads, such as Python's.
THREADS_TIME = (0.9, 1.25)
# A run hardly waits for a GPU below this utilisation.
IDLE_GPU_PCT = 20.0
NAMED_CORES = 0.1
IDLE_PCT = 10.0


def other_programs(run: RunSamples) -> Evidence | None:
    """Return evidence if other programs use CPU time that the run wants."""
    use = run.cpu_use
    if use is None or use.run_cores is None or use.other_cores is None or use.idle_cores is None:
        return None
    if not run.wants_cpu:
        return None
    take, takes = run.verb("take", "took"), run.verb("takes", "took")
    busy_pct, spare = (
        100 - 100 * use.idle_cores / use.cores,
        use.cores - BUSY_PCT / 100 * use.allowed_cores,
    )
    if not run.is_busy(busy_pct) or not run.reaches(use.other_cores, spare):
        return None
    took = f"{use.other_cores:.1f} of {cores(use.cores)}"
    run_text = f"this run {use.run_cores:.1f}"
    waited = "" if use.waited_share is None else f"{100 * use.waited_share:.0f} % of the time"
    waits = run.verb("waits", "waited")
    busiest = _busiest_other(run.samples)
    if busiest is not None and busiest.cores < use.other_cores * _WORTH_NAMING:
        # The busiest program can't be seen from here, as from within a container.
        busiest = None
    named = ""
    if busiest is not None:
        # Some programs may be hidden from us: only one with half of the time surely has the most.
        share = "most" if busiest.cores >= use.other_cores / 2 else f"{busiest.cores:.1f}"
        named = f" ({share}: {busiest.name}, pid {busiest.pid})"
    advice = ""
    if busiest is not None and busiest.cores >= IDLE_CORES:
        program = f"{busiest.name} (pid {busiest.pid})"
        action = run.verb(f"end or pause {program}", f"train without {program} beside it")
        advice = f"{action}: it {takes} {busiest.cores:.1f} cores"
    elif use.knows_steal:
        advice = stop_other_programs(run, use.other_cores)
    return Evidence(
        "other-programs",
        f"others on {took}",
        f"Other programs {take} the CPU"
        if use.knows_steal
        else f"The CPU {run.verb('is', 'was')} taken by others",
        (took + named, f"{run_text}, {waits} for a CPU {waited}" if waited else run_text),
        advice,
        use.waited_share,
    )


_WORTH_NAMING = 0.25
"""A program that takes this share of the CPU time of all other programs is named."""
# A line of the script's own code is named if it explains this share of that code's time.
_MOSTLY = 0.6


class _Busiest(NamedTuple):
    """The busiest other program, and the cores that it uses."""

    pid: int
    name: str
    cores: float


def _busiest_other(samples: Sequence[Machine]) -> _Busiest | None:
    """Return the busiest program outside the run; None if the process table has none."""
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


def own_cpus(run: RunSamples) -> Evidence | None:
    """Return evidence if the run uses all CPUs that it may use.

    Its share of the time is that of computing: neither waiting for data nor other code.
    """
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
    uses = run.verb("uses", "used")
    headline = f"The run {uses} all of its CPU" + ("" if use.allowed_cores == 1 else "s")
    brief = f"the run's CPUs {pct:.0f} % busy"
    share = _computing_share(run)
    if share is None and run.waited_share is not None:
        share = 1 - run.waited_share
    return Evidence("cpu", brief, headline, figures, advice, share)


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
    figures = (
        f"{use.run_cores:.1f} cores of CPU time",
        f"{use.idle_cores:.1f} of {cores(use.cores)} idle",
    )
    are, is_busy = run.verb("are", "were"), run.verb("is", "was")
    headline = (
        f"The run's threads {are} busy" if threads > 1 else f"The run's one thread {is_busy} busy"
    )
    advice = f"use more than --threads {threads}: {free_cores:.1f} cores {are} idle"
    brief = f"--threads {threads} at {use.run_cores:.1f} cores"
    return Evidence("threads", brief, headline, figures, advice)


def one_thread_of_the_cpu(run: RunSamples) -> Evidence | None:
    """Return evidence if one thread of a run on the CPU is busy and cores are free for the run."""
    use, thread_pct = run.cpu_use, run.thread_pct
    if use is None or use.free_cores is None or thread_pct is None:
        return None
    if not run.is_busy(thread_pct) or not run.reaches(use.free_cores, IDLE_CORES):
        return None
    was = run.verb("is", "was")
    at = f"at {thread_pct:.0f} % of a core"
    are = "is" if not run.is_over and use.free_cores <= 1 else run.verb("are", "were")
    idle = f"{use.free_cores:.1f} of {cores(use.allowed_cores)} {are} idle"
    return Evidence(
        "thread",
        f"one thread {at}",
        f"One thread of the run {was} busy",
        (f"thread {at}", idle),
    )


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
    figures = (run_text,) if run.unmeasured is None else (run_text, run.unmeasured)
    return Evidence(
        "idle",
        run_text,
        f"The run {waits} for something other than a CPU",
        figures,
        advice=f"find what it {waits} for: data, a disk, the network, or a pause in the script",
    )


def all_cores_busy(run: RunSamples) -> Evidence | None:
    """Return evidence if all cores are busy and the run's share of them is unknown."""
    use = run.cpu_use
    if use is None or use.run_cores is not None:
        return None
    pct = run.mean(lambda s: s.cpu.pct if s.cpu else None)
    if pct is None or not run.is_busy(pct):
        return None
    are = run.verb("are", "were")
    unknown = "the run's share of it isn't known"
    figures = (f"{pct:.0f} % of {cores(use.cores)}", unknown)
    brief = f"CPU {pct:.0f} %"
    return Evidence("cores", brief, f"All cores {are} busy", figures)


def quota(run: RunSamples) -> Evidence | None:
    """Return evidence if a container's CPU limit stops the run."""
    pct, limit = run.stopped_pct, run.facts.cpu_limit
    if pct is None or not run.reaches(pct, CPU_THROTTLED_PCT):
        return None
    return Evidence(
        "cpu-quota",
        f"stopped by the CPU limit in {pct:.0f} % of periods",
        f"The container's CPU limit {run.verb('stops', 'stopped')} it",
        (f"in {pct:.0f} % of periods", *([] if limit is None else [f"limit {cores(limit)}"])),
        _raise_cpu_limit(limit),
    )


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
# A copy reaches about 90 % of the bandwidth; a large matrix product, of the tensor cores.
BANDWIDTH_PCT, TENSOR_PCT, FEW_SMS_PCT = 70.0, 60.0, 30.0
# From this share of the time on, waiting for data is reported.
WAITED_SHARE = 0.1

# The throttle reasons of our records, by the names of NVML (nvmlClocksEventReasons).
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
    headline = f"GPU {number} gives no readings now"
    brief = f"GPU {number} gives no readings"
    return Evidence("gpu-lost", brief, headline, (reason,))


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
    share = None if busy_pct is None else busy_pct / 100
    name = run.gpu_name
    busy = [] if busy_pct is None else [f"busy {busy_pct:.0f} % of the time"]
    power_w = run.gpu_mean(lambda gpu: gpu.power_w)
    limit_w = run.gpu_mean(lambda gpu: gpu.power_limit_w)
    power = ""
    if power_w is not None:
        power = f"{power_w:.0f} of {limit_w:.0f} W" if limit_w else f"{power_w:.0f} W"
    slowed = _slowed_by(run)
    if slowed:
        rules, causes = zip(*slowed, strict=True)
        # With the power in the figures, the words for a power cap say nothing more.
        named = list(causes[rules[0] == "gpu-power-cap" and bool(power) :])
        figures = (*named, *([power] if power else []), *busy)
        return Evidence(
            rules[0],
            f"{name} slowed by {causes[0]}",
            f"{name} {run.gpu_is} slowed by {_SLOWED_BY[rules[0]]}",
            figures,
            _against_slowing(rules[0], run, power_w, limit_w),
            share,
        )
    if busy_pct is None or not run.is_busy(busy_pct):
        return None
    brief, often = f"{name} {busy_pct:.0f} % busy", f"{busy_pct:.0f} % of the time"
    of_power = power_w / limit_w if power_w is not None and limit_w else None
    if of_power is not None and of_power >= (
        LENIENT_POWER_LIMIT if run.lenient else NEAR_POWER_LIMIT
    ):
        near = f"near {run.gpu_its} power limit"
        headline = f"{name} {run.gpu_verb('works', 'work', 'worked')} {near}"
        brief += f", {near}"
        return Evidence("gpu-near-power", brief, headline, (often, power), share=share)
    figures = (often, *([f"at {power}"] if power else []))
    by_counters = _by_counters(run)
    if by_counters is not None:
        rule, headline, figure, advice = by_counters
        return Evidence(rule, f"{brief}, {figure}", headline, (*figures, figure), advice, share)
    advice = ""
    if of_power is not None and of_power < LOW_POWER:
        # Its kernels don't fill it: a larger batch gives each kernel more to do.
        advice = _larger_batch(run)
    return Evidence("gpu", brief, f"{name} {run.gpu_is} busy", figures, advice, share)


def _by_counters(run: RunSamples) -> tuple[str, str, str, str] | None:
    """Return the rule, headline, figure and advice that a busy GPU's hardware counters show.

    The share of the time in which its memory was busy says nothing of its bandwidth, so GPUs older
    than Hopper have none.
    """
    name, its = run.gpu_name, run.gpu_its
    dram_pct = run.gpu_mean(lambda gpu: gpu.dram_pct)
    if dram_pct is not None and run.reaches(dram_pct, BANDWIDTH_PCT):
        return (
            "gpu-memory",
            f"{name} {run.gpu_verb('works', 'work', 'worked')} near {its} memory bandwidth",
            f"{dram_pct:.0f} % of the memory bandwidth",
            "move less memory: a smaller data type, or kernels that a compiler fuses",
        )
    tensor_pct = run.gpu_mean(lambda gpu: gpu.tensor_pct)
    if tensor_pct is not None and run.reaches(tensor_pct, TENSOR_PCT):
        headline = f"{name} {run.gpu_is} busy on the tensor cores"
        return "gpu-tensor", headline, f"tensor cores {tensor_pct:.0f} %", ""
    sm_pct = run.gpu_mean(lambda gpu: gpu.sm_active_pct)
    if sm_pct is None or not run.is_below(sm_pct, FEW_SMS_PCT):
        return None
    advice = ""
    # GPUs wait for each other in kernels on few SMs, and a larger kernel doesn't help.
    if len(run.gpu_numbers) < 2:
        advice = (
            _larger_batch(run) or "run fewer, larger kernels: compile the model, or use CUDA graphs"
        )
    headline = f"{name} {run.gpu_is} busy, most of {its} SMs {run.verb('are', 'were')} not"
    return "gpu-kernels", headline, f"{sm_pct:.0f} % of the SMs active", advice


def _against_slowing(
    rule: str, run: RunSamples, power_w: float | None, limit_w: float | None
) -> str:
    if rule == "gpu-thermal":
        degrees = run.gpu_mean(lambda gpu: gpu.temperature_c)
        fan_pct = run.gpu_mean(lambda gpu: gpu.fan_pct)
        at = ", ".join(
            [
                *([] if degrees is None else [f"{degrees:.0f} °C"]),
                *([] if fan_pct is None else [f"fan at {fan_pct:.0f} %"]),
            ]
        )
        return f"cool the GPU better: {at}" if at else "cool the GPU better"
    # Raising the limit helps only a GPU that draws about as much as it may.
    if rule == "gpu-power-cap" and limit_w and (power_w or 0) >= AT_POWER_LIMIT * limit_w:
        return f"raise the power limit: from {limit_w:.0f} W, if the card allows more"
    return ""


def _larger_batch(run: RunSamples) -> str:
    """Return the advice to use a larger batch; empty unless much GPU memory is free."""
    total_mib = run.gpu_facts.memory_mib if run.gpu_facts is not None else None
    used_mib = max((gpu.memory_used_mib or 0 for gpu in run.gpus), default=0)
    if not total_mib or not used_mib or used_mib > (1 - FREE_SHARE) * total_mib:
        return ""
    return f"use a larger batch: {used_mib / 1024:.1f} of {total_mib / 1024:.1f} GiB used"


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
    heat = [reason for reason in HEAT if reason in often]
    if heat:
        names = " and ".join(HEAT[reason] for reason in heat)
        degrees = run.gpu_mean(lambda gpu: gpu.temperature_c)
        at = f" at {degrees:.0f} °C" if degrees is not None else ""
        most_often = max(heat, key=lambda reason: shares[reason])
        slowed.append(("gpu-thermal", f"{names}{at}{often[most_often]}"))
    if _POWER_BRAKE in often:
        slowed.append(("gpu-power-brake", f"HW power brake (external){often[_POWER_BRAKE]}"))
    if _SLOWDOWN in often and not {"hardware thermal slowdown", _POWER_BRAKE} & often.keys():
        slowed.append(("gpu-slowdown", f"HW slowdown{often[_SLOWDOWN]}"))
    if _POWER_CAP in often:
        slowed.append(("gpu-power-cap", f"SW power cap{often[_POWER_CAP]}"))
    return slowed


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
    beside = f"{run.gpu_name} at {gpu_pct:.0f} %"
    was = run.verb("is", "was")
    # If the thread is known not to load data, more work per step gives the GPU more to do.
    loads_nothing = run.waited_share is not None and run.waited_share < WAITED_SHARE
    return Evidence(
        "thread",
        f"one {name} at {pct:.0f} %, {beside}",
        f"{run.gpu_name} {run.gpu_verb('waits', 'wait', 'waited')}, one {name} {was} busy",
        (f"{name} at {pct:.0f} % of a core", beside),
        _larger_batch(run) if loads_nothing else "",
    )


# The least shares of a step that are reported, and the least steps to know them by.
OPTIMIZER_SHARE, COPY_SHARE, LEAST_STEPS = 0.15, 0.1, 5
# Other optimisers with this option can't be fused on every device.
FUSABLE = ("Adam", "AdamW", "SGD")


def optimizer_share(run: RunSamples) -> Evidence | None:
    """Return evidence if the optimiser takes a good part of a step, and could be fused."""
    share, model = _share_of_step(run, "optimizer_us"), run.model
    if share is None or not run.reaches(share, OPTIMIZER_SHARE):
        return None
    can_fuse = model is not None and model.fused is False and model.optimizer in FUSABLE
    if not can_fuse and not _is_largest(run, share):
        return None
    name, took = model and model.optimizer, f"optimiser {100 * share:.0f} %"
    backward = _share_of_step(run, "backward_us")
    beside = "" if backward is None else f"backward {100 * backward:.0f} %, "
    takes = run.verb("takes", "took")
    of_step = f"the optimiser {takes} {100 * share:.0f} % of a step"
    return Evidence(
        "optimizer",
        f"{took} of a step",
        f"The optimiser {takes} a good part of a step",
        (f"{beside}{took}", *([f"{name} {run.verb('is', 'was')} not fused"] if can_fuse else ())),
        f"step with {name}(…, fused=True): {of_step}" if can_fuse else "",
        share,
    )


def copy_share(run: RunSamples) -> Evidence | None:
    """Return evidence if the copy of batches to the GPU takes a good part of a step."""
    share, model = _share_of_step(run, "copy_us"), run.model
    if share is None or not run.reaches(share, COPY_SHARE):
        return None
    can_pin = model is not None and model.pin_memory is False
    if not can_pin and not _is_largest(run, share):
        return None
    copied = f"{100 * share:.0f} % of a step, the copy of the batch in it"
    return Evidence(
        "copy",
        f"copy {100 * share:.0f} % of a step",
        f"Time {run.verb('goes', 'went')} by before the network runs",
        (copied, *([f"pin_memory {run.verb('is', 'was')} False"] if can_pin else ())),
        "load with pin_memory=True, and copy the batch with non_blocking=True" if can_pin else "",
        share,
    )


def own_code(run: RunSamples) -> Evidence | None:
    """Return evidence if the largest part of a step is neither data, network nor optimiser."""
    parts = _parts(run)
    if parts is None or not _is_largest(run, parts.rest_us / parts.step_us):
        return None
    share = parts.rest_us / parts.step_us
    pct = f"{100 * share:.0f} %"
    figures = [f"{pct}, in neither loader, network nor optimiser"]
    advised, code = "", run.code
    if code is not None and code.places and code.places[0].looks >= _MOSTLY * share * code.samples:
        line = code.places[0]
        place = place_text(line.script, line.inner)
        figures = [pct, f"{place} ({line.looks} of {code.samples} samples)"]
        advised = f"take {place} out of the loop, or run it every few steps"
    return Evidence(
        "own-code",
        f"other code {pct} of a step",
        f"The largest part of a step {run.verb('is', 'was')} other code",
        tuple(figures),
        advised,
        share=share,
    )


def network(run: RunSamples) -> Evidence | None:
    """Return evidence if the network takes the largest part of a step."""
    forward, backward = (_share_of_step(run, name) for name in ("forward_us", "backward_us"))
    share = (forward or 0.0) + (backward or 0.0)
    if not share or not _is_largest(run, share):
        return None
    shares = (("forward", forward), ("backward", backward))
    figures = tuple(
        f"{name} {100 * of_step:.0f} %" for name, of_step in shares if of_step is not None
    )
    headline = f"The largest part of a step {run.verb('is', 'was')} forward and backward"
    brief = f"forward and backward {100 * share:.0f} % of a step"
    return Evidence(NETWORK, brief, headline, figures, share=share)


def _is_largest(run: RunSamples, share: float) -> bool:
    """Return whether no part of a step is larger; forward and backward count as one part."""
    parts = _parts(run)
    if parts is None:
        return False
    shares = {name: parts.share(name) or 0.0 for name in STEP_PARTS}
    shares["forward_us"] += shares.pop("backward_us")
    return run.reaches(share, max(*shares.values(), parts.rest_us / parts.step_us))


def _computing_share(run: RunSamples) -> float | None:
    """Return the share of a step that the network and the optimiser take."""
    names = ("forward_us", "backward_us", "optimizer_us")
    if _parts(run) is None:
        return None
    return sum(_share_of_step(run, name) or 0.0 for name in names)


def _parts(run: RunSamples) -> StepParts | None:
    """Return the parts of the steps; None if too few steps were measured."""
    return None if run.parts is None or run.parts.steps < LEAST_STEPS else run.parts


def _share_of_step(run: RunSamples, name: str) -> float | None:
    parts = _parts(run)
    return None if parts is None else parts.share(name)


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
    has, is_there = run.verb("has", "had"), run.verb("is", "was")
    return Evidence(
        "gpu-shared",
        f"{name} on {gpu_name(shared)}",
        f"Another program {is_there} on {gpu_name(shared)}",
        (f"{name}, pid {most.pid}", f"{has} {held}"),
        run.verb(f"wait for {program} to end", f"train without {program} on the GPU")
        + ", if it computes there",
    )


def allocator_frees(run: RunSamples) -> Evidence | None:
    """Return evidence if the allocator freed its cached memory, which waits for the GPU."""
    if not run.retries or run.is_lost:
        return None
    times = "once" if run.retries == 1 else f"{run.retries:,} times"
    return Evidence(
        "allocator",
        f"GPU memory short {times}",
        f"GPU memory {run.verb('is', 'was')} short",
        (f"the allocator freed all that it kept {times}, to go on",),
        "use a smaller batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    )
