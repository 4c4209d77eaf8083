"""One thing that `dlmon doctor` looked at, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `next_step` is what to do about it, where there is something.

    `absent` is what this machine does without, and is no fault; `missing` is what it lacks.
    """

    topic: str
    state: Literal["ok", "missing", "warning", "absent"]
    text: str
    next_step: str | None = None
