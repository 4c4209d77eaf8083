"""Measure the first paint of dlmon's screens, against a Textual app that paints 200 cells.

Measured: the time from the start of the process until 200 cells of a screen are painted in its
terminal (a pty of 120×40 that answers nothing), including a word of its content: the workloads of
`dlmon`, the charts of the machine of `dlmon watch`, the charts of a finished session of `dlmon
attach`. A line that asks to wait doesn't count. As context, also the first paint of `dlmon run`,
which also starts a supervisor, the sensors and a training process. In each round every command runs
once, in random order; the figure is the median over the rounds of the ratio to the bare app of the
same round. A first round that doesn't count warms the caches.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
from bare_app import CELLS, MARKER
from estimate import estimate_median, spread, verdict
from harness import CannotRun
from terminal import Terminal

BAR = 1.3
TIMEOUT_S = 30.0
STAYS_S = 0.5
BARE, CONTEXT = "bare app", "dlmon run"


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        # The home screen lists the sessions there; this machine's own must not count.
        environment = {"XDG_STATE_HOME": folder}
        dlmon = harness.dlmon_command()
        run = [dlmon, "run", arguments.workload, "--log-dir", str(Path(folder) / "runs")]
        short_run = [*run, "--plain", "--epochs", "1", "--seconds", "3"]
        subprocess.run(short_run, check=True, stdout=subprocess.DEVNULL)
        (session,) = Path(folder).glob("runs/*/session.jsonl")
        screens = {
            BARE: ([sys.executable, harness.script("bare_app.py")], MARKER),
            "dlmon": ([dlmon], "Workloads"),
            "dlmon watch": ([dlmon, "watch"], "Memory"),
            "dlmon attach": ([dlmon, "attach", str(session)], "samples/s"),
            CONTEXT: (run, "STARTING"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in screens}
        order = random.Random(arguments.seed)
        for number in range(arguments.rounds + 1):
            for name in order.sample(list(screens), len(screens)):
                command, marker = screens[name]
                with Terminal(command, marker, environment, cells=CELLS) as terminal:
                    took_s = terminal.first_seen(TIMEOUT_S)
                    if number:
                        seconds[name].append(took_s)
                    else:
                        _check_it_stays(name, terminal)
    for name, took in seconds.items():
        print(f"{'first paint of ' + name:<44} {spread(took)} s")
    for name, took in seconds.items():
        pairs = zip(took, seconds[BARE], strict=True)
        ratio = estimate_median([screen_s / bare_s for screen_s, bare_s in pairs])
        if name == CONTEXT:
            print(f"{f'{name} / {BARE}':<44} {ratio.value:.2f} ×  (context)")
        elif name != BARE:
            print(verdict(f"first paint of {name} / {BARE}", ratio, BAR, "×"))


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--workload", default="mnist-mlp-small", help="what dlmon run trains")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="three rounds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 3
    return arguments


def _check_it_stays(name: str, terminal: Terminal) -> None:
    """Check that a screen, and not an error message, showed the word."""
    time.sleep(STAYS_S)
    if terminal.process.poll() is not None:
        raise CannotRun(f"{name} ended right after its first paint")


if __name__ == "__main__":
    harness.run(main)
