"""What the highlighted workload is: its size, its defaults, its last result here, its source."""

from __future__ import annotations

import textwrap

from tui.formatting import units
from tui.formatting.comparison import timed_unit
from tui.formatting.glyphs import UNICODE, Glyphs
from tui.home.workload_choice import LastResult
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, cut
from tui.widgets.rows import TextRow
from workloads.catalog import Workload

_WIDTH_FOR_WHOLE = 40
"""Where there is less room, a large number of parameters is rounded."""

_Sentence = tuple[str, str, tuple[str, ...]]
"""What begins a sentence, quietly; the rest of it; its style."""


class AboutWorkload(Lines):
    """Describes one workload, as spaciously as there is room for."""

    DEFAULT_CLASSES = "panel"

    _workload: Workload | None = None
    _last: LastResult | None = None
    _published = ""

    def show(self, workload: Workload | None, last: LastResult | None, published: str = "") -> None:
        """Describe a workload, its last result here, and what is published; None: nothing."""
        self._workload, self._last, self._published = workload, last, published
        self.set_titles(workload.name if workload is not None else "")
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the sentences, apart from each other where there is room."""
        if self._workload is None:
            return []
        paragraphs = [
            [row for sentence in paragraph for row in wrapped(sentence, width)]
            for paragraph in described(
                self._workload, self._last, self._published, width, self.glyphs
            )
        ]
        spacious = [row for rows in paragraphs for row in (*rows, ())][:-1]
        if len(spacious) <= height:
            return spacious
        rows = [row for rows in paragraphs for row in rows]
        if len(rows) > height > 0:
            # The source is last: what is left out of it shall show.
            kept = cut(rows[height - 1], width - len(self.ellipsis), self.ellipsis)
            rows[height - 1 :] = [(*kept, (self.ellipsis, MUTED))]
        return rows


def described(
    workload: Workload,
    last: LastResult | None,
    published: str,
    width: int,
    glyphs: Glyphs = UNICODE,
) -> list[list[_Sentence]]:
    """Return paragraphs of sentences about a workload, some shorter where `width` is small."""
    if last is None:
        result: _Sentence = ("", "not trained here yet", MUTED)
    else:
        took = units.band(last.timing, glyphs)
        when = units.day_and_time(last.wall)
        name = "" if last.name is None else f" ({last.name})"
        result = ("last here: ", f"{took} {timed_unit(workload.metric)}, {when}{name}", PLAIN)
    whole = f"{workload.parameters:,}"
    parameters = whole if width >= _WIDTH_FOR_WHOLE else units.count(workload.parameters)
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
    rows: list[TextRow] = [((quiet, MUTED), (first[len(quiet) :], style))]
    return [*rows, *(((line, style),) for line in more)]
