"""Turn options of `run` into a job for the supervisor, and a recorded job into options."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

from dlmon.launch.children import python_command
from dlmon.launch.job import Job
from dlmon.log.directory import log_directory
from dlmon.records import SessionHeader
from tui.options.run import SETTINGS, RunOptions
from workloads.catalog import Workload


def make_job(
    workload: Workload,
    directory: Path,
    options: RunOptions | None = None,
    *,
    detach: bool = False,
) -> Job:
    """Return the job that these options amount to, the workload's defaults filled in.

    Raises:
        LogError: the options name a log directory relative to one that was deleted.
    """
    chosen = options or RunOptions()
    if chosen.log_dir is not None:
        directory = log_directory(Path(chosen.log_dir))
    return Job(
        workload=workload.name,
        command=tuple(python_command("workloads")),
        options={
            "workload": workload.name,
            **{name: getattr(chosen, name) for name in SETTINGS},
            "batch_size": chosen.batch_size or workload.batch_size,
            "epochs": chosen.epochs or workload.epochs,
        },
        log_dir=str(directory),
        device=chosen.device,
        interval_s=chosen.interval,
        pcie=chosen.pcie,
        outlives_viewer=detach or chosen.detach,
    )


def recorded_options(header: SessionHeader) -> RunOptions | None:
    """Return the options that a session was launched with; None if a log records invalid ones.

    The workload's defaults are filled in there, so they come back as numbers.
    Where it was kept, and whether it was detached, is not among them.
    """
    types = get_type_hints(RunOptions)
    recorded = {name: value for name, value in header.options.items() if name in SETTINGS}
    if all(isinstance(value, types[name]) for name, value in recorded.items()):
        return RunOptions(**recorded)
    return None
