"""The records of a machine: what does not change about it, and samples of what does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import ClassVar

from dlmon.records.record import record
from dlmon.records.words import GpuState

MAX_OF_RUN, MAX_ON_GPUS, MAX_BUSIEST = 12, 16, 8
"""A process table has at most so many of the run, on the GPUs, and of the others."""


@record(frozen=True)
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
        state: whether it answers: answers, asleep, idle (left alone, so that it can fall asleep),
            lost, or unknown.
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
    state: GpuState | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
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
        gpus_state: whether NVML can be asked: answers, asleep (all GPUs), lost, no_driver,
            no_package (nvidia-ml-py), versions_differ (of the driver and its library), or unknown.
        driver: the version of the NVIDIA driver.
        cuda: the newest CUDA version that the driver supports.
        load_1m: the load average of the last minute, at the start.
        cpu_pct: utilisation of all cores at the start, over a quarter of a second.
        foreign_gpu_processes: how many processes used a GPU at the start.
        governor: the frequency governor of the first CPU.
        on_battery: whether the machine ran on battery.
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
    gpus_state: GpuState | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
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


@record(frozen=True)
class Memory:
    """Memory in use, swap, and pages read from disk.

    All are the control group's where that limits memory.

    Attributes:
        used_mib: memory in use: what there is less what is available.
        swap_used_mib: swap in use.
        swap_mib_s: what moves to and from swap.
        major_faults_s: page faults per second that had to wait for a disk.
    """

    used_mib: int | None = None
    swap_used_mib: int | None = None
    swap_mib_s: float | None = None
    major_faults_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
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


@record(frozen=True)
class Disk:
    """Bytes moved by all physical disks.

    Attributes:
        read_mib_s: what is read.
        write_mib_s: what is written.
    """

    read_mib_s: float | None = None
    write_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Network:
    """Bytes moved by all network interfaces but loopback.

    Attributes:
        receive_mib_s: what is received.
        send_mib_s: what is sent.
    """

    receive_mib_s: float | None = None
    send_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class ProcessTree:
    """The workload and its descendants; 100 % is one core.

    Attributes:
        cpu_pct: CPU time of all of them together.
        busiest_thread_pct: CPU time of the thread that used the most.
        busiest_process_pct: CPU time of the process that used the most, all its threads together.
        cpu_wait_pct: the share of time in which the thread that waited most was ready to run, and
            waited for a CPU.
        rss_mib: memory that they hold (resident set).
        processes: how many there are.
        threads: how many threads they have.
        major_faults_s: page faults per second that had to wait for a disk.
        read_mib_s: what they read from disks, not from memory that holds files.
        blocked: how many of them waited for a disk, or the like, as they were read (state D).
    """

    cpu_pct: float | None = None
    busiest_thread_pct: float | None = None
    rss_mib: int | None = None
    processes: int | None = None
    threads: int | None = None
    major_faults_s: float | None = None
    cpu_wait_pct: float | None = None
    read_mib_s: float | None = None
    blocked: int | None = None
    busiest_process_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Process:
    """One process: of the run's tree, on a GPU, or among the machine's busiest.

    100 % is one core. A row without `user`, `command` and any reason has those, and the start, that
    were reported of that pid in the table before.

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
        started: when it started, by the clock of the machine, in seconds since 1970.
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
    started: float | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def is_unnamed(self) -> bool:
        """Whether user, command and start were sent before, and so are left out."""
        return self.user is None and self.command is None and self.started is None and not self.why

    def is_other_on(self, gpus: Collection[int]) -> bool:
        """Return whether it is none of the run's, and uses one of these GPUs."""
        return self.of_run is False and not set(gpus).isdisjoint(self.gpus)


@record(frozen=True)
class MigInstance:
    """One part of a GPU that is divided into instances (MIG).

    Attributes:
        index: NVML's number of it on its GPU, as nvidia-smi shows it.
        name: the product's name with the instance's profile, such as "MIG 1g.10gb".
        gpu_instance: NVML's number of its share of the GPU (GI).
        compute_instance: NVML's number of its part of that share (CI).
        memory_mib: its memory.
        memory_used_mib: memory of it in use.
        pids: the processes that compute on it, by the driver's numbers.
    """

    index: int
    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_mib: int | None = None
    memory_used_mib: int | None = None
    pids: tuple[int, ...] | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
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
        state: as in `GpuFacts`.
        memory_busy_pct: the share of time in which its memory was read or written.
        sm_active_pct: how many of its processors (SMs) had work, on average since the sample
            before; this and what follows is measured from Hopper on.
        sm_occupancy_pct: how many threads (warps) they ran, of as many as they can.
        tensor_pct: how much of the time their tensor cores worked.
        dram_pct: how much of its memory's bandwidth was used.
        xid_errors: how many errors the driver reported of it (Xid) since dlmon has watched it.
        xids: the numbers of the newest ones, the last of them last.
        instances: its parts, where it is divided; empty where it is not.
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
    state: GpuState | None = None
    memory_busy_pct: int | None = None
    sm_active_pct: float | None = None
    sm_occupancy_pct: float | None = None
    tensor_pct: float | None = None
    dram_pct: float | None = None
    xid_errors: int | None = None
    xids: tuple[int, ...] | None = None
    instances: tuple[MigInstance, ...] | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Cost:
    """What the sampler itself costs.

    Attributes:
        cpu_ms: its CPU time since the last sample.
        late_ms: how long after its time the sample was taken.
    """

    cpu_ms: float
    late_ms: float


@record(frozen=True)
class Machine:
    """One sample of the hardware.

    Attributes:
        cpu: the processor.
        memory: memory and swap.
        disk: disk traffic.
        network: network traffic.
        process: the workload's process tree.
        gpus: every GPU; null, with a reason, when NVML can't be asked.
        gpus_state: as in `MachineFacts`.
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
    gpus_state: GpuState | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class MachineUse:
    """How much of a machine was used while it was recorded.

    Attributes:
        gpu_pct: mean utilisation of each GPU, as "gpu:N".
        energy_j: joules by "cpu" and "gpu:N"; those whose counter was read throughout.
        cpu_pct: mean utilisation of all cores.
    """

    gpu_pct: dict[str, float]
    energy_j: dict[str, float]
    cpu_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Node:
    """What another machine of the run reports of itself.

    Attributes:
        t: when it was reported, on the session's own clock.
        host: what the machine is called.
        machine: a sample of it, its `t` on the session's clock too.
        facts: what does not change about it, written once.
    """

    TYPE: ClassVar[str] = "node"
    t: int
    host: str
    machine: Machine | None = None
    facts: MachineFacts | None = None
