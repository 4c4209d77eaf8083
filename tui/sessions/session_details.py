"""The details of a recorded session, or of a sweep."""

from __future__ import annotations

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
from dlmon.figures.sweeps import findings, plan_text, without_result_text
from dlmon.log.directory import SessionEntry
from dlmon.records import Status
from dlmon.records.sanitize import shown_path
from dlmon.sweep.log import SweepEntry
from tui.drawing.plot import thick_bar
from tui.drawing.step_parts import TIME_STYLES
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, Lines, TextRow, fit, shows, wrapped

_NAME_CELLS, _LONGEST_BAR = 8, 40
_TITLES = {"sweep": "Sweep", "ab": "Pairs", "try": "Try"}
_ENTER = {
    Status.QUEUED: ": Enter waits for it",
    Status.RUNNING: ": Enter shows it live",
    Status.INTERRUPTED: "; Enter shows what there is",
}


class SessionDetails(Lines):
    """A session's name, settings, result, speed and log; with room, its machine and its time."""

    DEFAULT_CLASSES = "panel"

    host: str | None = None
    """The host with the log; None for this machine."""
    is_opening: bool = False
    """The session is being opened, so it can't be chosen with Enter."""

    def show(self, entry: Recorded | None, run: RunOfSweep | None = None) -> None:
        """Show a session, with its part in a sweep if it has one, a sweep, or nothing."""
        title = _TITLES[kind_of(entry)] if isinstance(entry, SweepEntry) else "Session"
        self.set_titles(title if entry else "")
        self._show(entry, run)

    def rows(
        self, width: int, height: int, entry: Recorded | None, run: RunOfSweep | None
    ) -> list[TextRow]:
        """Return the rows that fit; a long error takes the place of those below."""
        if entry is None:
            return []
        more: list[TextRow] = []
        if isinstance(entry, SweepEntry):
            rows = self._of_sweep(entry, width)
        else:
            rows = self._of_session(entry, run, width, height)
            more = _more_of(entry, width)
        path = shown_path(entry.path) if self.host is None else f"its log is on {self.host}"
        return [*rows, _named("log", path), *more][:height]

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
            _named("run", settings_text(entry)),
            *self._outcome_rows(entry, width, height - 2 - len(_note(entry))),
        ]

    def _outcome_rows(self, entry: SessionEntry, width: int, height: int) -> list[TextRow]:
        result = entry.result
        if result is None:
            text = f"{outcome(entry, whole=True)}{_ENTER.get(entry.status, '')}"
            return [_named("result", entry.status if self.is_opening else text)]
        if result.error:
            lines = wrapped(result.error, width, max(1, height))
            return [((line, BAD),) for line in lines]
        text = outcome(entry, whole=True)
        if unasked := stopped_unasked_text(result):
            text = f"{unasked}; {text}"
        lines = wrapped(text, max(1, width - _NAME_CELLS), max(1, height - 1))
        rows = [_named("" if n else "result", line) for n, line in enumerate(lines)]
        if not entry.header.is_machine_recording:
            rows.append(_named("speed", speed_text(result, entry.header)))
        return rows


def _named(name: str, text: str) -> TextRow:
    return (fit(name, _NAME_CELLS), MUTED), (text, PLAIN)


def _more_of(entry: SessionEntry, width: int) -> list[TextRow]:
    """Return the machine and the software of a session, and where its time went."""
    rows = [_named("machine", machine_text(entry.header))]
    if software := software_text(entry.header):
        rows.append(_named("with", software))
    parts = () if entry.result is None else time_rows(entry.result, entry.header)
    names = max((cell_len(part.name) for part in parts), default=0)
    values = max((cell_len(part.in_figures) for part in parts), default=0)
    room = min(_LONGEST_BAR, width - _NAME_CELLS - names - values - 4)
    for number, part in enumerate(parts):
        rows.append(
            (
                (fit("" if number else "time", _NAME_CELLS), MUTED),
                (fit(part.name, names + 2), PLAIN),
                (f"{part.in_figures:>{values}}  ", PLAIN),
                (thick_bar(part.share, room), TIME_STYLES[part.part]),
            )
        )
    return rows


def _note(entry: Recorded) -> list[TextRow]:
    return [] if entry.label.note is None else [((entry.label.note, PLAIN),)]
