"""Other machines without a screen: a line for each host and sample."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from dlmon.alerts.of_hosts import HostAlerts
from dlmon.alerts.settings import AlertSettings
from dlmon.exit_codes import UNREACHABLE
from dlmon.figures import hosts as words
from dlmon.figures import units
from dlmon.remote.host import HostState, WatchedHost
from dlmon.render.watch import WatchedLines, json_line, machine_line
from dlmon.signals import on_signals

# How soon a change is said.
_LOOKS_S = 0.25


class WatchedHosts(WatchedLines):
    """Prints samples and problems of hosts.

    Args:
        names: the hosts, as ssh knows them.
        interval_s: time between the samples of each.
        pcie: have what crosses the GPUs' PCIe links measured.
        as_json: print an object a line, for problems too.
        alerts: what is told of hosts that are lost.
    """

    def __init__(
        self,
        names: Sequence[str],
        interval_s: float,
        pcie: bool,
        as_json: bool,
        alerts: AlertSettings | None,
    ) -> None:
        super().__init__(as_json)
        self._alerts = None if alerts is None else HostAlerts(alerts)
        self._hosts = [
            WatchedHost(name, interval_s, pcie, on_sample=partial(self._print_sample, number))
            for number, name in enumerate(names)
        ]
        self._name_cells = max(map(len, names))
        self._reported: dict[str, str | None] = {}
        self._clocks_reported: set[str] = set()

    async def run(self) -> int:
        """Print until interrupted; return the exit code."""
        on_signals(self.end)
        for host in self._hosts:
            host.start()
        looking = asyncio.create_task(self._look())
        try:
            return await self.until_end()
        finally:
            looking.cancel()
            await asyncio.gather(*(host.close() for host in self._hosts))

    async def _look(self) -> None:
        """Say what changes between samples; end where no host could be reached at first."""
        was_reached = False
        while not self._ended.is_set():
            for host in self._hosts:
                self._report_problem(host)
                if self._alerts is not None:
                    self._alerts.look(host.name, host.link.is_up, host.link.problem)
            for failure in () if self._alerts is None else self._alerts.failures():
                self.print_error(failure)
            states = [host.state for host in self._hosts]
            was_reached = was_reached or HostState.CONNECTED in states
            if not was_reached and HostState.CONNECTING not in states:
                self.end(UNREACHABLE)
            await asyncio.sleep(_LOOKS_S)

    def _report_problem(self, host: WatchedHost) -> None:
        """Print what keeps a host away, that it is back, and that its clock differs, each once."""
        state, said = host.state, self._reported.get(host.name)
        if state == HostState.CONNECTING:
            return
        problem = None if state == HostState.CONNECTED else host.link.problem
        if problem != said:
            self._reported[host.name] = problem
            self._print_problem(host.name, problem)
        ahead = words.clock_away(host.snapshot())
        if ahead and problem is None and host.name not in self._clocks_reported:
            self._clocks_reported.add(host.name)
            self.print_error(f"{host.name}: {ahead}")

    def _print_problem(self, name: str, problem: str | None) -> None:
        if self._as_json:
            self.print(json_line({"host": name, "problem": problem}))
        else:
            self.print_error(problem or f"{name} is connected again")

    def _print_sample(self, number: int) -> None:
        host = self._hosts[number]
        machine = host.machine.history.latest
        if machine is None:
            return
        if self._as_json:
            sessions = host.snapshot().sessions
            running = None if sessions is None else [asdict(each) for each in sessions]
            fields = {"host": host.name, **asdict(machine), "sessions": running}
            self.print(json_line(fields))
            return
        at = units.time_of_day(machine.wall - (host.clock_ahead_s or 0.0))
        sessions = host.snapshot().sessions or ()
        trained = [
            " ".join(part for part in (words.session_title(each), words.session_rate(each)) if part)
            for each in sessions
        ]
        line = machine_line(machine, host.machine.facts)
        self.print("  ".join([f"{host.name:<{self._name_cells}}", at, line, *trained]))
