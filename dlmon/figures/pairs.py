"""An experiment of pairs as sentences, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from dlmon.comparison.compared_run import RATE_UNITS
from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.sections import Section, Table
from dlmon.figures.session.doubts import DOUBT_NAMES
from dlmon.options.run_options import in_words
from dlmon.records import RunStatus, SweepHeader, TimePart, Value
from dlmon.statistics.pairs import FIRST_LOOK, FIRST_PAIRS, PairedRatio
from dlmon.statistics.ratios import Basis, Ratio
from dlmon.sweep.pairs import (
    BASE,
    NEW,
    Pair,
    Verdict,
    broken_run,
    is_enough,
    pair_s,
    run_without_rate,
    verdict_of,
)
from dlmon.sweep.plan import Plan
from dlmon.sweep.progress import Sweep
from dlmon.sweep.variants import AS_IT_IS, AS_IT_LIES, COMMIT, INJECTION

# The first screen lists sweeps, and shows no parts.
if TYPE_CHECKING:
    from dlmon.sweep.pair_causes import Causes, LossDifference, PartDifference

_PARTS_SHOWN = 8
_LEAST_PART = 0.005
"""The share of a step from which on a part is shown though it isn't surely longer or shorter."""
_LITTLE_MEMORY = 0.02
_LEAST_MS = 0.001
_FILES_SHOWN = 3
_NO_DIFFERENCE = "no clear difference"


def side_names(plan: Plan) -> tuple[str, str]:
    """Return the names of base and new: main and HEAD, or workers 4 and workers 8."""
    named = _tried_name if is_try(plan) else _side_name
    base, new = (named(combination.varied) for combination in plan.combinations)
    return base, new


def side_headings(plan: Plan) -> tuple[str, str]:
    """Return the names of base and new as headings: as it is, and num_workers 4."""
    base, new = (name.removeprefix("the script ") for name in side_names(plan))
    return base, new


def is_try(plan: Plan) -> bool:
    """Return whether one side is the script as it is, without an injection."""
    return any(AS_IT_IS in combination.varied.values() for combination in plan.combinations)


def _tried_name(varied: Mapping[str, Value]) -> str:
    if AS_IT_IS in varied.values():
        return "the script as it is"
    return ", ".join(f"{key.removeprefix(INJECTION)} {varied[key]}" for key in varied)


def _side_name(varied: Mapping[str, Value]) -> str:
    if COMMIT not in varied:
        return in_words(varied)
    return "your files" if varied[COMMIT] == AS_IT_LIES else f"{varied[COMMIT]}"


def pairs_text(plan: Plan) -> str:
    """Describe the experiment: pairs of train.py, main and HEAD, until ± 2 % or for 20 min."""
    assert plan.pairs is not None
    base, new = side_names(plan)
    rule = plan.pairs
    proof = "a difference is proven, or " if rule.until_proven else ""
    until = f"until {proof}± {units.share(rule.to)} or for {units.clock(rule.for_s)}"
    window = "" if rule.window_s is None else f", {units.clock(rule.window_s)} of training a run"
    return f"pairs of {plan.workloads[0]}: {base} (base) and {new} (new), {until}{window}"


def progress_text(sweep: Sweep) -> str:
    """Say how many pairs there are and how many are missing, by the present spread."""
    verdict, rule = verdict_of(sweep), sweep.plan.pairs
    assert rule is not None
    if is_enough(sweep):
        return units.counted(len(verdict.pairs), "pair")
    if verdict.missing is None:
        if rule.until_proven:
            return f"at least {FIRST_LOOK} pairs; how many more is known after {FIRST_PAIRS}"
        return f"how many it takes is known after {FIRST_PAIRS} pairs"
    took_s = pair_s(sweep)
    about = "" if took_s is None else f", about {units.clock(verdict.missing * took_s)},"
    more = units.counted(verdict.missing, "more pair")
    return f"{more}{about} give ± {units.share(rule.to)}"


