"""Report the runs of experiment trackers in which a script records itself.

What dlmon measures can then go into the same runs. They are looked up whenever a loop begins, and
as the process ends, on the thread that trains.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from dlmon.instrument.reporter import Reporter, wrap
from dlmon.records import TrackerRun

_Run = dict[str, Any]
"""Fields of a `TrackerRun`."""
_MOST_FOLDERS = 16


def _wandb_run(module: Any) -> _Run | None:
    run = module.run
    # Nothing can be added to a run that is offline: W&B keeps each writer in a folder of its own.
    if run is None or run.disabled or run.offline:
        return None
    return {"id": run.id, "place": f"{run.entity}/{run.project}".lstrip("/")}


def _mlflow_run(module: Any) -> _Run | None:
    run = module.active_run()
    return None if run is None else {"id": run.info.run_id}


def _trackio_run(module: Any) -> _Run | None:
    run = module.context_vars.current_run.get()
    # One with a URL is kept on another machine.
    if run is None or run.url is not None:
        return None
    return {"id": run.id, "place": run.project, "name": run.name}


_FIND: dict[str, Callable[[Any], _Run | None]] = {
    "wandb": _wandb_run,
    "mlflow": _mlflow_run,
    "trackio": _trackio_run,
}


class TrackerRuns:
    """Reports each run of this process to a reporter, once."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.modules: dict[str, ModuleType] = {}
        """The libraries that are imported, by the name of their tracker."""
        self._folders: list[str] = []
        self._reported: list[_Run] = []
        os.register_at_fork(after_in_child=self._reported.clear)
        reporter.at_loop(self.report)

    def add_folder(self, folder: str | os.PathLike[str]) -> None:
        """Note a folder into which event files are written."""
        if len(self._folders) < _MOST_FOLDERS:
            with contextlib.suppress(OSError, ValueError):
                self._folders.append(str(Path(folder).resolve()))
            if self._reporter.loops:
                self.report()

    def report(self) -> None:
        """Report the runs that are not reported yet."""
        runs: list[_Run] = [{"tracker": "tensorboard", "place": folder} for folder in self._folders]
        for tracker, module in self.modules.items():
            # Another version of a library may lack anything.
            with contextlib.suppress(Exception):
                if (run := _FIND[tracker](module)) is not None:
                    runs.append({"tracker": tracker, **run})
        for run in runs:
            if run not in self._reported:
                self._reported.append(run)
                self._reporter.send(TrackerRun(time.monotonic_ns(), **run))


@cache
def tracker_runs_of(reporter: Reporter) -> TrackerRuns:
    """Return the one `TrackerRuns` of a reporter."""
    return TrackerRuns(reporter)


def watch_runs(module: ModuleType, reporter: Reporter) -> None:
    """Look up the runs of a library whenever a loop begins."""
    tracker_runs_of(reporter).modules[module.__name__] = module


def watch_event_files(module: ModuleType, reporter: Reporter, name: str) -> None:
    """Watch the function, or the constructor of the class, that begins an event file."""
    runs, writer = tracker_runs_of(reporter), getattr(module, name)
    is_class = isinstance(writer, type)

    def begins(*arguments: Any, logdir: Any = None, **named: Any) -> None:
        folder = logdir if logdir is not None else next(iter(arguments[is_class:]), None)
        if isinstance(folder, (str, os.PathLike)):
            runs.add_folder(folder)

    holder, function = (writer, "__init__") if is_class else (module, name)
    wrap(holder, function, reporter, before=begins)
