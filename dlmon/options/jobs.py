"""Turn options of `run` into a job for the supervisor, and a recorded job into options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.log.folder import log_directory
from dlmon.options.run_options import SETTINGS, RunOptions, known_options
from dlmon.protocol.job import Job
from dlmon.records import SessionHeader
from dlmon.script_name import script_name
from dlmon.system.children import python_command
from workloads.catalog import Workload


def make_job(
    workload: Workload,
    usual: Path,
    options: RunOptions,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that these options amount to, the workload's defaults filled in.

    Its session is recorded in the `usual` place, unless the options name another.

    Raises:
        LogError: the options name a log directory relative to one that was deleted.
    """
    # By which command a workload is run on another machine, the host knows.
    command = python_command("workloads") if options.host is None else ()
    # On several devices each has as large a batch; how many those are is known where it runs.
    batch_size = None if options.wants_several else workload.batch_size
    return Job(
        workload=workload.name,
        command=tuple(command),
        options={
            "workload": workload.name,
            **{name: getattr(options, name) for name in SETTINGS},
            "batch_size": options.batch_size or batch_size,
            "epochs": options.epochs or workload.epochs,
        },
        device=options.device,
        devices=options.devices,
        **_of_any_job(usual, options, alerts),
    )


def make_script_job(
    command: tuple[str, ...],
    directory: str | None,
    usual: Path,
    options: RunOptions,
    expected: Mapping[str, int | None] | None = None,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that runs a script of a person's own.

    Without a directory it runs here, or in the home directory of another machine. What a person
    says of its training is `expected`, by the names of `dlmon.supervisor.expected`; None is
    unknown. Its session is recorded in the `usual` place, unless the options name another.

    Raises:
        FileNotFoundError: it would run in a working directory that was deleted; the message is a
            sentence for a person.
        LogError: the options name a log directory relative to one that was deleted.
    """
    if options.host is None:
        try:
            directory = str(Path(directory or ".").absolute())
        except FileNotFoundError:
            raise FileNotFoundError(
                "the working directory is gone; change to another one, or give --directory a full "
                "path"
            ) from None
    return Job(
        workload=script_name(command),
        command=command,
        options={
            "interval": options.interval,
            "pcie": options.pcie,
            "price": options.price,
            **{name: said for name, said in (expected or {}).items() if said is not None},
        },
        script=True,
        directory=directory,
        **_of_any_job(usual, options, alerts),
    )


def make_recording(
    usual: Path,
    options: RunOptions,
    for_s: float | None,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that records a machine, for so long or until it is stopped."""
    return Job(
        workload="",
        command=(),
        options={"interval": options.interval, "pcie": options.pcie, "for_s": for_s},
        for_s=for_s,
        **_of_any_job(usual, options, alerts),
    )


def _of_any_job(usual: Path, options: RunOptions, alerts: AlertSettings | None) -> dict[str, Any]:
    log_dir = options.log_dir or ""
    if options.host is None:
        log_dir = str(log_directory(Path(log_dir)) if log_dir else usual)
    chosen = (alerts or AlertSettings()).chosen(options.alert, options.host)
    return {
        "log_dir": log_dir,
        "interval_s": options.interval,
        "pcie": options.pcie,
        "outlives_viewer": options.detach,
        "name": options.name,
        "alerts": None if chosen is None else asdict(chosen),
    }


def output_size(columns: int, rows: int) -> tuple[int, int]:
    """Return the size of the terminal that a script writes to, of the one that it is shown in."""
    return max(40, columns - 4), rows


def recorded_options(header: SessionHeader) -> RunOptions | None:
    """Return the options that a session was launched with; None if a log records invalid ones.

    The workload's defaults are filled in there, so they come back as numbers.
    Where it was kept, what it was called, and whether it was detached, is not among them.
    """
    recorded = {name: value for name, value in header.options.items() if name in SETTINGS}
    return RunOptions(**recorded) if known_options(recorded) == recorded else None
