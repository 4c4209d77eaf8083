"""A row for each of many hosts: its GPUs, who is on them, its CPU and its sessions."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from dlmon.figures import hosts as words
from dlmon.figures import units
from dlmon.figures.glyphs import Glyphs
from dlmon.records import Gpu
from dlmon.remote.host import Age, HostSnapshot, RunningSession
from tui.hosts.card import MOST_GPUS, PERCENT_CELLS, STATUS_STYLES, percent_cell, shown_sessions
from tui.widgets.lines import BAR, CHOSEN, GOOD, HIGH, MUTED, PLAIN, STRONG
from tui.widgets.rows import TextRow, TextRun, fit

_NAME, _LEAST_LEVELS, _FREE, _OF_MEMORY = 18, 4, 14, 16
_LEAST_TITLE, _SHORTEST_TITLE = 8, 4
"""Of a session, before a throughput in full and before a short one."""


class _Column(NamedTuple):
    """A column that only a wide terminal has, with the gap before it."""

    name: str
    cells: int


_GPU_MEMORY, _WHO, _GPU_POWER = _Column("GPU memory", 17), _Column("who", 22), _Column("power", 10)
_BY_IMPORTANCE = (_GPU_MEMORY, _WHO, _GPU_POWER)
_IN_ORDER = (_GPU_MEMORY, _GPU_POWER, _WHO)
# What sessions keep of a row, however much there is to say of GPUs.
_OF_SESSIONS = 34


def _wide_columns(width: int, levels: int) -> list[_Column]:
    """Return the columns of GPUs that have room beside all others."""
    left = width - _NAME - _level_cells(levels) - _FREE - PERCENT_CELLS - _OF_MEMORY - 2
    shown = []
    for column in _BY_IMPORTANCE if levels else ():
        left -= column.cells
        if left < _OF_SESSIONS:
            break
        shown.append(column)
    return [column for column in _IN_ORDER if column in shown]


def compact_heading(width: int, levels: int, *, sessions: bool = True) -> TextRow:
    """Return the names of the columns of `compact_row`, that of the sessions where it is asked."""
    names = f"{'host':<{_NAME}}{'GPUs':<{_level_cells(levels)}}{'':<{_FREE}}"
    for name, cells in _wide_columns(width, levels):
        names += f"  {name:<{cells - 2}}" if name == _WHO.name else f"{name:>{cells}}"
    names += f"{'CPU':>{PERCENT_CELLS}}{'memory':>{_OF_MEMORY}}"
    return ((fit(f"{names}  sessions" if sessions else names, width), MUTED),)


def compact_row(
    host: HostSnapshot,
    width: int,
    levels: int,
    glyphs: Glyphs,
    *,
    chosen: bool = False,
    session: str | None = None,
) -> TextRow:
    """Return a host in one row of exactly `width` cells.

    Args:
        host: what is known of it.
        width: of the row.
        levels: the most GPUs that any of the hosts has.
        glyphs: the characters to draw with.
        chosen: it is the highlighted one.
        session: the session on it that is highlighted, by its id; then the rest of it is not.
    """
    session = session if chosen else None
    name: TextRun = (f"{fit(host.name, _NAME - 1, glyphs.ellipsis)} ", STRONG)
    text, level = words.status_of(host)
    row: TextRow
    if host.machine is None or not host.is_there:
        status = ": ".join(filter(None, (text, words.short_problem(host))))
        row = (name, (fit(status, width - _NAME, glyphs.ellipsis), STATUS_STYLES[level]))
    else:
        figures = _compact_figures(host, width, levels, session, glyphs)
        row = (name, *figures)
    if chosen and session is None:
        joint = "".join(text for text, _ in row)
        return ((fit(joint, width, glyphs.ellipsis), CHOSEN),)
    return row


def _level_cells(levels: int) -> int:
    return max(_LEAST_LEVELS, min(MOST_GPUS, levels)) + 2


def _compact_figures(
    host: HostSnapshot, width: int, levels: int, session: str | None, glyphs: Glyphs
) -> TextRow:
    """Return what follows the name of a host, in a row of `width` cells with it."""
    machine, cells = host.machine, _level_cells(levels)
    assert machine is not None
    free = host.free_gpus or frozenset()
    bars = [
        (_bar_of(gpu, glyphs), GOOD if gpu.index in free else BAR) for gpu in host.gpus[: cells - 2]
    ]
    bars.append((" " * (cells - len(bars)), PLAIN))
    count = words.free_words(host) if host.gpus else "no GPU"
    cpu, memory, facts = machine.cpu, machine.memory, host.facts
    total_mib = facts.memory_limit_mib or facts.memory_mib
    in_use = words.whole_memory(memory.used_mib if memory else None, total_mib)
    wide = _wide_columns(width, levels)
    used = _NAME + cells + _FREE + sum(column.cells for column in wide)
    room = width - used - PERCENT_CELLS - _OF_MEMORY - 2
    last = _sessions_in_words(host, room, glyphs) if host.is_current else words.status_of(host)[0]
    if session is not None:
        last = _session_in_words(host, session, room, glyphs)
    figures: TextRow = (
        *bars,
        (fit(count, _FREE, glyphs.ellipsis), GOOD if free else MUTED),
        *((_of_gpus(host, column, glyphs.ellipsis), PLAIN) for column in wide),
        percent_cell(cpu.pct if cpu else None),
        (f"{in_use:>{_OF_MEMORY}}  ", PLAIN),
    )
    style = PLAIN
    if not host.is_current:
        style = HIGH if host.age == Age.OLD else MUTED
        figures = tuple((text, style) for text, _ in figures)
    if session is not None:
        style = CHOSEN
    return (*figures, (fit(last, room, glyphs.ellipsis), style))


def _of_gpus(host: HostSnapshot, column: _Column, ellipsis: str) -> str:
    """Return what all GPUs of a host come to in a column; nothing where it has none."""
    text = ""
    if host.gpus and column == _WHO:
        text = f"  {words.users_of_host(host, column.cells - 2)}"
    elif host.gpus and column == _GPU_POWER:
        text = f"{words.power(words.gpu_power_w(host)):>{column.cells}}"
    elif host.gpus:
        text = f"{words.whole_memory(*words.gpu_memory_mib(host)):>{column.cells}}"
    return fit(text, column.cells, ellipsis)


def _bar_of(gpu: Gpu, glyphs: Glyphs) -> str:
    if gpu.utilization_pct is None:
        return "?" if glyphs.is_ascii else "·"
    levels = glyphs.levels
    share = max(0.0, min(1.0, gpu.utilization_pct / 100))
    return levels[round(share * (len(levels) - 1))]


def _sessions_in_words(host: HostSnapshot, room: int, glyphs: Glyphs) -> str:
    sessions = host.sessions or ()
    if len(sessions) != 1:
        return units.counted(len(sessions), "session") if sessions else ""
    return _title_and_rate(sessions[0], room, glyphs)


def _session_in_words(host: HostSnapshot, id: str, room: int, glyphs: Glyphs) -> str:
    """Say which of the sessions of a host one is: 2 of 3  cifar10-cnn  5,540 samples/s."""
    shown = shown_sessions(host)
    at = next(number for number, session in enumerate(shown) if session.session == id)
    before = "" if len(shown) == 1 else f"{at + 1} of {len(shown)}  "
    return before + _title_and_rate(shown[at], room - len(before), glyphs)


def _title_and_rate(session: RunningSession, room: int, glyphs: Glyphs) -> str:
    """Return both; where they have no room the title is cut, then the unit is, then the rate."""
    title, rate = words.session_title(session), words.session_rate(session)
    if not rate or cell_len(title) + 2 + cell_len(rate) <= room:
        return f"{title}  {rate}" if rate else title
    short = rate.replace(f" {units.rate_unit(session.counts_steps)}", "/s")
    for text, least in ((rate, _LEAST_TITLE), (short, _SHORTEST_TITLE)):
        left = room - 2 - cell_len(text)
        if left >= least:
            return f"{fit(title, left, glyphs.ellipsis).rstrip()}  {text}"
    return title
