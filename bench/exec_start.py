"""Measure how much `dlmon exec` delays the start of a script.

Measured in pairs of runs, under `dlmon exec --plain` and alone: the time from the start of the
process to the first line after its imports, as the script prints it; without imports, and with the
framework's.

`--python` names the interpreter of the script; dlmon need not be installed there.
"""

from __future__ import annotations

import json
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
# The kernel gives a process's start in ticks of 10 ms.
SCRIPT = f"""
import json, os, time
with open("/proc/self/stat") as file:
    ticks = int(file.read().rpartition(")")[2].split()[19])
%s
print(json.dumps(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / {TICKS_PER_S}))
"""


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("framework", choices=MODULES)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--starts", type=int, default=15)
    arguments = parser.parse_args()
    module = MODULES[arguments.framework]
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        script = Path(folder) / "start.py"
        alone = [arguments.python, str(script)]
        exec_ = [harness.dlmon_command(), "exec", "--plain", "--log-dir", f"{folder}/logs", "--"]
        for name, imports in (("Python", ""), (module, f"import {module}")):
            script.write_text(SCRIPT % imports)
            _run(alone)
            # Each comes first every other time, so that drift affects both alike.
            pairs = [
                (_run(alone), _run([*exec_, *alone])) for _ in range((arguments.starts + 1) // 2)
            ]
            turned = [(_run([*exec_, *alone]), _run(alone)) for _ in range(arguments.starts // 2)]
            added_ms = [(watched - bare) * 1000 for bare, watched in pairs]
            added_ms += [(watched - bare) * 1000 for watched, bare in turned]
            figure = estimate_median(added_ms)
            print(verdict(f"start of {name}: longer by", figure, STARTUP_BAR_MS, "ms", 0))


def _run(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise CannotRun(f"{command[-1]} failed: {words[-1] if words else done.returncode}")
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    harness.run(main)
