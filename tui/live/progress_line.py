"""How far the epoch and the run have come, and the time left."""

from __future__ import annotations

from typing import ClassVar

from dlmon.figures import units
from dlmon.figures.account import gap_of_session
from dlmon.figures.comparison import epoch_word
from dlmon.figures.phases import phase_text
from dlmon.figures.sessions import after_the_batch
from dlmon.records import SCRIPT_PHASE, Status
from dlmon.session.reasons import NOTHING_SEEN_YET
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
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow

_LONGEST_BAR, _SHORTEST_BAR = 24, 8
_WIDE = 100
"""From here on the time left of the epoch stands beside that of the run."""
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
        times = _times_left(snapshot, width >= _WIDE)
        row = _with_progress(snapshot, times, width)
        notice = wrapped(_pause(snapshot) or _recent_notice(snapshot), width, max(1, height - 1))
        if not notice:
            return [row]
        if height < 2 or (len(notice) == 1 and len(notice[0]) + APART + len(times) <= width):
            return [joined(((notice[0], STRONG),), ((times, PLAIN),), width)]
        return [*(((line, STRONG),) for line in notice), row]

    show = shows(rows)


def _with_progress(snapshot: Snapshot, times: str, width: int) -> TextRow:
    """Return the step, the bar beside it where it is known how long that is, and times."""
    step, progress = _step(snapshot), snapshot.progress
    left: TextRow = ((step, MUTED),)
    if progress is not None and progress.steps is not None and not progress.is_over:
        steps, updates = progress.steps, progress.updates
        longest = len(_step_text(steps, steps, None if updates is None else steps))
        has_epochs = snapshot.model is None or snapshot.model.has_epochs is not False
        named = epoch_word(snapshot.header) if has_epochs else "training"
        step = f"{step:<{longest}}  {named} "
        percent = f" {progress.epoch_fraction * 100:3.0f} %"
        room = width - len(step) - len(percent) - APART - len(times)
        if room >= _SHORTEST_BAR:
            done = bar_on_track(progress.epoch_fraction, min(_LONGEST_BAR, room))
            left = ((step, MUTED), *done, (percent, PLAIN))
    return joined(left, ((times, PLAIN),) if times else (), width)


def _times_left(snapshot: Snapshot, with_epoch: bool) -> str:
    """Return the time left of the epoch, of the run, and when that ends.

    Where no step is due there is none unless more epochs are known to come: a bar that is full
    and 00:00 left would read as the end of a script that runs on.
    """
    progress = snapshot.progress
    if progress is None or (progress.is_over and not _more_are_to_come(progress)):
        return ""
    to_end_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    epoch, run = units.time_left(progress.epoch_left_s), units.time_left(to_end_s)
    if run and snapshot.model is not None and snapshot.model.length_from is not None:
        # How long the training is to be was read somewhere, and may be wrong.
        run = f"~ {run}"
    # In the last epoch, which ends with the run, there is one.
    has_both = bool(epoch and run) and (progress.epochs or 0) > progress.epoch + 1
    run = f"run {run}" if has_both else run or epoch
    with_epoch = with_epoch and has_both and not progress.is_over and progress.steps is not None
    return f"{epoch}   " * with_epoch + run + _end(snapshot, progress)


def _step(snapshot: Snapshot) -> str:
    progress, doing = snapshot.progress, phase_text(snapshot.phase) or "starting"
    is_script = snapshot.header.is_script
    if progress is None:
        return f"{NOTHING_SEEN_YET}: the script runs" if is_script else f"{doing} …"
    if progress.is_over:
        # Whether another epoch follows is not known.
        of = "" if progress.epochs is None else f" of {progress.epochs:,}"
        if snapshot.phase == SCRIPT_PHASE:
            doing = "the script trains nothing now"
        return f"{epoch_word(snapshot.header)} {progress.epoch + 1:,}{of} is over; {doing}"
    if is_script and snapshot.phase == SCRIPT_PHASE:
        return "the script runs, and trains nothing at the moment"
    step = _step_text(progress.step, progress.steps, progress.updates)
    return step if progress.steps is not None else f"{doing}  {step}"


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
    told = snapshot.model.length_from if snapshot.model is not None else None
    by = f" by {told}" if progress.end_of_training and told is not None else ""
    return f", {'training ' * progress.end_of_training}ends {at}{by}"


def _pause(snapshot: Snapshot) -> str:
    """Say for how long there has been no batch, where the process is, and what the machine does."""
    pause = snapshot.pause
    return gap_of_session(pause, snapshot) if pause is not None and pause.seconds >= PAUSE_S else ""


def _recent_notice(snapshot: Snapshot) -> str:
    """Return the newest notice while it is news."""
    now_ns = snapshot.header.t + snapshot.elapsed_s * 1e9
    newest = next(reversed(snapshot.notices), None)
    is_news = newest is not None and now_ns - newest.t <= NOTICE_S * 1e9
    return f"▲ {newest.text}" if newest is not None and is_news else ""
