"""The records that every pipe and log is made of: one JSON object a line.

`t`, `begin`, `end` and the like are CLOCK_MONOTONIC in nanoseconds, one clock
for every process of a machine; `wall` is Unix seconds. Unknown is null with
`why: {field: reason}` beside it, never 0. A field that is absent has not
changed since it was last told. Readers skip types and keys they don't know.

This module runs in the trained interpreter too: standard library only, and
Python 3.10 syntax.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from dlmon.records.sanitize import clean

SCHEMA = 1
LARGEST = 2**63 - 1
_T = TypeVar("_T")


class RecordError(ValueError):
    """A line that is not a record of this schema; the message says why."""


@dataclass(frozen=True)
class GpuFacts:
    """What does not change about one GPU.

    Attributes:
        index: NVML's number of the GPU, as nvidia-smi shows it.
        name: the product's name.
        uuid: the GPU's own id, which no other one has.
        memory_mib: its memory.
        bus_id: its PCI address, such as 0000:65:00.0.
        slowdown_c: the temperature from which it slows itself down.
        sm_max_mhz: the highest clock of its processors.
        memory_max_mhz: the highest clock of its memory.
        pcie_max_generation: the newest generation of PCIe that card and slot can use.
        pcie_max_width: the most lanes that card and slot can use.
    """

    index: int
    name: str
    uuid: str | None = None
    memory_mib: int | None = None
    bus_id: str | None = None
    slowdown_c: int | None = None
    sm_max_mhz: int | None = None
    memory_max_mhz: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineFacts:
    """What does not change about a machine, and how busy it was at the start.

    Attributes:
        cpu_model: the processor's name, as the kernel reports it.
        cores: the CPUs that the scheduler may use.
        physical_cores: cores of the machine; hardware threads of one core count once.
        cpu_limit: what the cgroup allows, in cores.
        memory_mib: memory of the machine.
        memory_limit_mib: what the cgroup allows of it.
        swap_mib: swap space; the cgroup's where that limits memory.
        gpus: every GPU that NVML reports; null, with a reason, where NVML can't be asked.
        driver: the version of the NVIDIA driver.
        cuda: the newest CUDA version that the driver supports.
        load_1m: the load average of the last minute, at the start.
        cpu_pct: utilisation of all cores at the start, over a quarter of a second.
        foreign_gpu_processes: how many processes used a GPU at the start.
        governor: the frequency governor of the first CPU.
        on_battery: whether the machine ran on its battery.
    """

    cpu_model: str | None = None
    cores: int | None = None
    physical_cores: int | None = None
    cpu_limit: float | None = None
    memory_mib: int | None = None
    memory_limit_mib: int | None = None
    swap_mib: int | None = None
    gpus: tuple[GpuFacts, ...] | None = None
    driver: str | None = None
    cuda: str | None = None
    load_1m: float | None = None
    cpu_pct: float | None = None
    foreign_gpu_processes: int | None = None
    governor: str | None = None
    on_battery: bool | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionHeader:
    """The first line of a log: what runs, where, with what.

    Attributes:
        schema: the version of this format, 1.
        id: the session's id, which is the name of its folder too.
        host: the machine's name.
        boot_id: the kernel's id of this boot; times of two boots don't compare.
        workload: what is trained, by the name that `dlmon list` shows.
        options: the options of the run, with the workload's defaults filled in.
        machine: what does not change about the machine.
        versions: of dlmon, python, keras and the backend; `backend` is its name.
    """

    TYPE: ClassVar[str] = "session"
    schema: int
    id: str
    host: str
    boot_id: str
    t: int
    wall: float
    workload: str
    options: dict[str, Any]
    machine: MachineFacts
    versions: dict[str, Any]
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What a sensors process reports first, and again when a GPU was found later.

    The supervisor moves the first into the header; later ones stand in the log, and the newest
    counts.

    Attributes:
        host: the machine's name.
        machine: what does not change about the machine.
    """

    TYPE: ClassVar[str] = "facts"
    t: int
    wall: float
    host: str
    machine: MachineFacts


