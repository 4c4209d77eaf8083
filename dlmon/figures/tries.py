"""What was tried in a script, as sentences and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.pairs import interval_text, loss_in, loss_texts, pair_findings
from dlmon.figures.sections import Level, Note, Table
from dlmon.figures.sweeps import run_text
from dlmon.records import Status
from dlmon.records.injections import KERAS, TORCH
from dlmon.records.sanitize import clean
from dlmon.sweep.candidates import Candidate, FirstRun
from dlmon.sweep.pairs import broken_run, verdict_of
from dlmon.sweep.progress import Sweep
from dlmon.sweep.tries import FirstSession, Judgement, Try, TryRun

_HEADINGS = {
    Judgement.KEEP: "Faster",
    Judgement.SUGGESTION: "Faster, and alters the training: try what it learns",
    Judgement.NO_GAIN: "No gain",
    Judgement.SLOWER: "Slower",
    Judgement.NOT_APPLIED: "Could not be applied",
    Judgement.FAILED: "Failed",
    Judgement.UNDECIDED: "Not decided",
}


_GAINS = (Judgement.KEEP, Judgement.SUGGESTION)
_WAITS, _TRYING, _FASTER = "waits", "trying", "faster"
_LEVELS: Mapping[str, Level] = {_FASTER: "good", _TRYING: "strong"}
_LOSS_NOT_COMPARED = "the loss was not compared"
_NOTHING = "nothing to try: "
_TOGETHER = "each was tried alone: together they may gain less"


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
        return f"{_NOTHING}dlmon sets something inside PyTorch and Keras only"
    if run.parts is None and run.framework == TORCH:
        return f"{_NOTHING}the parts of its steps were not measured (--window)"
    if run.parts is None:
        return f"{_NOTHING}the figures of the run speak for none of the settings"
    text = f"{_NOTHING}forward and backward take {units.share(run.network)} of a step"
    if run.model.device != "cpu" or run.run_cores is None or run.cores is None:
        return text
    return f"{text}, on {run.run_cores:.1f} of {run.cores:.0f} cores"


def tries_sections(tries: Sequence[Try]) -> list[Note]:
    """Return the outcomes of all tries, the gains first."""
    sections: list[Note] = []
    for judgement, heading in _HEADINGS.items():
        sentences = [try_text(t) for t in tries if t.judgement == judgement]
        if not sentences:
            continue
        if judgement == Judgement.KEEP and len(sentences) > 1:
            sentences.append(_TOGETHER)
        sections.append(Note(tuple(sentences), "list", heading))
    return sections


def try_text(tried: Try) -> str:
    """Say what came of a try; a gain ends in the line to change."""
    name, sweep = injection_text(tried.candidate), tried.sweep
    if sweep is None:
        return f"{name}: {tried.skipped or tried.candidate.reason}"
    ratio = verdict_of(sweep).ratio
    if broken_run(sweep) is not None:
        return f"{name}: {pair_findings(sweep)[0]}"
    if ratio is None:
        is_stopped = sweep.closed == Status.STOPPED
        why = "it was stopped before a pair was complete"
        return f"{name}: {why if is_stopped else 'no pair was completed in the time (--for)'}"
    pairs = units.counted(ratio.pairs, "pair")
    if ratio.low is None or ratio.high is None:
        return f"{name}: {verdicts.change(ratio.value)} as fast in {pairs}, which proves nothing"
    span = f"{verdicts.change(ratio.low, ratio.high)}; {pairs}"
    if not ratio.is_proven:
        return f"{name}: no clear difference ({span})"
    text = f"{name}: {verdicts.change(ratio.value)} as fast ({span})"
    if ratio.value < 1:
        return text
    return "; ".join([text, *_loss_of(sweep), f"write {line_of(tried.candidate)}"])


def _loss_of(sweep: Sweep) -> list[str]:
    return loss_texts(loss_in(sweep)) or [_LOSS_NOT_COMPARED]


def tries_status(run: TryRun) -> str:
    """Say how far the tries are: 1 of 3 settings tried."""
    if run.stopping and not run.ended:
        return "stopping"
    if run.experiment is None:
        return "ended" if run.ended else "a first run"
    # The last one that has begun is under way.
    begun = sum(tried.sweep is not None for tried in run.tries) - (not run.ended)
    return f"{begun} of {units.counted(len(run.tries), 'setting')} tried"


def tries_headline(run: TryRun) -> tuple[str, list[str]]:
    """Return the answer while no setting is chosen, or why none is tried."""
    if problems := tries_problems(run):
        return "FAILED", problems
    if run.ended and run.first is None:
        return "STOPPED", ["nothing was tried"]
    if run.ended:
        return "NOTHING TO TRY", [text.removeprefix(_NOTHING) for text in tries_findings(run)]
    if run.follower is None:
        return "FIRST RUN", ["the script as it is is starting …"]
    figures = run_text("the script as it is", run.follower.snapshot())
    return "FIRST RUN", [figures, "where the time of a step goes says what to try"]


def tries_table(tries: Sequence[Try], is_over: bool) -> Table:
    """Return a row for each injection: its state, its ratio, and why it is tried or not kept."""
    rows = tuple(_row(tried, is_over) for tried in tries)
    levels = tuple(_LEVELS.get(row[1], "") for row in rows)
    return Table(("setting", "state", "as fast", ""), rows, levels=levels)


def _row(tried: Try, is_over: bool) -> tuple[str, ...]:
    sweep, state = tried.sweep, f"{tried.judgement}"
    if not is_over and tried.skipped is None and (sweep is None or sweep.closed is None):
        state = _WAITS if sweep is None else _TRYING
    elif tried.judgement in _GAINS:
        state = _FASTER
    ratio = None if sweep is None else verdict_of(sweep).ratio
    value = "" if ratio is None else verdicts.change(ratio.value)
    return injection_text(tried.candidate), state, value, _why(tried, state)


def _why(tried: Try, state: str) -> str:
    """Say why a setting is tried, and what came of it beside its ratio."""
    candidate, sweep = tried.candidate, tried.sweep
    if sweep is None or state == _TRYING:
        return tried.skipped or candidate.reason
    if state == _FASTER:
        alters = ["alters the training"] if candidate.kind.alters_training else []
        return "; ".join([*alters, *_loss_of(sweep)])
    if (broken := broken_run(sweep)) is not None:
        return broken[1].reason or f"{broken[1].status}"
    if verdict_of(sweep).ratio is None:
        return try_text(tried).partition(": ")[2]
    return "" if state == Judgement.SLOWER else interval_text(sweep)


def try_sentences(tried: Try) -> list[str]:
    """Return what stands behind the verdict on a try; a gain begins with the line to write."""
    assert tried.sweep is not None
    sentences, verdict = pair_findings(tried.sweep), verdict_of(tried.sweep)
    if verdict.ratio is None or broken_run(tried.sweep) is not None:
        return sentences
    sentences[0] = f"with {injection_text(tried.candidate)} ({interval_text(tried.sweep)})"
    if tried.sweep.closed is not None and tried.judgement in _GAINS:
        sentences.insert(1, f"write {line_of(tried.candidate)}")
        if loss_in(tried.sweep) is None:
            sentences.insert(2, _LOSS_NOT_COMPARED)
    return sentences


def best_so_far(tries: Sequence[Try], tried: Try) -> Try | None:
    """Return the fastest setting so far while another one is being tried; None without any."""
    if tried.sweep is None or tried.sweep.closed is not None:
        return None
    gains = {
        ratio.value: t
        for t in tries
        if t.sweep is not None
        and t.sweep.closed is not None
        and t.judgement in _GAINS
        and (ratio := verdict_of(t.sweep).ratio) is not None
    }
    return gains[max(gains)] if gains else None


def best_sentences(best: Try, tried: Try) -> list[str]:
    """Return what stands behind the fastest setting so far, and what is tried now."""
    assert best.sweep is not None
    assert tried.sweep is not None
    now, ratio = f"trying {injection_text(tried.candidate)}", verdict_of(tried.sweep).ratio
    if ratio is not None:
        now = f"{now}: {verdicts.change(ratio.value)} so far ({interval_text(tried.sweep)})"
    so_far = f"best so far, with {injection_text(best.candidate)} ({interval_text(best.sweep)})"
    return [so_far, now]


def try_headline(tried: Try) -> tuple[str, list[str]]:
    """Return the answer about a setting that has not been tried, or not yet."""
    word = "WAITS" if tried.skipped is None else "NOT TRIED"
    why = tried.skipped or tried.candidate.reason
    return word, [f"{injection_text(tried.candidate)}: {why}"]


def tries_notes(tries: Sequence[Try]) -> list[str]:
    """Return what holds for all gains together."""
    return [_TOGETHER] if sum(tried.judgement == Judgement.KEEP for tried in tries) > 1 else []


def tries_findings(run: TryRun) -> list[str]:
    """Return what came of all tries, the gains first, or why nothing was tried."""
    if run.tries:
        notes = tries_sections(run.tries)
        return [f"{note.heading}: {text}" for note in notes for text in note.sentences]
    if run.first is None or run.first.run is None or run.first.problem is not None:
        return []
    return candidates_text((), run.first.run)


def tries_problems(run: TryRun) -> list[str]:
    """Return why nothing, or not all, could be tried."""
    problems = [run.problem] if run.problem is not None else []
    if run.first is not None and run.first.problem is not None:
        problems.append(f"the script as it is: {run.first.problem}; nothing was tried")
    return [clean(problem) for problem in problems]


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
        "ratio": ratio and ratio.value,
        "low": ratio and ratio.low,
        "high": ratio and ratio.high,
        "pairs": 0 if ratio is None else ratio.pairs,
        "sweep": tried.id,
        "line": line_of(candidate),
        "text": try_text(tried),
    }
