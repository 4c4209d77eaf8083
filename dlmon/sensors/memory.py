"""Memory and swap of the whole machine."""

from __future__ import annotations

import psutil

from dlmon.records import MachineFacts, Memory
from dlmon.sensors import files
from dlmon.sensors.provider import Reading
from dlmon.sensors.rates import BYTES_IN_MIB, Rates, mib_per_second

_ERRORS = (OSError, ValueError, psutil.Error)


class MemoryProvider:
    """Memory by psutil. Swap is in the slow tier: it means reading all of /proc/vmstat."""

    def __init__(self) -> None:
        self._swapped = Rates()

    def facts(self) -> MachineFacts:
        """Tell how much memory and swap there is."""
        try:
            memory_mib = psutil.virtual_memory().total // BYTES_IN_MIB
        except _ERRORS as error:
            return MachineFacts(why=dict.fromkeys(("memory_mib", "swap_mib"), files.reason(error)))
        try:
            swap_mib = psutil.swap_memory().total // BYTES_IN_MIB
        except _ERRORS as error:
            return MachineFacts(memory_mib=memory_mib, why={"swap_mib": files.reason(error)})
        return MachineFacts(memory_mib=memory_mib, swap_mib=swap_mib)

    def fast(self, t: int) -> Reading:
        """Read the memory that is not available to a new program."""
        try:
            memory = psutil.virtual_memory()
        except _ERRORS as error:
            return Reading(memory=Memory(why={"used_mib": files.reason(error)}))
        return Reading(memory=Memory(used_mib=(memory.total - memory.available) // BYTES_IN_MIB))

    def slow(self, t: int) -> Reading:
        """Read the swap in use, and how fast pages move to and from it."""
        try:
            swap = psutil.swap_memory()
        except _ERRORS as error:
            why = dict.fromkeys(("swap_used_mib", "swap_mib_s"), files.reason(error))
            return Reading(memory=Memory(why=why))
        used_mib = swap.used // BYTES_IN_MIB
        try:
            (rate,) = self._swapped.per_second(t, swap.sin + swap.sout)
        except ValueError as error:
            return Reading(memory=Memory(swap_used_mib=used_mib, why={"swap_mib_s": str(error)}))
        return Reading(memory=Memory(swap_used_mib=used_mib, swap_mib_s=mib_per_second(rate)))
