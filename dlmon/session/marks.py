"""The moments of a session that somebody who looks through it wants to see. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlmon.records import Batches, BatchSummary, Gpu, Machine, Word
from dlmon.records.record import record
from dlmon.session.gaps import Gap
from dlmon.statistics.steady_state import SteadyState

MOST_MARKS = 100_000
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


class Marks(list[Mark]):
    """The marks of a session, in the order of time."""

    def until(self, count: int) -> Marks:
        return Marks(self[:count])


class Throttling:
    """What holds clocks down: each GPU, by NVML's number, or None for the CPU, and why."""

    def __init__(self) -> None:
        self._seen_at: dict[tuple[int | None, str], int] = {}

    def begun(self, sample: Machine, gpus: Iterable[Gpu]) -> list[tuple[int | None, str]]:
        """Return what holds clocks down in a sample, as it reports the GPUs, and did not before."""
        reasons: list[tuple[int | None, str]]
        reasons = [(gpu.index, reason) for gpu in gpus for reason in gpu.throttle or ()]
        if sample.cpu is not None and sample.cpu.throttled_pct:
            reasons.append((None, "limit"))
        long_ago = sample.t - THROTTLING_APART_NS
        begun = [key for key in reasons if self._seen_at.get(key, long_ago - 1) < long_ago]
        self._seen_at |= dict.fromkeys(reasons, sample.t)
        return begun


def stalls(
    record: Batches | BatchSummary, gaps: Iterable[Gap], steady: SteadyState
) -> Iterator[Mark]:
    """Yield the batches, and the opening of an epoch, that stood still for over a second.

    Args:
        record: the batches.
        gaps: those of them that may have.
        steady: has folded them.
    """
    opening_us, gaps = record.opening_us or 0, list(gaps)
    opens_late = opening_us >= LEAST_STALL_S * 1e6
    # What is usual takes long to find: most batches needn't know it.
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
