"""Write the comparison of two sides of runs, as sections and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os.path import commonprefix
from typing import Any

from dlmon.comparison.arguments import is_secret
from dlmon.comparison.compared_run import RATE_UNITS, RunFigures
from dlmon.comparison.sides import (
    ACCOUNT,
    CONTENTS,
    METRIC,
    STEP_PART,
    THROUGHPUT,
    ChangedFile,
    ComparedFigure,
    Difference,
    NotComparable,
    NoThroughput,
    RunComparison,
    compare_sides,
    failed_text,
    quantity_of,
    without_throughput,
)
from dlmon.figures import units
from dlmon.figures.comparison import verdicts
from dlmon.figures.quantity_text import number_of
from dlmon.figures.redact import Redaction
from dlmon.figures.sections import (
    Bar,
    Bars,
    Figures,
    Heading,
    Kind,
    Level,
    Note,
    Row,
    Section,
    Table,
    as_sentence,
    with_texts,
)
from dlmon.figures.session.doubts import doubts_of_all
from dlmon.figures.session.time_breakdown import STEP_NAMES, part_name
from dlmon.quantities import QUANTITIES, STEPS_PER_SECOND
from dlmon.records import Status, TimePart, to_json
from dlmon.records.record import record
from dlmon.records.sanitize import SHOWN_LENGTH, clean
from dlmon.session.code_changes import with_code_changes
from dlmon.statistics.ratios import Basis, Ratio
from workloads.catalog import WORKLOADS

_BAR = " bad│good"
_INTERVAL = "95 % interval"
COLUMNS = ("", "base", "new", "new/base", _BAR, _INTERVAL, "p", "n")
_CHANGE = COLUMNS.index("new/base")
_BAR_CELLS = 4
_LEAST_FULL = math.log(1.1)
"""A bar has its full length for the largest change, but not for one below 10 %."""
_LEVELS: dict[bool | None, Level] = {True: "good", False: "bad", None: ""}

NOT_SIGNIFICANT, NOT_TESTED = "~", "?"
LEGENDS = {
    NOT_SIGNIFICANT: "no significant difference: the interval, which allows for how runs differ, "
    "holds 1×",
    NOT_TESTED: "not tested: so few runs, or runs of a side that don't differ at all, can't show "
    "how much runs differ from time to time",
}
"""The meaning of each sign before a change."""
UNKNOWN = "–"
_NOTHING_DIFFERS = "nothing that is known of arguments, code and machine differs"
SAME = "About the same"
"""The heading of the figures that are the same in both sides."""
_WITHIN = 0.01
_COMPILING = f"{ACCOUNT}{TimePart.COMPILING}"
_IN_STEPS = (f"{ACCOUNT}{TimePart.TRAINING}", f"{ACCOUNT}{TimePart.DATA_WAIT}")
_OF_GPUS = frozenset(quantity.key for quantity in QUANTITIES if quantity.gpu is not None)

_SHOWN_BEFORE = 8
"""Two long values keep this many of their common characters before the first difference."""

_LONGEST_METRIC, _MOST_NOT_NUMBERS, _MOST_FILES = 20, 4, 12


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
    if is_refused:
        yield from note([why_unlike(it)], "verdict")
    else:
        (answer,) = note([verdict(it), *_cause(it), *_changed_loss(it)], "verdict")
        yield replace(answer, sentences=(*answer.sentences, *advice(it)))
    # Another device explains more than all figures do.
    texts = (f"{d.name} {changed_text(_brief_device(d))}" for d in it.environment)
    yield from note([f"differs: {', '.join(texts)}"] * bool(it.environment), "list")
    if not is_refused:
        yield from note(_doubts_of_sides(it), "warning")
    # What was changed is usually what a person compares.
    changed = (("Different arguments", it.arguments), ("Different options", it.options))
    sections = [*(_differing(*part) for part in changed), _different_code(it)]
    yield from (section for section in sections if section.rows)
    if not (it.environment or it.unlike or any(section.rows for section in sections)):
        yield from note([_NOTHING_DIFFERS])
    if not is_refused:
        table = figure_table(it)
        yield table
        same = _own_rows(it, filter(is_same, _shown_figures(it)))
        yield from [Figures(SAME, same, in_columns=True)] * bool(same)
        yield from note([*legends(table), *notes(it)])
        yield from note(_doubts_of_figures(it), "warning")


def _brief_device(it: Difference) -> Difference:
    """Return a difference with the usual names of devices."""
    is_device = it.name in ("device", "CPU")
    return replace(it, base=units.device(it.base), new=units.device(it.new)) if is_device else it


def _differing(heading: str, differences: Sequence[Difference]) -> Figures:
    return Figures(heading, tuple((d.name, changed_text(d)) for d in differences))


def _different_code(comparison: RunComparison) -> Figures:
    """Return how the versions of a script differ, with the files that changed between them."""
    code, versions = comparison.code, comparison.versions
    if code is None:
        return _differing("Different code", versions)
    rows = [(clean(name), "its script is not as in its commit") for name in code.uncommitted]
    if code.files is None:
        rows += [("files", f"not listed: {clean(code.why)}")] * (code.base != code.new)
    else:
        if code.files and not code.uncommitted:
            # The files say more than the hash of one of them.
            versions = tuple(d for d in versions if not d.name.startswith(CONTENTS))
        rows += [(_file_name(file.name), _lines_text([file])) for file in code.files[:_MOST_FILES]]
        rest = code.files[_MOST_FILES:]
        rows += [(f"{len(rest):,} more files", _lines_text(rest))] * bool(rest)
    section = _differing("Different code", versions)
    return replace(section, rows=(*section.rows, *rows))


def _file_name(path: str) -> str:
    """Return the end of a path, which says more than its begin."""
    return path if len(path) <= SHOWN_LENGTH else f"…{path[1 - SHOWN_LENGTH :]}"


def _lines_text(files: Sequence[ChangedFile]) -> str:
    """Write how many lines were added and deleted: +12 -4."""
    if all(file.added is None for file in files):
        return "binary"
    added, deleted = (sum(getattr(f, name) or 0 for f in files) for name in ("added", "deleted"))
    return f"+{added:,} -{deleted:,}"


def figure_table(comparison: RunComparison) -> Table:
    """Return the figures of both sides; a row has a level if new is better or worse.

    Columns and marks that tell nothing are left out, and figures that differ only because one run
    had more batches.
    """
    names = _names_of(comparison)
    is_tested = _is_tested(comparison)
    figures = [
        figure
        for figure in _shown_figures(comparison)
        if not is_same(figure) and not (figure.why and figure.name.startswith(ACCOUNT))
    ]
    # What only one side has comes last.
    figures.sort(key=lambda f: f.name != THROUGHPUT and None in (f.base, f.new))
    largest = max((_size(figure) for figure in figures), default=0.0)
    largest = max(largest, _LEAST_FULL)
    rows = tuple(
        _row(f, names(f.name), _why_missing(comparison, f), is_tested, largest) for f in figures
    )
    levels = tuple(_LEVELS[figure.is_better] for figure in figures)
    numeric = (False, *(name != _BAR for name in COLUMNS[1:]))
    dropped = ("n", "p", _BAR, _INTERVAL)
    table = Table(COLUMNS, rows, numeric, levels=levels, dropped=dropped)
    empty = {name for name, *cells in zip(COLUMNS, *rows, strict=True) if not any(cells)}
    if rows[1:] and not any(row[COLUMNS.index(_INTERVAL)] for row in rows[1:]):
        # The verdict has that of the throughput.
        empty.add(_INTERVAL)
    if len((*comparison.base, *comparison.new)) == 2:
        empty.add("n")
    return table.without(*empty)


def _shown_figures(comparison: RunComparison) -> list[ComparedFigure]:
    """Return the figures that people are shown: the time to compile is told once."""
    is_in_account = any(figure.name == _COMPILING for figure in comparison.figures)
    return [f for f in comparison.figures if not (is_in_account and f.name == "compile_s")]


def _why_missing(comparison: RunComparison, figure: ComparedFigure) -> str:
    """Say why only one side has a figure; empty if both have it."""
    for runs, value in ((comparison.base, figure.base), (comparison.new, figure.new)):
        if value is None:
            is_of_gpu = figure.name in _OF_GPUS and all(run.device == "cpu" for run in runs)
            return "on the CPU" if is_of_gpu else "not read"
    return ""


def is_same(figure: ComparedFigure) -> bool:
    """Return whether both sides have a figure, other than the throughput, that is written alike.

    Of figures without a ratio, such as CPU cores, those within 1 % of each other are.
    """
    if figure.name == THROUGHPUT or figure.why or None in (figure.base, figure.new):
        return False
    base, new = _numbers(figure)
    ratio = figure.ratio
    if base == new or ratio is None:
        # Of what a metric comes to, less than this matters.
        is_close = not figure.name.startswith(METRIC) and math.isclose(
            figure.base or 0.0, figure.new or 0.0, rel_tol=_WITHIN
        )
        return base == new or is_close
    # A certain change may be too small to be written.
    return ratio.is_significant and verdicts.change(ratio.value) == "1.000×"


def _own_rows(it: RunComparison, figures: Iterable[ComparedFigure]) -> tuple[Row, ...]:
    """Return the names of figures and their values with the unit: 2.88 → 2.89 cores."""
    names, rows = _names_of(it), []
    for figure in figures:
        title, _, unit = names(figure.name).rpartition(", ")
        if figure.name == THROUGHPUT:
            title = "throughput"
        texts = " → ".join(dict.fromkeys(_numbers(figure)))
        rows.append((title or unit, f"{texts} {unit if title else ''}".rstrip()))
    return tuple(rows)


def figures_of_run(run: RunFigures, besides: str) -> tuple[Row, ...]:
    """Return the figures of a run besides one, under the names that they have beside another."""
    try:
        alone = compare_sides([run], [replace(run, session="")])
    except NoThroughput as refused:
        alone = refused.comparison
    figures = (f for f in _shown_figures(alone) if f.name != besides and f.base is not None)
    return _own_rows(alone, figures)


def throughput_bars(comparison: RunComparison) -> Bars | None:
    """Return a bar for the throughput of each run; None if they have several units."""
    runs = (*comparison.base, *comparison.new)
    if comparison.throughput.why or comparison.throughput.ratio is None:
        return None
    sides = ["base"] * len(comparison.base) + ["new "] * len(comparison.new)
    bars = tuple(
        Bar(f"{side}  {clean(run.name or run.session)}", rate, units.rate(rate))
        for side, run in zip(sides, runs, strict=True)
        for rate in (run.values[THROUGHPUT],)
    )
    return Bars("", bars, runs[0].throughput_unit, are_drawn=True)


def _is_tested(comparison: RunComparison) -> bool:
    """Return whether a change was tested, so that marks tell which changes weren't."""
    return any(
        figure.ratio is not None and figure.ratio.p is not None for figure in comparison.figures
    )


