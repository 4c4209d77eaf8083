"""The lines of a sweep: how far it is, what it found, and how the run goes that is being made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.comparison import epoch_text
from dlmon.figures.phases import phase_text
from dlmon.figures.sweeps import swept_text, without_result_text
from dlmon.options.run import option_name
from dlmon.records import RunStatus, Slot
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot
from dlmon.sweep.progress import Sweep
from dlmon.sweep.runner import SweepRun
from tui.drawing.plot import COLUMNS_PER_CELL, braille_rows
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    GrowingLines,
    Lines,
    bar_on_track,
    fitting,
    joined,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun

SPARK_CELLS = 12
_SPARK_COLUMN_NS = 1_000_000_000
_BAR_CELLS = 12


@dataclass(frozen=True)
class ShownRun:
    """A run that is being made, or a machine on which none is yet.

    Attributes:
        name: what it is called.
        session: its session; None before it has one.
        snapshot: the figures of that.
        doing: what is done before it has one.
        problem: why nothing comes of it any more.
    """

    name: str
    session: Session | None = None
    snapshot: Snapshot | None = None
    doing: str = "starting"
    problem: str | None = None


class SweepTopLine(Lines):
    """One row: what is swept, and how far that is."""

    DEFAULT_CSS = "SweepTopLine { height: 1; padding: 0 1; }"

    def rows(
        self, width: int, height: int, run: SweepRun, elapsed_s: float | None
    ) -> list[TextRow]:
        """Return how far a sweep is; `elapsed_s` is None where no run was left to make."""
        right, plan = _how_far(run, elapsed_s), run.sweep.plan
        left: TextRow = (("dlmon  ", ACCENT), ("sweep  ", PLAIN), (swept_text(plan), STRONG))
        varied = " × ".join(option_name(key) for key in plan.varied)
        if varied:
            left = (*left, (f"  {varied}", MUTED))
        if row_width(left) + APART + row_width(right) > width:
            left = left[2:]
        return [joined(left, right, width)]

    show = shows(rows)


class SweepFindings(GrowingLines):
    """What was found so far, a sentence a row; with little room the first ones."""

    DEFAULT_CSS = "SweepFindings { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 4

    def rows(self, width: int, height: int, sentences: Sequence[str]) -> list[TextRow]:
        """Return sentences, the most important first."""
        return _rows_of(sentences, PLAIN, width, height)

    show = shows(rows)


class SweepRunLines(GrowingLines):
    """A row for each current run, or one that says why there is none."""

    DEFAULT_CSS = "SweepRunLines { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 8

    def of_runs(self, width: int, height: int, runs: Sequence[ShownRun]) -> list[TextRow]:
        """Return as much of each run as there is room for, their names one below the other."""
        name_cells = max((cell_len(run.name) for run in runs), default=0)
        drawn = []
        for run in runs[:height]:
            parts, right = _parts(run, name_cells)
            left = fitting(parts, width)
            has_room = row_width(left) + APART + row_width(right) <= width
            drawn.append(joined(left, right if has_room else (), width))
        return _with_rest(drawn, len(runs) - len(drawn), width)

    def of_sentences(
        self, width: int, height: int, sentences: Sequence[str], wrong: bool = False
    ) -> list[TextRow]:
        """Return what is said in place of runs."""
        return _rows_of(sentences, BAD if wrong else MUTED, width, height)

    show_runs, show_sentences = shows(of_runs), shows(of_sentences)


def _rows_of(
    sentences: Sequence[str], style: tuple[str, ...], width: int, height: int
) -> list[TextRow]:
    """Return sentences one below the other, broken between words."""
    lines: list[str] = []
    for sentence in sentences:
        lines += wrapped(sentence, width, max(1, height - len(lines)))
    rows: list[TextRow] = [((line, style),) for line in lines[:height]]
    return _with_rest(rows, len(lines) - len(rows), width)


def _with_rest(rows: list[TextRow], more: int, width: int) -> list[TextRow]:
    """Say in the last row how many there was no room for."""
    if more and rows:
        rows[-1] = joined(rows[-1], ((f" … {more} more", MUTED),), width)
    return rows


def _parts(run: ShownRun, name_cells: int) -> tuple[TextRow, TextRow]:
    """Return what stands left in the row of a run, the most important first, and what right."""
    name = (run.name + " " * (name_cells - cell_len(run.name)), STRONG)
    session, snapshot = run.session, run.snapshot
    if run.problem is not None:
        return (name, (run.problem, BAD)), ()
    if session is None or snapshot is None:
        return (name, (f"{run.doing} …", MUTED)), ()
    speed, machine = snapshot.samples_per_second_now, snapshot.machine
    parts: list[TextRun] = [
        name,
        (phase_text(snapshot.phase) or "starting", PLAIN),
        (epoch_text(snapshot), MUTED),
        ("" if speed is None else f"{units.rate(speed)} samples/s", PLAIN),
    ]
    if machine is not None:
        cpu = "" if machine.cpu is None else f"CPU {units.percent(machine.cpu.pct)}"
        gpus = [f"GPU {g.index} {units.percent(g.utilization_pct)}" for g in machine.gpus or ()]
        parts += [(text, MUTED) for text in (cpu, *gpus)]
    parts.append((_spark(session, snapshot), ACCENT))
    return tuple(part for part in parts if part[0]), _epoch_bar(snapshot)


def status_of(run: SweepRun) -> str:
    """Return how a sweep stands, in a word."""
    if run.ended:
        return "failed" if run.problem is not None else run.sweep.closed or "stopped"
    return "stopping" if run.stopping else "running"


def _how_far(run: SweepRun, elapsed_s: float | None) -> TextRow:
    plan, status = run.sweep.plan, status_of(run)
    done = f"{len(plan.order) - len(run.sweep.left())} of {len(plan.order)} runs done"
    done += without_result_text(run.sweep)
    clock: TextRow = () if elapsed_s is None else ((f"  {units.clock(elapsed_s)}", PLAIN),)
    if run.ended:
        return ((status, GOOD if status == "completed" else BAD), (f"  {done}", PLAIN), *clock)
    current, runs = [each.slot for each in run.current.values()], list[TextRun]()
    if run.stopping or run.stops_after_run:
        these = "these runs" if len(current) > 1 else "this run"
        runs.append(("stopping  " if run.stopping else f"stops after {these}  ", STRONG))
    if len(plan.hosts) > 1:
        runs.append((done, PLAIN))
    elif current:
        runs.extend(_place(run.sweep, current[0]))
    runs.extend(clock)
    if run.seconds_left is not None and not run.stops_after_run and not run.stopping:
        runs.append((f"  ~ {units.time_left(run.seconds_left)}", PLAIN))
    return tuple(runs)


def _place(sweep: Sweep, slot: Slot) -> TextRow:
    """Say which combination of those that can be is being run, and in which round."""
    plan = sweep.plan
    round_of = [
        other
        for other in plan.order
        # One that has just turned out not to be is still the current one.
        if other == slot
        or (
            other.repeat == slot.repeat
            and getattr(sweep.outcomes.get(other), "status", None) != RunStatus.IMPOSSIBLE
        )
    ]
    text = f"combination {round_of.index(slot) + 1} of {len(round_of)}"
    if plan.repeats > 1:
        text = f"{text}  round {slot.repeat + 1} of {plan.repeats}"
    return ((text, PLAIN),)


def _spark(session: Session, snapshot: Snapshot) -> str:
    """Return the throughput of the last seconds as a line one row high; empty without any."""
    count = COLUMNS_PER_CELL * SPARK_CELLS
    now_ns = session.header.t + int(snapshot.elapsed_s * 1e9)
    # Whole seconds: the line moves by a column, it doesn't flicker.
    start_ns = now_ns // _SPARK_COLUMN_NS * _SPARK_COLUMN_NS - count * _SPARK_COLUMN_NS
    columns = session.throughput.columns(start_ns, _SPARK_COLUMN_NS, count)
    known = [column for column in columns if column is not None]
    if not known:
        return ""
    return braille_rows(columns, SPARK_CELLS, 1, max(known), filled=True)[0]


def _epoch_bar(snapshot: Snapshot) -> TextRow:
    if snapshot.progress is None:
        return ()
    fraction = snapshot.progress.epoch_fraction
    drawn = bar_on_track(fraction, _BAR_CELLS)
    return (("epoch ", MUTED), *drawn, (f" {fraction * 100:3.0f} %", PLAIN))
