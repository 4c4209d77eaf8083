"""A row for each of many hosts: its GPUs, who is on them, its CPU and its sessions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures import hosts as words
from dlmon.figures import units
from dlmon.figures.machine import BUSY_PCT
from dlmon.records import Gpu
from dlmon.remote.host import Age, HostSnapshot, RunningSession
from tui.hosts.card import MOST_GPUS, STATUS_STYLES
from tui.widgets.lines import BAR, GOOD, HIGH, MUTED, PLAIN, STRONG
from tui.widgets.row_list import RowList
from tui.widgets.rows import TextRow, TextRun, fit

_NAME, _LEAST_LEVELS, _FREE, _PERCENT, _OF_MEMORY = 18, 4, 14, 6, 16
_LEAST_TITLE = 4
# What only a wide terminal has of all GPUs of a host, the most important first.
_WIDE = (("GPU memory", 17), ("who", 22), ("power", 10))
# What sessions keep of a row, however much there is to say of GPUs.
_OF_SESSIONS = 34


class HostTable(RowList):
    """The hosts in rows, of which one is highlighted."""

    DEFAULT_CLASSES = ""
    _hosts: Sequence[HostSnapshot] = ()

    @property
    def count(self) -> int:
        return len(self._hosts)

    def show(self, hosts: Sequence[HostSnapshot], index: int) -> None:
        """Show hosts, with one of them highlighted."""
        self._hosts, self.index = hosts, index
        self.redraw()

    def heading(self, width: int) -> TextRow:
        names = f"{'host':<{_NAME}}{'GPUs':<{self._level_cells}}{'':<{_FREE}}"
        for name, cells in self._wide(width):
            names += f"  {name:<{cells - 2}}" if name == "who" else f"{name:>{cells}}"
        names += f"{'CPU':>{_PERCENT}}{'memory':>{_OF_MEMORY}}"
        is_live = not all(host.is_recorded for host in self._hosts)
        return ((fit(f"{names}  sessions" if is_live else names, width), MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        host = self._hosts[index]
        name: TextRun = (f"{fit(host.name, _NAME - 1)} ", STRONG)
        text, level = words.status_of(host)
        if host.machine is None or not host.is_there:
            status = ": ".join(filter(None, (text, words.short_problem(host))))
            return (name, (fit(status, width - _NAME), STATUS_STYLES[level]))
        return (name, *self._figures(host, width))

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        return []

    @property
    def _level_cells(self) -> int:
        levels = max((len(host.gpus) for host in self._hosts), default=0)
        return max(_LEAST_LEVELS, min(MOST_GPUS, levels)) + 2

    def _wide(self, width: int) -> list[tuple[str, int]]:
        """Return the columns of GPUs that have room beside all others."""
        left = width - _NAME - self._level_cells - _FREE - _PERCENT - _OF_MEMORY - 2
        shown: list[tuple[str, int]] = []
        for name, cells in _WIDE if any(host.gpus for host in self._hosts) else ():
            left -= cells
            if left < _OF_SESSIONS:
                break
            shown.append((name, cells))
        return shown

    def _figures(self, host: HostSnapshot, width: int) -> TextRow:
        """Return what follows the name of a host, in a row of `width` cells with it."""
        machine, cells = host.machine, self._level_cells
        assert machine is not None
        free = host.free_gpus or frozenset()
        levels: list[TextRun] = [
            (self._level_of(gpu), GOOD if gpu.index in free else BAR)
            for gpu in host.gpus[: cells - 2]
        ]
        levels.append((" " * (cells - len(levels)), PLAIN))
        count = words.free_words(host) if host.gpus else "no GPU"
        cpu, memory, facts = machine.cpu, machine.memory, host.facts
        total_mib = facts.memory_limit_mib or facts.memory_mib
        in_use = words.whole_memory(memory.used_mib if memory else None, total_mib)
        pct = cpu.pct if cpu else None
        wide = self._wide(width)
        used = _NAME + cells + _FREE + sum(cells for _, cells in wide) + _PERCENT + _OF_MEMORY + 2
        figures: TextRow = (
            *levels,
            (fit(count, _FREE), GOOD if free else MUTED),
            *((self._of_gpus(host, name, cells), PLAIN) for name, cells in wide),
            (f"{units.percent(pct):>{_PERCENT}}", HIGH if (pct or 0) >= BUSY_PCT else PLAIN),
            (f"{in_use:>{_OF_MEMORY}}  ", PLAIN),
        )
        style = PLAIN
        if not host.is_current:
            style = HIGH if host.age == Age.OLD else MUTED
            figures = tuple((text, style) for text, _ in figures)
        last = fit(self._sessions(host, width - used), width - used)
        return (*figures, (last, style))

    def _of_gpus(self, host: HostSnapshot, name: str, cells: int) -> str:
        """Return what all GPUs of a host come to; nothing where it has none."""
        if not host.gpus:
            return " " * cells
        if name == "who":
            return f"  {fit(words.users_of_host(host, cells - 2), cells - 2)}"
        if name == "power":
            return f"{words.power(words.gpu_power_w(host)):>{cells}}"
        return f"{words.whole_memory(*words.gpu_memory_mib(host)):>{cells}}"

    def _level_of(self, gpu: Gpu) -> str:
        if gpu.utilization_pct is None:
            return "·"
        levels = "▁▂▃▄▅▆▇█"
        share = max(0.0, min(1.0, gpu.utilization_pct / 100))
        return levels[round(share * (len(levels) - 1))]

    def _sessions(self, host: HostSnapshot, room: int) -> str:
        """Say what runs on a host: how many, or which one alone."""
        sessions = host.sessions or ()
        if not host.is_current:
            return words.status_of(host)[0]
        if len(sessions) == 1:
            return self._title_and_rate(sessions[0], room)
        return units.counted(len(sessions), "session") if sessions else ""

    def _title_and_rate(self, session: RunningSession, room: int) -> str:
        """Return both; the title is cut where they have no room."""
        title, rate = words.session_title(session), words.session_rate(session)
        rate = rate.replace(" samples/s", "/s")
        left = room - cell_len(rate) - 2
        if not rate or left < _LEAST_TITLE:
            return title
        return f"{fit(title, min(left, cell_len(title))).rstrip()}  {rate}"
