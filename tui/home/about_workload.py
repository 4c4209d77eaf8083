"""What the highlighted workload is: its size, its defaults, its last result here, its source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from dlmon.figures import units
from dlmon.figures.comparison import timed_unit
from dlmon.figures.sessions import outcome
from dlmon.log.directory import SessionEntry
from dlmon.options.run import in_words
from tui.home.last_results import other_options, timing_of_run
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, cut, shows
from tui.widgets.rows import TextRow
from workloads.catalog import Workload

if TYPE_CHECKING:
    from dlmon.options.run import RunOptions

_Sentence = tuple[str, str, str]
"""What begins a sentence, quietly; the rest of it; its style."""


class AboutWorkload(Lines):
    """Describes one workload, as spaciously as there is room for."""

    DEFAULT_CLASSES = "panel"

    def show(self, workload: Workload | None, last: str = "", published: str = "") -> None:
        """Describe a workload, its last result here, and what is published; None: nothing."""
        self.set_titles(workload.name if workload is not None else "")
        self._show(workload, last, published)

    def rows(
        self, width: int, height: int, workload: Workload | None, last: str, published: str
    ) -> list[TextRow]:
        """Return the sentences, apart from each other where there is room."""
        if workload is None:
            return []
        paragraphs = [
            [row for sentence in paragraph for row in wrapped(sentence, width)]
            for paragraph in described(workload, last, published)
        ]
        spacious = [row for rows in paragraphs for row in (*rows, ())][:-1]
        if len(spacious) <= height:
            return spacious
        rows = [row for rows in paragraphs for row in rows]
        if len(rows) > height > 0:
            # The source is last: what is left out of it shall show.
            kept = cut(rows[height - 1], width - 1)
            rows[height - 1 :] = [(*kept, ("…", MUTED))]
        return rows

    _show = shows(rows)


def last_text(last: SessionEntry | None, workload: Workload, wanted: RunOptions) -> str:
    """Say what came of the last run here, and which options it had other than these."""
    if last is None:
        return "not trained here yet"
    when, timing = units.day_and_time(last.header.wall), timing_of_run(last)
    name = "" if last.label.name is None else f" ({last.label.name})"
    if timing is None:
        return f"last run here: {last.status}, {outcome(last)} ({when}){name}"
    took = units.band(timing)
    projected = ", projected" if timing.projected else ""
    other = in_words(other_options(last, workload, wanted))
    with_other = f" with {other}" if other else ""
    return f"last here: {took} {timed_unit(workload.metric)}{projected}{with_other}, {when}{name}"


def last_in_brief(last: SessionEntry | None, workload: Workload, wanted: RunOptions) -> str:
    """Return the time alone; in brackets where it is of other options."""
    timing = None if last is None else timing_of_run(last)
    if last is None or timing is None:
        return ""
    mark = "~ " if timing.projected or units.with_band(timing).is_very_uncertain else ""
    took = f"{mark}{units.duration(timing)}"
    return f"({took})" if other_options(last, workload, wanted) else took


def described(workload: Workload, last: str, published: str) -> list[list[_Sentence]]:
    """Return paragraphs of sentences about a workload."""
    start, colon, rest = last.partition(": ")
    result: _Sentence = (start + colon, rest, PLAIN) if colon else ("", last, MUTED)
    parameters = units.count(workload.parameters)
    flops = f"{mega_or_more(workload.train_flops)}FLOP/sample"
    return [
        [("", workload.title, STRONG)],
        [
            ("", f"{parameters} parameters, {flops}", PLAIN),
            ("", f"batch {workload.batch_size}, {_run_length(workload)}", PLAIN),
        ],
        [result, *([("published: ", published, PLAIN)] if published else [])],
        [("source: ", workload.source, MUTED)],
    ]


def _run_length(workload: Workload) -> str:
    if workload.steps is not None:
        return f"{workload.steps} steps"
    return f"{workload.epochs} epochs of {workload.samples:,} samples"


def mega_or_more(operations: int) -> str:
    """Write a number of operations with a prefix: 0.409 M, 236 M or 24.6 G."""
    return units.count(operations) if operations >= 1e6 else f"{operations / 1e6:.3g} M"


def wrapped(sentence: _Sentence, width: int) -> list[TextRow]:
    """Break a sentence into rows."""
    start, rest, style = sentence
    first, *more = textwrap.wrap(start + rest, max(1, width)) or [""]
    quiet = first[: len(start)] if first.startswith(start) else ""
    return [
        ((quiet, MUTED), (first[len(quiet) :], style)),
        *(((line, style),) for line in more),
    ]
