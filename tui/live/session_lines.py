"""The lines of a session: its identity, its limit, its progress and its time breakdown."""

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
from dlmon.figures.session.framework_memory import explain_out_of_memory
from dlmon.figures.session.phases import doing_text
from dlmon.figures.session.progress import (
    failure_text,
    is_script_without_training,
    pause_text,
    recent_notice,
    settings_of,
    step_of,
    step_text,
    times_left,
    try_or_output,
    waiting_texts,
    why_nothing_trained,
)
from dlmon.figures.session.session_list import ended_text, stop_delay_text
from dlmon.figures.session.time_breakdown import (
    PartRow,
    breakdown_rows,
    gap_of_session,
    in_short,
    longest_gaps,
    names_of,
    step_parts_text,
)
from dlmon.log.label import Label
from dlmon.records import Status, TimePart
from dlmon.session.gaps import Gap
from dlmon.session.limits.evidence import LimitKind
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
_UNNAMED = Label()


class TopLine(Lines):
    """A row with the identity and the state of a session."""

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
            snapshot: the session's figures.
            status: of the session.
            reading: replaces the state while the log is still being read.
            label: a person's name for the session, and a note.
            host: the host of the session, if that is another one.
            turn: the session's number, if it is one of several runs.
        """
        right = ((reading, STRONG),) if reading else _state(snapshot, status)
        name = f'"{label.name}"' if label.name is not None else ""
        (name_run,) = cut(((name, PLAIN),), _LONGEST_NAME) or (("", PLAIN),)
        runs: TextRow = (
            (snapshot.header.workload or "machine", ACCENT),
            name_run,
            (turn, PLAIN),
            (host or "", STRONG),
            (units.device(device_text(snapshot)), MUTED),
            *((setting, MUTED) for setting in settings_of(snapshot)),
            (label.note or "", MUTED),
        )
        room = width - row_width(right) - APART
        runs = fitting(tuple(run for run in runs if run[0]), room, APART)
        return [joined(runs, right, width)]

    show = shows(rows)


def _state(snapshot: Snapshot, status: str) -> TextRow:
    """Return the status or the phase of a session, its epoch and its time."""
    is_running = status == Status.RUNNING
    style = STRONG if is_running else GOOD if status == Status.COMPLETED else BAD
    parts = [(doing_text(snapshot) if is_running else status, style)]
    epoch = epoch_text(snapshot)
    if epoch:
        before = "  "
        if is_running and snapshot.phase == "opening":
            # One phrase: "starting epoch 4/10".
            before = " "
        elif status in (Status.FAILED, Status.STOPPED):
            last = last_epoch(snapshot)
            before = "  after " if last is not None and last[1] else "  in "
        parts.append((f"{before}{epoch}", PLAIN))
    return (*parts, (f"  {units.clock(snapshot.elapsed_s)}", PLAIN))


# The figures beside the headline; further ones are in the second row.
_FIRST_FIGURES = 2
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
    """The limit of the run and an advice, in two rows, or in one if the style sheet has only one.

    The height is fixed, so that nothing below moves. Only the reason why a run failed, or trained
    nothing, makes it grow.
    """

    DEFAULT_CSS = "LimitLine { height: 2; padding: 0 1; &.-whole { height: auto; } }"

    def rows(
        self, width: int, height: int, snapshot: Snapshot, running: bool = True
    ) -> list[TextRow]:
        """Return the limit, the failure, or what the finding of the limit waits for."""
        limit, room = snapshot.limit, width - _MARK_CELLS
        over = not running or snapshot.result is not None
        heading = "What limited it  " if over else "What limits it  "
        style = _STYLES[LimitKind.UNCLEAR if limit is None else limit.kind]
        failure, untrained = failure_text(snapshot), why_nothing_trained(snapshot)
        if failure is not None:
            style, heading, (name, more) = BAD, "Failed  ", try_or_output(snapshot)
            explanation = explain_out_of_memory(snapshot)
            failure = f"GPU memory ran out: {explanation}" if explanation else failure
            texts = wrapped(failure, room - len(heading), max(1, height - bool(more)))
            rows = beside(heading, texts, PLAIN, BAD)
            rows += [((name.ljust(len(heading)), MUTED), (more, PLAIN))] if more else []
        elif untrained is not None:
            rows = beside(heading, wrapped(untrained, room - len(heading), height), MUTED)
        elif limit is None or (is_script_without_training(snapshot) and over):
            rows = beside(heading, waiting_texts(snapshot, over), MUTED)
        else:
            headline = limit.headline or (limit.text, "Not clear")[style == _UNCLEAR]
            figures, more = (
                ", ".join(limit.figures[:_FIRST_FIGURES]),
                ", ".join(limit.figures[_FIRST_FIGURES:]),
            )
            advice = limit.advice or ("" if more or style == _UNCLEAR else "no suggestion")
            if height < 2:
                brief = f"Try: {limit.advice.partition(': ')[0]}" if limit.advice else ""
                first = limit.figures[0] if limit.figures and brief else figures
                runs = ((headline, style), (first, PLAIN), (brief, PLAIN))
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
        """Show the limit of a session, or its failure."""
        is_whole = failure_text(snapshot) is not None or bool(why_nothing_trained(snapshot))
        self.set_class(is_whole, "-whole")
        self._show(snapshot, running)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(width, _MOST_ROWS))


_LONGEST_BAR, _SHORTEST_BAR = 24, 8
# From this width on, the time left of the epoch is shown beside that of the run.
_WIDE = 100


class ProgressLine(GrowingLines):
    """The step with a progress bar and the time left, and a notice if there is one.

    Only problems and notices take more than one row: they are shown in full if they fit, because
    half a sentence may mean the opposite. Within an epoch nothing moves when a figure gets shorter:
    the step keeps its cells, and the times are aligned right.
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
        """Return a problem, the result, or the progress with a notice.

        `reading` replaces all of that while the log is still being read.
        """
        if reading:
            text = f"{reading}; the screen shows {units.clock(snapshot.elapsed_s)}"
            return [((text, STRONG),)]
        if problem:
            return [((line, BAD),) for line in wrapped(problem, width, height)]
        result = snapshot.result
        if result is not None:
            style = BAD if result.status == Status.FAILED else PLAIN
            return [((ended_text(result), style),)]
        if stopping:
            return [((f"stopping{stop_delay_text(snapshot.header)} …", STRONG),)]
        times = times_left(snapshot, width >= _WIDE)
        row = _progress_row(snapshot, times, width)
        notice = wrapped(pause_text(snapshot) or recent_notice(snapshot), width, max(1, height - 1))
        if not notice:
            return [row]
        if height < 2 or (len(notice) == 1 and len(notice[0]) + APART + len(times) <= width):
            return [joined(((notice[0], STRONG),), ((times, PLAIN),), width)]
        return [*(((line, STRONG),) for line in notice), row]

    show = shows(rows)


