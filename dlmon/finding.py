"""One thing that `dlmon doctor` looked at, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `next_step` is what to do about it, where there is something."""

    topic: str
    state: Literal["ok", "missing", "warning"]
    text: str
    next_step: str | None = None
