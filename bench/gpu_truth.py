"""What dlmon says of a GPU beside what nvidia-smi says of it.

--while training: a run is launched by `dlmon run`, and its log is what dlmon
says. idle, load (matrix products at full power) and shared (two processes with
them): a sensors process is. Every few seconds nvidia-smi is asked
(--query-gpu), and its answers are set beside the record of dlmon's that lies
nearest in time. Printed as a table: for each field the medians of both, and the
largest and the median difference. What moves from one moment to the next
(utilisation, power, clock) can't agree exactly: two readings of nvidia-smi
itself don't either, which is shown beside it.

Behind the table: throttle reasons, MIG, the processes with their memory, and the
energy counter against the power readings added up.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any

import harness
from harness import CannotRun

from dlmon.log.directory import list_sessions
from dlmon.records import Gpu, Machine, RecordError, decode
from dlmon.sensors.nvidia.queries import throttle_reasons

START_S = 180.0
QUERY_S = 10.0
CASES = ("training", "idle", "load", "shared")
# Readings before a table is worth printing; the first sample of everything comes after 5 s.
SETTLE_S = 6.0


@dataclass(frozen=True)
class Field:
    """A field of ours, and what nvidia-smi calls it: the newest name first."""

    ours: str
    theirs: tuple[str, ...]
    unit: str


FIELDS = (
    Field("utilization_pct", ("utilization.gpu",), "%"),
    Field("memory_used_mib", ("memory.used",), "MiB"),
    Field("power_w", ("power.draw", "power.draw.instant"), "W"),
    Field("power_limit_w", ("enforced.power.limit",), "W"),
    Field("temperature_c", ("temperature.gpu",), "°C"),
    Field("sm_mhz", ("clocks.sm",), "MHz"),
    Field("memory_mhz", ("clocks.mem",), "MHz"),
    Field("fan_pct", ("fan.speed",), "%"),
    Field("pcie_generation", ("pcie.link.gen.gpucurrent", "pcie.link.gen.current"), ""),
    Field("pcie_width", ("pcie.link.width.current",), ""),
    Field("ecc_corrected", ("ecc.errors.corrected.volatile.total",), ""),
    Field("ecc_uncorrected", ("ecc.errors.uncorrected.volatile.total",), ""),
)
THROTTLE = Field("throttle", ("clocks_event_reasons.active", "clocks_throttle_reasons.active"), "")
MIG = Field("mig", ("mig.mode.current",), "")


@dataclass(frozen=True)
class Moment:
    """What was said at one time (CLOCK_MONOTONIC, nanoseconds); processes by pid, in MiB."""

    t: int
    values: dict[str, float]
    throttle: frozenset[str] | None = None
    mig: bool | None = None
    processes: dict[int, float | None] = field(default_factory=dict)


def main() -> None:
    arguments = _arguments()
    if shutil.which("nvidia-smi") is None:
        raise CannotRun("there is no nvidia-smi: this needs a machine with an NVIDIA GPU")
    smi = NvidiaSmi(arguments.gpu)
    with ExitStack() as stack:
        source = stack.enter_context(_source(arguments))
        time.sleep(0 if arguments.case == "training" else SETTLE_S)
        first, second = [], []
        for _ in range(arguments.readings):
            first.append(smi.moment())
            second.append(smi.moment())
            time.sleep(arguments.every)
        ours = source()
    if not ours:
        raise CannotRun("dlmon says nothing of this GPU")
    nearest = [min(ours, key=lambda moment: abs(moment.t - asked.t)) for asked in first]
    _print_table(nearest, first, second)
    _print_rest(nearest, first, ours)
    if smi.unknown:
        print(f"\nnot known to this nvidia-smi: {', '.join(smi.unknown)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--while", dest="case", choices=CASES, default="training")
    parser.add_argument("--gpu", type=int, default=0, help="NVML's index")
    parser.add_argument("--workload", default="cifar10-cnn")
    parser.add_argument(
        "--backend", help="what Keras trains with; the workload's default if unsaid"
    )
    parser.add_argument("--python", help="another interpreter to train in")
    parser.add_argument("--readings", type=int, default=20)
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument(
        "--load-device", choices=("gpu", "cpu"), default="gpu", help="cpu is for a dry run"
    )
    parser.add_argument("--device", help="what to train on, if not the GPU: for a dry run")
    return parser.parse_args()


# What dlmon says


@contextmanager
def _source(arguments: argparse.Namespace) -> Iterator[Callable[[], list[Moment]]]:
    """Yield what returns all that dlmon said so far."""
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder, ExitStack() as stack:
        if arguments.case == "training":
            run = _launch(arguments, Path(folder))
            log = _training_log(run, Path(folder))

            def said() -> list[Moment]:
                if run.poll() is not None:
                    raise CannotRun("the run ended before all was read")
                return _moments(log.read_bytes().splitlines(), arguments.gpu)

            yield said
            harness.end_tree(run.pid)
        else:
            loads = {"idle": 0, "load": 1, "shared": 2}[arguments.case]
            for _ in range(loads):
                stack.enter_context(_load(arguments.load_device))
            lines = stack.enter_context(_sensors())
            yield lambda: _moments(lines[:], arguments.gpu)


@contextmanager
def _sensors() -> Iterator[list[bytes]]:
    """Yield the lines of a sensors process, which grow."""
    command = [sys.executable, "-P", "-m", "dlmon.sensors", "--interval", "0.5", "--wake", "any"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=harness.ROOT
    )
    lines: list[bytes] = []
    assert process.stdout is not None
    threading.Thread(target=_keep_lines, args=(process.stdout, lines), daemon=True).start()
    try:
        yield lines
    finally:
        harness.end_tree(process.pid)


def _keep_lines(stream: IO[bytes], lines: list[bytes]) -> None:
    lines.extend(stream)


@contextmanager
def _load(device: str) -> Iterator[None]:
    """Keep the device busy meanwhile."""
    command = [sys.executable, harness.script("gpu_load.py"), "--device", device]
    if device == "cpu":
        command += ["--precision", "float32", "--size", "256"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != b"ready\n":
            words = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
            raise CannotRun(words[-1] if words else "the load ended before it was ready")
        yield
    finally:
        harness.end_tree(process.pid)


def _launch(arguments: argparse.Namespace, logs: Path) -> subprocess.Popen[bytes]:
    command = [harness.dlmon_command(), "run", arguments.workload, "--plain"]
    device = arguments.device or f"gpu:{arguments.gpu}"
    command += ["--device", device, "--epochs", "1000", "--log-dir", str(logs)]
    for option in ("backend", "python"):
        if (value := getattr(arguments, option)) is not None:
            command += [f"--{option}", value]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def _training_log(run: subprocess.Popen[bytes], logs: Path) -> Path:
    """Wait until batches have ended, and return the log of the run."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and run.poll() is None:
        for entry in list_sessions(logs):
            if b'{"type":"batches"' in entry.path.read_bytes():
                return entry.path
        time.sleep(0.5)
    raise CannotRun("the run did not start to train")


