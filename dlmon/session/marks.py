"""The notable moments of a session, marked on its time axis. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlmon.records import Batches, BatchSummary, Gpu, Machine, Word
from dlmon.records.record import record
from dlmon.session.gaps import Gap
from dlmon.statistics.steady_state import SteadyState

MOST_MARKS = 100_000
LEAST_STALL_S = 1.0
THROTTLING_APART_NS = 60 * 10**9
"""Throttling that returns within this time counts as one."""


class MarkKind(Word):
    """The kind of a mark."""

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
        t: its time on the session's own clock; for a stall, after its end.
        kind: what happened.
        number: by kind: the epoch that ended, from 0; the seconds of a stall or of work between
            steps; NVML's number of the throttled GPU, None for the CPU.
        text: the notice, the alert, or the reason for throttling.
    """

    t: int
    kind: MarkKind
    number: float | None = None
    text: str = ""


class Marks(list[Mark]):
    """The marks of a session, in the order of time."""

    def until(self, count: int) -> Marks:
        return Marks(self[:count])


class Throttling:
    """The reasons that hold clocks down, with NVML's number of the GPU, or None for the CPU."""

    def __init__(self) -> None:
        self._last_t: dict[tuple[int | None, str], int] = {}

    def new_reasons(self, sample: Machine, gpus: Iterable[Gpu]) -> list[tuple[int | None, str]]:
        """Return the reasons in a sample and its GPUs that did not hold before."""
        reasons: list[tuple[int | None, str]]
        reasons = [(gpu.index, reason) for gpu in gpus for reason in gpu.throttle or ()]
        if sample.cpu is not None and sample.cpu.throttled_pct:
            reasons.append((None, "limit"))
        if not reasons:
            return []
        long_ago = sample.t - THROTTLING_APART_NS
        new = [key for key in reasons if self._last_t.get(key, long_ago - 1) < long_ago]
        self._last_t |= dict.fromkeys(reasons, sample.t)
        return new


def stalls(
    record: Batches | BatchSummary, gaps: Iterable[Gap], steady: SteadyState
) -> Iterator[Mark]:
    """Yield the stalls of over a second among batches and the opening of their epoch.

    Args:
        record: the batches.
        gaps: the gaps among them that may be stalls.
        steady: the steady state, with these batches.
    """
    opening_us, gaps = record.opening_us or 0, list(gaps)
    opens_late = opening_us >= LEAST_STALL_S * 1e6
    # The limit is slow to compute, and most batches don't need it.
    limit_us = steady.stall_limit_us() if opens_late or gaps else None
    if limit_us is None:
        return
    if opens_late and opening_us >= limit_us:
        yield Mark(record.begin, MarkKind.STALL, opening_us / 1e6)
    for gap in gaps:
        if gap.seconds * 1e6 >= limit_us * gap.steps:
            is_regular = gap.number is not None and steady.regular.period_at(gap.number)
            kind = MarkKind.BETWEEN_STEPS if is_regular else MarkKind.STALL
            yield Mark(gap.end, kind, gap.seconds)
