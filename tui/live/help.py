"""What `?` explains on the live screen."""

from __future__ import annotations

from pathlib import Path

_FIGURES = (
    ("Throughput", "Training samples per second; higher is better."),
    ("What limits it", "What the training waits for most, and the readings that show it."),
    ("Stalls", "Batches that took over ten times as long as usual."),
    ("In doubt", "Something speaks against the figures, so don't compare by them yet."),
)
_LEAVE = ("q", "Leaves this screen; it asks first where the run would stop.")

FIRST_STEPS: tuple[tuple[str, str], ...] = (
    *_FIGURES,
    ("s", "Stops the training after the current batch; it asks first."),
    _LEAVE,
)

FIRST_STEPS_OF_SCRIPT: tuple[tuple[str, str], ...] = (
    *_FIGURES,
    ("s", "Interrupts the script as Ctrl-C does; it asks first."),
    _LEAVE,
)

FIRST_STEPS_OF_REPLAY: tuple[tuple[str, str], ...] = (
    *_FIGURES,
    ("space", "Pauses the replay, or goes on with it."),
    ("q", "Leaves the replay."),
)

LIVE = Path(__file__).with_name("live.md")
