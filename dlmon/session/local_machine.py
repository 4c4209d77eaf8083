"""The readings of this machine, from our own sensors process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dlmon.records import MachineFacts
from dlmon.records.changes import newest_facts
from dlmon.session.machine_history import MachineHistory
from dlmon.session.source import MachineSource

if TYPE_CHECKING:
    from dlmon.launch.sensors_process import SensorsProcess
    from dlmon.records import Facts


def all_processes() -> LocalMachine:
    """Return a source of all processes of this machine, read each second, and of nothing else."""
    from dlmon.launch.sensors_process import SensorsProcess

    return LocalMachine(make_sensors=partial(SensorsProcess, processes=True))


class LocalMachine(MachineSource):
    """This machine, sampled while it is on.

    Args:
        interval_s: the sampling interval.
        pcie: measure the traffic of the GPUs' PCIe links.
        make_sensors: makes the sensors process.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    is_here = True

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
        """The age of the newest sample; time in which sampling was off doesn't count."""
        latest = self.history.latest
        if latest is None:
            return None
        return (self.now() - max(latest.t, self._on_since_ns)) / 1e9

    def start(self) -> None:
        """Start sampling unless it is on; call this in the event loop of the main thread."""
        # Imported late, as the first paint doesn't need it.
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
        machine, earlier = facts.machine, self.facts
        # Sensors that avoid a hung driver leave its GPUs out, but they are still there.
        if len(machine.gpus or ()) < len(earlier.gpus or ()):
            machine = replace(
                newest_facts(earlier, machine),
                driver=earlier.driver,
                cuda=earlier.cuda,
                why=earlier.why,
            )
        self.facts = machine
