"""What trains sends records as lines: read them, and refuse what is none."""

from __future__ import annotations

from collections.abc import Callable

from dlmon.records import Epoch, Record, RecordError, decode

LINE_BYTES = 16 << 20


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
        self._refused = 0

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

    def report_refused(self) -> None:
        if self._refused > 1:
            self._notice(f"the workload sent {self._refused:,} lines that are not records")

    def _refuse(self, reason: str) -> None:
        """Report the first line that is no record, and count the others."""
        if self._refused == 0:
            self._notice(f"the workload sent something that is not a record: {reason}")
        self._refused += 1


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
