"""The running time of a session: a clock that stands still while the run is suspended.

All times in a session are on this clock, so its figures leave out the time in which the run could
do nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    Machine,
    Record,
    Stack,
    StepParts,
    Suspended,
    Validation,
)
from dlmon.session.gaps import MIN_GAP_NS

_TIMES = frozenset(("t", "begin", "end", "train_end", "first_end", "last_end", "t_last", "since"))
"""The names of all fields that are times."""
_STILL_SUSPENDED = 2**63 - 1
# A sample of the machine is left out if the run was suspended in more of its time than this share.
_SUSPENDED_SHARE = 0.1
_WAKES_WITHIN_US = 2000
"""A process goes on so soon after its suspension ends, also on a busy machine."""


class RunningTime:
    """Puts the times of records onto a clock that stands still while the run is suspended."""

    def __init__(self) -> None:
        self.was_suspended = False
        """True from the first suspension on: until then, all times are those of the log."""
        self._begins, self._ends = array("q"), array("q")
        self._before_ns = array("q")
        """The suspended time before each suspension."""
        self._sample_t = 0
        """The time in the log of the newest sample of the machine."""
        self.sample_is_whole = True
        """False if the run was suspended in a part of the newest sample's time."""
        self._parts_t: dict[int | None, int] = {}
        """The time of the last `StepParts` of each process."""

    @property
    def is_suspended(self) -> bool:
        return bool(self._ends) and self._ends[-1] == _STILL_SUSPENDED

    @property
    def suspended_ns(self) -> int:
        """The time for which the run was suspended, until it ran last."""
        if not self._begins:
            return 0
        last_ns = 0 if self.is_suspended else self._ends[-1] - self._begins[-1]
        return self._before_ns[-1] + last_ns

    def add(self, record: Suspended) -> None:
        """Add a suspension, or its end."""
        self.was_suspended = True
        until = _STILL_SUSPENDED if record.until is None else max(record.t, record.until)
        if self._begins and self._begins[-1] == record.t:
            self._ends[-1] = until
        elif not self._begins or record.t >= self._ends[-1]:
            self._sample_t = self._sample_t or record.t
            self._before_ns.append(self.suspended_ns)
            self._begins.append(record.t)
            self._ends.append(until)

    def at(self, t: int) -> int:
        """Return a time of the log on this clock."""
        number = bisect_right(self._begins, t) - 1
        if number < 0:
            return t
        return t - self._before_ns[number] - min(t, self._ends[number]) + self._begins[number]

    def of_all(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of a log with their times on this clock."""
        for record in records:
            if isinstance(record, Suspended):
                self.add(record)
            on_clock = self.of(record) if self.was_suspended else record
            if on_clock is not None:
                yield on_clock

    def of(self, record: Record) -> Record | None:
        """Return a record with its times on this clock; None if it measured a suspension."""
        if isinstance(record, Batches):
            return self._of_batches(record)
        if isinstance(record, BatchSummary):
            return self._of_summary(record)
        if isinstance(record, Suspended):
            return record
        if isinstance(record, Machine):
            suspended_ns = self._suspended_between(self._sample_t, record.t)
            self.sample_is_whole = suspended_ns <= _SUSPENDED_SHARE * (record.t - self._sample_t)
            self._sample_t = record.t
        elif isinstance(record, StepParts):
            since, self._parts_t[record.trainer] = self._parts_t.get(record.trainer, 0), record.t
            # A step that was suspended took at least as long as the suspension.
            if self._shortest_ns(since, record.t) <= record.step_us * 1000:
                return None
        changed: Record = with_times(record, self.at)
        if isinstance(changed, Epoch) and changed.validation is not None:
            changed = replace(changed, validation=self._of_validation(changed.validation))
        elif isinstance(record, Stack) and isinstance(changed, Stack):
            is_short = changed.t - changed.begin < MIN_GAP_NS
            return None if is_short and self._suspended_between(record.begin, record.t) else changed
        return changed

    def _of_batches(self, record: Batches) -> Batches:
        begin, opening_us = record.begin, record.opening_us
        since = begin - (opening_us or 0) * 1000
        if not self._suspended_between(since, record.t_last):
            return replace(record, t=self.at(record.t))
        end, spent_us, dt_us = begin, 0, list(record.dt_us)
        per_execution = record.per_execution or 1
        for first in range(0, len(dt_us), per_execution):
            together = slice(first, first + per_execution)
            batches = len(dt_us[together])
            end += sum(dt_us[together]) * 1000
            ran_us = (self.at(end) - self.at(begin)) // 1000 - spent_us
            spent_us += ran_us
            if ran_us != sum(dt_us[together]):
                each_us, rest_us = divmod(ran_us, batches)
                dt_us[together] = [each_us + (at < rest_us) for at in range(batches)]
        return replace(
            record,
            t=self.at(begin) + dt_us[0] * 1000,
            dt_us=tuple(dt_us),
            opening_us=opening_us and (self.at(begin) - self.at(since)) // 1000,
            wait_us=self._wait_us(record, since),
        )

    def _of_summary(self, record: BatchSummary) -> BatchSummary:
        begin, opening_us = record.begin, record.opening_us
        since = begin - (opening_us or 0) * 1000
        changed: BatchSummary = with_times(record, self.at)
        suspended_us = self._suspended_between(begin, record.t_last) // 1000
        if not self._suspended_between(since, record.t_last):
            return changed
        suspensions = len(self._lengths_ns(begin, record.t_last))
        *quantiles, longest_us = record.step_us
        if longest_us * 1000 >= self._shortest_ns(begin, record.t_last):
            # The longest step is that which was suspended; how long it ran is not known.
            longest_us = quantiles[-1] if quantiles else longest_us
        first_us = record.first_us
        if first_us is not None:
            first_us -= self._suspended_between(begin, begin + first_us * 1000) // 1000
        return replace(
            changed,
            time_us=record.time_us - suspended_us,
            step_us=(*quantiles, longest_us),
            stalls=record.stalls and max(0, record.stalls - suspensions),
            first_us=first_us,
            opening_us=opening_us and (self.at(begin) - self.at(since)) // 1000,
            wait_us=self._wait_us(record, since),
        )

    def _wait_us(self, record: Batches | BatchSummary, since: int) -> int | None:
        """Return the wait for data of suspended batches, without suspensions.

        How many of them fell into a wait is known if the rest is possible with one number only:
        not below zero, and no longer than the batches ran. Else the wait is None.
        """
        lengths_ns = self._lengths_ns(since, record.t_last)
        if record.wait_us is None or not lengths_ns:
            return record.wait_us
        ran_us = (self.at(record.t_last) - self.at(since)) // 1000
        each_us = sum(lengths_ns) / len(lengths_ns) / 1000
        rests_us = (record.wait_us - round(n * each_us) for n in range(len(lengths_ns) + 1))
        possible = [us for us in rests_us if -_WAKES_WITHIN_US <= us <= ran_us + _WAKES_WITHIN_US]
        return max(0, min(possible[0], ran_us)) if len(possible) == 1 else None

    def _of_validation(self, validation: Validation) -> Validation:
        changed: Validation = with_times(validation, self.at)
        took_us = (changed.end - changed.begin) // 1000
        between_us = validation.between_us
        return replace(changed, between_us=between_us and min(between_us, took_us))

    def _suspended_between(self, begin: int, end: int) -> int:
        return end - begin - (self.at(end) - self.at(begin))

    def _shortest_ns(self, begin: int, end: int) -> float:
        """Return the length of the shortest suspension in a time; infinite if there is none."""
        return min(self._lengths_ns(begin, end), default=float("inf"))

    def _lengths_ns(self, begin: int, end: int) -> list[int]:
        """Return the length of each suspension in a time."""
        numbers = range(bisect_right(self._ends, begin), bisect_left(self._begins, end))
        return [self._ends[number] - self._begins[number] for number in numbers]


def with_times(record: Any, at: Callable[[int], int]) -> Any:
    """Return a record with its times on another clock; `at` converts one."""
    kind: Any = type(record)
    times = {name: getattr(record, name) for name in _times_of(kind)}
    on_clock = {name: at(t) for name, t in times.items() if t is not None}
    return replace(record, **on_clock) if on_clock else record


@cache
def _times_of(record_type: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record_type) if field.name in _TIMES)
