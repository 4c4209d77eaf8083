"""A session of a day: how long until it is shown, and how long is a key kept waiting meanwhile?

A log of --hours at one sample a second with 8 GPUs and 16 cores and at 50
batches a second is written as the supervisor writes one: its batches go through
the collector of dlmon.instrument.collector, every record through dlmon.records, and its index
is written beside it. With --folder it is kept there, and used again; with --without-index it
is opened as one of an earlier version.

The screen of `dlmon attach` then opens it in a pty of 120×40, and a key that
means nothing is pressed ten times a second. Measured: the time from the start of
the process until its first screen, and until the end of the session is on the
screen; the longest time for which the event loop was blocked, and the longest
time that a key waited to be handled; the memory of the viewer once it has read
all. Then `dlmon replay` opens it, and moments all over it are gone to one by one:
how long until each is drawn. As context: the time of `dlmon attach --plain` and of
`dlmon sessions`, and a plain reader that takes each line through json.loads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
from cost import cpu_s, resident_mib
from harness import CannotRun
from terminal import Terminal

from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.keras_data import Data
from dlmon.instrument.queued import EpochEnd, EpochStart, Queued
from dlmon.log.folder import LOG_NAME
from dlmon.log.index import index_of, place_after, write_index
from dlmon.records import (
    SCHEMA,
    Cost,
    Cpu,
    Disk,
    Gpu,
    GpuFacts,
    Machine,
    MachineFacts,
    Memory,
    Model,
    Network,
    Phase,
    Process,
    ProcessTree,
    Record,
    Result,
    SessionHeader,
    encode,
)
from dlmon.session.index import IndexMaker
from dlmon.session.marks import MarkFinder
from dlmon.session.session import Session

SECOND = 1_000_000_000
BEGIN_NS, BEGIN_WALL = 1_000 * SECOND, 1_795_186_560.0
GPUS, CORES = 8, 16
BATCHES_S, FLUSHES_S, BATCH_SIZE = 50, 4, 64
EPOCH_S = 600
PROCESSES, PROCESSES_EVERY_S = 12, 5
KEYS_S = 0.1
TIMEOUT_S = 900.0
FIRST_SCREEN, READ = "reading", "completed after"
FIRST_PLAYED, SOUGHT = "replay", "moments were gone to"
SEEKS = 30
SEEK_BAR_S = 0.2
LOG_BAR_MB, FIRST_SCREEN_BAR_S, MEMORY_BAR_MIB, KEY_BAR_MS = 250.0, 1.0, 150.0, 100.0


@dataclass(frozen=True)
class Seen:
    """What was measured of one opening."""

    first_screen_s: float
    read_s: float
    cpu_s: float
    longest_block_ms: float
    key_waits_ms: list[float]
    memory_mib: float
    seeks_s: list[float]


def main() -> None:
    arguments = _arguments()
    hours = 1.0 if arguments.quick else arguments.hours
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as temporary:
        folder = arguments.folder or Path(temporary) / "logs"
        log = folder / f"20261120-145600-long-{hours:g}h" / LOG_NAME
        if not log.exists():
            _write(log, hours)
        if arguments.without_index:
            index_of(log).unlink(missing_ok=True)
        _print_bar("size of the log", log.stat().st_size / 1e6, LOG_BAR_MB, "MB")
        if index_of(log).exists():
            print(f"{'size of its index':<44} {index_of(log).stat().st_size / 1e6:.2f} MB")
        for number in range(arguments.rounds):
            waits = Path(temporary) / f"waits-{number}"
            print("dlmon attach")
            _print(_open(log, waits, READ))
            print("dlmon replay")
            _print(_open(log, waits, SOUGHT, "--seeks", str(SEEKS)))
        _print_context(log)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the log here, and use it again")
    parser.add_argument("--without-index", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a session of one hour")
    return parser.parse_args()


def _print(seen: Seen) -> None:
    _print_bar("first screen", seen.first_screen_s, FIRST_SCREEN_BAR_S, "s")
    print(f"{'until all is read or done':<44} {seen.read_s:.1f} s, with {seen.cpu_s:.1f} s of CPU")
    if seen.seeks_s:
        seeks = sorted(seen.seeks_s)
        print(f"{'median seek':<44} {seeks[len(seeks) // 2]:.2f} s  n={len(seeks)}")
        _print_bar("longest seek", seeks[-1], SEEK_BAR_S, "s")
    print(f"{'longest block of the event loop':<44} {seen.longest_block_ms:.0f} ms")
    waits = sorted(seen.key_waits_ms)
    if waits:
        print(f"{'median wait of a key':<44} {waits[len(waits) // 2]:.0f} ms  n={len(waits)}")
        _print_bar("longest wait of a key", waits[-1], KEY_BAR_MS, "ms")
    _print_bar("memory of the viewer", seen.memory_mib, MEMORY_BAR_MIB, "MiB")


def _print_bar(what: str, value: float, bar: float, unit: str) -> None:
    reached = "reached" if value <= bar else "not reached"
    print(f"{what:<44} {value:.2f} {unit}  bar {bar:g} {unit}  {reached}")


def _print_context(log: Path) -> None:
    begin = time.monotonic()
    with log.open("rb") as lines:
        for line in lines:
            json.loads(line)
    print(f"{'json.loads of each line':<44} {time.monotonic() - begin:.1f} s  (context)")
    dlmon, directory = harness.dlmon_command(), str(log.parent.parent)
    for what, command in (
        ("dlmon attach --plain", [dlmon, "attach", str(log), "--plain"]),
        ("dlmon sessions", [dlmon, "sessions", "--log-dir", directory]),
    ):
        begin = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        print(f"{what:<44} {time.monotonic() - begin:.1f} s  (context)")


def _open(log: Path, waits: Path, last: str, *more: str) -> Seen:
    command = [sys.executable, harness.script("shown_log.py"), str(log), str(waits), *more]
    with Terminal(command, FIRST_PLAYED if more else FIRST_SCREEN) as terminal:
        first_screen_s = terminal.first_seen(TIMEOUT_S)
        terminal.look_for(last)
        while not terminal.has_seen(KEYS_S):
            terminal.press("!")
            if time.monotonic() - terminal.started_at > TIMEOUT_S:
                raise CannotRun(f"nothing was read; the last words: {terminal.last_output}")
        read_s = terminal.first_seen(0)
        memory_mib, used_s = resident_mib(terminal.pid), cpu_s(terminal.pid)
        terminal.press("q")
        if terminal.process.wait(TIMEOUT_S) or not waits.exists():
            raise CannotRun(f"the screen ended in an error: {terminal.last_output}")
    measured = json.loads(waits.read_text())
    # What is measured next shall not be taken for this.
    waits.unlink()
    return Seen(first_screen_s, read_s, used_s, memory_mib=memory_mib, **measured)


def _write(log: Path, hours: float) -> None:
    log.parent.mkdir(parents=True)
    part = log.with_name("part")
    records = _records(log, int(hours * 3600))
    header = next(records)
    assert isinstance(header, SessionHeader)
    session, entries = Session(header), list[bytes]()
    finder, maker = MarkFinder(session), IndexMaker(session)
    with part.open("wb") as out:
        out.write(encode(header))
        for record in records:
            line = encode(record)
            out.write(line)
            session.fold(record)
            maker.take(finder.take(record, session))
            if maker.is_due and (entry := maker.make(place_after(line, out.tell()))):
                entries.append(entry)
        out.write(encode(_result(log, session)))
    write_index(log, header.id, entries)
    part.rename(log)


def _records(log: Path, seconds: int) -> Iterator[Record]:
    """Yield the records of a session in the order in which a supervisor writes them."""
    vary = random.Random(1)
    epochs = max(1, seconds // EPOCH_S)
    epoch_s = min(EPOCH_S, seconds)
    samples = BATCHES_S * epoch_s * BATCH_SIZE
    yield _header(log)
    for phase in ("importing", "loading", "building"):
        yield Phase(BEGIN_NS, phase)
    yield _model(samples, BATCHES_S * epoch_s, epochs)
    collector, queue = BatchCollector(), deque[Queued]()
    queue.append(Phase(BEGIN_NS, "compiling"))
    yield _sample(0, vary)
    for second in range(epochs * epoch_s):
        t = BEGIN_NS + second * SECOND
        epoch, of_epoch = divmod(second, epoch_s)
        if not of_epoch:
            if epoch:
                queue.append(Phase(t, "training"))
            queue.append(EpochStart(epoch, t, Data.of_samples(samples, BATCH_SIZE)))
        for flush in range(FLUSHES_S):
            done = BATCHES_S * flush // FLUSHES_S, BATCHES_S * (flush + 1) // FLUSHES_S
            for batch in range(*done):
                end = t + (batch + 1) * SECOND // BATCHES_S - vary.randrange(3_000_000)
                queue.append(end)
            collector.take(queue)
            yield from collector.records()
        yield _sample(second + 1, vary)
        if of_epoch == epoch_s - 1:
            metrics: dict[str, float | None] = {"loss": vary.random(), "accuracy": vary.random()}
            queue.append(EpochEnd(epoch, t + SECOND, metrics, cut=False))
            collector.take(queue)
            yield from collector.records()


def _header(log: Path) -> SessionHeader:
    return SessionHeader(
        schema=SCHEMA,
        id=log.parent.name,
        host="bench",
        boot_id="another boot",
        t=BEGIN_NS,
        wall=BEGIN_WALL,
        workload="cifar10-cnn",
        options={"workload": "cifar10-cnn", "interval": 1.0},
        machine=MachineFacts(
            cpu_model="AMD EPYC",
            cores=CORES,
            physical_cores=CORES // 2,
            memory_mib=131_072,
            gpus=tuple(
                GpuFacts(i, "NVIDIA H100 80GB HBM3", f"GPU-{i}", 81_559) for i in range(GPUS)
            ),
            driver="550.54.14",
            cuda="12.4",
        ),
        versions={"python": "3.11.7", "backend": "tensorflow", "dlmon": "0.1.0"},
    )


def _model(samples: int, steps: int, epochs: int) -> Model:
    return Model(
        parameters=1_337_002,
        flops_per_sample=236_302_848,
        batch_size=BATCH_SIZE,
        samples_per_epoch=samples,
        steps_per_epoch=steps,
        epochs=epochs,
        data="synthetic",
        device="gpu:0",
        device_name="NVIDIA H100 80GB HBM3",
        backend="tensorflow",
        precision="float32",
    )


def _sample(number: int, vary: random.Random) -> Machine:
    """Return a sample; what seldom changes is in the first one alone."""
    first = number == 0
    return Machine(
        t=BEGIN_NS + number * SECOND,
        wall=BEGIN_WALL + number,
        cpu=Cpu(
            pct=round(vary.uniform(20, 60), 1),
            cores=tuple(vary.randrange(101) for _ in range(CORES)),
            load_1m=round(vary.uniform(1, 9), 2),
            mhz=3_400 + vary.randrange(50),
            power_w=round(vary.uniform(90, 180), 1),
            energy_j=round(number * 120.0, 1),
        ),
        memory=Memory(used_mib=40_000 + vary.randrange(500), major_faults_s=0.0),
        disk=Disk(round(vary.random(), 2), round(vary.random(), 2)),
        network=Network(round(vary.random(), 2), round(vary.random(), 2)),
        process=ProcessTree(
            cpu_pct=round(vary.uniform(100, 400), 1),
            busiest_thread_pct=round(vary.uniform(50, 100), 1),
            rss_mib=9_000 + vary.randrange(100),
            threads=60 if first else None,
        ),
        gpus=tuple(_gpu(index, number, vary) for index in range(GPUS)),
        processes=_processes(first, vary) if number % PROCESSES_EVERY_S == 0 else None,
        cost=Cost(round(vary.uniform(2, 4), 2), round(vary.random(), 2)),
    )


def _processes(first: bool, vary: random.Random) -> tuple[Process, ...]:
    """Return the table of processes; who each one is stands in the first one alone."""
    return tuple(
        Process(
            pid=4_000 + row,
            user="somebody" if first else None,
            command=f"python train_{row}.py" if first else None,
            cpu_pct=round(vary.uniform(0, 100), 1),
            rss_mib=100 + vary.randrange(9_000),
            threads=vary.randrange(1, 60),
            gpus=(row,) if row < GPUS else (),
            gpu_memory_mib=vary.randrange(70_000) if row < GPUS else None,
            of_run=row == 0,
        )
        for row in range(PROCESSES)
    )


def _gpu(index: int, number: int, vary: random.Random) -> Gpu:
    first = number == 0
    return Gpu(
        index=index,
        utilization_pct=vary.randrange(80, 101),
        memory_used_mib=70_000 if first else None,
        power_w=round(vary.uniform(300, 700), 1),
        power_limit_w=700.0 if first else None,
        temperature_c=vary.randrange(50, 70),
        sm_mhz=1_980 - 15 * vary.randrange(5),
        memory_mhz=2_619 if first else None,
        throttle=() if first else None,
        energy_j=round(number * 500.0, 1),
    )


def _result(log: Path, session: Session) -> Result:
    snapshot = session.snapshot()
    return Result(
        status="completed",
        session=session.header.id,
        log=str(log),
        workload=session.header.workload,
        device="gpu:0",
        options=session.header.options,
        wall_s=snapshot.elapsed_s,
        seconds_per_epoch=snapshot.seconds_per_epoch,
        samples_per_second=snapshot.samples_per_second,
        step_ms=snapshot.step_ms,
        epochs=len(snapshot.epochs),
        batches=snapshot.batches,
        t=session.last_t,
        wall=BEGIN_WALL + snapshot.elapsed_s,
    )


if __name__ == "__main__":
    os.environ.pop("DLMON_RECORDS_FD", None)
    harness.run(main)
