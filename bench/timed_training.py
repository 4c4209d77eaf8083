"""Train a workload as `python -m workloads` does, and note the time of every step.

Usage: timed_training.py TIMES SWITCH, with the options on stdin, started by a supervisor. The
callback reports batches to dlmon only while the first byte of SWITCH is not 0. TIMES gets, as JSON,
each step after the first of an epoch: 1, its begin and its end (in monotonic ns).
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

batch_ends: list[tuple[int, int]] = []


def switched_callback(reporter: Any, plan: Any) -> Any:
    """Return dlmon's callback, which the switch turns on and off."""
    reporting = type(real("reporting_callback")(reporter, plan))
    with Path(sys.argv[2]).open("rb") as file:
        switch = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)

    class SwitchedCallback(reporting):  # type: ignore[misc, valid-type]
        """Notes the end of every training batch, and reports it while the switch is on."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Note the time, and report the batch."""
            batch_ends.append((batch, time.monotonic_ns()))
            if switch[0]:
                super().on_train_batch_end(batch, logs)

    return SwitchedCallback(plan)


def real(name: str) -> Any:
    """Return an attribute of the real module `workloads.callbacks`."""
    stand_in = sys.modules.pop("workloads.callbacks")
    try:
        return getattr(importlib.import_module("workloads.callbacks"), name)
    finally:
        sys.modules["workloads.callbacks"] = stand_in


def main() -> int:
    # The run must be the first to import Keras, so the callback is made late, by a module that
    # replaces `workloads.callbacks`.
    module = types.ModuleType("workloads.callbacks")
    module.__dict__.update(reporting_callback=switched_callback, __getattr__=real)
    sys.modules["workloads.callbacks"] = module
    import workloads.__main__ as workload

    code = workload.main()
    pairs = itertools.pairwise(batch_ends)
    steps = [(1, begin, end) for (_, begin), (index, end) in pairs if index > 0]
    Path(sys.argv[1]).write_text(json.dumps(steps))
    return code


if __name__ == "__main__":
    sys.exit(main())
