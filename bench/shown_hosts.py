"""What `dlmon watch HOST...` shows, and a file of what of it has come when.

NOTES is that file, of lines of JSON. A line with a host says when (CLOCK_MONOTONIC, in
seconds) its ssh was started (`begun`), it was connected to (`up`), its facts came
(`facts`), or its first sample (`sample`); or what keeps it away (`problem`). Once all have
a sample, a line comes four times a second with the oldest reading that is shown
(`oldest_s`), since it was taken: the hosts are this machine, and have its clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from dlmon.cli.start import Sources, Start
from dlmon.records import MachineFacts
from dlmon.remote.host import WatchedHost
from tui.app import DlmonApp

# How exactly what comes once is timed, and how often the oldest reading is looked for.
STEP_S, LOOK_S = 0.005, 0.25


class Notes:
    """Looks at hosts while they are watched, and writes down what has come."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._hosts: list[WatchedHost] = []
        self._noted: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self, host: WatchedHost) -> None:
        """Look at one more host; call it on the loop."""
        self._hosts.append(host)
        self._write(at=time.monotonic(), host=host.name, what="begun")
        if self._task is None:
            self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            # All of them, each time: what has come is noted on the way.
            begun = [self._has_begun(host) for host in self._hosts]
            if all(begun):
                break
            await asyncio.sleep(STEP_S)
        while True:
            await asyncio.sleep(LOOK_S)
            now_ns = time.monotonic_ns()
            latest = [host.machine.history.latest for host in self._hosts]
            ages_s = [(now_ns - machine.t) / 1e9 for machine in latest if machine is not None]
            self._write(at=now_ns / 1e9, oldest_s=max(ages_s))

    def _has_begun(self, host: WatchedHost) -> bool:
        """Note what of a host has come since the last look; return whether it has a sample."""
        come = {
            "up": host.link.is_up,
            "facts": host.machine.facts != MachineFacts(),
            "sample": host.machine.history.latest is not None,
            "problem": host.link.problem is not None,
        }
        for what, has_come in come.items():
            if has_come and (host.name, what) not in self._noted:
                self._noted.add((host.name, what))
                fields = {"problem": host.link.problem} if what == "problem" else {"what": what}
                self._write(at=time.monotonic(), host=host.name, **fields)
        return come["sample"]

    def _write(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")
        self._file.flush()


class NotedHost(WatchedHost):
    """A host that is looked at from its start on."""

    notes: Notes

    def start(self) -> None:
        """Connect, and have it sampled and looked at; call it on the loop."""
        super().start()
        self.notes.begin(self)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notes", type=Path, metavar="NOTES")
    parser.add_argument("hosts", nargs="+", metavar="HOST")
    arguments = parser.parse_args()
    with arguments.notes.open("a") as file:
        NotedHost.notes = Notes(file)
        start = Start(
            arguments.notes.parent / "sessions",
            watch_interval_s=1.0,
            hosts=tuple(arguments.hosts),
            sources=Sources(hosts=NotedHost),
        )
        return DlmonApp(start).run_to_exit_code()


if __name__ == "__main__":
    sys.exit(main())
