"""Read the stacks that faulthandler wrote of a process that can't answer."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dlmon.instrument.held_lock import lines_in
from dlmon.instrument.stacks import MOST_FRAMES, MOST_THREADS, is_of_script
from dlmon.records import Frame, ThreadStack
from dlmon.records.sanitize import clean

_MOST_BYTES = 1 << 18
# Of an interpreter that isn't this one.
_STANDARD = re.compile(r"/lib(?:64)?/python3\.\d+/|/_dlmon_monitor/")


def held_threads(path: Path) -> tuple[ThreadStack, ...] | None:
    """Return what the threads of a process were doing; None where nothing was written of it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    threads = [
        (f"0x{ident:x}", [Frame(clean(file), line, clean(name)) for file, line, name in lines])
        for ident, lines in lines_in(text)
    ]
    stacks = [
        ThreadStack(name, tuple(frames[:MOST_FRAMES]), _script_in(frames))
        for name, frames in threads
    ]
    stacks.sort(key=lambda stack: stack.script is None)
    return tuple(stacks[:MOST_THREADS]) or None


def _script_in(frames: list[Frame]) -> Frame | None:
    own = (f for f in frames if is_of_script(f.file) and not _STANDARD.search(f.file))
    return next(own, None)