GRADIENTS_PHASE = "computing gradients"

PHASES = (
    "importing",
    "loading",
    "building",
    "compiling",
    "training",
    "validating",
    "evaluating",
    "predicting",
    GRADIENTS_PHASE,
    "opening",
    "closing",
)

WITHOUT_EPOCHS = {
    "gradients": "computing gradients has no epochs: no weight is updated",
    "inference": "inference has no epochs",
}
"""The modes in which nothing is learnt, and why a pass over the samples is no epoch there."""


@dataclass(frozen=True)
class Phase:
    """What the workload does from `t` on.

    "opening" is the time before the first batch of a later epoch, and "closing" that after a pass,
    where these are long enough to be seen: the input pipeline is set up or taken down.

    Attributes:
        name: one of `PHASES`.
        epoch: the one that is opened, from 0.
    """

    TYPE: ClassVar[str] = "phase"
    t: int
    name: str
    epoch: int | None = None


@dataclass(frozen=True)
class Model:
    """What runs, as it was built.

    The record is written again as often as more, or fewer, epochs turn out to be needed for
    `--seconds`, and the last one counts.

    Attributes:
        parameters: weights and biases of the network, trained or not.
        flops_per_sample: floating-point operations for one sample in this mode, counted by layer.
        batch_size: samples in a batch.
        samples_per_epoch: samples in a whole epoch; 0 for a workload without epochs.
        steps_per_epoch: batches in a whole epoch, or in a pass over the samples.
        epochs: how many were asked for.
        validation_steps: batches of each validation.
        validation_samples: samples of each validation.
        evaluation_steps: batches of the evaluation after training.
        steps_cap: `--steps`, the most batches of an epoch.
        data: what the samples are: real or synthetic.
        device: what it runs on: cpu, or gpu:N by NVML's number.
        device_name: the product's name of that device.
        backend: what Keras runs on: tensorflow, jax or torch.
        backend_version: its version.
        keras_version: the version of Keras.
        mode: train, gradients or inference; an epoch is one pass over the samples in the latter
            two.
        precision: Keras's dtype policy.
        jit: whether the step is compiled as a whole.
        extra_epochs: how many follow those that were asked for, so that training lasts as long as
            `--seconds` says.
    """

    TYPE: ClassVar[str] = "model"
    parameters: int | None
    flops_per_sample: int | None
    batch_size: int
    samples_per_epoch: int
    steps_per_epoch: int
    epochs: int
    validation_steps: int | None = None
    validation_samples: int | None = None
    evaluation_steps: int | None = None
    steps_cap: int | None = None
    data: str | None = None
    device: str | None = None
    device_name: str | None = None
    backend: str | None = None
    backend_version: str | None = None
    keras_version: str | None = None
    mode: str | None = None
    precision: str | None = None
    jit: bool | None = None
    extra_epochs: int | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def epochs_in_all(self) -> int:
        """How many epochs there are to be, those for `--seconds` included."""
        return self.epochs + (self.extra_epochs or 0)

    @property
    def cut_short(self) -> bool:
        """Whether an epoch is less than a whole one, or the samples have no end."""
        endless = self.samples_per_epoch < 1
        return self.steps_cap is not None and (endless or self.steps_cap < self.steps_per_epoch)

    @property
    def why_no_epochs(self) -> str | None:
        """Why a pass over the samples is no epoch in this mode; None where it is one."""
        return WITHOUT_EPOCHS.get(self.mode or "")

    @property
    def gpu_index(self) -> int | None:
        """NVML's number of the GPU that is trained on (`device` is gpu:N); None on the CPU."""
        number = (self.device or "").removeprefix("gpu:")
        return int(number) if number.isascii() and number.isdecimal() else None


