"""The columns of the list of sessions on a screen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlmon.comparison.compared_run import pace_of
from dlmon.figures import units
from dlmon.figures.columns import Column, lowered
from dlmon.figures.lists.session_list import Recorded, device_of, result_text, what_of
from dlmon.figures.quantity_text import number_of
from dlmon.figures.session.compared_figure import timing_of_result
from dlmon.log.directory import SessionEntry
from dlmon.quantities import QUANTITIES, Quantity, value_of
from dlmon.records.words import STEPS_PER_S
from dlmon.sweep.log import SweepEntry

_NUMBER_CELLS = 14
CHANGE, CURVE, CURVE_CELLS = "change", "loss curve", 6


def _of_sessions(
    name: str,
    text: Callable[[SessionEntry], str],
    order: Callable[[SessionEntry], Any],
    **more: Any,
) -> Column[Recorded]:
    """Return a column that is empty for sweeps."""
    return Column(
        name,
        lambda entry: "" if isinstance(entry, SweepEntry) else text(entry),
        lambda entry: None if isinstance(entry, SweepEntry) else order(entry),
        **more,
    )


def _numbers(
    name: str,
    value: Callable[[SessionEntry], float | None],
    write: Callable[[SessionEntry, Any], str] = lambda entry, number: f"{number:,d}",
    **more: Any,
) -> Column[Recorded]:
    def text(entry: SessionEntry) -> str:
        number = value(entry)
        return "" if number is None else write(entry, number)

    return _of_sessions(name, text, value, is_number=True, cells=_NUMBER_CELLS, **more)


def _quantity(quantity: Quantity) -> Column[Recorded]:
    """Return the column of a quantity; a throughput has no name of its own."""

    def write(entry: SessionEntry, number: float) -> str:
        if quantity.name:
            return number_of(quantity, number)
        in_steps = entry.result is not None and entry.result.throughput_unit == STEPS_PER_S
        return units.rate(number) + " steps" * in_steps

    return _numbers(
        quantity.name or "throughput",
        lambda entry: value_of(entry.result, quantity.key),
        write,
        title=quantity.title,
        largest_first=not quantity.less_is_better,
        dropped=7,
    )


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _epochs_of(entry: SessionEntry) -> int | None:
    """Return the epochs that a session trained; before it is over, those wanted."""
    result = entry.result
    return _whole(entry.header.options.get("epochs")) if result is None else result.epochs


def _device_text(entry: SessionEntry) -> str:
    device, name = device_of(entry)
    return units.device(name) or device


def _device_order(entry: SessionEntry) -> str | None:
    device, name = device_of(entry)
    return lowered(name or device)


def _loss_of(entry: SessionEntry) -> float | None:
    return entry.loss if entry.loss is not None and math.isfinite(entry.loss) else None


def _loss_text(entry: SessionEntry) -> str:
    loss = _loss_of(entry)
    return entry.why_no_loss if loss is None else units.metric(loss)


def _time_order(entry: SessionEntry) -> float | None:
    # An error stands in place of a time.
    if entry.result is None or entry.result.error:
        return None
    timing = timing_of_result(entry.result, entry.header.workload)
    return None if timing is None else pace_of(timing)


COLUMNS: tuple[Column[Recorded], ...] = (
    Column(
        "started",
        lambda entry: units.day_and_time(entry.header.wall),
        lambda entry: entry.header.wall,
        largest_first=True,
        cells=16,
        title="when",
    ),
    Column("what", what_of, lambda entry: lowered(what_of(entry)), cells=60),
    _numbers(
        "batch",
        lambda entry: _whole(entry.header.options.get("batch_size")),
        largest_first=True,
        dropped=5,
    ),
    _numbers("epochs", _epochs_of, largest_first=True, dropped=4),
    _of_sessions("device", _device_text, _device_order, dropped=8, cells=28),
    Column(
        "host",
        lambda entry: entry.header.host,
        lambda entry: lowered(entry.header.host),
        dropped=1,
        cells=20,
    ),
    *(_quantity(quantity) for quantity in QUANTITIES if quantity.is_listed),
    # The list has these once it has read them.
    Column(
        CHANGE,
        lambda entry: "",
        title="vs before",
        largest_first=True,
        dropped=3,
        cells=_NUMBER_CELLS,
    ),
    _of_sessions("loss", _loss_text, _loss_of, is_number=True, dropped=6, cells=_NUMBER_CELLS),
    _of_sessions(CURVE, lambda entry: "", _loss_of, title="curve", dropped=2, cells=CURVE_CELLS),
    _of_sessions("time", result_text, _time_order, title="result"),
)
"""The last column takes the remaining width, and is always shown."""
COLUMNS_BY_NAME = {column.name: column for column in COLUMNS}
