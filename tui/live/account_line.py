"""Where the time of a session went, as one bar, and the longest time without a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from dlmon.figures.account import (
    PartRow,
    account_rows,
    all_other,
    briefly,
    gap_of_session,
    longest_gaps,
    named_parts,
    names_of,
    places_of,
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
_STYLES = (BAR, BRIGHT, PLAIN, TRACK)
"""Of the steps, of two other parts, and of the rest; each has a character of its own, too."""


class AccountLine(GrowingLines):
    """A bar of what the time went into; below it the longest pause, or that at the cursor.

    In a single row a pause at the cursor takes the place of the bar.
    """

    DEFAULT_CSS = "AccountLine { height: auto; padding: 0 2; }"
    MOST_ROWS: ClassVar[int] = 3

    _places: Mapping[AccountPart, int] = MappingProxyType({})
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
        rows = briefly(account_rows(snapshot.account, names_of(snapshot)))
        named = named_parts(rows, _LARGEST)
        self._places = places_of(named, self._places)
        rest = all_other(rows, named)
        words: TextRow = ()
        for with_seconds in (snapshot.result is not None, False):
            words = self._words(named, rest, with_seconds)
            room = width - len(_TIME) - row_width(words)
            if room >= _SHORTEST_BAR:
                break
        cells = max(_SHORTEST_BAR, min(_LONGEST_BAR, room))
        return ((_TIME, MUTED), *self._bar(rows, named, rest, cells), *words)

    def _words(self, named: Sequence[PartRow], rest: PartRow | None, with_seconds: bool) -> TextRow:
        row: TextRow = ()
        for part in (*named, *([] if rest is None else [rest])):
            seconds = f" {part.time}," if with_seconds else ""
            words = f" {part.name}{seconds} {part.percent} %"
            row = (*row, ("  ", PLAIN), self._look(part), (words, PLAIN))
        return row

    def _look(self, part: PartRow) -> TextRun:
        """Return the character of a part, with its style."""
        place = self._places.get(part.part, -1)
        return "█▓▒░"[place], _STYLES[place]

    def _bar(
        self,
        rows: Sequence[PartRow],
        named: Sequence[PartRow],
        rest: PartRow | None,
        cells: int,
    ) -> TextRow:
        """Return the parts in the order of a run, each as long as its share."""
        drawn: list[TextRun] = []
        done, end = 0, 0.0
        for row in rows:
            end += row.share
            look = self._look(row) if row in named else self._look(rest) if rest else None
            if look is None:
                # Next to nothing, without a name: what follows has its cell.
                continue
            glyph, style = look
            until = round(end * cells)
            drawn.append((glyph * (until - done), style))
            done = until
        if drawn:
            glyphs, style = drawn[-1]
            drawn[-1] = (glyphs + glyphs[-1:] * (cells - done), style)
        return tuple(run for run in drawn if run[0])


def _gap_rows(snapshot: Snapshot, here: Sequence[Gap], width: int, height: int) -> list[TextRow]:
    """Return the longest pause in words: of those here, where there are any."""
    heading = _HERE if here else _LONGEST
    longest = longest_gaps(here or snapshot.gaps, 1)
    texts = [gap_of_session(gap, snapshot, brief=True) for gap in longest]
    lines = [line for text in texts for line in wrapped(text, width - len(heading), height)]
    return beside(heading, lines)
