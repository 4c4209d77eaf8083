"""Write the comparison of two sides of runs, as sections and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from os.path import commonprefix
from typing import Any

from dlmon.comparison.arguments import is_secret
from dlmon.comparison.compared_run import RATE_UNITS, RunFigures
from dlmon.comparison.sides import (
    ACCOUNT,
    METRIC,
    THROUGHPUT,
    ComparedFigure,
    Difference,
    NotComparable,
    RunComparison,
    compare_sides,
    failed_text,
    quantity_of,
    without_throughput,
)
from dlmon.figures.comparison import verdicts
from dlmon.figures.comparison.verdicts import doubts_of_all
from dlmon.figures.quantity_text import number_of
from dlmon.figures.redact import Redaction
from dlmon.figures.sections import (
    Figures,
    Heading,
    Kind,
    Level,
    Note,
    Section,
    Table,
    as_sentence,
    with_texts,
)
from dlmon.figures.session.time_breakdown import part_name
from dlmon.quantities import STEPS_PER_SECOND
from dlmon.records import Status, TimePart
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_LENGTH, clean
from dlmon.statistics.ratios import Basis, Ratio
from workloads.catalog import WORKLOADS

COLUMNS = ("", "base", "new", "change", "95 % interval", "p", "n")
_CHANGE = COLUMNS.index("change")
_LEVELS: dict[bool | None, Level] = {True: "good", False: "bad", None: ""}

NOT_SIGNIFICANT, NOT_TESTED = "~", "?"
LEGENDS = {
    NOT_SIGNIFICANT: "no significant difference: the interval, which allows for how runs differ, "
    "holds 0 %",
    NOT_TESTED: "not tested: one run a side, or runs of a side that don't differ at all, can't "
    "show how much runs differ from time to time",
}
"""The meaning of each sign before a change."""
UNKNOWN = "–"

_SHOWN_BEFORE = 8
"""Two long values keep this many of their common characters before the first difference."""

_LONGEST_METRIC, _MOST_NOT_NUMBERS = 20, 4


def describe_sides(it: RunComparison, anyway: bool = True) -> Iterator[Section]:
    """Yield the verdict on two sides, their figures and their differences.

    The figures of unlike runs are shown only if `anyway`.
    """
    names = tuple(run.name or run.session for run in (*it.base, *it.new, *it.left_out))
    yield Figures("", (("base", clean(side_name(it.base))), ("new", clean(side_name(it.new)))))

    def note(sentences: Sequence[str], kind: Kind = "plain") -> Iterator[Note]:
        if sentences:
            yield Note(tuple(clean(as_sentence(sentence, names)) for sentence in sentences), kind)

    is_refused = bool(it.unlike) and not anyway
    yield from note([why_unlike(it) if is_refused else verdict(it)], "verdict")
    differing = (
        ("Different arguments", it.arguments),
        ("Different options", it.options),
        ("Different environment", it.environment),
    )
    of_arguments, *of_others = (
        Figures(heading, tuple((d.name, changed_text(d)) for d in differences))
        for heading, differences in differing
    )
    if not is_refused:
        yield from note(doubts(it), "warning")
    if of_arguments.rows:
        # The arguments of a script are usually what a person compares.
        yield of_arguments
    if not is_refused:
        table = figure_table(it)
        yield table
        yield from note([*legends(table), *notes(it)])
    yield from (section for section in of_others if section.rows)


def figure_table(comparison: RunComparison) -> Table:
    """Return the figures of both sides; a row has a level if new is better or worse."""
    names = _names_of(comparison)
    rows = tuple(_row(figure, names(figure.name)) for figure in comparison.figures)
    levels = tuple(_LEVELS[figure.is_better] for figure in comparison.figures)
    numeric = (False, *(True,) * (len(COLUMNS) - 1))
    return Table(COLUMNS, rows, numeric, levels=levels, dropped=("n", "p", "95 % interval"))


def _names_of(comparison: RunComparison) -> Callable[[str], str]:
    """Return a function that names a figure, with its unit; scripts have other names for some."""
    runs = (*comparison.base, *comparison.new)
    compiled = all(run.compiles for run in runs)
    is_script = all(run.command is not None for run in runs)
    # If one side counts samples and the other steps, the verdict says so.
    rate = "throughput" if comparison.throughput.why else runs[0].throughput_unit
    names = {THROUGHPUT: rate} | ({} if compiled else {"compile_s": "first batches, extra s"})

    def name(figure: str) -> str:
        if figure.startswith(ACCOUNT):
            part = TimePart(figure.removeprefix(ACCOUNT))
            return f"{part_name(part, is_script, compiled)}, s"
        if figure.startswith(METRIC):
            return f"last {clean(figure.removeprefix(METRIC), _LONGEST_METRIC)}"
        return names.get(figure) or quantity_of(figure).title

    return name


def _row(figure: ComparedFigure, name: str) -> tuple[str, ...]:
    ratio = figure.ratio
    base, new = (
        UNKNOWN if value is None else number_of(quantity_of(figure.name), value, beside)
        for value, beside in ((figure.base, figure.new), (figure.new, figure.base))
    )
    interval = ""
    if ratio is not None and ratio.low is not None and ratio.high is not None:
        low, high = map(verdicts.signed_pct, (ratio.low, ratio.high))
        interval = f"{low} to {high} %"
    return (
        name,
        base,
        new,
        "" if ratio is None else change_text(ratio),
        interval,
        "" if ratio is None or ratio.p is None else p_text(ratio.p),
        "+".join(map(str, figure.runs)),
    )


def change_text(ratio: Ratio) -> str:
    """Write a change: +4.9 %, or ~ +0.4 % if not significant, or ? +4.9 % if not tested."""
    mark = NOT_TESTED if ratio.p is None else "" if ratio.is_significant else NOT_SIGNIFICANT
    return f"{mark} {verdicts.signed_pct(ratio.value)} %".lstrip()


def p_text(p: float) -> str:
    """Write a probability: 0.41, 0.003 or <0.001."""
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def side_name(runs: Sequence[RunFigures]) -> str:
    """Name a side by the common name of its runs, else by its first run and the rest."""
    names = {run.name for run in runs}
    name = names.pop() if len(names) == 1 else None
    if len(runs) == 1:
        return name or runs[0].session
    if name:
        return f"{name}, {len(runs)} runs"
    first, second = (run.name or run.session for run in runs[:2])
    return f"{first} and {second if len(runs) == 2 else f'{len(runs) - 1} more'}"


def verdict(comparison: RunComparison) -> str:
    """Compare the throughputs of the two sides in a sentence."""
    throughput = comparison.throughput
    factor = throughput.ratio or throughput.why or "a side has no throughput"
    if not isinstance(factor, Ratio) or factor.p is not None:
        return verdicts.verdict(factor, "base", subject="new is ")
    fewest = min(throughput.runs)
    unsure = (
        "the runs of a side do not differ at all"
        if fewest > 1
        else "1 run each"
        if throughput.runs == (1, 1)
        else "1 run on a side"
    )
    sentence = verdicts.verdict(factor, "base", unsure, subject="new is ")
    return sentence if fewest > 1 else f"{sentence}; {_advice(comparison)}"


def _advice(comparison: RunComparison) -> str:
    """Return advice, with a command, on how to measure the spread between runs."""
    workload = comparison.new[0].workload
    command = f"dlmon sweep {workload}" if workload in WORKLOADS else "dlmon exec"
    return f"repeat each 3 times to see how much runs differ ({command} --repeat 3)"


def legends(table: Table) -> list[str]:
    """Explain the signs that a table has."""
    signs = {row[_CHANGE][:1] for row in table.rows}
    return [f"{sign} {meaning}" for sign, meaning in LEGENDS.items() if sign in signs]


def doubts(comparison: RunComparison) -> list[str]:
    """Return the warnings about comparing these runs by these figures."""
    sentences = [f"not comparable: {difference}" for difference in comparison.unlike]
    more = comparison.others_took_more
    if more is not None:
        side = "new" if more > 0 else "base"
        sentences.append(f"other programs took {abs(more):.1f} cores more in {side}")
    epoch = comparison.epoch_time_against_throughput
    if epoch is not None:
        direction = "more" if epoch > 1 else "less"
        share = verdicts.pct(abs(epoch - 1))
        sentences.append(f"an epoch took {share} % {direction} time in new even so")
    runs = (*comparison.base, *comparison.new)
    of_all = doubts_of_all([run.warnings if run.valid is False else {} for run in runs])
    every = "both" if len(runs) == 2 else f"all {len(runs)}"
    sentences.extend(f"{every} runs: {text}" for text in of_all.values())
    for run in runs:
        name = run.name or run.session
        if run.status == Status.FAILED:
            sentences.append(f"{name} {failed_text(run)}: its figures are those up to then")
        if run.status == Status.RUNNING:
            sentences.append(f"{name} is still running: its figures are those so far")
        if run.status == Status.UNKNOWN:
            sentences.append(f"whether {name} still runs on {run.host} can't be seen from here")
        if run.valid is False and (not run.warnings or run.warnings.keys() - of_all.keys()):
            texts = (text for doubt, text in run.warnings.items() if doubt not in of_all)
            reasons = "; ".join(texts) or "its figures may be off"
            sentences.append(f"{name}: {reasons}")
        for metric, value in list(run.not_numbers.items())[:_MOST_NOT_NUMBERS]:
            sentences.append(f"{name}: the last {clean(metric, _LONGEST_METRIC)} is {value}")
    sentences.extend(f"left out: {without_throughput(run)}" for run in comparison.left_out)
    return sentences


def notes(comparison: RunComparison) -> list[str]:
    """Say how the interval was estimated, and which figures are not compared."""
    name = _names_of(comparison)
    unlike: dict[str, list[str]] = {}
    for figure in comparison.figures:
        if figure.why is not None and figure.name != THROUGHPUT:
            text = name(figure.name)
            if figure.name.startswith(ACCOUNT):
                text = "what each batch adds to the time"
            elif figure.name.startswith(METRIC):
                text = "what the metrics came to"
            unlike.setdefault(figure.why, []).append(text)
    texts = [_not_compared(list(dict.fromkeys(names)), why) for why, names in unlike.items()]
    ratio = comparison.throughput.ratio
    if ratio is not None and ratio.basis is Basis.LIKE_RUNS:
        texts.append("how runs differ is taken from other runs of the same conditions here")
    if ratio is not None and ratio.basis is Basis.WITHIN_RUNS:
        texts.append("the interval is of how these runs varied by themselves, not of how runs do")
    return texts


def _not_compared(names: Sequence[str], why: str) -> str:
    *first_names, last = names
    listed = f"{', '.join(first_names)} and {last}" if first_names else last
    return f"{listed} {'are' if first_names else 'is'} not compared: {why}"


def changed_text(difference: Difference) -> str:
    """Write the values of both sides: 2 → 4; long ones start at their first difference."""
    texts = difference.base, difference.new
    skipped = len(commonprefix(texts)) - _SHOWN_BEFORE  # noqa: RUF071 - characters are meant
    if max(map(len, texts)) > SHOWN_LENGTH and skipped > 1:
        texts = f"…{texts[0][skipped:]}", f"…{texts[1][skipped:]}"
    return " → ".join(clean(text, SHOWN_LENGTH) for text in texts)


def why_unlike(comparison: RunComparison) -> str:
    """Say why two sides don't compare."""
    return f"these runs do not compare: {'; '.join(comparison.unlike)}"


