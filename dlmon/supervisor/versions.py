"""The versions that a session records in its header."""

from __future__ import annotations

import platform
from typing import Any

import dlmon
from dlmon.launch.interpreter import Interpreter, installed_versions


def own_versions() -> dict[str, Any]:
    """Return the versions of what always runs: of Python and of dlmon."""
    return {"python": platform.python_version(), "dlmon": dlmon.__version__}


def versions_of_workload(
    backend: str, interpreter: Interpreter | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the workload will run with, and why of what isn't known; nothing is imported."""
    if interpreter is None:
        python, found = platform.python_version(), installed_versions(backend)
        place = "this Python"
    else:
        python, place = interpreter.python, interpreter.command
        found = {"keras": interpreter.keras, backend: interpreter.backend_version}
    versions: dict[str, Any] = {
        "python": python,
        "backend": backend,
        "dlmon": dlmon.__version__,
        "keras": found["keras"],
        "backend_version": found[backend],
    }
    why = {
        f"versions.{key}": f"no package in {place} gives the version of {module}"
        for key, module in (("keras", "keras"), ("backend_version", backend))
        if found[module] is None
    }
    return versions, why
