"""What a host says of its sessions."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from dlmon.log.directory import SessionEntry
from dlmon.log.folder import is_log
from dlmon.log.label import Label, refuse_name
from dlmon.records import (
    Record,
    RecordError,
    Result,
    SessionHeader,
    Status,
    SweepHeader,
    read_object,
    read_record,
)
from dlmon.records.record import record
from dlmon.remote.connection import Answer
from dlmon.remote.link import Link

# What a host says is foreign: no sweep has so many runs, and no host so many sweeps.
MOST_SWEEPS, MOST_RECORDS = 1_000, 20_000
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
    result: Result | None = None

    def entry(self, directory: Path) -> SessionEntry:
        """Return it as one of a log directory, in which its copy lies or would lie."""
        path = directory / self.session / self.file
        return SessionEntry(self.header, path, self.status, self.result, None, self.label)


@record(frozen=True)
class ListedSweep:
    """A sweep of another host: its id, how it stands, and what its log says."""

    sweep: str
    status: Status
    """How it stands where its log doesn't say."""
    label: Label
    header: SweepHeader
    records: tuple[Record, ...]
    """What follows the header."""


async def listed_sessions(
    host: Link, log_dir: str | None = None, meant: str | None = None, where: str = ""
) -> list[ListedSession]:
    """Return the sessions of a host, oldest first; those that `meant` names, as in `find_sessions`.

    Args:
        host: what is asked.
        log_dir: where sessions live there; None for where they do by default.
        meant: which of them; None for all.
        where: as for `find_session`.

    Raises:
        RefusedRequest: none is meant, or several by a prefix.
        SshError: the connection was lost.
    """
    asked = host.ask("sessions", log_dir=log_dir, meant=meant, where=where)
    answers = [answer async for answer in asked]
    read = (_read(answer) for answer in answers)
    return [session for session in read if session is not None]


async def listed_sweeps(host: Link, log_dir: str | None = None) -> list[ListedSweep]:
    """Return the sweeps of a host, by their ids.

    Raises:
        RefusedRequest: they can't be listed.
        SshError: the connection was lost.
    """
    begun: dict[str, Answer] = {}
    records: dict[str, list[Record]] = {}
    async for answer in host.ask("sweeps", log_dir=log_dir):
        sweep = answer.get("sweep")
        if not isinstance(sweep, str) or not _ID.fullmatch(sweep):
            continue
        if "status" in answer and len(begun) < MOST_SWEEPS:
            begun.setdefault(sweep, answer)
        elif sweep in begun and len(records.setdefault(sweep, [])) < MOST_RECORDS:
            with contextlib.suppress(RecordError):
                found = read_record(answer.get("record"))
                if found is not None:
                    records[sweep].append(found)
    listed = []
    for sweep, answer in begun.items():
        header, *more = records.get(sweep) or (None,)
        if isinstance(header, SweepHeader):
            status = Status(str(answer["status"]))
            following = tuple(record for record in more if record is not None)
            listed.append(ListedSweep(sweep, status, _label(answer), header, following))
    return listed


def _read(answer: Answer) -> ListedSession | None:
    """Return a session that a host listed; None where it is none that a file can be named after."""
    fields = {"status": str(Status.UNKNOWN), **answer, "label": vars(_label(answer))}
    try:
        listed = read_object(ListedSession, fields)
    except (RecordError, RecursionError):
        return None
    named = _ID.fullmatch(listed.session) and "/" not in listed.file and listed.size >= 0
    return listed if named and is_log(Path(listed.file)) else None


def _label(answer: Answer) -> Label:
    name, note = answer.get("name"), answer.get("note")
    named = isinstance(name, str) and refuse_name(name) is None
    return Label(name if named else None, note if isinstance(note, str) else None)
