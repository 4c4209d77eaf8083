"""CPU of viewer, supervisor and sensors while a session is shown at 1 Hz.

Measured: CPU time from /proc/PID/stat, in percent of one core, of dlmon's live
screen in a pty of 120×40 on a session whose workload ends batches at a steady
rate without computing anything, on a machine with two GPUs (the tests' own
driver library, whose readings change every second); and the bytes a second that
go to the terminal. Against a Textual app with four one-row sparklines at 1 Hz,
and, with --with-others, against nvitop, gpustat and Glances installed for the
occasion; all run at the same time and are read in the same windows.

The charts fill for the first minutes and move from then on, which costs more:
so the windows begin after --warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import harness
from cost import Reading, processes_of, read
from estimate import estimate_median, spread, verdict
from harness import CannotRun
from terminal import Terminal

from dlmon.launch.job import Job

sys.path.insert(0, str(harness.ROOT / "tests"))

from fake_nvml import FakeDriver, build

BAR_PCT = 2.0
OWN = ("viewer", "supervisor", "sensors")
OTHERS = {
    "nvitop": ("nvitop", "--interval", "1"),
    "gpustat": ("gpustat", "--interval", "1"),
    "glances": ("glances", "--time", "1", "--disable-check-update"),
}
START_S = 20.0
# What of a GPU changes every second, and from where to where.
READINGS = (
    ("utilization_pct", 80, 100),
    ("memory_used_mib", 40_000, 41_000),
    ("power_mw", 250_000, 350_000),
)


def main() -> None:
    arguments = _arguments()
    warm_up_s = 8.0 if arguments.quick else arguments.warm_up
    window_s = 4.0 if arguments.quick else arguments.window
    windows = 3 if arguments.quick else arguments.windows
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlmon-bench-")))
        environment = stack.enter_context(busy_gpus(folder))
        others = _install_others(folder) if arguments.with_others else {}
        terminals = {
            "viewer": _show_session(folder, environment, arguments.rate),
            "sparkline app": Terminal(
                [sys.executable, harness.script("bare_app.py"), "--sparklines"],
                environment=environment,
            ),
        }
        for name, command in others.items():
            terminals[name] = Terminal(command, environment=environment)
        for terminal in terminals.values():
            stack.enter_context(terminal)
        terminals["viewer"].first_seen(START_S)
        time.sleep(warm_up_s)
        pids = processes_of(terminals["viewer"].pid, "paced_workload.py")
        pids |= {name: terminal.pid for name, terminal in terminals.items() if name != "viewer"}
        for name in others:
            if terminals[name].process.poll() is not None:
                print(f"{name} ended by itself and is left out: {terminals[name].last_output}")
                del pids[name], terminals[name]
        readings = [_read(pids, terminals)]
        for _ in range(windows):
            time.sleep(window_s)
            readings.append(_read(pids, terminals))
    _print(readings)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=20.0, help="batches a second")
    parser.add_argument("--warm-up", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--window", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--with-others", action="store_true", help="nvitop, gpustat and Glances")
    parser.add_argument("--quick", action="store_true", help="20 seconds; the charts still fill")
    return parser.parse_args()


def _show_session(folder: Path, environment: dict[str, str], rate: float) -> Terminal:
    job = Job(
        workload="cifar10-cnn",
        command=(sys.executable, "-P", harness.script("paced_workload.py")),
        options={
            "workload": "cifar10-cnn",
            "interval": 1.0,
            "rate": rate,
            "steps": 500,
            "validation_steps": 10,
        },
        log_dir=str(folder / "logs"),
        environment={"BENCH_DEVICE": "gpu:0"},
    )
    path = folder / "job"
    path.write_bytes(job.to_line())
    command = [sys.executable, harness.script("shown_job.py"), str(path)]
    return Terminal(command, "Throughput", environment)


@contextlib.contextmanager
def busy_gpus(
    folder: Path,
    count: int = 2,
    changing: Sequence[tuple[str, int, int]] = READINGS,
    lasting: Sequence[str] = (),
) -> Iterator[dict[str, str]]:
    """Yield the environment in which NVML shows GPUs whose readings change each second.

    `lasting` are lines for the driver that hold all the time.
    """
    if shutil.which("cc") is None:
        raise CannotRun("there is no C compiler (cc) to build the GPU driver of the tests with")
    driver = FakeDriver(build(folder), folder)
    environment = driver.environment()
    # Noting every call in a file is for tests, and would count as the sensors' own work.
    del environment["FAKE_NVML_CALLS"]
    over = threading.Event()

    def change() -> None:
        draw = random.Random(1)
        while True:
            readings = (
                f"set {gpu} {name} {draw.randint(low, high)}"
                for gpu in range(count)
                for name, low, high in changing
            )
            driver.says(f"gpus {count}", *lasting, *readings)
            if over.wait(1.0):
                return

    changes = threading.Thread(target=change)
    driver.says(f"gpus {count}", *lasting)
    changes.start()
    try:
        yield environment
    finally:
        over.set()
        changes.join()


def _install_others(folder: Path) -> dict[str, list[str]]:
    """Install the other monitors into an environment of their own; return their commands."""
    home = folder / "others"
    print("installing " + ", ".join(OTHERS) + " ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    install = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq", *OTHERS]
    if subprocess.run(install, check=False).returncode:
        raise CannotRun("pip could not install " + ", ".join(OTHERS))
    return {
        name: [str(home / "bin" / program), *options]
        for name, (program, *options) in OTHERS.items()
    }


def _read(pids: dict[str, int], terminals: dict[str, Terminal]) -> Reading:
    return read(pids, {name: terminal.bytes_received for name, terminal in terminals.items()})


def _print(readings: list[Reading]) -> None:
    pairs = list(itertools.pairwise(readings))
    cpu_pct = [after.cpu_pct_since(before) for before, after in pairs]
    sent = [after.bytes_per_s_since(before) for before, after in pairs]
    together = [sum(window[name] for name in OWN) for window in cpu_pct]
    for name in cpu_pct[0]:
        figures = spread([window[name] for window in cpu_pct])
        print(f"{'CPU of ' + name:<44} {figures} % of a core")
    for name in sent[0]:
        figures = spread([window[name] for window in sent], 0)
        print(f"{'sent to the terminal by ' + name:<44} {figures} bytes/s")
    ratios = [
        own / window["sparkline app"]
        for own, window in zip(together, cpu_pct, strict=True)
        if window["sparkline app"]
    ]
    if ratios:
        against = estimate_median(ratios)
        print(
            f"{'dlmon together / sparkline app':<44} {against.value:.2f} ×  "
            f"[{against.low:.2f} .. {against.high:.2f}]"
        )
    what = "viewer + supervisor + sensors"
    print(verdict(what, estimate_median(together), BAR_PCT, "% of a core"))


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    harness.run(main)
