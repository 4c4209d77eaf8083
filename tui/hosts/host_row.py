"""A row for each of many hosts: its GPUs, who is on them, its CPU and its sessions."""

from __future__ import annotations

from rich.cells import cell_len

from dlmon.records import Gpu
from dlmon.remote.host import Age, HostSnapshot, RunningSession
from tui.formatting import hosts as words
from tui.formatting import units
from tui.formatting.glyphs import Glyphs
from tui.hosts.card import MOST_GPUS, PERCENT_CELLS, STATUS_STYLES, percent_cell, shown_sessions
from tui.widgets.lines import BAR, CHOSEN, GOOD, HIGH, MUTED, PLAIN, STRONG
from tui.widgets.rows import TextRow, TextRun, fit

_NAME, _LEAST_LEVELS, _FREE, _OF_MEMORY = 18, 4, 14, 16
_LEAST_TITLE, _SHORTEST_TITLE = 8, 4
"""Of a session, before a throughput in full and before a short one."""


def compact_heading(width: int, levels: int, *, sessions: bool = True) -> TextRow:
    """Return the names of the columns of `compact_row`, that of the sessions where it is asked."""
    cells = _level_cells(levels)
    names = f"{'host':<{_NAME}}{'GPUs':<{cells}}{'':<{_FREE}}{'CPU':>{PERCENT_CELLS}}"
    last = "  sessions" if sessions else ""
    return ((fit(f"{names}{'memory':>{_OF_MEMORY}}{last}", width), MUTED),)


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
        figures = _compact_figures(host, width - _NAME, _level_cells(levels), session, glyphs)
        row = (name, *figures)
    if chosen and session is None:
        joint = "".join(text for text, _ in row)
        return ((fit(joint, width, glyphs.ellipsis), CHOSEN),)
    return row


def _level_cells(levels: int) -> int:
    return max(_LEAST_LEVELS, min(MOST_GPUS, levels)) + 2


def _compact_figures(
    host: HostSnapshot, width: int, cells: int, session: str | None, glyphs: Glyphs
) -> TextRow:
    machine = host.machine
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
    used = cells + _FREE + PERCENT_CELLS + _OF_MEMORY + 2
    room = width - used
    last = _sessions_in_words(host, room, glyphs) if host.is_current else words.status_of(host)[0]
    if session is not None:
        last = _session_in_words(host, session, room, glyphs)
    figures: TextRow = (
        *bars,
        (fit(count, _FREE, glyphs.ellipsis), GOOD if free else MUTED),
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
    for text, least in ((rate, _LEAST_TITLE), (rate.replace(" samples/s", "/s"), _SHORTEST_TITLE)):
        left = room - 2 - cell_len(text)
        if left >= least:
            return f"{fit(title, left, glyphs.ellipsis).rstrip()}  {text}"
    return title