def _progress_row(snapshot: Snapshot, times: str, width: int) -> TextRow:
    """Return the step, a bar if the number of steps is known, and times."""
    step, progress = step_of(snapshot), snapshot.progress
    row: TextRow = ((step, MUTED),)
    if progress is not None and progress.steps is not None and not progress.is_over:
        steps, updates = progress.steps, progress.updates
        longest = len(step_text(steps, steps, None if updates is None else steps))
        has_epochs = snapshot.model is None or snapshot.model.has_epochs is not False
        noun = epoch_word(snapshot.header) if has_epochs else "training"
        step = f"{step:<{longest}}  {noun} "
        percent = f" {progress.epoch_fraction * 100:3.0f} %"
        room = width - len(step) - len(percent) - APART - len(times)
        if room >= _SHORTEST_BAR:
            bar = bar_on_track(progress.epoch_fraction, min(_LONGEST_BAR, room))
            row = ((step, MUTED), *bar, (percent, PLAIN))
    return joined(row, ((times, PLAIN),) if times else (), width)


_TIME, _STEP, _LONGEST, _HERE = "Time  ", "Step  ", "Longest pause  ", "Pause here  "
# The number of parts that are named besides the steps.
_LARGEST = 2
_LONGEST_BREAKDOWN, _SHORTEST_BREAKDOWN = 40, 10
_GLYPHS = {TimePart.TRAINING: ("█", BAR), TimePart.UNKNOWN: ("░", TRACK)}
# The glyphs of the two largest other parts.
_OTHER_GLYPHS = (("▓", BRIGHT), ("▒", PLAIN))


