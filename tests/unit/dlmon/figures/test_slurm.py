import pytest
from fakes.submitted import Queue

from dlmon.figures.slurm import queued_text, start_text
from dlmon.slurm.queue import JobState

NOW = 1_795_806_000.0  # 19:00 UTC


@pytest.mark.parametrize(
    ("job", "problem", "says"),
    [
        (None, None, "job 12 was submitted"),
        (None, "no answer", "job 12: no answer"),
        (Queue(reason="Priority").job, None, "job 12 is queued (Priority)"),
        (
            Queue(reason="Resources", start_wall=NOW + 3600).job,
            None,
            "job 12 is queued (Resources), Slurm expects it to start at 20:00",
        ),
        (Queue(JobState.CONFIGURING).job, None, "job 12: its node is being prepared"),
        (Queue(JobState.RUNNING, start_wall=NOW).job, None, "job 12: its node starts it"),
        (Queue(JobState.UNKNOWN).job, None, "job 12: unknown"),
    ],
)
def test_how_a_job_waits(utc, job, problem, says):
    assert queued_text("12", job, problem, NOW) == says


def test_before_slurm_has_answered_it_is_submitted():
    assert queued_text(None, None, None, NOW) == "being submitted to Slurm"


def test_when_it_starts(utc):
    assert start_text(NOW - 60, NOW) == "now"
    assert start_text(NOW + 60, NOW) == "at 19:01"
    assert start_text(NOW + 2 * 86_400, NOW) == "on 2026-11-29 19:00"
