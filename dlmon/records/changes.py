"""Leave out unchanged fields and reasons of machine records, and fill them in again on reading."""

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
from dlmon.records.record import filled, record

_T = TypeVar("_T")

# Types of values that `merge` replaces whole.
_NOT_MERGED = frozenset((int, float, str, bool, dict, type(None)))
# The fields that identify a process, written once.
_IDENTITY_FIELDS = ("user", "command", "started", "parent", "why")
_IDENTITY = attrgetter(*_IDENTITY_FIELDS)

# Fields that change in nearly every sample. Not a GPU's memory: frameworks allocate it once, and
# eight unchanged numbers would be a fifth of a record.
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
    """Removes unchanged fields from samples, for a reader that reads every record."""

    def __init__(self) -> None:
        self._sent: dict[Any, Any] = {}

    def only_changed(self, machine: Machine) -> Machine:
        """Return `machine` without the fields and reasons that were sent before."""
        changed: Machine = _changed(machine, self._sent)
        return changed


def _changed(record: Any, sent: dict[Any, Any]) -> Any:
    """Return `record` without the values in `sent`, and add the new ones to `sent`."""
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
            sent_gpus = _inner(sent, name)
            changed[name] = tuple(_changed(gpu, _inner(sent_gpus, gpu.index)) for gpu in value)
        elif sent.get(name) == value:
            changed[name] = None
        else:
            if name == "processes" and isinstance(value, tuple):  # in `ProcessTree`, a number
                changed[name] = _without_identity(value, sent.get(name))
            sent[name] = value
    return replace(record, **changed, why=why)


def _without_identity(rows: tuple[Process, ...], before: Any) -> tuple[Process, ...]:
    """Return the rows, without the identity of processes that the previous table has too.

    Users and commands would make up most of a log.
    """
    by_pid = {row.pid: row for row in before} if isinstance(before, tuple) else {}
    return tuple(
        replace(row, user=None, command=None, started=None, parent=None, why={})
        if row.pid in by_pid and _IDENTITY(row) == _IDENTITY(by_pid[row.pid])
        else row
        for row in rows
    )


def _inner(sent: dict[Any, Any], key: Any) -> dict[Any, Any]:
    if not isinstance(sent.get(key), dict):
        sent[key] = {}
    inner: dict[Any, Any] = sent[key]
    return inner


def _with_identity(before: tuple[Process, ...], rows: tuple[Process, ...]) -> tuple[Process, ...]:
    """Fill in the identities that the rows leave out, from the previous table."""
    by_pid = {row.pid: row for row in before}
    return tuple(
        filled(Process, {**vars(row), **{name: getattr(old, name) for name in _IDENTITY_FIELDS}})
        if row.is_unnamed and (old := by_pid.get(row.pid)) is not None
        else row
        for row in rows
    )


def newest_facts(before: MachineFacts, facts: MachineFacts) -> MachineFacts:
    """Return `facts`, with the facts in `before` for each GPU that did not answer.

    Sensors that avoid a hung driver leave its GPUs out, but they are still there.
    """
    if facts.gpus is None:
        return replace(facts, gpus=before.gpus)
    known = {gpu.uuid for gpu in facts.gpus if gpu.uuid}
    by_index = {gpu.index: gpu for gpu in before.gpus or () if gpu.uuid not in known}
    by_index |= {gpu.index: gpu for gpu in facts.gpus if gpu.uuid or gpu.index not in by_index}
    return replace(facts, gpus=tuple(by_index[index] for index in sorted(by_index)))


def merge(before: _T | None, after: _T) -> _T:
    """Return `after`, with the fields that it leaves out from `before`.

    A None with a reason is a change. Both have a `why`, as have the records in them; GPUs are
    matched by index.
    """
    if before is None:
        return after
    old, new, reasons = vars(before), vars(after), vars(after)["why"]
    sent = {name: value for name, value in new.items() if value is not None or name in reasons}
    merged = {**old, **sent}
    if old["why"]:
        old_reasons = {n: why for n, why in old["why"].items() if n in new and n not in sent}
        merged["why"] = {**reasons, **old_reasons}
    for name, value in sent.items():
        old_value = old[name]
        if type(value) in _NOT_MERGED or old_value is None:
            continue
        if hasattr(value, "why"):
            merged[name] = merge(old_value, value)
        elif name == "processes" and isinstance(value, tuple):  # in `ProcessTree`, a number
            merged[name] = _with_identity(old_value, value)
        elif name == "gpus" and value and isinstance(value[0], Gpu):
            by_index = {gpu.index: gpu for gpu in old_value}
            merged[name] = tuple(merge(by_index.get(gpu.index, gpu), gpu) for gpu in value)
    return filled(type(after), merged)
