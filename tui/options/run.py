"""The options of `run`, whether they come from the command line or from the form."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from dlmon.comparison.price import parse_price
from dlmon.launch.device import DeviceError, check_cpus, check_device_name
from dlmon.log.directory import log_directory
from dlmon.log.folder import LogError
from dlmon.records.sanitize import clean, quoted
from workloads.catalog import Workload, refuse_options

NONE = "none"
"""What a person types for an option that is not to be set, whatever config.toml says."""

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3600.0
LONGEST_LEAST_TIME_S = 86_400.0
LEAST_TIME_IN_SWEEP_S = 5.0
"""How long each run of a sweep is steady at least, unless `--seconds` says otherwise.

A quick network would end before its figure, and the band about that, can be known.
"""
_SHOWN_PATH_LENGTH = 100

NO_DIRECTORY = "the log directory has no name: give one, or leave it out for the usual one"

CHOICES: dict[str, tuple[str, ...]] = {
    "data": ("auto", "synthetic", "real"),
    "mode": ("train", "gradients", "inference"),
    "precision": ("float32", "mixed_float16", "mixed_bfloat16"),
    "jit": ("auto", "on", "off"),
    "backend": ("tensorflow", "jax", "torch"),
}
"""The options that take one of a few words, the usual one first."""


@dataclass(frozen=True)
class RunOptions:
    """What a person chose; None means the workload's own."""

    device: str = "auto"
    batch_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seconds: float | None = None
    threads: int | None = None
    cpus: int | None = None
    data: str = "auto"
    mode: str = "train"
    precision: str = "float32"
    jit: str = "auto"
    backend: str = "tensorflow"
    python: str | None = None
    interval: float = 1.0
    pcie: bool = False
    price: str | None = None
    detach: bool = False
    log_dir: str | None = None

    def complaint(self, workload: Workload) -> str | None:
        """Say in one sentence why these can't be run; None when they can."""
        return next(iter(self.complaints(workload).values()), None)

    def complaints(self, workload: Workload) -> dict[str, str]:
        """Say in one sentence each which of these can't be run, and why."""
        return self._complaints(workload, here=True)

    def complaint_anywhere(self, workload: Workload) -> str | None:
        """Say in one sentence why no machine can run these; None where one may."""
        return next(iter(self._complaints(workload, here=False).values()), None)

    def _complaints(self, workload: Workload, here: bool) -> dict[str, str]:
        told = {
            "device": _device_complaint(self.device),
            "batch_size": refuse_options(workload, batch_size=self.batch_size),
            "epochs": refuse_options(workload, epochs=self.epochs),
            "steps": refuse_options(workload, steps=self.steps),
            "seconds": _seconds_complaint(self.seconds),
            "threads": refuse_options(workload, threads=self.threads),
            "cpus": _cpus_complaint(self.cpus, here),
            **{name: _choice_complaint(name, getattr(self, name)) for name in CHOICES},
            "python": _python_complaint(self.python, here),
            "interval": interval_complaint(self.interval),
            "price": _price_complaint(self.price),
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
            name = spec.name.replace("_", "-")
            if {spec.default, getattr(configured or self, spec.name)} == {value}:
                continue
            if isinstance(value, bool):
                words.append(f"--{name}" if value else f"--no-{name}")
            else:
                words += [f"--{name}", as_text(value)]
        return shlex.join(words)


def as_text(value: object) -> str:
    """Write an option's value as a person would type it."""
    if value is None:
        return NONE
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


def _seconds_complaint(seconds: float | None) -> str | None:
    if seconds is None or 0 <= seconds <= LONGEST_LEAST_TIME_S:
        return None
    return (
        f"training can be made to last from 0 to {LONGEST_LEAST_TIME_S:,.0f} seconds, "
        f"not {seconds:g}"
    )


def _device_complaint(device: str) -> str | None:
    try:
        check_device_name(device)
    except DeviceError as error:
        return str(error)
    return None


def _cpus_complaint(cpus: int | None, here: bool) -> str | None:
    if cpus is None:
        return None
    if not here:
        return None if cpus >= 1 else f"the number of CPUs must be at least 1, not {cpus:,}"
    if not hasattr(os, "sched_getaffinity"):
        return "--cpus needs Linux: here a process can't be kept to some of the CPUs"
    try:
        check_cpus(cpus, os.sched_getaffinity(0))
    except DeviceError as error:
        return str(error)
    return None


def _choice_complaint(name: str, value: str) -> str | None:
    choices = CHOICES[name]
    if value in choices:
        return None
    return f"there is no {name} {quoted(value)}: use {', '.join(choices[:-1])} or {choices[-1]}"


def _python_complaint(python: str | None, here: bool) -> str | None:
    """Say why no such interpreter can be started; what is installed in it, a launch asks."""
    if python is None:
        return None
    if shutil.which(os.path.expanduser(python)):  # noqa: PTH111 - a ~ may stay
        return None
    # Another machine may have what this one lacks.
    if not here and python.strip() and "\0" not in python:
        return None
    return (
        f"{clean(python, _SHOWN_PATH_LENGTH)} can't be run; name a Python interpreter, such as "
        "/path/to/venv/bin/python"
    )


def _price_complaint(price: str | None) -> str | None:
    try:
        if price is not None:
            parse_price(price)
    except ValueError as error:
        return str(error)
    return None


def _log_dir_complaint(log_dir: str | None) -> str | None:
    """Say why sessions can't be kept in a directory, which need not be there yet."""
    if log_dir is None:
        return None
    if not log_dir.strip():
        return NO_DIRECTORY
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


OF_A_LAUNCH = ("detach", "log_dir", "pcie")
SHARED = tuple(spec.name for spec in fields(RunOptions) if spec.name not in OF_A_LAUNCH)
"""The options of `run` that the runs of a sweep may share."""

# What changes nothing in a run.
_NEVER_VARIED = ("price",)
VARIED = tuple(name for name in SHARED if name not in _NEVER_VARIED)
"""The options that can be varied."""