def verdict_in_short(sweep: Sweep) -> str:
    """Return the verdict as a word and a figure: FASTER 1.31×, NOT YET, FAILED."""
    verdict = verdict_of(sweep)
    if broken_run(sweep) is not None:
        return "FAILED"
    if verdict.ratio is None:
        return "NO VERDICT" if is_enough(sweep) else "NOT YET"
    if verdict.ratio.low is None or not verdict.is_settled:
        return "NOT PROVEN"
    if not verdict.is_proven:
        return "NO CLEAR DIFFERENCE"
    ratio = verdict.ratio.value
    return f"{claim_of(verdict).upper()} {verdicts.change(max(ratio, 1 / ratio))}"


def verdict_text(sweep: Sweep) -> str:
    """Say which side is faster, or why nobody knows; empty before the first pair."""
    verdict, (base, new) = verdict_of(sweep), side_names(sweep.plan)
    broken = broken_run(sweep)
    if broken is not None:
        slot, outcome = broken
        named = f"{(base, new)[slot.combination]} {outcome.status}: {outcome.reason}"
        told = outcome.reason if outcome.status == RunStatus.IMPOSSIBLE else named
        return f"{told}; the experiment ended with it"
    if verdict.ratio is None:
        return _why_no_verdict(sweep, verdict) if is_enough(sweep) else ""
    return _verdict(verdict, base, new)


def pair_findings(sweep: Sweep) -> list[str]:
    """Return what the pairs say as sentences: the verdict, its cause, and what is set aside."""
    verdict, (base, new) = verdict_of(sweep), side_names(sweep.plan)
    sentences = [text] if (text := verdict_text(sweep)) else []
    if verdict.ratio is None or broken_run(sweep):
        return sentences
    causes = causes_in(sweep)
    if causes is not None:
        sentences += [*_sizes(causes), *_cause(causes, verdict), *_memory(causes)]
    sentences += loss_texts(loss_in(sweep))
    sentences += _code(sweep, new)
    if verdict.with_all is not None:
        all_of_it = verdicts.verdict(_as_ratio(verdict.with_all), base)
        sentences.append(f"with the pairs that were set aside: {all_of_it}")
    rule = sweep.plan.pairs
    assert rule is not None
    half = verdict.ratio.half_width
    if not is_enough(sweep) or (half is not None and half <= rule.to * 1.005):
        return sentences
    if verdict.missing is None:
        sentences.append(
            f"no further pair fits into --for: the first {FIRST_PAIRS} pairs say how many it takes"
        )
    elif verdict.missing and half is not None:
        more = units.counted(verdict.missing, "more pair")
        sentences.append(
            f"no further pair fits into --for, at ± {units.share(half)}: {more} would give ± "
            f"{units.share(rule.to)}"
        )
    return sentences


def _why_no_verdict(sweep: Sweep, verdict: Verdict) -> str:
    first = run_without_rate(sweep)
    if first is not None:
        why = first.why.get("samples_per_second", "the first run has no throughput")
        return f"nothing to compare: {why}"
    if not verdict.pairs:
        assert sweep.plan.pairs is not None
        shorter = "" if sweep.plan.pairs.window_s is None else ", or a shorter --window"
        return f"no pair fits into --for: it takes a longer one{shorter}"
    if any(pair.ratio is not None for pair in verdict.pairs):
        return "every pair was set aside, so there is no verdict"
    return "no pair has a throughput, so there is no verdict"


def interval_text(sweep: Sweep) -> str:
    """Return the interval of the figure of a verdict, and its pairs: 1.06× to 1.07×; 5 pairs."""
    verdict, (base, new) = verdict_of(sweep), side_names(sweep.plan)
    ratio, pairs = verdict.ratio, _pairs_text(verdict, base, new)
    if ratio is None or ratio.low is None or ratio.high is None:
        return pairs
    is_slower = verdict.is_proven and ratio.value < 1
    low, high = (1 / ratio.high, 1 / ratio.low) if is_slower else (ratio.low, ratio.high)
    return f"{verdicts.change(low, high)}; {pairs}"


