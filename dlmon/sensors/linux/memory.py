"""Memory, swap and pages that came from a disk, of the whole machine."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from dlmon.records import MachineFacts, Memory
from dlmon.sensors import kernel_files
from dlmon.sensors.provider import Reading
from dlmon.sensors.rates import BYTES_IN_MIB, Rates, mib_per_second

_ERRORS = (OSError, ValueError, psutil.Error)


class MemoryProvider:
    """Memory by psutil; swap and faults, in the slow tier, from /proc/meminfo and /proc/vmstat.

    psutil reads vmstat for the swapped pages alone, and takes each for 4 KiB.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._meminfo = str(root / "proc/meminfo")
        self._vmstat = str(root / "proc/vmstat")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._counted = Rates()

    def facts(self) -> MachineFacts:
        try:
            memory_mib = psutil.virtual_memory().total // BYTES_IN_MIB
        except _ERRORS as error:
            return MachineFacts(
                why=dict.fromkeys(("memory_mib", "swap_mib"), kernel_files.reason(error))
            )
        try:
            swap_mib = psutil.swap_memory().total // BYTES_IN_MIB
        except _ERRORS as error:
            return MachineFacts(memory_mib=memory_mib, why={"swap_mib": kernel_files.reason(error)})
        return MachineFacts(memory_mib=memory_mib, swap_mib=swap_mib)

    def fast(self, t: int) -> Reading:
        """Read the memory that is not available to a new program."""
        try:
            memory = psutil.virtual_memory()
        except _ERRORS as error:
            return Reading(memory=Memory(why={"used_mib": kernel_files.reason(error)}))
        return Reading(memory=Memory(used_mib=(memory.total - memory.available) // BYTES_IN_MIB))

    def slow(self, t: int) -> Reading:
        """Read the swap in use, how fast pages move to and from it, and the major faults."""
        used_mib: int | None = None
        swap_mib_s: float | None = None
        major_faults_s: float | None = None
        why: dict[str, str] = {}
        try:
            meminfo = counts(kernel_files.read(self._meminfo), ("SwapTotal:", "SwapFree:"))
            used_mib = (meminfo["SwapTotal:"] - meminfo["SwapFree:"]) * 1024 // BYTES_IN_MIB
        except (OSError, ValueError) as error:
            why["swap_used_mib"] = kernel_files.reason(error)
        try:
            vmstat = counts(kernel_files.read(self._vmstat), ("pswpin", "pswpout", "pgmajfault"))
            pages = vmstat["pswpin"] + vmstat["pswpout"]
            swapped_s, faults_s = self._counted.per_second(t, pages, vmstat["pgmajfault"])
            swap_mib_s = mib_per_second(swapped_s * self._page_bytes)
            major_faults_s = round(faults_s, 1)
        except (OSError, ValueError) as error:
            why.update(dict.fromkeys(("swap_mib_s", "major_faults_s"), kernel_files.reason(error)))
        return Reading(
            memory=Memory(
                swap_used_mib=used_mib,
                swap_mib_s=swap_mib_s,
                major_faults_s=major_faults_s,
                why=why,
            )
        )


def counts(text: str, names: tuple[str, ...]) -> dict[str, int]:
    """Return the counts by these names, from lines of a name, a count and perhaps its unit.

    Raises:
        ValueError: one of them is not there.
    """
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name in names:
            found[name] = int(rest.strip().partition(" ")[0])
    if len(found) < len(names):
        raise ValueError("not reported here")
    return found
