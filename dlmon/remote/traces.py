"""Copy the traces of a session's profiles from its host, beside the copy of its log."""

from __future__ import annotations

import base64
from pathlib import Path

from dlmon.exit_codes import FAILED
from dlmon.log.folder import MOST_TRACE_BYTES, LogError, is_trace, reason_of
from dlmon.private_files import replace_private
from dlmon.remote.link import Link
from dlmon.remote.ssh import RefusedRequest

MOST_TRACES = 100
MIB = 1 << 20


async def copy_traces(link: Link, session: str, folder: Path, log_dir: str | None = None) -> None:
    """Copy each trace of a session to a folder; one of the same size is there already.

    Raises:
        LogError: a copy can't be kept.
        RefusedRequest: the host sends none that can be copied.
        SshError: the connection was lost.
    """
    here = folder.iterdir()  # noqa: ASYNC240
    have = {path.name: path.stat().st_size for path in here if is_trace(path.name)}
    copied: dict[str, bytes] = {}
    async for answer in link.ask("traces", session=session, have=have, log_dir=log_dir):
        file, size = str(answer.get("file")), answer.get("size")
        try:
            data = copied.get(file, b"") + base64.b64decode(str(answer.get("text")), validate=True)
        except ValueError:
            size = None
        if not is_trace(file) or type(size) is not int or len(copied) > MOST_TRACES:
            raise RefusedRequest(f"{link.host} sent no traces that can be copied", FAILED)
        if size > MOST_TRACE_BYTES:
            raise LogError(
                f"{file} of {session} has {size / MIB:,.0f} MiB, and no more than "
                f"{MOST_TRACE_BYTES // MIB} are copied"
            )
        if len(data) > size:
            raise RefusedRequest(f"{link.host} did not send {file} as it is there", FAILED)
        copied[file] = data
        if len(data) == size:
            try:
                replace_private(folder / file, data)
            except OSError as error:
                why = reason_of(error)
                raise LogError(f"{file} can't be copied to {folder}: {why}") from None
            copied[file] = b""
    if any(copied.values()):
        raise RefusedRequest(f"{link.host} did not send all of the traces", FAILED)
