"""Where a replayed session is, how fast it plays, and what was gone to."""

from __future__ import annotations

import re
from pathlib import Path

from dlmon.figures import units
from dlmon.figures.phases import reading_text
from dlmon.session.marks import Mark, MarkKind
from dlmon.session.source import Player
from tui.widgets.lines import (
    APART,
    MUTED,
    PLAIN,
    STRONG,
    Lines,
    bar_on_track,
    joined,
    row_width,
    shows,
)
from tui.widgets.rows import TextRow

_LONGEST_BAR, _SHORTEST_BAR = 40, 8

HELP_PAGE = Path(__file__).with_name("transport.md")

_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2}(?:\.\d*)?)")
_UNITS = re.compile(r"(?:(\d+(?:\.\d*)?)h)?(?:(\d+(?:\.\d*)?)m)?(?:(\d+(?:\.\d*)?)s?)?")
HOW_TO_SAY = "say a time such as 12m30s, 1:02:03 or 90"


def read_moment(text: str) -> float:
    """Return the seconds that 12m30s, 1h, 90 or 1:02:03 say.

    Raises:
        ValueError: it is no time; the message is a sentence.
    """
    plain = text.strip().removeprefix(":").replace(" ", "").lower()
    found = _CLOCK.fullmatch(plain) or _UNITS.fullmatch(plain)
    if found is None or not any(found.groups()) or len(plain) > 20:
        raise ValueError(HOW_TO_SAY)
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


class TransportLine(Lines):
    """One row; `show` takes what is played."""

    DEFAULT_CSS = "TransportLine { height: 1; padding: 0 1; }"

    def rows(self, width: int, height: int, player: Player, note: str) -> list[TextRow]:
        """Return where it is, and what was just done, which goes where both have no room."""
        note = note or reading_text(player.ahead_share)
        right: TextRow = ((note, MUTED),) if note else ()
        left = _left(player, width - row_width(right) - (APART if right else 0))
        if row_width(left) + row_width(right) + APART > width:
            return [left]
        return [joined(left, right, width)]

    show = shows(rows)


def _left(player: Player, room: int) -> TextRow:
    state = f"replay {speed_text(player.speed)}" if player.is_playing else "replay paused"
    state = "replay ended" if player.is_over else state
    position_ns, length_ns = player.now() - player.start_ns, player.end_ns - player.start_ns
    at, end = (units.clock(ns / 1e9) for ns in (position_ns, length_ns))
    end += " and growing" if player.is_growing else ""
    cells = room - len(state) - len(at) - len(end) - 5
    share = position_ns / length_ns if length_ns > 0 else 0.0
    done = bar_on_track(share, max(_SHORTEST_BAR, min(_LONGEST_BAR, cells)))
    return ((f"{state:<13}", STRONG), (f" {at} ", PLAIN), *done, (f" {end}", PLAIN))


def speed_text(speed: float) -> str:
    """Write a speed as 0.25×, 10×."""
    return f"{speed:g}×"


def mark_text(mark: Mark, epoch_word: str = "epoch") -> str:
    """Say in a few words what a mark stands for."""
    if mark.kind == MarkKind.EPOCH:
        return f"end of {epoch_word} {int(mark.number or 0) + 1}"
    if mark.kind == MarkKind.STALL:
        return f"a stall of {mark.number or 0:.1f} s"
    if mark.kind == MarkKind.BETWEEN_STEPS:
        return f"{mark.number or 0:.1f} s between steps, as they come regularly"
    if mark.kind == MarkKind.THROTTLING:
        what = "the CPU" if mark.number is None else f"GPU {int(mark.number)}"
        return f"{what} is throttled: {mark.text}"
    return mark.text
