"""First paint of dlmon's screens, against a Textual app that paints 200 cells.

Measured: the time from the start of the process until 200 cells of a screen are painted in its
terminal (a pty of 120×40 that answers nothing), a word of what the screen is for among them: the
workloads of `dlmon`, the charts of the machine of `dlmon watch`, the charts of a finished session
of `dlmon attach`. A line that says to wait is none of these. Beside them, as context, the
same of `dlmon run`, which also starts a supervisor, the sensors and a training process.
In each round every one of them runs once, in random order; the figure is the median over the
rounds of the ratio to the bare app of the same round. The caches are warm: a round that doesn't
count comes first.

Also shown: whether the picker had imported TensorFlow, Keras or NumPy by the
time it was left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Container
from pathlib import Path

import harness
from bare_app import CELLS, MARKER
from estimate import estimate_median, spread, verdict
from harness import CannotRun
from terminal import Terminal

from dlmon.launch.job import Job, Refused
from dlmon.launch.lifeline import launch

BAR = 1.3
TIMEOUT_S = 30.0
RECORDED_S = 5
STAYS_S = 0.5
HEAVY_MODULES = ("tensorflow", "keras", "numpy")

# Runs the picker, and writes down what it had imported when it was left.
PICKER = """
import sys
from pathlib import Path
from tui.start import main
try:
    main()
finally:
    Path({path!r}).write_text("\\n".join(sys.modules))
"""


def main() -> None:
    arguments = _arguments()
    rounds = 3 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        state = Path(folder)
        # The home screen looks for sessions there: none of this machine's own may count.
        environment = {"XDG_STATE_HOME": str(state / "state")}
        session = _record_session(state / "logs")
        dlmon = harness.dlmon_command()
        logs = ["--log-dir", str(state / "runs")]
        screens = {
            "bare app": ([sys.executable, harness.script("bare_app.py")], MARKER),
            "dlmon": ([dlmon], "Workloads"),
            "dlmon watch": ([dlmon, "watch"], "Memory"),
            "dlmon attach": ([dlmon, "attach", session], "samples/s"),
            "dlmon run": ([dlmon, "run", arguments.workload, *logs], "Throughput"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in screens}
        order = random.Random(arguments.seed)
        for number in range(rounds + 1):
            for name in order.sample(list(screens), len(screens)):
                command, marker = screens[name]
                with Terminal(command, marker, environment, cells=CELLS) as terminal:
                    took_s = terminal.first_seen(TIMEOUT_S)
                    if number:
                        seconds[name].append(took_s)
                    else:
                        _check_it_stays(name, terminal)
        _print(seconds, context=("dlmon run",))
        found = _imported_by_picker(state / "modules", environment)
    print(
        f"{'imported by the picker of ' + ', '.join(HEAVY_MODULES):<44} "
        f"{', '.join(found) or 'none'}  {'not reached' if found else 'reached'}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--workload", default="mnist-mlp-small", help="what dlmon run trains")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="three rounds")
    return parser.parse_args()


def _print(seconds: dict[str, list[float]], context: Container[str]) -> None:
    bare = seconds["bare app"]
    for name, took in seconds.items():
        print(f"{'first paint of ' + name:<44} {spread(took)} s")
    for name, took in seconds.items():
        if took is bare:
            continue
        ratio = estimate_median([one / other for one, other in zip(took, bare, strict=True)])
        if name in context:
            print(f"{name + ' / bare app':<44} {ratio.value:.2f} ×  (context)")
        else:
            print(verdict(f"first paint of {name} / bare app", ratio, BAR, "×"))


def _check_it_stays(name: str, terminal: Terminal) -> None:
    """Make sure that it was a screen and not an error that showed the word."""
    time.sleep(STAYS_S)
    if terminal.process.poll() is not None:
        raise CannotRun(f"{name} ended right after its first paint")


def _record_session(directory: Path) -> str:
    """Run a short session without a screen, and return the path of its log."""
    job = Job(
        workload="cifar10-cnn",
        command=(sys.executable, "-P", harness.script("paced_workload.py")),
        options={"rate": 50, "seconds": RECORDED_S, "steps": 50},
        log_dir=str(directory),
    )
    started = launch(job)
    answer = started.answer()
    if isinstance(answer, Refused):
        raise CannotRun(answer.reason)
    started.process.wait()
    last = Path(answer.log).read_bytes().splitlines()[-1]
    if json.loads(last).get("status") != "completed":
        raise CannotRun(f"the session to attach to was not completed: {last[:300]!r}")
    return answer.log


def _imported_by_picker(listing: Path, environment: dict[str, str]) -> list[str]:
    """Return which heavy modules the picker imported before it was left."""
    source = PICKER.format(path=str(listing))
    with Terminal([sys.executable, "-P", "-c", source], "Workloads", environment) as terminal:
        terminal.first_seen(TIMEOUT_S)
        terminal.press("q")
        terminal.process.wait(TIMEOUT_S)
    modules = listing.read_text().split()
    return [name for name in HEAVY_MODULES if name in modules]


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    harness.run(main)
