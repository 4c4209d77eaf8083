"""Compare dlmon's readings of a GPU with nvidia-smi's.

dlmon's sensors process reads the GPU while --trainings runs of `dlmon run` train on it. Every few
seconds nvidia-smi is asked (--query-gpu), and its answer is compared with dlmon's nearest record in
time. A table shows for each field the medians of both, and the median and the largest difference.
Quick changes (utilisation, power, clock) keep the two from agreeing exactly; the table also shows
the largest difference between two successive readings of nvidia-smi itself.

Below the table are throttle reasons, MIG, the processes with their memory, and the energy counter
beside the sum of the power readings.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace

import harness
from harness import CannotRun

from dlmon.records import Gpu, Machine, RecordError, decode
from dlmon.sensors.nvidia.queries import throttle_reasons

START_S = 180.0
# The first complete sample comes after 5 s.
SETTLE_S = 6.0
# dlmon's name of a field, nvidia-smi's name, and the unit.
FIELDS = (
    ("utilization_pct", "utilization.gpu", " %"),
    ("memory_busy_pct", "utilization.memory", " %"),
    ("memory_used_mib", "memory.used", " MiB"),
    ("power_w", "power.draw", " W"),
    ("power_limit_w", "enforced.power.limit", " W"),
    ("temperature_c", "temperature.gpu", " °C"),
    ("sm_mhz", "clocks.sm", " MHz"),
    ("memory_mhz", "clocks.mem", " MHz"),
    ("fan_pct", "fan.speed", " %"),
    ("pcie_generation", "pcie.link.gen.current", ""),
    ("pcie_width", "pcie.link.width.current", ""),
    ("ecc_corrected", "ecc.errors.corrected.volatile.total", ""),
    ("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total", ""),
)
THROTTLE, MIG = "clocks_throttle_reasons.active", "mig.mode.current"


@dataclass(frozen=True)
class Moment:
    """The readings at a time (CLOCK_MONOTONIC, nanoseconds); memory of processes by pid, in MiB."""

    t: int = 0
    values: dict[str, float] = field(default_factory=dict)
    throttle: frozenset[str] = frozenset()
    mig: bool | None = None
    processes: dict[int, float | None] = field(default_factory=dict)


def main() -> None:
    arguments = _arguments()
    with ExitStack() as stack:
        for _ in range(arguments.trainings):
            stack.enter_context(_training(arguments))
        lines = stack.enter_context(_sensors())
        time.sleep(SETTLE_S)
        first, second = [], []
        for _ in range(arguments.readings):
            first.append(_ask(arguments.gpu))
            second.append(_ask(arguments.gpu))
            time.sleep(arguments.every)
        ours = _moments(lines[:], arguments.gpu)
    if not ours:
        raise CannotRun("dlmon says nothing of this GPU")
    nearest = [min(ours, key=lambda moment: abs(moment.t - reading.t)) for reading in first]
    _print_table(nearest, first, second)
    _print_rest(nearest, first, ours)


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--trainings", type=int, default=1, metavar="COUNT", help="meanwhile")
    parser.add_argument("--gpu", type=int, default=0, help="NVML's index")
    parser.add_argument("--device", default="gpu:0", help="what is trained on")
    parser.add_argument("--workload", default="cifar10-cnn")
    parser.add_argument("--backend", help="what Keras trains with, if not the usual one")
    parser.add_argument("--readings", type=int, default=20)
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS")
    return parser.parse_args()


@contextmanager
def _training(arguments: argparse.Namespace) -> Iterator[None]:
    """Train a workload; enter once it trains."""
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        command = [harness.dlmon_command(), "run", arguments.workload, "--plain", "--log-dir"]
        command += [folder, "--device", arguments.device]
        command += ["--backend", arguments.backend] if arguments.backend else []
        process = subprocess.Popen(
            [*command, "--epochs", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            if not any(line.rstrip().endswith(b"training") for line in process.stdout):
                raise CannotRun("a run ended before it trained")
            yield
        finally:
            harness.end_tree(process.pid)


@contextmanager
def _sensors() -> Iterator[list[bytes]]:
    """Yield the growing list of lines of a sensors process."""
    command = [sys.executable, "-P", "-m", "dlmon.sensors", "--interval", "0.5", "--wake"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=harness.ROOT
    )
    lines: list[bytes] = []
    threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True).start()
    try:
        yield lines
    finally:
        harness.end_tree(process.pid)


def _moments(lines: Sequence[bytes], gpu: int) -> list[Moment]:
    """Return the readings of a GPU at each sample; a field that a record omits is unchanged."""
    now, moments = Moment(), list[Moment]()
    for line in lines:
        try:
            record = decode(line)
        except RecordError:
            continue  # the last line is still being written
        if not isinstance(record, Machine):
            continue
        if record.processes is not None:
            memory = {row.pid: row.gpu_memory_mib for row in record.processes if gpu in row.gpus}
            now = replace(now, processes=memory)
        for reading in record.gpus or ():
            if reading.index == gpu:
                now = _updated(replace(now, t=record.t), reading)
                moments.append(now)
    return moments


def _updated(before: Moment, reading: Gpu) -> Moment:
    values = dict(before.values)
    for spec in fields(reading):
        value = getattr(reading, spec.name)
        if spec.name in reading.why:
            values.pop(spec.name, None)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            values[spec.name] = value
    throttle = before.throttle if reading.throttle is None else frozenset(reading.throttle)
    mig = before.mig if reading.mig is None else reading.mig
    return replace(before, values=values, throttle=throttle, mig=mig)


def _ask(gpu: int) -> Moment:
    """Return nvidia-smi's readings; their time is the middle of the call."""
    start = time.monotonic_ns()
    names = [*(theirs for _, theirs, _ in FIELDS), THROTTLE, MIG]
    (answer,) = _smi(gpu, "--query-gpu", names)
    end = time.monotonic_ns()
    numbers = {ours: _number(cell) for (ours, *_), cell in zip(FIELDS, answer, strict=False)}
    apps = _smi(gpu, "--query-compute-apps", ("pid", "used_memory"))
    return Moment(
        t=(start + end) // 2,
        values={name: number for name, number in numbers.items() if number is not None},
        throttle=frozenset(throttle_reasons(int(answer[-2], 16))),
        mig={"Enabled": True, "Disabled": False}.get(answer[-1]),
        processes={int(pid): _number(used) for pid, used in apps},
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # [N/A], [Not Supported]
        return None


def _smi(gpu: int, query: str, names: Sequence[str]) -> list[list[str]]:
    command = ["nvidia-smi", f"--id={gpu}", f"{query}={','.join(names)}"]
    command.append("--format=csv,noheader,nounits")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        raise CannotRun("there is no nvidia-smi: this needs a machine with an NVIDIA GPU") from None
    if done.returncode:
        raise CannotRun(f"nvidia-smi: {done.stdout.strip()}")
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]


