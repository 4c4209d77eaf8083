"""How far the epoch and the run have come, and the time left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from dlmon.figures import units
from dlmon.figures.account import gap_of_session
from dlmon.figures.comparison import epoch_word
from dlmon.figures.glyphs import under_way
from dlmon.figures.phases import phase_text
from dlmon.figures.sessions import after_the_batch
from dlmon.records import SCRIPT_PHASE, Status
from dlmon.session.session import NOTHING_SEEN_YET
from dlmon.session.snapshot import Progress, Snapshot
from tui.drawing.plot import bar
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

_LONGEST_BAR, _SHORTEST_BAR = 24, 6
# Where there is no room for the output, a notice is seen nowhere else.
NOTICE_S = 15.0
PAUSE_S = 3.0
"""From so long on, what a step waits for matters more than the step."""

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


class _Times(NamedTuple):
    """The time left of the epoch, of the run, and that with the time at which the run ends."""

    epoch: str = ""
    run: str = ""
    run_and_end: str = ""


class ProgressLine(GrowingLines):
    """A sentence that matters now, else the step; at the right the bar and the time left.

    It is one row high, but for what went wrong and for notices, which are shown in full
    where they have room: half a sentence may say the opposite.

    While an epoch lasts, nothing moves because a figure got shorter: each keeps its cells.
    """

    DEFAULT_CSS = "ProgressLine { height: auto; padding: 0 1; }"
    MOST_ROWS: ClassVar[int] = 4

    _snapshot: Snapshot | None = None
    _problem: str | None = None
    _stopping = False
    _reading = ""
    _epoch_shown: tuple[str, int] | None = None
    _widest = _Times()

    def show(
        self, snapshot: Snapshot, problem: str | None, stopping: bool = False, reading: str = ""
    ) -> None:
        """Show progress, or trouble where there is some, or that a stop was asked for here.

        While the log is behind, `reading` says how far it is read, and nothing else is said.
        """
        self._snapshot, self._problem, self._stopping = snapshot, problem, stopping
        self._reading = reading
        self._keep_cells(snapshot)
        self.redraw()

    def _keep_cells(self, snapshot: Snapshot) -> None:
        """Remember the longest times of this epoch: 1:00:00 left comes to 59:59 left."""
        progress = snapshot.progress
        if progress is None:
            return
        epoch, times = (snapshot.header.id, progress.epoch), _times_of(snapshot, progress)
        widest = self._widest if epoch == self._epoch_shown else times
        self._epoch_shown = epoch
        self._widest = _Times(*(max(pair, key=len) for pair in zip(widest, times, strict=True)))

    def draw(self, width: int, height: int) -> list[TextRow]:
        snapshot = self._snapshot
        if snapshot is None:
            return []
        if self._reading:
            then = f"{self._reading}; the screen shows {units.clock(snapshot.elapsed_s)}"
            return [cut(((then, STRONG),), width, self.ellipsis)]
        if self._problem:
            lines = wrapped(self._problem, width, height, self.ellipsis)
            return [((line, BAD),) for line in lines]
        result = snapshot.result
        if result is not None:
            after = f"{result.status} after {units.seconds(result.wall_s)}"
            style = BAD if result.status == Status.FAILED else PLAIN
            return [cut(((after, style),), width, self.ellipsis)]
        if self._stopping:
            when = after_the_batch(snapshot.header)
            return [cut(((under_way(f"stopping{when}"), STRONG),), width, self.ellipsis)]
        step, notice = _step(snapshot), _pause(snapshot) or self._notice(snapshot)
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
        progress = snapshot.progress
        steps = 0 if progress is None else progress.steps or 0
        updates = steps if progress is not None and progress.updates is not None else None
        # What the step takes when the epoch ends.
        room = width - max(row_width(left), len(_step_text(steps, steps, updates))) - APART
        return joined(left, self._right(snapshot, room), width, self.ellipsis)

    def _right(self, snapshot: Snapshot, room: int) -> TextRow:
        """Return the bar and the times left; what matters least goes where there is no room.

        First the bar is shorter, then the time left of the epoch goes, then the bar and its
        share, as the step says no less; when the run ends goes last.
        """
        progress = snapshot.progress
        if progress is None:
            return ()
        if progress.steps is None:
            return self._end_alone(snapshot, progress, room)
        if progress.is_over:
            return self._right_after_an_epoch(snapshot, progress, room)
        has_epochs = snapshot.model is None or snapshot.model.has_epochs is not False
        named = epoch_word(snapshot.header) if has_epochs else "training"
        word, share = f"{named} ", f"{progress.epoch_fraction * 100:3.0f} %"
        times = _Times(
            *(
                text.rjust(len(widest))
                for text, widest in zip(_times_of(snapshot, progress), self._widest, strict=True)
            )
        )
        for has_bar, has_share, shown in _layouts(times):
            left_over = room - len(shown) - has_share * len(word + share)
            cells = min(_LONGEST_BAR, left_over - 1) if has_bar else 0
            if left_over >= 0 and (cells >= _SHORTEST_BAR or not has_bar):
                break
        if not has_share:
            return ((shown.lstrip(), PLAIN),)
        if not has_bar:
            return ((word, MUTED), (f"{share}{shown}", PLAIN))
        done = bar(progress.epoch_fraction, cells, self.glyphs).rstrip()
        track = self.glyphs.track * (cells - len(done))
        return ((word, MUTED), (done, ACCENT), (track, MUTED), (f" {share}{shown}", PLAIN))

    def _right_after_an_epoch(self, snapshot: Snapshot, progress: Progress, room: int) -> TextRow:
        """Return when the training ends, where more epochs are known to come.

        A bar that is full and 00:00 left would read as the end of a script that runs on.
        """
        return self._end_alone(snapshot, progress, room) if _more_are_to_come(progress) else ()

    def _end_alone(self, snapshot: Snapshot, progress: Progress, room: int) -> TextRow:
        times = _times_of(snapshot, progress)
        shown = next((text for text in (times.run_and_end, times.run) if len(text) <= room), "")
        return ((shown, PLAIN),) if shown else ()


def _layouts(times: _Times) -> Iterator[tuple[bool, bool, str]]:
    """Yield what may be shown, the most first: whether bar and share, and the times."""
    epoch, run, run_and_end = times
    yield True, True, _spaced(epoch, run_and_end)
    for shown in (run_and_end, run):
        yield True, True, _spaced(shown)
        yield False, True, _spaced(shown)
        yield False, False, _spaced(shown)


def _spaced(*times: str) -> str:
    shown = "   ".join(text for text in times if text)
    return f"  {shown}" if shown else ""


def _step(snapshot: Snapshot) -> TextRow:
    progress = snapshot.progress
    if progress is None:
        if snapshot.header.is_script:
            return ((f"{NOTHING_SEEN_YET}: the script runs", MUTED),)
        return ((under_way(phase_text(snapshot.phase) or "starting"), MUTED),)
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


def _times_of(snapshot: Snapshot, progress: Progress) -> _Times:
    """Return the times that are known; in the last epoch, which ends with the run, one only."""
    to_end_s = progress.run_left_s if progress.end_left_s is None else progress.end_left_s
    epoch, run = units.time_left(progress.epoch_left_s), units.time_left(to_end_s)
    if run and snapshot.model is not None and snapshot.model.length_from is not None:
        # How long the training is to be was read somewhere, and may be wrong.
        run = f"~ {run}"
    if (progress.epochs or 0) > progress.epoch + 1 and epoch and run:
        run = f"run {run}"
    else:
        epoch, run = "", run or epoch
    return _Times(epoch, run, f"{run}{_end(snapshot, progress)}")


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


def _recent_notice(snapshot: Snapshot) -> str:
    """Return the newest notice while it is news."""
    if not snapshot.notices:
        return ""
    newest = snapshot.notices[-1]
    age_s = snapshot.elapsed_s - (newest.t - snapshot.header.t) / 1e9
    return newest.text if age_s <= NOTICE_S else ""
