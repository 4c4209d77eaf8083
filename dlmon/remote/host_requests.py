"""Single requests to a host, for commands: each opens a connection of its own.

They raise `SshError` if the host can't be reached, and `HostRefusal` if it refuses the request.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from dlmon.exit_codes import FAILED
from dlmon.log.directory import SessionEntry
from dlmon.log.folder import (
    MOST_TRACE_BYTES,
    LogError,
    id_of,
    is_trace,
    location_options,
    reason_of,
)
from dlmon.log.label import Label
from dlmon.protocol.job import Job
from dlmon.records import Record, SessionHeader
from dlmon.remote.connection import Connection, connected
from dlmon.remote.session_follower import (
    ListedSweep,
    LogCopy,
    asked_records,
    copies_directory,
    find_remote,
    listed_sessions,
    listed_sweeps,
)
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.system.files import MIB
from dlmon.system.private_files import replace_private

Answer = TypeVar("Answer")


async def ask_each(
    hosts: Sequence[str], ask: Callable[[str], Awaitable[Answer]]
) -> dict[str, Answer | Exception]:
    """Ask all hosts at the same time; return the answer or the error of each."""
    answers = await asyncio.gather(*(ask(host) for host in hosts), return_exceptions=True)
    by_host: dict[str, Answer | Exception] = {}
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, SshError | HostRefusal):
            raise answer
        by_host[host] = answer
    return by_host


async def list_remote(
    host: str, log_dir: str | None = None
) -> tuple[list[SessionEntry], list[ListedSweep]]:
    """Return the sessions of a host, oldest first, and its sweeps."""
    directory = copies_directory(host)
    async with connected(host) as connection:
        sessions = await listed_sessions(connection, log_dir, directory=directory)
        return sessions, await listed_sweeps(connection, log_dir, directory)


async def stop_remote(
    host: str, meant: str, log_dir: str | None = None
) -> tuple[SessionHeader, str | None]:
    """Stop a session of a host after its current batch.

    Returns:
        Its header, and a phrase that says what happens instead, if anything.
    """
    async with connected(host) as connection:
        listed = await find_remote(connection, meant, log_dir)
        answer = await connection.ask_one("stop", session=id_of(listed.path), log_dir=log_dir)
        phrase = answer.get("said")
        return listed.header, phrase if isinstance(phrase, str) else None


async def ask_remote(
    host: str, meant: str, request: Mapping[str, Any], log_dir: str | None = None
) -> tuple[SessionHeader, list[Record]]:
    """Send a request to a session of a host; return the session's header and its answer."""
    async with connected(host) as connection:
        listed = await find_remote(connection, meant, log_dir)
        records = await asked_records(connection, id_of(listed.path), request, log_dir)
        return listed.header, records


async def name_remote(
    host: str, meant: str, change: Callable[[Label], Label], log_dir: str | None = None
) -> tuple[str, Label]:
    """Change the name or note of a session of a host; return its id and its new label."""
    async with connected(host) as connection:
        listed = await find_remote(connection, meant, log_dir)
        label = change(listed.label)
        fields = {"session": id_of(listed.path), "name": label.name, "note": label.note}
        await connection.ask_one("name", **fields, log_dir=log_dir)
        return id_of(listed.path), label


async def copy_remote(
    host: str,
    meant: str,
    log_dir: str | None = None,
    show: Callable[[float], None] = lambda share: None,
    traces: bool = False,
) -> list[Path]:
    """Copy the logs of sessions of a host, as they are now, and return the copies.

    Args:
        host: the host.
        meant: a name as for `find_sessions`, but not a path.
        log_dir: the log directory there; None for the default one.
        show: is called with the copied share, 0 to 1.
        traces: also copy the traces of their profiles.

    Raises:
        LogError: the copies can't be written.
    """
    async with connected(host) as connection:
        listed = await listed_sessions(connection, log_dir, meant, location_options(log_dir, host))
        copies = []
        for number, session in enumerate(listed):
            copy = LogCopy(connection, session, log_dir)
            copy.start()
            try:
                copies.append(await copy.wait_until_copied())
            finally:
                copy.close()
            if traces:
                await copy_traces(connection, id_of(session.path), copies[-1].parent, log_dir)
            show((number + 1) / len(listed))
        return copies


