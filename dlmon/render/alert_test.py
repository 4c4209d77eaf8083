"""Say where alerts go, and send one of each, for `dlmon alerts`."""

from __future__ import annotations

import json
import sys
import time

from rich.text import Text

from dlmon.alerts.alert_settings import NUMBERS, AlertSettings
from dlmon.alerts.message import About, message_of, text_of, title_of
from dlmon.alerts.sender import destinations_of
from dlmon.notification import desktop_notification
from dlmon.records import Alert, AlertEvent
from dlmon.render.console import line_console, print_error
from dlmon.system.this_host import host_name

_STEP = "epoch 3, step 812"
_EVENTS = (
    ("finished", "Finished after 2 h 13 min", ("30 epochs", "266 s per epoch")),
    ("failed", "OUT OF MEMORY after 13 min: CUDA out of memory", ("3 epochs", "266 s per epoch")),
    ("nan", "The loss is NaN: from epoch 3 on", (_STEP, "24,812 batches so far")),
    ("stalled", "STALLED: no batch for 61 s", (_STEP, "a step usually takes 120 ms")),
    ("slower", "Slower for 5 min, 52 % of before", ("410 samples/s now", "790 samples/s before")),
    ("gpu_idle", "GPU 0 has been idle for 10 min", ("2 % busy", "38.2 GiB in use")),
    ("gpu_lost", "GPU 0 gives no readings now: GPU is lost", ()),
    ("gpu_hot", "GPU 0 has been slowed by heat for 2 min", ("86 °C", "1,215 MHz")),
    ("gpu_error", "GPU 0: Xid 79: it has fallen off the bus", ("1 error",)),
    ("disk", "The disk that the log is on is nearly full", ("3.1 GiB left", "1 % of 440 GiB")),
    ("memory", "The peak of GPU memory grows 120 MiB per epoch: full in about 40 epochs", ()),
    ("host_lost", "gpu1 has been lost for 60 s: gpu1 does not answer", ()),
)


def samples() -> tuple[About, list[Alert]]:
    """Return one alert of each kind and the end of a stall, with the session they are about."""
    header = (host_name(), time.time(), "20261120-145600-train-py-7f3a", "train.py")
    about = About(*header, "a test of alerts", f"dlmon attach {header[2]}")
    alerts = [Alert(0, AlertEvent(event), text, 0, False, more) for event, text, more in _EVENTS]
    over = Alert(0, AlertEvent.STALLED, "Batches end again, after 95 s", 0, True, (_STEP,))
    return about, [*alerts, over]


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
    """Print the destinations, the events and the limits of alerts."""
    destinations = [destination.name for destination in destinations_of(settings)]
    numbers = {name: getattr(settings, name) for name in NUMBERS}
    if as_json:
        addresses = {"places": destinations, "desktop": settings.desktop, "detail": settings.detail}
        print(json.dumps({**addresses, "events": settings.events, **numbers}))
        return
    console = line_console()
    destinations += ["the desktop, where the session is shown"] if settings.desktop else []
    console.print(Text(f"to       {', '.join(destinations) or f'nobody: {NO_ADDRESS}'}"))
    console.print(Text(f"detail   {settings.detail}"))
    console.print(Text(f"events   {', '.join(settings.events)}"))
    for name, value in numbers.items():
        console.print(Text(f"  {name:<15}{value:<5g}{_MEANINGS[name]}"))


def send_samples(settings: AlertSettings, as_json: bool) -> bool:
    """Send and print one alert of each kind; return whether all were sent."""
    console = line_console()
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
                print_error(f"it could not be sent to {destination.name}: {why}")
                is_all_sent = False
                break
    if settings.desktop and sys.stderr.isatty():
        sys.stderr.write(desktop_notification(alerts[0].text))
    return is_all_sent