def _print_table(ours: Sequence[Moment], first: Sequence[Moment], second: Sequence[Moment]) -> None:
    head = ("field", "dlmon", "nvidia-smi", "median apart", "most apart", "nvidia-smi twice")
    rows = [head, ("---",) * len(head)]
    for name, _, unit in FIELDS:
        apart, twice = _apart(ours, first, name), _apart(first, second, name)
        figures = (
            *(_median(ours, name), _median(first, name)),
            *((statistics.median(apart), max(apart)) if apart else (None, None)),
            max(twice, default=None),
        )
        rows.append((name, *("–" if value is None else f"{value:g}{unit}" for value in figures)))
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _median(moments: Sequence[Moment], name: str) -> float | None:
    values = [moment.values[name] for moment in moments if name in moment.values]
    return statistics.median(values) if values else None


def _apart(first: Sequence[Moment], second: Sequence[Moment], name: str) -> list[float]:
    pairs = [(a.values.get(name), b.values.get(name)) for a, b in zip(first, second, strict=True)]
    return [abs(a - b) for a, b in pairs if a is not None and b is not None]


def _print_rest(ours: Sequence[Moment], first: Sequence[Moment], all_ours: list[Moment]) -> None:
    equal = sum(a.throttle == b.throttle for a, b in zip(ours, first, strict=True))
    print(f"\nthrottle reasons: the same in {equal} of {len(first)} readings")
    for who, moments in (("dlmon", ours), ("nvidia-smi", first)):
        reasons = sorted({word for moment in moments for word in moment.throttle})
        memory = sorted(moments[-1].processes.items())
        processes = ", ".join(f"{pid}: {mib} MiB" for pid, mib in memory)
        print(f"  {who}: {', '.join(reasons) or 'none'}; MIG {moments[-1].mig}; {processes}")
    moments = [moment for moment in all_ours if {"energy_j", "power_w"} <= moment.values.keys()]
    if len(moments) < 2:
        print("energy: no counter here")
        return
    counted_j = moments[-1].values["energy_j"] - moments[0].values["energy_j"]
    added_j = sum(
        (a.values["power_w"] + b.values["power_w"]) / 2 * (b.t - a.t) / 1e9
        for a, b in itertools.pairwise(moments)
    )
    print(f"energy: the counter says {counted_j:,.0f} J, power over time {added_j:,.0f} J")


if __name__ == "__main__":
    harness.run(main)
