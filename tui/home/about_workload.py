"""The description of the highlighted workload."""

from __future__ import annotations

import textwrap

from dlmon.figures.workload import Sentence, described
from tui.widgets.lines import MUTED, Lines, TextRow, cut, shows
from tui.widgets.tables import STYLES
from workloads.catalog import Workload


class AboutWorkload(Lines):
    """The description of a workload."""

    DEFAULT_CLASSES = "panel"

    def show(self, workload: Workload | None, last: str = "", published: str = "") -> None:
        """Describe a workload, its last result here, and published results; None shows nothing."""
        self.set_titles(workload.name if workload is not None else "")
        self._show(workload, last, published)

    def rows(
        self, width: int, height: int, workload: Workload | None, last: str, published: str
    ) -> list[TextRow]:
        """Return the sentences, with blank rows between them if those fit."""
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
            rows[height - 1 :] = [(*cut(rows[height - 1], width - 1), ("…", MUTED))]
        return rows

    _show = shows(rows)


def wrapped(sentence: Sentence, width: int) -> list[TextRow]:
    """Wrap a sentence into rows."""
    start, rest, style = sentence[0], sentence[1], STYLES[sentence[2]]
    first, *more = textwrap.wrap(start + rest, max(1, width)) or [""]
    quiet = first[: len(start)] if first.startswith(start) else ""
    return [
        ((quiet, MUTED), (first[len(quiet) :], style)),
        *(((line, style),) for line in more),
    ]
