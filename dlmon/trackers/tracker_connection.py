"""The process that talks to a tracker: start it in the right interpreter, and ask it in time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlmon.system.children import SAFE_PATH, die_with_parent

_CLIENT = Path(__file__).with_name("client.py")
_HAS_LIBRARY = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
_LOOK_S = 15.0
_CLOSE_S = 3.0


class TrackerError(Exception):
    """A tracker did not take a message; the text holds no secret.

    Attributes:
        lasts: another try is useless.
    """

    def __init__(self, why: str, lasts: bool = False) -> None:
        super().__init__(why)
        self.lasts = lasts


def python_of_script(command: Sequence[str], directory: str | None, path: str | None) -> str | None:
    """Return the interpreter of a script's command; None if it isn't seen in its first word.

    Either it is that word, or it is named in the first line of that file, as in torchrun.
    """
    program = shutil.which(command[0], path=path) if command else None
    if program is None:
        return None
    program = str(Path(directory or ".", program))
    if Path(program).name.startswith("python"):
        return program
    try:
        with Path(program).open("rb") as file:
            first = file.readline(500)
    except OSError:
        return None
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    return words[0] if words and Path(words[0]).name.startswith("python") else None


def python_with(library: str, pythons: Sequence[str]) -> str | None:
    """Return the first interpreter that has a library; None if none has it."""
    for python in pythons:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [python, "-c", _HAS_LIBRARY, library or "json"]
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LOOK_S,
                env={**os.environ, **SAFE_PATH},
            )
            if done.returncode == 0:
                return python
    return None


class TrackerProcess:
    """A running `client.py`.

    Args:
        python: the interpreter that has the tracker's library.
        directory: its working directory: that of the script, for places that are relative.

    Raises:
        TrackerError: it can't be started.
    """

    def __init__(self, python: str, directory: str | None) -> None:
        try:
            self._process = subprocess.Popen(
                [python, str(_CLIENT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=directory,
                env={**os.environ, **SAFE_PATH, "CUDA_VISIBLE_DEVICES": ""},
                preexec_fn=die_with_parent(os.getpid()),
            )
        except OSError as error:
            raise TrackerError(f"its process can't be started: {error.strerror}") from None

    def ask(self, message: Mapping[str, Any], until_s: float) -> None:
        """Send a message and wait for its answer, until a time of `time.monotonic`.

        Raises:
            TrackerError: it failed, or there was no answer in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise TrackerError("its process has ended") from None
        answer = json.loads(self._line(until_s))
        if "error" in answer:
            raise TrackerError(str(answer["error"]), bool(answer.get("lasts")))

    def _line(self, until_s: float) -> bytes:
        assert self._process.stdout is not None
        fd, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            wait_s = max(0.0, until_s - time.monotonic())
            if not select.select([fd], [], [], wait_s)[0]:
                raise TrackerError("it does not answer")
            data = os.read(fd, 1 << 12)
            if not data:
                raise TrackerError("its process has ended")
            line += data
        return line

    def close(self, wait_s: float = _CLOSE_S) -> None:
        """Let it end within a time, then kill it."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def pythons_of(command: Sequence[str], directory: str | None) -> list[str]:
    """Return the interpreters to look into for a library: the script's, then ours."""
    own = python_of_script(command, directory, os.environ.get("PATH"))
    return [python for python in (own, sys.executable) if python]