@dataclass(frozen=True)
class Batches:
    """Consecutive batches of one epoch.

    Attributes:
        epoch: the epoch that they belong to, from 0.
        first: the index in the epoch of the first of them, from 0.
        samples: how many samples each batch holds: one number when all hold as many, else one for
            each.
        t: when the first of them ended.
        dt_us: each one's duration: the time since the batch before it ended, or since the epoch
            began.
        opening_us: with the first batch of an epoch, the time before that batch, where it is known
            apart; it is not in its duration then.
        per_execution: Keras's steps_per_execution above 1: so many batches end together and share
            their time equally.
    """

    TYPE: ClassVar[str] = "batches"
    epoch: int
    first: int
    samples: int | tuple[int, ...]
    t: int
    dt_us: tuple[int, ...]
    opening_us: int | None = None
    per_execution: int | None = None


@dataclass(frozen=True)
class BatchSummary:
    """Batches whose single times were not kept: too many, or the log too slow.

    Attributes:
        epoch: the epoch that they belong to, from 0.
        first: the index in the epoch of the first of them, from 0.
        count: how many batches there are.
        samples: the samples of all of them.
        t: when the first of them ended.
        t_last: when the last of them ended.
        time_us: the time that they took together.
        step_us: the quantiles 0, 5, 25, 50, 75, 95 and 100 % of their durations.
        stalls: how many took over ten times the usual step.
        opening_us: as in `Batches`.
        first_us: the duration of the epoch's first batch, or of the execution that it is part of.
        first_steps: how many batches that execution holds.
    """

    TYPE: ClassVar[str] = "batches"
    epoch: int
    first: int
    count: int
    samples: int
    t: int
    t_last: int
    time_us: int
    step_us: tuple[int, ...]
    stalls: int | None = None
    opening_us: int | None = None
    first_us: int | None = None
    first_steps: int | None = None


@dataclass(frozen=True)
class Validation:
    """One validation pass.

    Attributes:
        begin: when it began.
        first_end: when its first batch ended.
        last_end: when its last batch ended.
        end: when it ended.
        steps: how many batches it has.
        first_steps: how many batches ended together first, where that is more than one.
    """

    begin: int
    first_end: int
    last_end: int
    end: int
    steps: int
    first_steps: int | None = None


