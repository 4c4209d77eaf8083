"""The headline of a session: what is so, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace

from dlmon.figures import units
from dlmon.figures.session.epoch_numbers import epoch_word
from dlmon.figures.session.framework_memory import explain_out_of_memory
from dlmon.figures.session.progress import (
    failure_text,
    is_script_without_training,
    starting_texts,
    try_or_output,
    waiting_texts,
    why_nothing_trained,
)
from dlmon.figures.session.stall import stall_of
from dlmon.figures.session.time_breakdown import gap_place, longest_gaps
from dlmon.figures.session.tracebacks import traceback_rows
from dlmon.records import FailureKind, Status
from dlmon.records.record import record
from dlmon.session.gaps import Gap, pauses_in
from dlmon.session.limits.evidence import INPUT, KINDS, STALLED, Evidence, Tone
from dlmon.session.snapshot import Snapshot, is_stalled

SILENT_S = 30.0
"""A running session without a record for this time gives no sign of life."""
_ANSWER = "answer where dlmon exec --plain runs"
_SCRIPT_STOPS = "the script was asked to end; one that handles SIGTERM may save first"
_WORKLOAD_STOPS = "it ends after the current batch"
_INTERRUPTED = re.compile(r"^interrupted: ")
_EXIT_CODE = re.compile(r"^the script ended with exit code \d+: ")


@record(frozen=True)
class Headline(Evidence):
    """The answer at the top of a session, the same on every screen and in every report.

    Its rule may be a state, such as stalled.

    Attributes:
        also: other findings in short.
    """

    also: tuple[str, ...] = ()

    @property
    def tone(self) -> Tone:
        return KINDS[self.rule].tone

    @property
    def as_json(self) -> dict[str, str]:
        names = ("rule", "name", "figure", "reason", "advice", "tone")
        return {name: str(getattr(self, name)) for name in names}


def headline_of(
    snapshot: Snapshot,
    is_running: bool,
    status: Status = Status.RUNNING,
    problem: str | None = None,
) -> Headline | None:
    """Return the headline of a session; None for the recording of a machine.

    A state that stops the run comes first, then what limits it.

    Args:
        snapshot: the figures of the session.
        is_running: more records may come.
        status: its status, which tells an interrupted one without a result.
        problem: why there is nothing new, as `SessionSource.problem` says it.
    """
    if snapshot.header.is_machine_recording:
        return None
    over = not is_running or snapshot.result is not None
    limit = snapshot.limit
    if (state := _state(snapshot, over, status, problem)) is not None:
        return state
    if limit is None and not over and not snapshot.batches:
        figure = units.short_clock(snapshot.elapsed_s)
        return Headline("starting", figure, starting_texts(snapshot))
    if limit is None or (over and is_script_without_training(snapshot)):
        return Headline("not-known" if over else "not-yet", "", waiting_texts(snapshot, over))
    lead, reasons = limit.lead, limit.lead.reasons
    # A pause that a framework names, such as a checkpoint, is a part of its own.
    unnamed = [gap for gap in snapshot.gaps if not pauses_in(gap, snapshot.pauses)]
    if lead.rule == "pauses" and unnamed:
        (longest,) = longest_gaps(unnamed, 1)
        where = _where(longest, snapshot)
        reasons = (*reasons, f"the longest {units.seconds(longest.seconds)} {where}")
    of_lead = replace(lead, reasons=reasons, advice=limit.advice)
    return Headline(**vars(of_lead), also=limit.also)


def _state(snapshot: Snapshot, over: bool, status: Status, problem: str | None) -> Headline | None:
    """Return the headline of a state that stops a run; None if it is in none."""
    failure, untrained = failure_text(snapshot), why_nothing_trained(snapshot)
    if failure is not None:
        return _failed(snapshot, failure)
    if untrained is not None:
        return Headline("no-training", "", (untrained,))
    if status == Status.INTERRUPTED and snapshot.result is None:
        return Headline(
            "interrupted", "", (_INTERRUPTED.sub("", problem or "it ended without a result"),)
        )
    if not over and snapshot.silent_s >= SILENT_S:
        silent_for = units.short_clock(snapshot.silent_s)
        return Headline("silent", silent_for, (problem or "no new record",))
    if not over and snapshot.stopping_s is not None:
        since = units.short_clock(snapshot.stopping_s)
        is_script = snapshot.header.is_script
        return Headline("stopping", since, (_SCRIPT_STOPS if is_script else _WORKLOAD_STOPS,))
    pause = None if over else snapshot.pause
    stall = stall_of(pause, snapshot)
    if pause is not None and stall is not None and stall.asks:
        return Headline(INPUT, units.short_clock(pause.seconds), (stall.place,), _ANSWER)
    if not over and is_stalled(snapshot.overdue_s, snapshot.regular_steps):
        stalled = _stalled(snapshot, snapshot.overdue_s or 0.0, pause)
        return replace(stalled, advice="see all stacks (S, dlmon stack)")
    last = snapshot.stopped_stall
    if over and last is not None and is_stalled(last.seconds, snapshot.regular_steps):
        return _stalled(snapshot, last.seconds, last)
    return None


def _failed(snapshot: Snapshot, failure: str) -> Headline:
    """Return the headline of a run that failed: its error, and the script's innermost line."""
    result, (name, advice) = snapshot.result, try_or_output(snapshot)
    explanation = explain_out_of_memory(snapshot)
    is_memory = result is not None and result.failure == FailureKind.OUT_OF_MEMORY
    why = explanation or _EXIT_CODE.sub("", failure)
    reasons = [": ".join(filter(None, (_failed_at(snapshot), why)))]
    if name == "Output" and advice:
        reasons.append(f"its last output: {advice}")
    rule = "out-of-memory" if is_memory else "failed"
    return Headline(rule, "", tuple(reasons), advice if name == "Try" else "")


def _failed_at(snapshot: Snapshot) -> str:
    """Return the innermost line of the script itself in the traceback; empty if none."""
    rows = traceback_rows(snapshot.output, snapshot.header.directory)
    return next((row.text for row in reversed(rows) if row.kind == "frame"), "")


def _stalled(snapshot: Snapshot, seconds: float, pause: Gap | None) -> Headline:
    """Return the headline of a run without a step for long: since when, and where it is."""
    progress = snapshot.progress
    reasons = ["no step ends" if progress is None else f"at step {progress.step + 1:,}"]
    if pause is not None:
        stall = stall_of(pause, snapshot)
        reasons = [_where(pause, snapshot), *filter(None, [stall.waits_for if stall else ""])]
    return Headline(STALLED, units.short_clock(seconds), tuple(reasons))


def _where(gap: Gap, snapshot: Snapshot) -> str:
    """Say where in training a pause is, and in which line of code."""
    stall = stall_of(gap, snapshot)
    place = gap_place(gap, epoch_word(snapshot.header))
    return ": ".join(filter(None, (place, stall.place if stall is not None else "")))
