"""Start a session for the running process: a notebook, or an interactive interpreter."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dlmon.instrument import reporter
from dlmon.instrument.entry import sitecustomize
from dlmon.launch.bundle import BundleError, script_folder
from dlmon.launch.supervisor_process import launch
from dlmon.log.folder import log_directory
from dlmon.protocol.job import Job, Refused

# The supervisor makes its socket a moment after its answer.
_SOCKET_TIMEOUT_S = 5.0


def start(name: str | None = None, *, interval: float = 1.0) -> str:
    """Record every later `fit` and loop of this process, and return the session's id.

    `dlmon attach last` in a terminal shows it live. The session ends with the process, or by
    `dlmon stop`, which leaves the process alone. Later calls return the same session.

    Args:
        name: the session's name.
        interval: seconds between readings of the hardware.

    Raises:
        RuntimeError: no session could be started; the message says why.
    """
    global _session
    if _session is not None:
        return _session
    if os.environ.get(reporter.SOCKET):
        raise RuntimeError("this process is watched by dlmon exec already")
    folder = Path(tempfile.mkdtemp(prefix="dlmon-"))
    socket_path = folder / "socket"
    job = Job(
        workload="notebook" if "ipykernel" in sys.modules else Path(sys.argv[0] or "python").name,
        command=(sys.executable, *sys.argv[:1]),
        options={"interval": interval, "pcie": False, "price": None},
        log_dir=str(log_directory(None)),
        interval_s=interval,
        outlives_viewer=True,
        environment={reporter.SOCKET: str(socket_path)},
        name=name,
        script=True,
        process=os.getpid(),
        directory=str(Path.cwd()),
    )
    try:
        supervisor = launch(job)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(f"no process can be started: {error.strerror}") from None
    answer = supervisor.answer()
    if isinstance(answer, Refused):
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(answer.reason)
    supervisor.detach()
    supervisor.release()
    deadline = time.monotonic() + _SOCKET_TIMEOUT_S
    while not socket_path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.environ[reporter.SOCKET] = str(socket_path)
    try:
        watch: Callable[[str, str], Any] = sitecustomize.watch
        watcher = watch(str(socket_path), str(script_folder() / "packages"))
        # On import, it looks for the monitor.
        watcher.load_of_dlmon("instrument.reporter")
    except BundleError as error:
        raise RuntimeError(str(error)) from None
    finally:
        # Child processes must not report to this session.
        del os.environ[reporter.SOCKET]
    _session = answer.session
    print(f"dlmon records this process as {_session}; dlmon attach {_session} shows it")
    return _session


_session: str | None = None
