"""The description of the highlighted workload, and the list of recent sessions."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets.option_list import Option

from dlmon.figures import units
from dlmon.figures.session.session_list import outcome, workload_name
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from tui.textual_internals import SteadyOptionList
from tui.widgets.lines import MUTED, PLAIN, STRONG, Lines, TextRow, cut, fit, shows
from workloads.catalog import Workload

_Sentence = tuple[str, str, str]
"""The muted beginning of a sentence, the rest of it, and the style of the rest."""


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
    """Wrap a sentence into rows."""
    start, rest, style = sentence
    first, *more = textwrap.wrap(start + rest, max(1, width)) or [""]
    quiet = first[: len(start)] if first.startswith(start) else ""
    return [
        ((quiet, MUTED), (first[len(quiet) :], style)),
        *(((line, style),) for line in more),
    ]


_MOST_RECENT = 20
_LONGEST_NAME = 24
_STATUS_CELLS = len("interrupted")
_STATUS_STYLES = {
    Status.QUEUED: "$text-muted",
    Status.RUNNING: "bold $text-accent",
    Status.COMPLETED: "$text-success",
    Status.STOPPED: "",
    Status.UNKNOWN: "$text-muted 60%",
}


class RecentSessions(SteadyOptionList):
    """The newest sessions."""

    DEFAULT_CLASSES = "panel"
    DEFAULT_CSS = """
    RecentSessions {
        background: $background;
        padding: 0 1;
        scrollbar-size-vertical: 0;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus { background-tint: transparent; }
        &:blur > .option-list--option-highlighted { background: transparent; color: $foreground; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open", priority=True, tooltip="Open the chosen session"),
    ]

    def on_mount(self) -> None:
        self.border_title = "Recent sessions"

    def show(self, entries: Sequence[SessionEntry]) -> None:
        """Take all sessions, oldest first."""
        self.newest = entries[: -_MOST_RECENT - 1 : -1]
        widest = max((cell_len(_name(entry)) for entry in self.newest), default=0)
        self.border_subtitle = f"{len(entries)} recorded" if entries else ""
        self.clear_options()
        if self.newest:
            self.add_options(_row(entry, min(_LONGEST_NAME, widest)) for entry in self.newest)
            self.highlighted = 0
        else:
            self.add_option(Option("No sessions yet. Every run is recorded.", disabled=True))


def _row(entry: SessionEntry, name_width: int) -> Content:
    status = _STATUS_STYLES.get(entry.status, "bold $text-error")
    return Content.assemble(
        (f"{units.day_and_time(entry.header.wall)}  ", "$text-muted 60%"),
        (f"{fit(_name(entry), name_width)}  ", "bold"),
        (f"{entry.status:<{_STATUS_CELLS}}  ", status),
        "" if entry.status == Status.RUNNING else outcome(entry),
    )


def _name(entry: SessionEntry) -> str:
    """Return a session's name, or that of its workload."""
    return entry.label.name or workload_name(entry.header)
