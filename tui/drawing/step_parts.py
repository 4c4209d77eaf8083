"""The colours of the parts of a step and of a run's time, the same on all screens."""

from __future__ import annotations

from dlmon.records import TimePart
from dlmon.records.training import WAITS

_PALE = "$foreground 50%"
PART_STYLES = {
    "wait_us": "$chart-memory",
    "copy_us": "$chart-power",
    "forward_us": "$chart-throughput",
    "backward_us": "$chart-cpu",
    "optimizer_us": "$chart-loss",
    "collective_us": "$foreground 70%",
    "rest_us": "$chart-gpu",
    WAITS: _PALE,
}
"""By their fields of `StepParts`, in the order of a step; `WAITS` is the waiting for ranks."""

PART_GLYPHS = dict(zip(PART_STYLES, "█▀▓▒╱╲▚░", strict=True))
"""What tells the parts of a step apart without colours."""

_START, _PAUSE = _PALE, "$text-error"
TIME_STYLES = {
    **dict.fromkeys(TimePart, _START),
    TimePart.TRAINING: "$primary",
    TimePart.DATA_WAIT: PART_STYLES["wait_us"],
    TimePart.SCRIPT: PART_STYLES["rest_us"],
    TimePart.COMPILING: "$part-compile",
    TimePart.VALIDATION: "$part-validation",
    TimePart.EVALUATION: "$part-validation",
    TimePart.CHECKPOINT: "$part-checkpoint",
    **dict.fromkeys((TimePart.STALLS, TimePart.BETWEEN_STEPS, TimePart.GAPS), _PAUSE),
    TimePart.UNKNOWN: "$foreground 25%",
}
