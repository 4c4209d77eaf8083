"""What `make dist` has built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def built():
    """Return the one file in dist/ with a suffix."""

    def only(suffix):
        (path,) = (ROOT / "dist").glob(f"dlmon*{suffix}")
        return path

    return only


@pytest.fixture
def run(tmp_path):
    """Run a command in an empty folder with a home of its own; return what it prints."""
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    others = ("XDG_", "PYTHON", "VIRTUAL_ENV", "DLMON_", "PEX_", "PIPX_", "UV")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(others)}
    environment = kept | {"HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}

    def call(*command, **changes):
        ended = subprocess.run(
            [str(word) for word in command],
            cwd=home / "work",
            env=environment | changes,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    call.home = home
    return call
