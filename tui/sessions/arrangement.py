"""Which of the recorded sessions are shown, in which order, and which are compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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

STARTED = "started"
"""The column in whose order the runs of a sweep stand below it."""


@dataclass(frozen=True)
class SortColumn:
    """A column to sort by; `value` is None where a row has none."""

    name: str
    value: Callable[[Recorded], str | float | None]
    largest_first: bool = False


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None


def _device(entry: Recorded) -> str | None:
    if isinstance(entry, SweepEntry):
        return None
    device, name = device_of(entry)
    return _lower(name or device)


def _time(entry: Recorded) -> float | None:
    # Where it failed, its error stands in place of a time.
    if isinstance(entry, SweepEntry) or entry.result is None or entry.result.error:
        return None
    timing = timing_of_result(entry.result, entry.header.workload)
    return None if timing is None else pace_of(timing)


SORT_COLUMNS = (
    SortColumn(STARTED, lambda entry: entry.header.wall, largest_first=True),
    SortColumn("name", lambda entry: _lower(entry.label.name)),
    SortColumn("workload", lambda entry: _lower(workload_of(entry))),
    SortColumn("device", _device),
    SortColumn("status", lambda entry: entry.status),
    SortColumn("host", lambda entry: _lower(entry.header.host)),
    SortColumn("time", _time),
)
BY_NAME = {column.name: column for column in SORT_COLUMNS}


def in_order(
    entries: Sequence[Recorded],
    runs: Mapping[str, RunOfSweep],
    by: str = STARTED,
    reverse: bool = False,
) -> list[Recorded]:
    """Return recordings sorted by a column, those without a value last; the newest of equals first.

    By the time they started, the runs of a sweep stand right below it.

    Args:
        entries: sessions and sweeps.
        runs: which of the sessions a sweep made, by their ids.
        by: the name of the column.
        reverse: the other way round.
    """
    if by == STARTED:
        return grouped(entries, runs, oldest_first=reverse)
    column = BY_NAME[by]
    newest_first = sorted(entries, key=lambda entry: entry.header.wall, reverse=True)
    valued = [(column.value(entry), entry) for entry in newest_first]
    known = [(value, entry) for value, entry in valued if value is not None]
    # A list of pairs would compare the entries of equals.
    known.sort(key=lambda pair: pair[0], reverse=column.largest_first != reverse)
    return [entry for _, entry in known] + [entry for value, entry in valued if value is None]


def next_column(by: str, step: int, columns: Sequence[str]) -> str:
    """Return the column after one, or before it; after the last comes the first."""
    return columns[(columns.index(by) + step) % len(columns)] if by in columns else columns[0]


def matching(
    entries: Sequence[Recorded], typed: str, runs: Mapping[str, RunOfSweep] | None = None
) -> list[Recorded]:
    """Return what holds every word of `typed`.

    Args:
        entries: sessions and sweeps.
        typed: words, with blanks between them.
        runs: which of the sessions a sweep made, by their ids.
    """
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
