import pytest

from dlmon.launch.step import Task, task_of

STEP = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "8",
}


def test_what_srun_sets_says_which_task_of_which_step_it_is():
    assert task_of(STEP) == Task("77.0.0", 2)
    assert not task_of({**STEP, "SLURM_LOCALID": "1"}).is_first_here
    # A job that was requeued makes a session of its own.
    assert task_of({**STEP, "SLURM_RESTART_COUNT": "1"}) == Task("77.0.1", 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"SLURM_STEP_ID": ""},
        {"SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_PROCID": "8"},
        {"SLURM_PROCID": "-1"},
        {"SLURM_JOB_ID": "../77"},
    ],
    ids=["a batch script", "alone", "more than there are", "no number", "no job"],
)
def test_what_is_no_task_among_others_is_none(changed):
    assert task_of({**STEP, **changed}) is None
    assert task_of({}) is None
