"""A card for one host: its GPUs, its CPU, and what runs there."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.style import Style

from dlmon.figures import hosts as words
from dlmon.figures import units
from dlmon.figures.machine import GPU_HOT_C, Level, has_no_readings, no_utilization
from dlmon.records import Gpu
from dlmon.remote.host import Age, HostSnapshot, RunningSession
from dlmon.statistics.series import Series
from tui.drawing.time_axis import TimeAxis
from tui.machine.gpu_rows import figure_row
from tui.widgets.lines import (
    ACCENT,
    BAD,
    CHOSEN,
    GOOD,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    cut,
    joined,
    wrapped,
)
from tui.widgets.rows import LABEL, TextRow, TextRun, fit

FRAME = 2
MOST_GPUS = 16
STATUS_STYLES: dict[Level, tuple[str, ...]] = {"": MUTED, "high": HIGH, "bad": BAD}
_LEAST_BODY, _MOST_SESSIONS = 3, 8
# A chart of the last minute, in what the other columns leave.
_HISTORY_NS, _HISTORY_COLUMNS = 60_000_000_000, 60
_LABEL, _MEMORY, _POWER, _HEAT = 4, 16, 7, 7


class HostCard(Lines):
    """A host, within a border that says its name, how it stands and what it is."""

    @dataclass
    class Clicked(Message):
        """A card was clicked, once or twice."""

        name: str
        twice: bool

    DEFAULT_CLASSES = "panel"
    DEFAULT_CSS = """
    HostCard { padding: 0 1; height: 100%; }
    """

    _session: str | None = None

    def __init__(self, host: HostSnapshot) -> None:
        super().__init__()
        self.host = host

    def show(self, host: HostSnapshot, *, chosen: bool, session: str | None) -> None:
        """Show a host, highlighted or not, or a session of it, by its id."""
        self.host, self._session = host, session if chosen else None
        self.set_class(chosen and session is None, "-chosen")
        self.set_class(chosen, "-framed")
        text, _ = words.status_of(host)
        status = f"● {text}" if host.is_current else text
        room = self.outer_size.width - len(status) - 8
        about = (words.identity(host), words.clock_away(host))
        below = fit("  ".join(filter(None, about)), self.outer_size.width - 6)
        name = fit(host.name, max(0, room)).rstrip()
        self.set_titles(name, below.rstrip(), right=status)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self.host.name, event.chain == 2))

    @property
    def label_style(self) -> Style | str:
        """How the host stands has a colour of its own."""
        level = words.status_of(self.host)[1]
        style = GOOD if self.host.is_current else STATUS_STYLES[level]
        return Style(foreground=self.get_visual_style(*style).foreground)

    def top_row(self, title: str, right: str) -> TextRow:
        *before, (text, _) = super().top_row(title, right)
        return (*before, (text, LABEL))

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return GPUs, CPU and sessions, or why nothing is known of them."""
        host = self.host
        if width < 1 or height < 1:
            return []
        if host.machine is None:
            return self._without_figures(width)
        rows = [*self._gpus(width), self._cpu(width)]
        sessions = self._sessions(width)
        if not host.is_current:
            style = HIGH if host.age == Age.OLD else MUTED
            rows = [_in_style(row, style) for row in rows]
            sessions = [row if row[0][1] == CHOSEN else _in_style(row, style) for row in sessions]
        return [cut(row, width) for row in (*rows, *sessions)]

    def _without_figures(self, width: int) -> list[TextRow]:
        """Say why there are no figures."""
        # A countdown would change how the sentence is broken.
        text, following = (
            self.host.problem or words.sentence_of(self.host),
            words.next_try(self.host),
        )
        style = STATUS_STYLES[words.status_of(self.host)[1]]
        most = _LEAST_BODY - bool(following)
        rows: list[TextRow] = [((line, style),) for line in wrapped(text, width, most)]
        rows += [()] * (most - len(rows))
        return [*rows, ((following, MUTED),)] if following else rows

    def _gpus(self, width: int) -> list[TextRow]:
        host, reason = self.host, self.host.no_gpus
        if reason is not None:
            return [((f"no GPU: {reason}" if reason else "no GPU", MUTED),)]
        rows = [self._gpu(gpu, width) for gpu in host.gpus[:MOST_GPUS]]
        left = len(host.gpus) - len(rows)
        return [*rows, ((f"… {left} more", MUTED),)] if left > 0 else rows

    def _gpu(self, gpu: Gpu, width: int) -> TextRow:
        host = self.host
        if has_no_readings(gpu):
            return ((f"{gpu.index:<{_LABEL}}", MUTED), (no_utilization(gpu), BAD))
        facts, is_free = host.facts_of(gpu), gpu.index in (host.free_gpus or ())
        who = "free" if is_free else words.users_of(host.machine, gpu)
        if gpu.mig and not who:
            who = "MIG on"
        hot = gpu.temperature_c is not None and gpu.temperature_c >= GPU_HOT_C[0]
        return self._row(
            f"{gpu.index}",
            gpu.utilization_pct,
            host.history.gpu_utilization_pct.get(gpu.index, Series()),
            words.whole_memory(gpu.memory_used_mib, facts.memory_mib if facts else None),
            words.power(gpu.power_w),
            (words.temperature(gpu.temperature_c), HIGH if hot else PLAIN),
            (who, GOOD if is_free else MUTED),
            width,
        )

    def _cpu(self, width: int) -> TextRow:
        machine, facts = self.host.machine, self.host.facts
        assert machine is not None
        cpu, memory = machine.cpu, machine.memory
        total_mib = facts.memory_limit_mib or facts.memory_mib
        # Most machines report neither, and a dash would only say that again.
        power = words.power(cpu.power_w) if cpu and cpu.power_w is not None else ""
        heat = words.temperature(cpu.temperature_c) if cpu and cpu.temperature_c is not None else ""
        return self._row(
            "CPU",
            cpu.pct if cpu else None,
            self.host.history.cpu_pct,
            words.whole_memory(memory.used_mib if memory else None, total_mib),
            power,
            (heat, PLAIN),
            (words.load_words(cpu.load_1m if cpu else None), MUTED),
            width,
        )

    def _row(
        self,
        name: str,
        pct: float | None,
        series: Series,
        memory: str,
        power: str,
        heat: TextRun,
        last: TextRun,
        width: int,
    ) -> TextRow:
        cells = _who_cells(width)
        columns: list[tuple[TextRun, int]] = [
            ((memory, PLAIN), _MEMORY),
            ((power, PLAIN), _POWER),
            (heat, _HEAT),
            ((fit(last[0], cells), last[1]), cells + 2),
        ]
        drawn = figure_row(pct, series, self._axis, columns, width - _LABEL)
        return ((f"{name:<{_LABEL}}", MUTED), *drawn)

    @property
    def _axis(self) -> TimeAxis:
        """The last minute, in whole intervals that stay where they are as time goes on."""
        machine = self.host.machine
        least_ns = max(_HISTORY_NS // _HISTORY_COLUMNS, int(self.host.interval_s * 1e9))
        end_ns = -(-(machine.t if machine is not None else 0) // least_ns) * least_ns
        start_ns = end_ns - _HISTORY_COLUMNS * least_ns
        return TimeAxis(start_ns, least_ns, _HISTORY_COLUMNS, _HISTORY_COLUMNS)

    def _sessions(self, width: int) -> list[TextRow]:
        """Return what runs on the host; a recording holds nothing of that."""
        host = self.host
        if host.is_recorded:
            return []
        if host.sessions is None:
            return [((words.sessions_problem(host), MUTED),)]
        if not host.sessions:
            return [(("no dlmon session", MUTED),)]
        shown = shown_sessions(host)
        rows = [self._session_row(each, width) for each in shown]
        if left := len(host.sessions) - len(shown):
            rows.append(((f"… {units.counted(left, 'more session')}", MUTED),))
        return rows

    def _session_row(self, session: RunningSession, width: int) -> TextRow:
        right: TextRow = (
            (words.session_progress(session), MUTED),
            (f"  {words.session_rate(session):>15}", STRONG),
            (f"  {words.session_device(session):<6}", MUTED),
        )
        left: TextRow = ((words.session_title(session), ACCENT),)
        row = joined(left, right, width)
        if session.session != self._session:
            return row
        return ((fit("".join(text for text, _ in row), width), CHOSEN),)


def card_height(host: HostSnapshot) -> int:
    """Return in how many rows a host is shown whole."""
    gpus = min(len(host.gpus), MOST_GPUS + 1) or 1
    if host.is_recorded:
        # What will be shown has its room from the start, so that nothing moves.
        return FRAME + max(_LEAST_BODY, gpus + 1)
    if host.machine is None:
        return FRAME + _LEAST_BODY
    return FRAME + gpus + 1 + (min(len(host.sessions or ()), _MOST_SESSIONS + 1) or 1)


def shown_sessions(host: HostSnapshot) -> tuple[RunningSession, ...]:
    """Return the sessions that have a row on a host's card, and so can be chosen."""
    return () if host.machine is None else (host.sessions or ())[:_MOST_SESSIONS]


def _who_cells(width: int) -> int:
    return max(8, min(24, (width - 40) // 2 - 3))


def _in_style(row: TextRow, style: tuple[str, ...]) -> TextRow:
    return tuple((text, style) for text, _ in row)
