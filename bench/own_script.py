"""What `dlmon exec` costs a script of a person's own, and what a progress bar costs it.

Measured, in rounds of runs in random order: the mean time of a step of one and the same script
alone, under `dlmon exec --plain`, and alone with the progress bar that its framework has (Keras) or
that everybody uses (tqdm, for PyTorch). The script takes the time itself, over all epochs but the
first. The figure is the median over the rounds of the ratio to the run alone of that round. Losses
must be the same to the last digit.

The start-up is the time from the start of the process to the first line after its imports, as the
script says it, under `dlmon exec` and alone.

`--python` names the interpreter that the script runs in; dlmon need not be installed there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from estimate import estimate_median, verdict
from harness import TICKS_PER_S, CannotRun

SCRIPTS = {"pytorch": "pytorch_loop.py", "keras": "keras_fit.py"}
BAR_PCT, STARTUP_BAR_MS = 1.0, 30.0
TIMEOUT_S = 300.0
SIDES = ("alone", "exec", "bar")
# The kernel says when a process began in ticks of 10 ms, and whoever reads that is past it.
_START = """
import json, os, time
with open("/proc/self/stat") as file:
    ticks = int(file.read().rpartition(")")[2].split()[19])
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("framework", choices=SCRIPTS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        _compare_steps(arguments, Path(folder))
        _compare_starts(arguments, Path(folder))


def _compare_steps(arguments: argparse.Namespace, folder: Path) -> None:
    order = random.Random(arguments.seed)
    script = harness.ROOT / "bench" / "scripts" / SCRIPTS[arguments.framework]
    command = [arguments.python, str(script)]
    ratios: dict[str, list[float]] = {"exec": [], "bar": []}
    against_bar, losses, alone_us = [], set(), []
    for _ in range(arguments.rounds):
        step_us = {}
        for side in order.sample(SIDES, len(SIDES)):
            words = [*command, "--bar"] if side == "bar" else command
            figures = _run(_watched(words, folder) if side == "exec" else words)
            step_us[side] = figures["step_us"]
            losses.add(figures["loss"])
        alone_us.append(step_us["alone"])
        for side, found in ratios.items():
            found.append((step_us[side] / step_us["alone"] - 1) * 100)
        against_bar.append((step_us["exec"] / step_us["bar"] - 1) * 100)
    if len(losses) > 1:
        raise CannotRun(f"the losses differ: {sorted(losses)}")
    name = arguments.framework
    mean_us = sum(alone_us) / len(alone_us)
    print(f"{name}: a step alone takes {mean_us:.0f} µs, the losses are the same")
    print(
        verdict(f"{name}: slower under dlmon exec", estimate_median(ratios["exec"]), BAR_PCT, "%")
    )
    bar = estimate_median(ratios["bar"])
    interval = f"[{bar.low:.2f} .. {bar.high:.2f}]"
    print(f"{name}: slower with a progress bar (context) {bar.value:.2f} %  {interval}")
    print(verdict(f"{name}: exec against the bar", estimate_median(against_bar), 0.0, "%"))


def _compare_starts(arguments: argparse.Namespace, folder: Path) -> None:
    module = {"pytorch": "torch, torch.utils.data", "keras": "keras"}[arguments.framework]
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


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(
        command, capture_output=True, timeout=TIMEOUT_S, check=False, env=os.environ, text=True
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise CannotRun(f"{command[-1]} failed: {words[-1] if words else done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    harness.run(main)
