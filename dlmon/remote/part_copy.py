"""Copy what other hosts record of a joined run: `python -m dlmon.remote.part_copy DIR NAME HOST`.

Such hosts don't see our log directory, so each makes a session of its own, with the same name.
Their logs are copied into the folder of our session as parts of it, and a request to stop our
session is passed on to theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dlmon.log.directory import NoSuchLog, SessionEntry, read_entry
from dlmon.log.folder import STOP_NAME, LogError, log_of, part_name
from dlmon.log.parts import announced, joined_step
from dlmon.records import Status
from dlmon.remote.connection import Connection, connected
from dlmon.remote.session_follower import LogCopy, find_remote
from dlmon.remote.ssh import HostRefusal
from dlmon.system.children import python_command

POLL_S = 0.5
# The session of this host begins within this time.
BEGINS_S = 120.0
# Parts of hosts that see our log directory have smaller numbers.
FIRST_PART = 500


def start_copying(log_dir: Path, name: str, hosts: Sequence[str]) -> None:
    """Start the process, which waits for the session of this name, and ends with it.

    Raises:
        SshError: a host can't be reached.
    """
    asyncio.run(_reach(hosts))
    nothing = subprocess.DEVNULL
    subprocess.Popen(
        [*python_command("dlmon.remote.part_copy"), str(log_dir), name, *hosts],
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
    )


async def _reach(hosts: Sequence[str]) -> None:
    for host in hosts:
        async with connected(host):
            pass


def session_folder(log_dir: Path, name: str) -> Path | None:
    """Wait for the session that is joined by this name here; return its folder if it begins."""
    until = time.monotonic() + BEGINS_S
    while time.monotonic() < until:
        folder = announced(log_dir, joined_step(name), FIRST_PART)
        if folder is not None and _runs(folder):
            return folder
        time.sleep(POLL_S)
    return None


def _runs(folder: Path) -> bool:
    try:
        return read_entry(log_of(folder)).status is Status.RUNNING
    except (LogError, OSError, ValueError):
        return False


async def copy_part(folder: Path, number: int, host: str, name: str) -> None:
    """Copy the log of a host's session as it grows, until that or our session is over.

    Raises:
        LogError, OSError: the copy can't be written.
        SshError: the host can't be reached.
    """
    async with connected(host) as connection:
        listed = await _running_there(connection, name, folder)
        if listed is None:
            return
        copy = LogCopy(connection, listed, folder=folder / f"from-{number}")
        copy.start()
        os.link(copy.path, folder / part_name(number))
        is_asked = False
        try:
            while copy.status in (None, Status.RUNNING) and copy.problem is None:
                if not is_asked and connection.is_up and (folder / STOP_NAME).exists():
                    copy.stop_session()
                    is_asked = True
                await asyncio.sleep(POLL_S)
        finally:
            copy.close()


async def _running_there(connection: Connection, name: str, folder: Path) -> SessionEntry | None:
    """Wait for the host's session of this name; return None if ours is over before it begins."""
    while await asyncio.to_thread(_runs, folder):
        with contextlib.suppress(NoSuchLog, HostRefusal):
            listed = await find_remote(connection, name)
            if listed.status is Status.RUNNING:
                return listed
        await asyncio.sleep(POLL_S)
    return None


async def _copy_parts(folder: Path, name: str, hosts: Sequence[str]) -> None:
    parts = enumerate(hosts, FIRST_PART)
    copies = (copy_part(folder, number, host, name) for number, host in parts)
    await asyncio.gather(*copies, return_exceptions=True)


def main() -> None:
    """Copy the parts that the arguments name."""
    log_dir, name, *hosts = sys.argv[1:]
    folder = session_folder(Path(log_dir), name)
    if folder is not None:
        asyncio.run(_copy_parts(folder, name, hosts))


if __name__ == "__main__":
    main()