def sides_compared(sweep: Sweep) -> str:
    """Name both sides and the interval, below a headline that has the figure if it is proven."""
    verdict, (base, new) = verdict_of(sweep), side_names(sweep.plan)
    figure = ""
    if verdict.ratio is not None and not verdict.is_proven:
        figure = f": {verdicts.change(verdict.ratio.value)} as fast"
    return f"{new} against {base}{figure} ({interval_text(sweep)})"


def _pairs_text(verdict: Verdict, base: str, new: str) -> str:
    assert verdict.ratio is not None
    pairs = units.counted(verdict.ratio.pairs, "pair")
    if verdict.ratio.low is None:
        pairs = f"{pairs}, which proves nothing"
    elif not verdict.is_settled:
        pairs = f"{pairs}, too few to judge by"
    if verdict.set_aside:
        reasons = dict.fromkeys(_aside_text(pair, base, new) for pair in verdict.set_aside)
        pairs = f"{pairs}, {len(verdict.set_aside)} set aside: {'; '.join(reasons)}"
    return pairs


def _verdict(verdict: Verdict, base: str, new: str) -> str:
    assert verdict.ratio is not None
    ratio = _as_ratio(verdict.ratio)
    # Before enough pairs there is a figure and no verdict.
    told = ratio if verdict.is_settled else Ratio(ratio.value)
    text = verdicts.verdict(told, base, subject=f"{new} is ")
    if text.startswith(_NO_DIFFERENCE):
        text = f"{new} has {text}"
    return f"{text}; {_pairs_text(verdict, base, new)}"


def _as_ratio(ratio: PairedRatio) -> Ratio:
    p = None if ratio.low is None else 0.0 if ratio.is_proven else 1.0
    return Ratio(ratio.value, ratio.low, ratio.high, p, Basis.RUNS)


def _aside_text(pair: Pair, base: str, new: str) -> str:
    assert pair.set_aside is not None
    doubt, side = pair.set_aside
    return f"{DOUBT_NAMES[doubt]} in {(base, new)[side]}"


def causes_in(sweep: Sweep) -> Causes | None:
    """Return where the difference comes from; None if no pair's figures were read."""
    from dlmon.sweep.pair_causes import causes_of

    pairs = [
        (sweep.figures[pair.base.session], sweep.figures[pair.new.session])
        for pair in verdict_of(sweep).counted
        if {pair.base.session, pair.new.session} <= sweep.figures.keys()
    ]
    return causes_of(pairs) if pairs else None


def loss_in(sweep: Sweep) -> LossDifference | None:
    """Return the loss of both sides over the same steps; None if it isn't known."""
    from dlmon.sweep.pair_causes import loss_difference

    return loss_difference(sweep)


def _sizes(causes: Causes) -> list[str]:
    if causes.sizes is None:
        return []
    base, new = (f"{size:,g}" for size in causes.sizes)
    return [
        f"a step has {base} samples in base and {new} in new: its parts are no part of the verdict"
    ]


def _cause(causes: Causes, verdict: Verdict) -> list[str]:
    """Name the parts of a step that the difference comes from.

    If it isn't proven, name the part that is: a machine's noise may hide a small change of a step,
    but not that of one of its parts.
    """
    from dlmon.sweep.pair_causes import STEPS

    if verdict.ratio is None or causes.step is None:
        return []
    if not verdict.is_proven:
        certain = [part for part in causes.parts if part.is_certain and part.part != STEPS]
        if not certain or verdict.ratio.pairs < FIRST_PAIRS:
            return []
        part = f"{part_text(certain[0].part)} differs by {difference_text(certain[0])} a step"
        return [f"{part}; whole steps are too noisy to show it"]
    leading = causes.leading
    if not leading:
        return ["no single part of a step is surely longer or shorter"]
    if leading[0].part == STEPS:
        longer = difference_text(leading[0])
        return [f"{longer} a step is in the steps themselves, whose parts are not known"]
    texts = [f"{part_text(part.part)}, {difference_text(part)} a step" for part in leading]
    if len(leading) == 1 and causes.explains_all(leading[0]):
        return [f"all of it is {texts[0]}"]
    step = difference_text(causes.step)
    return [f"of {step} a step, most is {' and '.join(texts)}"]


