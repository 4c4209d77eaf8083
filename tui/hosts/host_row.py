"""A row for each of many hosts: its GPUs, who is on them, its CPU and its sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlmon.figures import hosts as words
from dlmon.figures import units
from dlmon.figures.hosts import ORDERS, in_order, matching
from dlmon.figures.machine import BUSY_PCT
from dlmon.records import Gpu, Memory
from dlmon.remote.host import Age, HostSnapshot
from tui.hosts.card import MOST_GPUS, STATUS_STYLES
from tui.widgets.lines import BAR, GOOD, HIGH, MUTED, PLAIN, STRONG
from tui.widgets.rows import TextRow, TextRun, fit
from tui.widgets.sorted_table import Column, SortedTable

_NAME, _LEAST_LEVELS, _FREE, _PERCENT, _MEMORY = 18, 4, 14, 6, 11
# Hosts that are sorted by what changes take their new places so seldom: each time is a jump.
_SORTED_EVERY = 10
# What only a wide terminal has of all GPUs of a host.
_WIDTH_FOR_GPUS, _GPU_MEMORY, _WHO, _POWER = 118, 11, 20, 10


class HostTable(SortedTable[HostSnapshot]):
    """The hosts in rows, of which one is highlighted."""

    DEFAULT_CLASSES = ""
    # Its heading names no orders: a click there sorts nothing.
    FRONT = 10_000
    shown: Sequence[HostSnapshot] = ()
    _by = ORDERS[0]
    _times_shown = 0
    _sorted_as: tuple[object, ...] = ()
    _places: Mapping[str, int] = {}

    def show(self, hosts: Sequence[HostSnapshot]) -> None:
        """Show hosts; those that are sorted by what changes change places now and then."""
        self.all_rows = hosts
        self.rearrange()
        self._times_shown += 1

    @property
    def is_reversed(self) -> bool:
        return self._reversed

    def columns(self, width: int) -> Sequence[Column]:
        """Return what they can be sorted by."""
        return [Column(order, lambda host: None) for order in ORDERS]

    def found(self) -> list[HostSnapshot]:
        hosts, times = self.all_rows or (), self._times_shown // _SORTED_EVERY
        sorted_as = (self._by, self._reversed, len(hosts), times)
        if sorted_as != self._sorted_as:
            ordered = in_order(hosts, self._by)
            names = [host.name for host in (reversed(ordered) if self._reversed else ordered)]
            self._sorted_as = sorted_as
            self._places = {name: place for place, name in enumerate(names)}
        shown = matching(hosts, self._typed)
        return sorted(shown, key=lambda host: self._places.get(host.name, 0))

    def key_of(self, row: HostSnapshot) -> str:
        return row.name

    def put_titles(self) -> None:
        """It has no border."""

    def heading(self, width: int) -> TextRow:
        names = f"{'host':<{_NAME}}{'GPUs':<{self._level_cells}}{'':<{_FREE}}"
        if self._says_more_of_gpus(width):
            names += f"{'GPU memory':>{_GPU_MEMORY}}  {'who':<{_WHO}}{'power':>{_POWER}}"
        names += f"{'CPU':>{_PERCENT}}{'memory':>{_MEMORY}}"
        is_live = not all(host.is_recorded for host in self.shown)
        return ((f"{names}  sessions" if is_live else names, MUTED),)

    def row_of(self, index: int, width: int) -> TextRow:
        host = self.shown[index]
        name: TextRun = (f"{fit(host.name, _NAME - 1)} ", STRONG)
        text, level = words.status_of(host)
        if host.machine is None or not host.is_there:
            status = ": ".join(filter(None, (text, words.short_problem(host))))
            return (name, (status, STATUS_STYLES[level]))
        figures = self._figures(host, self._says_more_of_gpus(width))
        if not host.is_current:
            style = HIGH if host.age == Age.OLD else MUTED
            figures = tuple((text, style) for text, _ in figures)
        return (name, *figures)

    def empty_rows(self, width: int, height: int) -> list[TextRow]:
        return []

    @property
    def _level_cells(self) -> int:
        levels = max((len(host.gpus) for host in self.shown), default=0)
        return max(_LEAST_LEVELS, min(MOST_GPUS, levels)) + 2

    def _says_more_of_gpus(self, width: int) -> bool:
        return width >= _WIDTH_FOR_GPUS and any(host.gpus for host in self.shown)

    def _figures(self, host: HostSnapshot, says_more_of_gpus: bool) -> TextRow:
        """Return what follows the name of a host."""
        machine, cells, free = host.machine, self._level_cells, host.free_gpus or frozenset()
        assert machine is not None
        gpus = host.gpus[: cells - 2]
        count = words.free_words(host) if host.gpus else "no GPU"
        cpu, memory, facts = machine.cpu, machine.memory or Memory(), host.facts
        in_use = _in_use(memory.used_mib, facts.memory_limit_mib or facts.memory_mib)
        pct = cpu.pct if cpu else None
        more = " " * (_GPU_MEMORY + _WHO + _POWER + 2)
        if host.gpus:
            who, power_w = words.users_of(machine), words.gpu_power_w(host)
            power = "–" if power_w is None else f"{power_w:.0f} W"
            gpu_memory = _in_use(*words.gpu_memory_mib(host))
            more = f"{gpu_memory:>{_GPU_MEMORY}}  {fit(who, _WHO)}{power:>{_POWER}}"
        return (
            *((_level_of(gpu), GOOD if gpu.index in free else BAR) for gpu in gpus),
            (" " * (cells - len(gpus)), PLAIN),
            (fit(count, _FREE), GOOD if free else MUTED),
            (more if says_more_of_gpus else "", PLAIN),
            (f"{units.percent(pct):>{_PERCENT}}", HIGH if (pct or 0) >= BUSY_PCT else PLAIN),
            (f"{in_use:>{_MEMORY}}  ", PLAIN),
            (_sessions(host), PLAIN),
        )


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


def _sessions(host: HostSnapshot) -> str:
    """Say what runs on a host: how many, or how fast the only one is."""
    sessions = host.sessions or ()
    if not host.is_current:
        return words.status_of(host)[0]
    if len(sessions) == 1:
        rate = words.session_rate(sessions[0]).replace(" samples/s", "/s")
        return "  ".join(filter(None, (rate, words.session_title(sessions[0]))))
    return units.counted(len(sessions), "session") if sessions else ""
