"""The controls of a replay: the line that says where it is, and the keys."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from textual.binding import Binding

from dlmon.figures import units
from dlmon.figures.session.phases import reading_text
from dlmon.figures.session.playback import HOW_TO_SAY, read_moment, speed_text
from dlmon.session.marks import MarkKind
from dlmon.session.replay import SEEKING_S
from dlmon.session.source import SPEEDS, Player
from tui.drawing.time_axis import ZOOM_NOTE_S
from tui.screens.base import BaseScreen, hidden
from tui.screens.form import Field, FormScreen
from tui.widgets.lines import (
    APART,
    HIGH,
    MUTED,
    PLAIN,
    STRONG,
    OneLine,
    TextRow,
    bar_on_track,
    joined,
    row_width,
    shows,
)
from tui.widgets.text_field import TextField

FAST_REFRESH_S = 0.25
# A seek that takes less than this shows no progress.
BRIEF_S = 0.2
_MARK = Binding.Group("To mark", compact=True)
_SPEED = Binding.Group("Speed", compact=True)

# With priority, so that the keys after ":" go into its field.
PLAYBACK_KEYS = [
    replace(binding, priority=True)
    for binding in (
        Binding("space", "pause", "Pause", tooltip="Pause the replay, or go on with it"),
        Binding(
            "left_square_bracket",
            "change_speed(-1)",
            "Slower",
            key_display="[",
            tooltip=f"Play slower, down to {SPEEDS[0]:g} times",
            group=_SPEED,
        ),
        Binding(
            "right_square_bracket",
            "change_speed(1)",
            "Faster",
            key_display="]",
            tooltip=f"Play faster, up to {SPEEDS[-1]:g} times",
            group=_SPEED,
        ),
        Binding(
            "n",
            "seek_mark(1)",
            "Next mark",
            tooltip="Go to the next epoch, stall, throttling or notice",
            group=_MARK,
        ),
        Binding(
            "N",
            "seek_mark(-1)",
            "Previous mark",
            tooltip="Go to the previous epoch, stall, throttling or notice",
            group=_MARK,
        ),
        Binding("colon", "seek", "Go to", key_display=":", tooltip="Go to a time, such as 12m30s"),
        hidden("home", "seek_start", "Go to start", "Replay from the start"),
        hidden("end", "seek_end", "Go to end", "Show how the session ended"),
    )
]


_LONGEST_BAR, _SHORTEST_BAR, _STATE_CELLS = 100, 8, len("replay paused")
_TICKS = {MarkKind.EPOCH: ("│", PLAIN), MarkKind.STALL: ("!", HIGH)}
"""The ticks of the slider; a stall hides the end of an epoch."""

PLAYBACK_HELP = Path(__file__).with_name("playback.md")


class PlaybackLine(OneLine):
    """One row; `show` takes the player."""

    def rows(self, width: int, height: int, player: Player, note: str) -> list[TextRow]:
        note = note or reading_text(player.ahead_share)
        end: TextRow = ((note, MUTED),) if note else ()
        start = _position(player, width - row_width(end) - (APART if end else 0))
        if row_width(start) + row_width(end) + APART > width:
            return [start]
        return [joined(start, end, width)]

    show = shows(rows)


def _position(player: Player, room: int) -> TextRow:
    speed = speed_text(player.speed)
    state = f"replay {speed}" if player.is_playing else f"paused, {speed}"
    state = "replay ended" if player.is_over else state
    position_ns, length_ns = player.now() - player.start_ns, player.end_ns - player.start_ns
    at, end = (units.clock(ns / 1e9) for ns in (position_ns, length_ns))
    end += " so far" if player.is_growing else ""
    cells = room - max(_STATE_CELLS, len(state)) - len(at) - len(end) - 3
    share = position_ns / length_ns if length_ns > 0 else 0.0
    bar = bar_on_track(share, max(_SHORTEST_BAR, min(_LONGEST_BAR, cells)))
    return (
        (f"{state:<{_STATE_CELLS}}", STRONG),
        (f" {at} ", PLAIN),
        *_with_ticks(bar, player, share),
        (f" {end}", PLAIN),
    )


def _with_ticks(bar: TextRow, player: Player, share: float) -> TextRow:
    """Draw the position, the ends of epochs and the stalls, unless they would fill the bar."""
    cells = [(character, style) for text, style in bar for character in text]
    length_ns = max(1, player.end_ns - player.start_ns)
    for kind, tick in _TICKS.items():
        times = [mark.t for mark in player.marks if mark.kind == kind]
        if len(times) <= len(cells) // 2:
            for t in times:
                cells[min((t - player.start_ns) * len(cells) // length_ns, len(cells) - 1)] = tick
    if cells:
        cells[min(int(share * len(cells)), len(cells) - 1)] = ("●", STRONG)
    return tuple(cells)


class SeekScreen(FormScreen[float]):
    """One field; answers with the seconds since the session began, or None."""

    SUBMIT = "Go to"

    def __init__(self, length_s: float) -> None:
        title = f"Go to a time from {units.clock(0)} to {units.clock(length_s)}"
        super().__init__(title, (Field("moment", "Time", units.clock(length_s / 2)),))

    def on_mount(self) -> None:
        self.set_focus(self.query_one(TextField))

    def read(
        self, typed: dict[str, str], submitted: bool
    ) -> tuple[float | None, str, Mapping[str, str]]:
        try:
            return read_moment(typed["moment"]), HOW_TO_SAY, {}
        except ValueError:
            return None, HOW_TO_SAY, {"moment": "that is no time"} if submitted else {}


class PlaybackControls(BaseScreen):
    """A screen that plays a recording, with a line for its position and speed."""

    _note = ""
    _sought_s = 0.0
    _is_playing = True

    @property
    def player(self) -> Player:
        raise NotImplementedError

    def go_to_mark(self, forward: bool) -> str | None:
        """Go to the next mark, or to the one before; return its text, or None without one."""
        raise NotImplementedError

    def show_moment(self) -> None:
        raise NotImplementedError

    def name_of_action(self, action: str) -> str:
        if action == "pause" and not self._is_playing:
            return "Play"
        return super().name_of_action(action)

    @property
    def is_brief_seek(self) -> bool:
        """Return whether the player is still reading for a seek of just now."""
        return self.player.read_share is not None and time.monotonic() < self._sought_s + BRIEF_S

    def paint_playback(self) -> None:
        player = self.player
        plays = player.is_playing and not player.is_over
        if plays != self._is_playing:
            self._is_playing = plays
            self.refresh_bindings()
        # Once the player has moved on from a mark, its note goes.
        is_outdated = player.is_playing and time.monotonic() > self._sought_s + ZOOM_NOTE_S
        self.query_one(PlaybackLine).show(player, "" if is_outdated else self._note)

    def action_pause(self) -> None:
        if self.player.is_playing and not self.player.is_over:
            self.player.stop_clock()
        else:
            self.player.play()
        self._show("")

    def action_change_speed(self, steps: int) -> None:
        self.player.change_speed(steps)
        if not self.player.is_playing:
            self.player.play()
        self._show("")

    def action_seek_mark(self, direction: int) -> None:
        forward = direction > 0
        text = self.go_to_mark(forward)
        if text is None:
            side = "after" if forward else "before"
            unread = forward and self.player.ahead_share is not None
            text = f"no mark {side} this one{' was found yet' if unread else ''}"
        self._show(text)

    def action_seek_start(self) -> None:
        self.player.seek(self.player.start_ns, SEEKING_S)
        self._show("")

    def action_seek_end(self) -> None:
        self.player.seek(self.player.end_ns, SEEKING_S)
        self._show("")

    async def action_seek(self) -> None:
        """Ask for a time; awaited, so that no key is handled before the form is there."""
        length_s = max(0, self.player.end_ns - self.player.start_ns) / 1e9
        await self.app.push_screen(SeekScreen(length_s), self._seek_s)

    def _seek_s(self, seconds: float | None) -> None:
        if seconds is not None:
            self.player.seek(self.player.start_ns + int(seconds * 1e9), SEEKING_S)
            self._show("")

    def _show(self, note: str) -> None:
        self._note = note
        self._sought_s = time.monotonic()
        self.show_moment()
