"""psutil, as far as it is there: a host that dlmon's files were sent to may lack it."""

from __future__ import annotations

from pathlib import Path

try:
    import psutil
except (ImportError, OSError):
    psutil = None  # type: ignore[assignment]


__all__ = ["is_read_by_psutil", "psutil"]


def is_read_by_psutil(root: Path) -> bool:
    """Return whether psutil reads the machine whose /proc and /sys are there: only its own."""
    return psutil is not None and root == Path("/")
