"""The readings of another machine, as its own sensors take them."""

from __future__ import annotations

import time
from collections.abc import Callable

from dlmon.records import Facts, Machine, MachineFacts, Notice, RecordError, read_record
from dlmon.remote.connection import Answer
from dlmon.remote.link import Link, Standing
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import MachineSource


class RemoteMachine(MachineSource):
    """Another machine, sampled while it is on.

    Args:
        link: the connection to it.
        interval_s: time between samples.
        pcie: have what crosses the GPUs' PCIe links measured.
        clock: CLOCK_MONOTONIC in nanoseconds, of this machine.
        on_sample: is called after each sample.
    """

    def __init__(
        self,
        link: Link,
        interval_s: float = 1.0,
        pcie: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
        on_sample: Callable[[], None] = lambda: None,
    ) -> None:
        self.link = link
        self.interval_s = interval_s
        self.history = MachineHistory(interval_s)
        self.facts = MachineFacts()
        self.host = self.host_name = link.host
        self._clock = clock
        self._on_sample = on_sample
        self._pcie = pcie
        self._boot_id: str | None = None
        self._arrived_ns: int | None = None
        self._asked = Standing("watch", self._fields, self._take)

    @property
    def age_s(self) -> float | None:
        """How old the newest sample is, since it arrived here; None before the first."""
        return None if self._arrived_ns is None else (self._clock() - self._arrived_ns) / 1e9

    def now(self) -> int:
        """Return the time on the other machine's clock, in nanoseconds."""
        if self.link.times is not None:
            return self._clock() + self.link.times.monotonic_ns
        latest = self.history.latest
        return 0 if latest is None else latest.t

    def start(self) -> None:
        if not self.is_on:
            super().start()
            self.link.add(self._asked)

    def stop(self) -> None:
        if self.is_on:
            super().stop()
            self.link.remove(self._asked)

    def _fields(self) -> dict[str, object]:
        boot_id = self.link.boot_id
        if boot_id != self._boot_id:
            # Its clock started again with it.
            self._boot_id, self.history = boot_id, MachineHistory(self.interval_s)
            self.start_ns = 0
        return {"interval_s": self.interval_s, "pcie": self._pcie}

    def _take(self, answer: Answer) -> None:
        if "error" in answer:
            self._take_notice(str(answer["error"]))
            return
        try:
            record = read_record(answer.get("record"))
        except RecordError:
            return
        if isinstance(record, Facts):
            self.facts, self.host_name = record.machine, record.host
            self.start_ns = self.start_ns or record.t
        elif isinstance(record, Machine):
            latest = self.history.latest
            if latest is not None and record.t <= latest.t:
                return
            self.start_ns = self.start_ns or record.t
            self.history.fold(record)
            self._arrived_ns = self._clock()
            self._on_sample()
        elif isinstance(record, Notice):
            self._take_notice(record.text)
