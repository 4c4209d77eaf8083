"""Each rule of what limits a run: what makes it true, what makes it false, and what it claims."""

import itertools
import math
from dataclasses import replace

import pytest
from fakes.strategies import of_type
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlmon.records import (
    CodeSamples,
    Cpu,
    Frame,
    Gpu,
    GpuFacts,
    GpuState,
    Machine,
    MachineFacts,
    Memory,
    Model,
    Pressure,
    Process,
    ProcessTree,
    SeenAt,
    StepParts,
)
from dlmon.records.sanitize import clean
from dlmon.session.limits.evidence import KINDS, Evidence
from dlmon.session.limits.find import RULES_OF_THE_START, RuleCheck, check_rules, limit_of, window_s
from dlmon.session.limits.rules import gpu_lost
from dlmon.session.limits.run_samples import MIN_SAMPLES, RunSamples
from dlmon.session.limits.time_parts import TimeShares

SECOND = 1_000_000_000
IDLE = Machine(
    t=1,
    wall=1.0,
    cpu=Cpu(pct=30.0, cores=(30, 30, 30, 30), steal_pct=0.0),
    memory=Memory(used_mib=4000, swap_mib_s=0.0),
    process=ProcessTree(cpu_pct=110.0, busiest_thread_pct=50.0),
    gpus=(),
)
BUSY_GPU = Gpu(
    index=0, utilization_pct=97, power_w=90.0, power_limit_w=120.0, temperature_c=61, throttle=()
)
FACTS, TWO, SIXTEEN = (MachineFacts(cores=cores) for cores in (4, 2, 16))
SMALL_GPU = MachineFacts(cores=4, gpus=(GpuFacts(0, "GTX", memory_mib=24 * 1024),))
LIMITED = MachineFacts(cores=16, cpu_limit=1.5)
PYTEST = Process(32614, command="/usr/bin/python3 -m pytest -x", cpu_pct=98.0, of_run=False)
SMALL = Process(1, command="small", cpu_pct=5.0, of_run=False)
KERAS = Process(5802, command="python k.py", cpu_pct=50.0, of_run=False)


def samples_of(sample, count=20):
    return [replace(sample, t=second * SECOND) for second in range(count)]


def find_limit(samples, facts=FACTS, gpus=(), *, is_over=False, latest=None, **known):
    if len(samples) < MIN_SAMPLES:
        return limit_of((), is_over)
    lost = gpu_lost(samples, latest or samples[-1], gpus, is_over)
    looked = check_rules(
        RunSamples(samples, facts, gpus, is_over=is_over, is_lost=lost is not None, **known)
    )
    return limit_of((looked,), is_over, (lost,))


def reported(sample, *, count=20, gpu=None, **options):
    """Return the limit by so many like samples, of a machine with as many cores as they have."""
    cores = sample.cpu.cores if sample.cpu else None
    options.setdefault("facts", MachineFacts(cores=len(cores or range(4))))
    options.setdefault("on_cpu", gpu is None)
    return find_limit(samples_of(sample, count), gpus=() if gpu is None else (gpu,), **options)


def rules(limit):
    return [evidence.rule for evidence in limit.evidence]


def with_gpu(**changes):
    return replace(IDLE, gpus=(replace(BUSY_GPU, **changes),))


def on_cores(count, run, others, *, steal=0.0, wait_pct=None, thread_pct=50.0, **changes):
    """Return a sample of a machine where a run and others take so many cores."""
    busy = run + others + steal
    pct = 100 * busy / count
    return replace(
        IDLE,
        cpu=Cpu(pct=pct, cores=(round(pct),) * count, steal_pct=100 * steal / count),
        process=ProcessTree(
            cpu_pct=100 * run, busiest_thread_pct=thread_pct, cpu_wait_pct=wait_pct
        ),
        **changes,
    )


def of_cpu(**changes):
    return replace(IDLE, cpu=replace(IDLE.cpu, **changes))


def beside(*rows, run=0.8, count=2, **changes):
    """Return a sample of a machine of which others take what a run leaves."""
    return on_cores(count, run, count - run, processes=rows, **changes)


def swapping(rss_mib):
    tree = ProcessTree(cpu_pct=110.0, rss_mib=rss_mib)
    return replace(IDLE, memory=Memory(used_mib=15_360, swap_mib_s=25.0), process=tree)


def on_gpu(**changes):
    row = Process(4711, command="blender", gpus=(0,), gpu_memory_mib=3277, of_run=False)
    return replace(with_gpu(), processes=(replace(row, **changes),))


def with_thread(pct=99.0, **gpu):
    sample = with_gpu(**gpu)
    return replace(sample, process=replace(sample.process, busiest_thread_pct=pct))


# ---- what each rule says, and what to try ----

WAITS = on_cores(4, 0.1, 0.2, wait_pct=2.0, thread_pct=8.0)
IDLE_OF_16 = on_cores(16, run=1.5, others=0.2)
SLEEPS = on_cores(2, run=0.04, others=1.9, wait_pct=2.0)
FULL = on_cores(4, run=3.92, others=0.05)
FEW_WATTS = {"utilization_pct": 95, "power_limit_w": 300.0}


def said(text, sample, advice=None, **options):
    """Return a row: what is said of a sample, and what to try where no other row has it."""
    return text, advice, sample, options


def advised(sample, advice=None, **options):
    return None, advice, sample, options


def step(model=(), steps=20, **parts):
    """Return what is known of steps, a part in percent, and of what trains."""
    known = {"optimizer": "AdamW", "fused": False, "pin_memory": False, **dict(model)}
    parts = {"backward_us": 61, "optimizer_us": 5, **parts}
    # A step of 20 ms.
    times_us = {name: percent * steps * 200 for name, percent in parts.items()}
    return {
        "step_records": (StepParts(1, steps, 20_000 * steps, **times_us),),
        "model": Model(None, None, None, None, None, None, **known),
    }


SLEEP = SeenAt(94, Frame("/home/a/train.py", 41, "train"), Frame("/home/a/train.py", 41, "train"))

