"""The index beside a log: what the log's records come to at times, so that none reads it whole.

`session.index.jsonl` is written as `session.jsonl` grows. Its first line names the session. An
entry is the records that are kept as they stand in the log, then a line `at` (how far the log was,
and the series in coarse parts) and a line `state` (the rest, which only who begins there reads).
An index is worth nothing without its log: where they don't fit, it is ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dlmon.files import open_to_read
from dlmon.private_files import open_private, write_private

SCHEMA = 2
MAX_BYTES = 128 << 20
# So much of the log before a place is compared, at most.
CHECKED_BYTES = 512
_LONGEST_LINE_BYTES = 4 << 20


class Place(NamedTuple):
    """A place in a log at which a line begins, and by what it is known again."""

    offset: int
    checked: int
    """So many bytes before it are in the digest."""
    digest: str


def place_after(end_of_log: bytes, offset: int) -> Place:
    """Return the place at an offset; `end_of_log` are some bytes before it."""
    import hashlib  # with OpenSSL, which not every screen needs before its first paint

    checked = end_of_log[-CHECKED_BYTES:]
    return Place(offset, len(checked), hashlib.sha256(checked).hexdigest()[:16])


def index_of(log: Path) -> Path:
    """Return where the index of a log is."""
    return log.with_suffix(".index.jsonl")


def header_line(session: str) -> bytes:
    """Return the first line of an index."""
    return line_of({"type": "index", "schema": SCHEMA, "session": session})


def line_of(fields: dict[str, Any]) -> bytes:
    """Return a line of an index.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class IndexWriter:
    """Writes the index of a log as that grows; gives up where it can't: a log is whole without."""

    def __init__(self, log: Path, session: str) -> None:
        self._fd: int | None = None
        with contextlib.suppress(OSError):
            self._fd = open_private(index_of(log), os.O_WRONLY | os.O_APPEND)
        self.write([header_line(session)])

    def write(self, lines: Iterable[bytes]) -> None:
        data = b"".join(lines)
        try:
            while data and self._fd is not None:
                data = data[os.write(self._fd, data) :]
        except OSError:
            self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def write_index(log: Path, session: str, lines: Iterable[bytes]) -> None:
    """Write a whole index beside a log of ours, where that may be."""
    with contextlib.suppress(OSError):
        if log.parent.stat().st_uid == os.geteuid():
            write_private(index_of(log), header_line(session) + b"".join(lines))


def read_index(log: Path, session: str) -> Iterator[bytes]:
    """Yield the lines behind the first of the index of a log; none where it has none."""
    with contextlib.suppress(OSError), open_to_read(index_of(log), MAX_BYTES) as index:
        if index.readline(_LONGEST_LINE_BYTES) != header_line(session):
            return
        while (line := index.readline(_LONGEST_LINE_BYTES)).endswith(b"\n"):
            yield line
