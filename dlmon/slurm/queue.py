"""How jobs stand: in the queue, and in the accounts where a site keeps any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.records.words import OpenWord
from dlmon.slurm.commands import ANSWER_S, SlurmError, run_slurm

LONGEST_TEXT = 200
_UNKNOWN = ("", "N/A", "NONE", "(NULL)", "UNKNOWN", "INVALID", "NOT_SET")


class JobState(OpenWord):
    """What Slurm calls the state of a job."""

    PENDING = "pending"
    CONFIGURING = "configuring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    """It is over, or starts again, and its processes end."""
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
        """Whether it has yet to start, or to start again."""
        return self in _WAITING

    @property
    def is_over(self) -> bool:
        """Whether nothing of it comes any more."""
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
# What older and newer versions call states that mean the same to us.
_SAME = {
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
    """How one job, or one task of an array, stands; what Slurm does not say is None.

    Attributes:
        id: its number.
        state: of a closed set of words.
        name: what its person calls it.
        reason: why it waits, or ended, in Slurm's own word: Priority, Resources, ...
        array_job: the number of the array that it is a task of.
        array_task: which task of it.
        partition: where it runs; several with commas between them while it waits.
        start_wall: when it started; of one that waits, when Slurm expects that.
        end_wall: when it ended, or its time limit ends it.
        time_limit_s: how long it may run.
        node_list: its nodes, as Slurm writes lists of them.
        nodes: how many nodes it has, or asks for.
        exit_code: that of its script.
        signal: what ended its script.
        restarts: how often it was requeued.
        preempted_wall: when another job took its place.
        tres: what it was given, or asks for, such as `cpu=8,mem=64G,node=1,gres/gpu=1`.
        cancelled_by: who cancelled it, by user number; only the accounts know.
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
        """What it is named by: of a task, the number of its array and its own, `123_4`."""
        return self.id if self.array_job is None else f"{self.array_job}_{self.array_task}"


@record(frozen=True)
class Queued:
    """How a session stands that waits for its job.

    Attributes:
        number: that of the job; None where Slurm has not given one yet.
        job: how it stands; None where that isn't known.
        problem: why Slurm does not answer.
        options: what was asked of Slurm, as it was typed.
    """

    number: str | None = None
    job: QueuedJob | None = None
    problem: str | None = None
    options: str = ""


# Columns of a fixed width; foreign text last, so that it can't pass for another column.
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
    """Return the jobs of the queue, those that ended lately too.

    Args:
        ids: these alone; all where there are none.
        mine: only those of this user.
        timeout_s: how long to wait for an answer.

    Raises:
        SlurmError: there is no Slurm here, or it does not answer.
    """
    words = ["squeue", "--noheader", "--array", "--states=all", f"--Format={_FORMAT}"]
    asked = sorted(set(ids))
    if asked:
        words.append(f"--jobs={','.join(asked)}")
    if mine:
        words.append("--me")
    try:
        printed = run_slurm(words, timeout_s)
    except SlurmError as error:
        # It forgets a job some minutes after its end.
        if asked and "Invalid job id" in str(error):
            return []
        raise
    return parse_queue(printed)


def parse_queue(printed: bytes) -> list[QueuedJob]:
    """Return the jobs in what squeue prints in our format; what is no job is passed over."""
    jobs = []
    for line in printed.splitlines():
        texts, begin = dict[str, str](), 0
        for name, width in _COLUMNS.items():
            text = line[begin : begin + width].decode("utf-8", "replace")
            texts[name], begin = clean(text.strip(), LONGEST_TEXT * 5), begin + width
        # A name may hold the end of a line.
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
    """Return the state that a word of Slurm's is, such as `CANCELLED by 1000`."""
    words = text.split()
    word = words[0].rstrip("+").lower() if words else ""
    return _SAME.get(word) or JobState(word)


def duration_s(text: str) -> float | None:
    """Return the seconds of `2-12:30:00`, `30:00` or minutes alone; None where there is no limit.

    Slurm reads the same of an option, where `12:30` is minutes and seconds, and `1-12` hours.
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


_ACCOUNT_COLUMNS = ("JobID", "State", "ExitCode", "Start", "End", "Timelimit", "NodeList", "Reason")


def read_accounts(job: str) -> QueuedJob | None:
    """Return how a job stands by the accounts of its site; None where those don't have it.

    Args:
        job: its number, such as 123 or 123_4.
    """
    words = [
        *("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}"),
        f"--format={','.join(_ACCOUNT_COLUMNS)}",
    ]
    try:
        printed = run_slurm(words)
    except SlurmError:
        return None
    # A job that was requeued has a line each time: the last is the newest.
    for line in reversed(printed.decode("utf-8", "replace").splitlines()):
        texts = [clean(text.strip(), LONGEST_TEXT) for text in line.split("|")]
        if len(texts) == len(_ACCOUNT_COLUMNS):
            return _job_of_accounts(dict(zip(_ACCOUNT_COLUMNS, texts, strict=True)))
    return None


def _job_of_accounts(texts: dict[str, str]) -> QueuedJob:
    code, signal = _exit_of(texts["ExitCode"])
    by = re.fullmatch(r"CANCELLED by (\d+)", texts["State"])
    array, _, task = texts["JobID"].partition("_")
    return QueuedJob(
        id=texts["JobID"],
        state=state_of(texts["State"]),
        reason=_word(texts["Reason"]),
        array_job=array if task else None,
        array_task=number_of(task),
        start_wall=_wall(texts["Start"]),
        end_wall=_wall(texts["End"]),
        time_limit_s=duration_s(texts["Timelimit"]),
        node_list=_word(texts["NodeList"]),
        exit_code=code,
        signal=signal,
        cancelled_by=None if by is None else int(by[1]),
    )


def read_job(job: str) -> QueuedJob | None:
    """Return how one job stands, by the queue, else by the accounts; None where neither has it.

    Raises:
        SlurmError: there is no Slurm here, or it does not answer.
    """
    found = next(iter(read_queue([job])), None)
    if found is None or found.state is not JobState.CANCELLED:
        return found or read_accounts(job)
    account = read_accounts(job)
    return found if account is None else replace(found, cancelled_by=account.cancelled_by)


def host_names(node_list: str) -> list[str]:
    """Return the nodes of a list such as `n[1-4,7]`.

    Raises:
        SlurmError: there is no Slurm here, or that is no list of nodes.
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
    """Cancel a job; with a signal, send that to its script alone.

    Args:
        job: its number.
        signal: the name of one, such as USR2.

    Raises:
        SlurmError: there is no Slurm here, or it refuses.
    """
    how: Sequence[str] = [] if signal is None else ["--batch", f"--signal={signal}"]
    run_slurm(["scancel", *how, job])


def _word(text: str) -> str | None:
    return None if text.upper() in _UNKNOWN else text


def number_of(text: str | None) -> int | None:
    """Return the number that Slurm writes; None where it is none, or too long for any."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _wall(text: str) -> float | None:
    number = number_of(text)
    # A time that isn't known is 0 in some versions.
    return float(number) if number else None


def _exit_of(text: str) -> tuple[int | None, int | None]:
    """Return the exit code, and the signal, in `0:9`.

    Without a colon, as some versions write it, one can't be told from the other.
    """
    code, _, signal = text.partition(":")
    return (number_of(code), number_of(signal) or None) if ":" in text else (None, None)
