"""What is known of one recorded session, or of one sweep."""

from __future__ import annotations

from dlmon.comparison.conditions import compiled_by
from dlmon.figures import units
from dlmon.figures.comparison import (
    compile_text,
    cost_text,
    effective_text,
    energy_text,
    unusual_settings,
)
from dlmon.figures.sessions import (
    Recorded,
    RunOfSweep,
    called,
    can_be_resumed,
    device_of,
    done_text,
    outcome,
    stopped_unasked_text,
    workload_of,
)
from dlmon.figures.sweeps import findings, plan_text, without_result_text
from dlmon.log.directory import SessionEntry
from dlmon.options.run import in_words
from dlmon.records import Result, SessionHeader, Status
from dlmon.records.sanitize import shown_path
from dlmon.sweep.log import SweepEntry
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, Lines, TextRow, shows, wrapped

_ENTER = {
    Status.RUNNING: ": Enter shows it live",
    Status.INTERRUPTED: "; Enter shows what there is",
}


class SessionDetails(Lines):
    """A few rows: its name, how it was trained, how fast it was, where it is recorded."""

    DEFAULT_CLASSES = "panel"

    host: str | None = None
    """The machine that it is on; None for this one."""
    is_opening: bool = False
    """Whether the session is about to be shown, and not one of a list."""

    def show(self, entry: Recorded | None, run: RunOfSweep | None = None) -> None:
        """Show a session with what it was in a sweep, a sweep, or nothing."""
        title = "Sweep" if isinstance(entry, SweepEntry) else "Session"
        self.set_titles(title if entry else "")
        self._show(entry, run)

    def rows(
        self, width: int, height: int, entry: Recorded | None, run: RunOfSweep | None
    ) -> list[TextRow]:
        """Return the rows; a long error takes the place of where it is recorded."""
        if entry is None:
            return []
        if isinstance(entry, SweepEntry):
            rows = self._of_sweep(entry)
        else:
            rows = self._of_session(entry, run, width, height)
        where = shown_path(entry.path) if self.host is None else f"its log is on {self.host}"
        return [*rows, ((where, MUTED),)][:height]

    _show = shows(rows)

    def _of_sweep(self, entry: SweepEntry) -> list[TextRow]:
        found = findings(entry.sweep)
        return [
            ((called(entry.header.id, entry.label), STRONG),),
            *_note(entry),
            ((plan_text(entry.plan), PLAIN),),
            ((f"{_done_text(entry)}; {self._next_step(entry)}", PLAIN),),
            *[((sentence, PLAIN),) for sentence in found[:1]],
        ]

    def _next_step(self, entry: SweepEntry) -> str:
        if self.host is not None:
            left = can_be_resumed(entry)
            return f"dlmon sweep --resume on {self.host} resumes it" if left else entry.status
        if entry.status == Status.RUNNING:
            return f"process {entry.pid} runs it"
        if can_be_resumed(entry):
            return "Enter resumes it"
        return "Enter shows its table and its chart"

    def _of_session(
        self, entry: SessionEntry, run: RunOfSweep | None, width: int, height: int
    ) -> list[TextRow]:
        of_sweep: TextRow = ()
        if run is not None:
            of_sweep = ((f"  {run.text}, a run of {run.sweep.header.id}", MUTED),)
        return [
            ((called(entry.header.id, entry.label), STRONG), *of_sweep),
            *_note(entry),
            ((_settings(entry), PLAIN),),
            *self._came_of_it(entry, width, height - 2 - len(_note(entry))),
        ]

    def _came_of_it(self, entry: SessionEntry, width: int, height: int) -> list[TextRow]:
        result = entry.result
        if result is None:
            said = f"{outcome(entry, whole=True)}{_ENTER.get(entry.status, '')}"
            return [((entry.status if self.is_opening else said, MUTED),)]
        if result.error:
            lines = wrapped(result.error, width, max(1, height))
            return [((line, BAD),) for line in lines]
        came = outcome(entry, whole=True)
        unasked = stopped_unasked_text(result)
        came = f"{unasked}; {came}" if unasked else came
        lines = wrapped(came, width, max(1, height - 1))
        rows: list[TextRow] = [((line, PLAIN),) for line in lines]
        if not entry.header.is_machine_recording:
            rows.append(((_speed(result, entry.header), PLAIN),))
        return rows


def _done_text(entry: SweepEntry) -> str:
    return f"{done_text(entry)} combinations done{without_result_text(entry.sweep)}"


def _note(entry: Recorded) -> list[TextRow]:
    return [] if entry.label.note is None else [((entry.label.note, PLAIN),)]


def _settings(entry: SessionEntry) -> str:
    """Return how it was trained, and on what; or which machine was recorded."""
    if entry.header.is_machine_recording:
        cpu = units.device(entry.header.machine.cpu_model or "")
        return f"{workload_of(entry)} {entry.header.host}  {cpu}".rstrip()
    options, result = entry.header.options, entry.result
    device, name = device_of(entry)
    # An automatic choice is known once the run is over.
    on = "" if device == "auto" else units.device(name or device)
    parts = [entry.header.workload, f"on {on}" if on else ""]
    length = {name: options.get(name) for name in ("batch_size", "epochs", "steps")}
    parts.extend(in_words({name: value}) for name, value in length.items() if value)
    parts.extend(unusual_settings(options))
    data = result.data if result is not None else None
    parts.append(f"{data} data" if data else "")
    return "  ".join(part for part in parts if part)


def _speed(result: Result, header: SessionHeader) -> str:
    parts = []
    if result.samples_per_second is not None:
        unit = units.rate_unit(result.counts_steps)
        parts.append(units.throughput(result.samples_per_second, unit))
    if result.step_ms is not None:
        parts.append(f"{units.step_time(result.step_ms.median)} per step")
    if result.compile_s is not None:
        compiled = compiled_by(header)
        # Without compilation, the first batches stand apart, as they do live.
        beside_s = 0.0 if compiled else result.validation_compile_s or 0.0
        parts.append(compile_text(max(0.0, result.compile_s - beside_s), compiled))
    parts.append(f"took {units.seconds(result.wall_s)}")
    parts.extend((cost_text(result), energy_text(result), effective_text(result)))
    return "   ".join(part for part in parts if part)
