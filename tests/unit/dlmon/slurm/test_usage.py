import math

import pytest

from dlmon.slurm.usage import Asked, Used, asked_in, asked_of, fitting_options, memory_mib


def test_what_was_asked_as_slurm_lists_it():
    asked = asked_of("cpu=8,mem=64G,node=1,billing=8,gres/gpu=1,gres/gpu:a100=1", 7200.0)
    assert asked == Asked(cpus=8, memory_mib=65536.0, gpus=1, nodes=1, time_s=7200.0)
    assert asked_of("cpu=2,mem=9800M,node=1").gpus == 0
    assert asked_of("cpu=2,gres/gpu:a100=2,gres/gpu:h100=1").gpus == 3
    assert asked_of("") == Asked()


def test_what_was_asked_as_a_job_sees_it():
    environment = {
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
        "SLURM_MEM_PER_NODE": "1024",
        "SLURM_JOB_GPUS": "0,1",
        "SLURM_JOB_START_TIME": "1000",
        "SLURM_JOB_END_TIME": "4600",
    }
    assert asked_in(environment) == Asked(20, 3072.0, 6, 3, 3600.0)
    by_cpu = {
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_CPUS_PER_NODE": "4",
        "SLURM_MEM_PER_CPU": "100",
    }
    assert asked_in(by_cpu) == Asked(4, 400.0, None, 1, None)
    assert asked_in({}) == Asked()


@pytest.mark.parametrize(
    ("text", "mib"),
    [("64G", 65536), ("512", 512), ("1T", 1 << 20), ("2048K", 2), ("", None), ("9Q", None)],
)
def test_a_size_as_slurm_writes_it(text, mib):
    assert memory_mib(text) == mib


def test_the_options_that_would_have_fitted():
    asked = Asked(cpus=8, memory_mib=65536.0, gpus=1, nodes=1, time_s=7200.0)
    used = Used(cpus=2.1, memory_mib=9 * 1024, gpu_busy_pct=31.0, gpus=1, time_s=2050.0)
    assert fitting_options(asked, used) == ["--cpus-per-task=3", "--mem=12G", "--time=0:45:00"]


def test_never_more_than_was_asked_for():
    asked = Asked(cpus=2, memory_mib=4096.0, gpus=0, nodes=1, time_s=600.0)
    used = Used(cpus=2.0, memory_mib=4090.0, time_s=598.0)
    assert fitting_options(asked, used) == ["--cpus-per-task=2", "--mem=4G", "--time=0:10:00"]
    odd = Asked(memory_mib=9800.0)
    assert fitting_options(odd, Used(memory_mib=9799.0)) == ["--mem=9800M"]


def test_a_gpu_that_nothing_used_is_left_out():
    asked = Asked(gpus=4, nodes=1)
    assert fitting_options(asked, Used(gpus=1)) == ["--gpus-per-node=1"]
    assert fitting_options(asked, Used(gpus=0)) == []
    assert fitting_options(asked, Used(gpus=4)) == []


def test_what_was_not_measured_or_not_asked_for_has_no_option():
    assert fitting_options(Asked(cpus=8), Used(memory_mib=100.0)) == []
    assert fitting_options(Asked(), Used(1.0, 2.0, 3.0, 1, 4.0)) == []


@pytest.mark.parametrize(
    ("used_mib", "option"),
    [(30, "100M"), (500, "700M"), (900, "2G"), (20 * 1024, "26G"), (100 * 1024, "128G")],
)
def test_memory_is_rounded_as_people_write_it(used_mib, option):
    asked = Asked(memory_mib=1024.0 * 1024)
    assert fitting_options(asked, Used(memory_mib=used_mib)) == [f"--mem={option}"]


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
    assert fitting_options(Asked(time_s=math.inf), Used(time_s=took_s)) == [f"--time={option}"]
