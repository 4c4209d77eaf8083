"""The metrics of sessions and machines, with names and units as Prometheus wants them.

A number in a record of the machine becomes a metric by its name and its meaning in the docstring:
`memory_used_mib` of `Gpu` is `dlmon_gpu_memory_used_bytes`. So a new sensor needs no row here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

from dlmon.quantities import value_of
from dlmon.records import (
    Cpu,
    Disk,
    Gpu,
    GpuState,
    Machine,
    MachineFacts,
    Memory,
    Network,
    Pressure,
    ProcessTree,
)
from dlmon.session.machine_history import facts_of_gpu, gpus_of
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot

MIB = 1 << 20
# By the end of a field's name: the end of the metric's name, and its number of units.
_UNITS = {
    "_mib_s": ("_bytes_per_second", MIB),
    "_mib": ("_bytes", MIB),
    "_pct": ("_ratio", 0.01),
    "_mhz": ("_hertz", 1e6),
    "_c": ("_celsius", 1.0),
    "_w": ("_watts", 1.0),
    "_j": ("_joules", 1.0),
    "_s": ("_per_second", 1.0),
}
_COUNTERS = ("energy_j", "ecc_corrected", "ecc_uncorrected", "xid_errors")
_NUMBERS = ("int | None", "float | None")
_PARTS = {"cpu": Cpu, "memory": Memory, "disk": Disk, "network": Network, "pressure": Pressure}
# By name: the meaning, the path of the value in a snapshot, and its number of units.
_OF_SESSION = {
    "start_timestamp_seconds": ("The start of the session.", "header.wall", 1.0),
    "suspended": ("1 while the run is suspended.", "is_suspended", 1.0),
    "step_median_seconds": ("The median step.", "step_ms.median", 1e-3),
    "step_p95_seconds": ("95 % of steps are shorter.", "step_ms.p95", 1e-3),
    "epoch_seconds": ("The time of an epoch.", "seconds_per_epoch", 1.0),
    "remaining_seconds": ("The time that the run still needs.", "progress.run_left_s", 1.0),
    "peak_ratio": ("The share of the peak (MFU).", "effective.peak_share", 1.0),
    "stalls": ("The steps of over ten times the median; may be found regular.", "stalls", 1.0),
}


class Sample(NamedTuple):
    """One value of a metric.

    Attributes:
        name: the metric's name, without `dlmon_` and the suffix of its kind.
        meaning: the metric's meaning.
        value: None if it is unknown.
        labels: the labels, in the order that all samples of the metric have.
        kind: gauge, counter or info.
    """

    name: str
    meaning: str
    value: float | None
    labels: Mapping[str, str]
    kind: str = "gauge"


def samples_of_session(
    session: Session, snapshot: Snapshot, now_ns: int, labels: Mapping[str, str]
) -> Iterator[Sample]:
    """Yield the figures of a session and of its processes; `now_ns` is on its running time."""
    workload = {**labels, "workload": session.header.workload}
    yield Sample("session", "The sessions that run.", 1.0, workload, "info")
    for rate in (snapshot.samples_per_second_now, snapshot.tokens_per_second_now):
        if rate is not None:
            what = rate.unit.removesuffix("/s")
            meaning = f"The throughput now, in {what}."
            yield Sample(f"{what}_per_second", meaning, rate.per_second, labels)
    for name, (meaning, path, units) in _OF_SESSION.items():
        value = value_of(snapshot, path)
        yield Sample(name, meaning, None if value is None else value * units, labels)
    yield Sample("steps", "The batches that ended.", snapshot.batches, labels, "counter")
    yield Sample("epochs", "The epochs that ended.", len(snapshot.epochs), labels, "counter")
    waits, end_ns = session.data_wait, session.data_wait.newest_ns
    if end_ns is not None:
        at_s = round(snapshot.wall - max(0, now_ns - end_ns) / 1e9, 3)
        yield Sample("last_step_timestamp_seconds", "The end of the last step.", at_s, labels)
        meaning = "The time since the last step, once the next is overdue; else 0."
        yield Sample("step_overdue_seconds", meaning, snapshot.overdue_s or 0.0, labels)
    waited, meaning = waits.before(now_ns), "The share of half a minute spent waiting for data."
    yield Sample("data_wait_ratio", meaning, None if waited is None else waited.share, labels)
    for part, seconds in snapshot.time_breakdown.items():
        yield Sample(
            "time_seconds", "The time so far, by its use.", seconds, {**labels, "use": part}
        )
    for index in snapshot.gpus:
        gpu = {**labels, "gpu": _id_of_gpu(session.facts, index)}
        yield Sample("session_gpu", "The GPUs that a session trains on.", 1.0, gpu, "info")
    if snapshot.machine is not None:
        yield from _readings(snapshot.machine.process, ProcessTree, "run", labels)


def samples_of_training(
    session: Session, snapshot: Snapshot, labels: Mapping[str, str]
) -> Iterator[Sample]:
    """Yield the figures of each rank, and the metrics that training reports: any number."""
    for process in snapshot.trainers:
        trainer, wait, step_ms = process.trainer, process.wait, process.step_ms
        rank = str(trainer.number if trainer.rank is None else trainer.rank)
        of_rank = {**labels, "rank": rank, "host": trainer.host or labels["host"]}
        step_s = None if step_ms is None else step_ms / 1000
        wait_s = None if wait is None else wait.mean_ms / 1000
        rate, meaning = process.samples_per_second, "The throughput of a rank."
        yield Sample("rank_samples_per_second", meaning, rate, of_rank)
        yield Sample("rank_step_seconds", "The median step of a rank.", step_s, of_rank)
        yield Sample("rank_data_wait_seconds", "Its wait for data in a step.", wait_s, of_rank)
    for name, metric in session.learning.metrics.items():
        for of, value in (("training", metric.newest), ("validation", metric.newest_validation)):
            named = {**labels, "metric": name, "of": of}
            yield Sample("training_metric", "The newest value of a metric.", value, named)


def samples_of_machine(host: str, facts: MachineFacts, machine: Machine) -> Iterator[Sample]:
    """Yield the readings of a machine and of its GPUs."""
    of_host = {"host": host}
    yield Sample("memory_bytes", "The memory of the machine.", _bytes(facts.memory_mib), of_host)
    for part, kind in _PARTS.items():
        yield from _readings(getattr(machine, part), kind, part, of_host)
    for gpu in gpus_of(machine, facts):
        known = facts_of_gpu(facts, gpu.index)
        of_gpu = {**of_host, "gpu": _id_of_gpu(facts, gpu.index)}
        model = {**of_gpu, "index": str(gpu.index), "model": known.name}
        yield Sample("gpu", "The GPUs of the machine.", 1.0, model, "info")
        is_lost = machine.gpus is None or gpu.state is GpuState.LOST
        yield Sample("gpu_lost", "1 if the GPU answered, and does not now.", is_lost, of_gpu)
        memory = _bytes(known.memory_mib)
        yield Sample("gpu_memory_bytes", "The memory of the GPU.", memory, of_gpu)
        yield from _readings(gpu, Gpu, "gpu", of_gpu)
        for reason in gpu.throttle or ():
            because = {**of_gpu, "reason": reason}
            yield Sample("gpu_throttled", "1 for each reason of lower clocks.", 1.0, because)


def _id_of_gpu(facts: MachineFacts, index: int) -> str:
    return facts_of_gpu(facts, index).uuid or str(index)


def _bytes(mib: int | None) -> float | None:
    return None if mib is None else mib * MIB


def _readings(
    values: object, kind: type[Any], prefix: str, labels: Mapping[str, str]
) -> Iterator[Sample]:
    """Yield the numbers of a part of a sample; none if it is None."""
    metrics = _metrics_of(kind, prefix)  # type: ignore[arg-type]
    for field, (name, meaning, units, counts) in metrics.items():
        value = getattr(values, field, None)
        if value is not None:
            yield Sample(name, meaning, value * units, labels, "counter" if counts else "gauge")


@cache
def _metrics_of(kind: Any, prefix: str) -> dict[str, tuple[str, str, float, bool]]:
    """Return the name, meaning and number of units of each number of a record, and if it counts."""
    attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    meanings = {field: f"{text[0].upper()}{' '.join(text.split())[1:]}" for field, text in entries}
    metrics = {}
    for field in (spec.name for spec in fields(kind) if spec.type in _NUMBERS):
        name = "_utilization_pct" if field == "pct" else f"_{field}"
        end = next(filter(name.endswith, _UNITS), "")
        unit, units = _UNITS.get(end, ("", 1.0))
        name = f"{prefix}{name.removesuffix(end)}{unit}"
        metrics[field] = name, meanings.get(field, ""), units, field in _COUNTERS
    return metrics
