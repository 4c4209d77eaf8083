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
    from dlmon.launch.sensors_process import SensorsProcess
    from dlmon.records import Facts


class LocalMachine(MachineSource):
    """This machine, sampled while it is on.

    Args:
        interval_s: time between samples.
        pcie: have what crosses the GPUs' PCIe links measured.
        make_sensors: makes the sensors process.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        interval_s: float = 1.0,
        pcie: bool = False,
        make_sensors: Callable[..., SensorsProcess] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.interval_s = interval_s
        self.history = MachineHistory(interval_s)
        self.facts = MachineFacts()
        self._clock = clock
        self.start_ns = self._on_since_ns = clock()
        self._pcie = pcie
        self._make_sensors = make_sensors
        self._sensors: SensorsProcess | None = None

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
        from dlmon.launch.sensors_process import SensorsProcess

        if self._sensors is None:
            make_sensors: Callable[..., SensorsProcess] = self._make_sensors or SensorsProcess
            self._sensors = make_sensors(
                self.interval_s,
                self._take_facts,
                self.history.add,
                self._take_notice,
                pcie=self._pcie,
                at_once=True,
            )
            self._sensors.start()
            super().start()
            self._on_since_ns = self.now()

    def stop(self) -> None:
        if self._sensors is not None:
            self._sensors.close()
            self._sensors = None
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
