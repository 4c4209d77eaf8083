"""A card for one host, and a table of many: GPUs, CPU and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dlmon.figures import units
from dlmon.figures.columns import Column
from dlmon.figures.machine import host_rows as words
from dlmon.figures.machine.host_rows import ORDERS, in_order, matching
from dlmon.figures.machine.readings import (
    BUSY_PCT,
    LEVELS,
    Level,
    cpu_figures,
    memory_figures,
    no_gpu_text,
)
from dlmon.records import Gpu, Memory
from dlmon.remote.host import Age, HostSnapshot, HostState, RunningSession
from dlmon.render.wrap import first_words
from tui.drawing.plot import COLUMNS_PER_CELL
from tui.drawing.time_axis import TimeAxis
from tui.machine.gpu_rows import (
    GAP,
    LONGEST_HISTORY,
    POWER,
    TEMPERATURE,
    figure_column,
    figure_rows,
    gpu_rows,
    memory_column,
    memory_history,
    with_last,
)
from tui.machine.view import MachineView
from tui.widgets.lines import (
    ACCENT,
    BAD,
    BAR,
    CHOSEN,
    GOOD,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    GrowingLines,
    TextRow,
    TextRun,
    cut,
    fit,
    joined,
    row_width,
    without_detail,
    wrapped,
)
from tui.widgets.tables import SortedTable

MOST_GPUS, MOST_HISTORY_ROWS = 16, 3
STATUS_STYLES: dict[Level, str] = {"": MUTED, "high": HIGH, "bad": BAD}
_LEAST_BODY, _MOST_SESSIONS, _MOST_USERS = 3, 8, 24
# The samples in the longest history of a row.
_HISTORY_COLUMNS = COLUMNS_PER_CELL * LONGEST_HISTORY


class HostCard(GrowingLines):
    """A host, in a border with its name, status and identity."""

    @dataclass
    class Clicked(Message):
        """Posted when a card is clicked, once or twice."""

        name: str
        twice: bool

    MOST_ROWS: ClassVar[int] = MOST_HISTORY_ROWS * (MOST_GPUS + 1) + _MOST_SESSIONS + 2
    DEFAULT_CLASSES = "panel"
    DEFAULT_CSS = """
    HostCard { padding: 0 1; height: auto; }
    """

    _session: RunningSession | None = None
    _user_cells, _history_rows = 0, 1

    def __init__(self, host: HostSnapshot) -> None:
        super().__init__()
        self.host = host

    def show(
        self,
        host: HostSnapshot,
        chosen: bool,
        session: RunningSession | None,
        user_cells: int,
        history_rows: int,
    ) -> None:
        """Show a host; if it is chosen, highlight the session, or else the host.

        The column of the users of its GPUs has `user_cells`, as on the other cards.
        """
        self.host, self._session = host, session if chosen else None
        self._user_cells, self._history_rows = user_cells, history_rows
        self.set_class(chosen and session is None, "-chosen")
        self.set_class(chosen, "-framed")
        text, level = words.status_of(host)
        for name in LEVELS[1:]:
            self.set_class(level == name, f"-{name}")
        status = f"● {text}" if host.is_current else text
        width = self.outer_size.width
        title = fit(host.name, max(0, width - len(status) - 8)).rstrip()
        about = "  ".join(filter(None, (words.identity(host), words.clock_away(host))))
        self.set_titles(title, fit(about, width - 6).rstrip(), right=status)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self.host.name, event.chain == 2))

    def draw(self, width: int, height: int) -> list[TextRow]:
        host = self.host
        if width < 1 or height < 1:
            return []
        if host.machine is None:
            return self._without_figures(width)
        rows = [*self._gpus(width), *self._cpu(width), *self._sessions(width)]
        if not host.is_current:
            style = HIGH if host.age == Age.OLD else MUTED
            rows = [
                row if row[0][1] == CHOSEN else tuple((text, style) for text, _ in row)
                for row in rows
            ]
        # At least as high as a card without figures, so that nothing moves when they arrive.
        return [*(cut(row, width) for row in rows), *[()] * (_LEAST_BODY - len(rows))]

    def _without_figures(self, width: int) -> list[TextRow]:
        host = self.host
        # A countdown has a row of its own: it would change how the sentence is wrapped.
        text, countdown = host.problem or words.sentence_of(host), words.next_try(host)
        height = _LEAST_BODY - bool(countdown) if text else 1
        if host.is_recorded:
            # Leave room for the figures from the start, so that nothing moves.
            height = max(height, min(len(host.gpus), MOST_GPUS + 1) + 1)
        style = STATUS_STYLES[words.status_of(host)[1]]
        lines = wrapped(text or "no reading yet", width, height)
        rows: list[TextRow] = [((line, style),) for line in lines]
        rows += [()] * (height - len(rows))
        return [*rows, ((countdown, MUTED),)] if countdown else rows

    def _gpus(self, width: int) -> list[TextRow]:
        host = self.host
        if no_gpu := no_gpu_text(host.machine, host.facts):
            return [((f" {without_detail(no_gpu, width - 1)}", MUTED),)]
        view = MachineView(host.history, host.facts, None, host.interval_s)
        rows: list[TextRow] = []
        for gpu in host.gpus[:MOST_GPUS]:
            is_free = gpu.index in (host.free_gpus or ())
            last = self._last_column(gpu_users(host, gpu), GOOD if is_free else MUTED)
            name = f"{gpu.index:<3}"
            rows += gpu_rows(view, gpu, self._axis, name, width, last, self._history_rows)
        more = len(host.gpus) - MOST_GPUS
        return [*rows, ((f" … {more} more", MUTED),)] if more > 0 else rows

    def _cpu(self, width: int) -> list[TextRow]:
        machine, facts = self.host.machine, self.host.facts
        assert machine is not None
        figures = {
            figure.label: figure
            for figure in (*cpu_figures(machine, facts), *memory_figures(machine, facts))
        }
        total_mib = facts.usable_memory_mib
        used_mib = machine.memory.used_mib if machine.memory else None
        load = words.load_words(machine.cpu.load_1m if machine.cpu else None)
        label: TextRun = (" CPU ", MUTED)
        room = width - len(label[0])
        history = self.host.history
        columns = with_last(
            [
                *memory_history(history.memory_mib, total_mib, self._axis, room),
                memory_column(figures.get("memory"), used_mib, total_mib),
                (figure_column(figures.get("temp"), TEMPERATURE), TEMPERATURE),
                (figure_column(figures.get("package"), POWER), POWER),
            ],
            self._last_column(past_text(self.host) or load, MUTED),
            room,
        )
        pct = machine.cpu.pct if machine.cpu else None
        return figure_rows(
            label,
            pct,
            history.cpu_pct,
            self._axis,
            columns,
            width,
            "$chart-cpu",
            self._history_rows,
        )

    def _last_column(self, text: str, style: str) -> tuple[TextRun, int]:
        """Return the last column of a row, aligned left, and its cells with the gap."""
        cells = self._user_cells
        return (fit(first_words(text, cells), cells), style), cells + GAP

    @property
    def _axis(self) -> TimeAxis:
        """The newest samples; columns begin at multiples of their width."""
        machine, series = self.host.machine, self.host.history.cpu_pct
        column_ns = max(1_000_000_000, int(self.host.interval_s * 1e9))
        now_ns = machine.t if machine is not None else 0
        if self.host.is_recorded:
            # A short recording takes the whole width.
            length_ns = now_ns - series.first * series.width_ns
            column_ns = max(1, min(column_ns, length_ns // _HISTORY_COLUMNS))
        end_ns = -(-now_ns // column_ns) * column_ns
        start_ns = end_ns - _HISTORY_COLUMNS * column_ns
        return TimeAxis(start_ns, column_ns, _HISTORY_COLUMNS, _HISTORY_COLUMNS)

    def _sessions(self, width: int) -> list[TextRow]:
        """Return the sessions of the host, which a recording may lack."""
        host = self.host
        if host.is_recorded and not host.sessions:
            return []
        if not host.sessions:
            text = words.sessions_problem(host) if host.sessions is None else "no dlmon session"
            return [((f" {text}", MUTED),)]
        rows = [self._session_row(session, width) for session in shown_sessions(host)]
        if more := len(host.sessions) - len(rows):
            rows.append(((f" … {units.counted(more, 'more session')}", MUTED),))
        return rows

    def _session_row(self, session: RunningSession, width: int) -> TextRow:
        right: TextRow = (
            (words.session_progress(session), MUTED),
            (f"  {past_text(self.host) or words.session_rate(session):>15}", STRONG),
            (f"  {words.session_device(session):<6}", MUTED),
        )
        row = joined(((f" {words.session_title(session)}", ACCENT),), right, width)
        if session != self._session:
            return row
        return ((fit("".join(text for text, _ in row), width), CHOSEN),)


def shown_sessions(host: HostSnapshot) -> tuple[RunningSession, ...]:
    """Return the sessions with a row on the host's card, which can be chosen."""
    return () if host.machine is None else (host.sessions or ())[:_MOST_SESSIONS]


