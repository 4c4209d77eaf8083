"""Run commands on the nodes of a running job, with srun: the nodes may allow no ssh."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlmon.log.folder import log_of
from dlmon.records import SessionHeader
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob, host_names, read_queue

_SUPERVISOR = b"dlmon.supervisor"
_LOG_FILE = re.compile(r"(session|part)(-\d+)?\.jsonl")
# The slash tells it from the name of a host.
_NODE = re.compile(r"(\d+(?:_\d+)?)/(\w[\w.-]*)")


def job_node(job: str, node: str) -> str:
    """Return the host name that stands for a node of a job, such as `12345/n1`."""
    return f"{job}/{node}"


def node_of(name: str) -> tuple[str, str] | None:
    """Return the job and node that a host name stands for; None if it names an ordinary host."""
    match = _NODE.fullmatch(name)
    return None if match is None else (match[1], match[2])


def step_command(job: str, node: str) -> list[str]:
    """Return the srun words that run a command on a node, beside the job's own processes."""
    return [
        *("srun", f"--jobid={job}", "--overlap", "--quiet", "--unbuffered"),
        *("--nodes=1", "--ntasks=1", f"--nodelist={node}", "--export=ALL"),
    ]


def logs_of_job(environment: Mapping[str, str], processes: Path = Path("/proc")) -> list[Path]:
    """Return the logs of the sessions that a job records on this node, in any directory.

    Args:
        environment: that of a process of the job; outside a job there are no logs.
        processes: the kernel's directory of processes.
    """
    names = ("SLURM_JOB_ID", "SLURMD_NODENAME")
    of_job = {f"{name}={environment.get(name, '')}".encode() for name in names}
    if not environment.get(names[0]):
        return []
    folders = set()
    for process in processes.glob("[0-9]*"):
        # The process may end, or be another user's.
        with contextlib.suppress(OSError):
            if _SUPERVISOR not in (process / "cmdline").read_bytes():
                continue
            if of_job <= set((process / "environ").read_bytes().split(b"\0")):
                opened = [fd.readlink() for fd in (process / "fd").iterdir()]
                folders |= {path.parent for path in opened if _LOG_FILE.fullmatch(path.name)}
    return [log_of(folder, SessionHeader.TYPE) for folder in sorted(folders)]


def nodes_of_jobs(jobs: Sequence[str] = ()) -> list[str]:
    """Return the nodes of running jobs, each as `job_node` writes it.

    Args:
        jobs: their numbers; none for all jobs of this user.

    Raises:
        SlurmError: there is no Slurm here, or none of the jobs runs.
    """
    for number in jobs:
        if not re.fullmatch(r"\d+(_\d+)?", number):
            raise SlurmError(f"a job is named by its number, such as 12345, not {number!r}")
    queued = read_queue(jobs, mine=not jobs)
    running = [job for job in queued if job.state is JobState.RUNNING and job.node_list]
    if not running:
        raise SlurmError(_why_none_runs(jobs, queued))
    return [job_node(job.id, node) for job in running for node in host_names(f"{job.node_list}")]


def _why_none_runs(numbers: Sequence[str], queued: Sequence[QueuedJob]) -> str:
    if not numbers:
        return "none of your jobs runs; squeue --me lists those that wait"
    if not queued:
        return f"Slurm has no job {', '.join(numbers)}"
    job = queued[0]
    return f"job {job.id} does not run: it is {str(job.state).replace('_', ' ')}"
