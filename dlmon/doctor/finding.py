"""One thing that `dlmon doctor` looked at, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

State = Literal["ok", "missing", "warning", "absent"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `next_step` is what to do about it, where there is something.

    `absent` is what this machine does without, and is no fault; `missing` is what it lacks.
    """

    topic: str
    state: State
    text: str
    next_step: str | None = None


def finding_of(fields: Any) -> Finding | None:
    """Return the finding that another machine sent; None for what is none."""
    if not isinstance(fields, dict) or fields.get("state") not in get_args(State):
        return None
    topic, text, next_step = (fields.get(name) for name in ("topic", "text", "next_step"))
    if not isinstance(topic, str) or not isinstance(text, str):
        return None
    return Finding(topic, fields["state"], text, next_step if isinstance(next_step, str) else None)
