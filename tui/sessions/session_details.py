"""The details of a recorded session, or of a sweep."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.lists.session_facts import machine_text, software_text, time_rows
from dlmon.figures.lists.session_list import (
    Recorded,
    RunOfSweep,
    can_be_resumed,
    done_in_words,
    id_with_name,
    kind_of,
    outcome,
    settings_text,
    speed_text,
    stopped_unasked_text,
)
from dlmon.figures.session.time_breakdown import PartRow
from dlmon.figures.sweeps import findings, plan_text, without_result_text
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.records.sanitize import shown_path
from dlmon.sweep.log import SweepEntry
from tui.drawing.plot import fitted_rows, thick_bar
from tui.drawing.step_parts import TIME_STYLES
from tui.widgets.lines import BAD, BAR, MUTED, PLAIN, STRONG, Lines, TextRow, fit, shows, wrapped

_NAME_CELLS, _LONGEST_BAR = 8, 40
# A loss is drawn in at least and at most so many rows, and in this width.
_LEAST_CURVE, _MOST_CURVE, _CURVE_CELLS, _LOSS_CELLS = 3, 10, 60, 8
_NO_BREAK = "\N{NO-BREAK SPACE}"
_TITLES = {"sweep": "Sweep", "ab": "Pairs", "try": "Try"}


class SessionDetails(Lines):
    """A session's name, settings, result, speed and log; with room, its machine and its time."""

    DEFAULT_CLASSES = "panel"

    host: str | None = None
    """The host with the log; None for this machine."""

    def show(
        self,
        entry: Recorded | None,
        run: RunOfSweep | None = None,
        losses: Sequence[float] = (),
    ) -> None:
        """Show a session, with its part in a sweep if it has one, a sweep, or nothing."""
        title = _TITLES[kind_of(entry)] if isinstance(entry, SweepEntry) else "Session"
        self.set_titles(title if entry else "")
        self._show(entry, run, losses)

    def rows(
        self,
        width: int,
        height: int,
        entry: Recorded | None,
        run: RunOfSweep | None,
        losses: Sequence[float],
    ) -> list[TextRow]:
        """Return the rows that fit; a long error takes the place of those below."""
        if entry is None:
            return []
        path = shown_path(entry.path) if self.host is None else f"its log is on {self.host}"
        log = [_named("log", path)]
        if isinstance(entry, SweepEntry):
            return [*self._of_sweep(entry, width), *log][:height]
        rows = self._of_session(entry, run, width, height)
        machine = _machine_of(entry, width)
        room = height - len(rows) - len(log) - len(machine)
        rows += [*_time_of(entry, width, room), *log, *machine]
        return [*rows, *_curve_of(losses, width, height - len(rows))][:height]

    _show = shows(rows)

    def _of_sweep(self, entry: SweepEntry, width: int) -> list[TextRow]:
        done = f"{done_in_words(entry)} done"
        done += without_result_text(entry.sweep)
        found = wrapped(next(iter(findings(entry.sweep)), ""), width, 2)
        return [
            ((id_with_name(entry.header.id, entry.label), STRONG),),
            *_note(entry),
            *[((line, PLAIN),) for line in found],
            ((f"{done}; {self._next_step(entry)}", PLAIN),),
            ((plan_text(entry.plan), PLAIN),),
        ]

    def _next_step(self, entry: SweepEntry) -> str:
        if self.host is not None:
            if can_be_resumed(entry):
                return f"dlmon sweep --resume on {self.host} resumes it"
            return entry.status
        if entry.status == Status.RUNNING:
            return f"process {entry.pid} runs it"
        if can_be_resumed(entry):
            return "Enter resumes it"
        return f"Enter shows its {'pairs' if entry.plan.pairs else 'table and its chart'}"

    def _of_session(
        self, entry: SessionEntry, run: RunOfSweep | None, width: int, height: int
    ) -> list[TextRow]:
        of_sweep: TextRow = ()
        if run is not None:
            of_sweep = ((f"  {run.text}, a run of {run.sweep.header.id}", MUTED),)
        return [
            (
                (id_with_name(entry.header.id, entry.label), STRONG),
                *(of_sweep or ((f"  {units.day_and_time(entry.header.wall)}", MUTED),)),
            ),
            *_note(entry),
            *_wrapped("run", settings_text(entry), width),
            *self._outcome_rows(entry, width, height - 2 - len(_note(entry))),
        ]

    def _outcome_rows(self, entry: SessionEntry, width: int, height: int) -> list[TextRow]:
        result = entry.result
        if result is None:
            return [_named("result", outcome(entry, whole=True))]
        if result.error:
            lines = wrapped(result.error, width, max(1, height))
            return [((line, BAD),) for line in lines]
        text = outcome(entry, whole=True)
        if unasked := stopped_unasked_text(result):
            text = f"{unasked}; {text}"
        lines = wrapped(text, max(1, width - _NAME_CELLS), max(1, height - 1))
        rows = [_named("" if n else "result", line) for n, line in enumerate(lines)]
        if not entry.header.is_machine_recording:
            rows += _wrapped("speed", speed_text(result, entry.header), width)
        return rows


