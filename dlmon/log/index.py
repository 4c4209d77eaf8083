"""The index beside a log: saved states of its session, so that nobody has to read the whole log.

`session.index` is a signature and a pickle. Loading a pickle may run any code, so an index is
loaded only if it was signed with this user's own key. An index that doesn't fit its log is ignored.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import platformdirs

from dlmon.system.files import read_regular
from dlmon.system.private_files import make_private_folder, open_private, replace_private

MAX_BYTES = 256 << 20
CHECKED_BYTES = 512
"""The most bytes of the log before a position that its digest covers."""
_KEY_BYTES, _SIGNATURE_BYTES = 32, 16
# The packages whose classes an index holds: it is valid only for the same version of them.
_PACKAGES = ("records", "statistics", "session")


class LogPosition(NamedTuple):
    """The offset of a line in a log, and a digest of the `checked` bytes before it."""

    offset: int
    checked: int
    digest: str


def position_after(end_of_log: bytes, offset: int) -> LogPosition:
    """Return the position at an offset; `end_of_log` are the bytes before it, at least some."""
    import hashlib  # loads OpenSSL, which the first paint doesn't need

    checked = end_of_log[-CHECKED_BYTES:]
    return LogPosition(offset, len(checked), hashlib.sha256(checked).hexdigest()[:16])


def index_of(log: Path) -> Path:
    """Return the path of a log's index."""
    return log.with_suffix(".index")


@cache
def _code_digest() -> bytes:
    """Return the digest of the packages whose classes an index holds."""
    from hashlib import blake2b

    root, digest = Path(__file__).parents[1], blake2b()
    for source in sorted(path for name in _PACKAGES for path in (root / name).rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.digest()


def _own_key() -> bytes:
    """Return this user's key, which signs indexes; make one if there is none.

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
    key = read_regular(path, _KEY_BYTES)
    if len(key) != _KEY_BYTES:
        raise OSError(None, "not a key", str(path))
    return key


def write_index(log: Path, session: str, content: bytes) -> None:
    """Write the index of a log of ours if possible: a log is complete without one."""
    # A user without a home directory has no key.
    with contextlib.suppress(OSError, RuntimeError):
        if log.parent.stat().st_uid == os.geteuid() and len(content) < MAX_BYTES:
            replace_private(index_of(log), _signature(session, content) + content)


def read_index(log: Path, session: str) -> memoryview | None:
    """Return the index of a log; None if there is none, or it isn't ours."""
    with contextlib.suppress(OSError, RuntimeError):
        index = memoryview(read_regular(index_of(log), MAX_BYTES))
        signature, content = index[:_SIGNATURE_BYTES], index[_SIGNATURE_BYTES:]
        if signature == _signature(session, content):
            return content
    return None


def _signature(session: str, content: bytes | memoryview) -> bytes:
    from hashlib import blake2b

    key = blake2b(session.encode() + _code_digest(), key=_own_key()).digest()
    return blake2b(content, key=key, digest_size=_SIGNATURE_BYTES).digest()
