"""The index beside a log: what the log's records come to at times, so that none reads it whole.

`session.index` is a signature and a pickle. A pickle may run anything, so only what a key signed
that this user alone has is ever loaded. An index is worth nothing without its log: where they
don't fit, it is ignored.
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
# So much of the log before a place is compared, at most.
CHECKED_BYTES = 512
_KEY_BYTES, _SIGNATURE_BYTES = 32, 16
# What an index holds are objects of these packages: of others it is no use.
_PACKAGES = ("records", "statistics", "session")


class LogPosition(NamedTuple):
    """A place in a log at which a line begins, and by what it is known again."""

    offset: int
    checked: int
    """So many bytes before it are in the digest."""
    digest: str


def position_after(end_of_log: bytes, offset: int) -> LogPosition:
    """Return the place at an offset; `end_of_log` are some bytes before it."""
    import hashlib  # with OpenSSL, which not every screen needs before its first paint

    checked = end_of_log[-CHECKED_BYTES:]
    return LogPosition(offset, len(checked), hashlib.sha256(checked).hexdigest()[:16])


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
    key = read_regular(path, _KEY_BYTES)
    if len(key) != _KEY_BYTES:
        raise OSError(None, "not a key", str(path))
    return key


def write_index(log: Path, session: str, content: bytes) -> None:
    """Write the index of a log of ours, where that may be: a log is whole without."""
    # What has no home directory has no key.
    with contextlib.suppress(OSError, RuntimeError):
        if log.parent.stat().st_uid == os.geteuid() and len(content) < MAX_BYTES:
            replace_private(index_of(log), _signature(session, content) + content)


def read_index(log: Path, session: str) -> memoryview | None:
    """Return the index of a log; None where there is none, or it isn't ours."""
    with contextlib.suppress(OSError, RuntimeError):
        held = memoryview(read_regular(index_of(log), MAX_BYTES))
        signature, content = held[:_SIGNATURE_BYTES], held[_SIGNATURE_BYTES:]
        if signature == _signature(session, content):
            return content
    return None


def _signature(session: str, content: bytes | memoryview) -> bytes:
    from hashlib import blake2b

    key = blake2b(session.encode() + _code(), key=_own_key()).digest()
    return blake2b(content, key=key, digest_size=_SIGNATURE_BYTES).digest()
