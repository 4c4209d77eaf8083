"""The headline of a session: what is so, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace

from dlmon.comparison.peaks import precision_of
from dlmon.comparison.published import find_device
from dlmon.figures import units
from dlmon.figures.session.epoch_numbers import epoch_text, epoch_word
from dlmon.figures.session.framework_memory import explain_out_of_memory, held_before
from dlmon.figures.session.gap_texts import gap_place, longest_gaps
from dlmon.figures.session.progress import (
    failure_text,
    is_script_without_training,
    starting_texts,
    step_text,
    trained_text,
    try_or_output,
    waiting_texts,
    why_nothing_trained,
)
from dlmon.figures.session.stall import stall_of
from dlmon.figures.session.start import STARTING
from dlmon.figures.session.time_breakdown import BRIEF_NAMES, breakdown_rows, in_short, names_of
from dlmon.figures.session.tracebacks import traceback_rows
from dlmon.records import FailureKind, Status, TimePart
from dlmon.records.record import record
from dlmon.session.gaps import Gap, pauses_in
from dlmon.session.limits.evidence import (
    FORWARD,
    INPUT,
    KINDS,
    NETWORK,
    NOT_CLEAR,
    OPENING,
    OWN_CODE,
    STALLED,
    TIE,
    Evidence,
    Tone,
)
from dlmon.session.limits.rules import TO_COMPILE
from dlmon.session.machine_history import facts_of_gpu
from dlmon.session.snapshot import Snapshot, is_stalled

SILENT_S = 30.0
"""A running session without a record for this time gives no sign of life."""
_OPENING_S = 1.0
"""An epoch that has no step for this time leads, as what held before doesn't hold now."""
_ANSWER = "answer where dlmon exec --plain runs"
_SCRIPT_STOPS = "the script was asked to end; one that handles SIGTERM may save first"
_WORKLOAD_STOPS = "it ends after the current batch"
_INTERRUPTED = re.compile(r"^interrupted: ")
_EXIT_CODE = re.compile(r"^the script ended with exit code \d+: ")
_SEE_STACKS = "see all stacks (S, dlmon stack)"
_INTERRUPTED_NEXT = "see what ended it (dmesg, last -x), then run it again"
_SCRIPT_MAY_RUN = "see if the script still runs (ps) before you run it again"
_STARTING = "if it takes long, see at which line it is (S, dlmon stack)"
_PROFILE = "profile its next steps (P, dlmon profile)"
_NEXT = {
    "not-yet": "wait a few seconds",
    OPENING: _STARTING,
    "silent": "look at the machine that it runs on",
    "stopping": "wait for its end",
    "evaluates": "wait for its result",
    "gpu-lost": "see which processes use it (p)",
    "no-training": "let its loop call dlmon.step(), if it trains",
    "gpu-slowdown": "see what slows it: nvidia-smi -q -d PERFORMANCE",
    "gpu-power-brake": "check the power supply of the GPU",
    "cpu": "only less work or more cores help",
    "cores": "see which processes use them (p)",
    OWN_CODE: "look at what its loop does beside loading, network and optimiser",
    "io-pressure": "keep the data in memory, or on a faster disk",
}
"""The next step of a rule whose evidence has no advice."""
_LEAST_PCT = 5
"""A second part of the time is named from this share on."""
_BUSY = ("gpu", "gpu-near-power", "gpu-tensor")
_WIDE = ("float32", "tf32")
_NEXT_WHILE_RUNNING = {
    **dict.fromkeys((NOT_CLEAR, TIE, NETWORK, FORWARD, "optimizer", "copy"), _PROFILE),
    "collectives": "compare the ranks (W)",
    OWN_CODE: "see at which line it is, a few times (S, dlmon stack)",
}


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
    headline = _state(snapshot, over, status, problem) or _limited(snapshot, over)
    next_steps = _NEXT if over else _NEXT | _NEXT_WHILE_RUNNING
    advice = headline.advice or next_steps.get(headline.rule, "")
    if headline.rule in _BUSY:
        advice = headline.advice or _less_work(snapshot)
    if snapshot.compiles:
        advice = advice.replace(TO_COMPILE, "")
    return replace(headline, advice=advice)


def _less_work(snapshot: Snapshot) -> str:
    """Return what makes steps shorter on hardware that is busy with the network."""
    names = [facts_of_gpu(snapshot.header.machine, index).name for index in snapshot.gpus]
    devices = [device for device in map(find_device, names) if device is not None]
    options = []
    if snapshot.model is not None and precision_of(snapshot.model) in _WIDE:
        has_bf16 = all(device.tflop_s_bfloat16 for device in devices)
        options += ["lower precision (bf16)"] * has_bf16
    frameworks = {process.trainer.framework for process in snapshot.trainers}
    options += ["torch.compile"] * (frameworks == {"torch"} and not snapshot.compiles)
    return ", ".join([*options, "a smaller model, or a faster GPU"])


