"""Copy a session's log from the disk of its node: `python -m dlmon.remote.node_copy JOB LOG`.

Nothing is copied if the node sees the same folder as this host. The program ends when its stdin
does, when the session is over, or when the node can't be reached any more.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

from dlmon.log.directory import NoSuchLog
from dlmon.log.folder import LogError, id_of
from dlmon.log.submitted import read_submitted, write_submitted
from dlmon.records import Status
from dlmon.remote.connection import Connection, connected
from dlmon.remote.session_follower import LogCopy, find_remote
from dlmon.remote.ssh import HostRefusal, SshError
from dlmon.slurm.commands import SlurmError, run_slurm
from dlmon.slurm.queue import host_names, read_job
from dlmon.slurm.step import job_node, step_command
from dlmon.slurm.submit import SCRIPT_NAME
from dlmon.system.private_files import make_private_folder

POLL_S = 0.5
LOST_POLLS = 20
_UNSEEN = b"unseen"


def node_with_own_disk(job: str, log: Path) -> str | None:
    """Return the node that writes a job's log to a disk of its own; None if we see the disk too.

    Raises:
        SlurmError: Slurm or the node does not answer.
    """
    queued, submitted = read_job(job), read_submitted(log)
    if queued is None or submitted is None or not queued.node_list:
        return None
    node = host_names(queued.node_list)[0]
    root = log.parent.name.removesuffix(f"-r{submitted.restart}" if submitted.restart else "")
    # The submitting host wrote the script, so the node has it only if they share the folder.
    script = log.parent.with_name(root) / SCRIPT_NAME
    words = ["sh", "-c", f'[ -e "$1" ] || echo {_UNSEEN.decode()}', "sh", str(script)]
    return node if run_slurm([*step_command(job, node), *words]).strip() == _UNSEEN else None


async def copy_log(job: str, node: str, log: Path) -> None:
    """Copy the log as it grows, until its session is over or its node can't be reached.

    Raises:
        LogError: the copy can't be written.
        SshError: the node can't be reached.
    """
    log_dir = str(log.parent.parent)
    async with connected(job_node(job, node)) as connection:
        while True:
            try:
                listed = await find_remote(connection, id_of(log), log_dir)
                break
            except (NoSuchLog, HostRefusal):
                # The supervisor has yet to begin the log.
                await asyncio.sleep(POLL_S)
        copy = LogCopy(connection, listed, log_dir, log.parent)
        copy.start()
        try:
            await _wait_for_end(connection, copy)
        finally:
            copy.close()


async def _wait_for_end(connection: Connection, copy: LogCopy) -> None:
    lost_polls = 0
    while (
        copy.status in (None, Status.RUNNING) and copy.problem is None and lost_polls < LOST_POLLS
    ):
        lost_polls = 0 if connection.is_up else lost_polls + 1
        await asyncio.sleep(POLL_S)


def main() -> None:
    """Copy the log that the arguments name."""
    job, log = sys.argv[1], Path(sys.argv[2])

    def end_with_stdin() -> None:
        while os.read(0, 1024):
            pass
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        node, submitted = node_with_own_disk(job, log), read_submitted(log)
        if node is not None and submitted is not None:
            make_private_folder(log.parent)
            write_submitted(log, replace(submitted, on_node=node))
            asyncio.run(copy_log(job, node, log))
    except (LogError, OSError, SlurmError, SshError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
