"""What psutil says of a Mac beside its CPU: memory, swap, disks and network. GPUs are not read."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from dlmon.records import Disk, GpuState, MachineFacts, Memory, Network
from dlmon.sensors.kernel_files import ask, psutil
from dlmon.sensors.nvidia.device import Missing
from dlmon.sensors.provider import BYTES_IN_MIB, Provider, Rates, SensorReading, mib_per_second

_MODEL = ("sysctl", "-n", "machdep.cpu.brand_string")


def no_gpus_of_macos() -> Missing:
    """Return why there is no NVML."""
    return Missing("dlmon reads no GPU of a Mac", GpuState.NO_DRIVER)


class MacosProvider(Provider):
    """Comes after the providers that read Linux's files, which it completes."""

    def __init__(self) -> None:
        self._disk, self._network = Rates(), Rates()

    def facts(self) -> MachineFacts:
        values, why = ask(
            {
                "cpu_model": _cpu_model,
                "physical_cores": lambda: psutil.cpu_count(logical=False),
                "memory_mib": lambda: int(psutil.virtual_memory().total) // BYTES_IN_MIB,
                "swap_mib": lambda: int(psutil.swap_memory().total) // BYTES_IN_MIB,
            }
        )
        return MachineFacts(**values, why=why)

    def fast(self, t: int) -> SensorReading:
        """Read the traffic of disks and network."""
        moved, disk = psutil.disk_io_counters(), ("read_mib_s", "write_mib_s")
        sent, network = psutil.net_io_counters(), ("receive_mib_s", "send_mib_s")
        of_disk = () if moved is None else (moved.read_bytes, moved.write_bytes)
        of_network = () if sent is None else (sent.bytes_recv, sent.bytes_sent)
        return SensorReading(
            disk=Disk(**_rates(self._disk, t, disk, of_disk)),
            network=Network(**_rates(self._network, t, network, of_network)),
        )

    def slow(self, t: int) -> SensorReading:
        """Read the swap in use."""
        used = {"swap_used_mib": lambda: int(psutil.swap_memory().used) // BYTES_IN_MIB}
        values, why = ask(used)
        return SensorReading(memory=Memory(**values, why=why))


def _rates(rates: Rates, t: int, names: tuple[str, str], counts: tuple[int, ...]) -> dict[str, Any]:
    """Return two rates in MiB/s by their names, or why they are unknown."""
    if not counts:
        return {"why": dict.fromkeys(names, "not reported here")}
    try:
        per_second = rates.per_second(t, *counts)
    except ValueError as error:
        return {"why": dict.fromkeys(names, str(error))}
    return dict(zip(names, map(mib_per_second, per_second), strict=True))


def _cpu_model() -> str:
    done = subprocess.run(_MODEL, capture_output=True, text=True, timeout=2, env=os.environ)
    if done.returncode or not done.stdout.strip():
        raise ValueError("not reported here")
    return done.stdout.strip()