@dataclass(frozen=True)
class Epoch:
    """One epoch, written when it ended.

    Attributes:
        epoch: its index, from 0.
        begin: when it began.
        train_end: when its last training batch ended; validation follows.
        end: when it ended.
        whole: false when it was cut short, or capped by `--steps`.
        samples: how many samples it trained on.
        metrics: what Keras reports of it, such as loss and accuracy, by name.
        steps: how many training batches it had.
        validation: its validation pass, where it had one.
    """

    TYPE: ClassVar[str] = "epoch"
    epoch: int
    begin: int
    train_end: int
    end: int
    whole: bool
    samples: int
    metrics: dict[str, float | None]
    steps: int | None = None
    validation: Validation | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """The pass over the test set after training.

    Attributes:
        begin: when it began.
        end: when it ended.
        steps: how many batches it had.
        samples: how many samples it read.
        whole: false when it was cut short.
        metrics: what Keras reports of it, such as loss and accuracy, by name.
        first_end: when its first batch ended.
    """

    TYPE: ClassVar[str] = "evaluation"
    begin: int
    end: int
    steps: int
    samples: int
    whole: bool
    metrics: dict[str, float | None]
    first_end: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cpu:
    """Utilisation of the whole machine and of each core, in percent of one core's time.

    Attributes:
        pct: utilisation of all cores together.
        cores: utilisation of each core.
        load_1m: the kernel's load average of the last minute.
        power_w: mean power of all packages since the sample before.
        mhz: the mean clock of the cores.
        temperature_c: the temperature of the hottest package.
        throttled_pct: the share of the control group's periods in which it was stopped; only where
            it has a CPU limit.
        limit_used_pct: the share of that limit that the control group uses.
        energy_j: what all packages together have used, by a counter of which only differences mean
            something.
        steal_pct: the share of all cores' time, in `pct` too, that the host of this virtual machine
            gave to others.
    """

    pct: float | None = None
    cores: tuple[int, ...] | None = None
    load_1m: float | None = None
    power_w: float | None = None
    mhz: int | None = None
    temperature_c: float | None = None
    throttled_pct: float | None = None
    limit_used_pct: float | None = None
    energy_j: float | None = None
    steal_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """Memory in use, swap, and pages read from disk.

    All are the control group's where that limits memory.

    Attributes:
        used_mib: memory in use: what there is less what is available.
        swap_used_mib: swap in use.
        swap_mib_s: what moves to and from swap.
        major_faults_s: page faults a second that had to wait for a disk.
    """

    used_mib: int | None = None
    swap_used_mib: int | None = None
    swap_mib_s: float | None = None
    major_faults_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pressure:
    """The share of time in which a program waited for the CPU, memory or a disk.

    Of the control group where it counts that, else of the machine.

    Attributes:
        cpu_pct: the share of time in which a program waited for a CPU.
        memory_pct: the share of time in which one waited for memory.
        io_pct: the share of time in which one waited for a disk.
    """

    cpu_pct: float | None = None
    memory_pct: float | None = None
    io_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Disk:
    """Bytes moved by all physical disks.

    Attributes:
        read_mib_s: what is read.
        write_mib_s: what is written.
    """

    read_mib_s: float | None = None
    write_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """Bytes moved by all network interfaces but loopback.

    Attributes:
        receive_mib_s: what is received.
        send_mib_s: what is sent.
    """

    receive_mib_s: float | None = None
    send_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessTree:
    """The workload and its descendants; 100 % is one core.

    Attributes:
        cpu_pct: CPU time of all of them together.
        busiest_thread_pct: CPU time of the thread that used the most.
        rss_mib: memory that they hold (resident set).
        processes: how many there are.
        threads: how many threads they have.
        major_faults_s: page faults a second that had to wait for a disk.
    """

    cpu_pct: float | None = None
    busiest_thread_pct: float | None = None
    rss_mib: int | None = None
    processes: int | None = None
    threads: int | None = None
    major_faults_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Process:
    """One process: of the run's tree, on a GPU, or among the machine's busiest.

    100 % is one core. A row without `user`, `command` and any reason has those that were reported
    of that pid in the table before.

    Attributes:
        pid: its number.
        user: the name of the user that it runs as.
        command: its command line, shortened.
        cpu_pct: its CPU time.
        rss_mib: memory that it holds (resident set).
        threads: how many threads it has.
        gpus: NVML's numbers of the GPUs that it uses.
        gpu_memory_mib: memory that it holds on all of them together.
        of_run: whether it belongs to the watched tree; null where nothing is watched or, with a
            reason, where its pid may be another namespace's.
    """

    pid: int
    user: str | None = None
    command: str | None = None
    cpu_pct: float | None = None
    rss_mib: int | None = None
    threads: int | None = None
    gpus: tuple[int, ...] = ()
    gpu_memory_mib: int | None = None
    of_run: bool | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def is_unnamed(self) -> bool:
        """Whether who it is was told before, and so is left out."""
        return self.user is None and self.command is None and not self.why


