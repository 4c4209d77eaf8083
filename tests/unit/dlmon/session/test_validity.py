from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.strategies import SECOND_NS, header

from dlmon.records import (
    Batches,
    Cpu,
    Doubt,
    Gpu,
    Machine,
    MachineFacts,
    Metrics,
    Model,
    Process,
    ProcessTree,
    Result,
    TimePart,
)
from dlmon.session.readings import TrainingReadings, values_of
from dlmon.session.session import Session
from dlmon.session.snapshot import find_warnings
from dlmon.statistics.steady_state import SteadyState

CPU = Model(1, None, 100, 1000, 10, 1, device="cpu")
GPU = replace(CPU, device="gpu:0")
MIB_OF_OTHER = 3277


def trained(*steps_s):
    """Return the steady state of steps after eleven of a tenth of a second."""
    steady = SteadyState()
    steady.add(100, [100_000] * 11)
    steady.add(100, [round(step_s * 1e6) for step_s in steps_s])
    return steady


def doubts_of(
    steady=None, readings=(), machine=None, model=CPU, stalled_s=0.0, ended=True, bad_loss=None
):
    folded_readings = TrainingReadings()
    for reading in readings:
        values = values_of(reading, model.gpus)
        folded_readings.add(values, reading, model.gpus)
    account = {TimePart.TRAINING: 10.0 - stalled_s, TimePart.STALLS: stalled_s}
    steady = steady or trained(*[0.1] * 100)
    validity = find_warnings(
        steady,
        account,
        folded_readings,
        machine or MachineFacts(),
        model,
        model.gpus if model else (),
        ended,
        bad_loss,
    )
    return None if validity is None else validity.warnings


def read(count=20, **cpu):
    return [Machine(SECOND_NS * t, 0.0, cpu=Cpu(**cpu)) for t in range(count)]


def gpu_read(*throttle, index=0, of_20=20):
    slowed = [Gpu(index, throttle=throttle if number < of_20 else ()) for number in range(20)]
    return [Machine(SECOND_NS * t, 0.0, gpus=(gpu,)) for t, gpu in enumerate(slowed)]


def test_a_loss_that_is_nan_is_a_warning_also_of_a_steady_run():
    assert doubts_of(bad_loss="the loss was NaN") == {Doubt.NAN_LOSS: "the loss was NaN"}


def test_the_result_of_a_run_with_a_nan_loss_warns_of_it():
    header, *records, _ = recorded_session()
    loss = Metrics(records[-1].t + 1, {"loss": None}, why={"loss": "NaN"})
    snapshot = folded([header, *records, loss]).snapshot()
    assert snapshot.validity.warnings[Doubt.NAN_LOSS].startswith("the loss is NaN")


def test_a_run_is_too_short_that_was_not_steady_for_five_seconds_once_it_is_over():
    assert doubts_of(SteadyState(), ended=False) is None
    assert doubts_of(SteadyState()) == {Doubt.TOO_SHORT: "too short: it was never steady"}
    text = "too short: 4.9 s of steady batches, at least 5 s are needed"
    assert doubts_of(trained(*[0.1] * 49)) == {Doubt.TOO_SHORT: text}
    assert doubts_of(trained(*[0.1] * 50)) == doubts_of(trained(*[0.1] * 30), ended=False) == {}


@pytest.mark.parametrize(
    ("steps_s", "text"),
    [
        ([0.1] * 150 + [0.11] * 150, "its second half was 1.10× as slow as its first"),
        ([0.11] * 150 + [0.1] * 150, "its second half was 1.10× as fast as its first"),
        ([0.1 * (1 + 0.001 * n) for n in range(300)], "its second half was 1.14× as slow"),
    ],
)
def test_a_throughput_that_drifts_is_not_steady(steps_s, text):
    assert doubts_of(trained(*steps_s))[Doubt.NOT_STEADY].startswith(f"not steady: {text}")


