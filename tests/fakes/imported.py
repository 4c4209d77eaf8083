"""Runs scripts in forks of a Python that has imported what they need: most of what they cost."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

DEADLINE_S = 240.0


class Imported:
    """A Python that has imported modules.

    Args:
        interpreter: its path.
        modules: what it imports.
        environment: of it, and of scripts that are given none.
    """

    def __init__(
        self,
        interpreter: str,
        modules: Sequence[str],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._environment = dict(environment)
        self._folder = Path(tempfile.mkdtemp())
        self._process = subprocess.Popen(
            [interpreter, str(Path(__file__).with_name("forking_python.py")), *modules],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What has come is not looked for in a buffer.
            bufsize=0,
        )

    def run(
        self,
        script: str,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in a fork to its end."""
        return self.start(script, arguments, directory, environment)()

    def start(
        self,
        script: str,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
    ) -> Callable[[], subprocess.CompletedProcess[str]]:
        """Start a script in a fork; return a function that waits for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answers = self._process.stdout
        files = {name: self._folder / name for name in ("stdout", "stderr")}
        asked = {
            "script": script,
            "arguments": arguments,
            "environment": dict(self._environment if environment is None else environment),
            "directory": str(directory),
            **{name: str(file) for name, file in files.items()},
        }
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        pid = int(answers.readline())

        def end() -> subprocess.CompletedProcess[str]:
            has_ended, _, _ = select.select([answers], [], [], DEADLINE_S)
            if not has_ended:
                # It prints at which lines its threads are.
                os.kill(pid, signal.SIGABRT)
            code = int(answers.readline())
            # As they are, also where they are no text.
            printed = {
                name: file.read_bytes().decode(errors="surrogateescape")
                for name, file in files.items()
            }
            for file in files.values():
                file.unlink()
            assert has_ended, f"it did not end in {DEADLINE_S:.0f} s: {printed}"
            return subprocess.CompletedProcess([script, *arguments], code, **printed)

        return end

    def close(self) -> None:
        self._process.communicate()
        self._folder.rmdir()
