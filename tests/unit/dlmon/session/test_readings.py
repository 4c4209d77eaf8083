"""Who took how many cores: what is read of the machine and of the run may be a little apart."""

from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.quantities import OTHER_CORES
from dlmon.records import Cpu, Gpu, Machine, ProcessTree
from dlmon.session.readings import Means, values_of

S = 1_000_000_000


def readings(run_pcts, busy_pct=50.0, count=20):
    """Return readings of two cores, each with the next of the run's CPU times."""
    of_run = cycle(run_pcts)
    return [
        Machine(
            second * S,
            0.0,
            cpu=Cpu(pct=busy_pct, cores=(50, 50), steal_pct=0.0),
            process=ProcessTree(cpu_pct=next(of_run)),
        )
        for second in range(1, count + 1)
    ]


def cores_of_others(samples):
    means = Means()
    for sample in samples:
        means.add(values_of(sample, ()))
    return means.by_name.get(OTHER_CORES)


def test_jitter_between_two_readings_makes_no_other_programs():
    assert cores_of_others(readings([50.0, 150.0])) == pytest.approx(0)
    assert cores_of_others(readings([0.0, 150.0])) == pytest.approx(0.25)


@given(st.lists(st.floats(0, 200), min_size=1, max_size=20), st.floats(0, 100))
def test_others_took_what_the_run_did_not_and_never_less_than_nothing(run_pcts, busy_pct):
    samples = readings(run_pcts, busy_pct, count=len(run_pcts))
    run = sum(run_pcts) / len(run_pcts) / 100
    expected = pytest.approx(max(0.0, 2 * busy_pct / 100 - run), abs=1e-9)
    assert cores_of_others(samples) == expected


def test_several_gpus_that_train_are_read_as_one():
    first = Gpu(0, utilization_pct=90, power_w=300.0, memory_used_mib=10_000, throttle=())
    first = replace(first, sm_active_pct=60.0, memory_busy_pct=40)
    second = Gpu(2, utilization_pct=50, power_w=200.0, memory_used_mib=30_000, sm_active_pct=20.0)
    hot = Gpu(1, utilization_pct=0, throttle=("thermal slowdown",))
    sample = Machine(1, 0.0, gpus=(first, hot, second))
    found = values_of(sample, (0, 2))
    assert (found["gpu_pct"], found["gpu_power_w"], found["gpu_memory_mib"]) == (70, 500, 30_000)
    assert found["slowed_pct"] == 0
    assert found["sm_active_pct"] == 40
    assert "memory_busy_pct" not in found
    # One that is slowed slows them all; what one of them doesn't tell isn't known of them.
    with_hot = values_of(sample, (0, 1))
    assert with_hot["slowed_pct"] == 100
    assert "gpu_power_w" not in with_hot
