"""Read the states of jobs from Slurm's queue (squeue) and accounts (sacct), and cancel jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.records.words import OpenWord
from dlmon.slurm.commands import ANSWER_S, SlurmError, run_slurm

LONGEST_TEXT = 200
_UNKNOWN = ("", "N/A", "NONE", "(NULL)", "UNKNOWN", "INVALID", "NOT_SET")


class JobState(OpenWord):
    """Slurm's states of a job."""

    PENDING = "pending"
    CONFIGURING = "configuring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    """Its processes are ending; it is over after that, or starts again."""
    REQUEUED = "requeued"
    REQUEUE_HOLD = "requeue_hold"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    BOOT_FAIL = "boot_fail"
    DEADLINE = "deadline"
    UNKNOWN = "unknown"

    @property
    def is_waiting(self) -> bool:
        """True if the job has yet to start, or to start again."""
        return self in _WAITING

    @property
    def is_over(self) -> bool:
        """True if the job has ended for good."""
        return self in _OVER


_WAITING = frozenset(
    (JobState.PENDING, JobState.CONFIGURING, JobState.REQUEUED, JobState.REQUEUE_HOLD)
)
_OVER = frozenset(
    (
        *(JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT),
        *(JobState.OUT_OF_MEMORY, JobState.NODE_FAIL, JobState.PREEMPTED, JobState.BOOT_FAIL),
        JobState.DEADLINE,
    )
)
# States of some versions of Slurm, and the states that mean the same to us.
_SYNONYMS = {
    "requeue_fed": JobState.REQUEUED,
    "special_exit": JobState.REQUEUE_HOLD,
    "launch_failed": JobState.BOOT_FAIL,
    "resizing": JobState.RUNNING,
    "signaling": JobState.RUNNING,
    "stage_out": JobState.COMPLETING,
    "stopped": JobState.SUSPENDED,
    "power_up_node": JobState.CONFIGURING,
}


@record(frozen=True)
class QueuedJob:
    """The state of a job, or of one task of an array; None for what Slurm does not say.

    Attributes:
        id: its number.
        state: its state.
        name: its name.
        reason: why it waits or ended, in Slurm's own word: Priority, Resources, ...
        array_job: the number of the array that it is a task of.
        array_task: the number of the task in its array.
        partition: its partition; several, separated by commas, while it waits.
        start_wall: the time of its start; if it waits, the start that Slurm expects.
        end_wall: the time of its end, or of its time limit.
        time_limit_s: its time limit.
        node_list: its nodes, in Slurm's notation.
        nodes: the number of nodes that it has or asks for.
        exit_code: the exit code of its script.
        signal: the signal that ended its script.
        restarts: how often it was requeued.
        preempted_wall: the time of its preemption.
        tres: its resources, or those it asks for: `cpu=8,mem=64G,node=1,gres/gpu=1`.
        cancelled_by: the user number of who cancelled it; only the accounts have it.
    """

    id: str
    state: JobState
    name: str = ""
    reason: str | None = None
    array_job: str | None = None
    array_task: int | None = None
    partition: str | None = None
    start_wall: float | None = None
    end_wall: float | None = None
    time_limit_s: float | None = None
    node_list: str | None = None
    nodes: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    restarts: int | None = None
    preempted_wall: float | None = None
    tres: str | None = None
    cancelled_by: int | None = None

    @property
    def number(self) -> str:
        """The number that users name it by: `123`, or `123_4` for task 4 of array 123."""
        return self.id if self.array_job is None else f"{self.array_job}_{self.array_task}"


@record(frozen=True)
class Queued:
    """The state of a session that waits for its job.

    Attributes:
        number: the number of the job; None until Slurm has given one.
        job: the state of the job; None if unknown.
        problem: why Slurm does not answer.
        options: the options for Slurm, as typed.
    """

    number: str | None = None
    job: QueuedJob | None = None
    problem: str | None = None
    options: str = ""


# Columns of fixed width; free text comes last, so that it can't be taken for another column.
_COLUMNS = {
    "ArrayJobID": 24,
    "ArrayTaskID": 24,
    "JobID": 24,
    "State": 20,
    "StartTime": 24,
    "EndTime": 24,
    "TimeLimit": 20,
    "NumNodes": 12,
    "RestartCnt": 12,
    "exit_code": 12,
    "PreemptTime": 24,
    "Partition": 200,
    "NodeList": 1000,
    "tres-alloc": 400,
    "Reason": 200,
    "Name": 200,
}
_FORMAT = ",".join(f"{name}:{width}" for name, width in _COLUMNS.items())


def read_queue(
    ids: Iterable[str] = (), *, mine: bool = False, timeout_s: float = ANSWER_S
) -> list[QueuedJob]:
    """Return the jobs in the queue, including those that ended lately.

    Args:
        ids: the numbers of the jobs; none for all jobs.
        mine: read only the jobs of this user.
        timeout_s: the time to wait for an answer.

    Raises:
        SlurmError: there is no Slurm here, or it does not answer.
    """
    words = ["squeue", "--noheader", "--array", "--states=all", f"--Format={_FORMAT}"]
    numbers = sorted(set(ids))
    if numbers:
        words.append(f"--jobs={','.join(numbers)}")
    if mine:
        words.append("--me")
    try:
        printed = run_slurm(words, timeout_s)
    except SlurmError as error:
        # Slurm forgets a job some minutes after its end.
        if numbers and "Invalid job id" in str(error):
            return []
        raise
    return parse_queue(printed)


def parse_queue(printed: bytes) -> list[QueuedJob]:
    """Return the jobs that squeue printed in our format; skip lines that are no job."""
    jobs = []
    for line in printed.splitlines():
        texts, begin = dict[str, str](), 0
        for name, width in _COLUMNS.items():
            text = line[begin : begin + width].decode("utf-8", "replace")
            texts[name], begin = clean(text.strip(), LONGEST_TEXT * 5), begin + width
        # A name may contain a line break.
        if texts["JobID"].isdigit() and texts["State"]:
            jobs.append(_job_of(texts))
    return jobs


def _job_of(texts: dict[str, str]) -> QueuedJob:
    task = number_of(texts["ArrayTaskID"])
    code, signal = _exit_of(texts["exit_code"])
    state = state_of(texts["State"])
    return QueuedJob(
        id=texts["JobID"],
        state=state,
        name=clean(texts["Name"], LONGEST_TEXT),
        reason=_word(texts["Reason"]),
        array_job=None if task is None else texts["ArrayJobID"],
        array_task=task,
        partition=_word(texts["Partition"]),
        start_wall=_wall(texts["StartTime"]),
        end_wall=_wall(texts["EndTime"]),
        time_limit_s=duration_s(texts["TimeLimit"]),
        node_list=_word(texts["NodeList"]),
        nodes=number_of(texts["NumNodes"]),
        exit_code=code if state.is_over else None,
        signal=signal if state.is_over else None,
        restarts=number_of(texts["RestartCnt"]),
        preempted_wall=_wall(texts["PreemptTime"]),
        tres=_word(texts["tres-alloc"]),
    )


def state_of(text: str) -> JobState:
    """Return the state that Slurm writes as `CANCELLED by 1000`, for example."""
    words = text.split()
    word = words[0].rstrip("+").lower() if words else ""
    return _SYNONYMS.get(word) or JobState(word)


def duration_s(text: str) -> float | None:
    """Return the seconds of a time limit as Slurm writes or reads it; None if there is no limit.

    `2-12:30:00` has days, `1-12` is a day and 12 hours, `12:30` is minutes and seconds, and `12` is
    minutes.
    """
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,7})(?::(\d{1,2}))?(?::(\d{1,2}))?", text)
    if match is None:
        return None
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is None and len(numbers) < 3:
        numbers.insert(0, 0)
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)


# Columns of sacct, and the names of the same columns in squeue.
_ACCOUNT_FORMAT = "JobID,State,ExitCode,Start,End,Timelimit,NodeList,Reason"
_ACCOUNT_COLUMNS = (
    *("JobID", "State", "exit_code", "StartTime"),
    *("EndTime", "TimeLimit", "NodeList", "Reason"),
)


def read_accounts(job: str) -> QueuedJob | None:
    """Return the state of job 123 or 123_4 from the site's accounts; None if they lack it."""
    words = [
        *("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}"),
        f"--format={_ACCOUNT_FORMAT}",
    ]
    try:
        printed = run_slurm(words)
    except SlurmError:
        return None
    # A requeued job has a line for each start: the last is the newest.
    for line in reversed(printed.decode("utf-8", "replace").splitlines()):
        texts = [clean(text.strip(), LONGEST_TEXT) for text in line.split("|")]
        if len(texts) == len(_ACCOUNT_COLUMNS):
            return _job_of_accounts(dict(zip(_ACCOUNT_COLUMNS, texts, strict=True)))
    return None


