"""Sessions with every reading and every figure that is served to Prometheus."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from fakes.recorded import recorded_session, write_log

from dlmon.exporter.exporter import Exporter
from dlmon.records import (
    Batches,
    Cpu,
    Disk,
    Gpu,
    GpuState,
    Machine,
    Memory,
    Metrics,
    Model,
    Network,
    Pressure,
    ProcessTree,
    Record,
    SessionHeader,
)


def full(kind, **others):
    """Return a record whose numbers are all known."""
    named = {spec.name: 50 for spec in fields(kind) if spec.type in ("int | None", "float | None")}
    return kind(**{**named, **others})


def full_machine(t: int, wall: float, gpus: int) -> Machine:
    """Return a sample of a machine with GPUs that report all there is."""
    gpu = full(Gpu, index=0, throttle=("power cap",), state=GpuState.ANSWERS)
    return Machine(
        t,
        wall,
        *(full(kind) for kind in (Cpu, Memory, Disk, Network, ProcessTree)),
        gpus=tuple(replace(gpu, index=index) for index in range(gpus)),
        pressure=full(Pressure),
    )


def training(session: str, gpus: int = 1, names: int = 1, **changes: object) -> list[Record]:
    """Return the records of a session that trains on its first GPU and reports `names` metrics."""
    header, *records = recorded_session("training", session_id=session, gpus=gpus)
    assert isinstance(header, SessionHeader)
    facts = tuple(replace(gpu, uuid=f"GPU-{gpu.index}") for gpu in header.machine.gpus or ())
    header = replace(header, machine=replace(header.machine, gpus=facts), **changes)
    last = next(record for record in reversed(records) if isinstance(record, Machine))
    more = {Batches: {"tokens": 1_000}, Model: {"peak_flop_s": 1e15}}
    records = [replace(record, **more.get(type(record), {})) for record in records]
    values = {f"metric {number}": float(number) for number in range(names)}
    return [header, *records, full_machine(last.t, last.wall, gpus), Metrics(last.t, values)]


def exporter_of(directory: Path, *sessions: list[Record]) -> Exporter:
    """Return an exporter that has read the logs of sessions, as if they ran."""
    exporter = Exporter(directory)
    logs = [write_log(directory, records) for records in sessions]
    exporter.sessions.follow(logs)
    while not exporter.sessions.are_read:
        exporter.sessions.follow(logs)
    return exporter
