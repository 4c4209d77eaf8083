"""Copy what other hosts record of a joined run: `python -m dlmon.remote.part_copy DIR NAME HOST`.

Such hosts don't see our log directory, so each makes a session of its own, with the same name.
Their logs are copied into the folder of our session, DIR, as parts of it, and a request to stop
our session is passed on to theirs. Our supervisor starts this process, ends it, and takes the
notices on its stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dlmon.log.directory import NoSuchLog, SessionEntry
from dlmon.log.folder import STOP_NAME, LogError, part_name
from dlmon.records import Notice, Status, encode
from dlmon.remote.connection import Connection, connected
from dlmon.remote.session_follower import LogCopy, find_remote
from dlmon.remote.ssh import HostRefusal, SshError

POLL_S = 0.5
# Parts of hosts that see our log directory have smaller numbers.
FIRST_PART = 500


def check_reachable(hosts: Sequence[str]) -> None:
    """Connect to each host once.

    Raises:
        SshError: a host can't be reached.
    """
    asyncio.run(_reach(hosts))


async def _reach(hosts: Sequence[str]) -> None:
    for host in hosts:
        async with connected(host):
            pass


async def copy_part(folder: Path, number: int, host: str, name: str) -> str | None:
    """Copy the log of a host's session as it grows; return what is wrong if it ends too early.

    Raises:
        LogError, OSError: the copy can't be written.
        SshError: the host can't be reached.
    """
    async with connected(host) as connection:
        listed = await _running_there(connection, name)
        copy = LogCopy(connection, listed, folder=folder / f"from-{number}")
        copy.start()
        os.link(copy.path, folder / part_name(number))
        is_asked = False
        try:
            while copy.status in (None, Status.RUNNING) and copy.problem is None:
                if connection.needs_person:
                    return connection.problem
                has_to_ask = not is_asked or copy.refusal is not None
                if has_to_ask and connection.is_up and (folder / STOP_NAME).exists():
                    copy.stop_session()
                    is_asked = True
                await asyncio.sleep(POLL_S)
            return copy.problem
        finally:
            copy.close()


async def _running_there(connection: Connection, name: str) -> SessionEntry:
    """Wait for the host's session of this name."""
    while True:
        with contextlib.suppress(NoSuchLog, HostRefusal):
            listed = await find_remote(connection, name)
            if listed.status is Status.RUNNING:
                return listed
        await asyncio.sleep(POLL_S)


async def _copy_and_tell(folder: Path, number: int, host: str, name: str) -> None:
    try:
        problem = await copy_part(folder, number, host, name)
    except (LogError, OSError, SshError) as error:
        problem = str(error)
    if problem is not None:
        text = f"what {host} records of this run is not copied any more: {problem}"
        sys.stdout.buffer.write(encode(Notice(time.monotonic_ns(), text)))
        sys.stdout.buffer.flush()


async def copy_parts(folder: Path, name: str, hosts: Sequence[str]) -> None:
    """Copy the part of each host, and say on stdout which can't be copied."""
    parts = enumerate(hosts, FIRST_PART)
    await asyncio.gather(*(_copy_and_tell(folder, number, host, name) for number, host in parts))


def main() -> None:
    """Copy the parts that the arguments name."""
    folder, name, *hosts = sys.argv[1:]
    asyncio.run(copy_parts(Path(folder), name, hosts))


if __name__ == "__main__":
    main()
