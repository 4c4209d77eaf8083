"""What a host says of its sessions and sweeps."""

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
    decode,
    read_object,
)
from dlmon.remote.connection import Answer, Connection

# What a host says is foreign: no host has so many sweeps.
MOST_SWEEPS = 1_000
_ID = re.compile(r"[\w-][\w.-]{0,119}", re.ASCII)

ListedSweep = tuple[SweepHeader, list[Record], Path, Status, Label]
"""What `dlmon.sweep.log.entry_of` takes."""


async def listed_sessions(
    host: Connection,
    log_dir: str | None = None,
    meant: str | None = None,
    where: str = "",
    directory: Path = Path(),
) -> list[SessionEntry]:
    """Return the sessions of a host, oldest first; those that `meant` names, as in `find_sessions`.

    Args:
        host: what is asked.
        log_dir: where sessions live there; None for where they do by default.
        meant: which of them; None for all.
        where: as for `find_session`.
        directory: where copies of their logs lie, or would lie.

    Raises:
        RefusedRequest: none is meant, or several by a prefix.
        SshError: the connection was lost.
    """
    entries = []
    async for answer in host.ask("sessions", log_dir=log_dir, meant=meant, where=where):
        # What it calls a session may be none.
        with contextlib.suppress(ValueError, RecursionError):
            path, status, label = _log_of(answer, directory)
            result = answer.get("result")
            result = None if result is None else read_object(Result, result)
            header = read_object(SessionHeader, answer.get("header"))
            loss = answer.get("loss")
            loss = loss if isinstance(loss, float) else None
            entries.append(SessionEntry(header, path, status, result, None, label, loss))
    return entries


async def listed_sweeps(
    host: Connection, log_dir: str | None = None, directory: Path = Path()
) -> list[ListedSweep]:
    """Return the sweeps of a host, by their ids.

    Raises:
        RefusedRequest: they can't be listed.
        SshError: the connection was lost.
    """
    listed: list[ListedSweep] = []
    async for answer in host.ask("sweeps", log_dir=log_dir):
        with contextlib.suppress(ValueError):
            path, status, label = _log_of(answer, directory)
            header, *records = _records(str(answer.get("text")))
            if isinstance(header, SweepHeader) and len(listed) < MOST_SWEEPS:
                listed.append((header, records, path, status, label))
    return listed


def _records(text: str) -> list[Record]:
    records = []
    for line in text.encode("latin-1").splitlines():
        with contextlib.suppress(RecordError):
            found = decode(line)
            if found is not None:
                records.append(found)
    return records


def _log_of(answer: Answer, directory: Path) -> tuple[Path, Status, Label]:
    """Return where a copy of a log would lie, how that stands, and what it is called.

    Raises:
        ValueError: no file can be named after it.
    """
    folder, file, name, note = (answer.get(key) for key in ("folder", "file", "name", "note"))
    if not isinstance(folder, str) or not isinstance(file, str) or "/" in file:
        raise ValueError
    if not _ID.fullmatch(folder) or not is_log(Path(file)):
        raise ValueError
    named = isinstance(name, str) and refuse_name(name) is None
    label = Label(name if named else None, note if isinstance(note, str) else None)
    return directory / folder / file, Status(str(answer.get("status", Status.UNKNOWN))), label
