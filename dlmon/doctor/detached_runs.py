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

TOPIC = "detached runs"
# Under the user's manager, which enable-linger keeps after the last logout.
KEEP_STEP = (
    "Once: loginctl enable-linger. Then: systemd-run --user --scope dlmon run WORKLOAD --detach"
)
# The variable that holds the job's id, and one that only this batch system sets.
_BATCH_SYSTEMS = (
    ("Slurm", "SLURM_JOB_ID", "SLURM_JOB_ID"),
    ("PBS", "PBS_JOBID", "PBS_JOBID"),
    ("LSF", "LSB_JOBID", "LSB_JOBID"),
    ("Grid Engine", "JOB_ID", "SGE_O_WORKDIR"),
)
_SETTING = re.compile(r"^[ \t]*KillUserProcesses[ \t]*=[ \t]*(\w+)", re.MULTILINE)


def what_ends_runs(
    root: Path, environment: Mapping[str, str], user: str | None = None
) -> Iterator[Finding]:
    """Yield what would end a detached run; one line to say so if it is nothing.

    Args:
        root: where /etc, /proc, /run and /var are.
        environment: the environment variables that dlmon was started with.
        user: who runs it; the user of this process by default.
    """
    job = _batch_job(environment)
    found = [finding for finding in (job, _host(root, environment)) if finding]
    if job is None and (root / "run/systemd/system").is_dir():
        found += _login(root, user or _user())
    yield from found or [
        Finding(TOPIC, "ok", "A detached run continues when you close the terminal and log out")
    ]


def _batch_job(environment: Mapping[str, str]) -> Finding | None:
    """Batch systems end every process of a job with the job, also those that left its shell."""
    for system, job, sign in _BATCH_SYSTEMS:
        if environment.get(job) and environment.get(sign):
            number = environment[job][:40]
            text = f"This is {system} job {number}: a detached run ends with the job."
            step = (
                "Request enough time for the run, and run it without --detach in the job script: "
                "the job ends when the script does."
            )
            return Finding(TOPIC, "warning", text, step)
    return None


def _host(root: Path, environment: Mapping[str, str]) -> Finding | None:
    if is_wsl(root):
        text = (
            "This is WSL: Windows stops it, and a detached run, soon after its last window closes."
        )
        step = "Keep a window of this distribution open until the run is over."
    elif is_container(root, environment):
        text = "This is a container: a detached run ends when the container does."
        step = (
            "Keep the container running until the run is over, and keep the logs in a folder that "
            "is not deleted with it (--log-dir)."
        )
    else:
        return None
    return Finding(TOPIC, "warning", text, step)


def _login(root: Path, user: str) -> Iterator[Finding]:
    """Judge by where in systemd's tree this process is, since a run stays there.

    What runs under user@UID.service ends with the user's last session, unless the user lingers;
    lingering does not change that KillUserProcesses stops a session's scope at logout
    (logind.conf(5), loginctl(1)). logind leaves root's processes alone.
    """
    group = _text_of(root / "proc/self/cgroup")
    if re.search(r"/user@\d+\.service(/|$)", group, re.MULTILINE):
        if not user or not (root / "var/lib/systemd/linger" / user).exists():
            text = (
                "A detached run ends once you have logged out everywhere: this terminal belongs "
                "to your systemd user manager, which ends then."
            )
            yield Finding(TOPIC, "warning", text, "loginctl enable-linger")
    elif re.search(r"/session-[^/]+\.scope(/|$)", group, re.MULTILINE) and user != "root":
        folder = root / "etc/systemd"
        files = [folder / "logind.conf", *sorted(folder.glob("logind.conf.d/*.conf"))]
        values = [value for file in files for value in _SETTING.findall(_text_of(file))]
        if values and values[-1].lower() in ("1", "yes", "y", "true", "t", "on"):
            text = "Logging out ends a detached run: logind.conf sets KillUserProcesses."
            yield Finding(TOPIC, "warning", text, KEEP_STEP)


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a container that nobody named
        return ""
