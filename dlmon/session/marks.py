"""The moments of a session that somebody who looks through it wants to see. Pure."""

from __future__ import annotations

from dataclasses import replace

from dlmon.records import (
    Alert,
    Batches,
    BatchSummary,
    Epoch,
    Machine,
    Notice,
    Record,
    Word,
)
from dlmon.records.record import record
from dlmon.session.session import Session, alert_text

LEAST_STALL_S = 1.0
THROTTLING_APART_NS = 60 * 10**9
"""A clock that is held again within this time was held all along."""


class MarkKind(Word):
    """What a mark stands for."""

    EPOCH = "epoch"
    STALL = "stall"
    BETWEEN_STEPS = "between_steps"
    THROTTLING = "throttling"
    NOTICE = "notice"
    ALERT = "alert"


@record(frozen=True)
class Mark:
    """One moment.

    Attributes:
        t: when it was known, on the session's own clock; of what lasted, after its end.
        kind: what it was.
        number: the epoch that ended, from 0; how long a stall was, or what came between steps, in
            seconds; the GPU that is throttled, by NVML's number, and None for the CPU.
        text: the notice, what somebody was told, or what throttles.
    """

    t: int
    kind: MarkKind
    number: float | None = None
    text: str = ""


class MarkFinder:
    """Finds the marks of a session, record by record."""

    def __init__(self, session: Session) -> None:
        self._throttled_at: dict[tuple[int | None, str], int] = {}
        latest = session.machine.latest
        if latest is not None:
            self._throttling(latest, session)

    def take(self, record: Record, session: Session) -> list[Mark]:
        """Return the marks that a record makes, which the session has folded already.

        None is earlier than what was folded so far: who goes there sees what it stands for.
        """
        found = self._found(record, session)
        return [replace(mark, t=max(mark.t, session.last_t)) for mark in found]

    def _found(self, record: Record, session: Session) -> list[Mark]:
        if getattr(record, "trainer", None):
            # What processes beside the first do, it does too.
            return []
        if isinstance(record, (Batches, BatchSummary)):
            return _stalls(record, session)
        if isinstance(record, Machine):
            return self._throttling(record, session)
        if isinstance(record, Epoch):
            return [Mark(record.end, MarkKind.EPOCH, record.epoch)]
        if isinstance(record, Notice):
            return [Mark(record.t, MarkKind.NOTICE, text=record.text)]
        if isinstance(record, Alert):
            return [Mark(record.t, MarkKind.ALERT, text=alert_text(record))]
        return []

    def _throttling(self, sample: Machine, session: Session) -> list[Mark]:
        latest, marks = session.machine.latest, []
        reasons: list[tuple[int | None, str]] = [
            (gpu.index, reason)
            for gpu in (latest.gpus if latest is not None else None) or ()
            for reason in gpu.throttle or ()
        ]
        if sample.cpu is not None and sample.cpu.throttled_pct:
            reasons.append((None, "limit"))
        for key in reasons:
            before = self._throttled_at.get(key)
            if before is None or sample.t - before > THROTTLING_APART_NS:
                marks.append(Mark(sample.t, MarkKind.THROTTLING, *key))
            self._throttled_at[key] = sample.t
        return marks


def _stalls(record: Batches | BatchSummary, session: Session) -> list[Mark]:
    """Return the batches, and the opening of an epoch, that stood still for over a second."""
    opening_us = record.opening_us or 0
    longest_us = max(record.dt_us) if isinstance(record, Batches) else record.step_us[-1]
    least_us = LEAST_STALL_S * 1e6
    if max(longest_us, opening_us) < least_us:
        return []
    limit_us = session.steady.stall_limit_us()
    if limit_us is None:
        return []
    least_us = max(least_us, limit_us)
    marks = []
    if opening_us >= least_us:
        first_us = record.dt_us[0] if isinstance(record, Batches) else record.first_us or 0
        marks.append(Mark(record.t - first_us * 1000, MarkKind.STALL, opening_us / 1e6))
    if isinstance(record, BatchSummary):
        if longest_us >= least_us:
            # Which of them it was is not known.
            marks.append(Mark(record.t_last, MarkKind.STALL, longest_us / 1e6))
        return marks
    end = record.begin
    first = session.steady.batches - record.count
    for number, took_us in enumerate(record.dt_us, first):
        end += took_us * 1000
        if took_us >= least_us:
            is_regular = session.steady.regular.period_at(number) is not None
            kind = MarkKind.BETWEEN_STEPS if is_regular else MarkKind.STALL
            marks.append(Mark(end, kind, took_us / 1e6))
    return marks
