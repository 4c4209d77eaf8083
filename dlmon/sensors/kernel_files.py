"""Read /proc and /sys files, and say why one could not be read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dlmon.system.this_host import IS_MACOS, is_first_pid_namespace, is_wsl

try:
    import psutil as psutil
except (ImportError, OSError):  # a remote host may lack it
    psutil = None  # type: ignore[assignment]

_CHUNK = 65536
_WORDS = {
    errno.ENOENT: "not reported here",
    errno.ENOTDIR: "not reported here",
    errno.ENODEV: "not reported here",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
}


def read(path: str | Path) -> str:
    """Return the text of a kernel file.

    Raises:
        OSError: it can't be opened or read.
    """
    return read_bytes(path).decode("utf-8", "replace")


def text_of(path: str | Path) -> str:
    """Return the text of a kernel file without its end; empty if it can't be read."""
    try:
        return read(path).strip().strip("\0")
    except OSError:
        return ""


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a kernel file, without the overhead of a buffered reader.

    Raises:
        OSError: it can't be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(descriptor, _CHUNK)
        if len(text) > 1024:  # a long file may come in pieces; a short one is whole
            while more := os.read(descriptor, _CHUNK):
                text += more
    finally:
        os.close(descriptor)
    return text


def numeric_names(directory: str) -> list[int]:
    """Return the numeric names in a directory, such as the pids in /proc.

    Raises:
        OSError: it can't be listed.
    """
    return [int(name) for name in names(directory) if name.isdecimal()]


def names(directory: str) -> list[str]:
    """Return the names of the files in a directory.

    Raises:
        OSError: it can't be listed.
    """
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def reason(error: Exception) -> str:
    """Say in words why something could not be read."""
    if isinstance(error, OSError) and error.errno is not None:
        return _WORDS.get(error.errno, os.strerror(error.errno).lower())
    if isinstance(error, LookupError):
        return "the kernel does not report it"
    return str(error) or type(error).__name__


def sees_every_process() -> bool:
    """Return whether this is the machine's initial pid namespace: no container's, nor WSL's."""
    return IS_MACOS or is_first_pid_namespace() is True


def why_processes_hidden() -> str:
    """Say why processes may be hidden, if `sees_every_process` is false."""
    if is_wsl(Path("/")):
        return "Windows may hide other processes"
    return "a container may hide other processes: start it with --pid=host or hostPID: true"


def ask(questions: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Call the function of each field; return the values, and the reasons of those that failed."""
    values: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name, question in questions.items():
        try:
            values[name] = question()
        except (OSError, ValueError, LookupError) as error:
            why[name] = reason(error)
    return values, why


def is_read_by_psutil(root: Path) -> bool:
    """Return whether psutil is used to read `root`: it can only read the real /proc and /sys."""
    return psutil is not None and root == Path("/")
