"""Report which files of a repository this process has imported.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import os
import sys

from dlmon.records import Imported

VARIABLE = "DLMON_REPOSITORY"
"""The environment variable with the folder whose files are reported; unset for none."""
_MOST_FILES = 2000


class ImportedFiles:
    """Finds the imported files below a folder, by the modules that are loaded."""

    def __init__(self) -> None:
        folder = os.environ.get(VARIABLE)
        self._start = f"{os.path.realpath(folder)}{os.sep}" if folder else None
        self._modules = 0

    def read(self, now: int) -> list[Imported]:
        """Return the files if modules were loaded since the last call, else nothing."""
        # Another thread may import meanwhile.
        modules = list(sys.modules.values()) if self._start is not None else []
        if self._start is None or len(modules) == self._modules:
            return []
        self._modules = len(modules)
        paths = (getattr(module, "__file__", None) for module in modules)
        files = {
            path[len(self._start) :]
            for path in (os.path.realpath(path) for path in paths if isinstance(path, str))
            if path.startswith(self._start)
        }
        return [Imported(now, tuple(sorted(files)[:_MOST_FILES]))]