def _moments(lines: Sequence[bytes], gpu: int) -> list[Moment]:
    """Return what records say of a GPU at each sample; a field left out has not changed."""
    now = Moment(0, {})
    moments = []
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


# What nvidia-smi says


class NvidiaSmi:
    """Asks nvidia-smi about one GPU; `unknown` are the fields that this version doesn't know."""

    def __init__(self, gpu: int) -> None:
        self._gpu = gpu
        names = {one.ours: self._known_name(one) for one in (*FIELDS, THROTTLE, MIG)}
        self._names = {ours: theirs for ours, theirs in names.items() if theirs is not None}
        self.unknown = [ours for ours, theirs in names.items() if theirs is None]

    def moment(self) -> Moment:
        """Return its answers, which lie in the middle of the time that it took to ask.

        Raises:
            CannotRun: it doesn't answer.
        """
        start = time.monotonic_ns()
        answers = self._query(list(self._names.values()))
        if answers is None:
            raise CannotRun("nvidia-smi gave no answer")
        answer = dict(zip(self._names, answers, strict=True))
        values = {}
        for one in FIELDS:
            try:
                values[one.ours] = float(answer.get(one.ours, ""))
            except ValueError:  # [N/A], [Not Supported], or not known to it
                continue
        return Moment(
            t=(start + time.monotonic_ns()) // 2,
            values=values,
            throttle=_throttle(answer.get("throttle")),
            mig={"Enabled": True, "Disabled": False}.get(answer.get("mig", "")),
            processes=self._processes(),
        )

    def _known_name(self, one: Field) -> str | None:
        """Return the first name of a field that this nvidia-smi knows."""
        return next((name for name in one.theirs if self._query([name]) is not None), None)

    def _query(self, names: Sequence[str]) -> list[str] | None:
        rows = self._rows("--query-gpu", names)
        return rows[0] if rows and len(rows[0]) == len(names) else None

    def _processes(self) -> dict[int, float | None]:
        found: dict[int, float | None] = {}
        for pid, used in self._rows("--query-compute-apps", ("pid", "used_memory")) or ():
            found[int(pid)] = float(used) if used.replace(".", "").isdecimal() else None
        return found

    def _rows(self, query: str, names: Sequence[str]) -> list[list[str]] | None:
        command = ["nvidia-smi", f"--id={self._gpu}", f"{query}={','.join(names)}"]
        done = subprocess.run(
            [*command, "--format=csv,noheader,nounits"],
            capture_output=True,
            timeout=QUERY_S,
            text=True,
        )
        if done.returncode:
            return None
        return [
            [cell.strip() for cell in line.split(",")] for line in done.stdout.strip().splitlines()
        ]


