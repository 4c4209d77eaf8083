"""Two sides of a report beside each other: what may be said of them, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlmon.comparison.arguments import is_secret
from dlmon.comparison.sides import (
    Difference,
    NotComparable,
    RunFigures,
    SidesComparison,
    compare_sides,
)
from dlmon.figures.redact import Redaction
from dlmon.figures.sections import Figures, Heading, Note, Section, Table, with_texts
from dlmon.figures.session_report import as_sentence
from dlmon.figures.sides import (
    COLUMNS,
    changed_text,
    doubts,
    figure_rows,
    legends,
    notes,
    sides_json,
    verdict,
)


@dataclass(frozen=True)
class Compared:
    """One session, or several, beside others; without numbers where they don't compare."""

    sections: tuple[Section, ...]
    as_json: Mapping[str, Any] | None = None


def compared(
    base: tuple[Sequence[RunFigures], str],
    new: tuple[Sequence[RunFigures], str],
    earlier: Sequence[RunFigures] = (),
    full: bool = False,
) -> Compared:
    """Put one side beside another: what was read of its sessions, and what to call it.

    Args:
        base: the one.
        new: the other.
        earlier: as for `compare_sides`.
        full: leave nothing out.
    """
    (base_runs, base_name), (new_runs, new_name) = base, new
    names = tuple(run.name for run in (*base_runs, *new_runs) if run.name)
    heading = Heading(f"{new_name} (new) beside {base_name} (base)")
    redaction = Redaction(full)

    def verdict_of(sentence: str) -> Note:
        return Note((as_sentence(redaction.text(sentence), names),), "verdict")

    try:
        sides = compare_sides(base_runs, new_runs, earlier)
    except NotComparable as refused:
        return Compared((heading, verdict_of(str(refused))))
    for run in (*sides.base, *sides.new):
        redaction.learn_names(run.host, {**run.options, "command": " ".join(run.command or ())})
    if not full:
        sides = replace(sides, arguments=tuple(map(_without_secret, sides.arguments)))
    differences = tuple(
        (each.name.replace("_", " "), changed_text(each))
        for each in (*sides.arguments, *sides.options, *sides.environment)
    )
    what_differs = [Figures("What differs", differences)] if differences else []
    if sides.unlike:
        unlike = verdict_of(f"these runs do not compare: {'; '.join(sides.unlike)}")
        return Compared((heading, unlike, *with_texts(tuple(what_differs), redaction.text)))
    # What speaks against a run stands with it, from records without other people's programs.
    sides = replace(sides, base=_trusted(sides.base), new=_trusted(sides.new))
    figures = figure_rows(sides)
    numeric = (False, *(True,) * (len(COLUMNS) - 1))
    said = tuple(as_sentence(note, names) for note in (*doubts(sides), *notes(sides)))
    sections: list[Section] = [
        Table(COLUMNS, tuple(row.cells for row in figures), numeric),
        *([Note(("; ".join(legends(figures)),))] if legends(figures) else []),
        *what_differs,
        *([Note(said, "list")] if said else []),
    ]
    return Compared(
        (heading, verdict_of(verdict(sides)), *with_texts(tuple(sections), redaction.text)),
        redaction.value(_as_json(sides, full)),
    )


def _without_secret(difference: Difference) -> Difference:
    """Return what differs without the values of an option that is called as secrets are."""
    if not is_secret(difference.name):
        return difference
    return replace(difference, base="(left out)", new="(another)")


def _trusted(runs: tuple[RunFigures, ...]) -> tuple[RunFigures, ...]:
    return tuple(replace(run, valid=None, against={}) for run in runs)


def _as_json(sides: SidesComparison, full: bool) -> dict[str, Any]:
    found = sides_json(sides)
    for run in (*found["base"], *found["new"]):
        del run["valid"], run["against"]
        if not full:
            del run["log"]
    return found
