"""How much later a script of a person's own begins under `dlmon exec`.

Measured, in pairs of runs in turn: the time from the start of the process to the first line after
its imports, as the script says it, under `dlmon exec --plain` and alone; without an import, and
with the framework's.

`--python` names the interpreter that the script runs in; dlmon need not be installed there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from estimate import estimate_median, verdict
from harness import TICKS_PER_S, CannotRun

MODULES = {"pytorch": "torch, torch.utils.data", "keras": "keras"}
STARTUP_BAR_MS = 30.0
TIMEOUT_S = 300.0
# The kernel says when a process began in ticks of 10 ms, and whoever reads that is past it.
_START = """
import json, os, time
with open("/proc/self/stat") as file:
    ticks = int(file.read().rpartition(")")[2].split()[19])
"""


def main() -> None:
    """Measure and print."""
    parser = harness.parser(__doc__)
    parser.add_argument("framework", choices=MODULES)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--starts", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        _compare_starts(arguments, Path(folder))


def _compare_starts(arguments: argparse.Namespace, folder: Path) -> None:
    module = MODULES[arguments.framework]
    imports = f"import {module}\n"
    print_time = "print(json.dumps(time.clock_gettime(time.CLOCK_BOOTTIME)"
    print_time += f" - ticks / {TICKS_PER_S}))"
    for what, text in (("Python", ""), (module, imports)):
        script = folder / "start.py"
        script.write_text(_START + text + print_time)
        added_ms = []
        _run([arguments.python, str(script)])
        for number in range(arguments.starts):
            sides = [
                [arguments.python, str(script)],
                _watched([arguments.python, str(script)], folder),
            ]
            if number % 2:
                sides.reverse()
            took_s = [_run(side) for side in sides]
            if number % 2:
                took_s.reverse()
            added_ms.append((took_s[1] - took_s[0]) * 1000)
        found = estimate_median(added_ms)
        print(verdict(f"start of {what}: longer by", found, STARTUP_BAR_MS, "ms", 0))


def _watched(command: list[str], folder: Path) -> list[str]:
    return [
        harness.dlmon_command(),
        "exec",
        "--plain",
        "--log-dir",
        str(folder / "logs"),
        "--",
        *command,
    ]


def _run(command: list[str]) -> float:
    done = subprocess.run(
        command, capture_output=True, timeout=TIMEOUT_S, check=False, env=os.environ, text=True
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise CannotRun(f"{command[-1]} failed: {words[-1] if words else done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    harness.run(main)
