"""Start a supervisor and hold its lifeline."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from dlmon.exit_codes import FAILED
from dlmon.protocol.job import Job, Refused, Started
from dlmon.records import Record, RecordError, decode
from dlmon.records.sanitize import clean
from dlmon.system.children import python_command

_ENDED_EARLY = "the process that was to record the session ended before it could start it"


@dataclass
class Lifeline:
    """The pipes to a supervisor: its answer, then the lifeline that keeps its session running.

    `job` is what it was started for. `answers` brings its answer and what its log can't take,
    `errors` what its process writes should it die.
    """

    job: Job
    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    errors: IO[bytes]
    _answered: bool = False
    _unfinished: bytes = b""

    def answer(self) -> Started | Refused:
        """Wait for the supervisor's answer: the session's id and log, or why there is none."""
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
        """Return the records that the supervisor has sent since, which its log could not take."""
        if not self._answered or self.answers.closed:
            return []
        arrived = self._unfinished + (self.answers.read() or b"")
        *lines, self._unfinished = arrived.split(b"\n")
        records = []
        for line in lines:
            # Whatever else it may be, it is no answer of a supervisor of ours.
            with contextlib.suppress(RecordError):
                record = decode(line)
                if record is not None:
                    records.append(record)
        return records

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        # A supervisor that is gone needs no word.
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()

    def release(self) -> None:
        """Let go of the lifeline; without an earlier `detach`, that stops a local session."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        # Before the answer, another thread may be reading it.
        if self._answered:
            self.answers.close()


def launch(job: Job) -> Lifeline:
    """Start a supervisor for `job`; `Lifeline.answer` says whether there is a session.

    It gets the descriptors that the job names, which stay ours to close.
    """
    # No pipe: a process that dies with much to say would wait for us to read it.
    errors = os.fdopen(os.memfd_create("errors"), "w+b")
    # Not its stdout: what Python imports as it starts may print there.
    reading_fd, answer_fd = os.pipe()
    answers = os.fdopen(reading_fd, "rb")
    handed_on = {answer_fd, job.stdin_fd, *(job.copy_fds or ())}
    try:
        process = subprocess.Popen(
            python_command("dlmon.supervisor"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            pass_fds=[fd for fd in handed_on if fd is not None],
            cwd=_existing_directory(),
        )
    finally:
        os.close(answer_fd)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(replace(job, answer_fd=answer_fd).to_line())
        process.stdin.flush()
    return Lifeline(job, process, answers, errors)


def _existing_directory() -> str:
    """Return the working directory, or the root where it was deleted under us."""
    try:
        here = os.getcwd()  # noqa: PTH109 - Path.cwd() raises the same and costs more
    except OSError:
        return "/"
    return here if Path(here).is_dir() else "/"
