"""Turn options of `run` into a job for the supervisor, and a recorded job into options."""

from __future__ import annotations

import os
import sys
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
    default_log_dir: Path,
    options: RunOptions,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job for these options, with the workload's defaults filled in.

    It is recorded in `default_log_dir` unless the options name another directory.

    Raises:
        LogError: the options name a log directory relative to a deleted one.
    """
    # Another host has a command of its own for workloads.
    command = python_command("workloads") if options.host is None else ()
    # The default holds for each device, whose number is only known where the job runs.
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
        **_common_fields(default_log_dir, options, alerts),
    )


def make_script_job(
    command: tuple[str, ...],
    directory: str | None,
    default_log_dir: Path,
    options: RunOptions,
    expected: Mapping[str, int | None] | None = None,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that runs a user's script.

    Without a `directory` it runs in the current one, or on another host in the home directory. It
    is recorded in `default_log_dir` unless the options name another directory. What is `expected`
    of the training has the names in `dlmon.supervisor.expected`.

    Raises:
        FileNotFoundError: the current directory was deleted; the message is for the user.
        LogError: the options name a log directory relative to a deleted one.
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
            **({} if options.to is None else {"to": options.to}),
            **{name: value for name, value in (expected or {}).items() if value is not None},
        },
        script=True,
        directory=directory,
        environment=_environment_of_caller() if options.host is None else {},
        **_common_fields(default_log_dir, options, alerts),
    )


def _environment_of_caller() -> dict[str, str]:
    """Return a PATH without our own folder, which `uvx` puts first: `python` is the caller's.

    The folder of an active environment stays, and so does one that a person put there.
    """
    first, _, others = os.environ.get("PATH", "").partition(os.pathsep)
    is_active = os.environ.get("VIRTUAL_ENV") == sys.prefix
    is_from_uvx = "UV" in os.environ and not is_active and first == str(Path(sys.prefix, "bin"))
    return {"PATH": others} if is_from_uvx else {}


def make_recording(
    default_log_dir: Path,
    options: RunOptions,
    for_s: float | None,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that records a machine for `for_s`, or until it is stopped."""
    return Job(
        workload="",
        command=(),
        options={"interval": options.interval, "pcie": options.pcie, "for_s": for_s},
        for_s=for_s,
        **_common_fields(default_log_dir, options, alerts),
    )


def _common_fields(
    default_log_dir: Path, options: RunOptions, alerts: AlertSettings | None
) -> dict[str, Any]:
    log_dir = options.log_dir or ""
    if options.host is None:
        log_dir = str(log_directory(Path(log_dir)) if log_dir else default_log_dir)
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
    """Return the terminal size for a script whose output is shown in a terminal of this size."""
    return max(40, columns - 4), rows


def recorded_options(header: SessionHeader) -> RunOptions | None:
    """Return the options of a session, as recorded; None if they are invalid.

    They include the workload's defaults, but not the log directory, the name and `detach`.
    """
    recorded = {name: value for name, value in header.options.items() if name in SETTINGS}
    return RunOptions(**recorded) if known_options(recorded) == recorded else None