def part_text(part: str) -> str:
    """Name a part of a step or of the time breakdown."""
    from dlmon.comparison.sides import ACCOUNT, STEP_PART
    from dlmon.figures.session.time_breakdown import STEP_NAMES, part_name

    if part.startswith(STEP_PART):
        return STEP_NAMES[part.removeprefix(STEP_PART).replace("_ms", "_us")]
    return part_name(TimePart(part.removeprefix(ACCOUNT)), True, False)


def difference_text(part: PartDifference) -> str:
    """Write a difference with its interval: +11.0 ± 1.2 ms; no change if both are zero."""
    half_ms = part.half_ms
    if max(abs(part.difference_ms), half_ms or 0.0) < _LEAST_MS:
        return "no change"
    is_exact = half_ms is None or half_ms < _LEAST_MS
    decimals = _decimals(part.difference_ms, 3) if is_exact else _decimals(half_ms or 0.0, 2)
    half = "" if half_ms is None else f" ± {half_ms:.{decimals}f}"
    return f"{part.difference_ms:+.{decimals}f}{half} ms".replace("-", "−")


def sides_text(part: PartDifference) -> tuple[str, str]:
    """Write the milliseconds of both sides with the same decimals: 20.0 and 21.3."""
    decimals = _decimals(max(part.base_ms, part.new_ms), 3)
    return f"{part.base_ms:.{decimals}f}", f"{part.new_ms:.{decimals}f}"


def _decimals(ms: float, digits: int) -> int:
    """Return the decimals for so many digits of a time; not below a microsecond."""
    return max(0, min(3, digits - 1 - math.floor(math.log10(max(abs(ms), _LEAST_MS)))))


def _memory(causes: Causes) -> list[str]:
    if causes.memory is None:
        return []
    name, ratio = causes.memory
    of = "GPU memory" if name.startswith("gpu") else "memory"
    if abs(ratio.value - 1) < _LITTLE_MEMORY or not ratio.is_proven:
        return [f"peak {of} alike"]
    return [f"peak {of} {verdicts.change(ratio.value)}"]


def loss_texts(loss: LossDifference | None) -> list[str]:
    """Say whether both sides have the same loss over the same steps; empty if that isn't known."""
    if loss is None:
        return []
    same = f"over the same {units.counted(loss.steps, 'step')}"
    if loss.is_alike:
        return [f"loss alike {same}"]
    base, new, spread = map(units.metric, (loss.base, loss.new, loss.spread))
    apart = f"two runs of one side are at most {spread} apart"
    return [f"the loss differs {same}: {base} in base, {new} in new; {apart}"]


def _code(sweep: Sweep, new: str) -> list[str]:
    """Say how many files differ between the commits, and which of them the script imports."""
    if sweep.changed is None:
        return []
    imported = {file for run in sweep.figures.values() for file in run.imported}
    # A renamed file has both of its names.
    names = [file.name.split(" → ")[-1] for file in sweep.changed]
    used = [name for name in names if name in imported]
    changes = f"{new} changes {units.counted(len(names), 'file')}"
    if not names or not sweep.figures:
        return [changes]
    if not imported:
        return [
            f"{changes}; the script imports none of the repository's files: installed elsewhere?"
        ]
    if not used:
        return [f"{changes}; the script imports none of them"]
    rest = f" and {len(used) - _FILES_SHOWN} more" if len(used) > _FILES_SHOWN else ""
    return [f"{changes}; the script imports {len(used)}: {', '.join(used[:_FILES_SHOWN])}{rest}"]


def pair_table(sweep: Sweep) -> Table:
    """Return a row for each pair: both rates, their ratio, and why it doesn't count."""
    verdict, (base, new) = verdict_of(sweep), side_names(sweep.plan)
    unit = RATE_UNITS[verdict.metric]
    rows = tuple(
        (
            f"{pair.number}",
            rate_text(pair.rates[BASE]),
            rate_text(pair.rates[NEW]),
            "" if pair.ratio is None else verdicts.change(pair.ratio),
            "" if pair.set_aside is None else f"set aside: {_aside_text(pair, base, new)}",
        )
        for pair in verdict.pairs
    )
    headings = ("pair", f"{base}, {unit}", f"{new}, {unit}", "new/base", "")
    return Table(headings, rows, (True, True, True, True, False), heading="Pairs")


