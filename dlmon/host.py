"""Tell this machine, and this boot of it, from any other."""

from __future__ import annotations

import socket
from pathlib import Path


def host_name() -> str:
    """Return what this machine calls itself."""
    return socket.gethostname()


def boot_id() -> str:
    """Return what tells this boot of this machine from any other; empty where unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
