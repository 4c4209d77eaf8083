"""The rules of what limits a run that look at the GPU it trains on. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlmon.records import Gpu, Machine
from dlmon.records.sanitize import clean
from dlmon.session.limits.seen import (
    BUSY_PCT,
    MIN_SAMPLES,
    Evidence,
    Seen,
    program_name,
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
    samples: Sequence[Machine], newest: Machine, gpu_index: int | None, ended: bool
) -> Evidence | None:
    """Hold when the GPU that is trained on gave readings, and the `newest` sample has none."""
    if gpu_index is None or ended:
        return None
    rows = [_row_of(sample, gpu_index) for sample in samples]
    latest = _row_of(newest, gpu_index)
    state = newest.gpus_state if latest is None else latest.state
    was_read = any(row is not None and _is_read(row) for row in rows)
    may_answer = state is not None and state.may_answer_later
    if (latest is not None and _is_read(latest)) or not (was_read or may_answer):
        return None
    why = newest.why.get("gpus") if latest is None else latest.why.get("utilization_pct")
    reason = clean(why or "", LONGEST_REASON) or (str(state) if may_answer else "no reason known")
    headline = f"GPU {gpu_index} gives no readings now"
    brief = f"GPU {gpu_index} gives no readings"
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
    name = f"GPU {seen.gpus[-1].index}"
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
            f"{name} {seen.verb('is', 'was')} slowed by {_SLOWED_BY[rules[0]]}",
            figures,
            _against_slowing(rules[0], seen, power_w, limit_w),
            share,
        )
    if busy_pct is None or not seen.is_busy(busy_pct):
        return None
    brief, often = f"{name} {busy_pct:.0f} % busy", f"{busy_pct:.0f} % of the time"
    of_power = power_w / limit_w if power_w is not None and limit_w else None
    if of_power is not None and of_power >= (NEARLY_SO if seen.holds else NEAR_POWER_LIMIT):
        headline = f"{name} {seen.verb('works', 'worked')} near its power limit"
        brief += ", near its power limit"
        return Evidence("gpu-near-power", brief, headline, (often, power), share=share)
    figures = (often, *([f"at {power}"] if power else []))
    advised = ""
    if of_power is not None and of_power < LOW_POWER:
        # Its kernels don't fill it: a larger batch gives each of them more to do.
        advised = _larger_batch(seen)
    headline = f"{name} {seen.verb('is', 'was')} busy"
    return Evidence("gpu", brief, headline, figures, advised, share)


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
    beside = f"GPU {seen.gpus[-1].index} at {gpu_pct:.0f} %"
    was = seen.verb("is", "was")
    # Where it is known not to load data, more work per step gives the GPU more to do.
    loads_nothing = seen.waited_share is not None and seen.waited_share < WAITED_SHARE
    return Evidence(
        "thread",
        f"one {what} at {pct:.0f} %, {beside}",
        f"GPU {seen.gpus[-1].index} {seen.verb('waits', 'waited')}, one {what} {was} busy",
        (f"{what} at {pct:.0f} % of a core", beside),
        _larger_batch(seen) if loads_nothing else "",
    )


def gpu_shared(seen: Seen) -> Evidence | None:
    """Hold when another program has memory on the GPU that is trained on."""
    if seen.is_lost:
        return None
    rows = next((s.processes for s in reversed(seen.samples) if s.processes is not None), ())
    others = [
        row
        for row in rows
        if row.of_run is False
        and seen.gpu_index in row.gpus
        and (row.gpu_memory_mib or 0) >= SHARED_GPU_MIB
    ]
    if not others:
        return None
    most = max(others, key=lambda row: row.gpu_memory_mib or 0)
    name = program_name(most.command) or "unnamed"
    held = f"{(most.gpu_memory_mib or 0) / 1024:.1f} GiB"
    its = f"{name} (pid {most.pid})"
    has, is_there = seen.verb("has", "had"), seen.verb("is", "was")
    return Evidence(
        "gpu-shared",
        f"{name} on GPU {seen.gpu_index}",
        f"Another program {is_there} on GPU {seen.gpu_index}",
        (f"{name}, pid {most.pid}", f"{has} {held}"),
        seen.verb(f"wait for {its} to end", f"train without {its} on the GPU")
        + ", if it computes there",
    )
