"""Reach a node of a job that runs, from within the job: no other way may be open to it."""

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
_OF_SESSION = re.compile(r"(session|part)(-\d+)?\.jsonl")
# No name of a host has a slash.
_NODE = re.compile(r"(\d+(?:_\d+)?)/(\w[\w.-]*)")


def job_node(job: str, node: str) -> str:
    """Return what a node of a job is called where a host may be named: `12345/n1`."""
    return f"{job}/{node}"


def node_of(name: str) -> tuple[str, str] | None:
    """Return the job and the node that a name means; None where it means a host."""
    found = _NODE.fullmatch(name)
    return None if found is None else (found[1], found[2])


def step_command(job: str, node: str) -> list[str]:
    """Return the words before a command that run it on a node, beside what the job runs there."""
    return [
        *("srun", f"--jobid={job}", "--overlap", "--quiet", "--unbuffered"),
        *("--nodes=1", "--ntasks=1", f"--nodelist={node}", "--export=ALL"),
    ]


def logs_of_job(environment: Mapping[str, str], processes: Path = Path("/proc")) -> list[Path]:
    """Return the logs of the sessions that a job records on this node, wherever they lie.

    Args:
        environment: of a process of the job; where it is of none, nothing is found.
        processes: where the kernel lists those that run here.
    """
    names = ("SLURM_JOB_ID", "SLURMD_NODENAME")
    of_job = {f"{name}={environment.get(name, '')}".encode() for name in names}
    if not environment.get(names[0]):
        return []
    found = set()
    for process in processes.glob("[0-9]*"):
        # It may end, or be another user's.
        with contextlib.suppress(OSError):
            if _SUPERVISOR not in (process / "cmdline").read_bytes():
                continue
            if of_job <= set((process / "environ").read_bytes().split(b"\0")):
                opened = [fd.readlink() for fd in (process / "fd").iterdir()]
                found |= {path.parent for path in opened if _OF_SESSION.fullmatch(path.name)}
    return [log_of(folder, SessionHeader.TYPE) for folder in sorted(found)]


def nodes_of_jobs(jobs: Sequence[str] = ()) -> list[str]:
    """Return the nodes of jobs that run, each as `job_node` writes it.

    Args:
        jobs: their numbers; all jobs of this user where there are none.

    Raises:
        SlurmError: there is no Slurm here, or none of them runs.
    """
    for number in jobs:
        if not re.fullmatch(r"\d+(_\d+)?", number):
            raise SlurmError(f"a job is named by its number, such as 12345, not {number!r}")
    found = read_queue(jobs, mine=not jobs)
    running = [job for job in found if job.state is JobState.RUNNING and job.node_list]
    if not running:
        raise SlurmError(_why_none(jobs, found))
    return [job_node(job.id, node) for job in running for node in host_names(f"{job.node_list}")]


def _why_none(asked: Sequence[str], found: Sequence[QueuedJob]) -> str:
    if not asked:
        return "none of your jobs runs; squeue --me lists those that wait"
    if not found:
        return f"Slurm has no job {', '.join(asked)}"
    job = found[0]
    return f"job {job.id} does not run: it is {str(job.state).replace('_', ' ')}"
