"""What is told of a machine: what does not change about it, and samples of what does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

ANY = "any"
"""Any GPU, where all of them sleep."""


@dataclass(frozen=True)
class GpuFacts:
    """What does not change about one GPU.

    `slowdown_c` is the temperature from which it slows itself down; the PCIe link's generation
    and width are the most that card and slot can do together. `bus_id` is its PCI address,
    `0000:65:00.0`.
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

    `cpu_limit` is what the cgroup allows, in cores, and `cores` what the
    scheduler may use; `gpus` is None, with a reason, where NVML can't be asked.
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
class Cpu:
    """Utilisation of the whole machine and of each core, in percent of one core's time.

    `energy_j` counts what all packages together have taken; only differences mean something.
    `power_w` is their mean power since the sample before, and `load_1m` the kernel's load average.
    `steal_pct` is the share of all cores' time, in `pct` too, that the host of this virtual
    machine gave to others. Where the control group has a CPU limit, `limit_used_pct` is the share
    of it that the group uses, and `throttled_pct` that of its periods in which it was stopped.
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
    """Memory in use, as `total - available`, swap, and pages read from disk.

    All are the control group's where that limits memory.
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
    """

    cpu_pct: float | None = None
    memory_pct: float | None = None
    io_pct: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Disk:
    """Bytes moved by all physical disks."""

    read_mib_s: float | None = None
    write_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """Bytes moved by all network interfaces but loopback."""

    receive_mib_s: float | None = None
    send_mib_s: float | None = None
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessTree:
    """The workload and its descendants; 100 % is one core."""

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

    100 % is one core. `gpus` are NVML's indexes, and `gpu_memory_mib` what it holds on all of
    them together. `of_run` tells whether it belongs to the watched tree: None where nothing is
    watched, or, with a reason, where its pid may be another namespace's. A row without `user`,
    `command` and any reason has those that were told of that pid in the table before.
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
    """One GPU's readings. `energy_j` and the ECC counts began when the driver was loaded.

    `nvlinks` is how many are active. `mig` tells that the card is divided into instances, of
    which NVML knows no utilisation.
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
    """What the sampler itself costs: its CPU time since the last sample, and its lateness."""

    cpu_ms: float
    late_ms: float


@dataclass(frozen=True)
class Machine:
    """One sample of the hardware. `gpus` is None, with a reason, when NVML can't be asked.

    `processes` is told every few seconds, with every row, when it changed; None: as before.
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
