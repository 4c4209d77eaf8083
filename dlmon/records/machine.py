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
        index: its number: NVIDIA's as in nvidia-smi, others' after them.
        name: product's name.
        uuid: GPU's unique id.
        memory_mib: total memory.
        bus_id: PCI address, such as 0000:65:00.0.
        slowdown_c: temperature above which it slows itself down.
        sm_max_mhz: highest clock of its processors.
        memory_max_mhz: highest clock of its memory.
        pcie_max_generation: newest PCIe generation that card and slot support.
        pcie_max_width: most PCIe lanes that they support.
        state: answers, asleep, idle (not queried, so that it can fall asleep), lost, or unknown.
        memory_kind: "own", or "system" if it uses the system's memory; its figures of memory are
            then the system's, within the control group's limit.
        vendor: nvidia, amd or intel.
        virtualization: by NVML: none, passthrough, vgpu (a part of a GPU, in a virtual machine),
            host_vgpu or host_vsga (divided among virtual machines).
        rocm_devices: number of ROCm's devices that it is: several if a GPU of AMD's is divided.
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
    memory_kind: str = "own"
    vendor: str = "nvidia"
    virtualization: str | None = None
    rocm_devices: int = 1
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class MachineFacts:
    """The facts of a machine, which do not change, and its load at the start.

    Attributes:
        cpu_model: processor's name.
        cores: CPUs that the process may run on.
        physical_cores: physical cores.
        cpu_limit: control group's CPU limit in cores.
        memory_mib: the machine's memory.
        memory_limit_mib: control group's memory limit.
        swap_mib: swap space; the control group's if it limits memory.
        gpus: all GPUs; null, with a reason, if there are none.
        gpus_state: their drivers: answers, asleep (all GPUs), lost, no_driver, no_package
            (nvidia-ml-py), versions_differ (of NVIDIA's driver and its library), or unknown.
        driver: version of NVIDIA's driver.
        cuda: newest CUDA that it supports.
        load_1m: load average of a minute, at the start.
        cpu_pct: utilisation of all cores at the start, over a quarter of a second.
        foreign_gpu_processes: processes on the GPUs at the start.
        governor: frequency governor of the first CPU.
        on_battery: whether the machine ran on battery.
        sees_every_process: whether processes of all users are seen; not in a container or under
            WSL.
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
    sees_every_process: bool | None = None
    why: dict[str, str] = field(default_factory=dict)

    @property
    def usable_memory_mib(self) -> int | None:
        """The control group's memory limit, else the machine's memory."""
        return self.memory_limit_mib or self.memory_mib


@record(frozen=True)
class Cpu:
    """The CPU of the machine. A utilisation of 100 % means no idle time.

    Attributes:
        pct: mean utilisation of all cores.
        cores: utilisation of each core.
        load_1m: load average of the last minute.
        power_w: mean power of all packages.
        mhz: mean clock of the cores.
        temperature_c: temperature of the hottest package.
        throttled_pct: quota periods in which the control group's CPU limit held it back.
        limit_used_pct: share of the CPU limit that is used.
        energy_j: counter of the energy of all packages; only differences mean something.
        steal_pct: share of all cores' time that this virtual machine's host gave to others; in
            `pct`.
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
        major_faults_s: page faults that waited for a disk.
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
        cpu_pct: time in which a program waited for a CPU.
        memory_pct: time in which a program waited for memory.
        io_pct: time in which a program waited for a disk.
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
        cpu_pct: CPU time of all processes.
        busiest_thread_pct: CPU time of the busiest thread.
        busiest_process_pct: CPU time of the busiest process.
        cpu_wait_pct: of the thread that waited most, the share of time that it was ready and waited
            for a CPU.
        rss_mib: memory (resident set size).
        processes: number of processes.
        threads: number of threads.
        major_faults_s: page faults that waited for a disk.
        read_mib_s: data read from disks, without the page cache.
        blocked: processes in uninterruptible sleep (state D).
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

    100 % is one core. If `user`, `command`, `started` and `why` are absent, they and `parent` are
    the same as in the previous table.

    Attributes:
        pid: its id.
        user: its user.
        command: command line, shortened.
        cpu_pct: CPU time.
        rss_mib: memory (resident set size).
        threads: its threads.
        gpus: numbers of its GPUs.
        gpu_memory_mib: memory on all GPUs.
        of_run: whether it belongs to the watched tree; null if none is watched, or if the pid may
            be of another namespace.
        started: its start, in Unix seconds.
        parent: its parent's id.
        gpu_pct: share of time in which a GPU's busiest engine worked for it; AMD and Intel only,
            without computing by ROCm, which Linux does not count.
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
    parent: int | None = None
    gpu_pct: int | None = None
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
        index: its number on its GPU.
        name: name with its profile, such as "MIG 1g.10gb".
        gpu_instance: number of its GPU instance (GI).
        compute_instance: number of its compute instance (CI).
        memory_mib: total memory.
        memory_used_mib: memory in use.
        pids: pids that compute on it.
        utilization_pct: share of time in which a kernel ran; this and the next four from Hopper on,
            over all compute instances of its GPU instance.
        sm_active_pct: as in `Gpu`.
        sm_occupancy_pct: as in `Gpu`.
        tensor_pct: as in `Gpu`.
        dram_pct: as in `Gpu`.
    """

    index: int
    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_mib: int | None = None
    memory_used_mib: int | None = None
    pids: tuple[int, ...] | None = None
    utilization_pct: float | None = None
    sm_active_pct: float | None = None
    sm_occupancy_pct: float | None = None
    tensor_pct: float | None = None
    dram_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Gpu:
    """The readings of one GPU.

    Attributes:
        index: its number, as in `GpuFacts`.
        utilization_pct: share of time in which a kernel ran.
        memory_used_mib: memory in use.
        power_w: power draw.
        power_limit_w: enforced power limit.
        temperature_c: temperature of the GPU.
        sm_mhz: clock of its processors.
        memory_mhz: clock of its memory.
        throttle: reasons why the clocks are throttled.
        energy_j: energy used since the driver was loaded.
        fan_pct: fan speed; 100 is the nominal maximum.
        ecc_corrected: corrected memory errors since the driver was loaded.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        pcie_generation: PCIe generation in use.
        pcie_width: PCIe lanes in use.
        pcie_receive_mib_s: received over PCIe; with `--pcie`.
        pcie_send_mib_s: sent over PCIe; with `--pcie`.
        mig: whether MIG is on; it has no utilisation then.
        encoder_pct: utilisation of the video encoder.
        decoder_pct: utilisation of the video decoder.
        nvlinks: active NVLinks.
        nvlink_receive_mib_s: received over all NVLinks.
        nvlink_send_mib_s: sent over all NVLinks.
        state: as in `GpuFacts`.
        memory_busy_pct: share of time in which its memory was read or written.
        sm_active_pct: mean share of its processors (SMs) that had work; this and the next three
            from Hopper on.
        sm_occupancy_pct: share of the possible threads (warps) that ran.
        tensor_pct: share of time in which the tensor cores worked.
        dram_pct: share of the memory's bandwidth in use.
        xid_errors: errors (Xid) since dlmon started.
        xids: codes of the newest ones.
        instances: its MIG instances.
        junction_c: temperature of its chip's hottest spot.
        memory_c: its memory's temperature.
        gtt_used_mib: system's memory that it uses (GTT).
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
    junction_c: int | None = None
    memory_c: int | None = None
    gtt_used_mib: int | None = None
    why: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class Cost:
    """The cost of the sampler.

    Attributes:
        cpu_ms: CPU time since the last sample.
        late_ms: delay of the sample.
    """

    cpu_ms: float
    late_ms: float


@record(frozen=True)
class Machine:
    """One sample of the hardware.

    Attributes:
        cpu: processor.
        memory: memory and swap.
        disk: disk traffic.
        network: network traffic.
        process: workload's process tree.
        gpus: all GPUs; null, with a reason, if none can be read.
        gpus_state: as in `MachineFacts`.
        processes: the process table, every few seconds, if it changed.
        pressure: waits for CPU, memory and disk.
        cost: the sampler's cost.
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
        gpu_pct: mean utilisation, by "gpu:N".
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
        t: time of the report, on the session's clock.
        host: its name.
        machine: a sample, also with its `t` on that clock.
        facts: its facts, written once.
    """

    TYPE: ClassVar[str] = "node"
    t: int
    host: str
    machine: Machine | None = None
    facts: MachineFacts | None = None
