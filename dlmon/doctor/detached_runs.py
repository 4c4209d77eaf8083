"""Say what would end a run that was started with `--detach`, and how to keep it.

A detached run has left its terminal, so that closing it ends nothing. What still ends it is whoever
keeps account of all processes: a batch system, the container, the login manager.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dlmon.doctor.finding import Finding
from dlmon.host import is_container, is_wsl

# The variable that holds the job's id, and one that only this batch system sets.
_BATCH_SYSTEMS = (
    ("Slurm", "SLURM_JOB_ID", "SLURM_JOB_ID"),
    ("PBS", "PBS_JOBID", "PBS_JOBID"),
    ("LSF", "LSB_JOBID", "LSB_JOBID"),
    ("Grid Engine", "JOB_ID", "SGE_O_WORKDIR"),
)


def what_ends_runs(
    root: Path, environment: Mapping[str, str], user: str | None = None
) -> Iterator[Finding]:
    """Yield what would end a detached run; one line to say so if it is nothing.

    Args:
        root: where /proc, /run and /var are.
        environment: the environment variables that dlmon was started with.
        user: who runs it; the user of this process by default.
    """
    found = False
    for text, step in _ends(root, environment, user or _user()):
        found = True
        yield Finding("detached runs", "warning", f"A detached run ends {text}.", step)
    if not found:
        text = "A detached run continues when you close the terminal and log out"
        yield Finding("detached runs", "ok", text)


def _ends(root: Path, environment: Mapping[str, str], user: str) -> Iterator[tuple[str, str]]:
    """Yield when a detached run ends, and what to do about it."""
    jobs = [
        f"{system} job {environment[job][:40]}"
        for system, job, sign in _BATCH_SYSTEMS
        if environment.get(job) and environment.get(sign)
    ]
    for job in jobs:
        step = "Request enough time, and run it without --detach in the job script."
        yield f"with this {job}", step
    if is_wsl(root):
        step = "Keep a window of this distribution open until the run is over."
        yield "soon after the last window of this WSL closes", step
    elif is_container(root, environment):
        step = "Keep the container, and keep the logs in a folder outside of it (--log-dir)."
        yield "when this container does", step
    elif not jobs and _ends_with_login(root, user):
        yield "once you have logged out everywhere", "loginctl enable-linger"


def _ends_with_login(root: Path, user: str) -> bool:
    """Return whether this runs under the user's manager, which ends with the last session.

    It does not where the user lingers (loginctl(1)).
    """
    try:
        group = (root / "proc/self/cgroup").read_text("utf-8", "replace")
    except OSError:
        return False
    of_manager = re.search(r"/user@\d+\.service(/|$)", group, re.MULTILINE)
    lingers = user and (root / "var/lib/systemd/linger" / user).exists()
    return of_manager is not None and not lingers


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a container that nobody named
        return ""
