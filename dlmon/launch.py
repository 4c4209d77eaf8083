"""Start a supervisor and hold its lifeline."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from dlmon.job import Job, Refused, Started, answer_from_line
from dlmon.processes import python_command
from dlmon.sanitize import clean


@dataclass
class Launch:
    """A supervisor that has been started and not yet answered, and later its lifeline."""

    process: subprocess.Popen[bytes]

    def answer(self) -> Started | Refused:
        """Wait for the supervisor's answer: the session's id and log, or why there is none."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        self.process.stdout.close()
        answer = answer_from_line(line)
        if isinstance(answer, Refused):
            last_words = self.process.stderr.read().decode("utf-8", "replace").strip()
            self.process.wait()
            if not line and last_words:
                reason = clean(last_words.splitlines()[-1], 300)
                answer = replace(answer, reason=f"{answer.reason}: {reason}")
            self.release()
        self.process.stderr.close()
        return answer

    def say(self, word: str) -> None:
        """Say `stop` or `detach`."""
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


def launch(job: Job) -> Launch:
    """Start a supervisor for `job`; `Launch.answer` tells whether there is a session."""
    process = subprocess.Popen(
        python_command("dlmon.supervisor"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=_existing_directory(),
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(job.to_line())
        process.stdin.flush()
    return Launch(process)


def _existing_directory() -> str:
    """Return the working directory, or the root where it was deleted under us."""
    try:
        here = os.getcwd()  # noqa: PTH109 - Path.cwd() raises the same and costs more
    except OSError:
        return "/"
    return here if Path(here).is_dir() else "/"
