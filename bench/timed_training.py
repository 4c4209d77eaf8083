"""Train a workload as `python -m workloads` does, and keep the time of every batch.

Usage: timed_training.py TIMES [SWITCH], the options on stdin. TIMES takes, as
JSON, the index and the end (in monotonic ns) of each batch.

Without SWITCH the run has nothing of dlmon in it: the code from its imports to
its evaluation is the same, but its callback only keeps the time, and no emitter
runs. With SWITCH it is a run like any other, started by a supervisor, whose
callback sends a batch to dlmon only while the first byte of that file is not 0.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

ended: list[tuple[int, int]] = []


class NoEmitter:
    """Takes the records of a run, and does nothing with them."""

    def __init__(self, fd: int) -> None:
        self.reads: object = None
        self.steps: object = None

    def send(self, item: object) -> None:
        """Do nothing."""

    batch_ended = send

    def take_requests(self, handlers: object) -> None:
        """Do nothing."""

    def close(self, wait_s: float) -> None:
        """Do nothing."""


def bare_callback(reporter: object, known: object) -> Any:
    """Return the callback of a run without dlmon."""
    import keras

    class BareCallback(keras.callbacks.Callback):  # type: ignore[misc]
        """Keeps the end of every training batch."""

        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Keep the time."""
            ended.append((batch, time.monotonic_ns()))

    return BareCallback()


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
    bare = len(sys.argv) < 3
    # Keras must not be imported before the run does it, so the callback is made late: the
    # run finds this in the place of the workloads' own module.
    module = types.ModuleType("workloads.callbacks")
    module.__dict__["reporting_callback"] = bare_callback if bare else switched_callback
    module.__dict__["__getattr__"] = real
    sys.modules["workloads.callbacks"] = module
    import workloads.__main__ as workload

    if bare:
        workload.__dict__["Emitter"] = NoEmitter
        os.environ["DLMON_RECORDS_FD"] = "-1"
    code = workload.main()
    Path(sys.argv[1]).write_text(json.dumps(ended))
    return code


if __name__ == "__main__":
    sys.exit(main())
