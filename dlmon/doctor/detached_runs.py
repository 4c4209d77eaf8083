"""Say what would end a run that was started with `--detach`, and how to keep it.

A detached run has left its terminal, so that closing it ends nothing. What
still ends it is whoever keeps account of all processes: a batch system, the
container, the login manager.
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
_LONGEST_FILE = 1 << 20
# The variable that holds the job's id, and one that only this batch system sets.
_BATCH_SYSTEMS = (
    ("Slurm", "SLURM_JOB_ID", "SLURM_JOB_ID"),
    ("PBS", "PBS_JOBID", "PBS_JOBID"),
    ("LSF", "LSB_JOBID", "LSB_JOBID"),
    ("Grid Engine", "JOB_ID", "SGE_O_WORKDIR"),
)
# A login to the job's machine by ssh has no such variable, but the job's control group.
_SLURM_GROUP = re.compile(r"slurm.*/job_(\d+)(/|$)")
_SETTING = re.compile(r"^[ \t]*(#?)[ \t]*KillUserProcesses[ \t]*=[ \t]*(\w+)", re.MULTILINE)
_YES = ("1", "yes", "y", "true", "t", "on")


def what_ends_runs(
    root: Path, environment: Mapping[str, str], user: str | None = None
) -> Iterator[Finding]:
    """Yield what would end a detached run; one line to say so if it is nothing.

    Args:
        root: where /etc, /proc, /run, /usr and /var are.
        environment: the environment variables that dlmon was started with.
        user: who runs it; the user of this process by default.
    """
    user = user or _user()
    group = _control_group(root)
    job = _batch_job(environment, group)
    found = [finding for finding in (job, _host(root, environment)) if finding]
    if job is None and (root / "run/systemd/system").is_dir():
        found += _login(root, group, user)
    yield from found or [
        Finding(TOPIC, "ok", "A detached run continues when you close the terminal and log out")
    ]


def _batch_job(environment: Mapping[str, str], group: str | None) -> Finding | None:
    """Batch systems end every process of a job with the job, also those that left its shell."""
    jobs = [
        (system, environment[job])
        for system, job, sign in _BATCH_SYSTEMS
        if environment.get(job) and environment.get(sign)
    ]
    if not jobs and (slurm := _SLURM_GROUP.search(group or "")):
        jobs = [("Slurm", slurm[1])]
    if not jobs:
        return None
    system, number = jobs[0]
    text = f"This is {system} job {number[:40]}: a detached run ends with the job."
    step = (
        "Request enough time for the run, and run it without --detach in the job script: "
        "the job ends when the script does."
    )
    return Finding(TOPIC, "warning", text, step)


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


def _login(root: Path, group: str | None, user: str) -> Iterator[Finding]:
    """Judge by where in systemd's tree this process is, since a run stays there.

    A session's scope is stopped at logout where KillUserProcesses says so, and
    lingering doesn't change that; what runs under user@UID.service ends with
    the user's last session, unless the user lingers (logind.conf(5),
    loginctl(1), and the example in systemd-run(1)).
    """
    if group is not None and re.search(r"/user@\d+\.service(/|$)", group):
        if not _lingers(root, user):
            text = (
                "A detached run ends once you have logged out everywhere: this terminal belongs "
                "to your systemd user manager, which ends then."
            )
            yield Finding(TOPIC, "warning", text, "loginctl enable-linger")
        return
    if group is not None and not re.search(r"/session-[^/]+\.scope(/|$)", group):
        return
    ends, why = _ends_at_logout(root)
    # logind leaves root's processes alone.
    if ends is not False and user != "root":
        does = "ends" if ends else "may end"
        yield Finding(TOPIC, "warning", f"Logging out {does} a detached run: {why}.", KEEP_STEP)


def _ends_at_logout(root: Path) -> tuple[bool | None, str]:
    """Return whether logind stops a session's processes at logout, and by which setting.

    The drop-ins decide after the first logind.conf that is found. What holds where nothing is set
    was chosen when systemd was built: yes by systemd itself, no by most distributions, whose
    logind.conf says so in a comment.
    """
    folders = [
        root / name / "systemd" for name in ("etc", "run", "usr/local/lib", "usr/lib", "lib")
    ]
    mains = [path for folder in folders if (path := folder / "logind.conf").is_file()]
    drop_ins = {
        path.name: path
        for folder in reversed(folders)
        for path in folder.glob("logind.conf.d/*.conf")
    }
    files = [*mains[:1], *(drop_ins[name] for name in sorted(drop_ins))]
    found = [match.groups() for path in files for match in _SETTING.finditer(_text_of(path))]
    kill = [value for is_comment, value in found if not is_comment][-1:] or [v for _, v in found]
    if not kill:
        return None, "no logind.conf sets KillUserProcesses"
    return kill[0].lower() in _YES, f"KillUserProcesses of logind.conf is {kill[0][:20]}"


def _lingers(root: Path, user: str) -> bool:
    return bool(user) and (root / "var/lib/systemd/linger" / user).exists()


def _control_group(root: Path) -> str | None:
    for line in _text_of(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0" or controllers == "name=systemd") and path.strip("/"):
            return path
    return None


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return ""


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a container that nobody named
        return ""
