"""Train a workload as `python -m workloads` does, and keep the time of every step.

Usage: timed_training.py TIMES SWITCH, the options on stdin, started by a supervisor. Its callback
sends a batch to dlmon only while the first byte of SWITCH is not 0. TIMES takes, as JSON, each step
after the first of an epoch: 1, its begin and its end (in monotonic ns).
"""

from __future__ import annotations

import importlib
import itertools
import json
import mmap
import sys
import time
import types
from pathlib import Path
from typing import Any

ended: list[tuple[int, int]] = []


def switched_callback(reporter: Any, known: Any) -> Any:
    """Return dlmon's callback behind the switch."""
    reporting = type(real("reporting_callback")(reporter, known))
    with Path(sys.argv[2]).open("rb") as file:
        switch = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)

    class SwitchedCallback(reporting):  # type: ignore[misc, valid-type]
        """Keeps the end of every training batch, and sends it while the switch is on."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Keep the time, and send it."""
            ended.append((batch, time.monotonic_ns()))
            if switch[0]:
                super().on_train_batch_end(batch, logs)

    return SwitchedCallback(known)


def real(name: str) -> Any:
    """Return what the workloads' own module has under a name."""
    stand_in = sys.modules.pop("workloads.callbacks")
    try:
        return getattr(importlib.import_module("workloads.callbacks"), name)
    finally:
        sys.modules["workloads.callbacks"] = stand_in


def main() -> int:
    # Keras must not be imported before the run does it, so the callback is made late: the
    # run finds this in the place of the workloads' own module.
    module = types.ModuleType("workloads.callbacks")
    module.__dict__.update(reporting_callback=switched_callback, __getattr__=real)
    sys.modules["workloads.callbacks"] = module
    import workloads.__main__ as workload

    code = workload.main()
    pairs = itertools.pairwise(ended)
    steps = [(1, begin, end) for (_, begin), (index, end) in pairs if index > 0]
    Path(sys.argv[1]).write_text(json.dumps(steps))
    return code


if __name__ == "__main__":
    sys.exit(main())
