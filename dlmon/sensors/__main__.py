"""Write one record of the hardware each interval to stdout: python -m dlmon.sensors.

The first line is empty: it ends what Python printed as it started. The second is a `facts` record,
the others are `machine` records; a GPU that is lost or back is reported by a `notice`, and one that
is found later by another `facts` record. A line `watch PID` on stdin has that process's tree
reported. It ends, with exit status 0, when stdin ends or nobody reads stdout any more.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from dlmon.records import Record, encode

if TYPE_CHECKING:
    from dlmon.sensors.processes.tree import ProcessProvider

STDIN, STDOUT = 0, 1
FIRST_SAMPLE_NS = 250_000_000
"""The first sample comes this long after the facts, at most: rates need a baseline."""


def main() -> int:
    """Sample until stdin ends; return the exit status."""
    # Ctrl-C in the viewer's terminal reaches every process there; the viewer decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Slurm sends SIGTERM to every process of a job that it ends; the supervisor ends us later.
    in_job = "SLURM_JOB_ID" in os.environ
    signal.signal(signal.SIGTERM, signal.SIG_IGN if in_job else signal.SIG_DFL)
    arguments = _parser().parse_args()
    # Imported after the signals are set: a Ctrl-C may come while the imports take their time.
    from dlmon.sensors.processes.table import ProcessTableReader
    from dlmon.sensors.processes.tree import ProcessProvider
    from dlmon.sensors.sampler import Sampler, machine_providers

    process = ProcessProvider()
    if arguments.processes:
        table = ProcessTableReader(process, everything=True)
        sampler = Sampler((process,), table, slow_s=arguments.interval)
    else:
        providers = machine_providers(
            process,
            arguments.no_gpus or arguments.no_nvidia,
            pcie=arguments.pcie,
            wake=arguments.wake,
            others=arguments.no_gpus is None,
        )
        sampler = Sampler(providers, ProcessTableReader(process))
    interval = int(arguments.interval * 1e9)
    with suppress(BrokenPipeError):
        os.write(STDOUT, b"\n")
        facts = sampler.facts(time.sleep, arguments.at_once, arguments.interval)
        _write(facts)
        tick = facts.t
        if not arguments.at_once:
            tick = time.monotonic_ns() + min(interval, FIRST_SAMPLE_NS)
        while _read_commands(tick, process):
            if time.monotonic_ns() >= tick:
                _write(sampler.sample(tick))
                for record in sampler.events():
                    _write(record)
                # Skip missed ticks, so that lateness doesn't add up.
                tick += interval * ((time.monotonic_ns() - tick) // interval + 1)
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the options that `dlmon.launch.sensors_process` passes and explains."""
    parser = argparse.ArgumentParser(prog="python -m dlmon.sensors", description=__doc__)
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--pcie", action="store_true")
    parser.add_argument("--wake", action="store_true")
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--no-nvidia", metavar="REASON")
    parser.add_argument("--no-gpus", metavar="REASON")
    return parser


def _read_commands(until: int, process: ProcessProvider) -> bool:
    """Wait until `until` or a command, and run the command; return False once stdin has ended."""
    wait_s = max(0, until - time.monotonic_ns()) / 1e9
    if not select.select([STDIN], [], [], wait_s)[0]:
        return True
    text = os.read(STDIN, 65536)
    for line in text.splitlines():
        word, _, pid = line.partition(b" ")
        if word == b"watch" and pid.isdigit():
            process.watch(int(pid), time.monotonic_ns())
        elif word == b"watch_too" and pid.isdigit():
            process.watch_too(int(pid))
    return bool(text)


def _write(record: Record) -> None:
    """Write without Python's buffer, which would fail again at exit on a broken pipe."""
    line = encode(record)
    while line:
        line = line[os.write(STDOUT, line) :]


if __name__ == "__main__":
    sys.exit(main())
