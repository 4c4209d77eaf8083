"""A small NVIDIA driver library of our own, for child processes to load.

`build` compiles it once; a `FakeDriver` steers one child's copy by a text file
whose lines `fake_nvml.c` explains.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

SOURCE = Path(__file__).parent / "fake_nvml.c"


def build(folder: Path) -> Path:
    """Compile `libnvidia-ml.so.1` into `folder`, and return the folder."""
    library = folder / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", library, SOURCE], check=True)
    return folder


class FakeDriver:
    """One driver's behaviour, which `says` changes while a process is using it."""

    def __init__(self, library_folder: Path, folder: Path) -> None:
        self._library_folder = library_folder
        self._state = folder / "driver-state"
        self._calls = folder / "driver-calls"
        self.says("gpus 1")

    def says(self, *lines: str) -> None:
        """Behave as `lines` say from the next call on."""
        new = self._state.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self._state)

    def calls(self) -> list[str]:
        """Return every call so far, as "FUNCTION" or "FUNCTION GPU"."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    @contextmanager
    def calls_as_they_come(self) -> Iterator[TextIO]:
        """Let a test follow the calls, made from now on, as a file that has no end."""
        os.mkfifo(self._calls)
        # Opened for writing too, so that it does not end between two calls.
        with os.fdopen(os.open(self._calls, os.O_RDWR)) as calls:
            yield calls

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that is to use this driver."""
        return os.environ | {
            "LD_LIBRARY_PATH": str(self._library_folder),
            "FAKE_NVML_STATE": str(self._state),
            "FAKE_NVML_CALLS": str(self._calls),
        }