SAID = {
    "other-programs": [
        said(
            "CPU SHARED: other programs take 1.2 of 2 cores (most: pytest, pid 32614), this run "
            "0.8.",
            beside(Process(7, command="python3", cpu_pct=80.0, of_run=True), PYTEST),
            "end or pause pytest (pid 32614): it takes 1.0 cores",
        ),
        said(
            "CPU SHARED: other programs take 1.2 of 2 cores (0.4: small, pid 1), this run 0.8.",
            beside(replace(SMALL, cpu_pct=40.0)),
        ),
        *(
            said(
                "CPU SHARED: other programs take 1.2 of 2 cores, this run 0.8.",
                sample,
                "stop other programs: they take 1.2 cores",
            )
            for sample in (
                beside(replace(SMALL, cpu_pct=20.0)),
                beside(replace(SMALL, cpu_pct=99.0, of_run=None, why={"of_run": "not seen"})),
                beside(replace(PYTEST, command=None, why={"command": "it doesn't answer"})),
            )
        ),
        said(
            "CPU SHARED: others take 1.2 of 2 cores, this run 0.8.",
            replace(beside(), cpu=replace(beside().cpu, steal_pct=None)),
        ),
        said(
            "CPU SHARED 34 %: waiting for a CPU, other programs take 1.3 of 2 cores, this run 0.7.",
            beside(run=0.7, wait_pct=34.0),
            "stop other programs: they take 1.3 cores",
        ),
        said(
            "CPU SHARED 23 %: waiting for a CPU, other programs take 1.1 of 2 cores, this run 0.9.",
            beside(run=0.9, wait_pct=23.1, thread_pct=23.7),
            "stop other programs: they take 1.1 cores",
        ),
    ],
    "cpu": [
        said("CPU-BOUND 98 %: this run 3.9 of 4 cores, 0.0 idle.", FULL, ""),
        said(
            "CPU-BOUND 97 %: this run 1.0 of the 1 core that it may use, 6.9 idle.",
            on_cores(8, 0.97, 0.1),
            "give the run more CPUs: 1 used, 6 cores idle",
            cpus=1,
        ),
        said(
            "CPU-BOUND 98 %: this run 2.0 of the 2 cores that it may use, 1.5 idle.",
            on_cores(4, 1.96, 0.5),
            facts=TWO,
        ),
        said(
            "CPU-BOUND 99 %: this run 1.5 of the 1.5 cores that it may use, 11.5 idle.",
            on_cores(16, 1.48, 3.0),
            "raise the container's CPU limit of 1.5 cores: 11 cores idle",
            facts=LIMITED,
        ),
        advised(
            replace(FULL, gpus=(replace(BUSY_GPU, utilization_pct=0),)),
            "train on GPU 0, if the framework can use it: at most 0 % busy",
        ),
        advised(replace(FULL, gpus=(BUSY_GPU,)), ""),
        # It may train on that GPU.
        advised(replace(FULL, gpus=(replace(BUSY_GPU, utilization_pct=0),)), "", on_cpu=False),
    ],
    "cores": [
        said(
            "CPU BUSY 98 %: all 4 cores, the run's share isn't known.",
            replace(on_cores(4, 2.0, 1.9), process=None),
        )
    ],
    "not-clear": [
        said("NOT CLEAR: CPU 50 %.", replace(on_cores(4, 1.0, 1.0), process=None), ""),
        said(
            "NOT CLEAR: this run 1.0 of the 2 cores that it may use, other programs 0.1 cores, "
            "busiest thread 50 % of a core.",
            on_cores(4, 1.0, 0.1),
            "",
            cpus=2,
        ),
        said(
            "NOT CLEAR: this run 1.1 of 4 cores, 2.8 cores idle, other programs 0.1 cores, "
            "busiest thread 50 % of a core, GPU 0 40 %.",
            with_gpu(utilization_pct=40),
            "",
            gpu=0,
        ),
        said("NOT CLEAR: nothing is measured.", Machine(t=1, wall=1.0), ""),
        # Other threads take more time than the busiest one.
        said(
            "NOT CLEAR: this run 2.2 of 4 cores, 1.7 cores idle, other programs 0.1 cores, "
            "busiest thread 100 % of a core.",
            on_cores(4, 2.2, 0.1, thread_pct=100.0),
        ),
    ],
    "threads": [
        said(
            "FEW THREADS: 1.0 cores of CPU time with --threads 1, 0.9 of 2 cores idle.",
            on_cores(2, 1.02, 0.1),
            "use more than --threads 1: 0.9 cores are idle",
            threads=1,
        )
    ],
    "thread": [
        said(
            "ONE THREAD 100 %: one thread of the run fills a core, 0.9 of 2 cores idle.",
            on_cores(2, 1.0, 0.1, thread_pct=100.0),
        ),
        said(
            "ONE THREAD 100 %: one thread of the run fills a core, 2.1 of 4 cores idle.",
            on_cores(4, 1.8, 0.1, thread_pct=100.0),
        ),
        # Where it may load data, that may be what keeps the thread busy.
        *(
            advised(
                with_thread(utilization_pct=40, memory_used_mib=1229),
                advice,
                facts=SMALL_GPU,
                gpu=0,
                waited_share=share,
            )
            for share, advice in ((0.02, "use a larger batch: 1.2 of 24.0 GiB used"), (None, ""))
        ),
    ],
    "optimizer": [
        said(
            "OPTIMISER 45 %: 9.0 of 20.0 ms a step, AdamW is not fused.",
            on_cores(4, 1.0, 0.1),
            "step with AdamW(…, fused=True)",
            **step(backward_us=35, optimizer_us=45),
        ),
        said(
            "OPTIMISER 45 %: 9.0 of 20.0 ms a step.",
            on_cores(4, 1.0, 0.1),
            "",
            **step({"fused": True}, backward_us=35, optimizer_us=45),
        ),
    ],
    "copy": [
        said(
            "COPYING 44 %: 8.8 of 20.0 ms a step before the network runs, pin_memory is False.",
            with_gpu(utilization_pct=70),
            "load with pin_memory=True, and copy the batch with non_blocking=True",
            gpu=0,
            **step(copy_us=44, backward_us=30),
        )
    ],
    "own-code": [
        said(
            "YOUR CODE 67 %: 13.4 of 20.0 ms a step outside loader, network, optimiser.",
            on_cores(4, 1.0, 0.1),
            **step(backward_us=28),
        ),
        said(
            "YOUR CODE 67 %: train.py:41 in train: about 13 of the 13.4 ms.",
            on_cores(4, 1.0, 0.1),
            "take train.py:41 out of the loop, or run it every few steps",
            code=CodeSamples(1, 144, (SLEEP,)),
            **step(backward_us=28),
        ),
        # The line explains less than most of that share: the rest is spread, or in networks.
        said(
            "YOUR CODE 67 %: 13.4 of 20.0 ms a step outside loader, network, optimiser.",
            on_cores(4, 1.0, 0.1),
            code=CodeSamples(1, 94 * 3, (SLEEP,)),
            **step(backward_us=28),
        ),
    ],
    "collectives": [
        said(
            "COLLECTIVES 60 %: 12.0 of 20.0 ms a step sending to other ranks or waiting for them.",
            on_cores(4, 1.0, 0.1),
            **step(backward_us=28, collective_us=60),
        )
    ],
    "network": [
        said(
            "FORWARD AND BACKWARD 73 %: forward 2.4 and backward 12.2 of 20.0 ms a step.",
            on_cores(4, 1.0, 0.1),
            **step(forward_us=12),
        )
    ],
    "cpu-quota": [
        said(
            "CPU LIMIT: the container's limit stops the run in 40 % of periods.",
            of_cpu(throttled_pct=40.0),
        )
    ],
    "swap": [
        said(
            "SWAPPING 25 MiB/s: too little memory.",
            swapping(12_288),
            "make this run use less memory: 12.0 of 15.0 GiB in use",
        ),
        advised(swapping(1_024), "end programs that hold memory: this run 1.0 of 15.0 GiB in use"),
    ],
    "memory-pressure": [
        said(
            "SHORT OF MEMORY: some program waited for memory 23 % of the time.",
            replace(IDLE, pressure=Pressure(memory_pct=23.0)),
        )
    ],
    "io-pressure": [
        said(
            "SLOW DISK: some program waited for a disk 34 % of the time.",
            replace(IDLE, pressure=Pressure(io_pct=34.0)),
            "",
        )
    ],
    "steal": [
        said(
            "CPU STEAL 12 %: the host takes this virtual machine's CPU time.",
            of_cpu(steal_pct=12.0),
            "run it later, or elsewhere",
        )
    ],
    "idle": [
        said("WAITING: not for a CPU, this run 0.1 of 4 cores.", WAITS),
        said(
            "WAITING: not for a CPU, this run 0.1 of 4 cores, it is not measured.",
            WAITS,
            unmeasured="it is not measured",
        ),
        advised(replace(WAITS, gpus=(replace(BUSY_GPU, utilization_pct=3),)), gpu=0),
    ],
    "data-wait": [
        said(
            "DATA-BOUND 40 %: waiting for the next batch in the last 30 s.",
            IDLE_OF_16,
            "use more loader workers: 2 used, 14 cores idle",
        ),
        advised(
            IDLE_OF_16,
            "load the data in worker processes: num_workers is 0; try 2 (14 cores idle)",
            workers=0,
        ),
        advised(IDLE_OF_16, "", workers=None),
        advised(
            on_cores(16, run=1.9, others=0.2),
            "prepare the data before the run: no core is free to do it during training",
            cpus=2,
        ),
        advised(on_cores(4, run=1.6, others=2.3), "stop other programs: they take 2.3 cores"),
        advised(
            replace(IDLE_OF_16, pressure=Pressure(io_pct=34.0)),
            "keep the data in memory or on a faster disk: "
            "some program waited for a disk 34 % of the time",
        ),
        # A loader that sleeps is given workers whatever others do.
        advised(
            SLEEPS,
            "load the data in worker processes: num_workers is 0; try 2 (this run 0.0 of 2 cores)",
            waited_share=0.89,
            workers=0,
        ),
        advised(
            SLEEPS,
            "use more loader workers: 1 used, this run 0.0 of 2 cores",
            waited_share=0.89,
            workers=1,
        ),
        advised(SLEEPS, "", waited_share=0.89, workers=None),
        # One that has a CPU in half of its time does not sleep.
        advised(
            replace(SLEEPS, process=ProcessTree(cpu_pct=50.0)),
            "stop other programs: they take 1.4 cores",
            waited_share=0.89,
            workers=0,
        ),
        # One that wants the CPU, or whose workers wait for one, would have none for more.
        advised(
            beside(run=0.7, wait_pct=33.0),
            "stop other programs: they take 1.3 cores",
            waited_share=0.9,
            workers=0,
        ),
        advised(
            beside(run=1.2, count=4, wait_pct=60.0),
            "stop other programs: they take 2.8 cores",
            waited_share=0.9,
            workers=4,
        ),
    ],
    "gpu": [
        said("GPU-BOUND 97 %: GPU 0 is busy 97 % of the time, at 90 of 120 W.", with_gpu(), ""),
        said("GPU-BOUND 97 %: GPU 0 is busy 97 % of the time.", with_gpu(power_w=None)),
        *(
            said(
                "GPU-BOUND 97 %: GPU 0 is busy 97 % of the time, at 90 of 120 W.",
                with_gpu(throttle=how),
            )
            for how in (("clock setting",), ("sync boost",), None)
        ),
        said(
            "GPU-BOUND 95 %: GPU 0 is busy 95 % of the time, at 90 of 300 W.",
            with_gpu(**FEW_WATTS, memory_used_mib=1229),
            "use a larger batch: 1.2 of 24.0 GiB used",
            facts=SMALL_GPU,
        ),
        *(
            advised(sample, "", facts=facts)
            for facts, sample in (
                (SMALL_GPU, with_gpu(**FEW_WATTS, memory_used_mib=23_000)),
                (FACTS, with_gpu(**FEW_WATTS, memory_used_mib=1229)),
                (SMALL_GPU, with_gpu(utilization_pct=95, memory_used_mib=1229)),
            )
        ),
    ],
    "gpu-near-power": [
        said(
            "GPU-BOUND 97 %: GPU 0 is busy 97 % of the time, near its power limit, 286 of 300 W.",
            with_gpu(power_w=286.0, power_limit_w=300.0),
        )
    ],
    "gpu-memory": [
        said(
            "GPU BANDWIDTH 78 %: GPU 0 works near its memory bandwidth, at 90 of 120 W, busy 97 %"
            " while it trains.",
            with_gpu(dram_pct=78.3, tensor_pct=71.0, sm_active_pct=95.0),
            "move less memory: a smaller data type, or kernels that a compiler fuses",
        )
    ],
    "gpu-tensor": [
        said(
            "TENSOR CORES 71 %: GPU 0 is busy with matrix products, at 90 of 120 W, busy 97 % "
            "while it trains.",
            with_gpu(dram_pct=30.0, tensor_pct=71.0, sm_active_pct=95.0),
            "",
        )
    ],
    "gpu-kernels": [
        said(
            "SMALL KERNELS: GPU 0 is busy, 20 % of its SMs active, at 90 of 120 W, busy 97 % while "
            "it trains.",
            with_gpu(dram_pct=5.0, tensor_pct=3.0, sm_active_pct=20.4),
            "run fewer, larger kernels: compile the model, or use CUDA graphs",
        ),
        advised(
            with_gpu(sm_active_pct=20.4, memory_used_mib=1229),
            "use a larger batch: 1.2 of 24.0 GiB used",
            facts=SMALL_GPU,
        ),
    ],
    "gpu-power-cap": [
        said(
            "POWER CAP: GPU 0 is slowed at 118 of 120 W, busy 97 % while it trains.",
            with_gpu(power_w=118.0, throttle=("power cap",)),
            "raise the power limit above 120 W, if the card allows it",
        ),
        advised(with_gpu(power_w=70.0, throttle=("power cap",)), ""),
    ],
    "gpu-power-brake": [
        said(
            "POWER BRAKE: GPU 0 is slowed: HW power brake (external), 90 of 120 W, busy 97 % while "
            "it trains.",
            with_gpu(throttle=("hardware slowdown", "power brake")),
        )
    ],
    "gpu-thermal": [
        said(
            "GPU HOT: GPU 0 is slowed: SW thermal slowdown at 91 °C, 90 of 120 W, busy 85 % while "
            "it trains.",
            with_gpu(
                utilization_pct=85, throttle=("thermal slowdown",), temperature_c=91, fan_pct=40
            ),
            "cool the GPU better: 91 °C, fan at 40 %",
        ),
        said(
            "GPU HOT: GPU 0 is slowed: SW thermal slowdown, 90 of 120 W, busy 97 % while it "
            "trains.",
            with_gpu(throttle=("thermal slowdown",), temperature_c=None),
            "cool the GPU better",
        ),
        said(
            "GPU HOT: GPU 0 is slowed: HW thermal slowdown at 61 °C, 90 of 120 W, busy 97 % while "
            "it trains.",
            with_gpu(throttle=("hardware slowdown", "hardware thermal slowdown")),
        ),
        said(
            "GPU HOT: GPU 0 is slowed: SW thermal slowdown at 61 °C, SW power cap, 90 of 120 W.",
            with_gpu(utilization_pct=None, throttle=("power cap", "thermal slowdown")),
        ),
    ],
    "gpu-slowdown": [
        said(
            "GPU SLOWDOWN: GPU 0 is slowed: HW slowdown, 90 of 120 W, busy 97 % while it trains.",
            with_gpu(throttle=("hardware slowdown",)),
        )
    ],
}


