"""Read the lines of a source file around the line at which a process stands still.

The supervisor reads them, not the process: it may hold the interpreter's lock, and a disk that
doesn't answer must not block it further. The file is the one that the process sees.
"""

from __future__ import annotations

import time
from pathlib import Path

from dlmon.records import Frame, SourceLines
from dlmon.records.sanitize import clean
from dlmon.system.files import MIB, read_regular

AROUND = 2
"""The number of lines before and after the one at which it stands."""
LONGEST_LINE = 200
MOST_BYTES = 4 * MIB
_TAB = 4


def read_source_lines(pid: int, frame: Frame, began_wall: float) -> SourceLines:
    """Return the lines around a frame of a process, or the reason why there are none.

    The session began at `began_wall`, in Unix seconds: a later change of the file is noted.
    """
    first, changed = max(1, frame.line - AROUND), None
    try:
        path = _path_of(pid, Path(frame.file))
        content = read_regular(path, MOST_BYTES)
        changed = path.stat().st_mtime > began_wall or None
        lines, why = _lines(content, first, frame.line)
    except (OSError, ValueError) as error:
        # A path with a null character is a ValueError.
        reason = clean(getattr(error, "strerror", None) or str(error), LONGEST_LINE)
        lines, why = None, reason[:1].lower() + reason[1:]
    reasons = {"lines": why} if lines is None else {}
    t = time.monotonic_ns()
    return SourceLines(t, frame.file, frame.line, first, lines, changed, reasons)


def _path_of(pid: int, file: Path) -> Path:
    """Return the path of a file that a process, perhaps in a container, names."""
    seen = Path("/proc", str(pid), "root" if file.is_absolute() else "cwd")
    try:
        seen.stat()
    except OSError:
        return file
    return seen / str(file).lstrip("/")


def _lines(content: bytes, first: int, line: int) -> tuple[tuple[str, ...] | None, str]:
    """Return the lines around a line, or None and the reason."""
    if b"\0" in content:
        return None, "it is not text"
    # Python's lines end at these characters only, a text's also at others.
    lines = content.splitlines()
    if not 0 < line <= len(lines):
        return None, f"it has no line {line:,}"
    around = lines[first - 1 : line + AROUND]
    texts = (text.decode("utf-8", "replace").expandtabs(_TAB) for text in around)
    return tuple(clean(text, LONGEST_LINE) for text in texts), ""
