"""Copy the traces of a session's profiles from its host, beside the copy of its log."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from dlmon.exit_codes import FAILED
from dlmon.log.folder import MOST_TRACE_BYTES, LogError, is_trace, reason_of
from dlmon.private_files import open_private
from dlmon.remote.connection import RefusedRequest
from dlmon.remote.link import Link

MOST_TRACES = 100
MIB = 1 << 20


async def copy_traces(link: Link, session: str, folder: Path, log_dir: str | None = None) -> None:
    """Copy each trace of a session to a folder; one of the same size is there already.

    Raises:
        LogError: a copy can't be kept.
        RefusedRequest: the host sends none that can be copied.
        SshError: the connection was lost.
    """
    which = {"session": session, "log_dir": log_dir}
    sizes = {}
    async for answer in link.ask("traces", **which):
        file, size = answer.get("file"), answer.get("size")
        if not isinstance(file, str) or type(size) is not int or not is_trace(file):
            raise RefusedRequest(f"{link.host} sent no list of traces", FAILED)
        sizes[file] = size
        if len(sizes) > MOST_TRACES:
            raise RefusedRequest(f"{session} has over {MOST_TRACES} traces: none is copied", FAILED)
    for file, size in sizes.items():
        if size > MOST_TRACE_BYTES:
            raise LogError(
                f"{file} of {session} has {size / MIB:,.0f} MiB, and no more than "
                f"{MOST_TRACE_BYTES // MIB} are copied"
            )
        path = folder / file
        try:
            if not path.is_file() or path.stat().st_size != size:
                await _copy(link, file, size, path, **which)
        except OSError as error:
            raise LogError(f"{file} can't be copied to {folder}: {reason_of(error)}") from None


async def _copy(link: Link, file: str, size: int, path: Path, **which: str | None) -> None:
    """Write a trace whole or not at all."""
    new = path.with_name(f".{file}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(open_private(new, os.O_WRONLY), "wb") as copy:
            while (at := copy.tell()) < size:
                answer = await link.ask_one("trace", **which, file=file, offset=at)
                try:
                    data = base64.b64decode(str(answer.get("text")), validate=True)
                except ValueError:
                    data = b""
                if not 0 < len(data) <= size - at:
                    raise RefusedRequest(f"{link.host} did not send {file} as it is there", FAILED)
                copy.write(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
