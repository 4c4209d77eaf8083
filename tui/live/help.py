"""The pages of what `?` explains on the live screen."""

from __future__ import annotations

from pathlib import Path

LIVE = Path(__file__).with_name("live.md")
FIRST_STEPS = Path(__file__).with_name("first_steps.md")
