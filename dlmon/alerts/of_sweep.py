"""The alerts of a sweep: its runs tell what goes wrong, the sweep itself that it is over."""

from __future__ import annotations

import time
from dataclasses import replace

from dlmon.alerts.message import About, message_of
from dlmon.alerts.rules import lasted
from dlmon.alerts.sender import Sender
from dlmon.alerts.settings import AlertSettings
from dlmon.host import host_name
from dlmon.records import Alert, AlertEvent


def of_runs(settings: AlertSettings) -> AlertSettings:
    """Return the settings for a run of a sweep: all but that it has finished."""
    events = tuple(event for event in settings.events if event != AlertEvent.FINISHED)
    return replace(settings, events=events)


async def tell_end(
    settings: AlertSettings, sweep: str, name: str | None, took_s: float, counts: str
) -> str | None:
    """Tell that a sweep is over; return why that could not be sent.

    Args:
        settings: where to.
        sweep: its id.
        name: what it is called.
        took_s: how long it took.
        counts: how many of its runs came to what.
    """
    if AlertEvent.FINISHED not in settings.events:
        return None
    failures: list[str] = []
    sender = Sender(settings, failures.append)
    text = f"The sweep has finished after {lasted(took_s)}"
    alert = Alert(0, AlertEvent.FINISHED, text, 0, False, (counts,))
    about = About(host_name(), time.time(), sweep, name=name or sweep)
    sender.put(message_of(alert, about, settings.detail))
    await sender.finish()
    return "; ".join(failures) or None
