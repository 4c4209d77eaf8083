"""The parts of a session's time besides its steps, as what may limit it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dlmon.records import COMPILE, NamedPause, TimePart
from dlmon.session.limits.evidence import Evidence
from dlmon.session.reasons import PIPELINE

LEAST_S, LEAST_SHARE = 10.0, 0.1
"""The least time that is judged, and the least share of it that is reported."""
LEAST_ONCE_S = 60.0
"""What comes but once counts only if it takes this time: each run has to start."""
_BEFORE = (TimePart.STARTUP, TimePart.LOADING, TimePart.BUILDING)
_STEPS = (TimePart.TRAINING, TimePart.DATA_WAIT)
# The rule, and the advice, for each part.
_PARTS = {
    TimePart.STARTUP: ("before-training", "see what the script does before its first step"),
    TimePart.COMPILING: (
        "compiling",
        "find what changes from step to step: pad it to one shape, or mark it as dynamic",
    ),
    TimePart.STALLS: ("pauses", "see what the longest pauses were"),
    TimePart.BETWEEN_STEPS: ("slow-steps", "do less often what these steps do"),
    TimePart.OPENINGS: ("epoch-starts", "keep the loader's workers: persistent_workers=True"),
    TimePart.VALIDATION: ("validating", "validate less often, or on fewer samples"),
    TimePart.EVALUATION: ("evaluating", "evaluate on fewer samples, or with a larger batch"),
    TimePart.CHECKPOINT: ("checkpoints", "save less often, or in another thread"),
    TimePart.GARBAGE: ("garbage", "call gc.freeze() before the loop, or collect less often"),
    TimePart.GAPS: ("between-epochs", "see what runs between epochs, such as callbacks"),
    TimePart.SCRIPT: ("other-code", "see what the script does between its loops and after them"),
}


_BETWEEN = (TimePart.OPENINGS, TimePart.GAPS)
_WITHOUT_AUTOTUNING = "turn tf.data's autotuning off: docs/pauses-between-epochs.md"


class TimeShares(NamedTuple):
    """The shares of the time that a run trains, with what interrupts it.

    Attributes:
        evidence: the parts besides the steps that take a good part of it.
        of_steps: the share of the steps, 0 to 1.
    """

    evidence: tuple[Evidence, ...] = ()
    of_steps: float = 1.0


NO_TIME = TimeShares()


def time_shares(
    breakdown: Mapping[TimePart, float],
    pauses: Iterable[NamedPause],
    is_over: bool,
    overdue_s: float = 0.0,
    taken_down_s: float = 0.0,
) -> TimeShares:
    """Return the shares of the parts of a session's time; nothing of a short one.

    The start and the first compilation come but once: they count only in a run that is over, and if
    they took long.

    Args:
        breakdown: the seconds of each part.
        pauses: the named pauses of frameworks, which tell what compiled again.
        is_over: the run is over.
        overdue_s: the time since the last step if the next is overdue: it doesn't count yet.
        taken_down_s: the time in which TensorFlow takes down the data pipelines of epochs.
    """
    again_s = sum(p.seconds for p in pauses if p.name == COMPILE and p.reason and not p.beside)
    again_s = min(again_s, breakdown.get(TimePart.COMPILING, 0.0))
    first_s = breakdown.get(TimePart.COMPILING, 0.0) - again_s
    before_s = sum(breakdown.get(part, 0.0) for part in _BEFORE)
    seconds = {part: breakdown.get(part, 0.0) for part in (*_STEPS, *_PARTS)}
    counts_once = is_over and before_s + first_s >= LEAST_ONCE_S
    seconds[TimePart.STALLS] = max(0.0, seconds[TimePart.STALLS] - overdue_s)
    seconds[TimePart.STARTUP] = before_s if counts_once else 0.0
    seconds[TimePart.COMPILING] = again_s + (first_s if counts_once else 0.0)
    total_s = sum(seconds.values())
    if total_s < LEAST_S:
        return NO_TIME
    of = f"of {total_s:.1f} s {'in all' if counts_once else 'since the first step'}"
    evidence = []
    for part, (rule, advice) in _PARTS.items():
        share = seconds[part] / total_s
        if share >= LEAST_SHARE:
            reasons: tuple[str, ...] = (f"{seconds[part]:.1f} {of}",)
            if part in _BETWEEN and taken_down_s >= sum(map(seconds.__getitem__, _BETWEEN)) / 2:
                reasons, advice = (*reasons, PIPELINE), _WITHOUT_AUTOTUNING
            evidence.append(Evidence(rule, f"{100 * share:.0f} %", reasons, advice, share))
    return TimeShares(tuple(evidence), sum(seconds[part] for part in _STEPS) / total_s)