def _job_of_accounts(texts: dict[str, str]) -> QueuedJob:
    array, _, task = texts["JobID"].partition("_")
    columns = dict.fromkeys(_COLUMNS, "") | texts
    job = _job_of(columns | {"ArrayJobID": array, "ArrayTaskID": task})
    user = re.fullmatch(r"CANCELLED by (\d+)", texts["State"])
    return job if user is None else replace(job, cancelled_by=int(user[1]))


def read_job(job: str) -> QueuedJob | None:
    """Return the state of a job from the queue, else from the accounts; None if neither has it.

    Raises:
        SlurmError: there is no Slurm here, or it does not answer.
    """
    queued = next(iter(read_queue([job])), None)
    if queued is not None and queued.state is not JobState.CANCELLED:
        return queued
    account = read_accounts(job)
    if queued is None or account is None:
        return queued or account
    return replace(queued, cancelled_by=account.cancelled_by)


def host_names(node_list: str) -> list[str]:
    """Return the nodes of a list such as `n[1-4,7]`.

    Raises:
        SlurmError: there is no Slurm here, or this is not a list of nodes.
    """
    printed = run_slurm(["scontrol", "show", "hostnames", node_list])
    return [clean(name, LONGEST_TEXT) for name in printed.decode("utf-8", "replace").split()]


