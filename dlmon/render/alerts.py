"""Say where alerts go, and send one of each, for `dlmon alerts`."""

from __future__ import annotations

import json
import sys

from rich.text import Text

from dlmon.alerts.message import message_of, text_of, title_of
from dlmon.alerts.samples import samples
from dlmon.alerts.sender import destinations_of
from dlmon.alerts.settings import NUMBERS, AlertSettings
from dlmon.notification import desktop_notification
from dlmon.render.console import line_console

NO_ADDRESS = "write --alert ADDRESS, or url in the table [alerts] of config.toml"

_MEANINGS = {
    "stalled_s": "seconds without a batch",
    "stalled_steps": "and so many times the median step",
    "slower_pct": "% of the run's own throughput",
    "slower_s": "seconds below that",
    "gpu_idle_pct": "% utilisation of a GPU of the run",
    "gpu_idle_s": "seconds below that",
    "gpu_lost_s": "seconds without readings of a GPU",
    "gpu_hot_s": "seconds in which heat throttles a GPU",
    "disk_pct": "% of the disk left where the log lies",
    "disk_gib": "or GiB left",
    "host_lost_s": "seconds without an answer of a watched host",
    "over_s": "seconds without its cause until an alert is over",
}


def print_settings(settings: AlertSettings, as_json: bool) -> None:
    """Print where alerts go, which, and from which figures on."""
    destinations = [destination.name for destination in destinations_of(settings)]
    numbers = {name: getattr(settings, name) for name in NUMBERS}
    if as_json:
        known = {"places": destinations, "desktop": settings.desktop, "detail": settings.detail}
        print(json.dumps({**known, "events": settings.events, **numbers}))
        return
    console = line_console()
    destinations += ["the desktop, where the session is shown"] if settings.desktop else []
    console.print(Text(f"to       {', '.join(destinations) or f'nobody: {NO_ADDRESS}'}"))
    console.print(Text(f"detail   {settings.detail}"))
    console.print(Text(f"events   {', '.join(settings.events)}"))
    for name, value in numbers.items():
        console.print(Text(f"  {name:<15}{value:<5g}{_MEANINGS[name]}"))


def send_samples(settings: AlertSettings, as_json: bool) -> bool:
    """Send one alert of each kind, at once, and print what is sent; return whether all were."""
    console, errors = line_console(), line_console(stderr=True)
    about, alerts = samples()
    is_all_sent = True
    for destination in destinations_of(settings):
        for alert in alerts:
            if alert.event not in settings.events:
                continue
            message = message_of(alert, about, settings.detail)
            if as_json:
                print(json.dumps(message), flush=True)
            else:
                console.print(Text(f"{title_of(message)}: {text_of(message)}\n"))
            why = destination.deliver(message, destination.answer_s)
            if why is not None:
                errors.print(Text(f"dlmon: it could not be sent to {destination.name}: {why}"))
                is_all_sent = False
                break
    if settings.desktop and sys.stderr.isatty():
        sys.stderr.write(desktop_notification(alerts[0].text))
    return is_all_sent
