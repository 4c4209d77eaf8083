"""The newest sessions of this machine, each with its loss and its speed against the run before."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from dlmon.comparison.compared_run import RunFigures
from dlmon.comparison.sides import throughput_ratio
from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.comparison.earlier_runs import earlier_sessions
from dlmon.figures.lists.session_list import bad_loss_text, call_text, result_text
from dlmon.log.directory import SessionEntry, read_losses
from dlmon.log.folder import LogError
from dlmon.records import Status
from dlmon.records.record import record
from dlmon.session.run_figures import figures_of_entry, runs_that_ended
from dlmon.statistics.ratios import Ratio

_MOST, _MOST_REPEATS = 20, 100
LOSSES = 24


@record(frozen=True)
class RecentSession:
    """A session of the list.

    Attributes:
        entry: the session.
        change: how many times as fast as the run before it is; None if they don't compare.
        losses: its training loss from start to end, at most `LOSSES` values.
    """

    entry: SessionEntry
    change: Ratio | None
    losses: tuple[float, ...]

    @property
    def name(self) -> str:
        """The session's name, or its workload, or its script with its arguments."""
        return self.entry.label.name or call_text(self.entry.header)

    @property
    def result(self) -> str:
        return result_text(self.entry)

    @property
    def speed(self) -> str:
        """Its steady throughput, which `change` compares; empty without one."""
        rate = None if self.entry.result is None else self.entry.result.samples_per_second
        return "" if rate is None else f"{units.rate(rate.mean)} {rate.unit}"

    @property
    def speed_or_result(self) -> str:
        """Its steady throughput if it has one and no error, else its result."""
        result = self.entry.result
        if result is None or result.error or not self.speed:
            return self.result
        status = "" if self.entry.status == Status.COMPLETED else f"{self.entry.status}: "
        return f"{status}{self.speed}"

    @property
    def is_bad(self) -> bool:
        """Whether the session failed, or its loss is NaN or infinite."""
        return self.entry.status == Status.FAILED or bool(bad_loss_text(self.entry))

    @property
    def change_text(self) -> str:
        if self.change is None:
            return ""
        if self.change.may_be_one:
            return f"~ {verdicts.change(self.change.value)}"
        return verdicts.how_fast(self.change)


def recent_sessions(
    entries: Sequence[SessionEntry], before: Sequence[RecentSession] = (), most: int = _MOST
) -> list[RecentSession]:
    """Return the newest sessions, newest first; a part of each log is read for its loss.

    The losses of a session that is unchanged since `before`, an earlier list, are taken from there.
    """
    repeats = runs_that_ended(entries[-_MOST_REPEATS:])
    read = {session.entry.path: session for session in before}

    def losses(entry: SessionEntry) -> tuple[float, ...]:
        earlier = read.get(entry.path)
        return earlier.losses if earlier and earlier.entry == entry else _losses(entry)

    return [
        RecentSession(entry, _change(entry, entries, repeats), losses(entry))
        for entry in entries[: -most - 1 : -1]
    ]


def _change(
    entry: SessionEntry, entries: Sequence[SessionEntry], repeats: Sequence[RunFigures]
) -> Ratio | None:
    before = earlier_sessions(entries, entry.header, most=1)
    if entry.result is None or not before:
        return None
    return throughput_ratio(figures_of_entry(before[0]), figures_of_entry(entry), repeats)


def _losses(entry: SessionEntry) -> tuple[float, ...]:
    if entry.loss is None:
        return ()
    with contextlib.suppress(LogError, OSError):
        return tuple(read_losses(entry.path, LOSSES))
    return ()
