"""What it takes to record a machine without a workload: disk, and the processor.

Measured: the bytes that `dlmon watch --record --detach` adds to its log, and the CPU time of its
two processes, supervisor and sensors. The first seconds don't count: what does not change is
written once. How much is written depends on what changes, and so on how many processes come and
go: a machine at work writes more than an idle one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import harness
import psutil
from cost import read
from harness import CannotRun
from idle_cost import busy_gpus

from dlmon.log.directory import list_sessions

SETTLE_S = 15.0


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path, ExitStack() as gpus:
        folder, environment = Path(path), dict[str, str]()
        if arguments.gpus:
            environment = gpus.enter_context(busy_gpus(folder, arguments.gpus))
        pid = _record(folder / "logs", arguments.interval, environment)
        (log,) = folder.glob("logs/*/session.jsonl")
        (sensors,) = psutil.Process(pid).children()
        pids = {"supervisor": pid, "sensors": sensors.pid}
        time.sleep(SETTLE_S)
        skipped, before = log.stat().st_size, read(pids)
        time.sleep(arguments.seconds)
        size, after = log.stat().st_size, read(pids)
        per_hour = (size - skipped) / (after.at - before.at) * 3600
        with log.open("rb") as file:
            file.seek(skipped)
            parts = _bytes_by_part(file.read(size - skipped))
        os.kill(pid, signal.SIGTERM)
        psutil.wait_procs([psutil.Process(pid)], timeout=10.0)
    print(f"{'log':<44} {per_hour / 1e6:.2f} MB an hour at {1 / arguments.interval:g} Hz")
    for name, count in parts.most_common(6):
        print(f"{f'  of that, {name}':<44} {count / sum(parts.values()):.0%}")
    for name, used_pct in after.cpu_pct_since(before).items():
        print(f"{f'CPU of the {name}':<44} {used_pct:.2f} % of a core")


def _record(folder: Path, interval_s: float, environment: dict[str, str]) -> int:
    """Begin to record, and return the pid of the supervisor."""
    command = [harness.dlmon_command(), "watch", "--record", "--detach", "--log-dir", str(folder)]
    ran = subprocess.run(
        [*command, "--interval", str(interval_s)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    entries = list_sessions(folder)
    if ran.returncode or not entries or entries[0].pid is None:
        raise CannotRun(f"nothing was recorded: {ran.stderr.strip()}")
    return entries[0].pid


def _bytes_by_part(lines: bytes) -> Counter[str]:
    """Return how many bytes each part of the samples takes."""
    parts: Counter[str] = Counter()
    for line in lines.splitlines():
        for name, value in json.loads(line).items():
            parts[name] += len(json.dumps({name: value}, separators=(",", ":"))) - 1
    return parts


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--interval", type=float, default=1.0, help="of the sensors, in seconds")
    parser.add_argument("--gpus", type=int, help="so many of the tests' driver, all of them busy")
    parser.add_argument("--quick", action="store_true", help="half a minute")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds = 30.0
    return arguments


if __name__ == "__main__":
    harness.run(main)