def test_a_power_cap_that_takes_little_of_the_clock_is_no_limit():
    facts = replace(FACTS, gpus=(GpuFacts(0, "GTX", sm_max_mhz=1_911),))

    def rule(*clocks_mhz, facts=facts):
        gpu = {"power_w": 118.0, "throttle": ("power cap",)}
        samples = [with_gpu(**gpu, sm_mhz=mhz) for mhz in clocks_mhz * 20]
        return find_limit(samples, facts, gpus=(0,)).rule

    capped = with_gpu(power_w=118.0, throttle=("power cap",), sm_mhz=1_500)
    assert reported(capped, gpu=0, facts=facts).text == (
        "POWER CAP −22 %: at most, as GPU 0 runs at 1500 of 1911 MHz, 118 of 120 W, "
        "busy 97 % while it trains."
    )
    assert rule(1_860) == "gpu-near-power"
    assert rule(1_840) == "gpu-power-cap"
    # Where its cost is unknown, the driver's word counts.
    assert rule(None) == rule(1_860, facts=FACTS) == "gpu-power-cap"
    # A RX 9060 XT works at 2,996 MHz, of which its driver says 2,780 at most (docs/dump.json of
    # amdgpu_top): that is no maximum.
    faster = with_gpu(power_w=118.0, throttle=("power cap",), sm_mhz=2_996)
    limit = reported(faster, gpu=0, facts=facts)
    assert (limit.rule, "MHz" in limit.text) == ("gpu-power-cap", False)
    # The clock of a GPU that rests for a moment tells nothing of its cap.
    capped = with_gpu(power_w=118.0, throttle=("power cap",), sm_mhz=1_900)
    resting = with_gpu(power_w=118.0, throttle=(), sm_mhz=139)
    limit = find_limit([*[capped] * 15, *[resting] * 5], facts, gpus=(0,))
    assert limit.rule == "gpu-near-power"


