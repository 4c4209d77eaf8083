"""The logs of a run on several machines: one for all of it, and beside it one of each further part.

Part 0 makes the session and announces it in the log directory, which all of them share; the others
write their own logs into its folder, and part 0 reads these.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from dlmon.system.files import read_regular
from dlmon.system.private_files import make_private_folder, replace_private

ANNOUNCED = ".steps"
STOP = "stop"
_MOST_BYTES = 1 << 12
# What a step announced so long ago is of another step of the same name.
_OLDEST_S = 7 * 86_400.0


def part_name(number: int) -> str:
    """Return what the log of a part is called."""
    return f"part-{number}.jsonl"


def announce(log_dir: Path, step: str, session: str) -> Path:
    """Let the other parts of a step know the session; return the file that says it.

    Raises:
        OSError: it can't be written.
    """
    folder = log_dir / ANNOUNCED
    make_private_folder(folder)
    path = folder / step
    replace_private(path, session.encode())
    return path


def announced(log_dir: Path, step: str, number: int) -> Path | None:
    """Return the folder of the session that part 0 of a step announced; None where it has not.

    One that has the log of this part already is that of a run before, in the same step.
    """
    path = log_dir / ANNOUNCED / step
    with contextlib.suppress(OSError, UnicodeDecodeError, ValueError):
        if time.time() - path.stat().st_mtime < _OLDEST_S:
            session = read_regular(path, _MOST_BYTES).decode()
            folder = log_dir / session
            is_there = folder.parent == log_dir and folder.is_dir()
            if is_there and not (folder / part_name(number)).exists():
                return folder
    return None


def parts_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the number and the log of each further part that has begun."""
    for path in folder.glob("part-*.jsonl"):
        number = path.stem.partition("-")[2]
        if number.isascii() and number.isdecimal():
            yield int(number), path
