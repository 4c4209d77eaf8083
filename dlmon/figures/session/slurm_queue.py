"""The state of a Slurm job in the queue, and its use of what it asked for, as text."""

from __future__ import annotations

import time

from dlmon.figures import units
from dlmon.records import NUMBERS_PER_PART, SlurmJob
from dlmon.session.session import Session
from dlmon.slurm.queue import JobState, QueuedJob
from dlmon.slurm.usage import JobUsage, fitting_options

_DAY_S = 86_400.0
BUSY_PCT = 1.0
"""A GPU that was less busy counts as unused."""
_STATES = {
    JobState.PENDING: "queued",
    JobState.REQUEUED: "queued again",
    JobState.REQUEUE_HOLD: "held in the queue",
    JobState.CONFIGURING: "its node is being prepared",
    JobState.RUNNING: "its node starts it",
    JobState.COMPLETING: "ending",
}


def queued_text(
    number: str | None, job: QueuedJob | None, problem: str | None, now_wall: float
) -> str:
    """Return the state of a job without a session: why it waits, and until when.

    Args:
        number: its number; None before Slurm gives it one.
        job: the job in the queue; None if unknown.
        problem: why Slurm doesn't answer.
        now_wall: the time now.
    """
    if number is None:
        return "being submitted to Slurm"
    if job is None:
        return f"job {number}: {problem}" if problem else f"job {number} was submitted"
    state = _STATES.get(job.state, str(job.state))
    text = f"job {number} is {state}" if job.state == JobState.PENDING else f"job {number}: {state}"
    if job.state.is_waiting and job.reason:
        text += f" ({job.reason})"
    if job.state.is_waiting and job.start_wall is not None:
        text += f", Slurm expects it to start {start_text(job.start_wall, now_wall)}"
    return text


def job_usage(session: Session, wall_s: float) -> JobUsage:
    """Return the resources that a session used of its job, as far as they were measured."""
    job = session.header.slurm
    nodes = [session.machine, *(node.history for node in session.nodes.values())]
    of_cpus = [node.run_cpu_pct.mean for node in nodes]
    of_memory = [node.run_memory_peak_mib for node in nodes]
    node_count = 1 if job is None else job.nodes or 1
    parts = {number // NUMBERS_PER_PART for number in (0, *session.trainers.known)}
    # If several tasks share a node, only the first is sampled.
    is_whole = len(nodes) == node_count and (node_count == 1 or len(parts) == node_count)
    cpus = [pct / 100 for pct in of_cpus if pct is not None and is_whole]
    memory = [float(mib) for mib in of_memory if mib is not None and is_whole]
    means = [s.mean for node in nodes for s in node.gpu_utilization_pct.values()]
    busy = sorted((mean for mean in means if mean is not None), reverse=True)
    # Without control groups a job sees the GPUs of other jobs, too.
    ours = busy[: job.gpus] if job is not None and job.gpus is not None else busy
    return JobUsage(
        cpus=sum(cpus) if len(cpus) == len(nodes) else None,
        memory_mib=sum(memory) if len(memory) == len(nodes) else None,
        most_cpus=max(cpus, default=None),
        most_memory_mib=max(memory, default=None),
        gpu_busy_pct=sum(ours) / len(ours) if ours else None,
        gpus=sum(mean >= BUSY_PCT for mean in ours) if ours else None,
        time_s=wall_s,
    )


def usage_text(job: SlurmJob, used: JobUsage) -> str:
    """Return the resources asked for and used: `8 CPUs, used 2.1; 64 GiB, used 9`."""
    parts = []
    if job.cpus is not None:
        cpus = "" if used.cpus is None else f", used {used.cpus:.1f}"
        parts.append(units.counted(job.cpus, "CPU") + cpus)
    if job.memory_mib is not None:
        text, mib = _memory(job.memory_mib), used.memory_mib
        if mib is not None:
            text += f", used {units.gibibytes(mib) if mib >= 1023.5 else _memory(mib)}"
        parts.append(text)
    if job.gpus:
        pct = used.gpu_busy_pct
        busy = "" if pct is None else f", busy {units.percent(pct)}"
        parts.append(units.counted(job.gpus, "GPU") + busy)
    if job.time_limit_s is not None:
        took = "" if used.time_s is None else f", took {units.clock(used.time_s)}"
        parts.append(units.clock(job.time_limit_s) + took)
    return "; ".join(parts)


def _memory(mib: float) -> str:
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.4g} GiB"


def slurm_rows(session: Session, wall_s: float | None) -> list[tuple[str, str]]:
    """Return the rows of a summary about the job of a session, and its usage once it is over."""
    job = session.header.slurm
    if job is None:
        return []
    nodes = f" on {job.node_list}" if job.node_list else ""
    partition = f", partition {job.partition}" if job.partition else ""
    rows = [("Slurm", f"job {job.job}{nodes}{partition}")]
    if wall_s is None:
        return rows
    used = job_usage(session, wall_s)
    text, fitting = usage_text(job, used), fitting_options(job, used)
    rows += [("asked for", text)] if text else []
    rows += [("would have fitted", f"#SBATCH {' '.join(fitting)}")] if fitting else []
    return rows


def start_text(wall: float, now_wall: float) -> str:
    """Return the time of a start: now, `at 14:05`, or a day and a time."""
    if wall <= now_wall + 5:
        return "now"
    if wall - now_wall < _DAY_S:
        return f"at {time.strftime('%H:%M', time.localtime(wall))}"
    return f"on {units.day_and_time(wall)}"
