"""The GPU of a Jetson, whose kernel says what NVML leaves out: load, clock, temperature, power.

Before JetPack 7 a Jetson has no NVML, or one with few answers. NVIDIA's guide to Jetson Linux lists
the power rails (INA3221); the other files are those of devfreq and of thermal zones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dlmon.records import Cpu, Gpu, GpuFacts, GpuState, MachineFacts
from dlmon.sensors import kernel_files
from dlmon.sensors.kernel_files import text_of
from dlmon.sensors.nvidia.device import READINGS
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.provider import SensorReading
from dlmon.sensors.query import IMPOSSIBLE

_T = TypeVar("_T", Gpu, GpuFacts)

# The names of the GPU in a device tree, and of its clock on a Thor.
_GPUS = ("gv11b", "gp10b", "ga10b", "gb10b", "gpu")
_CLOCKS = "gpu-gpc-"
_GPU_ZONES, _CPU_ZONES = ("gpu-thermal", "GPU-therm"), ("cpu-thermal", "CPU-therm")
# On small boards a rail supplies CPU and GPU together: it is reported as the GPU's.
_GPU_RAILS = ("VDD_GPU", "GPU", "VDD_GPU_SOC", "VDD_CPU_GPU_CV", "VDD_SYS_GPU")
_CPU_RAILS = ("VDD_CPU", "CPU", "VDD_CPU_CV", "VDD_CPU_SOC_MSS", "VDD_SYS_CPU")
_SYSTEM = "system"
_NOT_REPORTED = "not reported here"
# With JetPack 6 on an Orin, NVML lists "Orin (nvgpu)", and says nothing or zeros of it
# (wentbackward/nv-monitor's pull request 17, anduril/jetpack-nixos's 371).
_WITHOUT_NVML = "(nvgpu)"
_USERS_UNKNOWN = "the kernel of a Jetson does not say who uses its GPU"


class _Row(NamedTuple):
    """A field, the files whose product it is, their units in one of the field's, and its most."""

    name: str
    files: tuple[Path, ...]
    per_unit: float
    most: float = 100_000
    digits: int | None = None

    def value(self) -> float:
        """Return the value.

        Raises:
            OSError: a file can't be read.
            ValueError: there is no file, or what it says can't be true.
        """
        if not self.files:
            raise ValueError(_NOT_REPORTED)
        value = math.prod(map(_number, self.files)) / self.per_unit
        if not 0 <= value <= self.most:
            raise ValueError(IMPOSSIBLE)
        return round(value, self.digits)


def is_jetson(root: Path = Path("/")) -> bool:
    """Return whether this machine is a Jetson, by its device tree."""
    return "nvidia,tegra" in text_of(root / "proc/device-tree/compatible")


