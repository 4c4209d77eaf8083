"""How far the epoch and the run have come, and the time left."""

from __future__ import annotations

from typing import ClassVar

from dlmon.records import SCRIPT_PHASE
from dlmon.session.session import NOTHING_SEEN_YET
from dlmon.session.snapshot import Progress, Snapshot
from tui.drawing.plot import bar
from tui.formatting import units
from tui.formatting.comparison import epoch_word
from tui.formatting.phases import phase_text
from tui.formatting.sessions import after_the_batch
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    MUTED,
    PLAIN,
    STRONG,
    GrowingLines,
    cut,
    joined,
    row_width,
    wrapped,
)
from tui.widgets.rows import TextRow

_LONGEST_BAR, _SHORTEST_BAR = 24, 8
# Where there is no room for the output, a notice is seen nowhere else.
NOTICE_S = 15.0

HELP: tuple[tuple[str, str], ...] = (
    ("step", "A step trains on one batch; the bar shows how many of the epoch's steps are done."),
    (
        "time left",
        "How long the rest of this epoch and of the whole run take at the mean step so far, "
        "stalls included, and validation and the pauses between epochs once they were measured.",
    ),
    (
        "ends 14:32",
        "The time at which the run ends if all continues as before, with the day where that is "
        "not today; the end of the training alone where it isn't known what follows, as in a "
        "script, and nothing where it isn't known how many epochs there will be.",
    ),
)


class ProgressLine(GrowingLines):
    """A sentence that matters now, else the step; at the right the bar and the time left.

    It is one row high, but for what went wrong and for notices, which are shown in full
    where they have room: half a sentence may say the opposite.
    """

    DEFAULT_CSS = "ProgressLine { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 4

    _snapshot: Snapshot | None = None
    _problem: str | None = None
    _stopping = False
    _reading = ""

    def show(
        self, snapshot: Snapshot, problem: str | None, stopping: bool = False, reading: str = ""
    ) -> None:
        """Show progress, or trouble where there is some, or that a stop was asked for here.

        While the log is behind, `reading` says how far it is read, and nothing else is said.
        """
        self._snapshot, self._problem, self._stopping = snapshot, problem, stopping
        self._reading = reading
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        snapshot = self._snapshot
        if snapshot is None:
            return []
        if self._reading:
            then = f"{self._reading}; the screen shows {units.clock(snapshot.elapsed_s)}"
            return [cut(((then, STRONG),), width, self.ellipsis)]
        wrong = self._problem or _failure(snapshot)
        if wrong:
            return [((line, BAD),) for line in wrapped(wrong, width, height, self.ellipsis)]
        result = snapshot.result
        if result is not None:
            after = f"{result.status} after {units.seconds(result.wall_s)}"
            return [cut(((after, PLAIN),), width, self.ellipsis)]
        if self._stopping:
            when = after_the_batch(snapshot.header)
            return [cut(((f"stopping{when} …", STRONG),), width, self.ellipsis)]
        step, notice = _step(snapshot), self._notice(snapshot)
        if not notice:
            return [self._with_progress(step, snapshot, width)]
        beside = self._right(snapshot, width - row_width(notice) - APART)
        if row_width(notice) + (row_width(beside) + APART if beside else 0) <= width:
            return [joined(notice, beside, width, self.ellipsis)]
        if height < 2:
            return [cut(notice, width, self.ellipsis)]
        ((text, style),) = notice
        lines = wrapped(text, width, height - 1, self.ellipsis)
        return [*(((line, style),) for line in lines), self._with_progress(step, snapshot, width)]

    def _notice(self, snapshot: Snapshot) -> TextRow:
        notice = _recent_notice(snapshot)
        return ((f"{self.glyphs.warning} " + notice, STRONG),) if notice else ()

    def _with_progress(self, left: TextRow, snapshot: Snapshot, width: int) -> TextRow:
        right = self._right(snapshot, width - row_width(left) - APART)
        return joined(left, right, width, self.ellipsis)

    def _right(self, snapshot: Snapshot, room: int) -> TextRow:
        """Return the bar and the times left; what has no room, the whole run's time last, goes."""
        progress, word = snapshot.progress, f"{epoch_word(snapshot.header)} "
        if progress is None or progress.steps is None:
            return ()
        fraction = progress.epoch_fraction
        epoch = f" {fraction * 100:3.0f} %"
        both, one = _times_left(progress)
        end = _end(snapshot, progress)
        choices = [f"{left}{end}" for left in (both, one) if end] + [both, one]
        fixed = len(word) + len(epoch)
        times = next((t for t in choices if fixed + len(t) + _SHORTEST_BAR <= room), one)
        cells = max(_SHORTEST_BAR, min(_LONGEST_BAR, room - fixed - len(times)))
        done = bar(fraction, cells, self.glyphs).rstrip()
        track = self.glyphs.track * (cells - len(done))
        return (
            (word, MUTED),
            (done, ACCENT),
            (track, MUTED),
            (f"{epoch}{times}", PLAIN),
        )


def _step(snapshot: Snapshot) -> TextRow:
    progress = snapshot.progress
    if progress is None:
        if snapshot.header.is_script:
            return ((f"{NOTHING_SEEN_YET}: the script runs", MUTED),)
        return ((f"{phase_text(snapshot.phase) or 'starting'} …", MUTED),)
    if snapshot.header.is_script and snapshot.phase == SCRIPT_PHASE:
        return (("the script runs, and trains nothing at the moment", MUTED),)
    if progress.steps is None:
        return ((f"{phase_text(snapshot.phase) or 'starting'}  step {progress.step:,}", MUTED),)
    return ((f"step {progress.step:,} of {progress.steps:,}", MUTED),)


def _times_left(progress: Progress) -> tuple[str, str]:
    """Return the time left of the epoch and of the run, and the one that matters more."""
    to_end_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    epoch, run = units.time_left(progress.epoch_left_s), units.time_left(to_end_s)
    if (progress.epochs or 0) <= progress.epoch + 1 or not epoch or not run:
        only = f"  {run or epoch}" if run or epoch else ""
        return only, only
    return f"  {epoch}   run {run}", f"   run {run}"


def _end(snapshot: Snapshot, progress: Progress) -> str:
    """Say at what time of the day it ends; empty where that isn't known."""
    if progress.end_left_s is None:
        return ""
    at = units.moment(snapshot.wall + progress.end_left_s, snapshot.wall)
    return f", training ends {at}" if progress.end_of_training else f", ends {at}"


def _failure(snapshot: Snapshot) -> str:
    result = snapshot.result
    return f"failed: {result.error}" if result is not None and result.error else ""


def _recent_notice(snapshot: Snapshot) -> str:
    """Return the newest notice while it is news."""
    if not snapshot.notices:
        return ""
    newest = snapshot.notices[-1]
    age_s = snapshot.elapsed_s - (newest.t - snapshot.header.t) / 1e9
    return newest.text if age_s <= NOTICE_S else ""
