"""Put a session among the published numbers of its workload and this machine's earlier runs."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.comparison import Conditions, Row, Run, busy_at_start, compare
from dlmon.records import RunSeconds, SecondsPerEpoch, SessionHeader
from dlmon.session import Snapshot
from dlmon.sessions import SessionEntry
from workloads.catalog import WORKLOADS, Workload


def default_conditions(workload: Workload) -> Conditions:
    """Return what a workload's published numbers were taken with."""
    return Conditions(
        workload=workload.name,
        batch_size=workload.batch_size,
        samples=workload.samples,
        epochs=workload.epochs,
        precision=workload.precision,
        mode=workload.mode,
    )


def earlier_sessions(entries: Sequence[SessionEntry], header: SessionHeader) -> list[SessionEntry]:
    """Return the earlier sessions of the same workload on the same machine."""
    return [
        entry
        for entry in entries
        if entry.result is not None
        and entry.header.workload == header.workload
        and entry.header.host == header.host
        and entry.header.wall < header.wall
    ]


def timing_of(snapshot: Snapshot) -> SecondsPerEpoch | RunSeconds | None:
    """Return the time that the workload's published numbers are about."""
    workload = WORKLOADS.get(snapshot.header.workload)
    if workload is not None and workload.metric == "run_seconds":
        return snapshot.run_seconds
    return snapshot.seconds_per_epoch


def comparison_rows(snapshot: Snapshot, earlier: Sequence[SessionEntry]) -> tuple[Row, ...]:
    """Return the rows of the comparison, fastest first; none for a workload not of ours."""
    header, model = snapshot.header, snapshot.model
    workload = WORKLOADS.get(header.workload)
    if workload is None:
        return ()
    defaults = default_conditions(workload)
    steps_cap = header.options.get("steps")
    conditions = Conditions(
        workload=workload.name,
        batch_size=model.batch_size if model else _whole(header.options.get("batch_size")),
        samples=model.samples_per_epoch if model else workload.samples,
        epochs=model.epochs if model else _whole(header.options.get("epochs")),
        precision=workload.precision,
        mode=workload.mode,
        data=model.data if model else None,
        steps_cap=steps_cap if isinstance(steps_cap, int) else None,
    )
    timing = timing_of(snapshot)
    this = None
    if timing is not None:
        device = model.device if model else None
        this = Run(
            label="this run",
            timing=timing,
            session=header.id,
            framework=model.backend if model else None,
            busy=busy_at_start(header.machine, device),
        )
    return compare(
        workload.metric,
        conditions,
        defaults,
        this,
        [entry.result for entry in earlier if entry.result is not None],
        {entry.header.id: entry.header for entry in earlier},
    )


def device_text(snapshot: Snapshot) -> str:
    """Name the device that the session trains on: the CPU's model, or the GPU's name."""
    model, machine = snapshot.model, snapshot.header.machine
    if model is None or model.device is None:
        return str(snapshot.header.options.get("device") or "")
    if model.device == "cpu":
        return f"CPU {machine.cpu_model or ''}".strip()
    number = "" if model.gpu_index is None else f" {model.gpu_index}"
    return f"GPU{number} {model.device_name or ''}".strip()


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
