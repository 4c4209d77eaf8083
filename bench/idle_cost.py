"""Measure the CPU of viewer, supervisor and sensors while a session is shown at 1 Hz.

Measured: the CPU time, in percent of one core, of dlmon's live screen in a pty of 120×40, on a
session whose workload ends batches at a steady rate without computing anything, and of `dlmon
watch`; and the bytes a second that go to the terminal. The machine has two GPUs, of the tests' own
driver library, whose readings change every second. For comparison, a Textual app with four one-row
sparklines at 1 Hz, and nvitop if it is installed, run at the same time and are read in the same
windows.

The charts fill in the first minutes and then move, which costs more: so the windows begin after
--warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import harness
from cost import Reading, processes_of, rates, read
from estimate import estimate_median, spread, verdict
from harness import CannotRun
from terminal import Terminal

from dlmon.protocol.job import Job

sys.path.insert(0, str(harness.ROOT / "tests"))

from fake_nvml import FakeDriver, build

BAR_PCT, WATCH_BAR = 3.0, 1.5
OWN = ("viewer", "supervisor", "sensors")
START_S = 20.0
# The readings of a GPU that change every second, with their ranges.
READINGS = (
    ("utilization_pct", 80, 100),
    ("memory_used_mib", 40_000, 41_000),
    ("power_mw", 250_000, 350_000),
)


def main() -> None:
    arguments = _arguments()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlmon-bench-")))
        environment = stack.enter_context(busy_gpus(folder))
        job = _job(folder, arguments.rate)
        commands = {
            "viewer": [sys.executable, harness.script("shown_job.py"), str(job)],
            "watch": [harness.dlmon_command(), "watch"],
            "sparkline app": [sys.executable, harness.script("bare_app.py"), "--sparklines"],
        }
        if nvitop := shutil.which("nvitop"):
            commands["nvitop"] = [nvitop, "--interval", "1"]
        terminals = {
            name: stack.enter_context(Terminal(command, "Throughput", environment))
            for name, command in commands.items()
        }
        terminals["viewer"].first_seen(START_S)
        time.sleep(arguments.warm_up)
        pids = {name: terminal.pid for name, terminal in terminals.items()}
        pids |= processes_of(pids["viewer"], "paced_workload.py")
        cpu, sent = [read(pids)], [_sent(terminals)]
        for _ in range(arguments.windows):
            time.sleep(arguments.window)
            cpu.append(read(pids))
            sent.append(_sent(terminals))
    _print(cpu, sent)


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--rate", type=float, default=20.0, help="batches a second")
    parser.add_argument("--warm-up", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--window", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="20 seconds; the charts still fill")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.warm_up, arguments.window, arguments.windows = 8.0, 4.0, 3
    return arguments


def _job(folder: Path, rate: float) -> Path:
    """Write the job to a file, and return the file."""
    options = {"rate": rate, "steps": 500, "validation_steps": 10}
    job = Job(
        workload="cifar10-cnn",
        command=(sys.executable, "-P", harness.script("paced_workload.py")),
        options={"workload": "cifar10-cnn", "interval": 1.0, **options},
        log_dir=str(folder / "logs"),
        environment={"BENCH_DEVICE": "gpu:0"},
    )
    path = folder / "job"
    path.write_bytes(job.to_line())
    return path


@contextlib.contextmanager
def busy_gpus(
    folder: Path,
    count: int = 2,
    changing: Sequence[tuple[str, int, int]] = READINGS,
    lasting: Sequence[str] = (),
) -> Iterator[dict[str, str]]:
    """Yield an environment whose NVML has GPUs with readings that change each second.

    `lasting` holds lines for the driver that never change.
    """
    if shutil.which("cc") is None:
        raise CannotRun("there is no C compiler (cc) to build the GPU driver of the tests with")
    driver = FakeDriver(build(folder), folder)
    environment = driver.environment()
    # Writing every call to a file is for tests, and would count as the sensors' work.
    del environment["FAKE_NVML_CALLS"]
    stopped = threading.Event()

    def change() -> None:
        draw = random.Random(1)
        while True:
            readings = (
                f"set {gpu} {name} {draw.randint(low, high)}"
                for gpu in range(count)
                for name, low, high in changing
            )
            driver.says(f"gpus {count}", *lasting, *readings)
            if stopped.wait(1.0):
                return

    changes = threading.Thread(target=change)
    driver.says(f"gpus {count}", *lasting)
    changes.start()
    try:
        yield environment
    finally:
        stopped.set()
        changes.join()


def _sent(terminals: dict[str, Terminal]) -> Reading:
    received = {name: float(terminal.bytes_received) for name, terminal in terminals.items()}
    return time.monotonic(), received


def _print(cpu: list[Reading], sent: list[Reading]) -> None:
    cpu_pct = {name: [100 * rate for rate in cores] for name, cores in rates(cpu).items()}
    for name, windows_pct in cpu_pct.items():
        print(f"{'CPU of ' + name:<44} {spread(windows_pct)} % of a core")
    for name, bytes_s in rates(sent).items():
        print(f"{'sent to the terminal by ' + name:<44} {spread(bytes_s, 0)} bytes/s")
    together = [sum(window) for window in zip(*(cpu_pct[name] for name in OWN), strict=True)]
    print(verdict(" + ".join(OWN), estimate_median(together), BAR_PCT, "% of a core"))
    if "nvitop" in cpu_pct:
        pairs = zip(cpu_pct["watch"], cpu_pct["nvitop"], strict=True)
        ratios = [watch / nvitop for watch, nvitop in pairs if nvitop]
        print(verdict("watch / nvitop", estimate_median(ratios), WATCH_BAR, "×"))


if __name__ == "__main__":
    harness.run(main)
