"""The rows of one host's card, with its border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from dlmon.figures import hosts as words
from dlmon.figures import units
from dlmon.figures.glyphs import Glyphs
from dlmon.figures.machine import (
    BUSY_PCT,
    GPU_HOT_C,
    Level,
    has_no_readings,
    no_utilization,
    without_detail,
)
from dlmon.records import Gpu
from dlmon.remote.host import Age, HostSnapshot, RunningSession
from dlmon.statistics.series import Series
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
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
    TRACK,
    cut,
    joined,
    row_width,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun, fit

BORDERS = 2
_SIDES = 4
LEAST_BODY = 3
_CPU_ROWS = 1
_MOST_SESSIONS = 8
MOST_GPUS = 16
# A chart of the last minute, in what the other columns leave.
_HISTORY_NS = 60_000_000_000
_LEAST_HISTORY, _LONGEST_HISTORY = 4, 30
_LABEL, PERCENT_CELLS, _MEMORY, _POWER, _HEAT = 4, 6, 15, 7, 7
STATUS_STYLES: dict[Level, tuple[str, ...]] = {"": MUTED, "high": HIGH, "bad": BAD}


@dataclass(frozen=True)
class Corners:
    """What a border is drawn with."""

    top_left: str = "╭"
    top_right: str = "╮"
    bottom_left: str = "╰"
    bottom_right: str = "╯"
    across: str = "─"
    down: str = "│"


_ROUND = Corners()
_PLAIN = Corners(*"++++-|")


# ---- a card ----


def card_height(host: HostSnapshot) -> int:
    """Return in how many rows a host is shown whole."""
    gpus = min(len(host.gpus), MOST_GPUS + 1) or 1
    if host.is_recorded:
        # What will be shown has its room from the start, so that nothing moves.
        return BORDERS + max(LEAST_BODY, gpus + _CPU_ROWS)
    if host.machine is None:
        return BORDERS + LEAST_BODY
    sessions = min(len(host.sessions or ()), _MOST_SESSIONS + 1) or 1
    return BORDERS + gpus + _CPU_ROWS + sessions


def card_rows(
    host: HostSnapshot,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    chosen: bool = False,
    session: str | None = None,
) -> list[TextRow]:
    """Return a host in exactly `height` rows of `width` cells.

    Args:
        host: what is known of it.
        width: of the card, with its border.
        height: the same; what is left below its rows stays empty.
        glyphs: the characters to draw with.
        chosen: it is the highlighted one.
        session: the session on it that is highlighted, by its id.
    """
    corners = _PLAIN if glyphs.is_ascii else _ROUND
    frame = BAR if chosen else TRACK
    inner = width - _SIDES
    body = _body(host, inner, session if chosen else None, glyphs)[: height - BORDERS]
    body += [()] * (height - BORDERS - len(body))
    down: TextRun = (corners.down, frame)
    rows = [
        (down, (" ", PLAIN), *row, (" " * (inner - row_width(row) + 1), PLAIN), down)
        for row in (cut(row, inner, glyphs.ellipsis) for row in body)
    ]
    return [
        _top(host, width, glyphs, corners, frame, chosen=chosen and session is None),
        *rows,
        _bottom(host, width, glyphs, corners, frame),
    ]


def _top(
    host: HostSnapshot,
    width: int,
    glyphs: Glyphs,
    corners: Corners,
    frame: tuple[str, ...],
    *,
    chosen: bool,
) -> TextRow:
    text, level = words.status_of(host)
    status: TextRow = ((f" {text} ", STATUS_STYLES[level]),)
    if host.is_current:
        status = ((f" {glyphs.dot} ", GOOD), (f"{text} ", MUTED))
    room = width - 2 * len("╭─") - row_width(status) - 1
    name = fit(host.name, min(cell_len(host.name), room - 2), glyphs.ellipsis)
    line = room + 1 - cell_len(name) - 2
    return (
        (corners.top_left + corners.across, frame),
        (f" {name} ", CHOSEN if chosen else STRONG),
        (corners.across * line, frame),
        *status,
        (corners.across + corners.top_right, frame),
    )


def _bottom(
    host: HostSnapshot, width: int, glyphs: Glyphs, corners: Corners, frame: tuple[str, ...]
) -> TextRow:
    clock = words.clock_words(host)
    right: TextRow = ((f" {clock} ", HIGH),) if clock else ()
    room = width - 2 * len("╭─") - row_width(right) - 1
    about = words.identity(host)
    about = f" {fit(about, min(cell_len(about), room - 2), glyphs.ellipsis)} " if about else ""
    return (
        (corners.bottom_left + corners.across, frame),
        (about, MUTED),
        (corners.across * (room + 1 - cell_len(about)), frame),
        *right,
        (corners.across + corners.bottom_right, frame),
    )


def _body(host: HostSnapshot, width: int, session: str | None, glyphs: Glyphs) -> list[TextRow]:
    """Return what stands within the border."""
    if host.machine is None:
        return _without_figures(host, width, glyphs)
    rows = [*_gpu_rows(host, width, glyphs), _cpu_row(host, width, glyphs)]
    sessions = session_rows(host, width, session, glyphs)
    if not host.is_current:
        style = HIGH if host.age == Age.OLD else MUTED
        rows = [tuple((text, style) for text, _ in row) for row in rows]
        sessions = [
            row if row[0][1] == CHOSEN else tuple((text, style) for text, _ in row)
            for row in sessions
        ]
    return [*rows, *sessions]


def _without_figures(host: HostSnapshot, width: int, glyphs: Glyphs) -> list[TextRow]:
    """Say why there are no figures."""
    # A countdown would change how the sentence is broken.
    text = host.problem or words.sentence_of(host)
    style = STATUS_STYLES[words.status_of(host)[1]]
    following = words.next_try(host)
    most = LEAST_BODY - bool(following)
    rows: list[TextRow] = [((line, style),) for line in wrapped(text, width, most, glyphs.ellipsis)]
    rows += [()] * (most - len(rows))
    return [*rows, ((following, MUTED),)] if following else rows


def _gpu_rows(host: HostSnapshot, width: int, glyphs: Glyphs) -> list[TextRow]:
    reason = host.no_gpus
    if reason is not None:
        text = without_detail(f"no GPU: {reason}" if reason else "no GPU", width)
        return [((fit(text, width, glyphs.ellipsis), MUTED),)]
    free = host.free_gpus or frozenset()
    rows = [_gpu_row(host, gpu, gpu.index in free, width, glyphs) for gpu in host.gpus[:MOST_GPUS]]
    left = len(host.gpus) - len(rows)
    return [*rows, ((f"{glyphs.ellipsis} {left} more", MUTED),)] if left > 0 else rows


def _gpu_row(host: HostSnapshot, gpu: Gpu, free: bool, width: int, glyphs: Glyphs) -> TextRow:
    label: TextRun = (f"{gpu.index:<{_LABEL}}", MUTED)
    if has_no_readings(gpu):
        reason = without_detail(no_utilization(gpu), width - _LABEL)
        return (label, (fit(reason, width - _LABEL, glyphs.ellipsis), BAD))
    facts = host.facts_of(gpu)
    memory = words.whole_memory(gpu.memory_used_mib, facts.memory_mib if facts else None)
    hot = gpu.temperature_c is not None and gpu.temperature_c >= GPU_HOT_C[0]
    room = width - sum((_LABEL, PERCENT_CELLS, _MEMORY, _POWER, _HEAT))
    who_cells = _who_cells(width)
    who = "free" if free else words.users_of(gpu, host.machine, who_cells - 2)
    if gpu.mig and not who:
        who = "MIG on"
    series = host.history.gpu_utilization_pct.get(gpu.index, Series())
    return (
        label,
        (_history(host, series, room - who_cells, glyphs), BAR),
        percent_cell(gpu.utilization_pct),
        (f"{memory:>{_MEMORY}}", PLAIN),
        (f"{words.power(gpu.power_w):>{_POWER}}", PLAIN),
        (f"{words.temperature(gpu.temperature_c):>{_HEAT}}", HIGH if hot else PLAIN),
        ("  ", PLAIN),
        (fit(who, who_cells - 2, glyphs.ellipsis), GOOD if free else MUTED),
    )


def _cpu_row(host: HostSnapshot, width: int, glyphs: Glyphs) -> TextRow:
    machine = host.machine
    assert machine is not None
    cpu, memory, facts = machine.cpu, machine.memory, host.facts
    total_mib = facts.memory_limit_mib or facts.memory_mib
    in_use = words.whole_memory(memory.used_mib if memory else None, total_mib)
    who_cells = _who_cells(width)
    room = width - sum((_LABEL, PERCENT_CELLS, _MEMORY, _POWER, _HEAT)) - who_cells
    # Most machines report neither, and a dash would only say that again.
    power = words.power(cpu.power_w) if cpu and cpu.power_w is not None else ""
    heat = words.temperature(cpu.temperature_c) if cpu and cpu.temperature_c is not None else ""
    return (
        (f"{'CPU':<{_LABEL}}", MUTED),
        (_history(host, host.history.cpu_pct, room, glyphs), BAR),
        percent_cell(cpu.pct if cpu else None),
        (f"{in_use:>{_MEMORY}}", PLAIN),
        (f"{power:>{_POWER}}", PLAIN),
        (f"{heat:>{_HEAT}}", PLAIN),
        ("  ", PLAIN),
        (
            fit(words.load_words(cpu.load_1m if cpu else None), who_cells - 2, glyphs.ellipsis),
            MUTED,
        ),
    )


def percent_cell(pct: float | None) -> TextRun:
    """Return a utilisation in `PERCENT_CELLS`."""
    is_high = pct is not None and pct >= BUSY_PCT
    return (f"{units.percent(pct):>{PERCENT_CELLS}}", HIGH if is_high else PLAIN)


def _who_cells(width: int) -> int:
    """Return the cells for who is on a GPU, with the gap before it."""
    return max(10, min(26, (width - 40) // 2 - 1))


def _history(host: HostSnapshot, series: Series, cells: int, glyphs: Glyphs) -> str:
    """Draw the last minute of percentages in so many cells; blank where there are too few."""
    drawn = min(cells, _LONGEST_HISTORY)
    if drawn < _LEAST_HISTORY or host.machine is None:
        return " " * max(0, cells)
    count = COLUMNS_PER_CELL * drawn
    # In whole intervals, and moved by whole cells: what was drawn stays as it is.
    least_ns = max(1_000_000_000, int(host.interval_s * 1e9))
    column_ns = -(-_HISTORY_NS // count // least_ns) * least_ns
    cell_ns = column_ns * COLUMNS_PER_CELL
    end_ns = -(-host.machine.t // cell_ns) * cell_ns
    columns = series.columns(end_ns - count * column_ns, column_ns, count)
    if glyphs.is_ascii:
        pairs = (columns[at : at + 2] for at in range(0, count, 2))
        text = "".join(map(_level, pairs))
    else:
        text = braille_rows(columns, drawn, 1, 100.0, 0.0, True)[0]
    return text + " " * (cells - drawn)


_RAMP = "_.-=+*#"


def _level(pair: Sequence[float | None]) -> str:
    known = [value for value in pair if value is not None]
    if not known:
        return " "
    share = max(0.0, min(1.0, sum(known) / len(known) / 100))
    return _RAMP[round(share * (len(_RAMP) - 1))]


# ---- the sessions on a card ----


def shown_sessions(host: HostSnapshot) -> tuple[RunningSession, ...]:
    """Return the sessions that have a row on a host's card, and so can be chosen."""
    return () if host.machine is None else (host.sessions or ())[:_MOST_SESSIONS]


