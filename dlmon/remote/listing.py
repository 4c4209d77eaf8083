"""What a host says of its sessions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from dlmon.log.directory import SessionEntry
from dlmon.log.folder import is_log
from dlmon.log.label import Label, refuse_name
from dlmon.records import RecordError, Result, SessionHeader, Status, decode
from dlmon.records.record import record
from dlmon.remote.connection import Answer

_ID = re.compile(r"[\w-][\w.-]{0,119}", re.ASCII)


@record(frozen=True)
class ListedSession:
    """A session of another host: its id, the file of its log there, and what it amounts to."""

    session: str
    file: str
    size: int
    """How many bytes its log has."""
    status: Status
    label: Label
    header: SessionHeader
    result: Result | None

    def entry(self, directory: Path) -> SessionEntry:
        """Return it as one of a log directory, in which its copy lies or would lie."""
        path = directory / self.session / self.file
        return SessionEntry(self.header, path, self.status, self.result, None, self.label)


class Asks(Protocol):
    """What takes requests to a host."""

    def ask(self, ask: str, **fields: object) -> AsyncIterator[Answer]:
        """Yield the answers to a request."""


async def listed_sessions(
    host: Asks, log_dir: str | None = None, meant: str | None = None
) -> list[ListedSession]:
    """Return the sessions of a host, oldest first; those that `meant` names, as in `find_sessions`.

    Raises:
        RefusedRequest: none is meant, or several by a prefix.
        SshError: the connection was lost.
    """
    answers = [answer async for answer in host.ask("sessions", log_dir=log_dir, meant=meant)]
    read = (_read(answer) for answer in answers)
    return [session for session in read if session is not None]


def _read(answer: Answer) -> ListedSession | None:
    """Return a session that a host listed; None where it is none that a file can be named after."""
    try:
        header, result = decode(answer["header"]), None
        if answer.get("result") is not None:
            result = decode(answer["result"])
        session, file, size = answer["session"], answer["file"], int(answer["size"])
    except (RecordError, KeyError, OverflowError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(session, str) or not isinstance(file, str):
        return None
    if not _ID.fullmatch(session) or "/" in file or not is_log(Path(file)):
        return None
    if not isinstance(header, SessionHeader) or not isinstance(result, (Result, type(None))):
        return None
    return ListedSession(
        session=session,
        file=file,
        size=max(0, size),
        status=Status(str(answer.get("status"))),
        label=_label(answer),
        header=header,
        result=result,
    )


def _label(answer: Answer) -> Label:
    name, note = answer.get("name"), answer.get("note")
    named = isinstance(name, str) and refuse_name(name) is None
    return Label(name if named else None, note if isinstance(note, str) else None)
