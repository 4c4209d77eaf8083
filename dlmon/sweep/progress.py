"""How far a sweep has come: which of its runs have begun, and how each ended. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dlmon.records import (
    Began,
    Closed,
    Ended,
    FailureKind,
    Outcome,
    Record,
    Result,
    Resumed,
    RunStatus,
    Slot,
    Status,
)
from dlmon.sweep.plan import Plan

_STATUS_OF_FAILURE = {
    FailureKind.OUT_OF_MEMORY: RunStatus.OUT_OF_MEMORY,
    FailureKind.REFUSED: RunStatus.IMPOSSIBLE,
}


@dataclass
class Sweep:
    """How far a sweep has come: its plan, and the events since.

    Attributes:
        outcomes: how runs ended.
        sessions: which run each session was, by its id; also of those that were made again.
        running: the runs that have begun and not ended: one on each machine at most.
        closed: completed or stopped once it went no further; None before.
    """

    plan: Plan
    outcomes: dict[Slot, Outcome] = field(default_factory=dict)
    sessions: dict[str, Slot] = field(default_factory=dict)
    running: dict[Slot, Began] = field(default_factory=dict)
    closed: Status | None = None

    def fold(self, event: Record) -> None:
        match event:
            case Began(slot=slot) if slot in self._slots:
                self.running[slot] = event
                self.sessions[event.session] = slot
            case Ended(slot=slot, outcome=outcome) if slot in self._slots:
                self.outcomes[slot] = outcome
                self.running.pop(slot, None)
            case Resumed():
                self.closed = None
                self._forget_what_never_began()
            case Closed(status=status):
                self.closed = status

    def _forget_what_never_began(self) -> None:
        """Judge again what had no session: the machine, or where we are on it, may be another."""
        self.outcomes = {
            slot: outcome
            for slot, outcome in self.outcomes.items()
            if outcome.status != RunStatus.IMPOSSIBLE or outcome.session is not None
        }

    def left(self) -> list[Slot]:
        """Return the runs that have still to be made, in their order.

        A run that failed is over; one that was stopped or interrupted has to be made.
        """
        return [slot for slot in self.plan.order if not self.is_over(slot)]

    @property
    def combinations_over(self) -> int:
        return len(self.plan.combinations) - len({slot.combination for slot in self.left()})

    def is_over(self, slot: Slot) -> bool:
        """Return whether a run needs not be made any more."""
        outcome = self.outcomes.get(slot)
        return outcome is not None and outcome.status != RunStatus.NOT_RUN

    def seconds_left(
        self,
        running_for_s: Mapping[Slot, float] | None = None,
        without: Collection[str | None] = (),
    ) -> float | None:
        """Return how long the rest will take, None before any run has completed.

        A run takes as long as the earlier ones of its combination, else of its workload on its
        machine, else of its workload, else of all. The machines work side by side.

        Args:
            running_for_s: how long the runs that have begun have taken.
            without: the machines on which no run will be made.
        """
        known: dict[object, list[float]] = {}
        for slot, outcome in self.outcomes.items():
            if outcome.took_s is not None and outcome.status == RunStatus.COMPLETED:
                for key in self._like(slot):
                    known.setdefault(key, []).append(outcome.took_s)
        if not known:
            return None
        totals = {host: 0.0 for host in self.plan.hosts if host not in without}
        for slot in self.left():
            host = self.plan.host_of(slot)
            if host in totals:
                took_s = next(known[key] for key in self._like(slot) if key in known)
                takes_s = sum(took_s) / len(took_s)
                done_s = (running_for_s or {}).get(slot, 0.0) if slot in self.running else 0.0
                totals[host] += max(0.0, takes_s - done_s)
        return max(totals.values(), default=0.0)

    def _like(self, slot: Slot) -> tuple[object, ...]:
        """Return the keys of the runs like this one, those that are most like it first."""
        workload = self.plan.combinations[slot.combination].workload
        return slot.combination, (workload, self.plan.host_of(slot)), workload, None

    @cached_property
    def _slots(self) -> frozenset[Slot]:
        return frozenset(self.plan.order)


def outcome_of(
    result: Result | None, session: str, took_s: float | None, problem: str | None = None
) -> Outcome:
    """Return how a run ended, from the result of its session.

    Args:
        result: what its log ends with; None where it has none.
        session: its id.
        took_s: from its launch to its end.
        problem: why there is no result.
    """
    if result is None:
        reason = problem or "interrupted: it left no result"
        return Outcome(RunStatus.NOT_RUN, reason, session, None, took_s)
    if result.status == Status.COMPLETED:
        return Outcome(RunStatus.COMPLETED, None, session, result, took_s)
    if result.status == Status.STOPPED:
        return Outcome(RunStatus.NOT_RUN, "stopped before its end", session, result, took_s)
    reason = result.error or "it failed and gave no reason"
    kind = result.failure or FailureKind.UNKNOWN
    status = _STATUS_OF_FAILURE.get(kind, RunStatus.FAILED)
    return Outcome(status, reason, session, result, took_s)
