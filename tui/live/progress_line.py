"""How far the epoch and the run have come, and the time left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dlmon.figures import units
from dlmon.figures.account import gap_of_session
from dlmon.figures.comparison import epoch_word
from dlmon.figures.phases import phase_text
from dlmon.figures.sessions import after_the_batch
from dlmon.records import SCRIPT_PHASE, Status
from dlmon.session.session import NOTHING_SEEN_YET
from dlmon.session.snapshot import Progress, Snapshot
from tui.widgets.lines import (
    APART,
    BAD,
    MUTED,
    PLAIN,
    STRONG,
    GrowingLines,
    bar_on_track,
    joined,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow

_LONG_BAR, _SHORT_BAR = 24, 8
# Where there is no room for the output, a notice is seen nowhere else.
NOTICE_S = 15.0
PAUSE_S = 3.0
"""From so long on, what a step waits for matters more than the step."""


class ProgressLine(GrowingLines):
    """A sentence that matters now, else the step; at the right the bar and the time left.

    It is one row high, but for what went wrong and for notices, which are shown in full
    where they have room: half a sentence may say the opposite.

    While an epoch lasts, nothing moves because a figure got shorter: the bar stands beside a step
    that keeps its cells, the times stand at the right end.
    """

    DEFAULT_CSS = "ProgressLine { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 4

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        problem: str | None,
        stopping: bool = False,
        reading: str = "",
    ) -> list[TextRow]:
        """Return progress, or trouble where there is some, or that a stop was asked for here.

        While the log is behind, `reading` says how far it is read, and nothing else is said.
        """
        if reading:
            then = f"{reading}; the screen shows {units.clock(snapshot.elapsed_s)}"
            return [((then, STRONG),)]
        if problem:
            return [((line, BAD),) for line in wrapped(problem, width, height)]
        result = snapshot.result
        if result is not None:
            after = f"{result.status} after {units.seconds(result.wall_s)}"
            style = BAD if result.status == Status.FAILED else PLAIN
            return [((after, style),)]
        if stopping:
            return [((f"stopping{after_the_batch(snapshot.header)} …", STRONG),)]
        row = _with_progress(snapshot, width)
        notice = _pause(snapshot) or _recent_notice(snapshot)
        if not notice:
            return [row]
        choices = _times_left(snapshot)
        times: TextRow = ((_fitting(choices, width - row_width(notice) - APART), PLAIN),)
        if height < 2 or row_width(notice) + APART + row_width(times) <= width:
            return [joined(notice, times, width)]
        ((text, style),) = notice
        lines = wrapped(text, width, height - 1)
        return [*(((line, style),) for line in lines), row]

    show = shows(rows)


def _with_progress(snapshot: Snapshot, width: int) -> TextRow:
    """Return the step, the bar beside it where it is known how long that is, and times."""
    step, progress = _step(snapshot), snapshot.progress
    if progress is None:
        return step
    *_, run_and_end, _ = choices = _times_left(snapshot)
    left = step
    if progress.steps is not None and not progress.is_over:
        for cells in (_LONG_BAR, _SHORT_BAR):
            with_bar = (*step, *_bar(snapshot, progress, cells, row_width(step)))
            if row_width(with_bar) + APART + len(run_and_end) <= width:
                left = with_bar
                break
    times = _fitting(choices, width - row_width(left) - APART)
    return joined(left, ((times, PLAIN),) if times else (), width)


def _bar(snapshot: Snapshot, progress: Progress, cells: int, step_cells: int) -> TextRow:
    """Return a bar of the epoch, where the step ends that takes most cells."""
    steps = progress.steps or 0
    longest = len(_step_text(steps, steps, None if progress.updates is None else steps))
    has_epochs = snapshot.model is None or snapshot.model.has_epochs is not False
    named = epoch_word(snapshot.header) if has_epochs else "training"
    return (
        (" " * (longest - step_cells + APART) + f"{named} ", MUTED),
        *bar_on_track(progress.epoch_fraction, cells),
        (f" {progress.epoch_fraction * 100:3.0f} %", PLAIN),
    )


def _fitting(choices: Sequence[str], room: int) -> str:
    return next((text for text in choices if len(text) <= room), choices[-1])


def _times_left(snapshot: Snapshot) -> Sequence[str]:
    """Return the time left of the epoch, of the run, and when that ends; the last two; the run's.

    Where no step is due they are empty unless more epochs are known to come: a bar that is full
    and 00:00 left would read as the end of a script that runs on.
    """
    progress = snapshot.progress
    if progress is None or (progress.is_over and not _more_are_to_come(progress)):
        return "", ""
    to_end_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    epoch, run = units.time_left(progress.epoch_left_s), units.time_left(to_end_s)
    if run and snapshot.model is not None and snapshot.model.length_from is not None:
        # How long the training is to be was read somewhere, and may be wrong.
        run = f"~ {run}"
    # In the last epoch, which ends with the run, there is one.
    has_both = bool(epoch and run) and (progress.epochs or 0) > progress.epoch + 1
    run = f"run {run}" if has_both else run or epoch
    choices = [f"{run}{_end(snapshot, progress)}", run]
    if has_both and not progress.is_over and progress.steps is not None:
        choices.insert(0, f"{epoch}   {choices[0]}")
    return choices


def _step(snapshot: Snapshot) -> TextRow:
    progress = snapshot.progress
    if progress is None:
        if snapshot.header.is_script:
            return ((f"{NOTHING_SEEN_YET}: the script runs", MUTED),)
        return ((f"{phase_text(snapshot.phase) or 'starting'} …", MUTED),)
    if progress.is_over:
        return ((_after_an_epoch(snapshot, progress), MUTED),)
    if snapshot.header.is_script and snapshot.phase == SCRIPT_PHASE:
        return (("the script runs, and trains nothing at the moment", MUTED),)
    step = _step_text(progress.step, progress.steps, progress.updates)
    if progress.steps is None:
        return ((f"{phase_text(snapshot.phase) or 'starting'}  {step}", MUTED),)
    return ((step, MUTED),)


def _after_an_epoch(snapshot: Snapshot, progress: Progress) -> str:
    """Say which epoch is over, and what is done meanwhile: whether another follows is not known."""
    of = "" if progress.epochs is None else f" of {progress.epochs:,}"
    over = f"{epoch_word(snapshot.header)} {progress.epoch + 1:,}{of} is over"
    if snapshot.phase != SCRIPT_PHASE:
        return f"{over}; {phase_text(snapshot.phase)}"
    runs = "" if _more_are_to_come(progress) else " runs on, and"
    return f"{over}; the script{runs} trains nothing now"


def _more_are_to_come(progress: Progress) -> bool:
    return progress.epochs is not None and progress.epoch + 1 < progress.epochs


def _step_text(step: int, steps: int | None, updates: int | None) -> str:
    """Say how far it is; and of an optimizer that does not step with each batch, how far it is."""
    text = f"step {step:,}" if steps is None else f"step {step:,} of {steps:,}"
    return text if updates is None else f"{text}, {units.counted(updates, 'update')}"


def _end(snapshot: Snapshot, progress: Progress) -> str:
    """Say at what time of the day it ends; empty where that isn't known."""
    if progress.end_left_s is None:
        return ""
    at = units.moment(snapshot.wall + progress.end_left_s, snapshot.wall)
    if not progress.end_of_training:
        return f", ends {at}"
    told = snapshot.model.length_from if snapshot.model is not None else None
    return f", training ends {at}" if told is None else f", training ends {at} by {told}"


def _pause(snapshot: Snapshot) -> TextRow:
    """Say for how long there has been no batch, where the process is, and what the machine does."""
    pause = snapshot.pause
    if pause is None or pause.seconds < PAUSE_S:
        return ()
    return ((gap_of_session(pause, snapshot), STRONG),)


def _recent_notice(snapshot: Snapshot) -> TextRow:
    """Return the newest notice while it is news."""
    if not snapshot.notices:
        return ()
    newest = snapshot.notices[-1]
    age_s = snapshot.elapsed_s - (newest.t - snapshot.header.t) / 1e9
    return ((f"▲ {newest.text}", STRONG),) if age_s <= NOTICE_S else ()
