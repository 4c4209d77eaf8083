from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.limits import LEAST_SAMPLES, find_limit
from dlmon.records import Cpu, Gpu, Machine, MachineFacts, Memory, ProcessTree

FACTS = MachineFacts(cores=4)
IDLE = Machine(
    t=1,
    wall=1.0,
    cpu=Cpu(pct=30.0, cores=(30, 30, 30, 30)),
    memory=Memory(used_mib=4000, swap_mib_s=0.0),
    process=ProcessTree(cpu_pct=110.0, busiest_thread_pct=50.0),
    gpus=(),
)
BUSY_GPU = Gpu(index=0, utilization_pct=97, power_w=90.0, power_limit_w=120.0, temperature_c=61)


def told(sample, facts=FACTS, gpu_index=0, count=10):
    return find_limit([sample] * count, facts, gpu_index)


def with_gpu(**changes):
    return replace(IDLE, gpus=(replace(BUSY_GPU, **changes),))


@pytest.mark.parametrize(
    ("sample", "rule", "words"),
    [
        (with_gpu(power_w=118.0), "gpu-power", "held at its power limit of 120 W"),
        (with_gpu(throttle=("power cap",)), "gpu-power", "power limit"),
        (with_gpu(throttle=("thermal slowdown",)), "gpu-thermal", "at 61 °C"),
        (with_gpu(), "gpu", "GPU 0: busy 97 % of the time."),
        (
            replace(IDLE, cpu=replace(IDLE.cpu, throttled_pct=40.0)),
            "cpu-quota",
            "in 40 % of its periods",
        ),
        (replace(IDLE, memory=Memory(swap_mib_s=25.0)), "swap", "swaps 25 MiB a second"),
        (
            replace(IDLE, cpu=Cpu(pct=97.0, cores=(96, 97, 98, 99))),
            "cpu",
            "all 4 cores busy 98 % of the time",
        ),
        (
            replace(
                with_gpu(utilization_pct=35),
                process=ProcessTree(cpu_pct=110.0, busiest_thread_pct=99.0),
            ),
            "host",
            "feeds GPU 0 too slowly",
        ),
        (IDLE, "not-clear", "Not clear: CPU 30 %, busiest thread 50 % of a core."),
    ],
)
def test_each_rule_names_what_it_saw(sample, rule, words):
    limit = told(sample)
    assert limit.rule == rule
    assert words in limit.text


def test_a_gpu_at_its_limit_comes_before_everything_else():
    swapping = replace(with_gpu(power_w=119.0), memory=Memory(swap_mib_s=100.0))
    assert told(swapping).rule == "gpu-power"


def test_one_idle_core_is_enough_to_clear_the_cpu():
    sample = replace(IDLE, cpu=Cpu(pct=75.0, cores=(100, 100, 100, 0)))
    assert told(sample).rule == "not-clear"


def test_a_core_that_idles_now_and_then_clears_the_cpu():
    busy = replace(IDLE, cpu=Cpu(pct=100.0, cores=(100, 100, 100, 100)))
    part = replace(IDLE, cpu=Cpu(pct=80.0, cores=(100, 100, 100, 20)))
    assert find_limit([busy, part] * 5, FACTS, None).rule == "not-clear"


def test_where_the_run_may_use_only_some_cores_its_own_time_counts():
    facts = MachineFacts(cores=2)
    busy = replace(IDLE, process=ProcessTree(cpu_pct=195.0, busiest_thread_pct=99.0))
    assert told(busy, facts, None).text == (
        "The CPU: the run keeps its 2 cores busy 98 % of the time."
    )
    assert told(IDLE, facts, None).rule == "not-clear"


def test_another_gpu_is_no_evidence():
    other = replace(IDLE, gpus=(replace(BUSY_GPU, index=1),))
    assert told(other, gpu_index=0).rule == "not-clear"


def test_too_few_samples_say_nothing():
    assert told(IDLE, count=LEAST_SAMPLES - 1) is None


def test_nothing_measured_is_said_so():
    assert told(Machine(t=1, wall=1.0)).text == "Not clear: nothing is measured."


percent = st.none() | st.floats(0, 100)


@given(
    st.lists(
        st.builds(
            Machine,
            t=st.just(1),
            wall=st.just(1.0),
            cpu=st.none()
            | st.builds(
                Cpu,
                pct=percent,
                cores=st.none() | st.lists(st.integers(0, 100), max_size=4).map(tuple),
                throttled_pct=percent,
            ),
            memory=st.none() | st.builds(Memory, swap_mib_s=percent),
            process=st.none() | st.builds(ProcessTree, cpu_pct=percent, busiest_thread_pct=percent),
            gpus=st.none()
            | st.lists(
                st.builds(
                    Gpu,
                    index=st.integers(0, 2),
                    utilization_pct=st.none() | st.integers(0, 100),
                    power_w=percent,
                    power_limit_w=percent,
                    temperature_c=st.none() | st.integers(0, 100),
                    throttle=st.none() | st.just(("power cap",)),
                ),
                max_size=2,
            ).map(tuple),
        ),
        max_size=8,
    ),
    st.none() | st.integers(0, 2),
)
def test_any_readings_give_a_sentence_or_nothing(samples, gpu_index):
    limit = find_limit(samples, FACTS, gpu_index)
    assert (limit is None) == (len(samples) < LEAST_SAMPLES)
    if limit is not None:
        assert limit.text.endswith(".")


def test_two_reasons_in_one_sample_count_once():
    hot = with_gpu(throttle=("thermal slowdown", "hardware thermal slowdown"))
    cool = with_gpu()
    assert find_limit([hot] * 9 + [cool] * 21, FACTS, 0).rule == "gpu"
    assert find_limit([hot] * 21 + [cool] * 9, FACTS, 0).rule == "gpu-thermal"
