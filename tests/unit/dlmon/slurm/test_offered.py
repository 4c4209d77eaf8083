"""What a shell is offered of Slurm."""

from dlmon.cli import candidates
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob


def test_jobs_are_offered_that_run(monkeypatch):
    jobs = [QueuedJob("12", JobState.RUNNING, "mine"), QueuedJob("13", JobState.PENDING)]
    monkeypatch.setattr("dlmon.slurm.queue.read_queue", lambda **asked: jobs)
    offered = candidates.job_numbers(None, None, "1")
    assert [(item.value, item.help) for item in offered] == [("12", "mine")]


def test_partitions_are_offered_after_what_is_typed(monkeypatch):
    monkeypatch.setattr("dlmon.slurm.queue.partitions", lambda: ["gpu", "gpu-long", "cpu"])

    def offered(typed):
        return [item.value for item in candidates.slurm_options(None, None, typed)]

    assert offered("") == ["-p gpu", "-p gpu-long", "-p cpu"]
    assert offered("-t 5 -p gpu-") == ["-t 5 -p gpu-long"]
    assert offered("-t 5") == ["-t 5 -p gpu", "-t 5 -p gpu-long", "-t 5 -p cpu"]


def test_without_slurm_nothing_is_offered(monkeypatch):
    def refuse(**asked):
        raise SlurmError("there is no Slurm here")

    monkeypatch.setattr("dlmon.slurm.queue.read_queue", refuse)
    monkeypatch.setattr("dlmon.slurm.queue.partitions", refuse)
    assert candidates.job_numbers(None, None, "") == []
    assert candidates.slurm_options(None, None, "") == []