def test_only_nvidias_throttling_is_that_of_software_or_hardware():
    sample = with_gpu(utilization_pct=None, throttle=("power cap", "thermal slowdown"))
    facts = replace(FACTS, gpus=(GpuFacts(0, "RX", vendor="amd"),))
    text = "GPU HOT: GPU 0 is slowed: thermal slowdown at 61 °C, power cap, 90 of 120 W."
    assert reported(sample, gpu=0, facts=facts).text == text


@pytest.mark.parametrize(
    ("rule", "text", "advice", "sample", "options"),
    [(rule, *row) for rule, rows in SAID.items() for row in rows],
)
def test_each_rule_says_what_was_measured_and_what_the_readings_speak_for(
    rule, text, advice, sample, options
):
    if rule == "data-wait":
        options = {"waited_share": 0.4, "workers": 2, **options}
    if rule.startswith("gpu"):
        options = {"gpu": 0, **options}
    limit = reported(sample, **options)
    assert text is None or (limit.rule, limit.text) == (rule, text)
    if rule == "not-clear":
        return
    (evidence,) = (one for one in limit.evidence if one.rule == rule)
    assert advice is None or evidence.advice == advice
    assert limit.lead is limit.evidence[0]
    assert (limit.kind, limit.advice) == (KINDS[limit.rule].kind, limit.lead.advice)


@pytest.mark.parametrize(
    ("rule", "sample", "options"),
    [
        *(
            (None, sample, {"gpu": 0, "on_cpu": True})
            for sample in (
                with_gpu(utilization_pct=85),
                with_gpu(utilization_pct=30, throttle=("power cap",)),
                with_gpu(index=1),
                of_cpu(throttled_pct=1.0),
                of_cpu(steal_pct=2.0),
                replace(IDLE, memory=Memory(swap_mib_s=0.2)),
                replace(IDLE, pressure=Pressure(memory_pct=1.0, io_pct=5.0, cpu_pct=100.0)),
                replace(IDLE, pressure=Pressure(why={"io_pct": "not reported here"})),
                on_cores(4, run=1.0, others=0.1),
            )
        ),
        ("other-programs", on_cores(4, run=1.0, others=1.5), {}),
        ("other-programs", on_cores(4, run=3.7, others=0.2), {}),
        ("other-programs", on_cores(2, run=1.0, others=1.0), {"cpus": 1}),
        ("other-programs", on_cores(2, run=0.8, others=0.0, steal=1.2), {}),
        ("other-programs", beside(run=0.9, wait_pct=3.0, thread_pct=23.7), {}),
        ("cpu", on_cores(4, run=2.0, others=2.0), {}),
        ("cpu", on_cores(16, 1.0, 3.0), {"facts": LIMITED}),
        *(
            ("threads", sample, options)
            for sample, options in (
                (on_cores(4, run=1.0, others=0.1), {"threads": 2}),
                (on_cores(4, run=2.9, others=0.1), {"threads": 2}),
                (on_cores(4, run=2.0, others=2.0), {"threads": 2}),
                (on_cores(4, run=2.0, others=0.1), {"threads": 2, "cpus": 2}),
                (on_cores(4, run=2.0, others=0.1), {"threads": "2"}),
            )
        ),
        ("thread", on_cores(2, run=1.0, others=0.9, thread_pct=100.0), {}),
        ("thread", with_thread(100.0), {"gpu": 0}),
        *(
            ("gpu-shared", on_gpu(**changes), {"gpu": 0})
            for changes in (
                *({"of_run": True}, {"gpus": (1,)}, {"gpu_memory_mib": 40}),
                {"of_run": None, "why": {"of_run": "the driver reports the host's pid"}},
                {"gpu_memory_mib": None},
            )
        ),
        *(
            (rule, IDLE, known)
            for rule in ("optimizer", "copy")
            for known in (
                step(optimizer_us=12),
                step(optimizer_us=19, steps=4),
                step({"fused": True}, optimizer_us=19),
                step({"fused": None}, optimizer_us=19),
                step({"optimizer": "Adagrad"}, optimizer_us=19),
                step(copy_us=9),
                step({"pin_memory": True}, copy_us=30),
                step({"pin_memory": None}, copy_us=30),
                {**step(optimizer_us=19), "model": None},
                {**step(optimizer_us=19), "step_records": ()},
            )
        ),
        *(
            (rule, IDLE, known)
            for rule in ("own-code", "network")
            for known in (
                step(steps=4),
                step(backward_us=30, wait_us=40),
                step(backward_us=30, copy_us=40),
                step(backward_us=35, optimizer_us=45),
            )
        ),
        # Half a core is work; what wants one is not idle; where none is free, nobody knows.
        ("idle", on_cores(4, run=0.6, others=0.2, wait_pct=2.0, thread_pct=40.0), {}),
        ("idle", on_cores(4, run=0.3, others=0.2, wait_pct=30.0, thread_pct=25.0), {}),
        ("idle", on_cores(2, run=0.1, others=1.9), {}),
        # Nor is what keeps its GPU at work, or has one that is not read.
        ("idle", replace(WAITS, gpus=(replace(BUSY_GPU, utilization_pct=60),)), {"gpu": 0}),
        *(
            (None, replace(WAITS, gpus=gpus), {"gpu": gpu, "on_cpu": False})
            for gpus in (None, (replace(BUSY_GPU, index=1),))
            for gpu in (None, 0)
        ),
    ],
)
def test_what_takes_little_or_nothing_from_the_run_is_no_evidence(rule, sample, options):
    limit = reported(sample, **options)
    assert rule not in rules(limit) if rule else limit.rule == "not-clear"


