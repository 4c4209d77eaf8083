"""The errors (Xid) that NVIDIA's driver reports of a GPU, as NVML events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dlmon.sensors.nvidia.queries import TIMEOUT
from dlmon.sensors.query import Query

# A program that fails may cause hundreds at once.
_MOST_AT_ONCE, _KEPT, _MOST_CODES = 256, 8, 64
_REPORT_AGAIN_NS = 60_000_000_000


class XidErrors:
    """The queries for the number of errors and the newest ones, since the first query.

    The driver sends a GPU's events to an event set, which the caller must free. Errors from before
    are not reported.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._nvml: Any = None
        self._set: Any = None
        self.errors = 0
        self._newest: deque[int] = deque(maxlen=_KEPT)
        self._reported_at: dict[int, int] = {}
        self._unreported: list[int] = []
        self.queries = (Query("xid_errors", self._count), Query("xids", self._codes))

    @property
    def newest(self) -> tuple[int, ...]:
        """The codes of the newest errors, in order."""
        return tuple(self._newest)

    def unreported(self) -> list[int]:
        """Return the codes since the last call; a repeated code, once a minute."""
        unreported, self._unreported = self._unreported, []
        return unreported

    def close(self) -> None:
        """Take the pending events, and free the event set."""
        if self._set is None:
            return
        with suppress(self._nvml.NVMLError):
            self._take()
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlEventSetFree(self._set)
        self._set = None

    def _count(self, nvml: Any, gpu: Any) -> int:
        if self._set is None:
            events = nvml.nvmlEventSetCreate()
            try:
                nvml.nvmlDeviceRegisterEvents(gpu, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError:
                with suppress(nvml.NVMLError):
                    nvml.nvmlEventSetFree(events)
                raise
            self._nvml, self._set = nvml, events
        self._take()
        return self.errors

    def _codes(self, nvml: Any, gpu: Any) -> tuple[int, ...]:
        if self._set is None:
            self._count(nvml, gpu)
        return self.newest

    def _take(self) -> None:
        """Take the pending events, without waiting."""
        for _ in range(_MOST_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError as error:
                if error.value == TIMEOUT:
                    return
                raise
            self._add(int(event.eventData))

    def _add(self, code: int) -> None:
        now = self._clock()
        self.errors += 1
        self._newest.append(code)
        reported_at = self._reported_at.get(code)
        if reported_at is None or now - reported_at >= _REPORT_AGAIN_NS:
            if len(self._reported_at) >= _MOST_CODES:
                self._reported_at.clear()
            self._reported_at[code] = now
            self._unreported.append(code)