@dataclass(frozen=True)
class Gpu:
    """One GPU's readings.

    Attributes:
        index: NVML's number of the GPU, as nvidia-smi shows it.
        utilization_pct: the share of time in which a kernel ran.
        memory_used_mib: memory in use.
        power_w: power draw.
        power_limit_w: the limit that holds for it.
        temperature_c: the GPU's temperature.
        sm_mhz: the clock of its processors.
        memory_mhz: the clock of its memory.
        throttle: what holds the clocks down, in words; empty where nothing does.
        energy_j: energy used since the driver was loaded.
        fan_pct: fan speed; 100 % is the nominal maximum.
        ecc_corrected: memory errors that were corrected, since the driver was loaded.
        ecc_uncorrected: memory errors that could not be, since the driver was loaded.
        pcie_generation: the generation of PCIe that the link uses now.
        pcie_width: the lanes that the link uses now.
        pcie_receive_mib_s: what it receives over PCIe; measured with `--pcie` only.
        pcie_send_mib_s: what it sends over PCIe; measured with `--pcie` only.
        mig: whether it is divided into instances (MIG); NVML reports no utilisation of it then.
        encoder_pct: utilisation of the video encoder.
        decoder_pct: utilisation of the video decoder.
        nvlinks: how many NVLinks are active.
        nvlink_receive_mib_s: what it receives over all of them.
        nvlink_send_mib_s: what it sends over all of them.
    """

    index: int
    utilization_pct: int | None = None
    memory_used_mib: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    energy_j: float | None = None
    fan_pct: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_receive_mib_s: float | None = None
    pcie_send_mib_s: float | None = None
    mig: bool | None = None
    encoder_pct: int | None = None
    decoder_pct: int | None = None
    nvlinks: int | None = None
    nvlink_receive_mib_s: float | None = None
    nvlink_send_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What the sampler itself costs.

    Attributes:
        cpu_ms: its CPU time since the last sample.
        late_ms: how long after its time the sample was taken.
    """

    cpu_ms: float
    late_ms: float


@dataclass(frozen=True)
class Machine:
    """One sample of the hardware.

    Attributes:
        cpu: the processor.
        memory: memory and swap.
        disk: disk traffic.
        network: network traffic.
        process: the workload's process tree.
        gpus: every GPU; null, with a reason, when NVML can't be asked.
        processes: every row of the process table, every few seconds, when it changed.
        pressure: pressure on CPU, memory and disk.
        cost: what this sampling costs.
    """

    TYPE: ClassVar[str] = "machine"
    t: int
    wall: float
    cpu: Cpu | None = None
    memory: Memory | None = None
    disk: Disk | None = None
    network: Network | None = None
    process: ProcessTree | None = None
    gpus: tuple[Gpu, ...] | None = None
    processes: tuple[Process, ...] | None = None
    pressure: Pressure | None = None
    cost: Cost | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """One line that the workload printed.

    Attributes:
        stream: stdout or stderr.
        text: the line, without its end.
        left_out: how many lines before it were not kept.
    """

    TYPE: ClassVar[str] = "output"
    t: int
    stream: str
    text: str
    left_out: int | None = None


@dataclass(frozen=True)
class Notice:
    """Something a person should know.

    Attributes:
        text: a sentence.
    """

    TYPE: ClassVar[str] = "notice"
    t: int
    text: str


@dataclass(frozen=True)
class Failure:
    """Why the workload gave up, in its own words.

    Attributes:
        text: a sentence.
    """

    TYPE: ClassVar[str] = "failure"
    t: int
    text: str


@dataclass(frozen=True)
class SecondsPerEpoch:
    """Wall time of the mean whole epoch, validation included.

    Attributes:
        value: the mean, or a projection of it.
        low: the lower end of the 95 % interval of that mean, of a projection too: a single epoch
            may lie further off. Null while nothing is known of how sure the value is.
        high: its upper end.
        epochs: how many whole epochs stand behind the value.
        projected: whether it is a projection, because no whole epoch was measured.
        first_left_out: whether the first epoch, which compiles, is not among them.
    """

    value: float
    low: float | None
    high: float | None
    epochs: int
    projected: bool
    first_left_out: bool = False


@dataclass(frozen=True)
class RunSeconds:
    """Wall time of build, every epoch and the final evaluation.

    Attributes:
        value: the wall time, or a projection of it.
        low: the lower end of the 95 % interval of a projection, by what is still to come. Null for
            a run that was measured: nothing is known of how others would differ.
        high: its upper end.
        projected: whether it is a projection.
    """

    value: float
    low: float | None
    high: float | None
    projected: bool


@dataclass(frozen=True)
class SamplesPerSecond:
    """Steady-state throughput.

    Attributes:
        median: by the median step.
        mean: samples over time.
        standard_error: of the mean; it allows for noise that lasts for seconds.
        jitter: 1.4826 × MAD over batches.
        band: the half-width of the mean's 95 % interval.
    """

    median: float
    mean: float
    standard_error: float | None
    jitter: float
    band: float | None = None


@dataclass(frozen=True)
class StepTime:
    """Steady-state time of a batch in milliseconds.

    Attributes:
        median: the median.
        p95: the 95 % quantile.
        mean: the mean; older logs lack it.
    """

    median: float
    p95: float
    mean: float | None = None


@dataclass(frozen=True)
class Result:
    """The last line of a log, and what `--json` prints.

    Attributes:
        status: completed, failed or stopped.
        session: the session's id.
        log: the path of its log.
        workload: what was trained.
        device: what it ran on: cpu, or gpu:N by NVML's number.
        options: the options of the run, with the workload's defaults filled in.
        wall_s: wall time of the session.
        seconds_per_epoch: wall time of an epoch.
        run_seconds: wall time of the whole run.
        samples_per_second: throughput.
        step_ms: time of a batch.
        compile_s: how long compiling took.
        device_name: the product's name of the device.
        data: what the samples were: real or synthetic.
        error: why it failed, in words.
        exit_code: of the workload's process; negative: the signal that ended it.
        epochs: how many epochs ended.
        batches: how many training batches ended.
        stalls: steps, and openings of epochs, that took over ten times the median step.
        opening_stalls: those of the `stalls` that were at the start of an epoch.
        energy_j_per_epoch: joules of a whole epoch, by "gpu" and "cpu"; those that were measured.
        cost_usd: price × wall time.
        effective_flop_s: operations per sample × mean samples per second.
        peak_share: `effective_flop_s` as a share (0 to 1) of the matmul peak measured on that
            device in that precision.
        samples_per_epoch: samples of a whole epoch of the data that were read; older logs lack it.
    """

    TYPE: ClassVar[str] = "result"
    status: str
    session: str
    log: str
    workload: str
    device: str | None
    options: dict[str, Any]
    wall_s: float
    seconds_per_epoch: SecondsPerEpoch | None = None
    run_seconds: RunSeconds | None = None
    samples_per_second: SamplesPerSecond | None = None
    step_ms: StepTime | None = None
    compile_s: float | None = None
    device_name: str | None = None
    data: str | None = None
    error: str | None = None
    exit_code: int | None = None
    epochs: int | None = None
    batches: int | None = None
    stalls: int | None = None
    opening_stalls: int | None = None
    energy_j_per_epoch: dict[str, float] | None = None
    cost_usd: float | None = None
    effective_flop_s: float | None = None
    peak_share: float | None = None
    samples_per_epoch: int | None = None
    t: int | None = None
    wall: float | None = None
    why: dict[str, str] = field(default_factory=dict)


Record = (
    SessionHeader
    | Facts
    | Phase
    | Model
    | Batches
    | BatchSummary
    | Epoch
    | Evaluation
    | Machine
    | Output
    | Notice
    | Failure
    | Result
)

_TYPES: dict[str, type[Any]] = {
    cls.TYPE: cls for cls in get_args(Record) if cls is not BatchSummary
}


def encode(record: Record) -> bytes:
    """Return `record` as one line of JSON, newline included.

    Raises:
        ValueError: a number is NaN or infinite; say null and why instead.
    """
    line = {"type": record.TYPE, **to_json(record)}
    return (
        json.dumps(line, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        + b"\n"
    )


def to_json(value: Any) -> Any:
    """Turn records into plain dicts: a None without a reason is left out."""
    if hasattr(value, "__dataclass_fields__"):
        why: Mapping[str, str] = getattr(value, "why", {})
        flat = {}
        for spec in fields(value):
            item = getattr(value, spec.name)
            if item is None and spec.name not in why and spec.default is None:
                continue
            if spec.name == "why" and not item:
                continue
            flat[spec.name] = to_json(item)
        return flat
    if isinstance(value, tuple):
        return list(value) if value and type(value[0]) is int else [to_json(v) for v in value]
    return value


def decode(line: bytes | str) -> Record | None:
    """Return the record that `line` holds, cleaned, or None for a type unknown here.

    Raises:
        RecordError: the line is not JSON, not an object with a `type`, or a
            field is missing or of the wrong kind.
    """
    try:
        text = line if isinstance(line, str) else str(line, "utf-8", "surrogatepass")
        loaded = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not a record: {error}") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("type"), str):
        raise RecordError("not a record: an object with a type was expected")
    kind = loaded["type"]
    if kind not in _TYPES:
        return None
    cls = BatchSummary if kind == "batches" and "count" in loaded else _TYPES[kind]
    try:
        parsed: Record = _parse_object(cls, loaded, kind)
    except RecursionError:
        raise RecordError(f"{kind}: nested too deeply") from None
    if isinstance(parsed, Batches):
        _check_batches(parsed)
    if isinstance(parsed, BatchSummary):
        _check_summary(parsed)
    return parsed


def finite(metrics: Mapping[str, Any]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Split metrics into JSON-safe values and the reasons of those that aren't finite."""
    values: dict[str, float | None] = {}
    why: dict[str, str] = {}
    for name, metric in metrics.items():
        try:
            number = float(metric)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # the last one by Torch
            values[name], why[name] = None, "not a single number"
            continue
        values[name] = number if math.isfinite(number) else None
        if values[name] is None:
            why[name] = "NaN" if math.isnan(number) else "infinite"
    return values, why


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# One for all lines: json.loads would make another for each of them.
_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


