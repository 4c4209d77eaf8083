"""The system's ssh, by which a person's own config, keys, agent and known hosts hold.

Or, to a node of a job, Slurm's srun.
"""

from __future__ import annotations

import base64
import re
import shutil
import zlib
from pathlib import Path

from dlmon.exit_codes import UNREACHABLE, WRONG_ARGUMENTS
from dlmon.launch import bootstrap
from dlmon.records.sanitize import clean
from dlmon.remote.host_names import check_host

CONNECT_S = 15

# Nothing that a login shell of any kind (sh, csh, fish) would read as its own stands in this.
_LOADER = (
    "import os,sys,zlib,base64;"
    'line=b"".join(iter(lambda:os.read(0,1)or sys.exit(1),bytes([10])));'
    "SOURCE=zlib.decompress(base64.b64decode(line)).decode();"
    "exec(SOURCE)"
)
_OPTIONS = (
    "BatchMode=yes",
    "ControlMaster=no",
    "Compression=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    # What a person may have set for their own sessions: ssh takes no command beside it.
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)

# What ssh prints, and what a person can do about it, as a sentence that begins with the host.
_EXPLANATIONS = (
    (
        re.compile(r"host identification has changed|host key .* has changed", re.I),
        "shows another host key than it did before: find out why, then run ssh {host} once",
    ),
    (
        re.compile(r"host key verification failed|no .* host key is known", re.I),
        "has a host key that is not known yet: run ssh {host} once, and check it",
    ),
    (
        re.compile(r"permission denied|too many authentication failures", re.I),
        "lets nobody in without a password or passphrase here: run ssh-add, or "
        "ssh-copy-id {host}, first",
    ),
    (re.compile(r"could not resolve hostname", re.I), "is not known: no such host name"),
    (re.compile(r"connection refused", re.I), "refuses connections by ssh"),
    (re.compile(r"timed out|timeout", re.I), f"does not answer within {CONNECT_S} s"),
    (re.compile(r"no route to host|network is unreachable", re.I), "can't be reached"),
    (re.compile(r"connection (\S+ )*(closed|reset)|broken pipe", re.I), "closed the connection"),
)
# What srun prints of a job that is over, as long as Slurm knows it, and then.
_ENDED_JOB = re.compile(r"job \d+ has expired|invalid job id", re.I)
# Its exit code says nothing of it.
_NO_PYTHON_BY_CSH = re.compile(r"^(exec|python3): command not found", re.I | re.M)


class SshError(Exception):
    """A host can't be used; the message is one sentence that names it.

    `may_pass` says that a later try may do better; else a person has to do something first.
    """

    exit_code = UNREACHABLE

    def __init__(self, message: str, may_pass: bool = True) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class JobEnded(SshError):
    """The job that a node was reached in is over: no try will do better."""


class RefusedRequest(Exception):
    """A request that a host can't follow: its sentence, and the exit code.

    `permanent` says that it lacks what was asked for, which another try would not change.
    """

    def __init__(
        self, message: str, exit_code: int = WRONG_ARGUMENTS, permanent: bool = False
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.permanent = permanent


def ssh_command(host: str) -> list[str]:
    """Return the command that connects to a host and runs what is sent first on its stdin.

    Raises:
        HostError: what is named can't be a host.
        SshError: there is no ssh here.
    """
    ssh = shutil.which("ssh")
    if ssh is None:
        raise SshError("there is no ssh on this machine: install OpenSSH's client", False)
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return [ssh, "-T", *options, "--", check_host(host), f"exec python3 -c '{_LOADER}'"]


def agent_command(host: str) -> list[str]:
    """Return the command that starts what runs what is sent first on its stdin, on a machine.

    Args:
        host: as ssh knows it; or a node of a job of Slurm's, as `job_node` writes it.

    Raises:
        HostError: what is named can't be a host.
        SshError: there is no ssh here.
    """
    if "/" not in host:
        return ssh_command(host)
    # No name of a host has a slash: it means a node of a job.
    from dlmon.slurm.step import node_of, step_command

    node = node_of(host)
    if node is None:
        return ssh_command(host)
    return [*step_command(*node), "python3", "-c", _LOADER]


def bootstrap_line() -> bytes:
    """Return what `ssh_command` runs, as the line that it waits for."""
    source = Path(bootstrap.__file__).read_bytes()
    return base64.b64encode(zlib.compress(source, 9)) + b"\n"


def explain(host: str, errors: str, exit_code: int | None) -> SshError:
    """Say in a sentence why a connection ended.

    Args:
        host: where to.
        errors: what ssh or srun, or the shell there, wrote to stderr.
        exit_code: ssh's own; None where it was killed here.
    """
    job, is_node, _ = host.partition("/")
    if is_node and _ENDED_JOB.search(errors):
        return JobEnded(f"{host}: job {job} has ended", may_pass=False)
    # Any other code is the command's: what a shell there says is not said by ssh.
    for pattern, words in _EXPLANATIONS if exit_code in (255, None) else ():
        if pattern.search(errors):
            may_pass = "{host}" not in words
            return SshError(f"{host} {words.format(host=host)}", may_pass)
    if exit_code in (126, 127) or _NO_PYTHON_BY_CSH.search(errors):
        why = "has no python3 that a command over ssh can run; dlmon needs Python 3.10 there"
        return SshError(f"{host} {why}", False)
    lines = [clean(line, 200) for line in errors.splitlines() if clean(line).strip()]
    if lines:
        return SshError(f"{host}: {lines[-1].strip().rstrip('.')}")
    if exit_code == 255:
        return SshError(f"{host}: the connection was closed")
    return SshError(f"{host}: dlmon ended there" + ("" if not exit_code else f" ({exit_code})"))