def test_before_training_only_what_is_taken_from_the_run_is_said():
    def limit(sample):
        samples = samples_of(sample, MIN_SAMPLES)
        found = limit_of([check_rules(RunSamples(samples, TWO), RULES_OF_THE_START)], is_over=False)
        return found if found.evidence else None

    assert limit(beside()).text == "CPU SHARED: other programs take 1.2 of 2 cores, this run 0.8."
    # It imports on one core, or compiles on both: that says nothing of how it will train.
    assert limit(on_cores(2, 1.0, 0.05)) is limit(on_cores(2, 1.95, 0.05)) is None


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
    limit = reported(sample, facts=facts, cpus=cpus, threads=threads)
    if own < allowed / 2:
        assert "cpu" not in rules(limit)
        assert "The run keeps all" not in limit.text
    if own >= 0.91 * allowed:
        assert "cpu" in rules(limit)


def test_a_reason_counts_where_most_readings_report_it_and_then_says_in_how_many():
    hot = with_gpu(throttle=("thermal slowdown", "hardware thermal slowdown"))
    cool = with_gpu()
    assert find_limit([hot] * 9 + [cool] * 21, gpus=(0,)).rule == "gpu"
    mostly = find_limit([hot] * 21 + [cool] * 9, gpus=(0,))
    assert mostly.rule == "gpu-thermal"
    assert "at 61 °C in 70 % of readings" in mostly.text


# As read beside an H100: of PyTorch's two threads, one computes the gradients.
@pytest.mark.parametrize(
    ("thread_pct", "process_pct", "gpu_pct", "said"),
    [
        (100.0, None, 40, "GPU 0 waits, busy 40 %, one thread of the run fills a core"),
        (51.0, 99.8, 26, "GPU 0 waits, busy 26 %, one process of the run fills a core"),
        (81.0, 101.0, 12, "GPU 0 waits, busy 12 %, one process of the run fills a core"),
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
    limit = reported(replace(with_gpu(utilization_pct=gpu_pct), process=tree), gpu=0)
    assert (", ".join(limit.lead.reasons) if limit.rule == "thread" else None) == said


def test_another_program_is_named_on_the_gpu_and_by_what_it_took_over_the_whole_window():
    limit = reported(on_gpu(), gpu=0)
    assert rules(limit) == ["gpu", "gpu-shared"]
    assert limit.text.endswith("GPU SHARED: blender (pid 4711) has 3.2 GiB on GPU 0.")

    def rows(busy, idle):
        return replace(SMALL, command="first", cpu_pct=busy), replace(PYTEST, cpu_pct=idle)

    samples = [beside(*rows(120.0, 0.0))] * 20 + [beside(*rows(0.0, 100.0))] * 5
    assert "most: first, pid 1" in find_limit(samples, TWO).text
    # Of a run that is over, what to do next time.
    over = reported(beside(replace(PYTEST, command="ffmpeg")), is_over=True)
    assert over.text == (
        "CPU SHARED: other programs took 1.2 of 2 cores (most: ffmpeg, pid 32614), this run 0.8."
    )
    assert over.advice == "train without ffmpeg (pid 32614) beside it: it took 1.0 cores"


def test_a_run_that_does_not_want_the_cpu_names_nobody():
    for wait_pct, rule in ((3.0, "idle"), (None, "not-clear")):
        sample = on_cores(2, 0.1, 1.9, wait_pct=wait_pct, processes=(KERAS,))
        limit = reported(sample, unmeasured="it is not measured")
        assert limit.rule == rule
        assert "k.py" not in limit.text + limit.advice
        assert "it is not measured" in limit.text
    # Its wait may be that of the container's own limit.
    stopped = beside(run=0.2, wait_pct=50.0)
    stopped = replace(stopped, cpu=replace(stopped.cpu, throttled_pct=60.0))
    assert rules(reported(stopped, facts=MachineFacts(cores=2, cpu_limit=0.3))) == ["cpu-quota"]


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        # How long memory was busy says nothing of its bandwidth.
        ("gpu", {"memory_busy_pct": 100}),
        ("gpu", {"sm_active_pct": 60.0, "tensor_pct": 40.0, "dram_pct": 50.0}),
        ("gpu", {"why": dict.fromkeys(("sm_active_pct", "dram_pct"), "not supported")}),
        ("gpu-near-power", {"power_w": 118.0, "dram_pct": 95.0}),
        ("gpu-thermal", {"throttle": ("thermal slowdown",), "sm_active_pct": 5.0}),
        ("not-clear", {"utilization_pct": 60, "sm_active_pct": 5.0, "dram_pct": 95.0}),
        ("not-clear", {"utilization_pct": None, "sm_active_pct": 5.0}),
    ],
)
def test_what_a_gpu_counts_speaks_only_of_one_that_is_busy_and_not_held_down(rule, changes):
    assert reported(with_gpu(**changes), gpu=0).rule == rule


def test_a_gpu_that_is_busy_with_idle_sms_gets_larger_kernels_and_no_smaller_model():
    limit = reported(with_gpu(sm_active_pct=61.2), gpu=0)
    assert (
        limit.text
        == "GPU-BOUND 97 %: GPU 0 is busy 97 % of the time, 61 % of its SMs active, at 90 of 120 W."
    )
    assert limit.advice.startswith("run fewer, larger kernels")
    assert reported(with_gpu(sm_active_pct=95.0), gpu=0).advice == ""


def test_few_readings_of_what_a_gpu_counts_say_nothing():
    few = samples_of(with_gpu(sm_active_pct=5.0), MIN_SAMPLES - 1)
    samples = [replace(one, t=one.t + 100 * SECOND) for one in samples_of(with_gpu())]
    assert find_limit([*few, *samples], gpus=(0,)).rule == "gpu"


def test_of_gpus_that_may_wait_for_each_other_no_larger_kernels_are_advised():
    both = tuple(replace(BUSY_GPU, index=index, sm_active_pct=15.0) for index in (0, 1))
    limit = find_limit(samples_of(replace(IDLE, gpus=both)), gpus=(0, 1))
    assert limit.lead.reasons[0] == "GPUs 0 and 1 are busy, 15 % of their SMs active"
    assert (limit.rule, limit.advice) == ("gpu-kernels", "")


def test_no_rule_hides_another():
    def with_pressure(sample, **changes):
        return replace(sample, pressure=replace(sample.pressure or Pressure(), **changes))

    troubles = {
        "gpu": lambda s: replace(s, gpus=(BUSY_GPU,)),
        "cpu-quota": lambda s: replace(s, cpu=replace(s.cpu, throttled_pct=60.0)),
        "swap": lambda s: replace(s, memory=Memory(swap_mib_s=25.0)),
        "memory-pressure": lambda s: with_pressure(s, memory_pct=23.0),
        "io-pressure": lambda s: with_pressure(s, io_pct=34.0),
        "steal": lambda s: replace(s, cpu=replace(s.cpu, steal_pct=12.0)),
    }
    for count in range(1, 7):
        for holding in itertools.combinations(troubles, count):
            sample = IDLE
            for name in holding:
                sample = troubles[name](sample)
            limit = reported(sample, gpu=0)
            assert rules(limit) == list(holding)
            in_full, in_short = limit.evidence[:2], limit.evidence[2:]
            assert all(f"{evidence.text}." in limit.text for evidence in in_full)
            assert all(one.title in limit.text.partition("Also: ")[2] for one in in_short)


# ---- a GPU that gives no readings any more ----


def unread(sample, reason, state=None):
    return replace(sample, gpus=(Gpu(0, state=state, why={"utilization_pct": reason}),))


