"""The lines of a sweep's file: its plan, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlmon.log.folder import LogError
from dlmon.records import LARGEST, RecordError, Result, decode, to_json
from dlmon.records.sanitize import clean
from dlmon.statistics.repeats import METRICS
from dlmon.sweep.plan import Plan, Slot, SweepError, Value, Variation
from dlmon.sweep.progress import STATUSES, Began, Closed, Ended, Event, Outcome, Resumed, Sweep

SCHEMA = 1


@dataclass(frozen=True)
class SweepHeader:
    """The first line of a sweep's file: what is to be run, and where it was begun."""

    id: str
    host: str
    boot_id: str
    wall: float
    seed: int
    plan: Plan


def _header_line(header: SweepHeader) -> bytes:
    plan = header.plan
    return _encoded(
        {
            "type": "sweep",
            "schema": SCHEMA,
            "id": header.id,
            "host": header.host,
            "boot_id": header.boot_id,
            "wall": header.wall,
            "workloads": [{"name": name, "metric": plan.metrics[name]} for name in plan.workloads],
            "options": dict(plan.options),
            "vary": [{"key": v.key, "values": list(v.values)} for v in plan.variations],
            "repeat": plan.repeats,
            "seed": header.seed,
            "order": [[slot.combination, slot.repeat] for slot in plan.order],
        }
    )


def _line(event: Event) -> bytes:
    match event:
        case Began(slot=slot, session=session, wall=wall):
            told = {"type": "began", **_told_slot(slot), "wall": wall, "session": session}
        case Ended(slot=slot, outcome=outcome, wall=wall):
            told = {
                "type": "ended",
                **_told_slot(slot),
                "wall": wall,
                "status": outcome.status,
                "reason": outcome.reason,
                "session": outcome.session,
                "took_s": outcome.took_s,
                "result": None if outcome.result is None else to_json(outcome.result),
            }
        case Resumed(wall=wall):
            told = {"type": "resumed", "wall": wall}
        case Closed(status=status, wall=wall):
            told = {"type": "closed", "status": status, "wall": wall}
    return _encoded(told)


def _told_slot(slot: Slot) -> dict[str, Any]:
    return {"combination": slot.combination, "repeat": slot.repeat}


def _encoded(told: dict[str, Any]) -> bytes:
    text = json.dumps(told, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _parsed(content: bytes, path: Path) -> tuple[SweepHeader, Sweep]:
    """Read a header and fold what follows; a line that tells nothing is passed over."""
    lines = content.split(b"\n")
    header = _read_header(_loaded(lines[0]), path)
    sweep = Sweep(header.plan)
    for line in lines[1:]:
        event = _read_event(_loaded(line))
        if event is not None:
            sweep.fold(event)
    return header, sweep


def _loaded(line: bytes) -> Any:
    """Return what a line holds, cleaned; None where it is no JSON."""
    try:
        return _cleaned(json.loads(line, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key, 200): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if type(value) in (int, float) and not -LARGEST <= value <= LARGEST:
        raise ValueError("a number that is too large")
    return value


def _read_header(told: Any, path: Path) -> SweepHeader:
    no_sweep = LogError(f"{path} is no sweep that dlmon recorded")
    if not isinstance(told, dict) or told.get("type") != "sweep":
        raise no_sweep
    if told.get("schema") != SCHEMA:
        raise LogError(
            f"{path} has schema {told.get('schema')} and this dlmon reads schema {SCHEMA}: "
            "use the version of dlmon that wrote it"
        )
    match told:
        case {
            "id": str(name),
            "host": str(host),
            "boot_id": str(boot),
            "wall": float() | int() as wall,
            "workloads": [*workloads],
            "options": dict(options),
            "vary": [*vary],
            "repeat": int(repeats),
            "seed": int(seed),
            "order": [*order],
        }:
            try:
                metrics = dict(_read_workload(workload) for workload in workloads)
                plan = Plan(
                    workloads=tuple(metrics),
                    variations=tuple(_read_variation(variation) for variation in vary),
                    options={key: _option(value) for key, value in options.items()},
                    metrics=metrics,
                    repeats=repeats,
                    order=tuple(_read_slot(slot) for slot in order),
                )
                plan.check()
            except SweepError:
                raise no_sweep from None
            return SweepHeader(name, host, boot, wall, seed, plan)
    raise no_sweep


def _read_workload(told: Any) -> tuple[str, str]:
    match told:
        case {"name": str(name), "metric": str(metric)} if metric in METRICS:
            return name, metric
    raise SweepError("not a workload")


def _read_variation(told: Any) -> Variation:
    match told:
        case {"key": str(key), "values": [_, *_] as values}:
            return Variation(key, tuple(_value(value) for value in values))
    raise SweepError("not what is varied")


def _read_slot(told: Any) -> Slot:
    match told:
        case [int(combination), int(repeat)]:
            return Slot(combination, repeat)
    raise SweepError("not a run")


def _option(told: Any) -> Value | None:
    return None if told is None else _value(told)


def _value(told: Any) -> Value:
    if isinstance(told, bool) or not isinstance(told, (str, int, float)):
        raise SweepError("not a value of an option")
    return told


def _read_event(told: Any) -> Event | None:
    match told:
        case {
            "type": "began",
            "combination": int(combination),
            "repeat": int(repeat),
            "wall": float() | int() as wall,
            "session": str(session),
        }:
            return Began(Slot(combination, repeat), session, wall)
        case {
            "type": "ended",
            "combination": int(combination),
            "repeat": int(repeat),
            "wall": float() | int() as wall,
            "status": str(status),
        } if status in STATUSES:
            outcome = Outcome(
                status,
                _text(told.get("reason")),
                _text(told.get("session")),
                _read_result(told.get("result")),
                _seconds(told.get("took_s")),
            )
            return Ended(Slot(combination, repeat), outcome, wall)
        case {"type": "resumed", "wall": float() | int() as wall}:
            return Resumed(wall)
        case {"type": "closed", "status": str(status), "wall": float() | int() as wall}:
            return Closed(status, wall)
    return None


def _text(told: Any) -> str | None:
    return told if isinstance(told, str) else None


def _seconds(told: Any) -> float | None:
    return told if isinstance(told, (int, float)) and not isinstance(told, bool) else None


def _read_result(told: Any) -> Result | None:
    """Return a result as a session's log would give it; None for what is none."""
    if not isinstance(told, dict):
        return None
    try:
        record = decode(json.dumps({"type": Result.TYPE, **told}))
    except RecordError:
        return None
    return record if isinstance(record, Result) else None
