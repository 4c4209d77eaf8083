"""What a run that failed shows: its traceback or its last output, and the last readings."""

from __future__ import annotations

from collections.abc import Iterator

from dlmon.figures import units
from dlmon.figures.session.framework_memory import (
    explain_out_of_memory,
    held_before,
    memory_holders,
    memory_text,
)
from dlmon.figures.session.progress import failure_text
from dlmon.figures.session.tracebacks import TraceRow, before_traceback, traceback_rows
from dlmon.records import FailureKind, Output
from dlmon.records.words import memory_amount
from dlmon.session.learning import LOSS, Learning
from dlmon.session.snapshot import Snapshot

_OF_PYTHON = (FailureKind.EXCEPTION, FailureKind.OUT_OF_MEMORY)
_MOST_OUTPUT = 16
_BAR_CELLS = 24
TRACEBACK, ERROR, LAST_OUTPUT, AT_END = "Traceback", "Error", "Last output", "At the end"
# The headline shows a message of this length in full, even in 80 columns.
_LONGEST_IN_HEADLINE = 160


def failure_rows(snapshot: Snapshot, learning: Learning) -> tuple[str, tuple[TraceRow, ...]]:
    """Return a heading, and the rows that tell of a failure; no rows without a failure."""
    result, said = snapshot.result, failure_text(snapshot)
    if result is None or said is None:
        return "", ()
    heading, rows = TRACEBACK, tuple[TraceRow, ...]()
    if result.failure in _OF_PYTHON:
        rows = traceback_rows(snapshot.output, snapshot.header.directory)
    if rows and not any(row.kind in ("frame", "library") for row in rows):
        heading = ERROR
    if not rows:
        heading, lines = LAST_OUTPUT, [line.text for line in snapshot.output if line.text.strip()]
        rows = tuple(TraceRow("message", text) for text in lines[-_MOST_OUTPUT:])
    rows = (*rows, *_holder_rows(snapshot))
    readings = ", ".join(_last_readings(snapshot, learning))
    is_said = len(said) <= _LONGEST_IN_HEADLINE and not explain_out_of_memory(snapshot)
    if is_said and all(row.text.strip() in said for row in rows):
        return "", ()
    if rows and readings:
        rows = (*rows, TraceRow("joint", f"{AT_END}: {readings}"))
    return heading, rows


def printed_besides(snapshot: Snapshot) -> tuple[Output, ...]:
    """Return the output that `failure_rows` doesn't show."""
    result = snapshot.result
    if result is None or failure_text(snapshot) is None:
        return snapshot.output
    besides = before_traceback(snapshot.output) if result.failure in _OF_PYTHON else ()
    # Without a traceback, the last output is shown.
    return besides if len(besides) < len(snapshot.output) else ()


def _holder_rows(snapshot: Snapshot) -> Iterator[TraceRow]:
    """Yield a row with a bar for each holder of the GPU's memory as that ran out."""
    holders = memory_holders(snapshot)
    total_mib = sum(mib for _, mib in holders)
    width = max((len(name) for name, _ in holders), default=0)
    if holders:
        yield TraceRow("joint", "Who held the memory of the GPU:")
    for name, mib in holders:
        share = mib / total_mib
        held = f"{memory_amount(mib):>8}  {units.share(share):>5}"
        yield TraceRow("message", f"{name:<{width}}  {held}  {'█' * round(share * _BAR_CELLS)}")


def _last_readings(snapshot: Snapshot, learning: Learning) -> Iterator[str]:
    """Yield the loss, and the memory if that may be the cause."""
    result, sample, loss = snapshot.result, snapshot.machine, learning.metrics.get(LOSS)
    if loss is not None and loss.is_known:
        before = loss.series.newest
        value = loss.why or ("" if loss.newest is None else units.metric(loss.newest))
        yield f"loss {value}{f', {units.metric(before)} before' if loss.why and before else ''}"
    if result is None or result.failure not in (FailureKind.OUT_OF_MEMORY, FailureKind.KILLED):
        return
    if text := memory_text(snapshot):
        yield f"GPU memory {text}"
    # Without an explanation, the headline says what the GPU held.
    if explain_out_of_memory(snapshot) and (held := held_before(snapshot)):
        yield held
    if sample is not None and sample.memory is not None:
        total_mib = snapshot.header.machine.usable_memory_mib
        yield f"host memory {units.memory_in_use(sample.memory.used_mib, total_mib)}"
    if sample is not None and sample.process is not None:
        yield f"of it this run {units.gibibytes(sample.process.rss_mib)}"
