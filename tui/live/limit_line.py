"""What limits the run, the figures that show it, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.geometry import Size

from dlmon.records import FailureKind, Result, Status
from dlmon.session.limits.evidence import MIN_SAMPLES, Limit, LimitKind
from dlmon.session.session import (
    NOTHING_SEEN,
    STEADY_TAKES,
    TOO_SHORT,
    WATCHED,
    WATCHED_TOO,
)
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import MUTED, PLAIN, Lines, cut, row_width, wrapped
from tui.widgets.rows import TextRow

FAILED: tuple[str, ...] = ("limit--failed",)
_MOST_FAILURE_ROWS = 4

_HEADING = "Failed  "
_NOTHING_TO_READ = "EOFError: EOF when reading a line"
"""What Python's input() raises at the end of stdin, which is there at once below a screen."""
_READS = "exec --plain, if the script is to read what you type"
_SAYS_WHY = {FailureKind.EXCEPTION, FailureKind.REFUSED, FailureKind.NOT_STARTED}


class _More(NamedTuple):
    """What stands below the reason, and what stands behind it where it has no row of its own."""

    name: str = ""
    text: str = ""
    behind: str = ""


def failure_rows(
    snapshot: Snapshot, result: Result, room: int, height: int, ellipsis: str
) -> list[TextRow]:
    """Return the reason, and what to try or was printed last: behind it where rows are few."""
    rows, more = _reason(result, room, height, ellipsis), _more(snapshot, result)
    if not rows or not more.text:
        return rows
    if len(rows) == _MOST_FAILURE_ROWS and not _is_behind(rows, more, room):
        rows = _reason(result, room, height - 1, ellipsis)
    if len(rows) < height:
        return [*rows, ((more.name.ljust(len(_HEADING)), MUTED), (more.text, PLAIN))]
    if _is_behind(rows, more, room):
        return [*rows[:-1], (*rows[-1], (more.behind, PLAIN))]
    return rows


def rows_needed(snapshot: Snapshot, result: Result, room: int, ellipsis: str) -> int:
    """Return how many rows show all of it; a long reason is cut at the fourth."""
    rows, more = _reason(result, room, _MOST_FAILURE_ROWS, ellipsis), _more(snapshot, result)
    own_row = bool(rows) and not _is_behind(rows, more, room)
    return min(_MOST_FAILURE_ROWS, max(1, len(rows)) + own_row)


def _is_behind(rows: list[TextRow], more: _More, room: int) -> bool:
    return row_width((*rows[-1], (more.behind, PLAIN))) <= room


def _reason(result: Result, room: int, height: int, ellipsis: str) -> list[TextRow]:
    error = (result.error or "").strip() or "no reason was recorded"
    lines = wrapped(error, room - len(_HEADING), height, ellipsis)
    headings = [(_HEADING, FAILED), *[(" " * len(_HEADING), MUTED)] * (len(lines) - 1)]
    return [(heading, (line, PLAIN)) for heading, line in zip(headings, lines, strict=False)]


def _more(snapshot: Snapshot, result: Result) -> _More:
    """Return what to try; of a failure that is but an exit code, what was printed last."""
    if result.failure == FailureKind.OUT_OF_MEMORY:
        batch_size = snapshot.model.batch_size if snapshot.model is not None else None
        advice = "use a smaller batch"
        return _More("Try", advice, f"  Try: {advice}") if (batch_size or 0) > 1 else _More()
    if snapshot.header.is_script and (result.error or "").endswith(_NOTHING_TO_READ):
        return _More("Try", _READS, f"  Try: {_READS}")
    if result.failure in _SAYS_WHY:
        return _More()
    last = next((line.text.strip() for line in reversed(snapshot.output) if line.text.strip()), "")
    # A script's own exception is in the reason already.
    if not last or last in (result.error or ""):
        return _More()
    return _More("Output", last, f"  Output: {last}")


WAITING = "waiting for the first batch"
_NAMED = 2
"""So many figures stand beside the headline; what more there are is for the second row."""
_MARK_WIDTH = 2
_MOST_ROWS = 4

