"""The errors that NVIDIA's driver reports of a GPU while it is watched, as NVML's events (Xid)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dlmon.sensors.nvidia.queries import TIMEOUT, Query

# A program that fails may raise hundreds at once.
_MOST_AT_ONCE, _KEPT, _MOST_CODES = 256, 8, 64
_TOLD_AGAIN_NS = 60_000_000_000


class XidErrors:
    """Answers how many errors came since it was first asked, and which were the newest.

    What the driver tells of its events goes to one set of NVML's, for this GPU alone; who asked for
    that has to free it. An error of before that is not reported.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._nvml: Any = None
        self._set: Any = None
        self.errors = 0
        self._newest: deque[int] = deque(maxlen=_KEPT)
        self._told: dict[int, int] = {}
        self._untold: list[int] = []
        self.queries = (Query("xid_errors", self._count), Query("xids", self._codes))

    @property
    def newest(self) -> tuple[int, ...]:
        """The newest ones, the last of them last."""
        return tuple(self._newest)

    def untold(self) -> list[int]:
        """Return what came since the last call; one that comes again and again, once a minute."""
        untold, self._untold = self._untold, []
        return untold

    def close(self) -> None:
        """Take what has come by now, and free the set of events."""
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
        """Take every event that has come, and wait for none."""
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
        told = self._told.get(code)
        if told is None or now - told >= _TOLD_AGAIN_NS:
            if len(self._told) >= _MOST_CODES:
                self._told.clear()
            self._told[code] = now
            self._untold.append(code)
