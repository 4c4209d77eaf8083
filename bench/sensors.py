"""CPU of the sensors process at 1 Hz, with no GPU and with 1, 2 and 8.

Measured: the CPU time (the scheduler's own count, /proc/PID/schedstat) of
`python -m dlmon.sensors`, in percent of one core, with the tests' own driver
library for GPUs; and beside each a plain loop over psutil and pynvml that reads
the same fields as often (plain_sensors.py) with as many GPUs. All of them run at
the same time and are read in the same windows; none begins at another's tick.

Also printed, from the sensors' own records: the CPU time of a sample, and how late
samples are.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import harness
from cost import ran_ns
from estimate import estimate_median, spread, verdict
from harness import CannotRun

from dlmon.records import Cost, Machine, decode

sys.path.insert(0, str(harness.ROOT / "tests"))

from fake_nvml import FakeDriver, build

COUNTS = (0, 1, 2, 8)
BAR_PCT = {0: 0.5, 8: 1.0}
OURS, PLAIN = "sensors", "plain loop"
# Between two starts, so that the ticks of all lie apart.
APART_S = 0.1


@dataclass
class Reader:
    """A process that writes a line each second, and its lines."""

    process: subprocess.Popen[bytes]
    lines: list[bytes] = field(default_factory=list)

    def begin(self) -> None:
        """Read its lines as they come: a full pipe would hold it up."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def costs(self) -> list[Cost]:
        """Return what each sample but the first cost."""
        records = (decode(line) for line in self.lines[:])
        return [r.cost for r in records if isinstance(r, Machine) and r.cost is not None][1:]


def main() -> None:
    arguments = _arguments()
    window_s, windows = (10.0, 3) if arguments.quick else (arguments.window, arguments.windows)
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        readers = _start_all(Path(folder))
        time.sleep(arguments.warm_up)
        readings = [_cpu_ns(readers)]
        for _ in range(windows):
            time.sleep(window_s)
            readings.append(_cpu_ns(readers))
        for reader in readers.values():
            harness.end_tree(reader.process.pid)
    _print(readers, readings)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--warm-up", type=float, default=12.0, metavar="SECONDS")
    parser.add_argument(
        "--window", type=float, default=20.0, metavar="SECONDS", help="a multiple of 5 is fair"
    )
    parser.add_argument("--windows", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="three windows of 10 s")
    return parser.parse_args()


def _start_all(folder: Path) -> dict[tuple[str, int], Reader]:
    if shutil.which("cc") is None:
        raise CannotRun("there is no C compiler (cc) to build the GPU driver of the tests with")
    library = build(folder)
    commands = {
        OURS: [sys.executable, "-P", "-m", "dlmon.sensors"],
        PLAIN: [sys.executable, "-P", harness.script("plain_sensors.py")],
    }
    readers = {}
    for count in COUNTS:
        state = folder / str(count)
        state.mkdir()
        driver = FakeDriver(library, state)
        driver.says(f"gpus {count}")
        environment = driver.environment()
        # Noting every call in a file is for tests, and would count as the reader's own work.
        del environment["FAKE_NVML_CALLS"]
        for name, command in commands.items():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                cwd=harness.ROOT,
            )
            readers[name, count] = Reader(process)
            readers[name, count].begin()
            time.sleep(APART_S)
    return readers


def _cpu_ns(readers: dict[tuple[str, int], Reader]) -> tuple[int, dict[tuple[str, int], int]]:
    return time.monotonic_ns(), {key: ran_ns(r.process.pid) for key, r in readers.items()}


def _print(
    readers: dict[tuple[str, int], Reader],
    readings: Sequence[tuple[int, dict[tuple[str, int], int]]],
) -> None:
    shares: dict[tuple[str, int], list[float]] = {key: [] for key in readers}
    for (t_before, before), (t_after, after) in itertools.pairwise(readings):
        for key, now_ns in after.items():
            shares[key].append(100 * (now_ns - before[key]) / (t_after - t_before))
    for count in COUNTS:
        ours, plain = shares[OURS, count], shares[PLAIN, count]
        gpus = f"{count} GPU{'' if count == 1 else 's'}"
        for name, figures in ((OURS, ours), (PLAIN, plain)):
            print(f"{f'CPU of the {name}, {gpus}':<44} {spread(figures)} % of a core")
        against = estimate_median([a / b for a, b in zip(ours, plain, strict=True)])
        print(
            f"{f'sensors / plain loop, {gpus}':<44} {against.value:.2f} ×  "
            f"[{against.low:.2f} .. {against.high:.2f}]"
        )
        costs = readers[OURS, count].costs()
        print(f"{f'CPU time of a sample, {gpus}':<44} {_percentiles([c.cpu_ms for c in costs])}")
        print(f"{f'lateness of a sample, {gpus}':<44} {_percentiles([c.late_ms for c in costs])}")
    for count, bar in BAR_PCT.items():
        found = estimate_median(shares[OURS, count])
        print(verdict(f"sensors with {count} GPUs", found, bar, "% of a core"))


def _percentiles(times_ms: list[float]) -> str:
    cuts = statistics.quantiles(times_ms, n=100)
    return f"50 % {cuts[49]:.2f}  95 % {cuts[94]:.2f}  99 % {cuts[98]:.2f} ms"


if __name__ == "__main__":
    harness.run(main)
