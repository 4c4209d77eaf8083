"""Each rule of what limits a run: what makes it true, what makes it false, and what it claims."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import (
    Cpu,
    Gpu,
    GpuFacts,
    GpuState,
    Machine,
    MachineFacts,
    Memory,
    Pressure,
    Process,
    ProcessTree,
)
from dlmon.records.sanitize import clean
from dlmon.session.limits.evidence import KINDS, MIN_SAMPLES, LimitKind
from dlmon.session.limits.find import (
    limit_before_training,
    limit_of,
    look,
    look_before_training,
    window_s,
)
from dlmon.session.limits.gpu import gpu_lost
from dlmon.session.program_name import program_name

FACTS = MachineFacts(cores=4)
IDLE = Machine(
    t=1,
    wall=1.0,
    cpu=Cpu(pct=30.0, cores=(30, 30, 30, 30), steal_pct=0.0),
    memory=Memory(used_mib=4000, swap_mib_s=0.0),
    process=ProcessTree(cpu_pct=110.0, busiest_thread_pct=50.0),
    gpus=(),
)
BUSY_GPU = Gpu(
    index=0,
    utilization_pct=97,
    power_w=90.0,
    power_limit_w=120.0,
    temperature_c=61,
    throttle=(),
)


SECOND = 1_000_000_000


def samples_of(sample, count):
    return [replace(sample, t=second * SECOND) for second in range(count)]


def find_limit(samples, facts, gpu_index, *, ended=False, latest=None, **known):
    if len(samples) < MIN_SAMPLES:
        return limit_of((), ended)
    lost = gpu_lost(samples, latest or samples[-1], gpu_index, ended)
    looked = look(samples, facts, gpu_index, ended=ended, is_lost=lost is not None, **known)
    return limit_of((looked,), ended, (lost,))


def reported(sample, facts=FACTS, gpu_index=0, count=20, **options):
    options.setdefault("on_cpu", gpu_index is None)
    return find_limit(samples_of(sample, count), facts, gpu_index, **options)


def rules(limit):
    return [evidence.rule for evidence in limit.evidence]


def with_gpu(**changes):
    return replace(IDLE, gpus=(replace(BUSY_GPU, **changes),))


def on_cores(count, run, others, steal=0.0, **changes):
    """Return a sample of a machine where a run and others take so many cores."""
    busy = run + others + steal
    pct = 100 * busy / count
    return replace(
        IDLE,
        cpu=Cpu(pct=pct, cores=(round(pct),) * count, steal_pct=100 * steal / count),
        process=ProcessTree(cpu_pct=100 * run, busiest_thread_pct=50.0),
        **changes,
    )


# ---- what each rule says ----

TWO = MachineFacts(cores=2)
PYTEST = Process(32614, command="/usr/bin/python3 -m pytest -x", cpu_pct=98.0, of_run=False)
SMALL = Process(1, command="small", cpu_pct=5.0, of_run=False)


def others(*rows, run=0.8, count=2, **changes):
    """Return a sample of a machine of which others take what a run leaves."""
    return on_cores(count, run=run, others=count - run, processes=rows, **changes)


def full_thread(sample, pct=100.0):
    return replace(sample, process=replace(sample.process, busiest_thread_pct=pct))


def without_steal(sample):
    return replace(sample, cpu=replace(sample.cpu, steal_pct=None))


def of_cpu(**changes):
    return replace(IDLE, cpu=replace(IDLE.cpu, **changes))


def on_gpu(**changes):
    row = Process(4711, command="blender", gpus=(0,), gpu_memory_mib=3277, of_run=False)
    return replace(with_gpu(), processes=(replace(row, **changes),))


@pytest.mark.parametrize(
    ("rule", "text", "sample", "options"),
    [
        (
            "other-programs",
            "Other programs take the CPU: 1.2 of 2 cores (most: pytest, pid 32614), this run 0.8.",
            others(Process(7, command="python3", cpu_pct=80.0, of_run=True), PYTEST),
            {"facts": TWO},
        ),
        (
            "other-programs",
            "Other programs take the CPU: 1.2 of 2 cores (0.4: small, pid 1), this run 0.8.",
            others(replace(SMALL, cpu_pct=40.0)),
            {"facts": TWO},
        ),
        *(
            (
                "other-programs",
                "Other programs take the CPU: 1.2 of 2 cores, this run 0.8.",
                others(row),
                {"facts": TWO},
            )
            for row in (
                *(SMALL, replace(SMALL, cpu_pct=20.0)),
                replace(SMALL, cpu_pct=99.0, of_run=None, why={"of_run": "the host's pid"}),
                replace(PYTEST, command=None, why={"command": "the process doesn't answer"}),
            )
        ),
        (
            "other-programs",
            "The CPU is taken by others: 1.2 of 2 cores, this run 0.8.",
            without_steal(others()),
            {"facts": TWO},
        ),
        (
            "cpu",
            "The run uses all of its CPUs: this run 3.9 of 4 cores, 0.0 idle.",
            on_cores(4, 3.92, 0.05),
            {},
        ),
        (
            "cpu",
            "The run uses all of its CPU: this run 1.0 of the 1 core that it may use, 0.9 idle.",
            on_cores(2, 0.97, 0.1),
            {"facts": TWO, "cpus": 1},
        ),
        (
            # The affinity that dlmon was started with counts like --cpus.
            "cpu",
            "The run uses all of its CPUs: this run 2.0 of the 2 cores that it may use, 1.5 idle.",
            on_cores(4, 1.96, 0.5),
            {"facts": TWO},
        ),
        (
            "cpu",
            "The run uses all of its CPUs: this run 1.5 of the 1.5 cores that it may use, "
            "11.5 idle.",
            on_cores(16, 1.48, 3.0),
            {"facts": MachineFacts(cores=16, cpu_limit=1.5)},
        ),
        (
            "cores",
            "All cores are busy: 98 % of 4 cores, the run's share of it isn't known.",
            replace(on_cores(4, 2.0, 1.9), process=None),
            {},
        ),
        ("not-clear", "Not clear: CPU 50 %.", replace(on_cores(4, 1.0, 1.0), process=None), {}),
        (
            "not-clear",
            "Not clear: this run 1.0 of the 2 cores that it may use, other programs 0.1 cores, "
            "busiest thread 50 % of a core.",
            on_cores(4, 1.0, 0.1),
            {"cpus": 2},
        ),
        (
            "threads",
            "The run's one thread is busy: 1.0 cores of CPU time, 0.9 of 2 cores idle.",
            on_cores(2, 1.02, 0.1),
            {"facts": TWO, "threads": 1},
        ),
        (
            "thread",
            "One thread of the run is busy: thread at 100 % of a core, 0.9 of 2 cores is idle.",
            full_thread(on_cores(2, 1.0, 0.1)),
            {"facts": TWO},
        ),
        (
            "cpu-quota",
            "The container's CPU limit stops it: in 40 % of periods.",
            of_cpu(throttled_pct=40.0),
            {},
        ),
        (
            "swap",
            "Too little memory: swap 25 MiB/s.",
            replace(IDLE, memory=Memory(swap_mib_s=25.0)),
            {},
        ),
        (
            "memory-pressure",
            "Memory is short: some program waited for it 23 % of the time.",
            replace(IDLE, pressure=Pressure(memory_pct=23.0)),
            {},
        ),
        (
            "io-pressure",
            "The disk is slow to answer: some program waited for it 34 % of the time.",
            replace(IDLE, pressure=Pressure(io_pct=34.0)),
            {},
        ),
        (
            "steal",
            "The host takes this virtual machine's CPU time: steal 12 %.",
            of_cpu(steal_pct=12.0),
            {},
        ),
        ("not-clear", "Not clear: nothing is measured.", Machine(t=1, wall=1.0), {}),
    ],
)
def test_each_rule_says_what_was_measured(rule, text, sample, options):
    limit = reported(sample, gpu_index=None, **options)
    assert (limit.rule, limit.text) == (rule, text)


@pytest.mark.parametrize(
    ("rule", "text", "changes"),
    [
        ("gpu", "is busy: 97 % of the time, at 90 of 120 W", {}),
        ("gpu", "is busy: 97 % of the time", {"power_w": None}),
        (
            "gpu",
            "is busy: 95 % of the time, at 90 of 300 W",
            {"utilization_pct": 95, "power_limit_w": 300.0},
        ),
        (
            "gpu-near-power",
            "works near its power limit: 97 % of the time, 286 of 300 W",
            {"power_w": 286.0, "power_limit_w": 300.0},
        ),
        (
            "gpu-power-cap",
            "is slowed by its power cap: 118 of 120 W, busy 97 % of the time",
            {"power_w": 118.0, "throttle": ("power cap",)},
        ),
        (
            "gpu-power-brake",
            "is slowed by an external power brake: HW power brake (external), 90 of 120 W, "
            "busy 97 % of the time",
            {"throttle": ("hardware slowdown", "power brake")},
        ),
        (
            "gpu-thermal",
            "is slowed by heat: SW thermal slowdown at 61 °C, 90 of 120 W, busy 85 % of the time",
            {"utilization_pct": 85, "throttle": ("thermal slowdown",)},
        ),
        (
            "gpu-thermal",
            "is slowed by heat: HW thermal slowdown at 61 °C, 90 of 120 W, busy 97 % of the time",
            {"throttle": ("hardware slowdown", "hardware thermal slowdown")},
        ),
        (
            "gpu-thermal",
            "is slowed by heat: SW thermal slowdown at 61 °C, SW power cap, 90 of 120 W, "
            "busy 97 % of the time",
            {"throttle": ("power cap", "thermal slowdown")},
        ),
        (
            "gpu-thermal",
            "is slowed by heat: SW thermal slowdown at 61 °C, 90 of 120 W",
            {"utilization_pct": None, "throttle": ("thermal slowdown",)},
        ),
        (
            "gpu-slowdown",
            "is slowed by its hardware: HW slowdown, 90 of 120 W, busy 97 % of the time",
            {"throttle": ("hardware slowdown",)},
        ),
        *(
            ("gpu", "is busy: 97 % of the time, at 90 of 120 W", {"throttle": reasons})
            for reasons in (("clock setting",), ("sync boost",), None)
        ),
    ],
)
def test_of_a_gpu_it_says_how_busy_it_is_and_what_slows_it(rule, text, changes):
    limit = reported(with_gpu(**changes))
    assert (limit.rule, limit.text) == (rule, f"GPU 0 {text}.")


@pytest.mark.parametrize(
    "sample",
    [
        with_gpu(utilization_pct=85),
        with_gpu(utilization_pct=30, throttle=("power cap",)),
        with_gpu(index=1),
        with_gpu(utilization_pct=40),
        of_cpu(throttled_pct=1.0),
        of_cpu(steal_pct=2.0),
        replace(IDLE, memory=Memory(swap_mib_s=0.2)),
        replace(IDLE, pressure=Pressure(memory_pct=1.0, io_pct=5.0, cpu_pct=100.0)),
        replace(IDLE, pressure=Pressure(why={"io_pct": "not reported here"})),
        on_cores(4, run=1.0, others=0.1),
    ],
)
def test_little_trouble_is_no_evidence(sample):
    assert reported(sample).rule == "not-clear"


@pytest.mark.parametrize(
    ("rule", "sample", "options"),
    [
        ("other-programs", on_cores(4, run=1.0, others=1.5), {}),
        ("other-programs", on_cores(4, run=3.7, others=0.2), {}),
        ("other-programs", on_cores(2, run=1.0, others=1.0), {"cpus": 1}),
        ("other-programs", on_cores(2, run=0.8, others=0.0, steal=1.2), {}),
        ("cpu", on_cores(4, run=2.0, others=2.0), {}),
        ("cpu", on_cores(16, 1.0, 3.0), {"facts": MachineFacts(cores=16, cpu_limit=1.5)}),
        ("threads", on_cores(4, run=1.0, others=0.1), {"threads": 2}),
        ("threads", on_cores(4, run=2.9, others=0.1), {"threads": 2}),
        ("threads", on_cores(4, run=2.0, others=2.0), {"threads": 2}),
        ("threads", on_cores(4, run=2.0, others=0.1), {"threads": 2, "cpus": 2}),
        ("threads", on_cores(4, run=2.0, others=0.1), {}),
        ("threads", on_cores(4, run=2.0, others=0.1), {"threads": "2"}),
        ("thread", full_thread(on_cores(2, run=1.0, others=0.9)), {}),
        ("thread", full_thread(with_gpu()), {"gpu_index": 0}),
        *(
            ("gpu-shared", on_gpu(**changes), {"gpu_index": 0})
            for changes in (
                *({"of_run": True}, {"gpus": (1,)}, {"gpu_memory_mib": 40}),
                {"of_run": None, "why": {"of_run": "the driver reports the host's pid"}},
                {"gpu_memory_mib": None},
            )
        ),
    ],
)
def test_what_takes_nothing_from_the_run_is_no_evidence(rule, sample, options):
    facts = options.get("facts", MachineFacts(cores=len(sample.cpu.cores)))
    options = {"gpu_index": None, **options, "facts": facts}
    assert rule not in rules(reported(sample, **options))


def test_a_program_is_named_by_what_it_took_over_the_whole_window():
    def rows(busy, idle):
        return replace(SMALL, command="first", cpu_pct=busy), replace(PYTEST, cpu_pct=idle)

    samples = [others(*rows(120.0, 0.0))] * 20 + [others(*rows(0.0, 100.0))] * 5
    assert "most: first, pid 1" in find_limit(samples, TWO, None).text


def test_before_training_only_what_is_taken_from_the_run_is_said():
    limit = limit_before_training([look_before_training(samples_of(others(), MIN_SAMPLES), TWO)])
    assert limit.rule == "other-programs"
    assert limit.text == "Other programs take the CPU: 1.2 of 2 cores, this run 0.8."
    # It imports on one core, or compiles on both: that says nothing of how it will train.
    for run in (1.0, 1.95):
        alone = samples_of(on_cores(2, run=run, others=0.05), MIN_SAMPLES)
        assert limit_before_training([look_before_training(alone, TWO)]) is None


@given(
    st.integers(1, 64),
    st.floats(0, 1),
    st.floats(0, 1),
    st.none() | st.integers(1, 64),
    st.none() | st.floats(0.1, 64),
    st.none() | st.integers(1, 64),
)
def test_the_cpus_are_never_claimed_for_a_run_that_takes_less_than_half_of_them(
    cores, own_share, others_share, cpus, cpu_limit, threads
):
    allowed = min(cores, cpus or cores, cpu_limit or cores)
    own = own_share * allowed
    sample = on_cores(cores, run=own, others=others_share * (cores - own))
    facts = MachineFacts(cores=cores, cpu_limit=cpu_limit)
    limit = reported(sample, facts, None, cpus=cpus, threads=threads)
    if own < allowed / 2:
        assert "cpu" not in rules(limit)
        assert "The run keeps all" not in limit.text
    if own >= 0.91 * allowed:
        assert "cpu" in rules(limit)


def test_a_reason_counts_where_most_readings_report_it_and_then_says_in_how_many():
    hot = with_gpu(throttle=("thermal slowdown", "hardware thermal slowdown"))
    cool = with_gpu()
    assert find_limit([hot] * 9 + [cool] * 21, FACTS, 0).rule == "gpu"
    mostly = find_limit([hot] * 21 + [cool] * 9, FACTS, 0)
    assert mostly.rule == "gpu-thermal"
    assert "at 61 °C in 70 % of readings" in mostly.text


# As read beside an H100: of PyTorch's two threads, one computes the gradients.
@pytest.mark.parametrize(
    ("thread_pct", "process_pct", "gpu_pct", "said"),
    [
        (
            100.0,
            None,
            40,
            "thread at 100 % of a core, GPU 0 at 40 %",
        ),
        (
            51.0,
            99.8,
            26,
            "process at 100 % of a core, GPU 0 at 26 %",
        ),
        (
            81.0,
            101.0,
            12,
            "process at 101 % of a core, GPU 0 at 12 %",
        ),
        (81.0, 101.0, 97, None),
        (32.0, 211.0, 85, None),
        (51.0, 60.0, 26, None),
        (51.0, None, 26, None),
    ],
)
def test_threads_of_one_process_that_take_turns_fill_one_core(
    thread_pct, process_pct, gpu_pct, said
):
    tree = ProcessTree(
        cpu_pct=110.0, busiest_thread_pct=thread_pct, busiest_process_pct=process_pct
    )
    limit = reported(replace(with_gpu(utilization_pct=gpu_pct), process=tree))
    assert (", ".join(limit.evidence[0].figures) if limit.rule == "thread" else None) == said


def test_another_program_on_the_gpu_is_named():
    limit = reported(on_gpu())
    assert rules(limit) == ["gpu", "gpu-shared"]
    assert limit.text.endswith("Another program is on GPU 0: blender, pid 4711, has 3.2 GiB.")


TROUBLES = {
    "gpu": lambda s: replace(s, gpus=(BUSY_GPU,)),
    "cpu-quota": lambda s: replace(s, cpu=replace(s.cpu, throttled_pct=60.0)),
    "swap": lambda s: replace(s, memory=Memory(swap_mib_s=25.0)),
    "memory-pressure": lambda s: replace(s, pressure=_with(s.pressure, memory_pct=23.0)),
    "steal": lambda s: replace(s, cpu=replace(s.cpu, steal_pct=12.0)),
    "io-pressure": lambda s: replace(s, pressure=_with(s.pressure, io_pct=34.0)),
}


def _with(pressure, **changes):
    return replace(pressure or Pressure(), **changes)


@pytest.mark.parametrize(
    "holding",
    [names for count in range(7) for names in itertools.combinations(TROUBLES, count)],
    ids=lambda names: "+".join(names) or "none",
)
def test_no_rule_hides_another(holding):
    sample = IDLE
    for name in holding:
        sample = TROUBLES[name](sample)
    limit = reported(sample)
    assert rules(limit) == list(holding)
    in_full, in_short = limit.evidence[:2], limit.evidence[2:]
    assert all(f"{evidence.text}." in limit.text for evidence in in_full)
    assert all(evidence.brief in limit.text.partition("Also: ")[2] for evidence in in_short)


# ---- what to try ----

SIXTEEN = MachineFacts(cores=16)
SMALL_GPU = MachineFacts(cores=4, gpus=(GpuFacts(0, "GTX", memory_mib=24 * 1024),))
FEW_WATTS = {"utilization_pct": 95, "power_limit_w": 300.0}
IDLE_CORES_OF_16 = on_cores(16, run=1.5, others=0.2)
WAITS = {"waited_share": 0.4, "workers": 2}
FULL = on_cores(4, run=3.92, others=0.05)
THREAD_BESIDE_GPU = full_thread(with_gpu(utilization_pct=40, memory_used_mib=1229), 99.0)


def swapping(rss_mib):
    tree = ProcessTree(cpu_pct=110.0, rss_mib=rss_mib)
    return replace(IDLE, memory=Memory(used_mib=15_360, swap_mib_s=25.0), process=tree)


@pytest.mark.parametrize(
    ("rule", "advice", "sample", "options"),
    [
        *(
            ("data-wait", advice, sample, {**WAITS, "facts": SIXTEEN, "gpu_index": 0, **options})
            for advice, sample, options in (
                ("use more loader workers: 2 used, 14 cores idle", IDLE_CORES_OF_16, {}),
                (
                    "load the data in worker processes: num_workers is 0; try 2 (14 cores idle)",
                    IDLE_CORES_OF_16,
                    {"workers": 0},
                ),
                ("", IDLE_CORES_OF_16, {"workers": None}),
                (
                    "prepare the data before the run: no core is free to do it during training",
                    on_cores(16, run=1.9, others=0.2),
                    {"cpus": 2},
                ),
                (
                    "stop other programs: they take 2.3 cores",
                    on_cores(4, run=1.6, others=2.3),
                    {"facts": FACTS},
                ),
                (
                    "keep the data in memory or on a faster disk: "
                    "some program waited for a disk 34 % of the time",
                    replace(IDLE_CORES_OF_16, pressure=Pressure(io_pct=34.0)),
                    {},
                ),
            )
        ),
        *(
            ("gpu", advice, sample, {"facts": facts, "gpu_index": 0})
            for advice, facts, sample in (
                (
                    "use a larger batch: 1.2 of 24.0 GiB used",
                    SMALL_GPU,
                    with_gpu(**FEW_WATTS, memory_used_mib=1229),
                ),
                ("", SMALL_GPU, with_gpu(**FEW_WATTS, memory_used_mib=23_000)),
                ("", FACTS, with_gpu(**FEW_WATTS, memory_used_mib=1229)),
                ("", SMALL_GPU, with_gpu(utilization_pct=95, memory_used_mib=1229)),
            )
        ),
        # Where it may load data, that may be what keeps the thread busy.
        *(
            (
                "thread",
                advice,
                THREAD_BESIDE_GPU,
                {"facts": SMALL_GPU, "gpu_index": 0, "waited_share": share},
            )
            for share, advice in ((0.02, "use a larger batch: 1.2 of 24.0 GiB used"), (None, ""))
        ),
        (
            "gpu-thermal",
            "cool the GPU better: 91 °C, fan at 40 %",
            with_gpu(throttle=("thermal slowdown",), temperature_c=91, fan_pct=40),
            {"gpu_index": 0},
        ),
        (
            "gpu-power-cap",
            "raise the power limit: from 120 W, if the card allows more",
            with_gpu(power_w=118.0, throttle=("power cap",)),
            {"gpu_index": 0},
        ),
        ("gpu-power-cap", "", with_gpu(power_w=70.0, throttle=("power cap",)), {"gpu_index": 0}),
        (
            "cpu",
            "give the run more CPUs: 1 used, 6 cores idle",
            on_cores(8, run=0.97, others=0.1),
            {"facts": MachineFacts(cores=8), "cpus": 1},
        ),
        (
            "threads",
            "use more than --threads 1: 0.9 cores are idle",
            on_cores(2, run=1.02, others=0.1),
            {"facts": TWO, "threads": 1},
        ),
        (
            "cpu",
            "raise the container's CPU limit of 1.5 cores: 11 cores idle",
            on_cores(16, run=1.48, others=3.0),
            {"facts": MachineFacts(cores=16, cpu_limit=1.5)},
        ),
        ("cpu", "", replace(FULL, gpus=()), {}),
        (
            "cpu",
            "train on GPU 0, if the framework can use it: at most 0 % busy",
            replace(FULL, gpus=(replace(BUSY_GPU, utilization_pct=0),)),
            {},
        ),
        ("cpu", "", replace(FULL, gpus=(BUSY_GPU,)), {}),
        (
            # It may train on that GPU.
            "cpu",
            "",
            replace(FULL, gpus=(replace(BUSY_GPU, utilization_pct=0),)),
            {"on_cpu": False},
        ),
        (
            "other-programs",
            "end or pause pytest (pid 32614): it takes 1.0 cores",
            others(PYTEST),
            {"facts": TWO},
        ),
        ("swap", "make this run use less memory: 12.0 of 15.0 GiB in use", swapping(12_288), {}),
        (
            "swap",
            "end programs that hold memory: this run 1.0 of 15.0 GiB in use",
            swapping(1_024),
            {},
        ),
    ],
)
def test_what_is_advised_is_what_the_readings_speak_for(rule, advice, sample, options):
    limit = reported(sample, **{"gpu_index": None, **options})
    assert {one.rule: one.advice for one in limit.evidence}[rule] == advice
    assert limit.advice == limit.evidence[0].advice


@pytest.mark.parametrize(
    ("kind", "headline", "figures", "limit"),
    [
        (
            LimitKind.OTHERS,
            "Other programs take the CPU",
            ("1.2 of 2 cores (most: pytest, pid 32614)", "this run 0.8"),
            reported(others(PYTEST), TWO, None),
        ),
        (
            LimitKind.DATA,
            "Waiting for data",
            ("40 % of the last 30 s", "this run 1.5 of 16 cores", "other programs 0.2 cores"),
            reported(IDLE_CORES_OF_16, SIXTEEN, None, **WAITS),
        ),
        (
            LimitKind.GPU,
            "GPU 0 is slowed by heat",
            ("SW thermal slowdown at 61 °C", "90 of 120 W"),
            reported(with_gpu(throttle=("thermal slowdown",))),
        ),
        (
            LimitKind.GPU,
            "GPU 0 is busy",
            ("95 % of the time", "at 90 of 300 W"),
            reported(with_gpu(**FEW_WATTS)),
        ),
    ],
)
def test_the_same_stands_in_a_headline_and_figures(kind, headline, figures, limit):
    assert (limit.kind, limit.headline) == (kind, headline)
    assert limit.figures[: len(figures)] == figures


# ---- a GPU that gives no readings any more ----


def unread(sample, reason, state=None):
    return replace(sample, gpus=(Gpu(0, state=state, why={"utilization_pct": reason}),))


CAPPED = with_gpu(power_w=118.0, throttle=("power cap",))
HUNG = replace(CAPPED, gpus=None, gpus_state=GpuState.LOST, why={"gpus": "lost: no sample for 3 s"})


def seen(*samples, **options):
    timed = [replace(sample, t=second * SECOND) for second, sample in enumerate(samples)]
    return find_limit(timed, FACTS, 0, **options)


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (unread(CAPPED, "lost", GpuState.LOST), "lost"),
        (unread(CAPPED, "asleep (runtime power management)"), "asleep (runtime power management)"),
        (HUNG, "lost: no sample for 3 s"),
        (replace(CAPPED, gpus=()), "no reason known"),
    ],
    ids=["lost", "asleep", "hung", "not reported"],
)
def test_of_a_gpu_that_gives_no_readings_nothing_is_said_that_it_did(gone, reason):
    limit = seen(*[CAPPED] * 20, gone)
    assert rules(limit) == ["gpu-lost"]
    assert limit.text == f"GPU 0 gives no readings now: {reason}."
    assert limit.figures[0] == reason
    assert limit.advice == ""
    assert "power cap" not in " ".join((limit.text, *limit.figures))
    # Also where that comes after the training that is looked at.
    assert rules(seen(*[CAPPED] * 20, latest=gone)) == ["gpu-lost"]
    # Of a run that is over it is said what it did.
    assert rules(seen(*[CAPPED] * 20, gone, ended=True)) == ["gpu-power-cap"]


def test_a_gpu_that_is_back_is_spoken_of_again():
    assert rules(seen(*[CAPPED] * 20, HUNG, HUNG, CAPPED)) == ["gpu-power-cap"]


def test_a_gpu_that_stays_lost_is_called_so_and_one_that_was_never_read_is_not():
    assert rules(seen(*[HUNG] * 40)) == ["gpu-lost"]
    assert rules(seen(*[unread(CAPPED, "not supported")] * 40)) == []
    partly = with_gpu(utilization_pct=None)
    assert "gpu-lost" not in rules(seen(*[CAPPED] * 20, partly))


# ---- whether the run wants the CPU that others take ----


def waits_for_cpu(sample, pct, thread_pct=50.0):
    tree = replace(sample.process, cpu_wait_pct=pct, busiest_thread_pct=thread_pct)
    return replace(sample, process=tree)


def test_a_loader_that_sleeps_is_given_workers_whatever_others_do():
    busy = waits_for_cpu(on_cores(2, run=0.04, others=1.9), 2.0)
    limit = reported(busy, MachineFacts(cores=2), None, waited_share=0.89, workers=0)
    assert rules(limit) == ["data-wait"]
    assert (
        limit.advice
        == "load the data in worker processes: num_workers is 0; try 2 (this run 0.0 of 2 cores)"
    )
    more = reported(busy, MachineFacts(cores=2), None, waited_share=0.89, workers=1)
    assert more.advice == "use more loader workers: 1 used, this run 0.0 of 2 cores"
    # Whose workers are isn't known.
    unknown = reported(busy, MachineFacts(cores=2), None, waited_share=0.89, workers=None)
    assert unknown.advice == ""


def test_a_loader_that_wants_the_cpu_is_not_given_workers_that_would_have_none():
    hungry = waits_for_cpu(on_cores(2, run=0.7, others=1.3), 33.0)
    limit = reported(hungry, MachineFacts(cores=2), None, waited_share=0.9, workers=0)
    assert limit.evidence[0].advice == "stop other programs: they take 1.3 cores"
    assert rules(limit) == ["data-wait", "other-programs"]


def test_workers_that_wait_for_a_cpu_are_not_joined_by_more():
    hungry = waits_for_cpu(on_cores(4, run=1.2, others=2.8), 60.0)
    limit = reported(hungry, FACTS, None, waited_share=0.9, workers=4)
    assert limit.evidence[0].advice == "stop other programs: they take 2.8 cores"


def test_a_run_that_spreads_its_work_over_threads_wants_more_than_its_busiest_one_had():
    # As was measured of TensorFlow on two busy cores.
    spread = waits_for_cpu(on_cores(2, run=0.9, others=1.1), 23.1, thread_pct=23.7)
    limit = reported(spread, MachineFacts(cores=2), None)
    assert limit.headline == "Other programs take the CPU"
    assert limit.figures == ("1.1 of 2 cores", "this run 0.9, waits for a CPU 23 % of the time")
    assert limit.advice == "stop other programs: they take 1.1 cores"
    # To one that uses as much and waits for nothing they are not named.
    content = waits_for_cpu(on_cores(2, run=0.9, others=1.1), 3.0, thread_pct=23.7)
    assert rules(reported(content, MachineFacts(cores=2), None)) == []


def test_a_run_that_does_not_want_the_cpu_names_nobody():
    row = Process(5802, command="python k.py", cpu_pct=50.0, of_run=False)
    for sample in (
        waits_for_cpu(on_cores(2, run=0.1, others=1.9, processes=(row,)), 3.0),
        # As was measured of one that sleeps 50 ms per batch, beside four programs on two cores.
        waits_for_cpu(on_cores(2, run=0.1, others=1.9, processes=(row,)), 17.0, thread_pct=9.0),
        on_cores(2, run=0.1, others=1.9, processes=(row,)),
    ):
        limit = reported(sample, MachineFacts(cores=2), None, unmeasured="it is not measured")
        assert limit.rule == ("idle" if sample.process.cpu_wait_pct else "not-clear")
        assert "k.py" not in limit.text + limit.advice
        assert "it is not measured" in limit.text
        assert "it is not measured" in limit.figures


def test_a_run_that_uses_little_and_wants_no_cpu_waits_for_something_else():
    idle = waits_for_cpu(on_cores(4, run=0.1, others=0.2), 2.0, thread_pct=8.0)
    limit = reported(idle, FACTS, None)
    assert limit.text == "The run waits for something other than a CPU: this run 0.1 of 4 cores."
    assert limit.advice.startswith("find what it waits for: data, a disk, the network")
    assert limit.kind is LimitKind.WAITING
    assert limit.figures == ("this run 0.1 of 4 cores",)
    hidden = reported(idle, FACTS, None, unmeasured="waiting for data is not measured")
    assert hidden.figures == ("this run 0.1 of 4 cores", "waiting for data is not measured")
    assert reported(idle, FACTS, None, ended=True).headline == (
        "The run waited for something other than a CPU"
    )


@pytest.mark.parametrize(
    "sample",
    [
        # Half a core is work; what wants one is not idle; where none is free, nobody knows.
        waits_for_cpu(on_cores(4, run=0.6, others=0.2), 2.0, thread_pct=40.0),
        waits_for_cpu(on_cores(4, run=0.3, others=0.2), 30.0, thread_pct=25.0),
        on_cores(2, run=0.1, others=1.9),
    ],
    ids=["works", "wants a CPU", "nobody knows"],
)
def test_a_run_that_works_or_may_want_a_cpu_is_not_called_idle(sample):
    limit = reported(sample, MachineFacts(cores=len(sample.cpu.cores)), None)
    assert "idle" not in rules(limit)


def test_a_run_that_keeps_its_gpu_at_work_is_not_called_idle():
    idle = waits_for_cpu(on_cores(4, run=0.1, others=0.2), 2.0, thread_pct=8.0)
    for utilization_pct, is_idle in ((3, True), (60, False)):
        gpu = replace(BUSY_GPU, utilization_pct=utilization_pct)
        assert ("idle" in rules(reported(replace(idle, gpus=(gpu,))))) is is_idle


@pytest.mark.parametrize("gpu_index", [None, 0])
def test_a_run_whose_gpu_is_not_read_is_not_called_idle(gpu_index):
    idle = waits_for_cpu(on_cores(8, run=0.3, others=0.2), 2.0, thread_pct=8.0)
    facts = MachineFacts(cores=8)
    for gpus in (None, (replace(BUSY_GPU, index=1),)):
        sample = replace(idle, gpus=gpus)
        assert reported(sample, facts, gpu_index, on_cpu=False).rule == "not-clear"


def test_a_run_that_waits_for_the_cpu_says_how_long():
    waits = waits_for_cpu(on_cores(2, run=0.7, others=1.3), 34.0)
    limit = reported(waits, MachineFacts(cores=2), None)
    assert limit.text == (
        "Other programs take the CPU: 1.3 of 2 cores, this run 0.7, "
        "waits for a CPU 34 % of the time."
    )
    assert limit.figures == ("1.3 of 2 cores", "this run 0.7, waits for a CPU 34 % of the time")
    assert limit.advice == "stop other programs: they take 1.3 cores"


def test_what_the_threads_did_while_it_was_started_is_not_laid_on_the_training():
    row = Process(5802, command="python k.py", cpu_pct=50.0, of_run=False)
    trains = on_cores(2, run=0.2, others=1.8, processes=(row,))
    starting = [waits_for_cpu(trains, 80.0, thread_pct=90.0)] * 8
    samples = [*starting, *[waits_for_cpu(trains, 2.0, thread_pct=15.0)] * 12]
    for count in range(MIN_SAMPLES, len(samples) + 1):
        timed = [replace(one, t=second * SECOND) for second, one in enumerate(samples[:count])]
        limit = find_limit(timed, MachineFacts(cores=2), None, on_cpu=True)
        # What is of the training alone is known from the ninth second on.
        assert limit.rule == ("not-clear" if count < 9 + MIN_SAMPLES else "idle")
        assert "5802" not in limit.text + limit.advice
        assert "80 %" not in limit.text


INTERVALS_S = [0.1, 0.5, 1, 2, 2.4, 3, 4, 4.7, 4.76, 4.9, 4.99, 5, 5.6, 6, 10, 30, 60]


def read_by_sensors(interval_s, late_s, began_s):
    """Return the samples of the window of one that trains; slow readings came from `began_s` on.

    They say 90 % of what began before the first sample, and 0 % of all that came since.
    """
    trains = waits_for_cpu(on_cores(8, run=0.6, others=7.3), 0.0, thread_pct=60.0)
    window = window_s(interval_s)
    # The last is on time, so that the first may be just outside the window.
    count = int(window / interval_s)
    late = [late_s * (-1) ** (count - number) for number in range(count + 1)]
    times_ns = [int((n * interval_s + by) * SECOND) for n, by in enumerate(late)]
    first_ns = next(t for t in times_ns if t >= times_ns[-1] - window * SECOND)
    period = math.ceil(5 / interval_s)
    samples = []
    for number, t in enumerate(times_ns):
        # It stands since the last slow reading, and is of the time since the one before that.
        read = number - (number - began_s) % period
        begins_ns = (read - period) * interval_s * SECOND
        pct = 90.0 if begins_ns < first_ns - interval_s * SECOND / 2 else 0.0
        thread_pct = 90.0 if pct else 60.0
        if t >= first_ns:
            samples.append(replace(waits_for_cpu(trains, pct, thread_pct), t=t))
    return samples


@pytest.mark.parametrize("interval_s", INTERVALS_S)
def test_how_long_it_waited_for_a_cpu_is_known_at_any_interval(interval_s):
    for late_s, began_s in itertools.product([0.0, 0.02], range(5)):
        samples = read_by_sensors(interval_s, late_s, began_s)
        limit = find_limit(samples, MachineFacts(cores=8), None, on_cpu=True, interval_s=interval_s)
        assert limit.text.startswith("Not clear: ")
        assert "waited for a CPU 0 % of the time" in limit.text
        assert "busiest thread 60 % of a core" in limit.text


def test_a_thread_that_was_busy_while_it_was_started_is_not_laid_on_the_training():
    trains = replace(with_gpu(utilization_pct=40), process=ProcessTree(busiest_thread_pct=30.0))
    compiles = replace(trains, process=ProcessTree(busiest_thread_pct=100.0))
    samples = [*[compiles] * 8, *[trains] * 12]
    for count in range(MIN_SAMPLES, len(samples) + 1):
        timed = [replace(one, t=second * SECOND) for second, one in enumerate(samples[:count])]
        limit = find_limit(timed, FACTS, 0)
        assert "thread" not in rules(limit)
        is_known = count >= 9 + MIN_SAMPLES
        assert ("busiest thread 30 % of a core" in limit.figures) is is_known
        assert is_known or "busiest thread" not in limit.text


def test_a_wait_that_may_be_that_of_the_containers_own_limit_is_not_laid_on_others():
    stopped = waits_for_cpu(on_cores(2, run=0.2, others=1.8), 50.0)
    stopped = replace(stopped, cpu=replace(stopped.cpu, throttled_pct=60.0))
    facts = MachineFacts(cores=2, cpu_limit=0.3)
    assert rules(reported(stopped, facts, None)) == ["cpu-quota"]


@given(
    st.integers(1, 64),
    st.floats(0, 1),
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 1),
    st.none() | st.integers(0, 8),
)
def test_others_are_only_named_to_a_run_that_wants_the_cpu(
    cores, own_share, wait_pct, thread_pct, waited_share, workers
):
    own = own_share * cores
    row = Process(5802, command="python k.py", cpu_pct=100.0, of_run=False)
    sample = waits_for_cpu(
        on_cores(cores, own, cores - own, processes=(row,)), wait_pct, thread_pct
    )
    facts = MachineFacts(cores=cores)
    limit = reported(sample, facts, None, waited_share=waited_share, workers=workers)
    had_pct = max(100 * min(1.0, own), thread_pct or 0.0)
    wants = own >= 0.5 if wait_pct is None else wait_pct >= 10 and had_pct + wait_pct >= 49.9
    if not wants:
        assert "other-programs" not in rules(limit)
        assert "5802" not in limit.text + limit.advice
        assert "other programs" not in limit.advice


# ---- after the end ----


def test_what_limited_a_run_that_is_over_is_shown_as_what_was():
    row = Process(32614, command="ffmpeg", cpu_pct=98.0, of_run=False)
    sample = on_cores(2, 0.8, 1.2, processes=(row,))
    facts = MachineFacts(cores=2)
    others = reported(sample, facts, None, ended=True)
    assert others.headline == "Other programs took the CPU"
    assert others.text == (
        "Other programs took the CPU: 1.2 of 2 cores (most: ffmpeg, pid 32614), this run 0.8."
    )
    assert others.advice == "train without ffmpeg (pid 32614) beside it: it took 1.0 cores"
    waited = reported(sample, facts, None, waited_share=0.41, ended=True)
    assert waited.headline == "Waited for data"
    assert reported(with_gpu(), ended=True).headline == "GPU 0 was busy"


_OF_NOW = {"is", "are", "takes", "take", "keeps", "uses", "waits", "stops", "works", "has", "now"}


@pytest.mark.parametrize(
    ("sample", "options"),
    [
        (on_cores(2, 0.8, 1.2), {}),
        (waits_for_cpu(on_cores(2, 0.7, 1.3), 34.0), {"waited_share": 0.4}),
        (on_cores(4, 3.92, 0.05), {}),
        (on_cores(4, 1.96, 0.5), {"cpus": 2}),
        (on_cores(4, 1.0, 0.1), {"threads": 1}),
        (replace(on_cores(4, 2.0, 1.9), process=None), {}),
        (with_gpu(power_w=118.0, throttle=("power cap",)), {"gpu_index": 0}),
        (with_gpu(power_w=118.0), {"gpu_index": 0}),
        (replace(IDLE, cpu=replace(IDLE.cpu, throttled_pct=40.0)), {}),
        (replace(IDLE, cpu=replace(IDLE.cpu, steal_pct=12.0)), {}),
        (replace(IDLE, memory=Memory(used_mib=9_000, swap_mib_s=25.0)), {}),
        (replace(IDLE, pressure=Pressure(memory_pct=23.0, io_pct=34.0)), {}),
    ],
)
def test_nothing_of_a_run_that_is_over_is_shown_as_what_is(sample, options):
    options = {"gpu_index": None, **options}
    limit = reported(sample, ended=True, **options)
    assert limit.evidence
    said = " ".join([limit.text, limit.headline, *limit.figures])
    assert not _OF_NOW & set(said.replace(".", " ").replace(",", " ").split())
    assert reported(sample, **options).headline != limit.headline or limit.rule == "swap"


# ---- what isn't known ----


def test_too_few_samples_say_nothing():
    assert reported(IDLE, count=MIN_SAMPLES - 1) is None


def test_a_reading_of_few_samples_is_no_evidence():
    swapping = replace(IDLE, memory=Memory(swap_mib_s=100.0))
    unknown = replace(IDLE, memory=Memory(why={"swap_mib_s": "denied"}))
    few = [swapping] * (MIN_SAMPLES - 1) + [unknown] * 20
    assert find_limit(few, FACTS, None).rule == "not-clear"
    assert find_limit([swapping, *few], FACTS, None).rule == "swap"


def test_what_is_not_clear_has_its_figures():
    assert reported(with_gpu(utilization_pct=40)).text == (
        "Not clear: this run 1.1 of 4 cores, other programs 0.1 cores, GPU 0 40 %, "
        "busiest thread 50 % of a core."
    )
    without_process = replace(IDLE, process=None)
    assert reported(without_process).text == "Not clear: CPU 30 %."


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/python3.12 -X dev -u /srv/train.py --x", "train.py"),
        ("python -m pytest tests", "pytest"),
        ("python -P -m workloads", "dlmon run"),
        ("python -c code", "python"),
        ("bash /opt/job.sh", "job.sh"),
        ("/opt/blender/blender -b x", "blender"),
        ("[kworker/0:1]", "[kworker/0:1]"),
        ("", None),
        (None, None),
    ],
)
def test_a_program_is_called_what_a_person_calls_it(command, name):
    assert program_name(command) == name


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
                steal_pct=percent,
            ),
            memory=st.none() | st.builds(Memory, swap_mib_s=percent),
            pressure=st.none() | st.builds(Pressure, memory_pct=percent, io_pct=percent),
            process=st.none()
            | st.builds(
                ProcessTree,
                cpu_pct=percent,
                busiest_thread_pct=percent,
                busiest_process_pct=percent,
            ),
            processes=st.none()
            | st.lists(
                st.builds(
                    Process,
                    st.integers(1, 9),
                    command=st.none() | st.text(),
                    cpu_pct=percent,
                    of_run=st.none() | st.booleans(),
                    gpus=st.just(()) | st.just((0, 1)),
                    gpu_memory_mib=st.none() | st.integers(0, 9999),
                ),
                max_size=3,
            ).map(tuple),
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
    st.none() | st.integers(-2, 9) | st.just(10**400) | st.text(),
)
def test_any_readings_give_a_sentence_or_nothing(samples, gpu_index, option):
    limit = find_limit(samples, FACTS, gpu_index, cpus=option, threads=option)
    assert (limit is None) == (len(samples) < MIN_SAMPLES)
    if limit is not None:
        assert limit.text.endswith(".")
        assert clean(limit.text) == limit.text
        assert limit.rule == (limit.evidence[0].rule if limit.evidence else "not-clear")
        assert all(one.headline and one.figures and one.rule in KINDS for one in limit.evidence)
        said = (limit.headline, limit.advice, *limit.figures)
        assert all(clean(text) == text for text in said)


# ---- which of several leads, and when it changes ----


def beside(others, waited_pct, run=0.7):
    sample = on_cores(2, run=run, others=others)
    return replace(sample, process=replace(sample.process, cpu_wait_pct=waited_pct))


def test_what_took_the_largest_share_of_the_time_leads_and_the_advice_belongs_to_it():
    limit = reported(beside(1.3, 68.0), MachineFacts(cores=2), None, waited_share=0.27, workers=0)
    assert rules(limit)[:2] == ["other-programs", "data-wait"]
    assert limit.headline == "Other programs take the CPU"
    assert limit.advice == "stop other programs: they take 1.3 cores"
    limit = reported(beside(1.3, 22.0), MachineFacts(cores=2), None, waited_share=0.61, workers=0)
    assert limit.rule == "data-wait"


def test_a_gpu_that_is_busy_most_of_the_time_leads_before_a_wait_of_some():
    limit = reported(with_gpu(utilization_pct=96), waited_share=0.12)
    assert rules(limit) == ["gpu", "data-wait"]


def test_the_advice_is_that_of_what_leads_or_none():
    quiet = reported(with_gpu(utilization_pct=96), waited_share=0.12, workers=0)
    assert {one.rule: bool(one.advice) for one in quiet.evidence} == {
        "gpu": False,
        "data-wait": True,
    }
    assert quiet.advice == ""


def looks_at(*own_cores, **options):
    facts = MachineFacts(cores=2)
    return [
        look(samples_of(on_cores(2, run=own, others=0.05), 20), facts, None, on_cpu=True, **options)
        for own in own_cores
    ]


def test_near_its_threshold_a_verdict_stays():
    near = [1.82, 1.79, 1.81, 1.78, 1.80, 1.77]
    verdicts = [limit_of(looks_at(*near[: n + 1]), ended=False).rule for n in range(len(near))]
    assert set(verdicts) == {"cpu"}
    # Where it was never reached, what is near it is none.
    assert limit_of(looks_at(1.79, 1.78, 1.79), ended=False).rule != "cpu"


def test_it_changes_where_the_other_holds_for_a_while():
    assert limit_of(looks_at(1.9, 1.0), ended=False).rule == "cpu"
    assert limit_of(looks_at(1.9, 1.0, 1.0), ended=False).rule == "not-clear"
    assert limit_of(looks_at(1.9, 1.0, 1.9, 1.0), ended=False).rule == "cpu"


def test_of_two_that_take_about_as_much_the_one_that_led_leads():
    def leader(*waits):
        looks = [
            look(
                samples_of(beside(1.3, waited_pct), 20),
                MachineFacts(cores=2),
                None,
                waited_share=0.4,
                on_cpu=True,
            )
            for waited_pct in waits
        ]
        return limit_of(looks, ended=False).rule

    assert leader(38.0, 42.0, 38.0, 43.0) == "data-wait"
    assert leader(38.0, 52.0, 42.0, 38.0) == "other-programs"
    assert leader(38.0, 52.0, 42.0, 30.0) == "data-wait"


def test_a_gpu_that_works_near_its_power_limit_does_so_until_it_clearly_does_not():
    def headline(*power_w):
        looks = [
            look(samples_of(with_gpu(power_w=watts), 20), FACTS, 0, on_cpu=False)
            for watts in power_w
        ]
        return limit_of(looks, ended=False).headline

    assert headline(113.0) == "GPU 0 is busy"
    assert headline(115.0, 113.0) == "GPU 0 works near its power limit"
    assert headline(115.0, 113.0, 100.0) == "GPU 0 is busy"


# ---- one thread, and what waits ----


def under_pressure(**process):
    return replace(
        IDLE,
        pressure=Pressure(cpu_pct=0.0, memory_pct=40.0, io_pct=50.0),
        memory=Memory(used_mib=4000, swap_mib_s=20.0),
        process=replace(IDLE.process, **process),
    )


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        ({"read_mib_s": 0.0, "blocked": 0, "major_faults_s": 0.0}, []),
        ({"read_mib_s": 12.0, "blocked": 0, "major_faults_s": 0.0}, ["io-pressure"]),
        (
            {"read_mib_s": 0.0, "blocked": 0, "major_faults_s": 90.0},
            ["swap", "memory-pressure"],
        ),
        (
            {"read_mib_s": 0.0, "blocked": 1, "major_faults_s": 0.0},
            ["swap", "memory-pressure", "io-pressure"],
        ),
        ({}, ["swap", "memory-pressure", "io-pressure"]),
    ],
    ids=["another program waits", "it reads", "its pages are read", "it waits", "an older log"],
)
def test_pressure_counts_where_this_run_may_be_what_waits(process, expected):
    assert rules(reported(under_pressure(**process), gpu_index=None)) == expected


def test_faster_disks_are_advised_where_this_run_reads_from_one():
    def advised(read_mib_s):
        sample = under_pressure(read_mib_s=read_mib_s, blocked=0, major_faults_s=0.0)
        return reported(sample, gpu_index=None, waited_share=0.4, workers=2).advice

    assert "faster disk" in advised(20.0)
    assert "disk" not in advised(0.0)
