"""Turn options of `run` into a job for the supervisor."""

from __future__ import annotations

from pathlib import Path

from dlmon.job import Job
from dlmon.processes import python_command
from tui.run_options import RunOptions
from workloads.catalog import Workload


def make_job(
    workload: Workload,
    directory: Path,
    options: RunOptions | None = None,
    *,
    detach: bool = False,
) -> Job:
    """Return the job that these options amount to, the workload's defaults filled in."""
    chosen = options or RunOptions()
    return Job(
        workload=workload.name,
        command=tuple(python_command("workloads")),
        options={
            "workload": workload.name,
            "device": chosen.device,
            "batch_size": chosen.batch_size or workload.batch_size,
            "epochs": chosen.epochs or workload.epochs,
            "steps": chosen.steps,
            "threads": chosen.threads,
            "data": chosen.data,
            "interval": chosen.interval,
        },
        log_dir=str(directory),
        device=chosen.device,
        interval_s=chosen.interval,
        outlives_viewer=detach,
    )
