"""The index beside a log: what the log's records come to at times, so that none reads it whole.

`session.index` is written as `session.jsonl` grows. An entry is its length, a signature and a
pickle. A pickle may run anything, so only what a key signed that this user alone has is ever
loaded. An index is worth nothing without its log: where they don't fit, it is ignored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import platformdirs

from dlmon.files import open_to_read
from dlmon.private_files import make_private_folder, open_private, write_private

MAX_BYTES = 128 << 20
# So much of the log before a place is compared, at most.
CHECKED_BYTES = 512
_KEY_BYTES, _SIGNATURE_BYTES, _LENGTH_BYTES = 32, 16, 4
# What an index holds are objects of these packages: of others it is no use.
_PACKAGES = ("records", "statistics", "session")


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
    return log.with_suffix(".index")


@cache
def _code() -> bytes:
    """Return by what the code is known that makes what an index holds."""
    from hashlib import blake2b

    root, code = Path(__file__).parents[1], blake2b()
    for source in sorted(one for name in _PACKAGES for one in (root / name).rglob("*.py")):
        code.update(source.read_bytes())
    return code.digest()


def _own_key() -> bytes:
    """Return the key by which what this user's processes wrote is known; make it where none is.

    Raises:
        OSError: it can't be read.
    """
    path = Path(platformdirs.user_state_path("dlmon", appauthor=False)) / "index.key"
    make_private_folder(path.parent)
    with (
        contextlib.suppress(FileExistsError),
        os.fdopen(open_private(path, os.O_WRONLY), "wb") as new,
    ):
        new.write(os.urandom(_KEY_BYTES))
    with open_to_read(path, _KEY_BYTES) as file:
        key = file.read()
    if len(key) != _KEY_BYTES:
        raise OSError(None, "not a key", str(path))
    return key


class _Signer:
    """Signs the entries of one session's index, each with its number."""

    def __init__(self, session: str) -> None:
        from hashlib import blake2b

        self._hash = blake2b
        self._key = blake2b(session.encode() + _code(), key=_own_key()).digest()
        self._number = 0

    def sign(self, entry: bytes) -> bytes:
        """Return the signature of the next entry."""
        self._number += 1
        signed = self._number.to_bytes(8, "big") + entry
        return self._hash(signed, key=self._key, digest_size=_SIGNATURE_BYTES).digest()

    def signed(self, entry: bytes) -> bytes:
        """Return the next entry as it stands in an index."""
        return len(entry).to_bytes(_LENGTH_BYTES, "big") + self.sign(entry) + entry


class IndexWriter:
    """Writes the index of a log as that grows; gives up where it can't: a log is whole without."""

    def __init__(self, log: Path, session: str) -> None:
        self._fd: int | None = None
        # What has no home directory has no key.
        with contextlib.suppress(OSError, RuntimeError):
            self._signer = _Signer(session)
            self._fd = open_private(index_of(log), os.O_WRONLY | os.O_APPEND)

    def write(self, entry: bytes) -> None:
        try:
            data = b"" if self._fd is None else self._signer.signed(entry)
            while data and self._fd is not None:
                data = data[os.write(self._fd, data) :]
        except OSError:
            self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def write_index(log: Path, session: str, entries: Iterable[bytes]) -> None:
    """Write a whole index beside a log of ours, where that may be."""
    with contextlib.suppress(OSError, RuntimeError):
        if log.parent.stat().st_uid == os.geteuid():
            signer = _Signer(session)
            write_private(index_of(log), b"".join(map(signer.signed, entries)))


def read_index(log: Path, session: str) -> Iterator[bytes]:
    """Yield the entries of the index of a log, as far as they are whole and ours."""
    with (
        contextlib.suppress(OSError, RuntimeError),
        open_to_read(index_of(log), MAX_BYTES) as index,
    ):
        signer = _Signer(session)
        while head := index.read(_LENGTH_BYTES + _SIGNATURE_BYTES):
            entry = index.read(min(int.from_bytes(head[:_LENGTH_BYTES], "big"), MAX_BYTES))
            if signer.sign(entry) != head[_LENGTH_BYTES:]:
                return
            yield entry
