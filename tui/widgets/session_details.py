"""What is known of one recorded session."""

from __future__ import annotations

from dlmon.records import Result
from dlmon.sanitize import clean
from dlmon.sessions import RUNNING, SessionEntry
from tui import figures
from tui.compared import unusual_settings
from tui.result_figures import cost_text, effective_text, energy_text
from tui.widgets.lines import BAD, MUTED, PLAIN, STRONG, Lines, cut, wrapped
from tui.widgets.rows import Row
from tui.widgets.session_list import device_of, outcome

_UNFINISHED = {
    RUNNING: "still running: Enter shows it as it goes on",
    "interrupted": "its supervisor is gone and left no result; Enter shows what was recorded",
    "unknown": "recorded on another machine: whether it still runs can't be told from here",
}


class SessionDetails(Lines):
    """A few rows: its name, how it was trained, how fast it was, where it is recorded."""

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        """Start empty."""
        super().__init__(ascii=ascii, id=id, classes="panel")
        self._entry: SessionEntry | None = None

    def show(self, entry: SessionEntry | None) -> None:
        """Show a session, or nothing."""
        self._entry = entry
        self.set_titles("Session" if entry else "")
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        """Return the rows; a long error takes the place of where it is recorded."""
        entry = self._entry
        if entry is None:
            return []
        rows: list[Row] = [
            ((entry.header.id, STRONG),),
            ((_settings(entry), PLAIN),),
            *self._came_of_it(entry, width, height - 2),
            ((clean(str(entry.path)), MUTED),),
        ]
        return [cut(row, width, self.ellipsis) for row in rows[:height]]

    def _came_of_it(self, entry: SessionEntry, width: int, height: int) -> list[Row]:
        result = entry.result
        if result is None:
            return [((_UNFINISHED.get(entry.status, entry.status), MUTED),)]
        if result.error:
            lines = wrapped(result.error, width, max(1, height), self.ellipsis)
            return [((line, BAD),) for line in lines]
        speed = _speed(result, self.ascii)
        return [((text, PLAIN),) for text in (outcome(entry, self.ascii), speed) if text]


def _settings(entry: SessionEntry) -> str:
    """Return how it was trained, and on what."""
    options, result = entry.header.options, entry.result
    device, name = device_of(entry)
    # Which one an automatic choice took is told once it is over.
    on = "" if device == "auto" else figures.device(name or device)
    parts = [entry.header.workload, f"on {on}" if on else ""]
    for option, text in (
        ("batch_size", "batch {}"),
        ("epochs", "{} epochs"),
        ("steps", "{} steps"),
    ):
        value = options.get(option)
        parts.append(text.format(value) if value else "")
    parts.extend(unusual_settings(options))
    data = result.data if result is not None else None
    parts.append(f"{data} data" if data else "")
    return "  ".join(part for part in parts if part)


def _speed(result: Result, ascii: bool) -> str:
    parts = []
    if result.samples_per_second is not None:
        parts.append(figures.throughput(result.samples_per_second, ascii))
    if result.step_ms is not None:
        parts.append(f"{result.step_ms.median:,.3g} ms a step")
    if result.compile_s is not None:
        parts.append(f"compile {figures.seconds(result.compile_s)}")
    parts.append(f"took {figures.seconds(result.wall_s)}")
    parts.extend((cost_text(result), energy_text(result), effective_text(result)))
    return "   ".join(part for part in parts if part)
