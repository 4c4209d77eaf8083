"""The details of a recorded session, or of a sweep."""

from __future__ import annotations

from dlmon.figures import units
from dlmon.figures.lists.session_list import (
    Recorded,
    RunOfSweep,
    can_be_resumed,
    done_text,
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
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, Lines, TextRow, fit, shows, wrapped

_NAME_CELLS = 8
_TITLES = {"sweep": "Sweep", "ab": "Pairs", "try": "Try"}
_ENTER = {
    Status.QUEUED: ": Enter waits for it",
    Status.RUNNING: ": Enter shows it live",
    Status.INTERRUPTED: "; Enter shows what there is",
}


class SessionDetails(Lines):
    """A few rows: its name, its settings, its result and speed, the path of its log."""

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
        """Return the rows; a long error takes the place of the path."""
        if entry is None:
            return []
        if isinstance(entry, SweepEntry):
            rows = self._of_sweep(entry, width)
        else:
            rows = self._of_session(entry, run, width, height)
        path = shown_path(entry.path) if self.host is None else f"its log is on {self.host}"
        return [*rows, _named("log", path)][:height]

    _show = shows(rows)

    def _of_sweep(self, entry: SweepEntry, width: int) -> list[TextRow]:
        done = f"{done_text(entry)}{'' if entry.plan.pairs else ' combinations'} done"
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


def _note(entry: Recorded) -> list[TextRow]:
    return [] if entry.label.note is None else [((entry.label.note, PLAIN),)]