async def examine_remote(host: str, quick: bool = False, log_dir: str | None = None) -> list[Any]:
    """Return the findings of the doctor on a host, each as a mapping of its fields."""
    async with connected(host) as connection:
        answers = connection.ask("doctor", quick=quick, log_dir=log_dir)
        return [answer["finding"] async for answer in answers if "finding" in answer]


async def start_remote(host: str, job: Job, slurm: str | None = None) -> str:
    """Start a session that goes on without us on a host; return its id."""
    async with connected(host) as connection:
        return await launch_remote(connection, job, slurm)


async def launch_remote(connection: Connection, job: Job, slurm: str | None = None) -> str:
    """Start a session on a host, or submit it to Slurm there; return its id.

    Args:
        connection: the connection to the host.
        job: the job.
        slurm: the options for Slurm as typed; None to run it on the host itself.
    """
    answer = await connection.ask_one("launch", job=asdict(job), slurm=slurm)
    session = answer.get("session")
    if not isinstance(session, str):
        raise HostRefusal(f"{connection.host} did not say which session it started", FAILED)
    return session


# ---- traces ----


MOST_TRACES = 100
MOST_METRIC_BYTES = 2048 * MIB


async def copy_traces(
    connection: Connection, session: str, folder: Path, log_dir: str | None = None
) -> None:
    """Copy the traces of a session to a folder, except those that it has in the same size.

    Raises:
        LogError: a copy can't be written.
        HostRefusal: the host sends no traces that can be copied.
        SshError: the connection was lost.
    """
    paths = folder.iterdir()  # noqa: ASYNC240
    have = {path.name: path.stat().st_size for path in paths if is_trace(path.name)}
    copied: dict[str, bytes] = {}
    async for answer in connection.ask("traces", session=session, have=have, log_dir=log_dir):
        file, size = str(answer.get("file")), answer.get("size")
        try:
            data = copied.get(file, b"") + base64.b64decode(str(answer.get("text")), validate=True)
        except ValueError:
            size = None
        if not is_trace(file) or type(size) is not int or len(copied) > MOST_TRACES:
            raise HostRefusal(f"{connection.host} sent no traces that can be copied", FAILED)
        if size > MOST_TRACE_BYTES:
            raise LogError(
                f"{file} of {session} has {size / MIB:,.0f} MiB, and no more than "
                f"{MOST_TRACE_BYTES // MIB} are copied"
            )
        if len(data) > size:
            raise HostRefusal(f"{connection.host} did not send {file} as it is there", FAILED)
        copied[file] = data
        if len(data) == size:
            try:
                replace_private(folder / file, data)
            except OSError as error:
                why = reason_of(error)
                raise LogError(f"{file} can't be copied to {folder}: {why}") from None
            copied[file] = b""
    if any(copied.values()):
        raise HostRefusal(f"{connection.host} did not send all of the traces", FAILED)


async def copy_metrics(host: str, path: str, folder: Path) -> Path:
    """Copy the files of metrics in a path of a host, as they are now, and return the copy.

    Args:
        host: the host.
        path: a file or a folder there.
        folder: an empty folder here.

    Raises:
        LogError: the copies can't be written.
    """
    async with connected(host) as connection:
        return await copy_metric_files(connection, path, folder)


async def copy_metric_files(connection: Connection, path: str, folder: Path) -> Path:
    """Copy the files of metrics in a path of a host, and return the copy.

    Raises:
        LogError: the copies can't be written, or are too large.
        HostRefusal: the host has no such files, or sends none that can be copied.
        SshError: the connection was lost.
    """
    host, total = connection.host, 0
    copy = folder / (PurePosixPath(path).name or "metrics")
    async for answer in connection.ask("metric_files", path=path):
        name = PurePosixPath(str(answer.get("file") or ""))
        try:
            data = base64.b64decode(str(answer.get("text") or ""), validate=True)
        except ValueError:
            data = b""
        if not data or name.is_absolute() or ".." in name.parts or not name.parts:
            raise HostRefusal(f"{host} sent no files that can be copied", FAILED)
        total += len(data)
        if total > MOST_METRIC_BYTES:
            most = f"{MOST_METRIC_BYTES // MIB:,} MiB"
            raise LogError(f"{path} of {host} has more metrics than the {most} that are copied")
        try:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            with (copy / name).open("ab") as file:
                file.write(data)
        except OSError as error:
            raise LogError(f"{path} of {host} can't be copied: {reason_of(error)}") from None
    if not total:
        raise HostRefusal(f"{host}: {path} has no metrics that dlmon reads")
    return copy