def _throttle(bits: str | None) -> frozenset[str] | None:
    try:
        return frozenset(throttle_reasons(int(bits or "", 16)))
    except ValueError:
        return None


# Both beside each other


def _print_table(ours: Sequence[Moment], first: Sequence[Moment], second: Sequence[Moment]) -> None:
    head = ("field", "dlmon", "nvidia-smi", "median apart", "most apart", "nvidia-smi twice")
    print(_row(head))
    print(_row(["---"] * len(head)))
    for one in FIELDS:
        name, unit = one.ours, f" {one.unit}" if one.unit else ""
        row = [name, _median(_values(ours, name), unit), _median(_values(first, name), unit)]
        row += _apart(ours, first, name, unit)
        row.append(_apart(first, second, name, unit)[1])
        print(_row(row))


def _print_rest(ours: Sequence[Moment], first: Sequence[Moment], all_ours: list[Moment]) -> None:
    same = sum(a.throttle == b.throttle for a, b in zip(ours, first, strict=True))
    print(f"\nthrottle reasons: the same in {same} of {len(first)} readings")
    print(f"  dlmon: {_reasons(ours)}\n  nvidia-smi: {_reasons(first)}")
    print(f"MIG: dlmon {ours[-1].mig}, nvidia-smi {first[-1].mig}")
    mine, theirs = ours[-1].processes, first[-1].processes
    print(f"processes: dlmon {_held(mine)}; nvidia-smi {_held(theirs)}")
    print(_energy(all_ours))


def _reasons(moments: Sequence[Moment]) -> str:
    every = sorted({word for moment in moments for word in moment.throttle or ()})
    return ", ".join(every) or "none"


def _held(processes: dict[int, float | None]) -> str:
    return ", ".join(f"{pid}: {mib} MiB" for pid, mib in sorted(processes.items())) or "none"


def _energy(moments: Sequence[Moment]) -> str:
    """Set the counter's difference against the power readings added up (trapezoids)."""
    known = [one for one in moments if {"energy_j", "power_w"} <= one.values.keys()]
    if len(known) < 2:
        return "energy: no counter here"
    counted_j = known[-1].values["energy_j"] - known[0].values["energy_j"]
    added_j = sum(
        (a.values["power_w"] + b.values["power_w"]) / 2 * (b.t - a.t) / 1e9
        for a, b in itertools.pairwise(known)
    )
    ratio = f"{counted_j / added_j:.3f} ×" if added_j else "–"
    return f"energy: the counter says {counted_j:,.0f} J, power over time {added_j:,.0f} J, {ratio}"


def _values(moments: Sequence[Moment], name: str) -> list[float]:
    return [moment.values[name] for moment in moments if name in moment.values]


def _apart(one: Sequence[Moment], other: Sequence[Moment], name: str, unit: str) -> list[str]:
    both = [
        abs(a.values[name] - b.values[name])
        for a, b in zip(one, other, strict=True)
        if name in a.values and name in b.values
    ]
    figures: tuple[Callable[[Any], Any], ...] = (statistics.median, max)
    return [f"{figure(both):g}{unit}" if both else "–" for figure in figures]


def _median(values: Sequence[float], unit: str) -> str:
    return f"{statistics.median(values):g}{unit}" if values else "–"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    harness.run(main)
