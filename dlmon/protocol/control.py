"""Ask the supervisor of a session that runs on this machine: on a socket that bears its id.

The socket has no place on a disk, and ends with its supervisor. Whoever asks sees by the kernel's
word which process answers, and the supervisor which user asks. A request is a line of JSON, such as
`{"v": 1, "ask": "stack"}`; the answers are records, and a last line that says `end`, or `error`.
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

VERSION = 1
LONGEST_BYTES = 4096
# The processes have two seconds to answer.
ANSWER_S = 10.0
WAIT_S = {"profile": 900.0}
"""How long other answers than those take: steps have to come, and their trace to be read."""
MOST_BYTES = 64 << 20
_CREDENTIALS = struct.Struct("3i")


class NotControlled(Exception):
    """A session that can't be asked, or refuses: one sentence."""


def address_of(session: str) -> str:
    """Return the name of the socket of a session."""
    return f"\0dlmon/{session}"


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end of a connection, by the kernel."""
    size = _CREDENTIALS.size
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, user, _ = _CREDENTIALS.unpack(data)
    return pid, user


async def ask(
    session: str, pid: int, request: Mapping[str, Any], wait_s: float = ANSWER_S
) -> list[Record]:
    """Return what the supervisor of a session answers; whoever cancels this waits no more.

    Args:
        session: its id.
        pid: the process that holds its log.
        request: what is asked, such as `{"ask": "stack"}`.
        wait_s: how long an answer is waited for.

    Raises:
        NotControlled: it refuses, or does not answer.
    """
    # Who only lists sessions needs no asyncio.
    import asyncio

    line = json.dumps({"v": VERSION, **request}).encode() + b"\n"
    try:
        return _records_in(await asyncio.wait_for(_exchange(session, pid, line), wait_s))
    except ConnectionRefusedError:
        raise NotControlled("it can't be asked: an older dlmon records it, or it ends") from None
    except PermissionError:
        raise NotControlled("it belongs to another user") from None
    except (TimeoutError, asyncio.TimeoutError):
        raise NotControlled(f"it did not answer within {wait_s:.0f} s") from None
    except OSError as error:
        raise NotControlled(f"it can't be asked: {error.strerror}") from None


async def _exchange(session: str, pid: int, line: bytes) -> bytes:
    """Send the process of a session a line, and return all that it answers."""
    import asyncio

    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        await loop.sock_connect(connection, address_of(session))
        if peer_of(connection)[0] != pid:
            raise NotControlled("another process than the one that records it would answer")
        await loop.sock_sendall(connection, line)
        data = bytearray()
        while (part := await loop.sock_recv(connection, 1 << 16)) and len(data) < MOST_BYTES:
            data += part
    return bytes(data)


def _records_in(data: bytes) -> list[Record]:
    *lines, last = data.split(b"\n")[:-1] or [b""]
    try:
        said = json.loads(last)
        error = said.get("error")
        if error is not None or "end" not in said:
            raise NotControlled(clean(str(error or "it did not answer to the end"), 300))
        return [record for line in lines if (record := decode(line)) is not None]
    except (ValueError, AttributeError, RecordError):
        raise NotControlled("it did not answer to the end") from None


def may_ask(connection: socket.socket) -> bool:
    """Return whether the one who asks is the user of this process, or root."""
    return peer_of(connection)[1] in (os.geteuid(), 0)
