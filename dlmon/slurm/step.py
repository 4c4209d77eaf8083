"""Reach a node of a job that runs, from within the job: no other way may be open to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob, host_names, read_queue

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
