"""One alert of each kind, for somebody who wants to see what will come."""

from __future__ import annotations

import time

from dlmon.alerts.message import About
from dlmon.host import host_name
from dlmon.records import Alert, AlertEvent

_STEP = "epoch 3, step 812"
_EVENTS = (
    ("finished", "Finished after 2 h 13 min", ("30 epochs", "266 s per epoch")),
    ("failed", "Out of memory after 13 min: CUDA out of memory", ("3 epochs", "266 s per epoch")),
    ("nan", "The loss is NaN, from epoch 3 on", (_STEP, "24,812 batches so far")),
    ("stalled", "No batch for 61 s", (_STEP, "a step usually takes 120 ms")),
    ("slower", "Slower for 5 min, 52 % of before", ("410 samples/s now", "790 samples/s before")),
    ("gpu_idle", "GPU 0 has been idle for 10 min", ("2 % busy", "38.2 GiB in use")),
    ("gpu_lost", "GPU 0 gives no readings now (GPU is lost)", ()),
    ("gpu_hot", "GPU 0 has been slowed by heat for 2 min", ("86 °C", "1,215 MHz")),
    ("disk", "The disk that the log is on is nearly full", ("3.1 GiB left", "1 % of 440 GiB")),
    ("host_lost", "gpu1 has been lost for 60 s: gpu1 does not answer", ()),
)


def samples() -> tuple[About, list[Alert]]:
    """Return what they are about, and one of each kind, with the end of a stall."""
    header = (host_name(), time.time(), "20261120-145600-train-py-7f3a", "train.py")
    about = About(*header, "a test of alerts", f"dlmon attach {header[2]}")
    alerts = [Alert(0, AlertEvent(event), text, 0, False, known) for event, text, known in _EVENTS]
    over = Alert(0, AlertEvent.STALLED, "Batches end again, after 95 s", 0, True, (_STEP,))
    return about, [*alerts, over]