def _names_of(comparison: RunComparison) -> Callable[[str], str]:
    """Return a function that names a figure, with its unit; scripts have other names for some."""
    runs = (*comparison.base, *comparison.new)
    compiled = all(run.compiles for run in runs)
    is_script = all(run.command is not None for run in runs)
    # If one side counts samples and the other steps, the verdict says so.
    rate = "throughput" if comparison.throughput.why else runs[0].throughput_unit
    names = {THROUGHPUT: rate} | (
        {} if compiled else {"compile_s": "extra time of first batches, s"}
    )

    def name(figure: str) -> str:
        if figure.startswith(STEP_PART):
            field = figure.removeprefix(STEP_PART).replace("_ms", "_us")
            return f"{STEP_NAMES[field]}, ms a step"
        if figure.startswith(ACCOUNT):
            part = TimePart(figure.removeprefix(ACCOUNT))
            return f"{part_name(part, is_script, compiled)}, s"
        if figure.startswith(METRIC):
            return f"last {clean(figure.removeprefix(METRIC), _LONGEST_METRIC)}"
        return names.get(figure) or quantity_of(figure).title

    return name


def _numbers(figure: ComparedFigure) -> tuple[str, str]:
    base, new = (
        UNKNOWN if value is None else number_of(quantity_of(figure.name), value, beside)
        for value, beside in ((figure.base, figure.new), (figure.new, figure.base))
    )
    return base, new


