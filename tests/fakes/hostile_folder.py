"""A folder that holds a module of every name that a program may import, and interpreters to try."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
# What we import besides the standard library, and our own packages.
OTHER_NAMES = ("dlmon", "keras", "numpy", "platformdirs", "psutil", "pynvml", "rich", "tensorflow")
OTHER_NAMES += ("click", "textual", "tui", "workloads")


class HostileFolder:
    """A folder whose modules write down that they were imported, and fail."""

    def __init__(self, path: Path, python: str = sys.executable) -> None:
        self.path = path
        self._imported = path.with_name(f"{path.name}-imported")
        path.mkdir()
        content = (
            f"open({str(self._imported)!r}, 'a').write(__name__ + chr(10))\n"
            "raise ImportError('from the working directory')\n"
        )
        for name in {*_stdlib_modules(python), *OTHER_NAMES}:
            (path / f"{name}.py").write_text(content)

    @property
    def imported(self) -> list[str]:
        """The names of the modules that were imported from here."""
        return self._imported.read_text().split() if self._imported.exists() else []


def _stdlib_modules(python: str) -> list[str]:
    names = _printed_by(python, "' '.join(sys.stdlib_module_names)")
    assert names
    return names.split()


@cache
def interpreter(version: str) -> str | None:
    """Return an interpreter of a version: from PATH, or installed beside the one that runs us."""
    name = f"python{version}"
    beside = Path(sys.base_prefix).parent.glob(f"*/bin/{name}")
    for path in filter(None, [shutil.which(name), *map(str, sorted(beside))]):
        if _printed_by(path, "'%d.%d' % sys.version_info[:2]") == version:
            return path
    return None


def _printed_by(python: str, expression: str) -> str | None:
    command = [python, "-c", f"import sys; print({expression})"]
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