def partitions() -> list[str]:
    """Return the names of the partitions, the default one first.

    Raises:
        SlurmError: there is no Slurm here, or it does not answer.
    """
    printed = run_slurm(["sinfo", "--noheader", "--format=%P"], timeout_s=5.0)
    names = dict.fromkeys(printed.decode("utf-8", "replace").split())
    by_default = sorted(names, key=lambda name: not name.endswith("*"))
    return [clean(name.rstrip("*"), LONGEST_TEXT) for name in by_default]


def cancel(job: str, signal: str | None = None) -> None:
    """Cancel a job or, if a signal is named, only send the signal to its script.

    Args:
        job: its number.
        signal: the name of the signal, such as USR2.

    Raises:
        SlurmError: there is no Slurm here, or it refuses.
    """
    options = [] if signal is None else ["--batch", f"--signal={signal}"]
    run_slurm(["scancel", *options, job])


def _word(text: str) -> str | None:
    return None if text.upper() in _UNKNOWN else text


def number_of(text: str | None) -> int | None:
    """Return the number that Slurm wrote; None if it is not a number or absurdly long."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _wall(text: str) -> float | None:
    number = number_of(text)
    # Some versions write 0 for an unknown time.
    return float(number) if number else None


def _exit_of(text: str) -> tuple[int | None, int | None]:
    """Return the exit code and the signal from `0:9`.

    Some versions write one number without a colon, which may be either.
    """
    code, _, signal = text.partition(":")
    return (number_of(code), number_of(signal) or None) if ":" in text else (None, None)