def _size(figure: ComparedFigure) -> float:
    """Return how far a change is from none; 0 for a figure of which neither direction is better."""
    ratio = figure.ratio
    if ratio is None or not 0 < ratio.value < math.inf:
        return 0.0
    return 0.0 if quantity_of(figure.name).less_is_better is None else abs(math.log(ratio.value))


def _bar_of(figure: ComparedFigure, largest: float) -> str:
    """Draw a change to the right of a line if it is for the better; faint if it isn't certain."""
    ratio, cells = figure.ratio, round(_BAR_CELLS * _size(figure) / largest)
    if ratio is None or not cells:
        return ""
    bar = ("█" if ratio.is_significant else "░") * cells
    is_better = (ratio.value < 1) == quantity_of(figure.name).less_is_better
    return f"{'':{_BAR_CELLS}}│{bar}" if is_better else f"{bar:>{_BAR_CELLS}}│"


def _row(
    figure: ComparedFigure, name: str, why_missing: str, is_tested: bool, largest: float
) -> tuple[str, ...]:
    ratio, runs = figure.ratio, "+".join(map(str, figure.runs))
    base, new = _numbers(figure)
    note = why_missing or ("not compared" if figure.why is not None else "")
    if ratio is None or note:
        return name, base, new, note, "", "", "", runs
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        is_known = not verdicts.is_unknown(ratio)
        interval = verdicts.change(ratio.low, ratio.high) if is_known else verdicts.TOO_FEW
    change = change_text(ratio).removeprefix("" if is_tested else f"{NOT_TESTED} ")
    p = "" if ratio.p is None else p_text(ratio.p)
    return name, base, new, change, _bar_of(figure, largest), interval, p, runs


