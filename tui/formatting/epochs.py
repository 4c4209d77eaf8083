"""What differed in an epoch, in words: only what was measured. Pure."""

from __future__ import annotations

from dlmon.session.epoch_comparison import (
    COMPILING_S,
    ENDING_S,
    MIN_EPOCHS,
    STEPS_S,
    VALIDATION_S,
    Differing,
    EpochComparison,
)
from dlmon.session.epoch_use import OPENING_S, STALLED_S, WAITED_S
from tui.formatting import units

_MOST_PARTS = 2

# What the rest of its readings named nothing, or were too few to.
NOTHING_DIFFERED = "Nothing else that was measured differed."
NOT_READ = "The machine was read too seldom in it to say more."

_SHARES = {
    "heat_pct": "slowed by heat",
    "power_brake_pct": "slowed by the power brake",
    "slowdown_pct": "slowed by a hardware slowdown",
    "power_cap_pct": "at its power cap",
}
_WAITS = {
    "cpu_wait_pct": "some program waited for a CPU",
    "memory_wait_pct": "some program waited for memory",
    "io_wait_pct": "some program waited for a disk",
}


def epoch_comparison_text(it: EpochComparison, each: str = "epoch", gpu: int | None = None) -> str:
    """Say how long an epoch took beside the others, and what differed.

    Args:
        it: what `compare_epoch` found.
        each: what one is called.
        gpu: the GPU that is trained on.
    """
    took = f"took {units.seconds(it.seconds)}"
    if not it.epoch.whole:
        return f"{took} and was cut short, so it is not compared with the others."
    if it.usual_s is None:
        least = f"{MIN_EPOCHS} whole {units.plural(each)}"
        return f"{took}; what is usual shows once there are {least}."
    more_s = it.seconds - it.usual_s
    by = units.seconds(abs(more_s))
    usual = f"the usual {units.seconds(it.usual_s)}"
    if units.seconds(it.seconds) == units.seconds(it.usual_s):
        first = f"{took}, as usual"
    else:
        first = f"{took}, {by} {'more' if more_s > 0 else 'less'} than {usual}"
    parts = ", ".join(map(_part_text, it.parts[:_MOST_PARTS]))
    sentences = [f"{first}: {parts}." if parts else f"{first}."]
    causes = "; ".join(_cause_text(cause, gpu) for cause in it.causes)
    if causes:
        sentences.append(f"{causes[0].upper()}{causes[1:]}.")
    elif not it.is_read:
        sentences.append(NOT_READ)
    elif it.is_slow or not parts:
        sentences.append(NOTHING_DIFFERED if parts else NOTHING_DIFFERED.replace(" else", ""))
    return " ".join(sentences)


def _part_text(part: Differing) -> str:
    took = units.seconds(part.value)
    usually = f"usually {units.seconds(part.usual)}" if part.usual >= 0.005 else "usually none"
    if part.name == STALLED_S:
        return f"{units.counted(part.count, 'stall')} took {took} ({usually})"
    if part.name == COMPILING_S:
        return f"compiling took {took} of it"
    name = {
        OPENING_S: "its start took",
        WAITED_S: "waiting for data took",
        VALIDATION_S: "validation took",
        ENDING_S: "what followed the last batch took",
        STEPS_S: "its steps took",
    }[part.name]
    return f"{name} {took} ({usually})"


def _cause_text(cause: Differing, gpu: int | None) -> str:
    name, value, usual = cause.name, cause.value, cause.usual
    device = "GPU" if gpu is None else f"GPU {gpu}"
    if name in _SHARES:
        return f"{device} {_SHARES[name]} in {value:.0f} % of readings (usually {usual:.0f} %)"
    if name in _WAITS:
        return f"{_WAITS[name]} {value:.0f} % of the time (usually {usual:.0f} %)"
    if name == "sm_mhz":
        return f"{device} clock {value:,.0f} MHz (usually {usual:,.0f})"
    if name == "gpu_pct":
        return f"{device} busy {value:.0f} % (usually {usual:.0f} %)"
    if name == "other_cores":
        return f"other programs took {value:.1f} cores (usually {usual:.1f})"
    if name == "others_gpu_gib":
        return f"other programs held {value:.1f} GiB on {device} (usually {usual:.1f})"
    if name == "stopped_pct":
        return f"the CPU limit stopped the run in {value:.0f} % of periods (usually {usual:.0f} %)"
    if name == "steal_pct":
        return f"the host took {value:.0f} % of the CPUs (usually {usual:.0f} %)"
    return f"swap {value:.0f} MiB/s (usually {usual:.0f})"