CAPPED = with_gpu(power_w=118.0, throttle=("power cap",))
HUNG = replace(CAPPED, gpus=None, gpus_state=GpuState.LOST, why={"gpus": "lost: no sample for 3 s"})


def seen(*samples, **options):
    timed = [replace(sample, t=second * SECOND) for second, sample in enumerate(samples)]
    return find_limit(timed, gpus=(0,), **options)


def test_several_gpus_that_train_are_one_limit():
    busy = replace(CAPPED, gpus=tuple(replace(BUSY_GPU, index=n, throttle=()) for n in range(4)))
    both = find_limit([busy] * 20, gpus=(0, 1))
    assert both.lead.reasons[0] == "GPUs 0 and 1 are busy 97 % of the time"
    assert (
        find_limit([busy] * 20, gpus=(0, 1, 2, 3), is_over=True).lead.reasons[0]
        == "GPUs 0 to 3 were busy 97 % of the time"
    )
    near = replace(busy, gpus=tuple(replace(gpu, power_w=118.0) for gpu in busy.gpus))
    assert (
        find_limit([near] * 20, gpus=(0, 1)).lead.reasons[0]
        == "GPUs 0 and 1 are busy 97 % of the time, near their power limit"
    )
    # The mean of them counts: where one waits for the others, they are not busy.
    waits = replace(busy, gpus=(busy.gpus[0], replace(busy.gpus[1], utilization_pct=20)))
    assert "gpu" not in rules(find_limit([waits] * 20, gpus=(0, 1)))
    lost = replace(busy, gpus=busy.gpus[:1])
    both_lost = find_limit([*[busy] * 20, lost], gpus=(0, 1))
    assert both_lost.text.startswith("GPU LOST: GPU 1 gives no readings now")


FREE_GPU = Gpu(index=1, utilization_pct=0, memory_used_mib=3)


@pytest.mark.parametrize(
    ("other", "name", "is_advised"),
    [
        (FREE_GPU, "GTX", True),
        (FREE_GPU, "GT 710", False),
        (replace(FREE_GPU, utilization_pct=60), "GTX", False),
        (replace(FREE_GPU, memory_used_mib=4_096), "GTX", False),
        (replace(FREE_GPU, utilization_pct=None), "GTX", False),
    ],
    ids=["idle", "another model", "busy", "held by somebody", "not read"],
)
def test_a_busy_gpu_is_to_be_joined_by_idle_ones_of_its_model(other, name, is_advised):
    facts = MachineFacts(cores=4, gpus=(GpuFacts(0, "GTX"), GpuFacts(1, name)))
    sample = replace(with_gpu(), gpus=(BUSY_GPU, other))
    advice = "train on more GPUs, if it may use them: 1 of 2 is idle" if is_advised else ""
    assert find_limit(samples_of(sample), facts, (0,)).lead.advice == advice


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        # Its name says already that it is lost.
        (unread(CAPPED, "lost", GpuState.LOST), ""),
        (unread(CAPPED, "asleep (runtime power management)"), "asleep (runtime power management)"),
        (HUNG, "lost: no sample for 3 s"),
        (replace(CAPPED, gpus=()), "no reason known"),
    ],
    ids=["lost", "asleep", "hung", "not reported"],
)
def test_of_a_gpu_that_gives_no_readings_nothing_is_said_that_it_did(gone, reason):
    limit = seen(*[CAPPED] * 20, gone)
    assert rules(limit) == ["gpu-lost"]
    assert limit.text == f"GPU LOST 1 s: GPU 0 gives no readings now{': ' * bool(reason)}{reason}."
    assert ("dmesg" in limit.advice) is not reason.startswith("asleep")
    assert "power cap" not in " ".join((limit.text, *limit.also))
    # Also where that comes after the training that is looked at.
    assert rules(seen(*[CAPPED] * 20, latest=gone)) == ["gpu-lost"]
    # Of a run that is over it is said what it did.
    assert rules(seen(*[CAPPED] * 20, gone, is_over=True)) == ["gpu-power-cap"]


def test_a_gpu_that_stays_lost_is_called_so_and_one_that_is_back_or_was_never_read_is_not():
    assert rules(seen(*[HUNG] * 40)) == ["gpu-lost"]
    assert rules(seen(*[CAPPED] * 20, HUNG, HUNG, CAPPED)) == ["gpu-power-cap"]
    assert rules(seen(*[unread(CAPPED, "not supported")] * 40)) == []
    partly = with_gpu(utilization_pct=None)
    assert "gpu-lost" not in rules(seen(*[CAPPED] * 20, partly))


# ---- whether the run wants the CPU that others take ----


def test_what_the_threads_did_while_it_was_started_is_not_laid_on_the_training():
    trains = on_cores(2, 0.2, 1.8, processes=(KERAS,))
    for before, then, rule in (
        ((80.0, 90.0), (2.0, 15.0), "idle"),
        ((None, 100.0), (None, 30.0), "not-clear"),
    ):
        starting, later = (
            replace(
                trains, process=replace(trains.process, cpu_wait_pct=wait, busiest_thread_pct=pct)
            )
            for wait, pct in (before, then)
        )
        samples = [*[starting] * 8, *[later] * 12]
        for count in range(MIN_SAMPLES, len(samples) + 1):
            timed = [replace(one, t=second * SECOND) for second, one in enumerate(samples[:count])]
            limit = find_limit(timed, TWO, on_cpu=True)
            # What is of the training alone is known from the ninth second on.
            is_known = count >= 9 + MIN_SAMPLES
            assert limit.rule == (rule if is_known else "not-clear")
            assert "5802" not in limit.text + limit.advice
            assert "80 %" not in limit.text
            assert is_known or "busiest thread" not in limit.text


def read_by_sensors(interval_s, late_s, began_s):
    """Return the samples of the window of one that trains; slow readings came from `began_s` on.

    They say 90 % of what began before the first sample, and 0 % of all that came since.
    """
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
        if t >= first_ns:
            sample = on_cores(8, 0.6, 7.3, wait_pct=pct, thread_pct=90.0 if pct else 60.0)
            samples.append(replace(sample, t=t))
    return samples


@pytest.mark.parametrize("interval_s", [0.1, 0.5, 1, 2.4, 4.76, 4.99, 5, 5.6, 10, 60])
def test_how_long_it_waited_for_a_cpu_is_known_at_any_interval(interval_s):
    for late_s, began_s in itertools.product([0.0, 0.02], range(5)):
        samples = read_by_sensors(interval_s, late_s, began_s)
        limit = find_limit(samples, MachineFacts(cores=8), on_cpu=True, interval_s=interval_s)
        assert limit.text.startswith("NOT CLEAR: ")
        assert "waited for a CPU 0 % of the time" in limit.text
        assert "busiest thread 60 % of a core" in limit.text


@example(4, 0.109375, None, None, 0.5, None)
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
    sample = beside(KERAS, run=own, count=cores, wait_pct=wait_pct, thread_pct=thread_pct)
    limit = reported(sample, waited_share=waited_share, workers=workers)
    had_pct = max(100 * min(1.0, own), thread_pct or 0.0)
    wants = own >= 0.5 if wait_pct is None else wait_pct >= 10 and had_pct + wait_pct >= 49.9
    if not wants:
        assert "other-programs" not in rules(limit)
        assert "5802" not in limit.text + limit.advice
        assert "other programs" not in limit.advice


# ---- after the end ----