class BreakdownLine(GrowingLines):
    """The time breakdown as a bar, the parts of a step, and the longest pause.

    With a cursor on pauses, the longest of these is shown, in a single row in place of the bar.
    """

    DEFAULT_CSS = "BreakdownLine { height: auto; padding: 0 2; }"
    MOST_ROWS: ClassVar[int] = 3

    _most_rows = 1

    def rows_needed(self, width: int) -> int:
        """Return the most rows needed so far, so that the line doesn't shrink again."""
        self._most_rows = max(self._most_rows, super().rows_needed(width))
        return self._most_rows

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        read_ns: tuple[int, int] | None = None,
    ) -> list[TextRow]:
        """Return a session's time breakdown; `read_ns` is the time of the cursor's column."""
        if not snapshot.time_breakdown:
            return []
        start, end = read_ns or (0, 0)
        gaps_here = [gap for gap in snapshot.gaps if gap.start < end and gap.end > start]
        step: list[TextRow] = []
        if snapshot.step_parts is not None:
            step = [((_STEP, MUTED), (step_parts_text(snapshot.step_parts), PLAIN))]
        pauses = _gap_rows(snapshot, gaps_here, width, max(1, height - 1 - len(step)))
        if height == 1 and gaps_here:
            return pauses
        return [self._bar_row(snapshot, width), *step, *pauses][:height]

    show = shows(rows)

    def _bar_row(self, snapshot: Snapshot, width: int) -> TextRow:
        """Return the bar and its legend, which has seconds if the run is over and they fit."""
        parts = in_short(breakdown_rows(snapshot.time_breakdown, names_of(snapshot)), _LARGEST)
        other_glyphs = iter(_OTHER_GLYPHS)
        glyphs = [_GLYPHS.get(part.part) or next(other_glyphs) for part in parts]
        legend: TextRow = ()
        for with_seconds in (snapshot.result is not None, False):
            legend = _legend(parts, glyphs, with_seconds)
            room = width - len(_TIME) - row_width(legend)
            if room >= _SHORTEST_BREAKDOWN:
                break
        cells = max(_SHORTEST_BREAKDOWN, min(_LONGEST_BREAKDOWN, room))
        ends = [round(end * cells) for end in accumulate(part.share for part in parts)]
        lengths = [end - start for start, end in pairwise((0, *ends[:-1], cells))]
        bar = [(glyph * n, style) for n, (glyph, style) in zip(lengths, glyphs, strict=False)]
        return ((_TIME, MUTED), *(run for run in bar if run[0]), *legend)


def _legend(parts: Sequence[PartRow], glyphs: Sequence[TextRun], with_seconds: bool) -> TextRow:
    row: TextRow = ()
    for part, glyph in zip(parts, glyphs, strict=True):
        seconds = f" {units.seconds(part.seconds)}," if with_seconds else ""
        row = (*row, ("  ", PLAIN), glyph, (f" {part.name}{seconds} {part.percent} %", PLAIN))
    return row


def _gap_rows(
    snapshot: Snapshot, gaps_here: Sequence[Gap], width: int, height: int
) -> list[TextRow]:
    """Return the longest pause at the cursor in words, or else of the whole run."""
    heading = _HERE if gaps_here else _LONGEST
    longest = longest_gaps(gaps_here or snapshot.gaps, 1)
    texts = [gap_of_session(gap, snapshot, brief=True) for gap in longest]
    lines = [line for text in texts for line in wrapped(text, width - len(heading), height)]
    return beside(heading, lines)
