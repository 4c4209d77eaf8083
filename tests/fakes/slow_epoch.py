"""A recorded session in which one epoch took longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from dlmon.records import Batches, Epoch, Machine, Record, SessionHeader

SECOND_NS = 10**9
_TIMES = ("t", "begin", "train_end", "end", "first_end", "last_end")


def with_slow_epoch(
    records: Sequence[Record], number: int, stall_s: float = 3.0, hot: bool = True
) -> list[Record]:
    """Return records in which a batch in the middle of an epoch stalled.

    Args:
        records: of a session in which this epoch ended.
        number: which one, from 0.
        stall_s: how long its batch took beyond a usual one.
        hot: whether the GPU was slowed by heat in that epoch.
    """
    (epoch,) = (one for one in records if isinstance(one, Epoch) and one.epoch == number)
    middle, stall_ns = (epoch.begin + epoch.train_end) // 2, int(stall_s * SECOND_NS)
    changed, stalled = list[Record](), False
    throttle: dict[int, tuple[str, ...] | None] = {}
    for record in records:
        if isinstance(record, SessionHeader):
            moved: Any = record
        elif isinstance(record, Batches) and record.t >= middle and not stalled:
            stalled = True
            dt_us = (record.dt_us[0] + stall_ns // 1000, *record.dt_us[1:])
            moved = replace(record, t=record.t + stall_ns, dt_us=dt_us)
        else:
            moved = _moved(record, middle, stall_ns)
        if hot and isinstance(record, Machine):
            # What a reading leaves out is as before, so what changed is sent again.
            throttle |= {g.index: g.throttle for g in record.gpus or () if g.throttle is not None}
            is_hot = epoch.begin <= record.t <= epoch.end
            gpus = tuple(
                replace(gpu, sm_mhz=1_200, throttle=("thermal slowdown",))
                if is_hot
                else replace(gpu, throttle=throttle[gpu.index])
                for gpu in record.gpus or ()
            )
            moved = replace(moved, gpus=gpus or None)
        changed.append(moved)
    return changed


def _moved(record: Any, since_ns: int, by_ns: int) -> Any:
    """Return a record of which all that lies behind a moment comes later."""
    names = {spec.name for spec in fields(record)}
    changes: dict[str, Any] = {
        name: getattr(record, name) + by_ns
        for name in _TIMES
        if name in names and (getattr(record, name) or 0) >= since_ns
    }
    if isinstance(record, Epoch) and record.validation is not None:
        changes["validation"] = _moved(record.validation, since_ns, by_ns)
    return replace(record, **changes)
