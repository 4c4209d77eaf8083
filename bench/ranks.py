"""Measure the cost of merging and showing a run of many ranks, and check that nothing is lost.

    python bench/ranks.py [--nodes 64] [--gpus 8] [--seconds 60]

The log of each node is as its supervisor writes it: batches of every rank four times a second, the
parts of four of its steps, and a sample of the machine, once a second.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from dlmon.log.folder import part_name
from dlmon.records import (
    SCHEMA,
    Batches,
    Cpu,
    Gpu,
    Machine,
    MachineFacts,
    Memory,
    Model,
    Phase,
    Record,
    SessionHeader,
    StepParts,
    Trainer,
    encode,
)
from dlmon.remote.nodes import node_snapshots
from dlmon.session.follower import SessionFollower
from dlmon.supervisor.parts import Parts

STEPS_A_RECORD, STEP_US, S = 5, 50_000, 1_000_000_000


def header_of(node: int) -> SessionHeader:
    """Return the header of a node's log; each node counts its time from its own boot."""
    return SessionHeader(
        schema=SCHEMA,
        id="20261127-000000-train-py-0000",
        host=f"n{node}",
        node=f"n{node}",
        boot_id=f"boot-{node}",
        t=(node + 1) * 1000 * S,
        wall=1.8e9,
        workload="train.py",
        options={"interval": 1.0},
        machine=MachineFacts(cores=64),
        versions={},
        command=("python", "train.py"),
    )


def records_of(node: int, gpus: int, seconds: int) -> list[Record]:
    """Return the records of a node's ranks and of its machine."""
    t = header_of(node).t
    records: list[Record] = []
    model = Model(None, None, 32, 32 * 1_000_000, 1_000_000, 1)
    for gpu in range(gpus):
        rank = node * gpus + gpu
        records.append(Trainer(t, gpu, 1000 + gpu, "torch", rank=rank, world_size=512))
        records.append(replace(model, device=f"gpu:{gpu}", trainer=gpu or None))
        if not gpu:
            records.append(Phase(t, "training"))
    for quarter in range(4 * seconds):
        for gpu in range(gpus):
            end = t + (quarter * STEPS_A_RECORD + 1) * STEP_US * 1000
            times = (STEP_US,) * STEPS_A_RECORD
            records.append(
                Batches(0, quarter * STEPS_A_RECORD, 32, end, times, trainer=gpu or None)
            )
        if quarter % 4 == 3:
            at = t + (quarter + 1) * S // 4
            of_step = (1_000, 500, 15_000, 25_000, 4_000, 3_000)
            parts_us = [4 * (part_us + quarter % 7) for part_us in of_step]
            for gpu in range(gpus):
                records.append(StepParts(at, 4, 4 * STEP_US, *parts_us, trainer=gpu or None))
            readings = tuple(
                Gpu(gpu, utilization_pct=97, power_w=500.0 + quarter % 7, memory_used_mib=70_000)
                for gpu in range(gpus)
            )
            sample = Machine(
                at, 1.8e9, cpu=Cpu(pct=30.0), memory=Memory(used_mib=90_000), gpus=readings
            )
            records.append(sample)
    return records


def main() -> None:
    """Write the logs, merge them, follow the session, and print the CPU time of each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / header_of(0).id
        folder.mkdir()
        log = folder / "session.jsonl"
        count = 0
        for node in range(arguments.nodes):
            records = records_of(node, arguments.gpus, arguments.seconds)
            count += len(records)
            lines = map(encode, (header_of(node), *records))
            path = folder / part_name(node) if node else log
            path.write_bytes(b"".join(lines))
        merge(log, arguments.seconds)
        show(log, arguments.nodes * arguments.gpus, arguments.seconds)
        print(f"{count:,} records, {log.stat().st_size / arguments.seconds / 1e3:,.0f} kB a second")


def merge(log: Path, seconds: int) -> None:
    """Merge all parts into a log."""
    with log.open("ab") as merged:
        parts = Parts(log.parent, header_of(0), lambda record: merged.write(encode(record)))
        began = time.process_time()
        while asyncio.run(parts.read()):
            pass
        took_s = time.process_time() - began
        parts.close()
    print(f"merge: {took_s:.1f} s of CPU, {100 * took_s / seconds:.0f} % of a core as it runs")


def show(log: Path, ranks: int, seconds: int) -> None:
    """Follow the merged log, and make the figures that screens show."""
    follower = SessionFollower(log)
    began = time.process_time()
    while follower.poll():
        pass
    took_s = time.process_time() - began
    print(f"fold: {took_s:.1f} s of CPU, {100 * took_s / seconds:.0f} % of a core as it runs")
    trainers = follower.session.trainers
    loops = [follower.session.loops, *trainers.loops.values()]
    batches = sum(loop.now.steady.batches for loop in loops)
    lost = ranks * 4 * seconds * STEPS_A_RECORD - batches
    print(f"{len(trainers.known)} ranks, {batches:,} batches, {lost} lost")
    for name, look in (
        ("snapshot", follower.snapshot),
        ("cards", lambda: node_snapshots(follower)),
    ):
        began = time.process_time()
        look()
        print(f"{name}: {1000 * (time.process_time() - began):.0f} ms")
    follower.close()


if __name__ == "__main__":
    main()
