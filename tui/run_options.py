"""The options of `run`, whether they come from the command line or from the form."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields

from dlmon.device import DeviceError, check_device_name
from workloads.catalog import Workload, refuse_options

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3600.0


@dataclass(frozen=True)
class RunOptions:
    """What a person chose; None means the workload's own."""

    device: str = "auto"
    batch_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    threads: int | None = None
    data: str = "auto"
    interval: float = 1.0

    def complaint(self, workload: Workload) -> str | None:
        """Say in one sentence why these can't be run; None when they can."""
        refused = refuse_options(
            workload,
            batch_size=self.batch_size,
            epochs=self.epochs,
            steps=self.steps,
            threads=self.threads,
        )
        return refused or self._device_complaint() or interval_complaint(self.interval)

    def command_line(self, workload: Workload) -> str:
        """Return the command that runs the same, without what is the default anyway."""
        words = ["dlmon", "run", workload.name]
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value != spec.default:
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                words += [f"--{spec.name.replace('_', '-')}", shown]
        return shlex.join(words)

    def _device_complaint(self) -> str | None:
        try:
            check_device_name(self.device)
        except DeviceError as error:
            return str(error)
        return None


def interval_complaint(interval_s: float) -> str | None:
    """Say why a sampling interval can't be; None when it can."""
    if SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        return None
    return (
        f"the interval must be from {SHORTEST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:,.0f} "
        f"seconds, not {interval_s:g}"
    )
