"""Where the time of a session went, as one bar, and the longest time without a batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import ClassVar

from dlmon.figures import units
from dlmon.figures.account import (
    PartRow,
    account_rows,
    gap_of_session,
    in_short,
    longest_gaps,
    names_of,
)
from dlmon.records import AccountPart
from dlmon.session.gaps import Gap
from dlmon.session.snapshot import Snapshot
from tui.widgets.lines import (
    BAR,
    BRIGHT,
    MUTED,
    PLAIN,
    TRACK,
    GrowingLines,
    beside,
    row_width,
    shows,
    wrapped,
)
from tui.widgets.rows import TextRow, TextRun

_TIME, _LONGEST, _HERE = "Time  ", "Longest pause  ", "Pause here  "
_LARGEST = 2
"""So many are named beside the steps."""
_LONGEST_BAR, _SHORTEST_BAR = 40, 10
_LOOKS = {AccountPart.TRAINING: ("█", BAR), AccountPart.UNKNOWN: ("░", TRACK)}
_OTHERS = (("▓", BRIGHT), ("▒", PLAIN))
"""The characters of the steps, of the rest, and of two other parts, each with its style."""


class AccountLine(GrowingLines):
    """A bar of what the time went into; below it the longest pause, or that at the cursor.

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
        pauses = _gap_rows(snapshot, here, width, max(1, height - 1))
        if height == 1 and here:
            return pauses
        return [self._bar_row(snapshot, width), *pauses]

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
            if room >= _SHORTEST_BAR:
                break
        cells = max(_SHORTEST_BAR, min(_LONGEST_BAR, room))
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