def _check_batches(batches: Batches) -> None:
    sizes = (batches.samples,) if isinstance(batches.samples, int) else batches.samples
    if not batches.dt_us:
        raise RecordError("batches: dt_us is empty")
    least = min(batches.first, batches.opening_us or 0, (batches.per_execution or 1) - 1)
    if min(batches.dt_us) < 0 or min(sizes, default=0) < 0 or least < 0:
        raise RecordError("batches: a negative duration, index or number of samples")
    if not isinstance(batches.samples, int) and len(sizes) != len(batches.dt_us):
        raise RecordError("batches: samples and dt_us differ in length")


def _check_summary(summary: BatchSummary) -> None:
    if summary.count < 1 or len(summary.step_us) != 7:
        raise RecordError("batches: a count and seven quantiles were expected")
    told = (summary.stalls, summary.opening_us, summary.first_us, (summary.first_steps or 1) - 1)
    known = [number for number in told if number is not None]
    if min(summary.first, summary.samples, summary.time_us, *summary.step_us, *known) < 0:
        raise RecordError("batches: a negative duration, index or number of samples")


_Parser = Callable[[Any, str], Any]


@dataclass(frozen=True)
class _Form:
    """How the objects of one class are read: its fields' parsers, and what may be left out."""

    parsers: dict[str, _Parser]
    required: tuple[str, ...]
    defaults: dict[str, Any]


