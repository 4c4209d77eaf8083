"""What dlmon 0.1.0 said in words only, as the codes that stand beside the words now.

This is the one place that goes by a sentence. Each function completes the values of a record
that holds no code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlmon.records.machine import Gpu, GpuFacts, Machine, MachineFacts
from dlmon.records.session import Result
from dlmon.records.words import FailureKind, GpuState, Requirement, Status

# With what a workload ended whose options could not be run where it was.
_REFUSED = 69
_MEMORY_RAN_OUT = "memory ran out"
_REQUIREMENTS = {
    "the model is not built yet": Requirement.MODEL,
    "the run was too short for a figure": Requirement.STEADY_STATE,
}
_GPU_STATES = {
    "lost": GpuState.LOST,
    "asleep": GpuState.ASLEEP,
    "idle": GpuState.IDLE,
    "no NVIDIA driver": GpuState.NO_DRIVER,
    "the NVIDIA driver is not loaded": GpuState.NO_DRIVER,
    "the Python package nvidia-ml-py": GpuState.NO_PACKAGE,
    "the NVIDIA driver and its library differ": GpuState.VERSIONS_DIFFER,
    "NVML was shut down": GpuState.UNKNOWN,
}

Values = dict[str, Any]


def _complete_result(values: Values) -> None:
    if values["failure"] is None and values["status"] == Status.FAILED:
        if _MEMORY_RAN_OUT in (values["error"] or ""):
            values["failure"] = FailureKind.OUT_OF_MEMORY
        elif values["exit_code"] == _REFUSED:
            values["failure"] = FailureKind.REFUSED
    if values["lacking"] is None and values["why"]:
        missing = {name: _by_words(_REQUIREMENTS, why) for name, why in values["why"].items()}
        known = {name: lack for name, lack in missing.items() if lack is not None}
        values["lacking"] = known or None


def _complete_state(name: str, figure: str) -> Callable[[Values], None]:
    """Return what fills in a state by the reason why a figure is unknown."""

    def complete(values: Values) -> None:
        if values[name] is None and values["why"]:
            values[name] = _by_words(_GPU_STATES, values["why"].get(figure, ""))

    return complete


def _by_words(codes: Mapping[str, Any], why: str) -> Any:
    return next((code for words, code in codes.items() if why.startswith(words)), None)


COMPLETE: dict[type[Any], Callable[[Values], None]] = {
    Result: _complete_result,
    Gpu: _complete_state("state", "utilization_pct"),
    GpuFacts: _complete_state("state", "uuid"),
    Machine: _complete_state("gpus_state", "gpus"),
    MachineFacts: _complete_state("gpus_state", "gpus"),
}
"""What completes the values of a record of each of these classes."""
