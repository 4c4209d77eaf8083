"""The logs of a run on several hosts: one of the whole session, and one of each further part.

Part 0 makes the session and announces it in the log directory, which all hosts share; the other
parts write their own logs into its folder, and part 0 reads these.
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
# An older announcement belongs to another step of the same name.
_OLDEST_S = 7 * 86_400.0


def part_name(number: int) -> str:
    """Return the file name of a part's log."""
    return f"part-{number}.jsonl"


def announce(log_dir: Path, step: str, session: str) -> Path:
    """Tell the other parts of a step the session's id; return the file that holds it.

    Raises:
        OSError: it can't be written.
    """
    folder = log_dir / ANNOUNCED
    make_private_folder(folder)
    path = folder / step
    replace_private(path, session.encode())
    return path


def announced(log_dir: Path, step: str, number: int) -> Path | None:
    """Return the folder of the session that part 0 of a step announced; None if it has not yet.

    A folder that has this part's log already is of an earlier run in the same step.
    """
    path = log_dir / ANNOUNCED / step
    with contextlib.suppress(OSError, UnicodeDecodeError, ValueError):
        if time.time() - path.stat().st_mtime < _OLDEST_S:
            session = read_regular(path, _MOST_BYTES).decode()
            folder = log_dir / session
            is_session = folder.parent == log_dir and folder.is_dir()
            if is_session and not (folder / part_name(number)).exists():
                return folder
    return None


def parts_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the number and the log of every further part that has begun."""
    for path in folder.glob("part-*.jsonl"):
        number = path.stem.partition("-")[2]
        if number.isascii() and number.isdecimal():
            yield int(number), path
