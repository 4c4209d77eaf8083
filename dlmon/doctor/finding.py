"""The result of one check of `dlmon doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

State = Literal["ok", "missing", "warning", "absent"]


@dataclass(frozen=True)
class Finding:
    """The result of one check, with a `next_step` if something can be done about it.

    The state `absent` means that something optional is not there; `missing`, something required.
    """

    topic: str
    state: State
    text: str
    next_step: str | None = None


def finding_of(fields: Any) -> Finding | None:
    """Return a finding from another host's JSON; None if it is not valid."""
    if not isinstance(fields, dict) or fields.get("state") not in get_args(State):
        return None
    topic, text, next_step = (fields.get(name) for name in ("topic", "text", "next_step"))
    if not isinstance(topic, str) or not isinstance(text, str):
        return None
    return Finding(topic, fields["state"], text, next_step if isinstance(next_step, str) else None)
