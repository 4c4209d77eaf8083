"""Memory, swap and major page faults of the whole machine."""

from __future__ import annotations

import os
from pathlib import Path

from dlmon.records import MachineFacts, Memory
from dlmon.sensors import kernel_files
from dlmon.sensors.kernel_files import ask, is_read_by_psutil, psutil
from dlmon.sensors.provider import BYTES_IN_MIB, Provider, Rates, SensorReading, mib_per_second


class MemoryProvider(Provider):
    """Memory by psutil; swap from /proc/meminfo, swapped pages and faults from /proc/vmstat."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._meminfo = str(root / "proc/meminfo")
        self._vmstat = str(root / "proc/vmstat")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._counted = Rates()

    def facts(self) -> MachineFacts:
        values, why = ask(
            {
                "memory_mib": lambda: self._kib("MemTotal:")[0] // 1024,
                "swap_mib": lambda: self._kib("SwapTotal:")[0] // 1024,
            }
        )
        return MachineFacts(**values, why=why)

    def fast(self, t: int) -> SensorReading:
        """Read the memory in use: the total less what is available to a new program."""
        values, why = ask({"used_mib": self._used_mib})
        return SensorReading(memory=Memory(**values, why=why))

    def slow(self, t: int) -> SensorReading:
        """Read the swap in use, the swap traffic, and the major faults."""
        values, why = ask({"swap_used_mib": self._swap_used_mib})
        try:
            vmstat = counts(kernel_files.read(self._vmstat), ("pswpin", "pswpout", "pgmajfault"))
            pages = vmstat["pswpin"] + vmstat["pswpout"]
            swapped_s, faults_s = self._counted.per_second(t, pages, vmstat["pgmajfault"])
            values["swap_mib_s"] = mib_per_second(swapped_s * self._page_bytes)
            values["major_faults_s"] = round(faults_s, 1)
        except (OSError, ValueError) as error:
            why.update(dict.fromkeys(("swap_mib_s", "major_faults_s"), kernel_files.reason(error)))
        return SensorReading(memory=Memory(**values, why=why))

    def _used_mib(self) -> int:
        if is_read_by_psutil(self._root):
            memory = psutil.virtual_memory()
            return (memory.total - memory.available) // BYTES_IN_MIB
        total, available, free = self._kib("MemTotal:", "MemAvailable:", "MemFree:")
        # In a container, the total can be less than the host's available memory.
        return (total - (available if available <= total else free)) // 1024

    def _swap_used_mib(self) -> int:
        total, free = self._kib("SwapTotal:", "SwapFree:")
        return (total - free) // 1024

    def _kib(self, *names: str) -> list[int]:
        kib = counts(kernel_files.read(self._meminfo), names)
        return [kib[name] for name in names]


def counts(text: str, names: tuple[str, ...]) -> dict[str, int]:
    """Return the counts of `names`, from lines such as "MemTotal: 123 kB" or "pswpin 5".

    Raises:
        ValueError: one of them is missing.
    """
    lines = (line.split() for line in text.splitlines())
    by_name = {
        columns[0]: int(columns[1]) for columns in lines if len(columns) > 1 and columns[0] in names
    }
    if len(by_name) < len(names):
        raise ValueError("not reported here")
    return by_name
