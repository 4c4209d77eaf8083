"""Start our agent with the system's ssh, so that the user's config, keys and known hosts apply.

On a node of a job, Slurm's srun starts it.
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

# This has no character that a login shell (sh, csh, fish) treats specially.
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
    # The user's config may set this for interactive use, but then ssh rejects a command.
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)

# Patterns in ssh's stderr, and the rest of a sentence that begins with the name of the host.
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
        ": run ssh-add or ssh-copy-id {host} first; it lets nobody in without a password or "
        "passphrase here",
    ),
    (re.compile(r"could not resolve hostname", re.I), "is not known: no such host name"),
    (re.compile(r"connection refused", re.I), "refuses connections by ssh"),
    (re.compile(r"timed out|timeout", re.I), f"does not answer within {CONNECT_S} s"),
    (re.compile(r"no route to host|network is unreachable", re.I), "can't be reached"),
    (re.compile(r"connection (\S+ )*(closed|reset)|broken pipe", re.I), "closed the connection"),
)
# srun's messages for a job that is over, while Slurm still lists it and later.
_ENDED_JOB = re.compile(r"job \d+ has expired|invalid job id", re.I)
# csh exits with 1 in this case.
_NO_PYTHON_BY_CSH = re.compile(r"^(exec|python3): command not found", re.I | re.M)


class SshError(Exception):
    """A host can't be used; the message is one sentence that names it.

    `may_pass` is true if a later attempt may succeed without the user doing anything.
    """

    exit_code = UNREACHABLE

    def __init__(self, message: str, may_pass: bool = True) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class JobEnded(SshError):
    """The job that the node belonged to is over: no attempt will succeed."""


class HostRefusal(Exception):
    """A host refuses a request, for this reason and with this exit code.

    `permanent` is true if the host lacks something, so that it would refuse again.
    """

    def __init__(
        self, message: str, exit_code: int = WRONG_ARGUMENTS, permanent: bool = False
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.permanent = permanent


def ssh_command(host: str) -> list[str]:
    """Return the ssh command that runs, on a host, the program in the first line of its stdin.

    Raises:
        HostError: the name is not that of a host.
        SshError: there is no ssh here.
    """
    ssh = shutil.which("ssh")
    if ssh is None:
        raise SshError("there is no ssh on this machine: install OpenSSH's client", False)
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return [ssh, "-T", *options, "--", check_host(host), f"exec python3 -c '{_LOADER}'"]


def agent_command(host: str) -> list[str]:
    """Return the command that runs, on a host, the program in the first line of its stdin.

    Args:
        host: a name for ssh, or a node of a Slurm job as `job_node` writes it.

    Raises:
        HostError: the name is not that of a host.
        SshError: there is no ssh here.
    """
    if "/" not in host:
        return ssh_command(host)
    from dlmon.slurm.step import node_of, step_command

    node = node_of(host)
    if node is None:
        return ssh_command(host)
    return [*step_command(*node), "python3", "-c", _LOADER]


def bootstrap_line() -> bytes:
    """Return the line that `agent_command` reads: the source of the bootstrap program."""
    source = Path(bootstrap.__file__).read_bytes()
    return base64.b64encode(zlib.compress(source, 9)) + b"\n"


def explain(host: str, errors: str, exit_code: int | None) -> SshError:
    """Return an error that says why a connection ended.

    Args:
        host: the host.
        errors: the stderr of ssh or srun, and of the shell on the host.
        exit_code: the exit code of ssh; None if it still runs.
    """
    job, is_node, _ = host.partition("/")
    if is_node and _ENDED_JOB.search(errors):
        return JobEnded(f"{host}: job {job} has ended", may_pass=False)
    # With any other exit code, the host's shell and not ssh wrote the errors.
    for pattern, words in _EXPLANATIONS if exit_code in (255, None) else ():
        if pattern.search(errors):
            may_pass = "{host}" not in words
            gap = "" if words.startswith(":") else " "
            return SshError(f"{host}{gap}{words.format(host=host)}", may_pass)
    if exit_code in (126, 127) or _NO_PYTHON_BY_CSH.search(errors):
        why = "has no python3 that a command over ssh can run; dlmon needs Python 3.10 there"
        return SshError(f"{host} {why}", False)
    lines = [clean(line, 200) for line in errors.splitlines() if clean(line).strip()]
    if lines:
        return SshError(f"{host}: {lines[-1].strip().rstrip('.')}")
    if exit_code == 255:
        return SshError(f"{host}: the connection was closed")
    return SshError(f"{host}: dlmon ended there" + (f" ({exit_code})" if exit_code else ""))
