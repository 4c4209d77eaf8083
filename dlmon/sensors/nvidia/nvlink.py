"""One GPU's NVLinks: how many are active, and what they carry."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dlmon.sensors.nvidia.queries import INVALID_ARGUMENT, LIFE_CYCLE, NOT_SUPPORTED, Query, Reader
from dlmon.sensors.rates import Rates, mib_per_second

# A GPU of 18 links takes 18 calls: their state is asked for each minute of slow readings.
_READINGS_BETWEEN = 12
_EVERY_LINK = 0xFFFFFFFF  # as the scope of a throughput counter (nvml.h)
_NOT_AVAILABLE = 2**64 - 1
_BYTES_IN_KIB = 1024


class NvLinks:
    """Answers what `NVLINK_NAMES` name; which links there are is found out once."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._links: tuple[int, ...] = ()
        self._active = 0
        self._asked = 0
        self.queries = (
            Query("nvlinks", self._count_active),
            Query("nvlink_receive_mib_s", self._mib_s("DATA_RX"), within=(0, 1e8)),
            Query("nvlink_send_mib_s", self._mib_s("DATA_TX"), within=(0, 1e8)),
        )

    def _count_active(self, nvml: Any, gpu: Any) -> int:
        if not self._links:
            self._links = existing_links(nvml, gpu)
        if self._asked % _READINGS_BETWEEN == 0:
            self._active = sum(nvml.nvmlDeviceGetNvLinkState(gpu, link) for link in self._links)
        self._asked += 1
        return self._active

    def _mib_s(self, what: str) -> Reader:
        """Return what reads how much of `what` crosses all links."""
        rates = Rates()

        def read(nvml: Any, gpu: Any) -> float:
            if not self._active:
                raise ValueError("no NVLink is active")
            counter = getattr(nvml, f"NVML_FI_DEV_NVLINK_THROUGHPUT_{what}")
            (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [(counter, _EVERY_LINK)])
            if field.nvmlReturn:
                raise nvml.NVMLError(field.nvmlReturn)
            kib = field.value.ullVal
            if kib >= _NOT_AVAILABLE:
                raise ValueError("the driver reported an impossible value")
            (kib_s,) = rates.per_second(self._clock(), kib)
            return mib_per_second(kib_s * _BYTES_IN_KIB)

        return read


NVLINK_NAMES = tuple(query.name for query in NvLinks().queries)


def existing_links(nvml: Any, gpu: Any) -> tuple[int, ...]:
    """Return the numbers of the links that a GPU has.

    Raises:
        nvml.NVMLError: it has none, or it is lost.
    """
    links = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            nvml.nvmlDeviceGetNvLinkState(gpu, link)
        except nvml.NVMLError as error:
            if error.value in LIFE_CYCLE or link == 0:
                raise
            if error.value == INVALID_ARGUMENT:
                break
        else:
            links.append(link)
    if not links:
        raise nvml.NVMLError(NOT_SUPPORTED)
    return tuple(links)