def change_text(ratio: Ratio) -> str:
    """Write a change: 1.049×, or ~ 1.004× if not significant, or ? 2.40× if not tested."""
    is_tested = ratio.p is not None and not verdicts.is_unknown(ratio)
    mark = NOT_TESTED if not is_tested else "" if ratio.is_significant else NOT_SIGNIFICANT
    return f"{mark} {verdicts.change(ratio.value)}".lstrip()


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
    if not isinstance(factor, Ratio):
        return verdicts.verdict(factor, "base")
    unsure = _one_run_text(throughput) or "the runs of a side do not differ at all"
    base = f"base in {comparison.base[0].throughput_unit}"
    return verdicts.verdict(factor, base, unsure, subject="new is ")


def _one_run_text(figure: ComparedFigure) -> str:
    """Say that a side, or each, has a single run; empty if both have several."""
    if min(figure.runs) > 1:
        return ""
    return "1 run each" if figure.runs == (1, 1) else "1 run on a side"


def _cause(comparison: RunComparison) -> list[str]:
    """Name what made the steps longer or shorter most, if that is known."""
    ratio = comparison.throughput.ratio
    if ratio is None or ratio.may_be_one or comparison.unlike:
        return []
    sign = 1 if ratio.value < 1 else -1
    both = [f for f in comparison.figures if f.why is None and None not in (f.base, f.new)]
    parts = [f for f in both if f.name.startswith(STEP_PART)]
    parts = parts or [f for f in both if f.name in _IN_STEPS]
    change = {part.name: sign * ((part.new or 0.0) - (part.base or 0.0)) for part in parts}
    most = max(parts, key=lambda part: change[part.name], default=None)
    if most is None or change[most.name] <= 0:
        return []
    is_tested = max(most.runs) > 1 or (most.ratio is not None and most.ratio.p is not None)
    if is_tested and not (most.ratio and most.ratio.is_significant):
        return []
    name, _, unit = _names_of(comparison)(most.name).rpartition(", ")
    return [f"largest change: {name}, {' → '.join(_numbers(most))} {unit}"]