KIND_STYLES: dict[LimitKind, tuple[str, ...]] = {
    kind: (f"limit--{name}",)
    for kind, name in (
        (LimitKind.LOSS, "loss"),
        (LimitKind.DATA, "data"),
        (LimitKind.GPU, "gpu"),
        (LimitKind.CPU, "cpu"),
        (LimitKind.MEMORY, "memory"),
        (LimitKind.DISK, "disk"),
        (LimitKind.OTHERS, "others"),
        (LimitKind.WAITING, "waiting"),
        (LimitKind.UNCLEAR, "unclear"),
    )
}

HELP: tuple[tuple[str, str], ...] = (
    (
        "What limits it",
        "What was measured over the last half minute of steady training: the CPU time of this run "
        "apart from that of other programs, held against what the run may use; a GPU that is busy "
        "or slowed down; a container's limit, memory, disk, and what the host of a virtual machine "
        "took. Other programs are named where this run waits for the CPU that they take, a disk, "
        "or memory, where it may be what waits. What took the largest share of the time is the "
        "headline, with the figures that show it; where nothing holds, it isn't clear, and the "
        "figures alone are given. It is looked at every five seconds, and what has held goes on "
        "until it clearly doesn't, twice in a row. A loss that is NaN, or infinite, comes before "
        "all that, as does a GPU that gives no readings any more. Before training is steady, it "
        "says what holds up the start: other programs, a container's limit, short memory, the "
        "host. Of a run that failed it says why.",
    ),
    (
        "Try",
        "A next step against what the headline names, for which these figures speak, such as more "
        "loader workers where the run waits for data while cores are idle. That it helps is not "
        "certain: compare the runs.",
    ),
)


