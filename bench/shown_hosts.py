"""The screen of `dlmon watch HOST...`, with a file of the age of its readings.

Usage: shown_hosts.py NOTES HOST... Once each host has a sample, NOTES gets a line of JSON four
times a second, with the time (`at`, CLOCK_MONOTONIC, in seconds) and the age of the oldest reading
that is shown (`oldest_s`). The hosts are this machine, so they have its clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from dlmon.cli.start import Sources, Start
from dlmon.remote.host import WatchedHost
from tui.app import DlmonApp

LOOK_S = 0.25
hosts: list[WatchedHost] = []


class NotedHost(WatchedHost):
    """A host that is noted in `hosts`."""

    def start(self) -> None:
        """Connect and start sampling; call this on the loop."""
        super().start()
        hosts.append(self)


class NotingApp(DlmonApp):
    """The app, which notes the age of its oldest reading."""

    CSS_PATH = Path(sys.modules[DlmonApp.__module__].__file__ or "").with_name("dlmon.tcss")

    def on_mount(self) -> None:
        """Start noting with the first screen."""
        self.run_worker(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now_ns = time.monotonic_ns()
            latest = [host.history.latest for host in hosts]
            times = [machine.t for machine in latest if machine is not None]
            if len(times) == len(hosts):
                note = {"at": now_ns / 1e9, "oldest_s": (now_ns - min(times)) / 1e9}
                print(json.dumps(note), file=notes, flush=True)


if __name__ == "__main__":
    start = Start(
        Path(sys.argv[1]).parent / "sessions",
        watch_interval_s=1.0,
        hosts=tuple(sys.argv[2:]),
        sources=Sources(hosts=NotedHost),
    )
    with Path(sys.argv[1]).open("a") as notes:
        sys.exit(NotingApp(start).run_to_exit_code())
