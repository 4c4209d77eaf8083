"""What trains sends records as lines: read them, and refuse what is none."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable

from dlmon.records import Epoch, Record, RecordError, decode

LINE_BYTES = 16 << 20
READ_BYTES = 1 << 18
# As much as a pipe or a socket of ours holds when nobody reads it.
HELD_BYTES = 1 << 20


class Reader:
    """Reads what arrives on a pipe, a socket or a terminal, which is its own, up to its end.

    Args:
        fd: of what is read.
        take: is given the bytes.
        ended: called when nothing more is read.
    """

    def __init__(
        self, fd: int, take: Callable[[bytes], None], ended: Callable[[], None] | None = None
    ) -> None:
        self.fd, self._take, self._ended = fd, take, ended
        # It may block: somebody else may read it too.
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> int:
        """Take what one read gives; return how many bytes that were, 0 at the end too."""
        if self.fd < 0 or not self._poll.poll(0):
            return 0
        try:
            data = os.read(self.fd, READ_BYTES)
        except OSError:
            # Of a terminal, EIO: nobody has the other side open any more.
            data = b""
        if data:
            self._take(data)
        else:
            self.close()
        return len(data)

    def drain(self) -> None:
        """Take what is there, and no more: what holds the other end may write for ever."""
        left = HELD_BYTES
        while left > 0 and (count := self.read()):
            left -= count
        self.close()

    def close(self) -> None:
        if self.fd < 0:
            return
        asyncio.get_running_loop().remove_reader(self.fd)
        if self._ended is not None:
            self._ended()
        os.close(self.fd)
        self.fd = -1


class IncomingRecords:
    """Splits what arrives into records, and refuses what no workload may send.

    Args:
        kinds: the records that it may send.
        take: is given each of them.
        notice: takes, in words, what a person should know.
    """

    def __init__(
        self,
        kinds: tuple[type[Record], ...],
        take: Callable[[Record], None],
        notice: Callable[[str], None],
    ) -> None:
        self._kinds, self._take, self._notice = kinds, take, notice
        self._left = b""
        self._has_refused = False

    def feed(self, data: bytes) -> None:
        *lines, self._left = (self._left + data).split(b"\n")
        if len(self._left) > LINE_BYTES:
            self._left = b""
            self._refuse(f"a line of more than {LINE_BYTES >> 20} MiB")
        for line in lines:
            try:
                record = decode(line)
            except RecordError as error:
                self._refuse(str(error))
                continue
            if isinstance(record, self._kinds):
                self._take(record)
            elif record is not None:
                self._refuse(f"a {record.TYPE} record, which it must not send")

    def _refuse(self, reason: str) -> None:
        """Report the first line that is no record."""
        if not self._has_refused:
            self._notice(f"the workload sent something that is not a record: {reason}")
        self._has_refused = True


class LostMetrics:
    """Reports once each metric of what trains that became NaN or infinite.

    Args:
        notice: takes, in words, what a person should know.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._reported: set[str] = set()

    def take(self, epoch: Epoch) -> None:
        for name, reason in epoch.why.items():
            if reason in ("NaN", "infinite") and name not in self._reported:
                self._reported.add(name)
                self._notice(f"{name} became {reason} in epoch {epoch.epoch + 1:,}")