_OF_NOW = {"is", "are", "takes", "take", "keeps", "uses", "waits", "stops", "works", "has", "now"}


@pytest.mark.parametrize(
    ("rule", "row"), [(rule, row) for rule, rows in SAID.items() for row in rows[:1]]
)
def test_nothing_of_a_run_that_is_over_is_shown_as_what_is(rule, row):
    *_, sample, options = row
    if rule == "data-wait":
        options = {"waited_share": 0.4, **options}
    if rule.startswith("gpu"):
        options = {"gpu": 0, **options}
    over, now = (reported(sample, **options, is_over=is_over) for is_over in (True, False))
    assert rules(over) == rules(now)
    said = " ".join([over.text, *over.also])
    if over.evidence:
        assert not _OF_NOW & set(said.replace(".", " ").replace(",", " ").split())


# ---- what isn't known ----


def test_a_reading_of_few_samples_is_no_evidence():
    assert reported(IDLE, count=MIN_SAMPLES - 1) is None
    swapping = replace(IDLE, memory=Memory(swap_mib_s=100.0))
    unknown = replace(IDLE, memory=Memory(why={"swap_mib_s": "denied"}))
    few = [swapping] * (MIN_SAMPLES - 1) + [unknown] * 20
    assert find_limit(few).rule == "not-clear"
    assert find_limit([swapping, *few]).rule == "swap"


@settings(max_examples=30)
@given(
    st.lists(of_type(Machine, "likely"), max_size=8),
    st.lists(st.integers(0, 2), unique=True),
    st.none() | st.integers(-2, 9) | st.just(10**400) | st.text(),
)
def test_any_readings_give_a_sentence_or_nothing(samples, gpus, option):
    limit = find_limit(samples, FACTS, tuple(gpus), cpus=option, threads=option)
    assert (limit is None) == (len(samples) < MIN_SAMPLES)
    if limit is not None:
        assert limit.text.endswith(".")
        assert clean(limit.text) == limit.text
        assert limit.rule == (limit.evidence[0].rule if limit.evidence else "not-clear")
        assert all(one.title and one.reasons and one.rule in KINDS for one in limit.evidence)
        said = (limit.lead.text, limit.advice, *limit.also)
        assert all(clean(text) == text for text in said)


# ---- which of several leads, and when it changes ----


def test_what_took_the_largest_share_of_the_time_leads_and_the_advice_belongs_to_it():
    limit = reported(beside(run=0.7, wait_pct=68.0), waited_share=0.27, workers=0)
    assert rules(limit)[:2] == ["other-programs", "data-wait"]
    assert limit.advice == "stop other programs: they take 1.3 cores"
    limit = reported(beside(run=0.7, wait_pct=22.0), waited_share=0.61, workers=0)
    assert limit.rule == "data-wait"
    # The advice is that of what leads, or none.
    limit = reported(with_gpu(utilization_pct=96), gpu=0, waited_share=0.12, workers=0)
    assert [(one.rule, bool(one.advice)) for one in limit.evidence] == [
        ("gpu", False),
        ("data-wait", True),
    ]
    assert limit.advice == ""
    # Of what leads without any, a part of its steps may have some.
    limit = reported(with_gpu(utilization_pct=96), gpu=0, **step(optimizer_us=19))
    assert (limit.rule, limit.advice[:26]) == ("gpu", "step with AdamW(…, fused=T")
    # What waits for something else waits on, whatever its optimiser takes.
    assert rules(reported(WAITS, **step(optimizer_us=19)))[-1] == "idle"


STOLEN = on_cores(2, run=1.2, others=0.0, steal=0.2)


@pytest.mark.parametrize(
    ("sample", "known", "expected"),
    [
        # What the script does between its steps takes more than it waits for data.
        (IDLE, {"waited_share": 0.2, **step(wait_us=20, backward_us=8)}, ["own-code", "data-wait"]),
        (
            FULL,
            {"waited_share": 0.2, **step(wait_us=20, backward_us=8)},
            ["own-code", "data-wait", "cpu"],
        ),
        (WAITS, {"waited_share": 0.3, **step(wait_us=30)}, ["network", "data-wait"]),
        (WAITS, {"waited_share": 0.7, **step(wait_us=70, backward_us=20)}, ["data-wait"]),
        # What says why the network takes its time stands in its place.
        (FULL, {"waited_share": 0.3, **step(wait_us=30)}, ["cpu", "data-wait"]),
        (with_thread(), {"gpu": 0, "waited_share": 0.3, **step(wait_us=30)}, ["gpu", "data-wait"]),
        (
            on_cores(2, run=1.0, others=0.0, thread_pct=99.0),
            {"waited_share": 0.3, **step(wait_us=30)},
            ["thread", "data-wait"],
        ),
        # What the machine takes is no reason for what it doesn't explain.
        (STOLEN, step(), ["network", "steal"]),
        (STOLEN, step(backward_us=20), ["own-code", "steal"]),
        (on_cores(2, run=0.04, others=0.0, steal=0.2, wait_pct=2.0), {}, ["idle"]),
    ],
)
def test_nothing_leads_that_takes_less_of_a_step_than_another_part(sample, known, expected):
    limit = reported(sample, **known)
    assert [rule for rule in rules(limit) if rule != "idle" or "idle" in expected] == expected


def test_a_wait_is_said_of_the_time_that_was_looked_at():
    limit = reported(IDLE_OF_16, waited_share=0.4, waited_window="the last 12 s")
    assert limit.lead.text == "DATA-BOUND 40 %: waiting for the next batch in the last 12 s"


def after(*samples, gpu=None, **options):
    """Return the limit by looks at so many like samples each, one look after another."""
    facts, gpus = MachineFacts(cores=len(samples[0].cpu.cores)), () if gpu is None else (gpu,)
    looks = [
        check_rules(RunSamples(samples_of(one), facts, gpus, on_cpu=gpu is None, **options))
        for one in samples
    ]
    return limit_of(looks, is_over=False)


def test_a_verdict_stays_near_its_threshold_and_changes_where_the_other_holds_for_a_while():
    def verdict(*own_cores):
        return after(*(on_cores(2, own, 0.05) for own in own_cores)).rule

    near = [1.82, 1.79, 1.81, 1.78, 1.80, 1.77]
    assert {verdict(*near[: n + 1]) for n in range(len(near))} == {"cpu"}
    # Where it was never reached, what is near it is none.
    assert verdict(1.79, 1.78, 1.79) != "cpu"
    assert verdict(1.9, 1.0) == verdict(1.9, 1.0, 1.9, 1.0) == "cpu"
    assert verdict(1.9, 1.0, 1.0) == "not-clear"
    # Of two that take about as much the one that led leads.
    for waits, leader in (
        ((38.0, 42.0, 38.0, 43.0), "data-wait"),
        ((38.0, 52.0, 42.0, 38.0), "other-programs"),
        ((38.0, 52.0, 42.0, 30.0), "data-wait"),
    ):
        samples = (beside(run=0.7, wait_pct=pct) for pct in waits)
        assert after(*samples, waited_share=0.4).rule == leader
    # A GPU works near its power limit until it clearly does not.
    for power_w, said in (
        ((113.0,), "GPU 0 is busy 97 % of the time"),
        ((115.0, 113.0), "GPU 0 is busy 97 % of the time, near its power limit"),
        ((115.0, 113.0, 100.0), "GPU 0 is busy 97 % of the time"),
    ):
        samples = (with_gpu(power_w=watts) for watts in power_w)
        assert after(*samples, gpu=0).lead.reasons[0] == said


