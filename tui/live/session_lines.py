"""The lines of a session: what runs, what limits it, how far it is, and where its time went."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import ClassVar

from textual.geometry import Size

from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import (
    device_text,
    epoch_text,
    epoch_word,
    last_epoch,
)
from dlmon.figures.session.framework_memory import explain_failure
from dlmon.figures.session.phases import doing_text
from dlmon.figures.session.progress import (
    failure_text,
    pause_text,
    recent_notice,
    sees_nothing,
    settings_of,
    step_of,
    step_text,
    times_left,
    try_or_output,
    waiting_texts,
    why_nothing_trained,
)
from dlmon.figures.session.session_list import after_the_batch, ended_text
from dlmon.figures.session.time_breakdown import (
    PartRow,
    account_rows,
    gap_of_session,
    in_short,
    longest_gaps,
    names_of,
    step_parts_text,
)
from dlmon.log.label import Label
from dlmon.records import AccountPart, Status
from dlmon.session.gaps import Gap
from dlmon.session.limits.seen import LimitKind
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import (
    ACCENT,
    APART,
    BAD,
    BAR,
    BRIGHT,
    GOOD,
    MUTED,
    PLAIN,
    STRONG,
    TRACK,
    GrowingLines,
    Lines,
    TextRow,
    TextRun,
    bar_on_track,
    beside,
    cut,
    fitting,
    joined,
    row_width,
    shows,
    wrapped,
)

_LONGEST_NAME = 30
"""Cells of the first line that a name may take."""
_UNNAMED = Label()


class TopLine(Lines):
    """One row; `show` takes a snapshot and how the session stands."""

    DEFAULT_CSS = "TopLine { height: 1; padding: 0 1; }"

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        status: str,
        reading: str = "",
        label: Label = _UNNAMED,
        host: str | None = None,
        turn: str = "",
    ) -> list[TextRow]:
        """Return a session in a row.

        Args:
            width: of the row.
            height: one.
            snapshot: all of its figures.
            status: how it stands.
            reading: how far its log is read, while it is behind.
            label: what a person calls it, and notes of it.
            host: the machine that it is on, where that is another one.
            turn: which of several runs it is, of one that is one of several.
        """
        right = ((reading, STRONG),) if reading else _where_it_is(snapshot, status)
        called = f'"{label.name}"' if label.name is not None else ""
        (name,) = cut(((called, PLAIN),), _LONGEST_NAME) or (("", PLAIN),)
        left: TextRow = (
            (snapshot.header.workload or "machine", ACCENT),
            name,
            (turn, PLAIN),
            (host or "", STRONG),
            (units.device(device_text(snapshot)), MUTED),
            *((setting, MUTED) for setting in settings_of(snapshot)),
            (label.note or "", MUTED),
        )
        room = width - row_width(right) - APART
        left = fitting(tuple(run for run in left if run[0]), room, APART)
        return [joined(left, right, width)]

    show = shows(rows)


def _where_it_is(snapshot: Snapshot, status: str) -> TextRow:
    """Return how a session stands, and how far it has come."""
    is_running = status == Status.RUNNING
    style = STRONG if is_running else GOOD if status == Status.COMPLETED else BAD
    parts = [(doing_text(snapshot) if is_running else status, style)]
    epoch = epoch_text(snapshot)
    if epoch:
        # "starting epoch 4/10" is one phrase.
        opening = is_running and snapshot.phase == "opening"
        cut_off = status in (Status.FAILED, Status.STOPPED)
        last = last_epoch(snapshot)
        place = "  after " if last is not None and last[1] else "  in "
        apart = " " if opening else place if cut_off else "  "
        parts.append((f"{apart}{epoch}", PLAIN))
    return (*parts, (f"  {units.clock(snapshot.elapsed_s)}", PLAIN))


_NAMED = 2
"""So many figures stand beside the headline; what more there are is for the second row."""
_MARK_CELLS = 2
_MOST_ROWS = 4

_UNCLEAR = "bold $text-muted 60%"
_STYLES = {
    LimitKind.LOSS: BAD,
    LimitKind.DATA: ACCENT,
    LimitKind.DISK: ACCENT,
    LimitKind.GPU: "bold $text-success",
    LimitKind.CPU: "bold $text-primary",
    LimitKind.MEMORY: "bold $text-secondary",
    LimitKind.OTHERS: "bold $text-warning",
    LimitKind.STEP: "bold $text-primary",
    LimitKind.WAITING: "bold $text-warning",
    LimitKind.UNCLEAR: _UNCLEAR,
}


class LimitLine(Lines):
    """What limits the run and what to try, in two rows; in one where there is but one.

    Its height is the style sheet's, so that nothing below it ever moves; it grows but once, for
    why a run failed, or trained nothing.
    """

    DEFAULT_CSS = "LimitLine { height: 2; padding: 0 1; &.-whole { height: auto; } }"

    def rows(
        self, width: int, height: int, snapshot: Snapshot, running: bool = True
    ) -> list[TextRow]:
        """Return what limits a session, or what that waits for."""
        limit, room = snapshot.limit, width - _MARK_CELLS
        over = not running or snapshot.result is not None
        heading = "What limited it  " if over else "What limits it  "
        style = _STYLES[LimitKind.UNCLEAR if limit is None else limit.kind]
        failure, untrained = failure_text(snapshot), why_nothing_trained(snapshot)
        if failure is not None:
            style, heading, (name, more) = BAD, "Failed  ", try_or_output(snapshot)
            explained = explain_failure(snapshot)
            failure = f"GPU memory ran out: {explained}" if explained else failure
            texts = wrapped(failure, room - len(heading), max(1, height - bool(more)))
            rows = beside(heading, texts, PLAIN, BAD)
            rows += [((name.ljust(len(heading)), MUTED), (more, PLAIN))] if more else []
        elif untrained is not None:
            rows = beside(heading, wrapped(untrained, room - len(heading), height), MUTED)
        elif limit is None or (sees_nothing(snapshot) and over):
            rows = beside(heading, waiting_texts(snapshot, over), MUTED)
        else:
            headline = limit.headline or (limit.text, "Not clear")[style == _UNCLEAR]
            figures, more = ", ".join(limit.figures[:_NAMED]), ", ".join(limit.figures[_NAMED:])
            advice = limit.advice or ("" if more or style == _UNCLEAR else "no suggestion")
            if height < 2:
                tries = f"Try: {limit.advice.partition(': ')[0]}" if limit.advice else ""
                first = limit.figures[0] if limit.figures and tries else figures
                runs = ((headline, style), (first, PLAIN), (tries, PLAIN))
                rows = [fitting(tuple(run for run in runs if run[0]), room)]
            else:
                name = "Try" if advice else ""
                rows = [
                    ((heading, MUTED), (headline, style), (f"  {figures}", PLAIN)),
                    ((name.ljust(len(heading)), MUTED), (advice or more, PLAIN)),
                ]
        return [(("┃ ", style), *row) for row in rows[:height]]

    _show = shows(rows)

    def show(self, snapshot: Snapshot, running: bool = True) -> None:
        """Show what limits a session, or what that waits for."""
        is_whole = failure_text(snapshot) is not None or bool(why_nothing_trained(snapshot))
        self.set_class(is_whole, "-whole")
        self._show(snapshot, running)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(width, _MOST_ROWS))


_LONGEST_BAR, _SHORTEST_BAR = 24, 8
_WIDE = 100
"""From here on the time left of the epoch stands beside that of the run."""


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
            style = BAD if result.status == Status.FAILED else PLAIN
            return [((ended_text(result), style),)]
        if stopping:
            return [((f"stopping{after_the_batch(snapshot.header)} …", STRONG),)]
        times = times_left(snapshot, width >= _WIDE)
        row = _with_progress(snapshot, times, width)
        notice = wrapped(pause_text(snapshot) or recent_notice(snapshot), width, max(1, height - 1))
        if not notice:
            return [row]
        if height < 2 or (len(notice) == 1 and len(notice[0]) + APART + len(times) <= width):
            return [joined(((notice[0], STRONG),), ((times, PLAIN),), width)]
        return [*(((line, STRONG),) for line in notice), row]

    show = shows(rows)


def _with_progress(snapshot: Snapshot, times: str, width: int) -> TextRow:
    """Return the step, the bar beside it where it is known how long that is, and times."""
    step, progress = step_of(snapshot), snapshot.progress
    left: TextRow = ((step, MUTED),)
    if progress is not None and progress.steps is not None and not progress.is_over:
        steps, updates = progress.steps, progress.updates
        longest = len(step_text(steps, steps, None if updates is None else steps))
        has_epochs = snapshot.model is None or snapshot.model.has_epochs is not False
        named = epoch_word(snapshot.header) if has_epochs else "training"
        step = f"{step:<{longest}}  {named} "
        percent = f" {progress.epoch_fraction * 100:3.0f} %"
        room = width - len(step) - len(percent) - APART - len(times)
        if room >= _SHORTEST_BAR:
            done = bar_on_track(progress.epoch_fraction, min(_LONGEST_BAR, room))
            left = ((step, MUTED), *done, (percent, PLAIN))
    return joined(left, ((times, PLAIN),) if times else (), width)


_TIME, _STEP, _LONGEST, _HERE = "Time  ", "Step  ", "Longest pause  ", "Pause here  "
_LARGEST = 2
"""So many are named beside the steps."""
_LONGEST_ACCOUNT, _SHORTEST_ACCOUNT = 40, 10
_LOOKS = {AccountPart.TRAINING: ("█", BAR), AccountPart.UNKNOWN: ("░", TRACK)}
_OTHERS = (("▓", BRIGHT), ("▒", PLAIN))
"""The characters of the steps, of the rest, and of two other parts, each with its style."""


class AccountLine(GrowingLines):
    """A bar of what the time went into, a step's parts, the longest pause, or that at the cursor.

    In a single row a pause at the cursor takes the place of the bar.
    """

    DEFAULT_CSS = "AccountLine { height: auto; padding: 0 2; }"
    MOST_ROWS: ClassVar[int] = 3

    _most_rows = 1

    def rows_needed(self, width: int) -> int:
        """Return the most rows that were needed so far: a pause comes, and stays."""
        self._most_rows = max(self._most_rows, super().rows_needed(width))
        return self._most_rows

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        read_ns: tuple[int, int] | None = None,
    ) -> list[TextRow]:
        """Return a session's account of time; `read_ns` is the time that the cursor stands for."""
        if not snapshot.account:
            return []
        start, end = read_ns or (0, 0)
        here = [gap for gap in snapshot.gaps if gap.start < end and gap.end > start]
        step: list[TextRow] = []
        if snapshot.step_parts is not None:
            step = [((_STEP, MUTED), (step_parts_text(snapshot.step_parts), PLAIN))]
        pauses = _gap_rows(snapshot, here, width, max(1, height - 1 - len(step)))
        if height == 1 and here:
            return pauses
        return [self._bar_row(snapshot, width), *step, *pauses][:height]

    show = shows(rows)

    def _bar_row(self, snapshot: Snapshot, width: int) -> TextRow:
        """Return the bar and its words; of a run that is over with seconds, where there is room."""
        parts = in_short(account_rows(snapshot.account, names_of(snapshot)), _LARGEST)
        free = iter(_OTHERS)
        looks = [_LOOKS.get(part.part) or next(free) for part in parts]
        words: TextRow = ()
        for with_seconds in (snapshot.result is not None, False):
            words = _words(parts, looks, with_seconds)
            room = width - len(_TIME) - row_width(words)
            if room >= _SHORTEST_ACCOUNT:
                break
        cells = max(_SHORTEST_ACCOUNT, min(_LONGEST_ACCOUNT, room))
        ends = [round(end * cells) for end in accumulate(part.share for part in parts)]
        lengths = [end - start for start, end in pairwise((0, *ends[:-1], cells))]
        bar = [(glyph * n, style) for n, (glyph, style) in zip(lengths, looks, strict=False)]
        return ((_TIME, MUTED), *(run for run in bar if run[0]), *words)


def _words(parts: Sequence[PartRow], looks: Sequence[TextRun], with_seconds: bool) -> TextRow:
    row: TextRow = ()
    for part, look in zip(parts, looks, strict=True):
        seconds = f" {units.seconds(part.seconds)}," if with_seconds else ""
        row = (*row, ("  ", PLAIN), look, (f" {part.name}{seconds} {part.percent} %", PLAIN))
    return row


def _gap_rows(snapshot: Snapshot, here: Sequence[Gap], width: int, height: int) -> list[TextRow]:
    """Return the longest pause in words: of those here, where there are any."""
    heading = _HERE if here else _LONGEST
    longest = longest_gaps(here or snapshot.gaps, 1)
    texts = [gap_of_session(gap, snapshot, brief=True) for gap in longest]
    lines = [line for text in texts for line in wrapped(text, width - len(heading), height)]
    return beside(heading, lines)
