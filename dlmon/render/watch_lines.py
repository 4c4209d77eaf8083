"""Watch this machine or other hosts in plain lines, one for each sample."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.dispatch import HostAlerts
from dlmon.exit_codes import DONE, UNREACHABLE
from dlmon.figures import units
from dlmon.figures.machine import host_rows as words
from dlmon.figures.machine.readings import identity, machine_line
from dlmon.launch.sensors_process import SensorsProcess
from dlmon.records import Facts, Machine
from dlmon.records.changes import merge
from dlmon.records.words import SAMPLES_PER_S, STEPS_PER_S, TOKENS_PER_S
from dlmon.remote.host import HostState, RunningSession, WatchedHost
from dlmon.render.console import line_console
from dlmon.system.signals import on_signals
from dlmon.system.this_host import host_name

# The interval for checking the state of hosts.
_LOOKS_S = 0.25


class Printer:
    """Prints lines or JSON objects until Ctrl-C, or until its reader is gone."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._console, self._errors = line_console(), line_console(stderr=True)
        self._ended: Future[int] = Future()

    async def until_end(self) -> int:
        """Wait for the end, and return the exit code.

        Raises:
            OSError: a line can't be written.
        """
        on_signals(self.end)
        return await asyncio.wrap_future(self._ended)

    def end(self, exit_code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(exit_code)

    def print(self, line: str) -> None:
        self._write(self._console, line)

    def print_json(self, **fields: Any) -> None:
        self.print(json.dumps(fields, allow_nan=False, separators=(",", ":")))

    def print_error(self, sentence: str) -> None:
        self._write(self._errors, f"dlmon: {sentence}")

    def _write(self, console: Console, line: str) -> None:
        try:
            console.print(Text(line))
            console.file.flush()
        except OSError as error:
            if not self._ended.done():
                self._ended.set_exception(error)


async def watch_here(interval_s: float, pcie: bool, as_json: bool) -> int:
    """Print a line for each sample of this machine, and return the exit code."""
    lines, latest = Printer(as_json), None

    def print_facts(facts: Facts) -> None:
        if not as_json:
            lines.print(f"{facts.host}: {', '.join(identity(facts.machine))}")

    def print_sample(sample: Machine) -> None:
        nonlocal latest
        latest = merge(latest, sample)
        if as_json:
            lines.print_json(host=host_name(), **asdict(latest))
        else:
            lines.print(f"{units.time_of_day(sample.wall)}  {machine_line(latest)}")

    sensors = SensorsProcess(
        interval_s, print_facts, print_sample, lines.print_error, pcie=pcie, at_once=True
    )
    sensors.start()
    try:
        return await lines.until_end()
    finally:
        sensors.close()


async def watch_hosts(
    names: Sequence[str],
    interval_s: float,
    pcie: bool,
    as_json: bool,
    alerts: AlertSettings | None,
) -> int:
    """Print samples and problems of other hosts, and return the exit code.

    As JSON, each is an object in a line. Lost hosts raise alerts.
    """
    lines, hosts, cells = Printer(as_json), list[WatchedHost](), max(map(len, names))
    for number, name in enumerate(names):
        on_sample = partial(_print_sample, lines, hosts, number, cells)
        hosts.append(WatchedHost(name, interval_s, pcie, on_sample=on_sample))
        hosts[-1].start()
    sent = None if alerts is None else HostAlerts(alerts)
    looking = asyncio.create_task(_look(lines, hosts, sent))
    try:
        return await lines.until_end()
    finally:
        looking.cancel()
        await asyncio.gather(*(host.close() for host in hosts))


async def _look(lines: Printer, hosts: Sequence[WatchedHost], alerts: HostAlerts | None) -> None:
    """Print once each problem of a host, its return, and the offset of its clock.

    End if no host could be reached at first, or if all were nodes of jobs that are over.
    """
    was_reached, printed, clocks = False, dict[str, str | None](), set[str]()
    while True:
        for host in hosts:
            if alerts is not None:
                is_fine = host.connection.is_up or host.connection.has_ended
                alerts.update(host.name, is_fine, host.connection.problem)
            if host.state == HostState.CONNECTING:
                continue
            problem = None if host.state == HostState.CONNECTED else host.connection.problem
            if problem != printed.get(host.name):
                printed[host.name] = problem
                if lines.as_json:
                    lines.print_json(host=host.name, problem=problem)
                else:
                    lines.print_error(problem or f"{host.name} is connected again")
            ahead = words.clock_away(host.snapshot())
            if ahead and problem is None and host.name not in clocks:
                clocks.add(host.name)
                lines.print_error(f"{host.name}: {ahead}")
        for failure in () if alerts is None else alerts.failures():
            lines.print_error(failure)
        states = [host.state for host in hosts]
        was_reached = was_reached or HostState.CONNECTED in states
        if not was_reached and HostState.CONNECTING not in states:
            lines.end(UNREACHABLE)
        elif set(states) == {HostState.ENDED}:
            lines.end(DONE)
        await asyncio.sleep(_LOOKS_S)


def _print_sample(lines: Printer, hosts: Sequence[WatchedHost], number: int, cells: int) -> None:
    host = hosts[number]
    machine, sessions = host.history.latest, host.snapshot().sessions
    if machine is None:
        return
    if lines.as_json:
        running = (
            None if sessions is None else [running_session_json(session) for session in sessions]
        )
        lines.print_json(host=host.name, **asdict(machine), sessions=running)
        return
    difference = host.connection.clock_difference
    at = units.time_of_day(machine.wall - (0.0 if difference is None else difference.wall_s))
    parts = [f"{host.name:<{cells}}", at, machine_line(machine, host.facts)]
    for session in sessions or ():
        texts = (words.session_title(session), words.session_rate(session))
        parts.append(" ".join(part for part in texts if part))
    lines.print("  ".join(parts))


def running_session_json(session: RunningSession) -> dict[str, Any]:
    """Return a session of a host as JSON, its throughputs under the keys of a result."""
    fields = asdict(session)
    rates = {rate.unit: rate.per_second for rate in session.rates}
    del fields["rates"]
    return fields | {
        "samples_per_second": rates.get(SAMPLES_PER_S, rates.get(STEPS_PER_S)),
        "counts_steps": STEPS_PER_S in rates,
        "tokens_per_second": rates.get(TOKENS_PER_S),
    }
