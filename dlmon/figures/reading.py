"""How far a log is read, in words; by itself, for it is shown before all else."""

from __future__ import annotations


def reading_text(share: float | None) -> str:
    """Say how much of a log is read; nothing once it is read to its end."""
    return "" if share is None else f"reading the log: {int(share * 100)} %"
