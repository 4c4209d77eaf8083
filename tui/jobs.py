"""Turn options of `run` into a job for the supervisor."""

from __future__ import annotations

from pathlib import Path

from dlmon.job import Job
from dlmon.processes import python_command
from workloads.catalog import Workload


def make_job(
    workload: Workload,
    directory: Path,
    *,
    device: str = "auto",
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    threads: int | None = None,
    data: str = "auto",
    interval: float = 1.0,
    detach: bool = False,
) -> Job:
    """Return the job that these options of `run` amount to, defaults filled in."""
    return Job(
        workload=workload.name,
        command=tuple(python_command("workloads")),
        options={
            "workload": workload.name,
            "device": device,
            "batch_size": batch_size or workload.batch_size,
            "epochs": epochs or workload.epochs,
            "steps": steps,
            "threads": threads,
            "data": data,
            "interval": interval,
        },
        log_dir=str(directory),
        device=device,
        interval_s=interval,
        outlives_viewer=detach,
    )