def sides_json(comparison: RunComparison) -> dict[str, Any]:
    """Return a comparison as `compare --json` prints it."""
    return {
        "verdict": str(comparison.claim),
        "unlike": list(comparison.unlike),
        "base": [_run_json(run) for run in comparison.base],
        "new": [_run_json(run) for run in comparison.new],
        "figures": {figure.name: _figure_json(figure) for figure in comparison.figures},
        "arguments": _differences_json(comparison.arguments),
        "options": _differences_json(comparison.options),
        "environment": _differences_json(comparison.environment),
        "doubts": doubts(comparison),
        "notes": notes(comparison),
    }


def _figure_json(figure: ComparedFigure) -> dict[str, Any]:
    ratio = figure.ratio
    return {
        "base": figure.base,
        "new": figure.new,
        "change_pct": None if ratio is None else _change_pct(ratio.value),
        "low_pct": None if ratio is None else _change_pct(ratio.low),
        "high_pct": None if ratio is None else _change_pct(ratio.high),
        "p": None if ratio is None else ratio.p,
        "basis": None if ratio is None else ratio.basis,
        "significant": ratio is not None and ratio.is_significant,
        "runs": list(figure.runs),
        "why": figure.why,
    }


def _change_pct(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * (ratio - 1)


def _run_json(run: RunFigures) -> dict[str, Any]:
    return {
        "session": run.session,
        "name": run.name,
        "log": run.log,
        "workload": run.workload,
        "status": run.status,
        "wall": run.wall,
        "figures": dict(run.values),
        "counts_steps": run.throughput_unit == RATE_UNITS[STEPS_PER_SECOND],
        "valid": run.valid,
        "against": dict(run.warnings),
    }


def _differences_json(differences: tuple[Difference, ...]) -> dict[str, Any]:
    return {d.name: {"base": d.base, "new": d.new} for d in differences}


@record(frozen=True)
class Compared:
    """A comparison of two sides in a report; without JSON if they don't compare."""

    sections: tuple[Section, ...]
    as_json: Mapping[str, Any] | None = None


def compared(
    base: tuple[Sequence[RunFigures], str],
    new: tuple[Sequence[RunFigures], str],
    earlier: Sequence[RunFigures] = (),
    full: bool = False,
) -> Compared:
    """Compare two sides of a report, each given as its runs and its name."""
    (base_runs, base_name), (new_runs, new_name) = base, new
    heading = Heading(f"{new_name} (new) beside {base_name} (base)")
    redaction = Redaction(full)
    try:
        sides = compare_sides(base_runs, new_runs, earlier)
    except NotComparable as refused:
        names = tuple(run.name or run.session for run in (*base_runs, *new_runs))
        sentence = as_sentence(redaction.text(str(refused)), names)
        return Compared((heading, Note((sentence,), "verdict")))
    for run in (*sides.base, *sides.new):
        redaction.learn_names(run.host, {**run.options, "command": " ".join(run.command or ())})
    if not full:
        sides = replace(sides, arguments=tuple(map(_without_secret, sides.arguments)))
    # The report of each run has its warnings, from records without other people's programs.
    base_runs, new_runs = (
        tuple(replace(run, valid=None, warnings={}, log=run.log if full else None) for run in side)
        for side in (sides.base, sides.new)
    )
    sides = replace(sides, base=base_runs, new=new_runs)
    # The first section names both sides, as the heading does.
    _, *sections = describe_sides(sides, anyway=False)
    return Compared(
        (heading, *with_texts(tuple(sections), redaction.text)),
        None if sides.unlike else redaction.value(sides_json(sides)),
    )


def _without_secret(difference: Difference) -> Difference:
    """Return a difference without its values if the option's name is that of a secret."""
    if not is_secret(difference.name):
        return difference
    return replace(difference, base="(left out)", new="(another)")
