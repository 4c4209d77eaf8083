import pytest

from dlmon.records import StopCause
from dlmon.slurm import ending
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.ending import ask_why, cause_of, job_of, restarts_of
from dlmon.slurm.queue import JobState, QueuedJob

NOW = 10_000.0


def job(state, **fields):
    known = {"start_wall": NOW - 600, "end_wall": NOW, "time_limit_s": 3600.0, "restarts": 0}
    return QueuedJob(id="12", state=state, **{**known, **fields})


@pytest.mark.parametrize(
    ("standing", "cause"),
    [
        (job(JobState.COMPLETING), StopCause.CANCELLED),
        (job(JobState.CANCELLED), StopCause.CANCELLED),
        (job(JobState.COMPLETING, start_wall=NOW - 3600), StopCause.TIME_LIMIT),
        (job(JobState.TIMEOUT), StopCause.TIME_LIMIT),
        (job(JobState.COMPLETING, restarts=1), StopCause.REQUEUED),
        (job(JobState.PENDING), StopCause.REQUEUED),
        (job(JobState.COMPLETING, restarts=1, preempted_wall=NOW), StopCause.PREEMPTED),
        (job(JobState.RUNNING, preempted_wall=NOW), StopCause.PREEMPTED),
        (job(JobState.RUNNING, end_wall=NOW + 90), StopCause.TIME_LIMIT),
        (job(JobState.RUNNING, end_wall=NOW + 149), StopCause.TIME_LIMIT),
        (job(JobState.RUNNING, end_wall=NOW + 1000), None),
        (job(JobState.RUNNING, end_wall=None), None),
    ],
)
def test_why_a_job_that_gets_sigterm_is_ended(standing, cause):
    assert cause_of(standing, 0, 90, NOW) == cause


def test_an_earlier_restart_says_nothing_of_this_end():
    assert cause_of(job(JobState.COMPLETING, restarts=2), 2, 90, NOW) == StopCause.CANCELLED


def test_the_job_of_a_process():
    assert job_of({"SLURM_JOB_ID": "12"}) == "12"
    of_array = {"SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "1"}
    assert job_of(of_array) == "12_1"
    assert job_of({}) is None
    assert job_of({"SLURM_JOB_ID": "../x"}) is None
    assert restarts_of({"SLURM_RESTART_COUNT": "2"}) == 2
    assert restarts_of({}) == 0


def test_a_slurm_that_does_not_answer_leaves_it_unknown(monkeypatch):
    def refuse(ids):
        raise SlurmError("no")

    monkeypatch.setattr(ending.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(ending, "read_queue", refuse)
    assert ask_why({"SLURM_JOB_ID": "12"}, 90) == (None, None)
    monkeypatch.setattr(ending, "read_queue", lambda ids: [])
    assert ask_why({"SLURM_JOB_ID": "12"}, 90) == (None, None)


def test_near_its_time_limit_it_is_known_how_long_is_left(monkeypatch):
    monkeypatch.setattr(ending.time, "time", lambda: NOW)
    near = job(JobState.RUNNING, end_wall=NOW + 80)
    monkeypatch.setattr(ending, "read_queue", lambda ids: [near])
    assert ask_why({"SLURM_JOB_ID": "12"}, 90) == (StopCause.TIME_LIMIT, 80)


def test_what_asks_may_be_ended_once_too(monkeypatch):
    monkeypatch.setattr(ending.time, "sleep", lambda seconds: None)
    answers = iter([[], [job(JobState.PENDING)]])
    monkeypatch.setattr(ending, "read_queue", lambda ids: next(answers))
    assert ask_why({"SLURM_JOB_ID": "12"}, 90) == (StopCause.REQUEUED, None)