class JetsonProvider(NvidiaProvider):
    """NVML's GPU with what the kernel adds; without NVML, what the kernel says alone.

    Args:
        root: the root of `/proc` and `/sys`.
        options: those of `NvidiaProvider`.
    """

    def __init__(
        self, load: Callable[[], Any] | None = None, *, root: Path = Path("/"), **options: Any
    ) -> None:
        super().__init__(load, **options)
        self._root = root
        self._is_alone = False
        """True if NVML reports nothing of the GPU."""
        clock = next(_gpu_clocks(root), root / "nowhere")
        loads = (
            *(clock / "device/load", root / "sys/devices/gpu.0/load"),
            root / "sys/devices/platform/gpu.0/load",
        )
        zones = {
            text_of(zone / "type"): (zone / "temp",)
            for zone in root.glob("sys/class/thermal/thermal_zone*")
        }
        rails = dict(_rails(root))
        self._facts = (_Row("sm_max_mhz", (clock / "max_freq",), 1e6),)
        self._fast = (
            # Per mille.
            _Row("utilization_pct", tuple(filter(Path.exists, loads))[:1], 10, most=100),
            _Row("sm_mhz", (clock / "cur_freq",), 1e6),
            _Row("temperature_c", _first(zones, _GPU_ZONES), 1e3, most=250),
            _Row("power_w", _first(rails, _GPU_RAILS), 1e6, digits=1),
        )
        self._of_cpu = (
            _Row("temperature_c", _first(zones, _CPU_ZONES), 1e3, most=250),
            _Row("power_w", _first(rails, _CPU_RAILS), 1e6, digits=1),
        )

    def facts(self) -> MachineFacts:
        facts, (found, why) = super().facts(), _read(self._facts)
        if any(not gpu.name.endswith(_WITHOUT_NVML) for gpu in facts.gpus or ()):
            gpus = tuple(_with_missing(gpu, found) for gpu in facts.gpus or ())
            return replace(facts, gpus=gpus)
        if facts.gpus_state == GpuState.ASLEEP:
            return facts
        self._is_alone = True
        tree = self._root / "proc/device-tree"
        name = text_of(tree / "model").removesuffix(" Developer Kit") or "NVIDIA Jetson"
        unknown = ("slowdown_c", "memory_max_mhz", "pcie_max_generation", "pcie_max_width")
        gpu = GpuFacts(
            0,
            name,
            uuid=f"JETSON-{text_of(tree / 'serial-number')}",
            memory_kind=_SYSTEM,
            state=GpuState.ANSWERS,
            **found,
            why={**dict.fromkeys(("bus_id", *unknown), _NOT_REPORTED), **why},
        )
        reasons = {name: why for name, why in facts.why.items() if name != "gpus"}
        reasons["foreign_gpu_processes"] = _USERS_UNKNOWN
        return replace(
            facts, gpus=(gpu,), gpus_state=GpuState.ANSWERS, foreign_gpu_processes=None, why=reasons
        )

    def fast(self, t: int) -> SensorReading:
        """Read what NVML's provider reads, load, clock, temperature and power."""
        found, why = _read(self._fast)
        cpu, _ = _read(self._of_cpu)
        of_cpu = Cpu(**cpu) if cpu else None
        if self._is_alone:
            unread = dict.fromkeys(READINGS, _NOT_REPORTED)
            why = {n: w for n, w in (unread | why).items() if n not in (*found, "memory_used_mib")}
            gpu = Gpu(0, **found, state=GpuState.ANSWERS, why=why)
            return SensorReading(cpu=of_cpu, gpus=(gpu,), gpus_state=GpuState.ANSWERS)
        reading = super().fast(t)
        if reading.gpus is not None:
            filled = tuple(_with_missing(gpu, found) for gpu in reading.gpus)
            reading = replace(reading, gpus=filled)
        return replace(reading, cpu=of_cpu)

    def slow(self, t: int) -> SensorReading:
        if self._is_alone:
            return SensorReading(why={"gpu_processes": _USERS_UNKNOWN})
        return super().slow(t)


def nvidia_provider(load: Callable[[], Any] | None, **options: Any) -> NvidiaProvider:
    """Return the provider of this machine's NVIDIA GPUs."""
    kind = JetsonProvider if is_jetson() else NvidiaProvider
    return kind(load, **options)


def _with_missing(known: _T, found: Mapping[str, Any]) -> _T:
    """Return a record with the values in `found` for those that it lacks, if it is not lost."""
    if known.state not in (None, GpuState.ANSWERS):
        return known
    values = {name: value for name, value in found.items() if getattr(known, name) is None}
    why = {name: reason for name, reason in known.why.items() if name not in values}
    return replace(known, **values, why=why)


def _gpu_clocks(root: Path) -> Iterator[Path]:
    """Yield the devfreq folders of the GPU."""
    for folder in sorted(root.glob("sys/class/devfreq/*")):
        # A name in a device tree ends in a NUL.
        is_gpu = text_of(folder / "device/of_node/name") in _GPUS
        if is_gpu or folder.name.rpartition(".")[2] in _GPUS or folder.name.startswith(_CLOCKS):
            yield folder


def _rails(root: Path) -> Iterator[tuple[str, tuple[Path, Path]]]:
    """Yield the label of each power rail, and the files of its voltage and its current."""
    for folder in root.glob("sys/class/hwmon/hwmon*"):
        if text_of(folder / "name") == "ina3221":
            for label in folder.glob("in[1-3]_label"):
                number = label.name[2]
                rail = folder / f"in{number}_input", folder / f"curr{number}_input"
                yield text_of(label), rail


def _read(rows: tuple[_Row, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the rows, and the reasons of those that are unknown."""
    return kernel_files.ask({row.name: row.value for row in rows})


def _first(files: Mapping[str, tuple[Path, ...]], names: tuple[str, ...]) -> tuple[Path, ...]:
    return next((files[name] for name in names if name in files), ())


def _number(path: Path) -> int:
    text = kernel_files.read(path).strip()
    if not text.isdecimal():
        raise ValueError("the kernel reported no number")
    return int(text)