def rate_text(rate: float | None) -> str:
    """Write the rate of a run; – if it has none."""
    return "–" if rate is None else units.rate(rate)


def part_table(sweep: Sweep) -> Table | None:
    """Return the parts of a step of both sides; None before their figures are read."""
    causes, (base, new) = causes_in(sweep), side_names(sweep.plan)
    if causes is None or not causes.parts:
        return None
    least_ms = 0.0 if causes.step is None else _LEAST_PART * causes.step.base_ms
    told = (p for p in causes.parts if p.is_proven or max(p.base_ms, p.new_ms) > least_ms)
    parts = [*([causes.step] if causes.step else []), *islice(told, _PARTS_SHOWN)]
    rows = tuple(
        (
            "step" if part is causes.step else part_text(part.part),
            *sides_text(part),
            difference_text(part).removesuffix(" ms"),
        )
        for part in parts
    )
    return Table(
        ("ms a step", base, new, "difference"),
        rows,
        (False, True, True, True),
        heading="Where it comes from",
        levels=tuple("strong" if part.is_proven else "" for part in parts),
    )


def pair_sections(sweep: Sweep) -> list[Section]:
    """Return the tables of an experiment; none before a pair is complete."""
    if not verdict_of(sweep).pairs:
        return []
    parts = part_table(sweep)
    return [pair_table(sweep), *([parts] if parts is not None else [])]


def pairs_json(
    header: SweepHeader, sweep: Sweep, path: str, name: str | None = None
) -> dict[str, Any]:
    """Return an experiment of pairs as `--json` prints it."""
    verdict, causes = verdict_of(sweep), causes_in(sweep)
    rule, (base, new) = sweep.plan.pairs, side_names(sweep.plan)
    assert rule is not None
    loss = loss_in(sweep)
    return {
        "sweep": header.id,
        "name": name,
        "log": path,
        "seed": header.seed,
        "base": base,
        "new": new,
        "options": [dict(combination.varied) for combination in sweep.plan.combinations],
        "metric": verdict.metric,
        "verdict": claim_of(verdict),
        **_ratio_json(verdict.ratio),
        "to": rule.to,
        "needed": verdict.needed,
        "with_set_aside": _ratio_json(verdict.with_all) if verdict.with_all else None,
        "pairs": [_pair_json(pair) for pair in verdict.pairs],
        "step": None if causes is None or causes.step is None else asdict(causes.step),
        "parts": {} if causes is None else {p.part: asdict(p) for p in causes.parts},
        "loss": None if loss is None else _loss_json(loss),
        "findings": pair_findings(sweep),
    }


def claim_of(verdict: Verdict) -> str:
    """Return faster, slower or no clear difference, of new against base."""
    if verdict.ratio is None or not verdict.is_proven:
        return "no clear difference"
    return "faster" if verdict.ratio.value > 1 else "slower"


def _ratio_json(ratio: PairedRatio | None) -> dict[str, float | None]:
    values = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
    return dict(zip(("ratio", "low", "high"), values, strict=True))


def _pair_json(pair: Pair) -> dict[str, Any]:
    aside = pair.set_aside
    return {
        "base": pair.base.session,
        "new": pair.new.session,
        "ratio": pair.ratio,
        "set_aside": None if aside is None else {"why": aside[0], "side": _SIDES[aside[1]]},
    }


_SIDES: Mapping[int, str] = {BASE: "base", NEW: "new"}


def _loss_json(loss: LossDifference) -> dict[str, float | None]:
    # JSON has no NaN.
    finite = {name: v if math.isfinite(v) else None for name, v in asdict(loss).items()}
    return {**finite, "alike": loss.is_alike}