_FORMS: dict[type[Any], _Form] = {}


def _form_of(cls: type[Any]) -> _Form:
    hints, specs = get_type_hints(cls), fields(cls)
    return _Form(
        parsers={spec.name: _parser(hints[spec.name]) for spec in specs},
        required=tuple(
            spec.name
            for spec in specs
            if spec.default is MISSING and spec.default_factory is MISSING
        ),
        defaults={spec.name: None if spec.default is MISSING else spec.default for spec in specs},
    )


def _parse_object(cls: type[Any], loaded: Any, where: str) -> Any:
    if not isinstance(loaded, dict):
        raise RecordError(f"{where}: an object was expected")
    form = _FORMS.get(cls)
    if form is None:
        form = _FORMS[cls] = _form_of(cls)
    parsers, values = form.parsers, form.defaults.copy()
    for name, value in loaded.items():
        parse = parsers.get(name)
        if parse is not None:
            values[name] = parse(value, f"{where}.{name}")
    for name in form.required:
        if name not in loaded:
            raise RecordError(f"{where}.{name} is missing")
    if "why" in parsers and "why" not in loaded:
        values["why"] = {}
    return filled(cls, values)


def filled(cls: type[_T], values: dict[str, Any]) -> _T:
    """Make a record from the values of all its fields.

    A log of a day holds millions of values: the constructor of a frozen class takes them one
    by one, this all at once.
    """
    made = object.__new__(cls)
    made.__dict__.update(values)
    return made


