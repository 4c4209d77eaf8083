"""Ingest of 50,000 batches a second: is anything lost, and does memory stay flat?

A workload without a network sends batches at --rate for --seconds, in epochs of
ten seconds with a short last batch, through dlmon.instrument.collector, the pipe and the
supervisor into the log, while dlmon's live screen follows it in a pty of
120×40. Checked against what the workload itself counted: batches, samples and
epochs in the log, in what the viewer read, in what its session folded and in the
supervisor's result. Measured: the resident memory of supervisor and viewer ten
seconds into training and at its end, and the CPU of each process meanwhile.

As context, a plain writer: the CPU time that the log's very lines take to be
written to another file, one write each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import harness
from cost import Reading, processes_of, read, resident_mib
from harness import CannotRun
from terminal import Terminal

from dlmon.launch.job import Job
from dlmon.log.follower import LogFollower
from dlmon.records import Batches, BatchSummary, Epoch, Notice, Result

EPOCH_S = 10
BATCH_SIZE, LAST_BATCH = 32, 17
SETTLED_S = 10.0
# What an allocator may still take from the system when nothing grows.
FLAT_MIB = 5.0
START_S = 20.0
DRAIN_S = 60.0
MEASURED = ("viewer", "supervisor", "sensors", "workload")


@dataclass(frozen=True)
class Counts:
    """What somebody knows of a session; not everybody counts samples."""

    batches: int
    samples: int | None
    epochs: int | None


def main() -> None:
    arguments = _arguments()
    seconds = 20 if arguments.quick else arguments.seconds
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path:
        folder = Path(path)
        truth, shown = folder / "truth", folder / "shown"
        job = _job(folder, truth, arguments.rate, seconds)
        command = [sys.executable, harness.script("shown_job.py"), "--counts", str(shown)]
        with Terminal([*command, str(job)], "Throughput") as terminal:
            terminal.first_seen(START_S)
            pids = _wait_for_workload(terminal)
            readings, memory_mib = _watch(pids, seconds)
            log = _wait_for_result(folder, terminal)
            # The viewer leaves once it has shown the end.
            terminal.press("q")
            terminal.process.wait(START_S)
        in_log, notices, result = _count_log(log)
        lines = log.read_bytes().splitlines(keepends=True)
        plain_s = _plain_writer_cpu_s(lines, folder / "plain")
        truth_counts = Counts(**json.loads(truth.read_text()))
        seen = json.loads(shown.read_text())
    _print_counts(truth_counts, in_log, seen, result)
    for text in notices:
        print(f"notice in the log: {text}")
    _print_cost(readings, memory_mib, lines, plain_s)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=50_000, help="batches a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="20 seconds")
    return parser.parse_args()


def _job(folder: Path, truth: Path, rate: int, seconds: int) -> Path:
    """Write the job down and return its file."""
    job = Job(
        workload="cifar10-cnn",
        command=(sys.executable, "-P", harness.script("paced_workload.py")),
        options={
            "workload": "cifar10-cnn",
            "interval": 1.0,
            "rate": rate,
            "vary": False,
            "seconds": seconds,
            "steps": rate * EPOCH_S,
            "batch_size": BATCH_SIZE,
            "last_batch": LAST_BATCH,
            "truth": str(truth),
        },
        log_dir=str(folder / "logs"),
    )
    path = folder / "job"
    path.write_bytes(job.to_line())
    return path


def _wait_for_workload(terminal: Terminal) -> dict[str, int]:
    deadline = time.monotonic() + START_S
    while True:
        try:
            return processes_of(terminal.pid, "paced_workload.py")
        except CannotRun:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _watch(pids: dict[str, int], seconds: int) -> tuple[list[Reading], list[dict[str, float]]]:
    """Return the CPU at the begin, and CPU and memory when settled and shortly before the end."""
    readings, memory_mib = [read(pids)], []
    settled_s = min(SETTLED_S, seconds / 2)
    for wait_s in (settled_s, seconds - settled_s - 1.0):
        time.sleep(wait_s)
        readings.append(read(pids))
        memory_mib.append({name: resident_mib(pids[name]) for name in MEASURED})
    return readings, memory_mib


def _wait_for_result(folder: Path, terminal: Terminal) -> Path:
    """Wait for the session's end and return its log."""
    (log,) = folder.glob("logs/*/session.jsonl")
    follower = LogFollower(log)
    deadline = time.monotonic() + DRAIN_S
    try:
        while time.monotonic() < deadline and terminal.process.poll() is None:
            if any(isinstance(record, Result) for record in follower.poll()):
                # Two ticks of the screen, so that it has read the end too.
                time.sleep(1.5)
                return log
            time.sleep(0.2)
    finally:
        follower.close()
    raise CannotRun(f"the session had no result {DRAIN_S:.0f} s after it should have ended")


