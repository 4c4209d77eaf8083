"""Send a request to the supervisor of a session on this machine, over a socket named by its id.

The socket is abstract (unix(7)) and ends with its supervisor; on a Mac it is a file in a private
folder. The kernel tells the client which process answers, and the supervisor which user asks. A
request is a line of JSON, such as `{"v": 1, "ask": "stack"}`; the answer is records, and a last
line with `end` or `error`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

from dlmon.records import Record, RecordError, decode
from dlmon.records.sanitize import clean
from dlmon.system.this_host import IS_MACOS

VERSION = 1
LONGEST_BYTES = 4096
# The processes have two seconds to answer.
ANSWER_S = 10.0
WAIT_S = {"profile": 900.0}
"""The time limits of slower requests: a profile needs steps, and its trace is read."""
MOST_BYTES = 64 << 20
_CREDENTIALS = struct.Struct("3i")


class NotControlled(Exception):
    """Raised if a session can't be asked, or refuses; the message is a sentence for a person."""


def address_of(session: str) -> str:
    """Return the socket address of a session.

    Raises:
        OSError: there is no private folder for it.
    """
    if not IS_MACOS:
        return f"\0dlmon/{session}"
    import hashlib
    import tempfile
    from pathlib import Path

    from dlmon.system.private_files import own_private_folder

    folder = Path(tempfile.gettempdir(), f"dlmon-{os.geteuid()}")
    own_private_folder(folder)
    # An address has up to 103 bytes.
    return str(folder / hashlib.sha256(session.encode()).hexdigest()[:16])


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the pid and the user id at the other end of a connection, as the kernel knows them."""
    if IS_MACOS:
        # LOCAL_PEERPID, and LOCAL_PEERCRED: struct xucred begins with its version and the user id.
        pid = struct.unpack("i", connection.getsockopt(0, 2, 4))[0]
        return pid, struct.unpack_from("II", connection.getsockopt(0, 1, 76))[1]
    size = _CREDENTIALS.size
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, user, _ = _CREDENTIALS.unpack(data)
    return pid, user


async def ask(
    session: str, pid: int, request: Mapping[str, Any], wait_s: float = ANSWER_S
) -> list[Record]:
    """Return the supervisor's answer to a request.

    Args:
        session: its id.
        pid: the process that writes its log.
        request: such as `{"ask": "stack"}`.
        wait_s: the time limit for the answer.

    Raises:
        NotControlled: it refuses, or does not answer.
    """
    # A command that only lists sessions needs no asyncio.
    import asyncio

    line = json.dumps({"v": VERSION, **request}).encode() + b"\n"
    try:
        return _records_in(await asyncio.wait_for(_exchange(session, pid, line), wait_s))
    except ConnectionRefusedError:
        # An older dlmon records it, or it is ending.
        raise NotControlled("its recorder does not answer (an older dlmon, or ending)") from None
    except PermissionError:
        raise NotControlled("it belongs to another user") from None
    except (TimeoutError, asyncio.TimeoutError):
        raise NotControlled(f"it did not answer within {wait_s:.0f} s") from None
    except OSError as error:
        raise NotControlled(f"it can't be asked: {error.strerror}") from None


async def _exchange(session: str, pid: int, line: bytes) -> bytes:
    """Send a session's supervisor a line, and return its whole answer."""
    import asyncio

    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, address_of(session))
        if peer_of(connection)[0] != pid:
            raise NotControlled("another process than the one that records it would answer")
        await loop.sock_sendall(connection, line)
        data = bytearray()
        while (chunk := await loop.sock_recv(connection, 1 << 16)) and len(data) < MOST_BYTES:
            data += chunk
    return bytes(data)


def _records_in(data: bytes) -> list[Record]:
    *lines, last = data.split(b"\n")[:-1] or [b""]
    try:
        ending = json.loads(last)
        error = ending.get("error")
        if error is not None or "end" not in ending:
            raise NotControlled(clean(str(error or "it did not answer to the end"), 300))
        return [record for line in lines if (record := decode(line)) is not None]
    except (ValueError, AttributeError, RecordError):
        raise NotControlled("it did not answer to the end") from None


def may_ask(connection: socket.socket) -> bool:
    """Return whether the client runs as our user, or as root."""
    return peer_of(connection)[1] in (os.geteuid(), 0)