def test_what_is_advised_does_not_change_with_each_look_while_the_headline_stays():
    idle, shared = IDLE_OF_16, on_cores(16, run=1.5, others=14.4)

    def advice(*samples):
        limit = after(*samples, waited_share=0.4, workers=2)
        assert limit.rule == "data-wait"
        return limit.advice.partition(":")[0]

    alone = {advice(idle), advice(shared)}
    assert len(alone) == 2
    # The first of two that come as often stays; what comes more often takes its place.
    flips = [idle, shared] * 6
    assert {advice(*flips[: n + 1]) for n in range(len(flips))} == {advice(idle)}
    assert advice(idle, shared, shared) == advice(shared)


# ---- whether this run is what waits for a disk, or for memory ----


@pytest.mark.parametrize(
    ("read_mib_s", "blocked", "faults_s", "expected"),
    [
        (0.0, 0, 0.0, []),
        (12.0, 0, 0.0, ["io-pressure"]),
        (0.0, 0, 90.0, ["swap", "memory-pressure"]),
        (0.0, 1, 0.0, ["swap", "memory-pressure", "io-pressure"]),
        (None, None, None, ["swap", "memory-pressure", "io-pressure"]),
    ],
    ids=["another program waits", "it reads", "its pages are read", "it waits", "an older log"],
)
def test_pressure_counts_where_this_run_may_be_what_waits(read_mib_s, blocked, faults_s, expected):
    sample = replace(
        IDLE,
        pressure=Pressure(cpu_pct=0.0, memory_pct=40.0, io_pct=50.0),
        memory=Memory(used_mib=4000, swap_mib_s=20.0),
        process=replace(
            IDLE.process, read_mib_s=read_mib_s, blocked=blocked, major_faults_s=faults_s
        ),
    )
    assert rules(reported(sample)) == expected
    # Faster disks are advised where it reads from one.
    advised = reported(sample, waited_share=0.4, workers=2).advice
    assert ("faster disk" in advised) is ("io-pressure" in expected)


def test_an_allocator_that_had_to_free_what_it_kept_is_named_beside_what_limits():
    busy = replace(CAPPED, gpus=(replace(BUSY_GPU, throttle=()),))
    found = find_limit([busy] * 20, gpus=(0,), retries=3)
    assert rules(found) == ["gpu", "allocator"]
    assert "the allocator freed all that it kept 3 times, to go on" in found.text
    assert rules(find_limit([busy] * 20, gpus=(0,))) == ["gpu"]


# ---- shares that tie, and ranks ----


def several_steps(*percents, step_us=20_000):
    """Return records of four steps each, with the percent of data wait and of own code."""
    return tuple(
        StepParts(
            number,
            4,
            4 * step_us,
            wait_us=4 * step_us * data // 100,
            backward_us=4 * step_us * (100 - data - own) // 100,
        )
        for number, (data, own) in enumerate(percents)
    )


def test_shares_that_tie_are_not_clear_and_both_are_named():
    tie = reported(on_cores(4, 1.0, 0.1), waited_share=0.41, **step(wait_us=41, backward_us=40))
    assert tie.lead.text == (
        "NOT CLEAR: waiting for data 41 % and forward and backward 40 % of a step"
    )
    assert tie.advice == ""
    # They tie as well if the difference lies within what they vary by.
    vary = several_steps(*[(60, 30), (20, 70)] * 8, (45, 40))
    assert reported(on_cores(4, 1.0, 0.1), step_records=vary).rule == "tie"
    steady = several_steps(*[(40, 50)] * 17)
    assert reported(on_cores(4, 1.0, 0.1), step_records=steady).rule == "own-code"


def test_what_leads_goes_on_leading_while_another_part_becomes_as_large():
    def looks(*waits):
        return limit_of(
            [
                check_rules(
                    RunSamples(
                        samples_of(on_cores(4, 1.0, 0.1)),
                        FACTS,
                        on_cpu=True,
                        waited_share=wait / 100,
                        **step(wait_us=wait, backward_us=40),
                    )
                )
                for wait in waits
            ],
            is_over=False,
        ).rule

    assert looks(41) == looks(41, 41) == "tie"
    assert looks(48) == looks(48, 41) == looks(48, 41, 39) == "data-wait"
    assert looks(41, 48, 48, 48) == "data-wait"


@pytest.mark.parametrize(
    ("share", "known", "rule"),
    [
        # The steps of the rank that is shown hold the wait in backward.
        (0.6, step(backward_us=85), "ranks"),
        (0.1, step(backward_us=85), "network"),
        # It may be the slow rank itself.
        (0.6, step(backward_us=20), "ranks"),
        (0.1, step(backward_us=20), "own-code"),
        # Without the parts of its steps, nothing speaks against it.
        (0.1, {}, "ranks"),
    ],
)
def test_a_rank_that_the_others_wait_for_leads_if_that_is_most_of_what_leads(share, known, rule):
    looked = check_rules(RunSamples(samples_of(on_cores(4, 1.0, 0.1)), FACTS, **known))
    ranks = Evidence("ranks", "", ("it works 33 ms a step",), share=share, whom="RANK 1")
    limit = limit_of([looked], is_over=False, ranks=ranks)
    assert limit.rule == rule
    assert ranks in limit.evidence


def test_a_slowed_gpu_that_explains_the_network_leads_before_a_smaller_wait_for_data():
    capped = with_gpu(throttle=("power cap",))
    limit = reported(capped, gpu=0, waited_share=0.2, **step(wait_us=20, backward_us=70))
    assert rules(limit) == ["gpu-power-cap", "data-wait"]


NETWORK_85 = Evidence("network", "85 %", ("forward 8.5 of 10.0 ms a step",), share=0.85)


def shared(share):
    return Evidence("other-programs", "", ("other programs",), "stop them", share)


@pytest.mark.parametrize(("waits", "rule"), [(0.5, "other-programs"), (0.3, "pauses")])
def test_pauses_lead_unless_other_programs_explain_half_of_them(waits, rule):
    found = (NETWORK_85, shared(waits))
    pauses = Evidence("pauses", "80 %", ("24.0 of 29.6 s since the first step",), "", 0.8)
    time = TimeShares((pauses,), of_steps=0.2)
    limit = limit_of([RuleCheck(found, found, ())] * 12, is_over=True, time=time)
    assert limit.rule == rule
    assert pauses in limit.evidence


@pytest.mark.parametrize(
    ("shares", "rule"),
    [
        # It waits for a CPU in most of the time of forward and backward.
        ([0.7] * 12, "other-programs"),
        ([0.7] * 8 + [None] * 2 + [0.7] * 2, "other-programs"),
        # In the first checks, it wasn't known yet how long it waits.
        ([None, None, 0.7], "other-programs"),
        # The largest part of forward and backward is its own work, whatever comes and goes.
        ([0.15] * 12, "network"),
        ([None, 0.6] * 6, "network"),
        ([0.6, None] * 6, "network"),
    ],
)
def test_other_programs_lead_only_if_they_explain_half_of_forward_and_backward(shares, rule):
    found = [[NETWORK_85, *([] if share is None else [shared(share)])] for share in shares]
    limit = limit_of([RuleCheck(tuple(held), tuple(held), ()) for held in found], is_over=False)
    assert limit.rule == rule
