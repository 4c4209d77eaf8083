"""What earlier versions wrote in words only, as the codes that stand beside the words now.

This is the one place that goes by a sentence: logs of dlmon 0.1.0 hold no code for it.
"""

from __future__ import annotations

from typing import Any

from dlmon.records.words import FailureKind, Status

# With what a workload of 0.1.0 ended whose options could not be run where it was.
_REFUSED = 69
_MEMORY_RAN_OUT = "memory ran out"


def failure_kind(result: dict[str, Any]) -> FailureKind | None:
    """Return what made a run fail, by what its result says; None where that is not known."""
    if result["status"] != Status.FAILED:
        return None
    if _MEMORY_RAN_OUT in (result["error"] or ""):
        return FailureKind.OUT_OF_MEMORY
    return FailureKind.REFUSED if result["exit_code"] == _REFUSED else None
