"""Turn options of `run` into a job for the supervisor, and a recorded job into options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from dlmon.alerts.settings import AlertSettings
from dlmon.launch.children import python_command
from dlmon.launch.job import Job
from dlmon.log.folder import log_directory
from dlmon.options.run import SETTINGS, RunOptions
from dlmon.records import SessionHeader
from dlmon.script_name import script_name
from workloads.catalog import Workload


def make_job(
    workload: Workload,
    directory: Path,
    options: RunOptions,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that these options amount to, the workload's defaults filled in.

    Args:
        workload: what is trained.
        directory: where its session is recorded, unless the options say it.
        options: what a person chose.
        alerts: what the settings say of them.

    Raises:
        LogError: the options name a log directory relative to one that was deleted.
    """
    if options.host is not None:
        # What is there, and by which command a workload is run there, the host knows.
        log_dir, command = options.log_dir or "", []
    else:
        if options.log_dir is not None:
            directory = log_directory(Path(options.log_dir))
        log_dir, command = str(directory), python_command("workloads")
    return Job(
        workload=workload.name,
        command=tuple(command),
        options={
            "workload": workload.name,
            **{name: getattr(options, name) for name in SETTINGS},
            "batch_size": options.batch_size or workload.batch_size,
            "epochs": options.epochs or workload.epochs,
        },
        log_dir=log_dir,
        device=options.device,
        interval_s=options.interval,
        pcie=options.pcie,
        outlives_viewer=options.detach,
        name=options.name,
        alerts=_alerts(options, alerts),
    )


def _alerts(options: RunOptions, alerts: AlertSettings | None) -> dict[str, Any] | None:
    chosen = (alerts or AlertSettings()).chosen(options.alert, options.host)
    return None if chosen is None else chosen.to_fields()


def make_script_job(
    command: tuple[str, ...],
    directory: str | None,
    kept_in: Path,
    options: RunOptions,
    expected: Mapping[str, int | None] | None = None,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that runs a script of a person's own.

    Args:
        command: its words.
        directory: where it runs; None for here, or for the home directory of another machine.
        kept_in: where its session is recorded.
        options: those of a run that a script has too.
        expected: what a person says of its training, by the names of
            `dlmon.supervisor.expected`; what is None is not known.
        alerts: what the settings say of them.

    Raises:
        FileNotFoundError: it would run in a working directory that was deleted; the message is a
            sentence for a person.
    """
    is_here = options.host is None
    if is_here:
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
        log_dir=str(kept_in) if is_here else options.log_dir or "",
        interval_s=options.interval,
        pcie=options.pcie,
        outlives_viewer=options.detach,
        name=options.name,
        script=True,
        directory=directory,
        alerts=_alerts(options, alerts),
    )


def output_size(columns: int, rows: int) -> tuple[int, int]:
    """Return the size of the terminal that a script writes to, of the one that it is shown in."""
    return max(40, columns - 4), rows


def make_recording(
    directory: Path,
    options: RunOptions,
    for_s: float | None,
    alerts: AlertSettings | None = None,
) -> Job:
    """Return the job that records this machine, for so long or until it is stopped."""
    return Job(
        workload="",
        command=(),
        options={"interval": options.interval, "pcie": options.pcie, "for_s": for_s},
        log_dir=str(directory),
        interval_s=options.interval,
        pcie=options.pcie,
        outlives_viewer=options.detach,
        for_s=for_s,
        name=options.name,
        alerts=_alerts(options, alerts),
    )


def recorded_options(header: SessionHeader) -> RunOptions | None:
    """Return the options that a session was launched with; None if a log records invalid ones.

    The workload's defaults are filled in there, so they come back as numbers.
    Where it was kept, what it was called, and whether it was detached, is not among them.
    """
    types = get_type_hints(RunOptions)
    recorded = {name: value for name, value in header.options.items() if name in SETTINGS}
    if all(isinstance(value, types[name]) for name, value in recorded.items()):
        return RunOptions(**recorded)
    return None