def user_cells(hosts: Sequence[HostSnapshot]) -> int:
    """Return the cells of the longest users of a GPU of any host."""
    users = (gpu_users(host, gpu) for host in hosts for gpu in host.gpus[:MOST_GPUS])
    # A host that is lost moves nothing.
    return min(_MOST_USERS, max(map(cell_len, ("at 00:00:00", *users))))


def gpu_users(host: HostSnapshot, gpu: Gpu) -> str:
    """Return who uses a GPU, or of when its figures are."""
    return past_text(host) or words.gpu_users(host, gpu)


def past_text(host: HostSnapshot) -> str:
    """Say when the figures of a host were read; empty if they are current."""
    time = words.time_of_figures(host)
    return f"at {time}" if time else ""


_NAME, _LEAST_LEVELS, _FREE, _PERCENT, _MEMORY = 18, 4, 14, 6, 11
# Hosts are sorted anew only every tenth time they are shown: a row that moves is hard to follow.
_SORTED_EVERY = 10
_LEAST_FOLDED = 5
# A table of at least this width has figures of all GPUs of a host together.
_WIDTH_FOR_GPUS, _GPU_MEMORY, _WHO, _POWER = 118, 11, 20, 10


class HostTable(SortedTable[HostSnapshot]):
    """The hosts in rows, of which one is highlighted."""

    DEFAULT_CLASSES = ""
    # The heading has no columns to sort by: a click there sorts nothing.
    FRONT = 10_000
    _by = ORDERS[0]
    _times_shown = 0
    _sorted_as: tuple[object, ...] = ()
    _ranks: Mapping[str, int] = {}
    _has_users = False
    folded: Sequence[HostSnapshot] = ()
    """Hosts whose recordings begin later, which have no rows: that of the first one counts them."""

    def show(self, hosts: Sequence[HostSnapshot]) -> None:
        """Show hosts, in the order of the last sorting until the next one is due."""
        self.all_rows = hosts
        self._has_users = any(words.users_of(host.machine) for host in hosts)
        self.rearrange()
        self._times_shown += 1

    @property
    def is_reversed(self) -> bool:
        return self._reversed

    def columns(self, width: int) -> Sequence[Column[HostSnapshot]]:
        return [Column(order, lambda host: "") for order in ORDERS]

    def matching_rows(self) -> list[HostSnapshot]:
        hosts, times = self.all_rows or (), self._times_shown // _SORTED_EVERY
        sorted_as = (self._by, self._reversed, len(hosts), times)
        if sorted_as != self._sorted_as:
            ordered = in_order(hosts, self._by)
            names = [host.name for host in (reversed(ordered) if self._reversed else ordered)]
            self._sorted_as = sorted_as
            self._ranks = {name: rank for rank, name in enumerate(names)}
        hosts = matching(hosts, self._typed)
        ranked = sorted(hosts, key=lambda host: self._ranks.get(host.name, 0))
        later = [host for host in ranked if host.state == HostState.NOT_STARTED]
        later.sort(key=lambda host: host.edge_wall or 0.0)
        self.folded = later[1:] if len(later) >= _LEAST_FOLDED else []
        folded = {host.name for host in self.folded}
        return [host for host in ranked if host.name not in folded]

    def key_of(self, row: HostSnapshot) -> str:
        return row.name

    def put_titles(self) -> None:
        """Do nothing: the table has no border."""

    def heading(self, width: int) -> TextRow:
        names = f"{'host':<{_NAME}}{'use of each GPU':<{self._level_cells + _FREE}}"
        if self._has_gpu_totals(width):
            who = f"{'who':<{_WHO}}" * self._has_users
            names += f"{'GPU memory':>{_GPU_MEMORY}}  {who}{'power':>{_POWER}}"
        names += f"{'CPU':>{_PERCENT}}{'memory':>{_MEMORY}}"
        is_live = not all(host.is_recorded for host in self.shown_rows)
        return ((f"{names}  sessions" if is_live else names, MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        host = self.shown_rows[index]
        name: TextRun = (f"{fit(host.name, _NAME - 1)} ", STRONG)
        text, level = words.status_of(host)
        if host.machine is None or not host.is_there:
            status = ": ".join(filter(None, (text, words.short_problem(host))))
            if host.state == HostState.NOT_STARTED and self.folded:
                time = text.removeprefix("begins at ")
                status = f"and {len(self.folded)} more begin from {time} on"
            return (name, (first_words(status, width - _NAME), STATUS_STYLES[level]))
        figures = self._figures(host, width)
        if not host.is_current:
            style = HIGH if host.age == Age.OLD else MUTED
            figures = tuple((text, style) for text, _ in figures)
        return (name, *figures)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        return []

    @property
    def _level_cells(self) -> int:
        levels = max((len(host.gpus) for host in self.shown_rows), default=0)
        return max(_LEAST_LEVELS, min(MOST_GPUS, levels)) + 2

    def _has_gpu_totals(self, width: int) -> bool:
        return width >= _WIDTH_FOR_GPUS and any(host.gpus for host in self.shown_rows)

    def _figures(self, host: HostSnapshot, width: int) -> TextRow:
        """Return the row of a host after its name."""
        machine, cells, free = host.machine, self._level_cells, host.free_gpus or frozenset()
        assert machine is not None
        gpus = host.gpus[: cells - 2]
        count = words.free_words(host) if host.gpus else "no GPU"
        cpu, memory, facts = machine.cpu, machine.memory or Memory(), host.facts
        in_use = _in_use(memory.used_mib, facts.usable_memory_mib)
        pct = cpu.pct if cpu else None
        gpu_memory = _in_use(*words.gpu_memory_mib(host)) if host.gpus else ""
        users = fit(words.users_of(machine), _WHO) if self._has_users else ""
        power = words.gpu_power_text(host) if host.gpus else ""
        gpu_totals = f"{gpu_memory:>{_GPU_MEMORY}}  {users}{power:>{_POWER}}"
        row = (
            *((_level_of(gpu), GOOD if gpu.index in free else BAR) for gpu in gpus),
            (" " * (cells - len(gpus)), PLAIN),
            (fit(count, _FREE), GOOD if free else MUTED),
            (gpu_totals if self._has_gpu_totals(width) else "", PLAIN),
            (f"{units.percent(pct):>{_PERCENT}}", HIGH if (pct or 0) >= BUSY_PCT else PLAIN),
            (f"{in_use:>{_MEMORY}}  ", PLAIN),
        )
        return (*row, (_sessions(host, width - _NAME - row_width(row)), PLAIN))


def _in_use(used_mib: float | None, total_mib: float | None) -> str:
    if used_mib is None or not total_mib:
        return "–"
    return units.short_memory_in_use(used_mib, total_mib)


def _level_of(gpu: Gpu) -> str:
    if gpu.utilization_pct is None:
        return "·"
    levels = "▁▂▃▄▅▆▇█"
    share = max(0.0, min(1.0, gpu.utilization_pct / 100))
    return levels[round(share * (len(levels) - 1))]


def _sessions(host: HostSnapshot, width: int) -> str:
    """Return the titles and rates of a host's sessions, or their number if these don't fit."""
    sessions = host.sessions or ()
    if not host.is_current:
        return f"as of {words.time_of_figures(host)}"
    text = ", ".join(
        f"{words.session_title(session)} {words.session_rate(session).replace(' samples/s', '/s')}"
        for session in sessions
    ).strip()
    is_long = len(sessions) > 1 and cell_len(text) > width
    return units.counted(len(sessions), "session") if is_long else text