def _changed_loss(comparison: RunComparison) -> list[str]:
    """Say that the loss differs, if that is certain: a faster run that learns less is no gain."""
    for figure in comparison.figures:
        ratio = figure.ratio
        if figure.name == f"{METRIC}loss" and ratio is not None and ratio.is_significant:
            way = "lower" if ratio.value < 1 else "higher"
            interval = verdicts.change(ratio.low or 0.0, ratio.high or 0.0)
            return [f"the last loss is {way}: {verdicts.change(ratio.value)} ({interval})"]
    return []


def advice(comparison: RunComparison) -> list[str]:
    """Return the command that measures how runs differ, if a side has one run only."""
    throughput = comparison.throughput
    is_sure = throughput.ratio is None or throughput.ratio.p is not None
    if is_sure or min(throughput.runs) > 1:
        return []
    workload = comparison.new[0].workload
    command = f"dlmon sweep {workload}" if workload in WORKLOADS else "dlmon exec"
    return [f"→ to see how much runs differ: {command} --repeat 3"]


def legends(table: Table) -> list[str]:
    """Explain the signs that a table has."""
    signs = _signs_of(table)
    return [f"{sign} {meaning}" for sign, meaning in LEGENDS.items() if sign in signs]


def _signs_of(table: Table) -> set[str]:
    return {row[_CHANGE][:1] for row in table.rows if "new/base" in table.headings}


def signs_text(comparison: RunComparison) -> str:
    """Return the meaning of the signs of a table in a few words: ~ not significant."""
    signs = _signs_of(figure_table(comparison))
    short = {NOT_SIGNIFICANT: "not significant", NOT_TESTED: "not tested"}
    return "  ".join(f"{sign} {text}" for sign, text in short.items() if sign in signs)


def verdict_in_short(comparison: RunComparison) -> str:
    """Return the verdict in capitals."""
    return verdicts.in_short(comparison.throughput.ratio or "a side has no throughput")


def doubts(comparison: RunComparison) -> list[str]:
    """Return the warnings about comparing these runs by these figures."""
    return [*_doubts_of_sides(comparison), *_doubts_of_figures(comparison)]


def _doubts_of_sides(comparison: RunComparison) -> list[str]:
    """Return how the sides differ beyond their figures, and which runs are not over or failed."""
    sentences = [f"not comparable: {difference}" for difference in comparison.unlike]
    more = comparison.others_took_more
    if more is not None:
        side = "new" if more > 0 else "base"
        sentences.append(f"other programs took {abs(more):.1f} cores more in {side}")
    epoch = comparison.epoch_time_against_throughput
    if epoch is not None:
        sentences.append(f"an epoch took {verdicts.change(epoch)} the time in new even so")
    for run in (*comparison.base, *comparison.new):
        name = run.name or run.session
        if run.status == Status.FAILED and THROUGHPUT in run.values:
            sentences.append(f"{name} {failed_text(run)}: its figures are those up to then")
        if run.status == Status.RUNNING:
            sentences.append(f"{name} is still running: its figures are those so far")
        if run.status == Status.UNKNOWN:
            sentences.append(f"whether {name} still runs on {run.host} can't be seen from here")
        for metric, value in list(run.not_numbers.items())[:_MOST_NOT_NUMBERS]:
            sentences.append(f"{name}: the last {clean(metric, _LONGEST_METRIC)} is {value}")
    sentences.extend(f"left out: {without_throughput(run)}" for run in comparison.left_out)
    return sentences


