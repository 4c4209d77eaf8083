"""What stands in the border of the throughput's chart, in the room that there is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.glyphs import Glyphs
from dlmon.session.snapshot import Snapshot

NAME = "Throughput"
_LEAST_LINE = 3
"""What stands between the name and the figure, with a blank on either side."""
_TO_SPARE = 2
"""What was left out comes back once so many cells are free, lest it comes and goes."""


class ThroughputTitle:
    """The throughput now, with its band and the stalls where all that has room.

    The name and the unit stay; as room gets short, the band goes first, then the stalls.
    """

    def __init__(self) -> None:
        """Leave nothing out."""
        self._room, self._left_out = 0, 0

    def now(self, snapshot: Snapshot, room: int, glyphs: Glyphs) -> tuple[str, str]:
        """Return the name and the figure; what was left out stays so where digits come and go."""
        if room != self._room:
            self._room, self._left_out = room, 0
        choices = _choices(snapshot, glyphs)
        last = len(choices) - 1
        free = room - len(NAME) - _LEAST_LINE
        left_out = next(
            (
                number
                for number, text in enumerate(choices)
                if cell_len(text) + _TO_SPARE * (number < self._left_out) <= free
            ),
            last,
        )
        self._left_out = left_out
        return _named(choices[left_out], room)


def at_cursor(label: str, figure: str, room: int) -> tuple[str, str]:
    """Return the name and the figure at an instant, without its extremes where room is short."""
    texts = [f"{label}  {text}" for text in (figure, figure.partition(" (")[0])]
    choices = [*texts, *map(_with_short_unit, texts[1:])]
    free = room - len(NAME) - _LEAST_LINE
    return _named(next((text for text in choices if cell_len(text) <= free), choices[-1]), room)


def _named(figure: str, room: int) -> tuple[str, str]:
    """Return the name and the figure; the figure alone where both have no room."""
    return (NAME if len(NAME) + cell_len(figure) + _LEAST_LINE <= room else ""), figure


def _choices(snapshot: Snapshot, glyphs: Glyphs) -> Sequence[str]:
    """Return what may be shown, the most first."""
    unit = units.rate_unit(snapshot.counts_steps)
    measured, now = snapshot.samples_per_second, snapshot.samples_per_second_now
    if measured is not None:
        in_full = units.throughput(measured, glyphs, unit)
        short = units.throughput(measured, glyphs, unit, with_band=False)
    elif now is not None:
        in_full = short = f"{units.rate(now)} {unit}"
    else:
        in_full = short = ""
    stalls = f"  {units.stalls(snapshot.stalls)}" if snapshot.stalls else ""
    choices = [f"{in_full}{stalls}", f"{short}{stalls}", in_full, short, _with_short_unit(short)]
    return [text.strip() for text in choices]


def _with_short_unit(figure: str) -> str:
    return figure.replace(" samples/s", " /s").replace(" steps/s", " /s")