def _parser(hint: Any) -> _Parser:
    """Build the check for one annotation; the kinds are those used above."""
    simple = {int: _integer, float: _number, str: _text, bool: _truth, Any: _anything}
    if hint in simple:
        return simple[hint]
    if hasattr(hint, "__dataclass_fields__"):
        return lambda value, where: _parse_object(hint, value, where)
    options = get_args(hint)
    if get_origin(hint) is tuple:
        return _items(_parser(options[0]), plain_integers=options[0] is int)
    if get_origin(hint) is dict:
        return _mapping(_parser(options[1]))
    return _either(hint, options)


def _either(hint: Any, options: tuple[Any, ...]) -> _Parser:
    parsers = [(_parser(o), get_origin(o) is tuple) for o in options if o is not type(None)]
    nullable = type(None) in options
    if nullable and len(parsers) == 1:
        only = parsers[0][0]
        return lambda value, where: None if value is None else only(value, where)

    def parse(value: Any, where: str) -> Any:
        if value is None:
            if nullable:
                return None
            raise RecordError(f"{where} is null")
        for parser, wants_list in parsers:
            if len(parsers) == 1 or wants_list == isinstance(value, list):
                return parser(value, where)
        raise RecordError(f"{where}: {hint} was expected")

    return parse


def _items(parse_item: _Parser, plain_integers: bool) -> _Parser:
    def parse(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise RecordError(f"{where}: a list was expected")
        all_are_integers = plain_integers and set(map(type, value)) == {int}
        if all_are_integers and min(value) >= -LARGEST and max(value) <= LARGEST:
            return tuple(value)
        return tuple(parse_item(v, where) for v in value)

    return parse


def _mapping(parse_value: _Parser) -> _Parser:
    def parse(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise RecordError(f"{where}: an object was expected")
        return {clean(k, 200): parse_value(v, f"{where}.{clean(k, 40)}") for k, v in value.items()}

    return parse


def _integer(value: Any, where: str) -> int:
    if type(value) is not int or not -LARGEST <= value <= LARGEST:
        raise RecordError(f"{where}: a whole number was expected")
    return value


def _number(value: Any, where: str) -> float:
    if type(value) is int and -LARGEST <= value <= LARGEST:
        return value
    if type(value) is not float or not math.isfinite(value):
        raise RecordError(f"{where}: a number was expected")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{where}: a text was expected")
    return clean(value)


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise RecordError(f"{where}: true or false was expected")
    return value


def _anything(value: Any, where: str) -> Any:
    """Clean a free JSON value (an option, a version) all the way down."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(k, 200): _anything(v, where) for k, v in value.items()}
    if isinstance(value, list):
        return [_anything(v, where) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    return _number(value, where)
