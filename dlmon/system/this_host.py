"""Identify this machine and this boot, and detect containers and WSL."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

# The kernel gives the first PID namespace this number (PROC_PID_INIT_INO).
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_SYSTEMD_CONTAINER = "run/systemd/container"
IS_MACOS = sys.platform == "darwin"
"""True on a Mac, which has no /proc."""


def host_name() -> str:
    """Return the host name of this machine."""
    return socket.gethostname()


def boot_id() -> str:
    """Return the kernel's id of this boot; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_container(root: Path, environment: Mapping[str, str]) -> bool:
    """Return whether we run in a container, whose processes end with its first one."""
    has_file = any((root / name).exists() for name in _CONTAINER_FILES)
    if has_file or "KUBERNETES_SERVICE_HOST" in environment:
        return True
    # WSL has its own PID namespace, and systemd takes it for a container.
    if is_wsl(root):
        return False
    if (root / _SYSTEMD_CONTAINER).exists():
        return True
    return is_first_pid_namespace(root) is False


def is_first_pid_namespace(root: Path = Path("/")) -> bool | None:
    """Return whether this is the kernel's first PID namespace; None if that can't be read."""
    try:
        return str((root / "proc/self/ns/pid").readlink()) == _FIRST_PID_NAMESPACE
    except OSError:
        return None


def is_wsl(root: Path) -> bool:
    """Return whether this is the Windows Subsystem for Linux."""
    try:
        release = (root / "proc/sys/kernel/osrelease").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return "microsoft" in release.lower()
