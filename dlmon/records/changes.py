"""Leave out slow fields and reasons that did not change, and fill them in again on reading."""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeVar

from dlmon.records import (
    Cpu,
    Disk,
    Gpu,
    Machine,
    MachineFacts,
    Memory,
    Network,
    Pressure,
    Process,
    ProcessTree,
)
from dlmon.records.codec import filled
from dlmon.records.record import record

_T = TypeVar("_T")

_UNDIVIDED = frozenset((int, float, str, bool, dict, type(None)))
# Who a process is, which is named once.
_NAMED_ONCE = ("user", "command", "started", "why")
_WHO = attrgetter(*_NAMED_ONCE)

# What differs in nearly every sample. A GPU's memory is not among them: frameworks take it once
# and keep it, and eight unchanged numbers a second are a fifth of a record.
ALWAYS_WRITTEN: dict[type[Any], frozenset[str]] = {
    Machine: frozenset({"t", "wall", "cost"}),
    Cpu: frozenset({"pct", "cores", "energy_j"}),
    Memory: frozenset({"used_mib"}),
    Disk: frozenset({"read_mib_s", "write_mib_s"}),
    Network: frozenset({"receive_mib_s", "send_mib_s"}),
    Pressure: frozenset(),
    ProcessTree: frozenset({"cpu_pct", "rss_mib"}),
    Gpu: frozenset({"index", "utilization_pct", "power_w", "temperature_c", "sm_mhz"}),
}


@record(frozen=True)
class _Unknown:
    reason: str


class Changes:
    """Filters samples down to what changed since the last one, for a reader of every record."""

    def __init__(self) -> None:
        self._sent: dict[Any, Any] = {}

    def only_changed(self, machine: Machine) -> Machine:
        """Return `machine` without the slow fields and reasons that were sent before."""
        changed: Machine = _changed(machine, self._sent)
        return changed


def _changed(record: Any, sent: dict[Any, Any]) -> Any:
    """Return `record` without what `sent` holds already, and add the rest to `sent`."""
    always = ALWAYS_WRITTEN[type(record)]
    changed: dict[str, Any] = {}
    why: dict[str, str] = {}
    for spec in fields(record):
        name = spec.name
        value = getattr(record, name)
        if name == "why" or (name in always and value is not None):
            sent.pop(name, None)
        elif value is None:
            unknown = _Unknown(record.why[name]) if name in record.why else None
            if unknown is not None and sent.get(name) != unknown:
                sent[name] = unknown
                why[name] = unknown.reason
        elif type(value) in ALWAYS_WRITTEN:
            part = _changed(value, _inner(sent, name))
            changed[name] = part if part != type(value)() else None
        elif name == "gpus":
            known = _inner(sent, name)
            changed[name] = tuple(_changed(gpu, _inner(known, gpu.index)) for gpu in value)
        elif sent.get(name) == value:
            changed[name] = None
        else:
            if name == "processes" and isinstance(value, tuple):  # a tree has their number
                changed[name] = _unnamed(value, sent.get(name))
            sent[name] = value
    return replace(record, **changed, why=why)


def _unnamed(rows: tuple[Process, ...], before: Any) -> tuple[Process, ...]:
    """Return the rows, without who a process is where the table before named its pid the same.

    Names of users and commands would be most of a log.
    """
    known = {row.pid: row for row in before} if isinstance(before, tuple) else {}
    return tuple(
        replace(row, user=None, command=None, started=None, why={})
        if row.pid in known and _WHO(row) == _WHO(known[row.pid])
        else row
        for row in rows
    )


def _inner(sent: dict[Any, Any], key: Any) -> dict[Any, Any]:
    if not isinstance(sent.get(key), dict):
        sent[key] = {}
    inner: dict[Any, Any] = sent[key]
    return inner


def _name_again(before: tuple[Process, ...], rows: tuple[Process, ...]) -> tuple[Process, ...]:
    """Fill in who a process is where a row leaves out what was sent of that pid before."""
    known = {row.pid: row for row in before}
    return tuple(
        filled(Process, {**vars(row), **{name: getattr(old, name) for name in _NAMED_ONCE}})
        if row.is_unnamed and (old := known.get(row.pid)) is not None
        else row
        for row in rows
    )


def newest_facts(before: MachineFacts, facts: MachineFacts) -> MachineFacts:
    """Return `facts`, with those of `before` for a GPU that could not be asked."""
    if facts.gpus is None:
        return replace(facts, gpus=before.gpus)
    known = {gpu.index: gpu for gpu in before.gpus or ()}
    gpus = tuple(known.get(gpu.index, gpu) if gpu.uuid is None else gpu for gpu in facts.gpus)
    return replace(facts, gpus=gpus)


def merge(before: _T | None, after: _T) -> _T:
    """Fill what `after` leaves out from `before`, if any; a None with a reason is a change.

    Both have a `why`, and so have the records in them; GPUs are matched by their index.
    """
    if before is None:
        return after
    old, new, reasons = vars(before), vars(after), vars(after)["why"]
    said = {name: value for name, value in new.items() if value is not None or name in reasons}
    merged = {**old, **said}
    if old["why"]:
        still_why = {n: why for n, why in old["why"].items() if n in new and n not in said}
        merged["why"] = {**reasons, **still_why}
    for name, value in said.items():
        known = old[name]
        if type(value) in _UNDIVIDED or known is None:
            continue
        if hasattr(value, "why"):
            merged[name] = merge(known, value)
        elif name == "processes" and isinstance(value, tuple):  # a tree has their number
            merged[name] = _name_again(known, value)
        elif name == "gpus" and value and isinstance(value[0], Gpu):
            by_index = {gpu.index: gpu for gpu in known}
            merged[name] = tuple(merge(by_index.get(gpu.index, gpu), gpu) for gpu in value)
    return filled(type(after), merged)