def _doubts_of_figures(comparison: RunComparison) -> list[str]:
    """Return why figures may be unreliable, once for what all runs share."""
    runs = (*comparison.base, *comparison.new)
    of_all = doubts_of_all([run.warnings if run.valid is False else {} for run in runs])
    every = "both" if len(runs) == 2 else f"all {len(runs)}"
    sentences = [f"{every} runs: {text}" for text in of_all.values()]
    for run in runs:
        if run.valid is False and (not run.warnings or run.warnings.keys() - of_all.keys()):
            texts = (text for doubt, text in run.warnings.items() if doubt not in of_all)
            reasons = "; ".join(texts) or "its figures may be off"
            sentences.append(f"{run.name or run.session}: {reasons}")
    return sentences


def notes(comparison: RunComparison) -> list[str]:
    """Say how the interval was estimated, and which figures are not compared."""
    name = _names_of(comparison)
    metrics = [figure for figure in comparison.figures if figure.name.startswith(METRIC)]
    of_metrics = {figure.why for figure in metrics if figure.why}
    unlike: dict[str, list[str]] = {}
    for figure in comparison.figures:
        if figure.why is not None and figure.name != THROUGHPUT:
            text = name(figure.name)
            if figure.name.startswith(ACCOUNT):
                text = "what each batch adds to the time"
            elif figure.name.startswith(METRIC) and len(of_metrics) == 1:
                text = "what the metrics came to"
            unlike.setdefault(figure.why, []).append(text)
    texts = [_not_compared(list(dict.fromkeys(names)), why) for why, names in unlike.items()]
    runs = (*comparison.base, *comparison.new)
    if not _is_tested(comparison) and len(runs) > 2:
        texts.append(LEGENDS[NOT_TESTED])
    ratio = comparison.throughput.ratio
    if ratio and ratio.basis is Basis.LIKE_RUNS and not verdicts.is_unknown(ratio):
        texts.append("how runs differ is taken from other runs of the same conditions here")
    if ratio is not None and ratio.basis is Basis.WITHIN_RUNS:
        texts.append(
            f"{_one_run_text(comparison.throughput)}: the interval of the verdict shows how steady "
            "each run was, not how much runs differ"
        )
    if not metrics and all(run.data == "synthetic" for run in runs):
        texts.append("the loss is not compared: the data is synthetic")
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
        "environment": _differences_json((*comparison.versions, *comparison.environment)),
        "code": to_json(comparison.code),
        "doubts": doubts(comparison),
        "notes": notes(comparison),
    }


def _figure_json(figure: ComparedFigure) -> dict[str, Any]:
    ratio = figure.ratio
    values = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
    names = ("change_pct", "low_pct", "high_pct")
    return {
        "base": figure.base,
        "new": figure.new,
        **dict(zip(names, map(_change_pct, values), strict=True)),
        "p": ratio and ratio.p,
        "basis": ratio and ratio.basis,
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
        sides = with_code_changes(compare_sides(base_runs, new_runs, earlier))
    except NotComparable as refused:
        names = tuple(run.name or run.session for run in (*base_runs, *new_runs))
        sentence = as_sentence(redaction.text(str(refused)), names)
        return Compared((heading, Note((sentence,), "verdict")))
    for run in (*sides.base, *sides.new):
        redaction.learn_names(run.host, {**run.options, "command": " ".join(run.command or ())})
    if not full:
        sides = without_secrets(sides)
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


def without_secrets(sides: RunComparison) -> RunComparison:
    """Return a comparison without the values of arguments whose names are those of secrets."""
    return replace(sides, arguments=tuple(map(_without_secret, sides.arguments)))


def _without_secret(difference: Difference) -> Difference:
    """Return a difference without its values if the option's name is that of a secret."""
    if not is_secret(difference.name):
        return difference
    return replace(difference, base="(left out)", new="(another)")
