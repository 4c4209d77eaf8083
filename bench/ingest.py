"""Check that no record is lost, and memory stays flat, at 50,000 batches a second.

A workload without a network sends batches at --rate for --seconds, in epochs of ten seconds with a
short last batch, through dlmon.instrument.collector, the socket and the supervisor into the log,
while dlmon's live screen follows it in a pty of 120×40. The workload's own counts of batches,
samples and epochs are compared with those of the log, of the viewer's session and of the
supervisor's result. Measured: the resident memory of supervisor and viewer ten seconds into
training and at its end, and the CPU of each process between.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import harness
from cost import processes_of, rates, read, resident_mib
from harness import CannotRun
from terminal import Terminal

from dlmon.log.log_follower import LogFollower
from dlmon.protocol.job import Job
from dlmon.records import Batches, BatchSummary, Epoch, Notice, Record, Result

EPOCH_S = 10
BATCH_SIZE, LAST_BATCH = 32, 17
SETTLED_S = 10.0
# The growth by the allocator alone.
FLAT_MIB = 5.0
START_S, DRAIN_S = 20.0, 60.0

Counts = tuple[int, int | None, int]
"""Batches, samples (None if not counted) and epochs."""


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as path:
        folder = Path(path)
        job = _job(folder, arguments)
        command = [sys.executable, harness.script("shown_job.py"), "--counts", f"{folder}/shown"]
        with Terminal([*command, str(job)], "samples/s") as terminal:
            terminal.first_seen(START_S)
            pids = processes_of(terminal.pid, "paced_workload.py")
            time.sleep(SETTLED_S)
            readings, settled_mib = [read(pids)], _memory_mib(pids)
            time.sleep(max(1.0, arguments.seconds - SETTLED_S - 4.0))
            readings.append(read(pids))
            end_mib = _memory_mib(pids)
            (log,) = folder.glob("logs/*/session.jsonl")
            records = _read_to_result(log)
            # Wait two ticks of the screen, so that it has read the end too.
            time.sleep(1.5)
            terminal.press("q")
            terminal.process.wait(START_S)
        truth = json.loads((folder / "truth").read_text())
        folded = json.loads((folder / "shown").read_text())
    for record in records:
        if isinstance(record, Notice):
            print(f"notice in the log: {record.text}")
    sent: Counts = (truth["batches"], truth["samples"], truth["epochs"])
    result = records[-1]
    assert isinstance(result, Result)
    counts_by_reader: dict[str, Counts] = {
        "sent by the workload": sent,
        "in the log": _count(records),
        "folded by the viewer": (folded["batches"], None, folded["epochs"]),
        "in the supervisor's result": (result.batches or 0, None, result.epochs or 0),
    }
    for reader, (batches, samples, epochs) in counts_by_reader.items():
        samples_text = "" if samples is None else f" {samples:,} samples"
        print(f"{reader:<44} {batches:>10,} batches {epochs} epochs{samples_text}")
    lost = any(
        counts != (sent[0], counts[1] and sent[1], sent[2]) for counts in counts_by_reader.values()
    )
    print(f"{'ingest':<44} {'lost or invented  not reached' if lost else 'nothing lost  reached'}")
    for name, (used,) in rates(readings).items():
        print(f"{'CPU of ' + name:<44} {100 * used:.1f} % of a core")
    for name, before_mib in settled_mib.items():
        grown = end_mib[name] - before_mib
        reached = "reached" if grown <= FLAT_MIB else "not reached"
        figures = f"{before_mib:.1f} -> {end_mib[name]:.1f} MiB, {grown:+.1f} MiB"
        print(f"{f'memory of the {name}':<44} {figures}  bar {FLAT_MIB:g} MiB  {reached}")


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--rate", type=int, default=50_000, help="batches a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="20 seconds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds = 20
    return arguments


def _job(folder: Path, arguments: argparse.Namespace) -> Path:
    """Write the job to a file, and return the file."""
    job = Job(
        workload="cifar10-cnn",
        command=(sys.executable, "-P", harness.script("paced_workload.py")),
        options={
            "workload": "cifar10-cnn",
            "interval": 1.0,
            "rate": arguments.rate,
            "vary": False,
            "seconds": arguments.seconds,
            "steps": arguments.rate * EPOCH_S,
            "batch_size": BATCH_SIZE,
            "last_batch": LAST_BATCH,
            "truth": str(folder / "truth"),
        },
        log_dir=str(folder / "logs"),
    )
    path = folder / "job"
    path.write_bytes(job.to_line())
    return path


def _memory_mib(pids: dict[str, int]) -> dict[str, float]:
    return {name: resident_mib(pids[name]) for name in ("supervisor", "viewer")}


def _read_to_result(log: Path) -> list[Record]:
    """Return all records of a log, after waiting for its result, the last one."""
    follower, records = LogFollower(log), list[Record]()
    deadline = time.monotonic() + DRAIN_S
    while not records or not isinstance(records[-1], Result):
        if time.monotonic() > deadline:
            raise CannotRun(f"the session had no result {DRAIN_S:.0f} s after it should have ended")
        records += follower.poll()
        time.sleep(0.2)
    follower.close()
    return records


def _count(records: list[Record]) -> Counts:
    batches = samples = epochs = 0
    for record in records:
        if isinstance(record, Batches):
            count, sizes = len(record.dt_us), record.samples
            batches += count
            samples += count * sizes if isinstance(sizes, int) else sum(sizes)
        elif isinstance(record, BatchSummary):
            batches += record.count
            samples += record.samples
        elif isinstance(record, Epoch):
            epochs += 1
    return batches, samples, epochs


if __name__ == "__main__":
    harness.run(main)
