"""Start a supervisor, and hold the pipes to it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from dlmon.exit_codes import FAILED
from dlmon.launch.spool import make_spool
from dlmon.protocol.job import Job, Refused, Started
from dlmon.protocol.stop import DETACH, TERMINAL_CLOSED
from dlmon.records import Record, decode_lines
from dlmon.records.sanitize import clean
from dlmon.system.children import python_command
from dlmon.system.this_host import IS_MACOS

_ENDED_EARLY = "the process that was to record the session ended before it could start it"


@dataclass
class SupervisorProcess:
    """The pipes to a supervisor, which keep its session running while they are open.

    `answers` has the supervisor's answer to its `job`, and then the records that its log can't
    take; `errors` is its stderr, in case it dies. A session that `is_detached` goes on without us.
    """

    job: Job
    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    errors: IO[bytes]
    is_detached: bool = False
    _answered: bool = False
    _unfinished: bytes = b""

    def answer(self) -> Started | Refused:
        """Wait for the supervisor's answer: the session's id and log, or why none was started."""
        line = self.answers.readline()
        answer: Started | Refused
        try:
            fields = json.loads(line)
            answer = Started(**fields) if "session" in fields else Refused(**fields)
        except ValueError:
            answer = Refused(_ENDED_EARLY, FAILED)
        os.set_blocking(self.answers.fileno(), False)
        self._answered = True
        if isinstance(answer, Refused):
            self.process.wait()
            self.errors.seek(0)
            errors = self.errors.read().decode("utf-8", "replace").strip()
            if not line and errors:
                reason = clean(errors.splitlines()[-1], 300)
                answer = replace(answer, reason=f"{answer.reason}: {reason}")
            self.release()
        self.errors.close()
        return answer

    def new_records(self) -> list[Record]:
        """Return new records from the supervisor, which its log could not take."""
        if not self._answered or self.answers.closed:
            return []
        arrived = self._unfinished + (self.answers.read() or b"")
        *lines, self._unfinished = arrived.split(b"\n")
        return list(decode_lines(lines))

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        # The supervisor may have ended.
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()

    def detach(self) -> None:
        """Let the session go on without us."""
        self.is_detached = True
        self.send(DETACH)

    def hang_up(self) -> None:
        """Say that our terminal was closed: the session goes on, unless its job ends with it."""
        if self.job.ends_with_terminal:
            self.send(TERMINAL_CLOSED)
        else:
            self.detach()

    def release(self) -> None:
        """Close the pipe, which stops the session unless it was detached before."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        # Until there is an answer, another thread may be reading the pipe.
        if self._answered:
            self.answers.close()


def launch(job: Job) -> SupervisorProcess:
    """Start a supervisor for `job`; `SupervisorProcess.answer` tells whether a session has started.

    The supervisor inherits the job's descriptors; the caller closes its own.
    """
    # With a pipe, a dying process that writes a lot would wait for us to read it.
    errors = os.fdopen(make_spool() if IS_MACOS else os.memfd_create("errors"), "w+b")
    # Modules that Python imports as it starts may print to stdout.
    reading_fd, answer_fd = os.pipe()
    answers = os.fdopen(reading_fd, "rb")
    inherited = {answer_fd, job.stdin_fd, *(job.copy_fds or ())}
    try:
        process = subprocess.Popen(
            python_command("dlmon.supervisor"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            pass_fds=[fd for fd in inherited if fd is not None],
            cwd=_existing_directory(),
        )
    finally:
        os.close(answer_fd)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(replace(job, answer_fd=answer_fd).to_line())
        process.stdin.flush()
    return SupervisorProcess(job, process, answers, errors)


def _existing_directory() -> str:
    """Return the working directory, or the root if it was deleted."""
    try:
        directory = os.getcwd()  # noqa: PTH109 - Path.cwd() raises the same and costs more
    except OSError:
        return "/"
    return directory if Path(directory).is_dir() else "/"
