"""The progress of a sweep: its running, finished and remaining runs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from dlmon.records import (
    Began,
    Closed,
    Ended,
    FailureKind,
    Injection,
    Outcome,
    Record,
    Result,
    Resumed,
    RunStatus,
    Slot,
    Status,
    Value,
    Widened,
)
from dlmon.sweep.plan import Plan

if TYPE_CHECKING:
    from dlmon.comparison.compared_run import RunFigures
    from dlmon.comparison.sides import ChangedFile

_STATUS_OF_FAILURE = {
    FailureKind.OUT_OF_MEMORY: RunStatus.OUT_OF_MEMORY,
    FailureKind.REFUSED: RunStatus.IMPOSSIBLE,
}


@dataclass
class Sweep:
    """A plan and the progress of its runs.

    Attributes:
        plan: the plan.
        outcomes: the outcomes of finished runs.
        sessions: the run of each session, by id, including runs that were repeated later.
        running: the runs that have begun and not ended, at most one on each host.
        closed: completed or stopped, once the sweep is over; else None.
        changed: the files that differ between the commits that are compared; None if not known.
        figures: what was read from the logs of its sessions, by id.
    """

    plan: Plan
    outcomes: dict[Slot, Outcome] = field(default_factory=dict)
    sessions: dict[str, Slot] = field(default_factory=dict)
    running: dict[Slot, Began] = field(default_factory=dict)
    closed: Status | None = None
    changed: tuple[ChangedFile, ...] | None = None
    figures: dict[str, RunFigures] = field(default_factory=dict)

    def add(self, event: Record) -> None:
        match event:
            case Began(slot=slot) if slot in self.plan.slots:
                self.running[slot] = event
                self.sessions[event.session] = slot
            case Ended(slot=slot, outcome=outcome) if slot in self.plan.slots:
                self.outcomes[slot] = outcome
                self.running.pop(slot, None)
            case Widened(value=value) if self.plan.search_window_s is not None:
                self.plan = self.plan.widened(value)
            case Resumed():
                self.closed = None
                self._forget_not_begun()
            case Closed(status=status):
                self.closed = status

    def _forget_not_begun(self) -> None:
        # Runs that could not begin may be possible now, with another environment.
        self.outcomes = {
            slot: outcome
            for slot, outcome in self.outcomes.items()
            if outcome.session is not None or outcome.result is not None
        }

    def remaining(self) -> list[Slot]:
        """Return the runs that are not over, in their order; none once an experiment has ended."""
        if self.plan.pairs is not None and self.closed == Status.COMPLETED:
            return []
        return [slot for slot in self.plan.order if not self.is_over(slot)]

    @property
    def combinations_over(self) -> int:
        return len(self.plan.combinations) - len({slot.combination for slot in self.remaining()})

    def is_over(self, slot: Slot) -> bool:
        """Return whether a run is done or failed; a stopped or interrupted one is repeated."""
        outcome = self.outcomes.get(slot)
        return outcome is not None and outcome.status != RunStatus.NOT_RUN

    def seconds_left(
        self,
        running_for_s: Mapping[Slot, float] | None = None,
        without: Collection[str | None] = (),
    ) -> float | None:
        """Estimate the time of the remaining runs; None before any run has completed.

        A run is expected to take the mean time of the completed runs of its combination, else of
        its workload on its host, else of its workload, else of all. Hosts work in parallel.

        Args:
            running_for_s: the times since the launch of running runs.
            without: the hosts that run nothing any more.
        """
        times_s: dict[object, list[float]] = {}
        for slot, outcome in self.outcomes.items():
            if outcome.took_s is not None and outcome.status == RunStatus.COMPLETED:
                for key in self._similar(slot):
                    times_s.setdefault(key, []).append(outcome.took_s)
        if not times_s:
            return None
        totals_s = {host: 0.0 for host in self.plan.hosts if host not in without}
        for slot in self.remaining():
            host = self.plan.host_of(slot)
            if host in totals_s:
                expected_s = fmean(next(times_s[k] for k in self._similar(slot) if k in times_s))
                done_s = (running_for_s or {}).get(slot, 0.0) if slot in self.running else 0.0
                totals_s[host] += max(0.0, expected_s - done_s)
        return max(totals_s.values(), default=0.0)

    def _similar(self, slot: Slot) -> tuple[object, ...]:
        """Return the keys of the groups of runs that a run belongs to, the smallest first."""
        workload = self.plan.combinations[slot.combination].workload
        return slot.combination, (workload, self.plan.host_of(slot)), workload, None


def unapplied_text(injected: Mapping[str, Value], outcomes: Mapping[str, Injection]) -> str | None:
    """Say which injection a run ran without, and why; None if it was `injected` with them all."""
    for name in injected:
        outcome = outcomes.get(name)
        if outcome is None or not outcome.applied:
            reason = outcome.reason if outcome is not None else None
            return f"set:{name} was not applied: {reason or 'no process of the script tells why'}"
    return None


def outcome_of(
    result: Result | None,
    session: str,
    took_s: float | None,
    problem: str | None = None,
    is_whole: bool = False,
) -> Outcome:
    """Return the outcome of a run from the result of its session.

    Args:
        result: the result in its log; None if the log has none.
        session: its id.
        took_s: the time from its launch to its end.
        problem: why there is no result.
        is_whole: the run was stopped because it had all the training that its plan asks for.
    """
    if result is None:
        reason = problem or "interrupted: it left no result"
        return Outcome(RunStatus.NOT_RUN, reason, session, None, took_s)
    if result.status == Status.COMPLETED or (is_whole and result.status == Status.STOPPED):
        return Outcome(RunStatus.COMPLETED, None, session, result, took_s)
    if result.status == Status.STOPPED:
        return Outcome(RunStatus.NOT_RUN, "stopped before its end", session, result, took_s)
    reason = result.error or "it failed and gave no reason"
    kind = result.failure or FailureKind.UNKNOWN
    status = _STATUS_OF_FAILURE.get(kind, RunStatus.FAILED)
    return Outcome(status, reason, session, result, took_s)
