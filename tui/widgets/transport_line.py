"""Where a replayed session is, how fast it plays, and what was gone to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dlmon.figures import units
from dlmon.figures.reading import reading_text
from dlmon.session.marks import Mark, MarkKind
from tui.drawing.plot import bar
from tui.widgets.lines import ACCENT, APART, MUTED, PLAIN, STRONG, Lines, cut, joined, row_width
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


@dataclass(frozen=True)
class Transport:
    """What the line shows.

    Attributes:
        position_s: the time that is shown, since the session began.
        length_s: how much was recorded.
        speed: how many seconds pass in one.
        is_playing: whether they pass.
        is_growing: whether more is being recorded.
        note: what was just done, such as the mark that was gone to.
        ahead_share: how much of the log was gone through for its marks; None once that is all.
    """

    position_s: float
    length_s: float
    speed: float
    is_playing: bool
    is_growing: bool = False
    note: str = ""
    ahead_share: float | None = None


class TransportLine(Lines):
    """One row; `show` takes what is played."""

    DEFAULT_CSS = "TransportLine { height: 1; padding: 0 1; }"

    _transport: Transport | None = None

    def show(self, transport: Transport) -> None:
        """Show where it is."""
        if transport != self._transport:
            self._transport = transport
            self.redraw()

    def draw(self, width: int, height: int) -> list[TextRow]:
        transport = self._transport
        if transport is None:
            return []
        right: TextRow = ((_note(transport), MUTED),) if _note(transport) else ()
        left = self._left(transport, width - row_width(right) - (APART if right else 0))
        if row_width(left) + row_width(right) + APART > width:
            return [cut(left, width)]
        return [joined(left, right, width)]

    def _left(self, transport: Transport, room: int) -> TextRow:
        state = f"replay {speed_text(transport.speed, '×')}"
        if not transport.is_playing:
            state = "replay paused"
        at, length = units.clock(transport.position_s), units.clock(transport.length_s)
        end = f"{length} and growing" if transport.is_growing else length
        fixed = len(state) + len(at) + len(end) + 5
        cells = max(_SHORTEST_BAR, min(_LONGEST_BAR, room - fixed))
        share = transport.position_s / transport.length_s if transport.length_s > 0 else 0.0
        done = bar(min(1.0, share), cells).rstrip()
        return (
            (f"{state:<13}", STRONG),
            (f" {at} ", PLAIN),
            (done, ACCENT),
            ("─" * (cells - len(done)), MUTED),
            (f" {end}", PLAIN),
        )


def speed_text(speed: float, times: str = "×") -> str:
    """Write a speed as 0.25×, 10×."""
    return f"{speed:g}{times}"


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


def _note(transport: Transport) -> str:
    return transport.note or reading_text(transport.ahead_share)
