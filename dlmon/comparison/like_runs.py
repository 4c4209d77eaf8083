"""What like runs have in common: the same work, asked for and computed the same way. Pure.

They say how far runs differ by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlmon.comparison.same_script import Script
from dlmon.records.record import record

BACKEND = "backend"
"""What Keras runs on; of a script what it was seen to run on, where the log says it."""
# Where the log is kept and how a run is watched changes nothing of it.
_OF_NO_EFFECT = frozenset({"log_dir", "detach", "name", "note"})
_PRICE = "price"


@record(frozen=True)
class Settings:
    """How a run was made.

    Attributes:
        work: the machine, what was trained there, and what was asked for.
        backend: what a script's Keras ran on, None where that isn't known; empty of a workload,
            whose options say it.
        versions: of the software, the code of a script included.
    """

    work: tuple[str | bool | int | None, ...]
    backend: str | None
    versions: str


def settings_of(
    host: str | None,
    workload: str,
    command: tuple[str, ...] | None,
    device: str | None,
    options: Mapping[str, Any],
    versions: Mapping[str, Any],
    *,
    samples: int | None = None,
    counts_steps: bool = False,
    script: Script | None = None,
    sha256: str | None = None,
) -> Settings:
    """Return how a run was made.

    Args:
        host: the machine.
        workload: what was trained.
        command: of a script; None of a workload.
        device: what it ran on.
        options: that were given.
        versions: of the software.
        samples: of a whole epoch: of a script they may depend on more than its arguments.
        counts_steps: whether its throughput is of steps, as the sizes of its batches aren't known.
        script: which script it was; None of a workload.
        sha256: of the script's file; None where it isn't known.
    """
    asked = {name: value for name, value in options_with_effect(options).items() if name != _PRICE}
    is_script = command is not None
    backend = asked.pop(BACKEND, None) if is_script else ""
    place = None if script is None else script.place
    of_script = (place, repr(command), counts_steps, samples if is_script else None)
    code = (sha256, None if script is None else script.git_commit)
    return Settings(
        work=(host, workload, device, repr(asked), *of_script),
        backend=None if backend is None else str(backend),
        versions=repr((versions, code)),
    )


def options_with_effect(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options that were given, but for those that change nothing of a run."""
    return {
        name: value
        for name, value in sorted(options.items())
        if name not in _OF_NO_EFFECT and value is not None
    }
