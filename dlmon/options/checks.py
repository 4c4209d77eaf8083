"""Why a workload can't be run with the value of an option: a sentence each, or None."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlmon.comparison.price import parse_price
from dlmon.log.folder import LogError, log_directory
from dlmon.log.label import refuse_name
from dlmon.options.option import Check
from dlmon.records.sanitize import clean
from workloads.catalog import Workload, refuse_options

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3600.0
LONGEST_LEAST_TIME_S = 86_400.0
NO_DIRECTORY = "the log directory has no name: give one, or leave the option out for the default"
NO_KERAS = (
    "Keras is not installed here: pip install 'dlmon[tensorflow]', or name an interpreter that "
    "has it with --python PATH"
)
_SHOWN_PATH_LENGTH = 100


def of_value(problem: Callable[[Any], str | None]) -> Check:
    """Return the check of an option that is right or wrong by its value alone."""

    def check(value: object, workload: Workload | None, here: bool) -> str | None:
        return problem(value)

    return check


def of_workload(name: str) -> Check:
    """Return the check of an option that the workload itself refuses or takes."""

    def check(value: int | None, workload: Workload | None, here: bool) -> str | None:
        return None if workload is None else refuse_options(workload, **{name: value})

    return check


def check_interval(interval_s: float) -> str | None:
    """Say why the hardware can't be sampled so often, or so rarely."""
    if SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        return None
    return (
        f"the interval must be from {SHORTEST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:,.0f} "
        f"seconds, not {interval_s:g}"
    )


def check_seconds(seconds: float | None) -> str | None:
    """Say why training can't be made to last so long."""
    if seconds is None or 0 <= seconds <= LONGEST_LEAST_TIME_S:
        return None
    return (
        f"the minimum time must be from 0 to {LONGEST_LEAST_TIME_S:,.0f} seconds, not {seconds:g}"
    )


def check_device(device: str) -> str | None:
    """Say why no device has such a name; whether this machine has it is checked at the launch."""
    from dlmon.launch.device import check_device_name

    return _refusal(check_device_name, device)


def check_number_of_cpus(cpus: int | None, workload: Workload | None, here: bool) -> str | None:
    """Say why a process can't be kept to so many CPUs."""
    if cpus is None:
        return None
    if not here:
        return None if cpus >= 1 else f"the number of CPUs must be at least 1, not {cpus:,}"
    if not hasattr(os, "sched_getaffinity"):
        return "--cpus needs Linux: a process can't be limited to some of the CPUs here"
    from dlmon.launch.device import check_cpus

    return _refusal(check_cpus, cpus, os.sched_getaffinity(0))


def check_python(python: str | None, workload: Workload | None, here: bool) -> str | None:
    """Say why it can't be started; what is installed in it is checked at the launch."""
    if python is None:
        return NO_KERAS if here and not has_keras() else None
    if shutil.which(os.path.expanduser(python)):  # noqa: PTH111 - a ~ may stay
        return None
    # Another machine may have what this one lacks.
    if not here and python.strip() and "\0" not in python:
        return None
    return (
        f"{clean(python, _SHOWN_PATH_LENGTH)} can't be run; name a Python interpreter, such as "
        "/path/to/venv/bin/python"
    )


@cache
def has_keras() -> bool:
    """Return whether our own interpreter has what the workloads are built with."""
    return find_spec("keras") is not None


def check_price(price: str | None) -> str | None:
    """Say why it is no price."""
    return None if price is None else _refusal(parse_price, price)


def _refusal(take: Callable[..., object], *values: object) -> str | None:
    """Return the sentence with which a function refuses these values."""
    try:
        take(*values)
    except ValueError as error:
        return str(error)
    return None


def check_name(name: str | None) -> str | None:
    """Say why no session can be called that."""
    return None if name is None else refuse_name(name)


def check_host(host: str | None) -> str | None:
    """Say why nothing can be a host of that name."""
    if host is None:
        return None
    from dlmon.remote import hosts

    try:
        hosts.check_host(host)
    except hosts.HostError as error:
        return str(error)
    return None


def check_alert(address: str | None, workload: object = None, here: bool = True) -> str | None:
    """Say why nothing can be sent to an address; it may hold a secret, so it is not repeated."""
    from dlmon.alerts.settings import OFF, address_of

    if address is None or address == OFF:
        return None
    return _refusal(partial(address_of, here=here), address)


def check_log_dir(log_dir: str | None, workload: Workload | None, here: bool) -> str | None:
    """Say why sessions can't be kept in a directory, which need not be there yet."""
    if log_dir is None:
        return None
    if not log_dir.strip():
        return NO_DIRECTORY
    if not here:
        return None
    try:
        directory = log_directory(Path(log_dir))
        there = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    except LogError as error:
        return str(error)
    if not there.is_dir():
        return f"the log directory can't be there: {there} is not a directory"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"the log directory can't be there: {there} is not writable"
    return None
