"""By what recorded sessions are sorted and found, and which of them are compared. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dlmon.comparison.run import pace_of
from dlmon.figures import units
from dlmon.figures.comparison import timing_of_result
from dlmon.figures.sessions import (
    Recorded,
    RunOfSweep,
    device_of,
    grouped,
    sweep_outcome,
    workload_of,
)
from dlmon.log.directory import SessionEntry
from dlmon.sweep.log import SweepEntry
from tui.widgets import sorted_table
from tui.widgets.sorted_table import Column

STARTED = "started"
"""The column in whose order the runs of a sweep stand below it."""

TIME = "time"
"""The column that takes what room is left, and is always shown."""


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None


def _device(entry: Recorded) -> str | None:
    if isinstance(entry, SweepEntry):
        return None
    device, name = device_of(entry)
    return _lower(name or device)


def batch_size_of(entry: Recorded) -> int | None:
    """Return the batch size that a session was launched with, where that is known."""
    return None if isinstance(entry, SweepEntry) else _whole(entry.header.options, "batch_size")


def epochs_of(entry: Recorded) -> int | None:
    """Return how many epochs a session has ended; before it is over, how many were asked for."""
    if isinstance(entry, SweepEntry):
        return None
    asked = _whole(entry.header.options, "epochs")
    return asked if entry.result is None else entry.result.epochs


def _whole(options: Mapping[str, object], name: str) -> int | None:
    value = options.get(name)
    return value if type(value) is int else None


def rate_of(entry: Recorded) -> float | None:
    """Return the samples per second of a session; the steps, where its samples aren't known."""
    if isinstance(entry, SweepEntry) or entry.result is None:
        return None
    measured = entry.result.samples_per_second
    return None if measured is None else measured.mean


def loss_of(entry: Recorded) -> float | None:
    """Return the loss that a session reported last."""
    return None if isinstance(entry, SweepEntry) else entry.loss


def _finite_loss(entry: Recorded) -> float | None:
    loss = loss_of(entry)
    return loss if loss is not None and math.isfinite(loss) else None


def _time(entry: Recorded) -> float | None:
    # Where it failed, its error stands in place of a time.
    if isinstance(entry, SweepEntry) or entry.result is None or entry.result.error:
        return None
    timing = timing_of_result(entry.result, entry.header.workload)
    return None if timing is None else pace_of(timing)


COLUMNS = {
    column.name: column
    for column in (
        Column(STARTED, lambda entry: entry.header.wall, largest_first=True),
        Column("name", lambda entry: _lower(entry.label.name)),
        Column("workload", lambda entry: _lower(workload_of(entry))),
        Column("batch", batch_size_of, largest_first=True, is_text=False),
        Column("epochs", epochs_of, largest_first=True, is_text=False),
        Column("device", _device),
        Column("status", lambda entry: entry.status),
        Column("host", lambda entry: _lower(entry.header.host)),
        Column("throughput", rate_of, largest_first=True, is_text=False, title="samples/s"),
        Column("loss", _finite_loss, is_text=False),
        Column(TIME, _time),
    )
}


def in_order(
    entries: Sequence[Recorded],
    runs: Mapping[str, RunOfSweep],
    by: str = STARTED,
    reverse: bool = False,
) -> list[Recorded]:
    """Return recordings sorted by a column, those without a value last; the newest of equals first.

    By the time they started, the runs of a sweep stand right below it; `runs` says by their ids
    which of the sessions a sweep made.
    """
    if by == STARTED:
        return grouped(entries, runs, oldest_first=reverse)
    newest_first = sorted(entries, key=lambda entry: entry.header.wall, reverse=True)
    return sorted_table.in_order(newest_first, COLUMNS[by], reverse)


def matching(
    entries: Sequence[Recorded], typed: str, runs: Mapping[str, RunOfSweep] | None = None
) -> list[Recorded]:
    """Return what holds every word of `typed`; `runs` are those of sweeps, by their ids."""
    words = typed.lower().split()
    if not words:
        return list(entries)
    return [
        entry
        for entry in entries
        if all(word in _searched(entry, (runs or {}).get(entry.header.id)) for word in words)
    ]


def _searched(entry: Recorded, run: RunOfSweep | None) -> str:
    header = entry.header
    texts = [header.id, workload_of(entry), entry.status, header.host]
    texts += [entry.label.name or "", entry.label.note or ""]
    texts.append(units.day_and_time(header.wall))
    if isinstance(entry, SweepEntry):
        texts.append(sweep_outcome(entry))
    else:
        texts += device_of(entry)
    if run is not None:
        texts += [run.sweep.header.id, run.sweep.label.name or "", run.text]
    return " ".join(texts).lower()


def sides_of(
    sessions: Sequence[SessionEntry],
) -> tuple[list[SessionEntry], list[SessionEntry]] | None:
    """Part sessions into what is compared with and what is compared; None for fewer than two.

    Where they bear two names, these are the sides, that of the oldest session the first. Else the
    oldest session stands on one side, all others on the other.
    """
    oldest_first = sorted(sessions, key=lambda entry: entry.header.wall)
    if len(oldest_first) < 2:
        return None
    names = {entry.label.name for entry in oldest_first}
    if len(names) == 2 and None not in names:
        base = [each for each in oldest_first if each.label.name == oldest_first[0].label.name]
    else:
        base = oldest_first[:1]
    return base, [each for each in oldest_first if each not in base]
