"""The lines of a session: its identity, its limit, its progress and its time breakdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.geometry import Size

from dlmon.figures import units
from dlmon.figures.lists.session_list import ended_text
from dlmon.figures.session.epoch_numbers import epoch_text, epoch_word, last_epoch
from dlmon.figures.session.gap_texts import gap_of_session, longest_gaps
from dlmon.figures.session.headline import Headline
from dlmon.figures.session.phases import doing_text
from dlmon.figures.session.progress import (
    pause_text,
    recent_notice,
    settings_of,
    step_of,
    step_text,
    times_left,
)
from dlmon.figures.session.ranks import step_split
from dlmon.figures.session.run_facts import device_text
from dlmon.figures.session.time_breakdown import TIME_FILLS, breakdown_rows, in_short, names_of
from dlmon.figures.value_axis import stacked_bar
from dlmon.log.label import Label
from dlmon.records import Status, TimePart
from dlmon.session.gaps import Gap
from dlmon.session.limits.evidence import KINDS, OPENING, STANDS, LimitKind, Tone
from dlmon.session.snapshot import Snapshot
from tui.drawing.step_parts import PART_GLYPHS, PART_STYLES, TIME_STYLES
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
    OneLine,
    TextRow,
    bar_on_track,
    beside,
    cut,
    fitting,
    joined,
    row_width,
    shows,
    without_detail,
    wrapped,
)

_LONGEST_NAME = 30
_UNNAMED = Label()


class TopLine(OneLine):
    """A row with the identity and the state of a session."""

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        status: str,
        reading: str = "",
        label: Label = _UNNAMED,
        host: str | None = None,
        headline: Headline | None = None,
        is_past: bool = False,
    ) -> list[TextRow]:
        """Return a session in a row; `reading` replaces the state while the log is being read.

        The state `is_past` in a replay.
        """
        right = ((reading, STRONG),) if reading else _state(snapshot, status, headline)
        if is_past and not reading:
            right = (("replay: ", MUTED), *right)
        name = f'"{label.name}"' if label.name is not None else ""
        (name_run,) = cut(((name, PLAIN),), _LONGEST_NAME) or (("", PLAIN),)
        runs: TextRow = (
            (snapshot.header.workload or "machine", ACCENT),
            name_run,
            (host or "", STRONG),
            (units.device(device_text(snapshot)), MUTED),
            *((setting, MUTED) for setting in settings_of(snapshot)),
            (label.note or "", MUTED),
        )
        room = width - row_width(right) - APART
        runs = fitting(tuple(run for run in runs if run[0]), room, APART)
        return [joined(runs, right, width)]

    show = shows(rows)


def _state(snapshot: Snapshot, status: str, headline: Headline | None) -> TextRow:
    """Return the status or the phase of a session, its epoch and its time."""
    is_running = status == Status.RUNNING
    style = STRONG if is_running else GOOD if status == Status.COMPLETED else BAD
    parts = [(doing_text(snapshot) if is_running else status, style)]
    is_useless = headline is not None and KINDS[headline.rule].kind is LimitKind.LOSS
    if headline is not None and (headline.rule in STANDS or (is_running and is_useless)):
        parts = [(headline.name, BAD)]
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


_MARK, _ADVICE = "▌ ", "→ "
_MOST_ROWS = 4
LEAST_VERDICT = 2
"""The verdict of a run that is over is shown in more rows than this."""
# In a single row, advice is cut to the room that is left, or left out below this width.
_LEAST_ADVICE = 20
_DONE = f"bold {GOOD}"
_STYLES = {
    Tone.BAD: BAD,
    Tone.LIMIT: "bold $text-warning",
    Tone.GOOD: "bold $text-success",
    Tone.UNCLEAR: "bold $text-muted 60%",
}


class LimitLine(Lines):
    """The headline of a session and the advice, in two rows, or in one if the style sheet says so.

    The height is fixed, so that nothing below moves. Only the reason of a state that stops a run
    makes it grow, and the verdict of a run that is over.
    """

    DEFAULT_CSS = """
    LimitLine { height: 2; padding: 0 1; &.-verdict { height: 3; } &.-whole { height: auto; } }
    """

    def rows(
        self, width: int, height: int, headline: Headline | None, verdict: tuple[str, ...] = ()
    ) -> list[TextRow]:
        """Return the name with its figure and the reasons, then the advice or other findings.

        The `verdict` comes first if there is room: the status of a run that is over, its figure,
        and how it compares.
        """
        if headline is None:
            return []
        if verdict and height > LEAST_VERDICT:
            status, figure, *compared = verdict
            runs = ((status, _DONE), (figure, STRONG), *((text, PLAIN) for text in compared))
            row = ((_MARK, _DONE), *fitting(runs, width - cell_len(_MARK)))
            return [row, *self.rows(width, height - 1, headline)]
        style, room = _STYLES[headline.tone], width - cell_len(_MARK)
        title, advice = f"{headline.title}{' ' * APART}", headline.advice
        if _is_whole(headline):
            most = max(1, height - bool(advice))
            texts = wrapped(headline.reason, room - cell_len(title), most)
            rows = beside(title, texts, PLAIN, style)
            rows += [_advice_row(advice, "", room)] if advice else []
        elif height < 2:
            runs = ((headline.title, style), *((text, PLAIN) for text in headline.reasons[:1]))
            left = room - sum(cell_len(text) + APART for text, _ in runs)
            brief = f"{_ADVICE}{advice.partition(': ')[0]}" if advice else ""
            if brief and left < _LEAST_ADVICE:
                # What to do goes before why.
                runs, left = runs[:1], room - cell_len(headline.title) - APART
            texts = wrapped(brief, left, 1) if left >= _LEAST_ADVICE else []
            rows = [fitting((*runs, *((text, PLAIN) for text in texts)), room)]
        else:
            reasons, more = _that_fit(headline.reasons, room - cell_len(title))
            rows = [((title, style), (reasons, PLAIN))]
            indent = " " * cell_len(title)
            if advice:
                rows.append(_advice_row(advice, indent, room))
            elif more := (*more, *headline.also):
                rows.append(((indent, PLAIN), (_that_fit(more, room - len(indent))[0], MUTED)))
        return [((_MARK, style), *row) for row in rows[:height]]

    _show = shows(rows)

    def show(self, headline: Headline | None, verdict: tuple[str, ...] = ()) -> None:
        self.set_class(headline is not None and _is_whole(headline), "-whole")
        self.set_class(bool(verdict), "-verdict")
        self._show(headline, verdict)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(width, _MOST_ROWS))


def _is_whole(headline: Headline) -> bool:
    """Return whether a headline is shown in full: a state that stops the run, or no training."""
    return headline.tone is Tone.BAD or headline.rule == "no-training"


def _that_fit(texts: Sequence[str], width: int) -> tuple[str, Sequence[str]]:
    """Return the first texts that fit side by side, and the others; the first one is wrapped."""
    count = len(texts)
    while count > 1 and cell_len(", ".join(texts[:count])) > width:
        count -= 1
    return next(iter(wrapped(", ".join(texts[:count]), width, 1)), ""), texts[count:]


def _advice_row(advice: str, indent: str, width: int) -> TextRow:
    """Return the advice below the reasons; further left, and without details, if it is long."""
    indent = indent if cell_len(indent + _ADVICE + advice) <= width else ""
    text = without_detail(advice, width - cell_len(_ADVICE))
    (text, *_) = wrapped(text, width - cell_len(indent + _ADVICE), 1) or ("",)
    return ((indent + _ADVICE, MUTED), (text, PLAIN))


_LONGEST_BAR, _SHORTEST_BAR = 24, 8
# From this width on, the time left of the epoch is shown beside that of the run.
_WIDE = 100


class ProgressLine(GrowingLines):
    """The step with a progress bar and the time left, and a notice if there is one.

    Only problems and notices take more than one row: they are shown in full if they fit, because
    half a sentence may mean the opposite. Within an epoch nothing moves when a figure gets shorter:
    the step keeps its cells, and the times are aligned right.
    """

    MOST_ROWS: ClassVar[int] = 4

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        problem: str | None,
        reading: str = "",
        headline: Headline | None = None,
        is_past: bool = False,
    ) -> list[TextRow]:
        """Return a problem, the result, or the progress with a notice.

        `reading` replaces all of that while the log is still being read. What the headline says
        isn't said again. No time is left of a run that `is_past`, or that is of no use.
        """
        if reading:
            text = f"{reading}; the screen shows {units.clock(snapshot.elapsed_s)}"
            return [((text, STRONG),)]
        said = "" if headline is None else headline.reason
        if problem and problem.rpartition(": ")[2] not in said:
            return [((line, BAD),) for line in wrapped(problem, width, height)]
        result = snapshot.result
        if result is not None:
            style = BAD if result.status == Status.FAILED else PLAIN
            return [((ended_text(result), style),)]
        is_bad = headline is not None and headline.tone is Tone.BAD
        times = "" if is_past or is_bad else times_left(snapshot, width >= _WIDE)
        # The slider of a replay takes the place of the bar.
        row = ((step_of(snapshot), MUTED),) if is_past else _progress_row(snapshot, times, width)
        is_said = headline is not None and headline.rule in (*STANDS, OPENING)
        text = "" if is_said else pause_text(snapshot)
        notice = wrapped(text or recent_notice(snapshot), width, max(1, height - 1))
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
    if progress is not None and progress.steps is not None and step.startswith("step "):
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
_LARGEST = 3
_LONGEST_BREAKDOWN, _SHORTEST_BREAKDOWN = 120, 10
_LEGEND_GAP = 4
_Part = tuple[str, float, tuple[str, str]]
"""The name with its figures, the share of 0 to 1, and the glyph and the style of a part."""


class BreakdownLine(GrowingLines):
    """The time breakdown as a bar, the parts of a step, and the longest pause.

    With a cursor on pauses, the longest of these is shown, in a single row in place of the bar.
    """

    DEFAULT_CSS = "BreakdownLine { padding: 0 2; }"
    MOST_ROWS: ClassVar[int] = 3

    _with_step = True
    _most_rows: tuple[int, bool, int] = (0, True, 0)

    def rows_needed(self, width: int) -> int:
        """Return the most rows needed so far in a layout, in which the line never shrinks."""
        needed, (*layout, most) = super().rows_needed(width), self._most_rows
        if layout == [width, self._with_step]:
            needed = max(needed, most)
        self._most_rows = width, self._with_step, needed
        return needed

    def rows(
        self,
        width: int,
        height: int,
        snapshot: Snapshot,
        read_ns: tuple[int, int] | None = None,
        with_step: bool = True,
    ) -> list[TextRow]:
        """Return a session's time breakdown, and that of a step unless a panel has it.

        `read_ns` is the time of the cursor's column.
        """
        self._with_step = with_step
        if not snapshot.time_breakdown or (not snapshot.batches and snapshot.result is None):
            # The start of a run has a panel.
            return []
        start, end = read_ns or (0, 0)
        gaps_here = [gap for gap in snapshot.gaps if gap.start < end and gap.end > start]
        step: list[TextRow] = []
        if with_step and (split := step_split(snapshot, snapshot.judged_parts)) is not None:
            parts = [
                (
                    f"{split.name_of(name)} {units.share(share)}",
                    share,
                    (PART_GLYPHS[name], PART_STYLES[name]),
                )
                for name, _, share in split.rows
            ]
            step = [_stacked(_STEP, parts, width)]
        pauses = _gap_rows(snapshot, gaps_here, width, max(1, height - 1 - len(step)))
        if height == 1 and gaps_here:
            return pauses
        return [self._time_row(snapshot, width), *step, *pauses][:height]

    show = shows(rows)

    def _time_row(self, snapshot: Snapshot, width: int) -> TextRow:
        """Return the parts of the time, with seconds if the run is over and they fit.

        Without room for the names of all, the smallest ones are summed up.
        The wait for data has one figure on the screen: as a part of a step, if the parts are known.
        """
        spent_s = dict(snapshot.time_breakdown)
        if snapshot.judged_parts is not None:
            in_steps_s = spent_s.get(TimePart.TRAINING, 0.0) + spent_s.pop(TimePart.DATA_WAIT, 0.0)
            spent_s[TimePart.TRAINING] = in_steps_s
        all_rows = breakdown_rows(spent_s, names_of(snapshot))
        parts: Sequence[_Part] = ()
        for most in (_LARGEST, *range(_LARGEST, 0, -1)):
            # The first time with seconds.
            with_seconds = not parts and snapshot.result is not None
            parts = [
                (
                    f"{row.name} {f'{units.seconds(row.seconds)}, ' * with_seconds}{row.percent} %",
                    row.share,
                    (TIME_FILLS[row.part], TIME_STYLES[row.part]),
                )
                for row in in_short(all_rows, most)
            ]
            if _legend_width(parts) + len(_TIME) + _SHORTEST_BREAKDOWN <= width:
                break
        return _stacked(_TIME, parts, width)


def _legend_width(parts: Sequence[_Part]) -> int:
    return sum(_LEGEND_GAP + cell_len(name) for name, _, _ in parts)


def _stacked(heading: str, parts: Sequence[_Part], width: int) -> TextRow:
    """Return parts as a bar with a legend that leaves out the smallest without room."""
    named = sorted(range(len(parts)), key=lambda n: -parts[n][1])
    marks = [mark for _, _, mark in parts]
    room = width - len(heading)
    while named and _legend_width([parts[n] for n in named]) > room - _SHORTEST_BREAKDOWN:
        named.pop()
    cells = room - _legend_width([parts[n] for n in named])
    cells = max(_SHORTEST_BREAKDOWN, min(_LONGEST_BREAKDOWN, cells))
    bar = stacked_bar([share for _, share, _ in parts], marks, cells)
    legend = (
        run for n in sorted(named) for run in (("  ", PLAIN), marks[n], (f" {parts[n][0]}", PLAIN))
    )
    return ((heading, MUTED), *bar, *legend)


def _gap_rows(
    snapshot: Snapshot, gaps_here: Sequence[Gap], width: int, height: int
) -> list[TextRow]:
    """Return the longest pause at the cursor in words, or else of the whole run."""
    heading = _HERE if gaps_here else _LONGEST
    longest = longest_gaps(gaps_here or snapshot.gaps, 1)
    texts = [gap_of_session(gap, snapshot, brief=True) for gap in longest]
    lines = [line for text in texts for line in wrapped(text, width - len(heading), height)]
    return beside(heading, lines)
