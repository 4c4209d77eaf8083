"""The records of a machine: its facts, and samples of its hardware."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import ClassVar

from dlmon.records.record import record
from dlmon.records.words import GpuState

MAX_OF_RUN, MAX_ON_GPUS, MAX_BUSIEST = 12, 16, 8
"""The most rows of a process table for the run, for the GPUs, and for the busiest others."""


@record(frozen=True)
class GpuFacts:
    """The facts of one GPU, which do not change.

    Attributes:
        index: NVML's number of the GPU, as in nvidia-smi.
        name: the product's name.
        uuid: the GPU's unique id.
        memory_mib: total memory.
        bus_id: the PCI address, such as 0000:65:00.0.
        slowdown_c: the temperature above which it slows itself down.
        sm_max_mhz: the highest clock of its processors.
        memory_max_mhz: the highest clock of its memory.
        pcie_max_generation: the newest PCIe generation that card and slot support.
        pcie_max_width: the most PCIe lanes that card and slot support.
        state: its state: answers, asleep, idle (not queried, so that it can fall asleep), lost, or
            unknown.
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
    """The facts of a machine, which do not change, and its load at the start.

    Attributes:
        cpu_model: the processor's name, as the kernel reports it.
        cores: the number of CPUs that the process may run on.
        physical_cores: the number of physical cores of the machine.
        cpu_limit: the control group's CPU limit in cores.
        memory_mib: memory of the machine.
        memory_limit_mib: the control group's memory limit.
        swap_mib: swap space; the control group's if it limits memory.
        gpus: all GPUs that NVML reports; null, with a reason, if NVML can't be used.
        gpus_state: the state of NVML: answers, asleep (all GPUs), lost, no_driver, no_package
            (nvidia-ml-py), versions_differ (of the driver and its library), or unknown.
        driver: the version of the NVIDIA driver.
        cuda: the newest CUDA version that the driver supports.
        load_1m: the load average of the last minute, at the start.
        cpu_pct: utilisation of all cores at the start, over a quarter of a second.
        foreign_gpu_processes: the number of processes on the GPUs at the start.
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
    """The CPU of the machine. A utilisation of 100 % means no idle time.

    Attributes:
        pct: mean utilisation of all cores.
        cores: utilisation of each core.
        load_1m: the kernel's load average of the last minute.
        power_w: mean power of all packages since the last sample.
        mhz: the mean clock of the cores.
        temperature_c: the temperature of the hottest package.
        throttled_pct: the share of the control group's quota periods in which it was throttled,
            if it has a CPU limit.
        limit_used_pct: the share of that limit that is used.
        energy_j: a counter of the energy of all packages; only differences have a meaning.
        steal_pct: the share of all cores' time that the host of this virtual machine gave to
            others; `pct` includes it.
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
    """Memory in use, swap, and major page faults; the control group's if it limits memory.

    Attributes:
        used_mib: memory in use: total less available.
        swap_used_mib: swap in use.
        swap_mib_s: traffic to and from swap.
        major_faults_s: page faults per second that waited for a disk.
    """

    used_mib: int | None = None
    swap_used_mib: int | None = None
    swap_mib_s: float | None = None
    major_faults_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Pressure:
    """Pressure stall information (PSI) of the control group or, if it has none, of the machine.

    Attributes:
        cpu_pct: the share of time in which a program waited for a CPU.
        memory_pct: the share of time in which a program waited for memory.
        io_pct: the share of time in which a program waited for a disk.
    """

    cpu_pct: float | None = None
    memory_pct: float | None = None
    io_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Disk:
    """The traffic of all physical disks.

    Attributes:
        read_mib_s: data read.
        write_mib_s: data written.
    """

    read_mib_s: float | None = None
    write_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Network:
    """The traffic of all physical network interfaces; in a container, of all but loopback.

    Attributes:
        receive_mib_s: data received.
        send_mib_s: data sent.
    """

    receive_mib_s: float | None = None
    send_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class ProcessTree:
    """The workload and its descendants; 100 % is one core.

    Attributes:
        cpu_pct: CPU time of all processes together.
        busiest_thread_pct: CPU time of the busiest thread.
        busiest_process_pct: CPU time of the busiest process.
        cpu_wait_pct: the share of time that a thread was ready to run and waited for a CPU; of the
            thread that waited most.
        rss_mib: memory (resident set size).
        processes: the number of processes.
        threads: the number of threads.
        major_faults_s: page faults per second that waited for a disk.
        read_mib_s: data read from disks, without the page cache.
        blocked: the number of processes in uninterruptible sleep (state D), as while a disk reads.
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

    100 % is one core. If `user`, `command`, `started` and `why` are absent, they are the same as in
    the previous table.

    Attributes:
        pid: the process id.
        user: the name of its user.
        command: the command line, shortened.
        cpu_pct: CPU time.
        rss_mib: memory (resident set size).
        threads: the number of threads.
        gpus: NVML's numbers of the GPUs that it uses.
        gpu_memory_mib: memory on all GPUs together.
        of_run: whether it belongs to the watched tree; null if no tree is watched or, with a
            reason, if the pid may be of another pid namespace.
        started: the time of its start, in Unix seconds.
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
        """True if the row leaves out the identity, which was sent before."""
        return self.user is None and self.command is None and self.started is None and not self.why

    def is_other_on(self, gpus: Collection[int]) -> bool:
        """Return whether it uses one of these GPUs and does not belong to the run."""
        return self.of_run is False and not set(gpus).isdisjoint(self.gpus)


@record(frozen=True)
class MigInstance:
    """One MIG instance of a GPU.

    Attributes:
        index: NVML's number of the instance on its GPU, as in nvidia-smi.
        name: the product's name with the instance's profile, such as "MIG 1g.10gb".
        gpu_instance: NVML's number of the GPU instance (GI).
        compute_instance: NVML's number of the compute instance (CI).
        memory_mib: total memory.
        memory_used_mib: memory in use.
        pids: the processes that compute on it, by the driver's pids.
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
    """The readings of one GPU.

    Attributes:
        index: NVML's number of the GPU, as in nvidia-smi.
        utilization_pct: the share of time in which a kernel ran.
        memory_used_mib: memory in use.
        power_w: power draw.
        power_limit_w: the enforced power limit.
        temperature_c: the GPU's temperature.
        sm_mhz: the clock of its processors.
        memory_mhz: the clock of its memory.
        throttle: the reasons why the clocks are throttled; empty if they are not.
        energy_j: energy used since the driver was loaded.
        fan_pct: fan speed; 100 % is the nominal maximum.
        ecc_corrected: corrected memory errors since the driver was loaded.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        pcie_generation: the PCIe generation that the link uses now.
        pcie_width: the PCIe lanes that the link uses now.
        pcie_receive_mib_s: data received over PCIe; only with `--pcie`.
        pcie_send_mib_s: data sent over PCIe; only with `--pcie`.
        mig: whether MIG is on; NVML reports no utilisation then.
        encoder_pct: utilisation of the video encoder.
        decoder_pct: utilisation of the video decoder.
        nvlinks: the number of active NVLinks.
        nvlink_receive_mib_s: data received over all NVLinks.
        nvlink_send_mib_s: data sent over all NVLinks.
        state: as in `GpuFacts`.
        memory_busy_pct: the share of time in which its memory was read or written.
        sm_active_pct: the mean share of its processors (SMs) that had work since the last sample;
            this and the next three are measured from Hopper on.
        sm_occupancy_pct: the share of the possible threads (warps) that the processors ran.
        tensor_pct: the share of time in which the tensor cores worked.
        dram_pct: the share of the memory's bandwidth that was used.
        xid_errors: the number of errors (Xid) that the driver reported since dlmon started.
        xids: the codes of the newest errors, in order.
        instances: its MIG instances; empty if MIG is off.
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
    """The cost of the sampler.

    Attributes:
        cpu_ms: CPU time since the last sample.
        late_ms: the delay of the sample after its scheduled time.
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
        gpus: all GPUs; null, with a reason, if NVML can't be used.
        gpus_state: as in `MachineFacts`.
        processes: all rows of the process table, every few seconds, if it changed.
        pressure: pressure on CPU, memory and disk.
        cost: the cost of the sampler.
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
    """The use of a machine over a recording.

    Attributes:
        gpu_pct: mean utilisation of each GPU, by "gpu:N".
        energy_j: joules by "cpu" and "gpu:N", for each whose counter was always read.
        cpu_pct: mean utilisation of all cores.
    """

    gpu_pct: dict[str, float]
    energy_j: dict[str, float]
    cpu_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Node:
    """The facts or a sample of another host of the run.

    Attributes:
        t: the time of the report, on the session's clock.
        host: the host's name.
        machine: a sample, with its `t` on the session's clock too.
        facts: the host's facts, written once.
    """

    TYPE: ClassVar[str] = "node"
    t: int
    host: str
    machine: Machine | None = None
    facts: MachineFacts | None = None
