"""Measure how soon a session of a day is shown, and how long keys wait meanwhile.

A log of --hours with a sample a second of 8 GPUs and 16 cores, and with 50 batches a second, is
written as the supervisor writes it, with its index. --folder keeps it for later runs;
--without-index opens it as a log of an earlier version.

The screen of `dlmon attach` then opens it in a pty of 120×40, and a key without a meaning is
pressed ten times a second. Measured: the times from the start of the process until its first
screen, and until the end of the session is on the screen; the longest time that the event loop was
blocked, and that a key waited to be handled; the memory of the viewer once it has read all. Then
`dlmon replay` opens the log and seeks random moments: measured is the time until each is drawn. As
context: the times of `dlmon attach --plain` and of `dlmon sessions`, and of a plain reader that
passes each line to json.loads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import harness
from cost import cpu_s, resident_mib
from harness import CannotRun
from terminal import Terminal

from dlmon.log.folder import LOG_NAME
from dlmon.log.index import index_of, position_after
from dlmon.records import Batches, Epoch, Machine, Model, Record, Result, SessionHeader, encode
from dlmon.session.index import Index
from dlmon.session.session import Session

sys.path.insert(0, str(harness.ROOT / "tests"))

from fakes.recorded import recorded_session

GPUS, CORES = 8, 16
BATCHES_S, EPOCH_S = 50, 600
KEYS_S = 0.1
TIMEOUT_S = 900.0
FIRST_SCREEN, READ = "reading", "completed after"
FIRST_PLAYED, SOUGHT = "replay", "moments were gone to"
SEEKS = 30
SEEK_BAR_S = 0.2
LOG_BAR_MB, FIRST_SCREEN_BAR_S, MEMORY_BAR_MIB, KEY_BAR_MS = 250.0, 1.0, 150.0, 100.0


@dataclass(frozen=True)
class Opening:
    """The measurements of opening a log once."""

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
    parser = harness.parser(__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the log here, and use it again")
    parser.add_argument("--without-index", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a session of one hour")
    return parser.parse_args()


def _print(opening: Opening) -> None:
    _print_bar("first screen", opening.first_screen_s, FIRST_SCREEN_BAR_S, "s")
    figures = f"{opening.read_s:.1f} s, with {opening.cpu_s:.1f} s of CPU"
    print(f"{'until all is read or done':<44} {figures}")
    if opening.seeks_s:
        seeks = sorted(opening.seeks_s)
        print(f"{'median seek':<44} {seeks[len(seeks) // 2]:.2f} s  n={len(seeks)}")
        _print_bar("longest seek", seeks[-1], SEEK_BAR_S, "s")
    print(f"{'longest block of the event loop':<44} {opening.longest_block_ms:.0f} ms")
    waits = sorted(opening.key_waits_ms)
    if waits:
        print(f"{'median wait of a key':<44} {waits[len(waits) // 2]:.0f} ms  n={len(waits)}")
        _print_bar("longest wait of a key", waits[-1], KEY_BAR_MS, "ms")
    _print_bar("memory of the viewer", opening.memory_mib, MEMORY_BAR_MIB, "MiB")


def _print_bar(name: str, value: float, bar: float, unit: str) -> None:
    reached = "reached" if value <= bar else "not reached"
    print(f"{name:<44} {value:.2f} {unit}  bar {bar:g} {unit}  {reached}")


def _print_context(log: Path) -> None:
    begin = time.monotonic()
    with log.open("rb") as lines:
        for line in lines:
            json.loads(line)
    print(f"{'json.loads of each line':<44} {time.monotonic() - begin:.1f} s  (context)")
    dlmon, directory = harness.dlmon_command(), str(log.parent.parent)
    for name, command in (
        ("dlmon attach --plain", [dlmon, "attach", str(log), "--plain"]),
        ("dlmon sessions", [dlmon, "sessions", "--log-dir", directory]),
    ):
        begin = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        print(f"{name:<44} {time.monotonic() - begin:.1f} s  (context)")


def _open(log: Path, waits: Path, last: str, *options: str) -> Opening:
    command = [sys.executable, harness.script("shown_log.py"), str(log), str(waits), *options]
    with Terminal(command, FIRST_PLAYED if options else FIRST_SCREEN) as terminal:
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
    # The next opening must not read this file.
    waits.unlink()
    return Opening(first_screen_s, read_s, used_s, memory_mib=memory_mib, **measured)


def _write(log: Path, hours: float) -> None:
    log.parent.mkdir(parents=True)
    part = log.with_name("part")
    records = _records(log.parent.name, hours)
    header = next(records)
    assert isinstance(header, SessionHeader)
    session = Session(header)
    index = Index(log, session)
    with part.open("wb") as out:
        out.write(encode(header))
        for record in records:
            line = encode(record)
            out.write(line)
            session.add(record)
            index.take(partial(position_after, line, out.tell()))
        out.write(encode(_result(log, session)))
    index.save()
    part.rename(log)


def _records(id: str, hours: float) -> Iterator[Record]:
    """Yield the records of a session that repeats its first hour."""
    epochs = max(1, round(min(hours, 1.0) * 3600 / EPOCH_S))
    header, *records = recorded_session(
        workload="mnist-mlp-small",
        session_id=id,
        epochs=epochs,
        samples=BATCHES_S * EPOCH_S * 32,
        step_us=1_000_000 // BATCHES_S,
        gpus=GPUS,
        cores=CORES,
    )
    train_end = max(record.end for record in records if isinstance(record, Epoch))
    train_begin = next(record.begin for record in records if isinstance(record, Epoch))
    rounds = max(1, round(hours))
    yield header
    for record in records:
        if isinstance(record, Model):
            yield replace(record, epochs=epochs * rounds)
        elif getattr(record, "t", train_begin) < train_begin:
            yield record
    repeated = (Batches, Epoch, Machine)
    for number in range(rounds):
        for record in records:
            if isinstance(record, repeated) and train_begin <= _time_of(record) <= train_end:
                yield _later(record, number * (train_end - train_begin), number * epochs)


def _time_of(record: Batches | Epoch | Machine) -> int:
    return record.end if isinstance(record, Epoch) else record.t


def _later(record: Batches | Epoch | Machine, by_ns: int, by_epochs: int) -> Record:
    if isinstance(record, Machine):
        return replace(record, t=record.t + by_ns, wall=record.wall + by_ns / 1e9)
    epoch = record.epoch + by_epochs
    if isinstance(record, Batches):
        return replace(record, t=record.t + by_ns, epoch=epoch)
    times = {name: getattr(record, name) + by_ns for name in ("begin", "end", "train_end")}
    return replace(record, epoch=epoch, **times)


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
        wall=session.header.wall + snapshot.elapsed_s,
    )


if __name__ == "__main__":
    harness.run(main)
