"""What dlmon says of a GPU beside what nvidia-smi says of it.

A sensors process of dlmon's reads, while so many trainings run there (--trainings, by `dlmon run`).
Every few seconds nvidia-smi is asked (--query-gpu), and its answers are set beside the record of
dlmon's that lies nearest in time. Printed as a table: for each field the medians of both, and the
largest and the median difference. What moves from one moment to the next (utilisation, power,
clock) can't agree exactly: two readings of nvidia-smi itself don't either, as is shown beside it.

Behind the table: throttle reasons, MIG, the processes with their memory, and the energy counter
against the power readings added up.
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
# The first sample of everything comes after 5 s.
SETTLE_S = 6.0
# A field of ours, what nvidia-smi calls it, and its unit.
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
    """What was said at one time (CLOCK_MONOTONIC, nanoseconds); processes by pid, in MiB."""

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
    nearest = [min(ours, key=lambda moment: abs(moment.t - asked.t)) for asked in first]
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
    """Train meanwhile, from the first step on."""
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
    """Yield the lines of a sensors process, which grow."""
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
    """Return what records say of a GPU at each sample; a field left out has not changed."""
    now, moments = Moment(), list[Moment]()
    for line in lines:
        try:
            record = decode(line)
        except RecordError:
            continue  # the last line is still being written
        if not isinstance(record, Machine):
            continue
        if record.processes is not None:
            held = {row.pid: row.gpu_memory_mib for row in record.processes if gpu in row.gpus}
            now = replace(now, processes=held)
        for reading in record.gpus or ():
            if reading.index == gpu:
                now = _folded(replace(now, t=record.t), reading)
                moments.append(now)
    return moments


def _folded(before: Moment, reading: Gpu) -> Moment:
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
    """Return what nvidia-smi says now: in the middle of the time that it takes to ask."""
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
        rows.append((name, *("–" if one is None else f"{one:g}{unit}" for one in figures)))
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _median(moments: Sequence[Moment], name: str) -> float | None:
    known = [moment.values[name] for moment in moments if name in moment.values]
    return statistics.median(known) if known else None


def _apart(one: Sequence[Moment], other: Sequence[Moment], name: str) -> list[float]:
    pairs = [(a.values.get(name), b.values.get(name)) for a, b in zip(one, other, strict=True)]
    return [abs(a - b) for a, b in pairs if a is not None and b is not None]


def _print_rest(ours: Sequence[Moment], first: Sequence[Moment], all_ours: list[Moment]) -> None:
    same = sum(a.throttle == b.throttle for a, b in zip(ours, first, strict=True))
    print(f"\nthrottle reasons: the same in {same} of {len(first)} readings")
    for who, moments in (("dlmon", ours), ("nvidia-smi", first)):
        reasons = sorted({word for moment in moments for word in moment.throttle})
        held = sorted(moments[-1].processes.items())
        processes = ", ".join(f"{pid}: {mib} MiB" for pid, mib in held)
        print(f"  {who}: {', '.join(reasons) or 'none'}; MIG {moments[-1].mig}; {processes}")
    known = [one for one in all_ours if {"energy_j", "power_w"} <= one.values.keys()]
    if len(known) < 2:
        print("energy: no counter here")
        return
    counted_j = known[-1].values["energy_j"] - known[0].values["energy_j"]
    added_j = sum(
        (a.values["power_w"] + b.values["power_w"]) / 2 * (b.t - a.t) / 1e9
        for a, b in itertools.pairwise(known)
    )
    print(f"energy: the counter says {counted_j:,.0f} J, power over time {added_j:,.0f} J")


if __name__ == "__main__":
    harness.run(main)
