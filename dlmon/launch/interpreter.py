"""Examine another Python interpreter before a workload runs in it (`--python`).

It reports its version and its installed packages without importing them, within a time limit:
the command may be no Python at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata

from dlmon.records import TITLES
from dlmon.records.sanitize import clean
from dlmon.system.children import SAFE_PATH, answer_in, die_with_parent, end_group

OLDEST_PYTHON = (3, 10)
DEADLINE_S = 15.0
_MAX_BYTES = 1 << 16
_NAME_ONE = "name one, such as /path/to/venv/bin/python"
# Some builds of a module have other names on PyPI.
_DISTRIBUTIONS = {
    "tensorflow": (
        *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-macos"),
        *("tf-nightly", "tf-nightly-cpu", "intel-tensorflow"),
    ),
}

# Any Python must run this, so it is valid Python 2. It imports only `sys` before the working
# directory is off the path.
_SCRIPT = """
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import json
answer = {"python": list(sys.version_info[:3]), "executable": sys.executable, "found": {}}
if sys.version_info >= (3, 8):
    import importlib.util
    from importlib import metadata
    for module, names in json.loads(sys.argv[1]).items():
        if importlib.util.find_spec(module) is None:
            continue
        version = None
        for name in names:
            try:
                version = metadata.version(name)
                break
            except metadata.PackageNotFoundError:
                pass
        answer["found"][module] = version
sys.stdout.write(chr(30) + "dlmon " + json.dumps(answer) + chr(10))
"""


class InterpreterError(Exception):
    """Raised if an interpreter can't run workloads; the message is one sentence for a person."""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter that can run workloads.

    The versions of Keras and of the backend are None if no installed package gives them.
    """

    command: str
    python: str
    keras: str | None
    backend: str
    backend_version: str | None


def own_interpreter(backend: str | None) -> Interpreter:
    """Return our own interpreter's versions, without importing the packages.

    Raises:
        InterpreterError: it lacks the backend, or Keras has no backend of that name.
    """
    if backend is not None:
        _check_known(backend)
        if importlib.util.find_spec(backend) is None:
            raise InterpreterError(
                f"{backend} is not installed in {sys.executable}; install it there with: "
                f"{sys.executable} -m pip install {backend}"
            )
    backend = backend or "tensorflow"
    keras, version = map(_installed, _modules(backend).values())
    return Interpreter(sys.executable, platform.python_version(), keras, backend, version)


async def examine_interpreter(
    command: str, backend: str, deadline_s: float = DEADLINE_S
) -> Interpreter:
    """Return the versions of an interpreter; call this on a loop in the main thread.

    Args:
        command: its path, or a name in PATH.
        backend: tensorflow, jax or torch.
        deadline_s: the time limit for its answer.

    Raises:
        InterpreterError: it can't be run, is no Python, is too old, or lacks
            Keras 3 or the backend.
    """
    _check_known(backend)
    command = os.path.expanduser(command)  # noqa: ASYNC240, PTH111
    modules = json.dumps(_modules(backend))
    return _checked(command, backend, await _answer(command, modules, deadline_s))


def _check_known(backend: str) -> None:
    if backend not in TITLES:
        raise InterpreterError(
            f'there is no backend "{clean(backend, 40)}": use tensorflow, jax or torch'
        )


def _modules(backend: str) -> dict[str, tuple[str, ...]]:
    return {"keras": ("keras",), backend: _DISTRIBUTIONS.get(backend, (backend,))}


def _installed(names: tuple[str, ...]) -> str | None:
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


async def _answer(command: str, modules: str, deadline_s: float) -> bytes:
    """Return the interpreter's output; it is killed if it writes too much or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(command, "-c", _SCRIPT, modules),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **SAFE_PATH},
            start_new_session=True,
            preexec_fn=die_with_parent(os.getpid()),
        )
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise InterpreterError(f"{_named(command)} can't be run: {why}; {_NAME_ONE}") from None
    assert process.stdout is not None
    try:
        return await asyncio.wait_for(process.stdout.readexactly(_MAX_BYTES), deadline_s)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.TimeoutError:
        raise InterpreterError(
            f"{_named(command)} did not answer within {deadline_s:g} s; {_NAME_ONE}"
        ) from None
    finally:
        end_group(process.pid, signal.SIGKILL)


def _checked(command: str, backend: str, answer: bytes) -> Interpreter:
    """Return the interpreter that an answer describes.

    Raises:
        InterpreterError: it can't run workloads.
    """
    name = _named(command)
    try:
        fields = answer_in(answer)
        version = tuple(int(number) for number in fields["python"])
        versions: dict[str, str | None] = {
            str(module): None if release is None else clean(str(release), 100)
            for module, release in fields["found"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InterpreterError(f"{name} is not a Python interpreter; {_NAME_ONE}") from None
    python = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        raise InterpreterError(f"{name} is Python {python}; the workloads need 3.10 or newer")
    missing = [module for module in (backend, "keras") if module not in versions]
    if missing:
        titles = " and ".join(TITLES.get(module, "Keras") for module in missing)
        raise InterpreterError(
            f"{name} (Python {python}) has no {titles}; install it there with: "
            f"{name} -m pip install {' '.join(missing)}"
        )
    keras = versions["keras"]
    if keras is not None and keras.partition(".")[0] in ("0", "1", "2"):
        raise InterpreterError(
            f"{name} has Keras {keras}, and the workloads need Keras 3; install it there with: "
            f"{name} -m pip install --upgrade keras"
        )
    return Interpreter(command, python, keras, backend, versions[backend])


def _named(command: str) -> str:
    return clean(command, 300)