def _named(name: str, text: str) -> TextRow:
    return (fit(name, _NAME_CELLS), MUTED), (text, PLAIN)


def _wrapped(name: str, text: str, width: int) -> list[TextRow]:
    """Return a named text in at most two rows, which split no number from its unit."""
    joined = re.sub(r"(?<=\d) (?=\S)", _NO_BREAK, text)
    lines = wrapped(joined, max(1, width - _NAME_CELLS), 2)
    return [
        _named("" if number else name, line.replace(_NO_BREAK, " "))
        for number, line in enumerate(lines)
    ]


def _machine_of(entry: SessionEntry, width: int) -> list[TextRow]:
    """Return the machine and the software of a session."""
    software = software_text(entry.header)
    return [
        *_wrapped("machine", machine_text(entry.header), width),
        *(_wrapped("with", software, width) if software else ()),
    ]


def _curve_of(losses: Sequence[float], width: int, room: int) -> list[TextRow]:
    """Draw the training loss over time below a blank row, if there is room."""
    rows = min(_MOST_CURVE, room - 1)
    if not losses or rows < _LEAST_CURVE:
        return []
    cells = min(_CURVE_CELLS, width - _NAME_CELLS - _LOSS_CELLS)
    ends = [units.metric(max(losses)), *[""] * (rows - 2), units.metric(min(losses))]
    drawn = fitted_rows(losses, cells, rows)
    names = ["loss", *[""] * (rows - 1)]
    lines = zip(names, ends, drawn, strict=True)
    labels = ((f"{name:<{_NAME_CELLS}}{end:<{_LOSS_CELLS}}", line) for name, end, line in lines)
    return [(), *(((label, MUTED), (line, BAR)) for label, line in labels)]


def _time_of(entry: SessionEntry, width: int, room: int) -> list[TextRow]:
    """Return where the time of a session went: a bar a part, or in a sentence without room."""
    parts = () if entry.result is None else time_rows(entry.result, entry.header)
    if len(parts) > room:
        largest = sorted(parts, key=lambda part: -part.share)
        text = ", ".join(f"{part.name} {part.percent} %" for part in largest if part.percent)
        return _wrapped("time", text, width) if text else []
    rows: list[TextRow] = []
    names = max((cell_len(part.name) for part in parts), default=0)
    figures = [f"{units.seconds(part.seconds)}  {_whole_share(part)}" for part in parts]
    values = max(map(cell_len, figures), default=0)
    room = min(_LONGEST_BAR, width - _NAME_CELLS - names - values - 4)
    for number, (part, figure) in enumerate(zip(parts, figures, strict=True)):
        rows.append(
            (
                (fit("" if number else "time", _NAME_CELLS), MUTED),
                (fit(part.name, names + 2), PLAIN),
                (f"{figure:>{values}}  ", PLAIN),
                (thick_bar(part.share, room), TIME_STYLES[part.part]),
            )
        )
    return rows


def _whole_share(part: PartRow) -> str:
    return f"{part.percent or '<1':>2} %"


def _note(entry: Recorded) -> list[TextRow]:
    return [] if entry.label.note is None else [((entry.label.note, PLAIN),)]