@pytest.mark.parametrize(
    "steps_s",
    [
        [0.1] * 150 + [0.101] * 150,
        [0.1, 0.12] * 150,
        [0.1 + 0.03 * (n // 10 % 2) for n in range(300)],
        [0.1] * 40 + [0.12] * 40,
    ],
    ids=["a percent", "uneven steps", "uneven seconds", "too short to know"],
)
def test_what_does_not_drift_is_steady(steps_s):
    assert Doubt.NOT_STEADY not in doubts_of(trained(*steps_s))


def test_a_gpu_that_heat_slows_is_throttled_and_all_doubts_stand_in_their_order():
    assert doubts_of(readings=gpu_read("thermal slowdown", of_20=2), model=GPU) == {
        Doubt.THROTTLED: "GPU 0 was slowed by heat in 10 % of readings"
    }
    brake = gpu_read("power brake", "hardware thermal slowdown")
    assert "slowed by" in doubts_of(readings=brake, model=GPU)[Doubt.THROTTLED]
    busy, stolen = MachineFacts(cpu_pct=71.0), read(steal_pct=9.0)
    against = doubts_of(SteadyState(), stolen, busy, stalled_s=5.0)
    assert list(against) == [Doubt.TOO_SHORT, Doubt.STALLS, Doubt.BUSY_AT_START, Doubt.STEAL]


def other(**changes):
    row = Process(
        7, "eve", "python3 train.py", gpus=(0,), gpu_memory_mib=MIB_OF_OTHER, of_run=False
    )
    return [Machine(0, 0.0, processes=(replace(row, **changes),))]


def test_another_program_on_the_gpu_is_named():
    assert doubts_of(readings=other(), model=GPU) == {
        Doubt.GPU_SHARED: "another program had 3.2 GiB on GPU 0 (train.py, pid 7)"
    }
    evil = other(command="\x1b[2J[/x]\u202e" * 40)
    text = doubts_of(readings=evil, model=GPU)[Doubt.GPU_SHARED]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 100


def shared(others_pct, count=20, **of_process):
    """Return readings of a run that takes one of two cores, and of others beside it."""
    cpu = Cpu(pct=50 + others_pct, cores=(100, 2 * others_pct))
    process = ProcessTree(**{"cpu_pct": 100.0, **of_process})
    return [Machine(SECOND_NS * t, 0.0, cpu=cpu, process=process) for t in range(count)]


def test_programs_that_took_a_fifth_of_the_cpus_meanwhile_speak_against_it():
    two_cores = MachineFacts(cores=2, cpu_pct=1.0)
    assert doubts_of(readings=shared(20), machine=two_cores) == {
        Doubt.CPU_SHARED: "other programs took 0.4 of 2 cores"
    }
    assert doubts_of(readings=shared(19), machine=two_cores) == {}
    assert doubts_of(readings=shared(50, count=4), machine=two_cores) == {}
    # Where the run's own share is not known, nobody is said to have the rest.
    assert doubts_of(readings=shared(50, cpu_pct=None), machine=two_cores) == {}
    assert doubts_of(readings=shared(50), machine=MachineFacts()) == {}


def test_of_a_run_that_may_use_some_of_the_cpus_they_do_where_it_waits_for_one():
    """Others may keep those busy that it does not use."""
    some = MachineFacts(cores=4, cpu_pct=1.0)

    def beside(others, **of_process):
        cpu = Cpu(pct=100 * (3.9 + others) / 64, cores=(60,) * 64)
        process = ProcessTree(cpu_pct=390.0, **of_process)
        return [Machine(SECOND_NS * t, 0.0, cpu=cpu, process=process) for t in range(20)]

    assert doubts_of(readings=beside(34.5), machine=some) == {}
    assert doubts_of(readings=beside(34.5, cpu_wait_pct=12.0), machine=some) == {
        Doubt.CPU_SHARED: "other programs took 34.5 of 64 cores, and the run waited for a CPU 12 % "
        "of the time"
    }
    assert doubts_of(readings=beside(12.0, cpu_wait_pct=12.0), machine=some) == {}


@pytest.mark.parametrize(
    ("others_pct", "waited_pct", "is_said"),
    [(50, None, False), (50, 9.0, False), (50, 12.0, True), (10, 90.0, False)],
)
def test_of_a_run_on_a_gpu_they_do_where_it_waits_for_a_cpu(others_pct, waited_pct, is_said):
    readings = shared(others_pct, cpu_wait_pct=waited_pct)
    said = "other programs took 1.0 of 2 cores, and the run waited for a CPU 12 % of the time"
    against = doubts_of(readings=readings, machine=MachineFacts(cores=2), model=GPU)
    assert against == ({Doubt.CPU_SHARED: said} if is_said else {})


@pytest.mark.parametrize(
    ("more", "against"),
    [
        ({}, {}),
        ({"stalled_s": 0.21}, {Doubt.STALLS: "stalls took 2.1 % of the time of its batches"}),
        ({"stalled_s": 0.2}, {}),
        (
            {"readings": read(throttled_pct=30.0)},
            {Doubt.THROTTLED: "the CPU limit stopped the run in 30 % of periods"},
        ),
        ({"readings": read(throttled_pct=5.0)}, {}),
        ({"readings": read(steal_pct=4.0)}, {Doubt.STEAL: "CPU steal 4.0 %"}),
        ({"readings": read(steal_pct=2.0)}, {}),
        # Of so few it is not known.
        ({"readings": read(4, steal_pct=40.0)}, {}),
        (
            {"machine": MachineFacts(cpu_pct=71.0)},
            {Doubt.BUSY_AT_START: "machine was busy at the start: CPU 71 %"},
        ),
        ({"machine": MachineFacts(cpu_pct=1.0, foreign_gpu_processes=1)}, {}),
        (
            {"machine": MachineFacts(on_battery=True)},
            {Doubt.ON_BATTERY: "the machine ran on battery"},
        ),
        ({"machine": MachineFacts(on_battery=False)}, {}),
        (
            {"model": replace(CPU, inferred="the first tensor")},
            {Doubt.INFERRED_SAMPLES: "samples were inferred: the first tensor"},
        ),
    ],
)
def test_what_speaks_against_a_run(more, against):
    assert doubts_of(**more) == against


@pytest.mark.parametrize(
    ("readings", "model"),
    [
        # Neither the power cap, nor few readings, nor another GPU.
        *(
            (readings, GPU)
            for readings in (
                *(gpu_read("power cap"), gpu_read("thermal slowdown", of_20=1)),
                *(gpu_read("thermal slowdown")[:4], gpu_read("thermal slowdown", index=1)),
                [Machine(0, 0.0, gpus=(Gpu(0),))] * 20,
                *(other(of_run=True), other(of_run=None), other(gpus=(1,))),
                *(other(gpu_memory_mib=100), other(gpu_memory_mib=None)),
            )
        ),
        # A run on the CPU is none of a GPU's.
        *((readings, CPU) for readings in (gpu_read("thermal slowdown"), other())),
    ],
)
def test_what_a_gpu_does_speaks_against_no_run_that_it_does_not_slow(readings, model):
    assert doubts_of(readings=readings, model=model) == {}


def test_a_recorded_run_is_judged_as_it_goes_and_by_its_steady_readings_alone():
    records = recorded_session()
    assert folded(records[:2]).snapshot().validity is None
    assert folded(records).snapshot().validity.is_valid
    session = Session(header())
    for t in range(20):
        session.add(Machine(SECOND_NS * t, 0.0, cpu=Cpu(steal_pct=90.0)))
    session.add(Batches(0, 0, 100, 20 * SECOND_NS, (100_000,) * 200))
    session.add(Result("completed", "id", "log", "own", None, {}, wall_s=1.0))
    assert session.snapshot().validity.is_valid
