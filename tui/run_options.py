"""The options of `run`, whether they come from the command line or from the form."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, fields
from pathlib import Path

from dlmon.device import DeviceError, check_device_name
from dlmon.log import LogError
from dlmon.sessions import log_directory
from workloads.catalog import Workload, refuse_options

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3600.0
DATA_CHOICES = ("auto", "synthetic", "real")


@dataclass(frozen=True)
class RunOptions:
    """What a person chose; None means the workload's own."""

    device: str = "auto"
    batch_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    threads: int | None = None
    data: str = "auto"
    interval: float = 1.0
    detach: bool = False
    log_dir: str | None = None

    def complaint(self, workload: Workload) -> str | None:
        """Say in one sentence why these can't be run; None when they can."""
        return next(iter(self.complaints(workload).values()), None)

    def complaints(self, workload: Workload) -> dict[str, str]:
        """Say in one sentence each which of these can't be run, and why."""
        told = {
            "device": _device_complaint(self.device),
            "batch_size": refuse_options(workload, batch_size=self.batch_size),
            "epochs": refuse_options(workload, epochs=self.epochs),
            "steps": refuse_options(workload, steps=self.steps),
            "threads": refuse_options(workload, threads=self.threads),
            "data": _data_complaint(self.data),
            "interval": interval_complaint(self.interval),
            "log_dir": _log_dir_complaint(self.log_dir),
        }
        return {name: complaint for name, complaint in told.items() if complaint is not None}

    def command_line(self, workload: Workload, configured: RunOptions | None = None) -> str:
        """Return the command that runs the same, without what is the default anyway.

        Args:
            workload: what is trained.
            configured: the defaults in the user's config.toml, which the command would follow.
        """
        words = ["dlmon", "run", workload.name]
        for spec in fields(self):
            value = getattr(self, spec.name)
            usual = {spec.default, getattr(configured or self, spec.name)}
            flag = f"--{spec.name.replace('_', '-')}"
            if isinstance(value, bool):
                words += [flag] if value else []
            elif value is not None and usual != {value}:
                words += [flag, as_text(value)]
        return shlex.join(words)


def as_text(value: object) -> str:
    """Write an option's value as a person would type it."""
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def interval_complaint(interval_s: float) -> str | None:
    """Say why a sampling interval can't be; None when it can."""
    if SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        return None
    return (
        f"the interval must be from {SHORTEST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:,.0f} "
        f"seconds, not {interval_s:g}"
    )


def _device_complaint(device: str) -> str | None:
    try:
        check_device_name(device)
    except DeviceError as error:
        return str(error)
    return None


def _data_complaint(data: str) -> str | None:
    if data in DATA_CHOICES:
        return None
    return f'there is no data "{data}": use {", ".join(DATA_CHOICES[:-1])} or {DATA_CHOICES[-1]}'


def _log_dir_complaint(log_dir: str | None) -> str | None:
    """Say why sessions can't be kept in a directory, which need not be there yet."""
    if log_dir is None:
        return None
    try:
        directory = log_directory(Path(log_dir))
        there = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    except LogError as error:
        return str(error)
    if not there.is_dir():
        return f"the log directory can't be there: {there} is no directory"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"the log directory can't be there: {there} can't be written"
    return None
