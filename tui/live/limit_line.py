"""What limits the run, the figures that show it, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dlmon.session.evidence import MIN_SAMPLES, Limit, LimitKind
from dlmon.session.session import STEADY_TAKES
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import MUTED, PLAIN, Lines, cut, row_width
from tui.widgets.rows import TextRow

_HEADING, _TRY = "What limits it  ", "Try             "
_NAMED = 2
"""So many figures stand beside the headline; what more there are is for the second row."""

KIND_STYLES: dict[LimitKind, tuple[str, ...]] = {
    kind: (f"limit--{name}",)
    for kind, name in (
        (LimitKind.DATA, "data"),
        (LimitKind.GPU, "gpu"),
        (LimitKind.CPU, "cpu"),
        (LimitKind.MEMORY, "memory"),
        (LimitKind.DISK, "disk"),
        (LimitKind.OTHERS, "others"),
        (LimitKind.UNCLEAR, "unclear"),
    )
}

HELP: tuple[tuple[str, str], ...] = (
    (
        "What limits it",
        "What was measured over the last half minute of steady training: the CPU time of this run "
        "apart from that of other programs, held against what the run may use; a GPU that is busy "
        "or slowed down; a container's limit, memory, disk, and what the host of a virtual machine "
        "took. The strongest is the headline, with the figures that show it; where none holds, it "
        "isn't clear, and the figures alone are given.",
    ),
    (
        "Try",
        "A next step for which these figures speak, such as more loader workers where the run "
        "waits for data while cores are idle. That it helps is not certain: compare the runs.",
    ),
)


class LimitLine(Lines):
    """What limits the run and what to try, in two rows; in one where there is but one.

    Its height is the style sheet's, so that nothing below it ever moves.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {name for (name,) in KIND_STYLES.values()}

    DEFAULT_CSS = """
    LimitLine {
        height: 2;
        padding: 0 1;
        & > .limit--data, & > .limit--disk { color: $text-accent; text-style: bold; }
        & > .limit--gpu { color: $text-success; text-style: bold; }
        & > .limit--cpu { color: $text-primary; text-style: bold; }
        & > .limit--memory { color: $text-secondary; text-style: bold; }
        & > .limit--others { color: $text-warning; text-style: bold; }
        & > .limit--unclear { color: $text-muted; text-style: bold; }
    }
    """

    _snapshot: Snapshot | None = None
    _unfinished = True

    def show(self, snapshot: Snapshot, running: bool = True) -> None:
        """Show what limits a session, or what that waits for."""
        self._snapshot, self._unfinished = snapshot, running
        self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        if self._snapshot is None:
            return []
        limit = self._snapshot.limit
        kind = LimitKind.UNCLEAR if limit is None else limit.kind
        mark: TextRow = ((f"{self.glyphs.thumb} ", KIND_STYLES[kind]),)
        room = width - row_width(mark)
        if limit is None:
            rows = _waiting(self._snapshot, self._unfinished, height)
        elif height < 2:
            rows = [_in_one_row(limit, room)]
        else:
            rows = _in_two_rows(limit, room)
        return [cut((*mark, *row), width, self.ellipsis) for row in rows]


def _in_two_rows(limit: Limit, room: int) -> list[TextRow]:
    """Return the headline with its figures, and what to try; else what more was measured."""
    figures = limit.figures
    first: TextRow = ((_HEADING, MUTED), *_headline(limit))
    told = _NAMED
    while told > 1 and row_width((*first, _joined(figures[:told]))) > room:
        told -= 1
    first = (*first, _joined(figures[:told]))
    if limit.advice:
        return [first, ((_TRY, MUTED), (limit.advice, PLAIN))]
    blank = " " * len(_TRY)
    # What has no room any more is left out whole.
    more = list(figures[told:])
    while len(more) > 1 and len(blank) + len(", ".join(more)) > room:
        more.pop()
    if more:
        return [first, ((blank, MUTED), (", ".join(more), PLAIN))]
    if limit.kind is LimitKind.UNCLEAR:
        return [first]
    return [first, ((_TRY, MUTED), ("no reading speaks for a next step", MUTED))]


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


def _waiting(snapshot: Snapshot, running: bool, height: int) -> list[TextRow]:
    """Say what the answer waits for, or why there is none."""
    if snapshot.samples_per_second is not None:
        told = "too few readings of the machine in steady training"
        more = f"it takes {MIN_SAMPLES}"
    elif running and snapshot.result is None:
        told, more = "shown once training is steady", STEADY_TAKES
    else:
        told, more = "the run was never steady for long enough", STEADY_TAKES
    first: TextRow = ((_HEADING, MUTED), (told, MUTED))
    return [first, ((" " * len(_HEADING), MUTED), (more, MUTED))][:height]
