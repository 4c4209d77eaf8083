"""How much of another machine's log may be copied here: what it sends is foreign, and a disk ends.

A session of a day takes 250 MB at most, at a sample a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

MIB, GIB = 1 << 20, 1 << 30
LARGEST_LOG_BYTES = 8 * GIB
# A log grows while it is copied, by a few KB/s; a hundred times that is none any more.
GROWTH_BYTES_S = MIB
SLACK_BYTES = 64 * MIB
# What others that write to the disk need is left to them.
KEPT_FREE_BYTES = 256 * MIB
KEPT_FREE_SHARE = 0.05


class Allowance:
    """What the log of one session may take here, by what its host says of it and by the disk.

    Args:
        what: names the log in a sentence.
        folder: where it is copied to.
        clock: CLOCK_MONOTONIC in seconds.
        room: returns how many bytes the disk of a folder has room for.
    """

    def __init__(
        self,
        what: str,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        room: Callable[[Path], int] | None = None,
    ) -> None:
        self._what = what
        self._folder = folder
        self._clock = clock
        self._room = room or room_in
        self._announced_bytes = 0
        self._announced_at = clock()

    def announce(self, size: int, more: int) -> str | None:
        """Take what the host says; return why the log can't be copied, where it can't.

        Args:
            size: how large the whole log is.
            more: how much of it is not here yet.
        """
        self._announced_bytes, self._announced_at = size, self._clock()
        if size > LARGEST_LOG_BYTES:
            return (
                f"{self._what} has {_gib(size)}, and no more than {_gib(LARGEST_LOG_BYTES)} of a "
                "log are copied: replay or report it there"
            )
        return self._refuse_without_room(more)

    def take(self, size: int, more: int) -> str | None:
        """Return why no more may be written, where it may not.

        Args:
            size: how large the copy is then.
            more: how much is to be written for that.
        """
        grown_s = self._clock() - self._announced_at
        most = self._announced_bytes + SLACK_BYTES + int(grown_s * GROWTH_BYTES_S)
        if size > min(most, LARGEST_LOG_BYTES):
            return (
                f"{self._what} has more than any log can have grown to, {_gib(size)} where "
                f"{_gib(self._announced_bytes)} were announced: it is copied no further"
            )
        return self._refuse_without_room(more)

    def _refuse_without_room(self, more: int) -> str | None:
        room = self._room(self._folder)
        if more <= room:
            return None
        return (
            f"{self._what} takes {_gib(more)} more, and the disk of {self._folder} has room for "
            f"{_gib(room)}: make room on it, or set XDG_CACHE_HOME"
        )


def room_in(folder: Path) -> int:
    """Return how many bytes may be written to the disk of a folder, so that some are left.

    Raises:
        OSError: that can't be found.
    """
    disk = os.statvfs(folder)
    kept = min(KEPT_FREE_BYTES, int(KEPT_FREE_SHARE * disk.f_blocks * disk.f_frsize))
    return max(0, disk.f_bavail * disk.f_frsize - kept)


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB // 10 else f"{count / MIB:.1f} MiB"
