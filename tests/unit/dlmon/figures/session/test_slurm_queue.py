from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.submitted import Queue

from dlmon.figures.session.progress import job_end_text
from dlmon.figures.session.slurm_queue import (
    job_usage,
    queued_text,
    slurm_rows,
    start_text,
    usage_text,
)
from dlmon.records import Machine, Node, ProcessTree, SlurmJob, Trainer
from dlmon.slurm.queue import JobState
from dlmon.slurm.usage import JobUsage, fitting_options

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


JOB = SlurmJob("12", "gpu", "n1", 1, 8, 65536.0, 1, 7200.0, NOW + 1800)


def test_what_was_asked_and_used():
    used = JobUsage(cpus=2.1, memory_mib=9216.0, gpu_busy_pct=31.2, gpus=1, time_s=2050.0)
    assert usage_text(JOB, used) == (
        "8 CPUs, used 2.1; 64 GiB, used 9.0 GiB; 1 GPU, busy 31 %; 2:00:00, took 34:10"
    )
    little = SlurmJob("12", cpus=1, memory_mib=100.0)
    assert usage_text(little, JobUsage()) == "1 CPU; 100 MiB"
    assert usage_text(little, JobUsage(memory_mib=301.2)) == "1 CPU; 100 MiB, used 301 MiB"
    assert usage_text(SlurmJob("12"), used) == ""


def test_the_rows_of_a_session():
    records = recorded_session(samples=3_000)
    session = folded([replace(records[0], slurm=JOB), *records[1:]])
    assert slurm_rows(session, None) == [("Slurm", "job 12 on n1, partition gpu")]
    rows = dict(slurm_rows(session, 2050.0))
    assert rows["asked for"].startswith("8 CPUs")
    assert rows["would have fitted"].endswith("--time=0:45:00")
    assert slurm_rows(folded(records), 2050.0) == []


def test_what_several_nodes_used_is_summed_where_all_of_it_was_measured():
    records = recorded_session(samples=3_000)
    header = replace(records[0], slurm=replace(JOB, nodes=2))
    own = job_usage(folded([replace(header, slurm=JOB), *records[1:]]), 10.0)
    one_node = job_usage(folded([header, *records[1:]]), 10.0)
    assert (one_node.cpus, one_node.memory_mib, one_node.time_s) == (None, None, 10.0)
    tree = ProcessTree(cpu_pct=300.0, rss_mib=9000, threads=1)
    nodes = [
        Node(t, "n2", machine=Machine(t, NOW, process=tree))
        for t in (records[-1].t - 2_000_000_000, records[-1].t - 1_000_000_000)
    ]

    def used_with(*parts):
        trainers = [Trainer(records[-1].t, number, 1, "torch", host="n2") for number in parts]
        return job_usage(folded([header, *records[1:-1], *trainers, *nodes, records[-1]]), 10.0)

    both = used_with(1000, 1001)
    assert both.cpus == pytest.approx(own.cpus + 3.0)
    assert both.memory_mib == own.memory_mib + 9000
    assert (both.most_cpus, both.most_memory_mib) == (pytest.approx(3.0), 9000)
    assert fitting_options(replace(JOB, nodes=2), both)[:2] == [
        "--cpus-per-task=4",
        "--mem=11G",
    ]
    # Of a node with two tasks, the first alone was sampled.
    assert used_with(1000, 2000).cpus is None


@pytest.mark.parametrize(
    ("left_s", "says"),
    [
        (3600.0, "Slurm ends it at 19:30, before the run would (20:00)"),
        (1700.0, ""),
        (None, ""),
    ],
)
def test_an_end_that_comes_before_that_of_the_run(utc, left_s, says):
    progress = SimpleNamespace(run_left_s=left_s, end_left_s=None)
    shown = SimpleNamespace(header=SimpleNamespace(slurm=JOB), progress=progress, wall=NOW)
    assert job_end_text(shown) == says
