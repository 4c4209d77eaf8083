import math
from dataclasses import replace

import pytest

from dlmon.records import SlurmJob
from dlmon.slurm import usage
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.queue import JobState, QueuedJob
from dlmon.slurm.usage import JobUsage, fitting_options, job_in, parse_tres, with_queue


def asked(**fields):
    return SlurmJob(job="12", **fields)


def test_what_was_asked_as_a_job_sees_it():
    environment = {
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
        "SLURM_MEM_PER_NODE": "1024",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_JOB_START_TIME": "1000",
        "SLURM_JOB_END_TIME": "4600",
    }
    assert job_in(environment) == SlurmJob(
        job="12",
        partition="gpu",
        node_list="n[1-3]",
        nodes=3,
        cpus=20,
        memory_mib=3072.0,
        gpus=6,
        time_limit_s=3600.0,
        end_wall=4600.0,
    )
    by_cpu = {"SLURM_JOB_ID": "12", "SLURM_JOB_CPUS_PER_NODE": "4", "SLURM_MEM_PER_CPU": "100"}
    assert job_in(by_cpu) == asked(cpus=4, memory_mib=400.0)
    assert job_in({"SLURM_JOB_ID": "12"}) == asked()
    assert job_in({}) is None


@pytest.mark.parametrize(
    ("tres", "given"),
    [
        ("cpu=8,mem=64G,node=1,billing=8,gres/gpu=1,gres/gpu:a100=1", (1, 8, 65536.0, 1)),
        ("cpu=2,gres/gpu:a100=2,gres/gpu:h100=1", (None, 2, None, 3)),
        ("cpu=2,mem=9800M,node=1", (1, 2, 9800.0, None)),
        ("", (None, None, None, None)),
        ("cpu=x,mem=9Q", (None, None, None, None)),
    ],
)
def test_what_was_given_as_slurm_lists_it(tres, given):
    assert tuple(parse_tres(tres).values()) == given


def test_the_queue_says_what_the_environment_does_not(monkeypatch):
    queued = QueuedJob(
        *("12", JobState.RUNNING),
        time_limit_s=600.0,
        end_wall=1000.0,
        tres="cpu=2,mem=200M,node=1,gres/gpu=1",
    )
    monkeypatch.setattr(usage, "read_queue", lambda ids, timeout_s: [queued])
    known = with_queue(asked(partition="main"), {"SLURM_JOB_ID": "12"}, 1.0)
    assert known == SlurmJob("12", "main", None, 1, 2, 200.0, 1, 600.0, 1000.0)
    unlimited = replace(queued, time_limit_s=None)
    monkeypatch.setattr(usage, "read_queue", lambda ids, timeout_s: [unlimited])
    assert with_queue(asked(), {"SLURM_JOB_ID": "12"}, 1.0).end_wall is None


def test_a_queue_that_does_not_answer_changes_nothing(monkeypatch):
    def refuse(ids, timeout_s):
        raise SlurmError("no")

    monkeypatch.setattr(usage, "read_queue", refuse)
    assert with_queue(asked(cpus=2), {"SLURM_JOB_ID": "12"}, 1.0) == asked(cpus=2)


def test_the_options_that_would_have_fitted():
    given = asked(cpus=8, memory_mib=65536.0, gpus=1, nodes=1, time_limit_s=7200.0)
    used = JobUsage(cpus=2.1, memory_mib=9 * 1024, gpu_busy_pct=31.0, gpus=1, time_s=2050.0)
    assert fitting_options(given, used) == ["--cpus-per-task=3", "--mem=12G", "--time=0:45:00"]


def test_never_more_than_was_asked_for():
    given = asked(cpus=2, memory_mib=4096.0, gpus=0, nodes=1, time_limit_s=600.0)
    used = JobUsage(cpus=2.0, memory_mib=4090.0, time_s=598.0)
    assert fitting_options(given, used) == ["--cpus-per-task=2", "--mem=4G", "--time=0:10:00"]
    odd = asked(memory_mib=9800.0)
    assert fitting_options(odd, JobUsage(memory_mib=9799.0)) == ["--mem=9800M"]


def test_what_would_have_fitted_is_not_known_where_more_memory_was_used_than_asked_for():
    given = asked(cpus=2, memory_mib=100.0)
    assert fitting_options(given, JobUsage(cpus=2.0, memory_mib=300.0)) == ["--cpus-per-task=2"]


def test_a_gpu_that_nothing_used_is_left_out():
    given = asked(gpus=4, nodes=1)
    assert fitting_options(given, JobUsage(gpus=1)) == ["--gpus-per-node=1"]
    assert fitting_options(given, JobUsage(gpus=0)) == []
    assert fitting_options(given, JobUsage(gpus=4)) == []


def test_what_was_not_measured_or_not_asked_for_has_no_option():
    assert fitting_options(asked(cpus=8), JobUsage(memory_mib=100.0)) == []
    assert fitting_options(asked(), JobUsage(1.0, 2.0, 3.0, 1, 4.0)) == []


@pytest.mark.parametrize(
    ("used_mib", "option"),
    [(30, "100M"), (500, "700M"), (900, "2G"), (20 * 1024, "26G"), (100 * 1024, "128G")],
)
def test_memory_is_rounded_as_people_write_it(used_mib, option):
    given = asked(memory_mib=1024.0 * 1024)
    assert fitting_options(given, JobUsage(memory_mib=used_mib)) == [f"--mem={option}"]


@pytest.mark.parametrize(
    ("took_s", "option"),
    [
        (5, "0:10:00"),
        (2050, "0:45:00"),
        (7000, "2:30:00"),
        (30000, "11:00:00"),
        (80000, "1-4:00:00"),
    ],
)
def test_time_is_rounded_as_people_write_it(took_s, option):
    assert fitting_options(asked(time_limit_s=math.inf), JobUsage(time_s=took_s)) == [
        f"--time={option}"
    ]
