"""What was tried in a script, as sentences and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.pairs import loss_in, loss_texts, pair_findings
from dlmon.figures.sections import Note, Section
from dlmon.records.injections import KERAS, TORCH
from dlmon.sweep.candidates import Candidate, FirstRun
from dlmon.sweep.pairs import broken_run, verdict_of
from dlmon.sweep.tries import FirstSession, Judgement, Try

_HEADINGS = {
    Judgement.KEEP: "Faster",
    Judgement.SUGGESTION: "Faster, and alters the training: try what it learns",
    Judgement.NO_GAIN: "No gain",
    Judgement.NOT_APPLIED: "Could not be applied",
    Judgement.FAILED: "Failed",
    Judgement.UNDECIDED: "Not decided",
}


def injection_text(candidate: Candidate) -> str:
    """Write an injection: num_workers 4."""
    return f"{candidate.name} {candidate.value}"


def candidates_text(candidates: Sequence[Candidate], run: FirstRun) -> list[str]:
    """Say what is tried and why, or why nothing is."""
    if not candidates:
        return [_nothing_text(run)]
    return [f"to try: {injection_text(c)} ({c.reason})" for c in candidates]


def _nothing_text(run: FirstRun) -> str:
    if run.framework not in (TORCH, KERAS):
        return "nothing to try: dlmon sets something inside PyTorch and Keras only"
    if run.parts is None and run.framework == TORCH:
        return "nothing to try: the parts of its steps were not measured (--window)"
    if run.parts is None:
        return "nothing to try: the figures of the run speak for none of the settings"
    text = f"nothing to try: forward and backward take {units.share(run.network)} of a step"
    if run.model.device != "cpu" or run.run_cores is None or run.cores is None:
        return text
    return f"{text}, on {run.run_cores:.1f} of {run.cores:.0f} cores"


def tries_sections(tries: Sequence[Try]) -> list[Section]:
    """Return the outcomes of all tries, the gains first."""
    sections: list[Section] = []
    for judgement, heading in _HEADINGS.items():
        sentences = [try_text(t) for t in tries if t.judgement == judgement]
        if not sentences:
            continue
        if judgement == Judgement.KEEP and len(sentences) > 1:
            sentences.append("each was tried alone: together they may gain less")
        sections.append(Note(tuple(sentences), "list", heading))
    return sections


def try_text(tried: Try) -> str:
    """Say what came of a try; a gain ends in the line to change."""
    name, sweep = injection_text(tried.candidate), tried.sweep
    if sweep is None:
        return f"{name}: no time was left (--for)"
    ratio = verdict_of(sweep).ratio
    if broken_run(sweep) is not None:
        return f"{name}: {pair_findings(sweep)[0]}"
    if ratio is None:
        return f"{name}: no pair was completed in the time (--for)"
    pairs = units.counted(ratio.pairs, "pair")
    if ratio.low is None or ratio.high is None:
        return f"{name}: {verdicts.change(ratio.value)} as fast in {pairs}, which proves nothing"
    span = f"{verdicts.interval(ratio.low, ratio.high)}; {pairs}"
    if not ratio.is_proven:
        return f"{name}: no clear difference ({span})"
    text = f"{name}: {verdicts.change(ratio.value)} as fast ({span})"
    if ratio.value < 1:
        return text
    loss = loss_texts(loss_in(sweep)) or ["the loss was not compared"]
    return "; ".join([text, *loss, f"write {line_of(tried.candidate)}"])


def line_of(candidate: Candidate) -> str:
    """Return the line of a script that does the same as an injection."""
    return candidate.kind.advice(candidate.value)


def tries_json(first: FirstSession, tries: Sequence[Try]) -> dict[str, Any]:
    """Return what was tried as `--json` prints it."""
    assert first.run is not None
    return {
        "session": first.id,
        "findings": candidates_text([tried.candidate for tried in tries], first.run),
        "tries": [_try_json(tried) for tried in tries],
    }


def _try_json(tried: Try) -> dict[str, Any]:
    candidate = tried.candidate
    ratio = None if tried.sweep is None else verdict_of(tried.sweep).ratio
    return {
        "set": candidate.name,
        "value": candidate.value,
        "why": candidate.reason,
        "judgement": tried.judgement,
        "alters_training": candidate.kind.alters_training,
        "ratio": None if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "pairs": 0 if ratio is None else ratio.pairs,
        "sweep": tried.id,
        "line": line_of(candidate),
        "text": try_text(tried),
    }