def session_rows(
    host: HostSnapshot, width: int, chosen: str | None, glyphs: Glyphs
) -> list[TextRow]:
    """Return what runs on a host in at least one row, the chosen session highlighted.

    A recording holds nothing of that, and has no row for it.
    """
    if host.is_recorded:
        return []
    if host.sessions is None:
        problem = fit(words.sessions_problem(host), width, glyphs.ellipsis)
        return [((problem, MUTED),)]
    if not host.sessions:
        return [(("no dlmon session", MUTED),)]
    shown = shown_sessions(host)
    rows = [_session_row(each, width, each.session == chosen, glyphs) for each in shown]
    left = len(host.sessions) - len(shown)
    if left:
        rows.append(((f"{glyphs.ellipsis} {units.counted(left, 'more session')}", MUTED),))
    return rows


def _session_row(session: RunningSession, width: int, chosen: bool, glyphs: Glyphs) -> TextRow:
    progress, rate = words.session_progress(session), words.session_rate(session)
    device = words.session_device(session)
    right: TextRow = (
        (f"{progress}", MUTED),
        (f"  {rate:>15}", STRONG),
        (f"  {device:<6}", MUTED),
    )
    left: TextRow = ((words.session_title(session), ACCENT),)
    row = joined(left, right, width, glyphs.ellipsis)
    if not chosen:
        return row
    return ((fit("".join(text for text, _ in row), width, glyphs.ellipsis), CHOSEN),)
