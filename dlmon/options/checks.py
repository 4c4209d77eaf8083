"""Checks of options: each returns a sentence that says why a value is impossible, or None.

`here` is true if the run is to be on this host.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from dlmon.comparison.price import parse_price
from dlmon.log.folder import LogError, log_directory
from dlmon.log.label import refuse_name
from dlmon.records.sanitize import clean

NO_DIRECTORY = "the log directory has no name: give one, or leave the option out for the default"
NO_KERAS = (
    "Keras is not installed here: pip install 'dlmon[tensorflow]', or name an interpreter that "
    "has it with --python PATH"
)
_SHOWN_PATH_LENGTH = 100


def within(
    subject: str, shortest_s: float, longest_s: float
) -> Callable[[float, bool], str | None]:
    """Return a check of a number of seconds."""

    def check(seconds: float, here: bool) -> str | None:
        if shortest_s <= seconds <= longest_s:
            return None
        reach = f"from {shortest_s:g} to {longest_s:,.0f} seconds"
        return f"{subject} must be {reach}, not {seconds:g}"

    return check


def check_device(device: str, here: bool) -> str | None:
    """Check the name of a device; the launch checks if the host has it."""
    from dlmon.launch.device import check_device_name

    return _refusal(check_device_name, device)


def check_number_of_devices(devices: int, here: bool) -> str | None:
    """Check the number of devices that share a batch."""
    from dlmon.launch.device import check_devices

    return _refusal(check_devices, devices)


def check_number_of_cpus(cpus: int, here: bool) -> str | None:
    """Check the number of CPUs that a process may use."""
    if not here:
        return None if cpus >= 1 else f"the number of CPUs must be at least 1, not {cpus:,}"
    if not hasattr(os, "sched_getaffinity"):
        return "--cpus needs Linux: a process can't be limited to some of the CPUs here"
    from dlmon.launch.device import check_cpus

    return _refusal(check_cpus, cpus, os.sched_getaffinity(0))


def check_python(python: str | None, here: bool) -> str | None:
    """Check the path of an interpreter; the launch checks its packages."""
    if python is None:
        return NO_KERAS if here and not has_keras() else None
    if "\0" not in python and shutil.which(os.path.expanduser(python)):  # noqa: PTH111 - ~ may stay
        return None
    # Another host may have an interpreter that this one lacks.
    if not here and python.strip():
        return None
    return (
        f"{clean(python, _SHOWN_PATH_LENGTH)} can't be run; name a Python interpreter, such as "
        "/path/to/venv/bin/python"
    )


@cache
def has_keras() -> bool:
    """Return whether our own interpreter has Keras, which the workloads need."""
    return find_spec("keras") is not None


def check_price(price: str, here: bool) -> str | None:
    """Check a price."""
    return _refusal(parse_price, price)


def check_tracker(to: str, here: bool) -> str | None:
    """Check a tracker; the message doesn't repeat its place."""
    from dlmon.trackers.tracker_address import address_of_tracker

    return _refusal(address_of_tracker, to)


def _refusal(take: Callable[..., object], *values: object) -> str | None:
    """Return the message of the `ValueError` that a function raises for these values, if any."""
    try:
        take(*values)
    except ValueError as error:
        return str(error)
    return None


def check_name(name: str, here: bool) -> str | None:
    """Check the name of a session."""
    return refuse_name(name)


def check_host(host: str, here: bool) -> str | None:
    """Check the name of a host."""
    from dlmon.remote import host_names as hosts

    return _refusal(hosts.check_host, host)


def check_alert(address: str, here: bool) -> str | None:
    """Check an address for alerts; it may hold a secret, so the message doesn't repeat it."""
    from dlmon.alerts.alert_settings import OFF, address_of

    return None if address == OFF else _refusal(partial(address_of, here=here), address)


def check_log_dir(log_dir: str, here: bool) -> str | None:
    """Check a log directory, which need not exist yet."""
    if not log_dir.strip():
        return NO_DIRECTORY
    if not here:
        return None
    try:
        directory = log_directory(Path(log_dir))
        existing = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    except LogError as error:
        return str(error)
    if not existing.is_dir():
        return f"the log directory can't be there: {existing} is not a directory"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"the log directory can't be there: {existing} is not writable"
    return None
