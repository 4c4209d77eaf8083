"""Measure the CPU time of reporting, comparing and printing a long finished session.

The log is of a PyTorch script: --records records of batches, four a second, with the wait for
data; each second also a reading of the machine, the loss and the parts of some steps. No two steps
take the same time. The log has no index, and is compared with a session of an hour. With --other,
the command of another version of dlmon, both versions take turns.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import harness

from dlmon.log.folder import LOG_NAME
from dlmon.log.index import index_of
from dlmon.records import (
    Batches,
    Epoch,
    Machine,
    Metrics,
    Model,
    Phase,
    Record,
    Result,
    SessionHeader,
    Status,
    StepParts,
    Trainer,
    encode,
)

sys.path.insert(0, str(harness.ROOT / "tests"))

from fakes.recorded import recorded_session
from fakes.scripts import script_session

RECORDS, RECORDS_S, BATCHES, EPOCH_S, SAMPLES = 100_000, 4, 25, 600, 32
STEP_US = 1_000_000 // RECORDS_S // BATCHES
GPUS, CORES = 1, 16
SECOND_NS = 1_000_000_000
BAR_S = 3.0


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as temporary:
        folder = arguments.folder or Path(temporary)
        log, hour = folder / "long" / LOG_NAME, folder / "hour" / LOG_NAME
        if not log.exists():
            seconds = arguments.records // RECORDS_S
            _write(log, seconds, arguments.gpus)
            _write(hour, min(seconds, 3600), arguments.gpus)
        print(f"{'size of the log':<44} {log.stat().st_size / 1e6:.1f} MB")
        page = str(Path(temporary) / "page.html")
        for name, command in (
            ("dlmon report", ["report", str(log)]),
            ("dlmon report -o page.html", ["report", str(log), "-o", page]),
            ("dlmon compare", ["compare", str(hour), str(log)]),
            ("dlmon attach --plain", ["attach", str(log), "--plain"]),
        ):
            for _ in range(arguments.rounds):
                for suffix in ["", "of the other"] if arguments.other else [""]:
                    dlmon = arguments.other if suffix else harness.dlmon_command()
                    index_of(log).unlink(missing_ok=True)
                    used_s = _cpu_s([dlmon, *command])
                    reached = "reached" if used_s <= BAR_S else "not reached"
                    figure = f"{used_s:.2f} s of CPU  bar {BAR_S:g} s  {reached}"
                    print(f"{f'{name} {suffix}':<44} {figure}")


def _arguments() -> argparse.Namespace:
    parser = harness.parser(__doc__)
    parser.add_argument("--records", type=int, default=RECORDS, help="of batches")
    parser.add_argument("--gpus", type=int, default=GPUS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep the logs here, and use them again")
    parser.add_argument("--other", help="the command of another version of dlmon")
    return parser.parse_args()


def _cpu_s(command: list[str]) -> float:
    """Run a command and return its user and system CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write(log: Path, seconds: int, gpus: int) -> None:
    log.parent.mkdir(parents=True)
    with log.open("wb") as out:
        for record in _records(log.parent.name, seconds, gpus):
            out.write(encode(record))


def _records(id: str, seconds: int, gpus: int) -> Iterator[Record]:
    """Yield the records of a session that trains for `seconds`."""
    by_chance = random.Random(2)
    header, *start = script_session(steps=EPOCH_S * RECORDS_S * BATCHES, samples=SAMPLES)
    assert isinstance(header, SessionHeader)
    yield replace(header, id=id, machine=replace(header.machine, cores=CORES))
    yield from (record for record in start if isinstance(record, (Trainer, Model, Phase)))
    session = recorded_session(workload="mnist-mlp-small", gpus=gpus, cores=CORES, epochs=1)
    readings = cycle([record for record in session if isinstance(record, Machine)])
    now_ns = epoch_ns = header.t + 2 * SECOND_NS
    for second in range(seconds):
        epoch, epoch_second = divmod(second, EPOCH_S)
        for number in range(RECORDS_S):
            begin_ns, first = now_ns, (epoch_second * RECORDS_S + number) * BATCHES
            took_us = tuple(int(STEP_US * by_chance.gauss(1, 0.02)) for _ in range(BATCHES))
            now_ns += sum(took_us) * 1000
            t, wait_us = begin_ns + took_us[0] * 1000, sum(took_us) // 50
            yield Batches(epoch, first, SAMPLES, t, took_us, wait_us=wait_us)
        wall = header.wall + (now_ns - header.t) / 1e9
        yield replace(next(readings), t=now_ns, wall=wall)
        yield Metrics(now_ns, {"loss": 2 / (1 + second / 1000) + by_chance.random() / 50})
        yield _parts(now_ns)
        if epoch_second == EPOCH_S - 1:
            samples = EPOCH_S * RECORDS_S * BATCHES * SAMPLES
            ends = epoch_ns, now_ns, now_ns
            yield Epoch(epoch, *ends, True, samples, {}, EPOCH_S * RECORDS_S * BATCHES)
            epoch_ns = now_ns
    yield Result(
        status=Status.COMPLETED,
        session=id,
        log="",
        workload=header.workload,
        device="gpu:0",
        options=header.options,
        wall_s=(now_ns - header.t) / 1e9,
        t=now_ns,
        wall=header.wall + (now_ns - header.t) / 1e9,
    )


def _parts(t: int) -> StepParts:
    """Return the parts of four steps."""
    return StepParts(
        t=t,
        steps=4,
        step_us=4 * STEP_US,
        wait_us=STEP_US // 12,
        forward_us=STEP_US,
        backward_us=2 * STEP_US,
        optimizer_us=STEP_US // 2,
    )


if __name__ == "__main__":
    harness.run(main)
