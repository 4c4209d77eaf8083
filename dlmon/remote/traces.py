"""Copy the traces of a session's profiles from its host, beside the copy of its log."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from dlmon.exit_codes import FAILED
from dlmon.log.folder import MOST_TRACE_BYTES, LogError, is_trace, reason_of
from dlmon.private_files import replace_private
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
    have = _sizes(folder)
    size: Any
    file, size, data, copied = "", 0, bytearray(), 0
    async for answer in link.ask("traces", session=session, have=have, log_dir=log_dir):
        if "file" in answer:
            file, size, copied = str(answer["file"]), answer.get("size"), copied + 1
            if not is_trace(file) or type(size) is not int or data or copied > MOST_TRACES:
                raise RefusedRequest(f"{link.host} sent no traces that can be copied", FAILED)
            if size > MOST_TRACE_BYTES:
                raise LogError(
                    f"{file} of {session} has {size / MIB:,.0f} MiB, and no more than "
                    f"{MOST_TRACE_BYTES // MIB} are copied"
                )
            continue
        try:
            data += base64.b64decode(str(answer.get("text")), validate=True)
        except ValueError:
            size = -1
        if len(data) > size:
            raise RefusedRequest(f"{link.host} did not send {file} as it is there", FAILED)
        if len(data) == size:
            try:
                replace_private(folder / file, bytes(data))
            except OSError as error:
                why = reason_of(error)
                raise LogError(f"{file} can't be copied to {folder}: {why}") from None
            data.clear()
    if data:
        raise RefusedRequest(f"{link.host} did not send all of {file}", FAILED)


def _sizes(folder: Path) -> dict[str, int]:
    """Return how many bytes each trace has that is there already."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if is_trace(path.name)}
