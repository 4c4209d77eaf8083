"""Run one session: `python -P -m dlmon.supervisor [--submitted FOLDER]`.

stdin brings the job as one line, then the words of the viewer (`detach`, and those of
`dlmon.protocol.stop`); its end without a word stops a session that must not outlive its viewer. A
pipe that the job names carries the answer, one line: the session that was started, or why none was.
Records that the log can't take follow it there, at the end the result.

A Slurm job has no viewer: the supervisor reads the job from the session's FOLDER, writes to stderr
why no session was started, and exits with the exit code of the process that ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NoReturn

from dlmon.log.folder import LogError
from dlmon.protocol.job import Job, Refused, Started
from dlmon.records import Record, encode
from dlmon.slurm.submit_session import SUBMITTED_FLAG, submitted_job
from dlmon.supervisor.supervisor import Supervisor
from dlmon.system.children import become_subreaper
from dlmon.system.this_host import host_name

COPIED_WITHIN_S = 5.0
# A running viewer reads within this time.
SEND_S = 1.0


def main() -> None:
    """Read a job from stdin and run it."""
    # Ignore Ctrl-C until the session handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A write reports these as errors.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if sys.argv[1:2] == [SUBMITTED_FLAG]:
        _run_submitted(Path(sys.argv[2]))
    job = _read_job()
    to_viewer = job.answer_fd
    assert to_viewer is not None
    os.set_blocking(to_viewer, False)
    os.set_inheritable(to_viewer, False)
    asyncio.run(_supervise(job, partial(_answer, to_viewer), partial(_send_to, to_viewer)))


async def _supervise(
    job: Job, answer: Callable[[Started | Refused], None], send: Callable[[Record], bool]
) -> int:
    """Run a session, and return its exit code."""
    if not job.script:
        become_subreaper()
    supervisor = Supervisor(job, answer, send)
    await supervisor.run()
    return supervisor.exit_code


def _run_submitted(folder: Path) -> NoReturn:
    """Run the job in a session's folder, and exit with its exit code."""
    is_shared = folder.is_dir()
    try:
        job = submitted_job(folder, os.environ, sys.stdin.readline)
    except LogError as error:
        sys.exit(f"{host_name()}: {error}")
    answers: list[Started | Refused] = []
    code = asyncio.run(_supervise(job, answers.append, lambda record: True))
    if not is_shared:
        # A viewer that copies the log can reach this node only until the job ends.
        time.sleep(COPIED_WITHIN_S)
    for answer in answers:
        if isinstance(answer, Refused):
            print(answer.reason, file=sys.stderr)
            code = answer.exit_code
    sys.exit(code)


def _read_job() -> Job:
    """Read the job's line from stdin, byte by byte: the bytes after it are words of the viewer."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            break
        line += byte
    return Job.from_line(bytes(line))


def _send_to(fd: int, record: Record) -> bool:
    """Send a record to the viewer; return False if it no longer reads."""
    line = encode(record)
    with contextlib.suppress(BrokenPipeError):
        while line and select.select([], [fd], [], SEND_S)[1]:
            line = line[os.write(fd, line) :]
    return not line


def _answer(fd: int, answer: Started | Refused) -> None:
    """Answer the viewer and close stderr: the session must go on if the viewer ends."""
    with contextlib.suppress(BrokenPipeError):
        os.write(fd, json.dumps(asdict(answer)).encode() + b"\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)


if __name__ == "__main__":
    main()