def _count_log(log: Path) -> tuple[Counts, list[str], Result]:
    batches = samples = epochs = 0
    notices: list[str] = []
    result: Result | None = None
    follower = LogFollower(log)
    while records := follower.poll():
        for record in records:
            if isinstance(record, Batches):
                each, count = record.samples, len(record.dt_us)
                batches += count
                samples += count * each if isinstance(each, int) else sum(each)
            elif isinstance(record, BatchSummary):
                batches += record.count
                samples += record.samples
            elif isinstance(record, Epoch):
                epochs += 1
            elif isinstance(record, Notice):
                notices.append(record.text)
            elif isinstance(record, Result):
                result = record
    follower.close()
    if result is None:
        raise CannotRun("the log has no result")
    return Counts(batches, samples, epochs), notices, result


def _plain_writer_cpu_s(lines: list[bytes], path: Path) -> float:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    before_s = time.process_time()
    for line in lines:
        os.write(fd, line)
    used_s = time.process_time() - before_s
    os.close(fd)
    return used_s


def _print_counts(truth: Counts, in_log: Counts, seen: dict[str, int], result: Result) -> None:
    counted = {
        "sent by the workload": truth,
        "in the log": in_log,
        "read by the viewer": Counts(seen["batches"], seen["samples"], seen["epochs"]),
        "folded by the viewer": Counts(seen["folded_batches"], None, seen["epochs"]),
        "in the supervisor's result": Counts(result.batches or 0, None, result.epochs),
    }
    for who, counts in counted.items():
        samples = "" if counts.samples is None else f"{counts.samples:,} samples"
        print(f"{who:<44} {counts.batches:>10,} batches {counts.epochs} epochs {samples}")
    lost = any(
        counts.batches != truth.batches
        or counts.epochs != truth.epochs
        or counts.samples not in (None, truth.samples)
        for counts in counted.values()
    )
    words = "lost or invented  not reached" if lost else "nothing lost  reached"
    print(f"{'ingest':<44} {words}")


def _print_cost(
    readings: list[Reading],
    memory_mib: list[dict[str, float]],
    lines: list[bytes],
    plain_s: float,
) -> None:
    begin, before, after = readings
    took_s = after.at - before.at
    cpu_pct = after.cpu_pct_since(before)
    for name in MEASURED:
        print(f"{'CPU of ' + name:<44} {cpu_pct[name]:.1f} % of a core")
    log_mb = sum(map(len, lines)) / 1e6
    supervisor_s = after.cpu_s["supervisor"] - begin.cpu_s["supervisor"]
    print(
        f"{'supervisor / plain writer of the same bytes':<44} {supervisor_s / plain_s:.0f} ×  "
        f"({supervisor_s:.2f} s of CPU against {plain_s * 1000:.1f} ms for {log_mb:.1f} MB)"
    )
    for name in ("supervisor", "viewer"):
        grown = memory_mib[1][name] - memory_mib[0][name]
        reached = "reached" if grown <= FLAT_MIB else "not reached"
        print(
            f"{f'memory of {name} after {took_s:.0f} s more':<44} "
            f"{memory_mib[0][name]:.1f} -> {memory_mib[1][name]:.1f} MiB, "
            f"{grown:+.1f} MiB  bar {FLAT_MIB:g} MiB  {reached}"
        )


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    harness.run(main)
