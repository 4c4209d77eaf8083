"""The readings of this machine, by a sensors process of our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dlmon.records import MachineFacts
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import MachineSource

if TYPE_CHECKING:
    from dlmon.launch.sensing import Sensing
    from dlmon.records import Facts


class LocalMachine(MachineSource):
    """This machine, sampled while it is on.

    Args:
        interval_s: time between samples.
        pcie: have what crosses the GPUs' PCIe links measured.
        sense: makes the sensors process.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        interval_s: float = 1.0,
        pcie: bool = False,
        sense: Callable[..., Sensing] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.interval_s = interval_s
        self.history = MachineHistory(interval_s)
        self.facts = MachineFacts()
        self._clock = clock
        self.start_ns = self._on_since_ns = clock()
        self._pcie = pcie
        self._sense = sense
        self._sensing: Sensing | None = None

    def now(self) -> int:
        return self._clock()

    @property
    def age_s(self) -> float | None:
        """How old the newest sample is; time in which sampling was off on purpose is none."""
        latest = self.history.latest
        if latest is None:
            return None
        return (self.now() - max(latest.t, self._on_since_ns)) / 1e9

    def start(self) -> None:
        """Start sampling, unless it is on; call it on the loop, in the main thread."""
        # Imported after the first paint, which no reading waits for.
        from dlmon.launch.sensing import Sensing

        if self._sensing is None:
            sense: Callable[..., Sensing] = self._sense or Sensing
            self._sensing = sense(
                self.interval_s,
                self._take_facts,
                self.history.fold,
                self._take_notice,
                pcie=self._pcie,
                at_once=True,
            )
            self._sensing.start()
            super().start()
            self._on_since_ns = self.now()

    def stop(self) -> None:
        if self._sensing is not None:
            self._sensing.close()
            self._sensing = None
            super().stop()

    def _take_facts(self, facts: Facts) -> None:
        machine = facts.machine
        # Sensors that leave a driver alone after it hung don't make its GPUs go away.
        if not machine.gpus and self.facts.gpus:
            known = self.facts
            machine = replace(
                machine, gpus=known.gpus, driver=known.driver, cuda=known.cuda, why=known.why
            )
        self.facts = machine
