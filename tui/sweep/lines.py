"""The lines of a sweep: how far it is, and sentences of what it found and of the current runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dlmon.figures import units
from dlmon.figures.comparison import epoch_text
from dlmon.figures.phases import phase_text
from dlmon.figures.sweeps import swept_text, without_result_text
from dlmon.options.run import option_name
from dlmon.session.snapshot import Snapshot
from dlmon.sweep.runner import SweepRun
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
    joined,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow


class SweepTopLine(Lines):
    """One row: what is swept, and how far that is."""

    DEFAULT_CSS = "SweepTopLine { height: 1; padding: 0 1; }"

    def rows(self, width: int, height: int, run: SweepRun, elapsed_s: float) -> list[TextRow]:
        """Return how far a sweep is."""
        right, plan = _how_far(run, elapsed_s), run.sweep.plan
        left: TextRow = (("dlmon  ", ACCENT), ("sweep  ", PLAIN), (swept_text(plan), STRONG))
        left = (*left, (f"  {' × '.join(map(option_name, plan.varied))}", MUTED))
        if row_width(left) + APART + row_width(right) > width:
            left = left[2:]
        return [joined(left, right, width)]

    show = shows(rows)


class SweepSentences(GrowingLines):
    """Sentences below each other; where there is no room for all, it counts the rest."""

    DEFAULT_CSS = "SweepSentences { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 8

    def rows(
        self, width: int, height: int, sentences: Sequence[str], style: str = PLAIN
    ) -> list[TextRow]:
        """Return sentences, the most important first, broken between words."""
        lines = [line for sentence in sentences for line in wrapped(sentence, width, height)]
        if len(lines) > height:
            lines[height - 1 :] = [f"… {len(lines) - height + 1} more"]
        return [((line, style),) for line in lines]

    show = shows(rows)


def run_text(name: str, snapshot: Snapshot) -> str:
    """Say how a run goes: what it does, how fast it is, and how busy the machine is."""
    speed, machine = snapshot.samples_per_second_now, snapshot.machine
    parts = [
        name,
        phase_text(snapshot.phase) or "starting",
        epoch_text(snapshot),
        "" if speed is None else f"{units.rate(speed)} samples/s",
    ]
    if machine is not None:
        parts.append("" if machine.cpu is None else f"CPU {units.percent(machine.cpu.pct)}")
        gpus = machine.gpus or ()
        parts += [f"GPU {gpu.index} {units.percent(gpu.utilization_pct)}" for gpu in gpus]
    return "  ".join(filter(None, parts))


def status_of(run: SweepRun) -> str:
    """Return how a sweep stands, in a word."""
    if run.ended:
        return "failed" if run.problem is not None else run.sweep.closed or "stopped"
    return "stopping" if run.stopping else "running"


def _how_far(run: SweepRun, elapsed_s: float) -> TextRow:
    """Say how many runs are done, how long that took, and how long the others will take."""
    status, count = status_of(run), len(run.sweep.plan.order)
    if status == "running" and run.stops_after_run:
        status = f"stops after {'these runs' if len(run.current) > 1 else 'this run'}"
    done = f"{count - len(run.sweep.left())} of {count} runs done{without_result_text(run.sweep)}"
    row: TextRow = ((f"{done}  {units.clock(elapsed_s)}", PLAIN),)
    if status != "running":
        style = STRONG if not run.ended else GOOD if status == "completed" else BAD
        row = ((f"{status}  ", style), *row)
    if status == "running" and run.seconds_left is not None:
        row = (*row, (f"  ~ {units.time_left(run.seconds_left)}", PLAIN))
    return row