def _limited(snapshot: Snapshot, over: bool) -> Headline:
    """Return the headline of what limits a run, or why that isn't known."""
    limit = snapshot.limit
    if limit is None and not over and not snapshot.batches:
        figure = units.short_clock(snapshot.elapsed_s)
        texts = starting_texts(snapshot)
        return Headline("starting", figure, texts, "" if len(texts) > 1 else _STARTING)
    if limit is None or (over and is_script_without_training(snapshot)):
        is_short = over and snapshot.batches and not is_script_without_training(snapshot)
        advice = "run it for longer" if is_short else ""
        rule = "not-known" if over else "not-yet"
        return Headline(rule, "", waiting_texts(snapshot, over), advice)
    lead, reasons = limit.lead, limit.lead.reasons
    # A pause that a framework names, such as a checkpoint, is a part of its own.
    unnamed = [gap for gap in snapshot.gaps if not pauses_in(gap, snapshot.pauses)]
    if lead.rule == "pauses" and unnamed:
        (longest,) = longest_gaps(unnamed, 1)
        where = _where(longest, snapshot)
        reasons = (*reasons, f"the longest {units.seconds(longest.seconds)} {where}")
    if lead.rule == NOT_CLEAR:
        lead = _largest_part(snapshot, lead, over)
        reasons = lead.reasons
    if lead.rule == "gpu-lost" and snapshot.samples_per_second_now is not None:
        reasons = (*reasons, "the run still steps")
    # What makes a run useless leads whatever it does.
    is_between = not over and KINDS[lead.rule].tone is not Tone.BAD
    if is_between and (trained := trained_text(snapshot)):
        lasts = units.short_clock(snapshot.phase_s)
        return Headline("evaluates", lasts, (f"{trained} ({lead.title})",))
    if is_between and snapshot.phase == "opening" and snapshot.phase_s >= _OPENING_S:
        return _opening(snapshot, lead.title)
    of_lead = replace(lead, reasons=reasons, advice=limit.advice)
    return Headline(**vars(of_lead), also=limit.also)


def _largest_part(snapshot: Snapshot, unclear: Evidence, over: bool) -> Evidence:
    """Return the two largest parts of the time; of a run that goes on, since its first step."""
    spent_s = {
        part: seconds
        for part, seconds in snapshot.time_breakdown.items()
        if over or part not in STARTING
    }
    rows = in_short(breakdown_rows(spent_s, names_of(snapshot)), 1)
    by_share = sorted(rows, key=lambda row: -row.share)
    largest = [*by_share[:1], *(row for row in by_share[1:2] if row.percent >= _LEAST_PCT)]
    texts = " and ".join(f"{row.name} {row.percent} %" for row in largest)
    is_whole = not snapshot.step_parts and any(row.part is TimePart.TRAINING for row in largest)
    if is_whole and len(largest) == 1 and unclear.reasons:
        # That steps take nearly all of the time is no news.
        return unclear
    of = "of the time" if over else "of the time since the first step"
    reasons = [f"{texts} {of}"] * bool(texts) + ["parts not measured"] * is_whole
    return replace(unclear, reasons=(*reasons, *unclear.reasons))


def _opening(snapshot: Snapshot, trained: str) -> Headline:
    """Return the headline of an epoch without a step: where it is, and how steps were."""
    openings = TimePart.OPENINGS
    rows = [row for row in breakdown_rows(snapshot.time_breakdown) if row.part is openings]
    shares = [f"{BRIEF_NAMES[openings]} take {row.percent} % of the time" for row in rows]
    stall, progress = stall_of(snapshot.pause, snapshot), snapshot.progress
    number = "" if progress is None else f" {progress.epoch + 1:,}"
    place = f"before the first step of {epoch_word(snapshot.header)}{number}"
    where = ": ".join(filter(None, (place, stall.place if stall else "")))
    reasons = (where, *shares, f"steps: {trained}")
    return Headline(OPENING, units.short_clock(snapshot.phase_s), reasons)


def _state(snapshot: Snapshot, over: bool, status: Status, problem: str | None) -> Headline | None:
    """Return the headline of a state that stops a run; None if it is in none."""
    failure, untrained = failure_text(snapshot), why_nothing_trained(snapshot)
    if failure is not None:
        return _failed(snapshot, failure)
    if untrained is not None:
        return Headline("no-training", "", (untrained,))
    if status == Status.INTERRUPTED and snapshot.result is None:
        return _interrupted(snapshot, problem)
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
        look = stall.advice if stall is not None else ""
        return replace(stalled, advice=f"{look} {_SEE_STACKS}".lstrip())
    last = snapshot.last_stall
    if over and last is not None and is_stalled(last.seconds, snapshot.regular_steps):
        return _stalled(snapshot, last.seconds, last)
    return None


def _interrupted(snapshot: Snapshot, problem: str | None) -> Headline:
    """Return the headline of a run without a result: how far it was, and where it stood."""
    progress, stall = snapshot.progress, snapshot.last_stall
    ended, at = _INTERRUPTED.sub("", problem or "it ended without a result"), ""
    if stall is not None and is_stalled(stall.seconds, snapshot.regular_steps):
        stood = _where(stall, snapshot).partition(" →")[0]
        at = f"stalled {units.short_clock(stall.seconds)} {stood}"
        ended = f"then {ended}"
    elif progress is not None and snapshot.batches:
        step = step_text(progress.step, progress.steps, None)
        at = " in ".join(filter(None, (f"after {step}", epoch_text(snapshot))))
    reasons = ("; ".join(filter(None, (at, ended))),)
    # Nobody ends a script together with the process that records it.
    advice = _SCRIPT_MAY_RUN if snapshot.header.is_script else _INTERRUPTED_NEXT
    return Headline("interrupted", "", reasons, advice)


def _failed(snapshot: Snapshot, failure: str) -> Headline:
    """Return the headline of a run that failed: its error, and the script's innermost line."""
    result, (name, advice) = snapshot.result, try_or_output(snapshot)
    explanation = explain_out_of_memory(snapshot)
    is_memory = result is not None and result.failure == FailureKind.OUT_OF_MEMORY
    why = explanation or _EXIT_CODE.sub("", failure)
    reasons = [": ".join(filter(None, (_failed_at(snapshot), why)))]
    if is_memory and not explanation and (held := held_before(snapshot)):
        reasons.append(held)
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
