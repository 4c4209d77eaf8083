"""This machine without a screen: a line for each sample."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from dlmon.exit_codes import DONE
from dlmon.figures import units
from dlmon.host import host_name
from dlmon.launch.sensing import Sensing
from dlmon.records import Facts, Machine, MachineFacts
from dlmon.records.changes import merge_machine
from dlmon.render.console import line_console
from dlmon.signals import on_signals


class WatchedLines:
    """Prints lines until Ctrl-C, or until nobody reads them any more."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._console, self._errors = line_console(), line_console(stderr=True)
        self._ended = asyncio.Event()
        self._exit_code = DONE
        self._unwritable: OSError | None = None

    async def until_end(self) -> int:
        """Wait for the end, and return the exit code.

        Raises:
            OSError: a line can't be written.
        """
        await self._ended.wait()
        if self._unwritable is not None:
            raise self._unwritable
        return self._exit_code

    def end(self, exit_code: int) -> None:
        """End with this exit code."""
        self._exit_code = exit_code
        self._ended.set()

    def print(self, line: str) -> None:
        """Print a line on stdout."""
        self._write(self._console, line)

    def print_error(self, sentence: str) -> None:
        """Print a sentence on stderr."""
        self._write(self._errors, f"dlmon: {sentence}")

    def _write(self, console: Console, line: str) -> None:
        try:
            console.print(Text(line))
            console.file.flush()
        except OSError as error:
            self._unwritable = error
            self._ended.set()


class WatchedMachine(WatchedLines):
    """Prints a line for each sample of this machine, or an object of JSON."""

    def __init__(self, interval_s: float, pcie: bool, as_json: bool) -> None:
        super().__init__(as_json)
        self._latest: Machine | None = None
        says = (self._print_facts, self._print_sample, self.print_error)
        self._sensing = Sensing(interval_s, *says, pcie=pcie, at_once=True)

    async def run(self) -> int:
        """Print until interrupted; return the exit code."""
        on_signals(self.end)
        self._sensing.start()
        try:
            return await self.until_end()
        finally:
            self._sensing.close()

    def _print_facts(self, facts: Facts) -> None:
        if not self._as_json:
            self.print(facts_line(facts.host, facts.machine))

    def _print_sample(self, sample: Machine) -> None:
        self._latest = merge_machine(self._latest, sample)
        if self._as_json:
            self.print(json_line({"host": host_name(), **asdict(self._latest)}))
        else:
            self.print(f"{units.time_of_day(sample.wall)}  {machine_line(self._latest)}")


def facts_line(host: str, machine: MachineFacts) -> str:
    """Say in a line what a machine is."""
    gpus = ", ".join(gpu.name for gpu in machine.gpus or ())
    cores = units.cores(machine.cores) if machine.cores else "cores unknown"
    memory_mib = machine.memory_limit_mib or machine.memory_mib
    return (
        f"{host}: {machine.cpu_model or 'CPU'}, {cores}, "
        f"{units.gibibytes(memory_mib)}; "
        f"GPU: {gpus or machine.why.get('gpus', 'none')}"
    )


def json_line(fields: Mapping[str, Any]) -> str:
    """Return an object of JSON in one line."""
    return json.dumps(fields, allow_nan=False, separators=(",", ":"))


def machine_line(machine: Machine, facts: MachineFacts | None = None) -> str:
    """Return a sample, merged, in a line; `facts` say of how much memory it is."""
    parts = []
    if machine.cpu is not None:
        parts.append(f"CPU {units.percent(machine.cpu.pct)}")
    if machine.memory is not None:
        total_mib = facts.memory_limit_mib or facts.memory_mib if facts is not None else None
        parts.append(f"memory {units.memory_in_use(machine.memory.used_mib, total_mib)}")
    for gpu in machine.gpus or ():
        power = "–" if gpu.power_w is None else f"{gpu.power_w:.0f} W"
        heat = "–" if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
        parts.append(
            f"GPU {gpu.index} {units.percent(gpu.utilization_pct)} "
            f"{units.gibibytes(gpu.memory_used_mib)} {power} {heat}"
        )
    return "  ".join(parts)
