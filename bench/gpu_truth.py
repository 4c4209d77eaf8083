"""What dlmon says of a GPU beside what nvidia-smi says of it, while Keras trains on it.

A run is launched by `dlmon run` on a GPU; every few seconds nvidia-smi is asked
(--query-gpu), and its answers are set beside the record of the run's own log
that lies nearest in time. Printed as a table: for each field the medians of
both, and the largest and the median difference. What moves from one moment to
the next (utilisation, power, clock) can't agree exactly: two readings of
nvidia-smi itself don't either, which is shown beside it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import harness
from harness import CannotRun

from dlmon.records import Gpu, Machine, decode
from dlmon.sessions import list_sessions

START_S = 180.0
QUERY_S = 10.0


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


@dataclass(frozen=True)
class Moment:
    """The fields that were told at one time (CLOCK_MONOTONIC, nanoseconds)."""

    t: int
    values: dict[str, float]


def main() -> None:
    arguments = _arguments()
    if shutil.which("nvidia-smi") is None:
        raise CannotRun("there is no nvidia-smi: this needs a machine with an NVIDIA GPU")
    names = {field.ours: _known_name(field, arguments.gpu) for field in FIELDS}
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        logs = Path(folder)
        run = _launch(arguments, logs)
        log = _training_log(run, logs)
        first, second = [], []
        for _ in range(arguments.readings):
            first.append(_ask(names, arguments.gpu))
            second.append(_ask(names, arguments.gpu))
            time.sleep(arguments.every)
        if run.poll() is not None:
            raise CannotRun("the run ended before all was read: give it more --seconds")
        harness.end_tree(run.pid)
        ours = _told(log, arguments.gpu)
    _print(names, first, second, ours)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", type=int, default=0, help="NVML's index")
    parser.add_argument("--workload", default="cifar10-cnn")
    parser.add_argument(
        "--backend", help="what Keras trains with; the workload's default if unsaid"
    )
    parser.add_argument("--python", help="another interpreter to train in")
    parser.add_argument("--readings", type=int, default=20)
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS")
    return parser.parse_args()


def _launch(arguments: argparse.Namespace, logs: Path) -> subprocess.Popen[bytes]:
    command = [harness.dlmon_command(), "run", arguments.workload, "--plain"]
    command += ["--device", f"gpu:{arguments.gpu}", "--epochs", "1000", "--log-dir", str(logs)]
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
    raise CannotRun("the run did not begin to train")


def _known_name(field: Field, gpu: int) -> str | None:
    """Return the first name of a field that this nvidia-smi knows."""
    return next((name for name in field.theirs if _query([name], gpu) is not None), None)


def _query(names: Sequence[str], gpu: int) -> list[str] | None:
    command = ["nvidia-smi", f"--id={gpu}", f"--query-gpu={','.join(names)}"]
    asked = subprocess.run(
        [*command, "--format=csv,noheader,nounits"], capture_output=True, timeout=QUERY_S, text=True
    )
    answers = [answer.strip() for answer in asked.stdout.strip().split(",")]
    return answers if asked.returncode == 0 and len(answers) == len(names) else None


def _ask(names: dict[str, str | None], gpu: int) -> Moment:
    known = {ours: theirs for ours, theirs in names.items() if theirs is not None}
    begin = time.monotonic_ns()
    answers = _query(list(known.values()), gpu)
    if answers is None:
        raise CannotRun("nvidia-smi gave no answer")
    values = {}
    for ours, answer in zip(known, answers, strict=True):
        try:
            values[ours] = float(answer)
        except ValueError:  # [N/A], [Not Supported]
            continue
    return Moment((begin + time.monotonic_ns()) // 2, values)


def _told(log: Path, gpu: int) -> list[Moment]:
    """Return what the log tells of a GPU at each sample; a field left out has not changed."""
    now: dict[str, float] = {}
    moments = []
    for line in log.read_bytes().splitlines():
        record = decode(line)
        if not isinstance(record, Machine):
            continue
        for told in record.gpus or ():
            if told.index == gpu:
                now = _folded(now, told)
                moments.append(Moment(record.t, now))
    return moments


def _folded(before: dict[str, float], told: Gpu) -> dict[str, float]:
    now = dict(before)
    for spec in fields(told):
        value = getattr(told, spec.name)
        if spec.name in told.why:
            now.pop(spec.name, None)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            now[spec.name] = value
    return now


def _print(
    names: dict[str, str | None],
    first: list[Moment],
    second: list[Moment],
    ours: list[Moment],
) -> None:
    if not ours:
        raise CannotRun("the log tells nothing of this GPU")
    nearest = [min(ours, key=lambda moment: abs(moment.t - asked.t)) for asked in first]
    head = ("field", "dlmon", "nvidia-smi", "median apart", "most apart", "nvidia-smi twice")
    print(_row(head))
    print(_row(["---"] * len(head)))
    for field in FIELDS:
        name, unit = field.ours, f" {field.unit}" if field.unit else ""
        mine = _values(nearest, name)
        theirs = _values(first, name)
        row = [name, _median(mine, unit), _median(theirs, unit)]
        row += _apart(nearest, first, name, unit)
        row.append(_apart(first, second, name, unit)[1])
        print(_row(row))
    unknown = [ours for ours, theirs in names.items() if theirs is None]
    if unknown:
        print(f"\nnot known to this nvidia-smi: {', '.join(unknown)}")


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