class LimitLine(Lines):
    """What limits the run and what to try, in two rows; in one where there is but one.

    Its height is the style sheet's, so that nothing below it ever moves; it grows but once, for
    why a run failed, or trained nothing.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(name for (name,) in KIND_STYLES.values()),
        *FAILED,
    }

    DEFAULT_CSS = """
    LimitLine {
        height: 2;
        padding: 0 1;
        &.-whole { height: auto; }
        & > .limit--data, & > .limit--disk { color: $text-accent; text-style: bold; }
        & > .limit--gpu { color: $text-success; text-style: bold; }
        & > .limit--cpu { color: $text-primary; text-style: bold; }
        & > .limit--memory { color: $text-secondary; text-style: bold; }
        & > .limit--others, & > .limit--waiting { color: $text-warning; text-style: bold; }
        & > .limit--unclear { color: $text-muted; text-style: bold; }
        & > .limit--failed, & > .limit--loss { color: $text-error; text-style: bold; }
    }
    """

    _snapshot: Snapshot | None = None
    _unfinished = True

    def show(self, snapshot: Snapshot, running: bool = True) -> None:
        """Show what limits a session, or what that waits for."""
        self._snapshot, self._unfinished = snapshot, running
        trained_nothing = _why_nothing_trained(snapshot) is not None
        self.set_class(trained_nothing or _has_failed(snapshot), "-whole")
        self.redraw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        snapshot = self._snapshot
        if snapshot is None or snapshot.result is None:
            return 1
        room = width - _MARK_WIDTH
        why = None if _has_failed(snapshot) else _why_nothing_trained(snapshot)
        if why is not None:
            return len(wrapped(why, room - len(_heading(ended=True)), _MOST_ROWS, self.ellipsis))
        return rows_needed(snapshot, snapshot.result, room, self.ellipsis)

    def draw(self, width: int, height: int) -> list[TextRow]:
        snapshot = self._snapshot
        if snapshot is None:
            return []
        result, limit = snapshot.result, snapshot.limit
        kind = LimitKind.UNCLEAR if limit is None else limit.kind
        has_failed = _has_failed(snapshot)
        style = FAILED if has_failed else KIND_STYLES[kind]
        mark: TextRow = ((f"{self.glyphs.thumb} ", style),)
        room = width - _MARK_WIDTH
        if result is not None and has_failed:
            rows = failure_rows(snapshot, result, room, height, self.ellipsis)
        elif limit is None:
            over = not self._unfinished or result is not None
            if snapshot.header.is_script and snapshot.model is None:
                rows = _nothing_seen(snapshot, over, room, height, self.ellipsis)
            else:
                rows = _waiting(snapshot, over)
        elif height < 2:
            rows = [_in_one_row(limit, room)]
        elif snapshot.header.is_script and snapshot.model is None and result is None:
            # Who waits for a script to train has to know what can be seen of it.
            watched = _nothing_seen(snapshot, False, room, height, self.ellipsis)[-1]
            rows = [_in_two_rows(limit, room)[0], watched]
        else:
            rows = _in_two_rows(limit, room)
        return [cut((*mark, *row), width, self.ellipsis) for row in rows[:height]]


def _has_failed(snapshot: Snapshot) -> bool:
    return snapshot.result is not None and snapshot.result.status == Status.FAILED


def _why_nothing_trained(snapshot: Snapshot) -> str | None:
    """Return why no training was seen in a script that is over; None where there was some."""
    if snapshot.result is None or not snapshot.header.is_script or snapshot.model is not None:
        return None
    return snapshot.result.why.get("samples_per_second")


def _heading(ended: bool) -> str:
    return "What limited it  " if ended else "What limits it  "


def _in_two_rows(limit: Limit, room: int) -> list[TextRow]:
    """Return the headline with its figures, and what to try; else what more was measured."""
    figures, heading = limit.figures, _heading(limit.ended)
    first: TextRow = ((heading, MUTED), *_headline(limit))
    named = _NAMED
    while named > 1 and row_width((*first, _joined(figures[:named]))) > room:
        named -= 1
    first = (*first, _joined(figures[:named]))
    try_ = ("Try".ljust(len(heading)), MUTED)
    if limit.advice:
        return [first, (try_, (limit.advice, PLAIN))]
    blank = " " * len(heading)
    # What has no room any more is left out whole.
    more = list(figures[named:])
    while len(more) > 1 and len(blank) + len(", ".join(more)) > room:
        more.pop()
    if more:
        return [first, ((blank, MUTED), (", ".join(more), PLAIN))]
    if limit.kind is LimitKind.UNCLEAR:
        return [first]
    return [first, (try_, ("no reading speaks for a next step", MUTED))]


def _in_one_row(limit: Limit, room: int) -> TextRow:
    """Return the headline with as much of the figures and of what to try as has room."""
    headline, figures = _headline(limit), limit.figures
    short = limit.advice.partition(": ")[0]
    advices = [f"  Try: {text}" for text in dict.fromkeys((limit.advice, short)) if text]
    choices = [(count, advice) for count in (2, 1) for advice in advices]
    choices += [(0, advice) for advice in advices[-1:]] + [(2, ""), (1, "")]
    row: TextRow = headline
    for count, advice in choices:
        row = (*headline, _joined(figures[:count]), (advice, PLAIN))
        if row_width(row) <= room:
            break
    return row


def _headline(limit: Limit) -> TextRow:
    text = limit.headline or ("Not clear" if limit.kind is LimitKind.UNCLEAR else limit.text)
    return ((text, KIND_STYLES[limit.kind]),)


def _joined(figures: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    return (f"  {', '.join(figures)}" if figures else "", PLAIN)


def _nothing_seen(
    snapshot: Snapshot, over: bool, room: int, height: int, ellipsis: str
) -> list[TextRow]:
    """Say that no training was seen in a script: why, once that is known, else what can be."""
    why, heading = _why_nothing_trained(snapshot), _heading(over)
    if why is not None:
        heading = heading if height > 1 else ""
        lines = wrapped(why, room - len(heading), height, ellipsis)
    else:
        whole = f"{WATCHED}, {WATCHED_TOO}"
        fits = len(heading) + len(whole) <= room
        lines = [NOTHING_SEEN if over else WAITING, whole if fits else WATCHED]
    heads = (heading, *[" " * len(heading)] * (len(lines) - 1))
    return [((head, MUTED), (line, MUTED)) for head, line in zip(heads, lines, strict=False)]


def _waiting(snapshot: Snapshot, over: bool) -> list[TextRow]:
    """Say what the answer waits for, or why there is none."""
    heading, more = _heading(over), STEADY_TAKES
    if snapshot.samples_per_second is not None:
        words = "too few readings of the machine in steady training"
        more = f"at least {MIN_SAMPLES} are needed"
    elif not over:
        words = "shown once training is steady"
    elif snapshot.batches:
        words = TOO_SHORT
    else:
        words, more = "the run ended before its first step", ""
    first: TextRow = ((heading, MUTED), (words, MUTED))
    return [first, ((" " * len(heading), MUTED), (more, MUTED))] if more else [first]
