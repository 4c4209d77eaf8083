"""Tell a slow field, and a reason, only when it changed; fill in again what was left out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from dlmon.records import (
    Cpu,
    Disk,
    Gpu,
    GpuFacts,
    Machine,
    MachineFacts,
    Memory,
    Network,
    Pressure,
    Process,
    ProcessTree,
    filled,
)

_T = TypeVar("_T")

# A GPU's memory is not among them: frameworks take it once and keep it, and
# eight unchanged numbers a second are a fifth of a record.
ALWAYS_TOLD: dict[type[Any], frozenset[str]] = {
    Machine: frozenset({"t", "wall", "cost"}),
    Cpu: frozenset({"pct", "cores", "energy_j"}),
    Memory: frozenset({"used_mib"}),
    Disk: frozenset({"read_mib_s", "write_mib_s"}),
    Network: frozenset({"receive_mib_s", "send_mib_s"}),
    Pressure: frozenset(),
    ProcessTree: frozenset({"cpu_pct", "rss_mib"}),
    Gpu: frozenset({"index", "utilization_pct", "power_w", "temperature_c", "sm_mhz"}),
}


@dataclass(frozen=True)
class _Unknown:
    reason: str


class Changes:
    """What was told so far; a reader that has read every record knows the rest."""

    def __init__(self) -> None:
        self._told: dict[Any, Any] = {}

    def only_news(self, machine: Machine) -> Machine:
        """Return `machine` without the slow fields and reasons that were told before."""
        news: Machine = _news(machine, self._told)
        return news


def _news(record: Any, told: dict[Any, Any]) -> Any:
    """Return `record` with what `told` holds already left out, and note the rest there."""
    always = ALWAYS_TOLD[type(record)]
    changed: dict[str, Any] = {}
    why: dict[str, str] = {}
    for spec in fields(record):
        name = spec.name
        value = getattr(record, name)
        if name == "why" or (name in always and value is not None):
            told.pop(name, None)
        elif value is None:
            unknown = _Unknown(record.why[name]) if name in record.why else None
            if unknown is not None and told.get(name) != unknown:
                told[name] = unknown
                why[name] = unknown.reason
        elif type(value) in ALWAYS_TOLD:
            news = _news(value, _inner(told, name))
            changed[name] = news if news != type(value)() else None
        elif name == "gpus":
            known = _inner(told, name)
            changed[name] = tuple(_news(gpu, _inner(known, gpu.index)) for gpu in value)
        elif told.get(name) == value:
            changed[name] = None
        else:
            if name == "processes" and isinstance(value, tuple):  # a tree tells their number
                changed[name] = _unnamed(value, told.get(name))
            told[name] = value
    return replace(record, **changed, why=why)


def _unnamed(rows: tuple[Process, ...], before: Any) -> tuple[Process, ...]:
    """Return the rows, without who a process is where the table before told the same of its pid.

    Names of users and commands would be most of a log.
    """
    known = {row.pid: row for row in before} if isinstance(before, tuple) else {}
    return tuple(
        replace(row, user=None, command=None, why={})
        if row.pid in known and _who(row) == _who(known[row.pid])
        else row
        for row in rows
    )


def _who(row: Process) -> tuple[str | None, str | None, dict[str, str]]:
    return row.user, row.command, row.why


def _inner(told: dict[Any, Any], key: Any) -> dict[Any, Any]:
    if not isinstance(told.get(key), dict):
        told[key] = {}
    inner: dict[Any, Any] = told[key]
    return inner


def merge_machine(before: Machine | None, sample: Machine) -> Machine:
    """Return a sample with what it leaves out as it was before."""
    if before is None:
        return sample
    merged = _merge(before, sample)
    if sample.processes is not None:
        rows = _name_again(before.processes or (), sample.processes)
        merged = replace(merged, processes=rows)
    if sample.gpus is None:
        return merged
    known = {gpu.index: gpu for gpu in before.gpus or ()}
    gpus: list[Gpu] = [
        _merge(known[gpu.index], gpu) if gpu.index in known else gpu for gpu in sample.gpus
    ]
    return replace(merged, gpus=tuple(gpus))


def _name_again(before: tuple[Process, ...], rows: tuple[Process, ...]) -> tuple[Process, ...]:
    """Fill in who a process is where a row leaves out what was told of that pid before."""
    known = {row.pid: row for row in before}
    return tuple(
        filled(Process, {**vars(row), "user": old.user, "command": old.command, "why": old.why})
        if row.is_unnamed and (old := known.get(row.pid)) is not None
        else row
        for row in rows
    )


def newest_facts(before: MachineFacts, told: MachineFacts) -> MachineFacts:
    """Return what was told, but of a GPU that could not be asked what was known of it before."""
    if told.gpus is None:
        return replace(told, gpus=before.gpus)
    known = {gpu.index: gpu for gpu in before.gpus or ()}
    gpus: list[GpuFacts] = [
        known.get(gpu.index, gpu) if gpu.uuid is None else gpu for gpu in told.gpus
    ]
    return replace(told, gpus=tuple(gpus))


def _merge(before: _T, after: _T) -> _T:
    """Fill what `after` leaves out from `before`; a None with a reason is a change."""
    old, merged = vars(before), dict(vars(after))
    reasons: dict[str, str] = merged.get("why", {})
    old_reasons: dict[str, str] = old.get("why", {})
    kept_reasons = dict(reasons)
    for name, value in vars(after).items():
        known = old[name]
        if value is None:
            if name in reasons:
                continue
            merged[name] = known
            if name in old_reasons:
                kept_reasons[name] = old_reasons[name]
        elif known is not None and hasattr(value, "why"):
            merged[name] = _merge(known, value)
    if "why" in merged:
        merged["why"] = kept_reasons
    return filled(type(after), merged)
