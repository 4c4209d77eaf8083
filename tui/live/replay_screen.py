"""The live screen of a recorded session that is played: its clock is the person's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.session.marks import Mark
from dlmon.session.replay import SEEKING_S, SPEEDS, ReplaySource
from dlmon.session.source import SLICE_S
from tui.formatting.comparison import epoch_word
from tui.live import transport_line
from tui.live.screen import LiveScreen
from tui.live.seek_screen import SeekScreen
from tui.live.transport_line import Transport, TransportLine, mark_text
from tui.screens.base import BaseScreen, hidden

FAST_REFRESH_S = 0.25
# A person doesn't wait for less than this, so a seek is not shown as reading.
BRIEF_S = 0.2
_TRANSPORT = Binding.Group("Mark", compact=True)
_SPEED = Binding.Group("Speed", compact=True)
_OF_A_RUN = {"stop", "detach", "again", "stop_and_again"}


# Of the live screen's keys, one is another here, and what a run alone can do is none.
_MOVED = {"processes", "go_to_start", "go_to_end"}
_KEPT = [
    binding
    for binding in Binding.make_bindings(LiveScreen.BINDINGS)
    if binding.action not in _OF_A_RUN | _MOVED
]

# With priority, each is done before the next one: what is typed after : is part of the time.
_KEYS = [
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
            group=_TRANSPORT,
        ),
        Binding(
            "p",
            "seek_mark(-1)",
            "Previous mark",
            tooltip="Go to the previous epoch, stall, throttling or notice",
            group=_TRANSPORT,
        ),
        Binding("colon", "seek", "Go to", key_display=":", tooltip="Go to a time, such as 12m30s"),
        hidden("home", "seek_start", "Go to start", "Replay from the start"),
        hidden("end", "seek_end", "Go to end", "Show how the session ended"),
    )
]


class ReplayScreen(LiveScreen, inherit_bindings=False):
    """A session as it was at any moment.

    Args:
        source: what is played.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *_KEYS,
        Binding("f5", "processes", "Processes", tooltip="Show what ran on the machine"),
        *_KEPT,
    ]
    TOPICS: ClassVar[tuple[tuple[str, str], ...]] = (*transport_line.HELP, *LiveScreen.TOPICS)

    class Left(BaseScreen.Left):
        """The person wants to leave; nothing runs on."""

    _source: ReplaySource

    def __init__(
        self, source: ReplaySource, read_name: Callable[[], str | None] = lambda: None
    ) -> None:
        """Take the session and what it is called; it is not played before the screen is shown."""
        super().__init__(source, read_name=read_name)
        self.set_class(source.session.header.is_machine_recording, "-machine-alone")
        self._note = ""
        self._sought_s = 0.0

    @property
    def source(self) -> ReplaySource:
        """What is played."""
        return self._source

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield TransportLine()

    def on_mount(self) -> None:
        """Go through the log behind the screen, and paint more often while it plays fast."""
        self.set_interval(FAST_REFRESH_S, self._on_timer)
        self.run_worker(self._read_ahead())

    def on_unmount(self) -> None:
        """Let go of the log."""
        self._source.close()

    async def _read_ahead(self) -> None:
        """Go through what is recorded for its marks, as long as it may grow."""
        while not self._left:
            self._source.read_ahead(SLICE_S)
            if self._source.ahead_share is None:
                break
            await self._source.pause()

    def tick(self) -> None:
        """Read on where the log grows, then as ever."""
        if not self._left and self._source.ahead_share is None:
            self._source.read_ahead(SLICE_S)
        super().tick()

    def _session_ended(self) -> None:
        """The end was reached, which is nothing that anybody waited for."""
        self.refresh_bindings()

    def paint(self) -> None:
        """Show the session as it was, and where that is; nothing new while a short seek lasts."""
        if self._source.read_share is not None and time.monotonic() < self._sought_s + BRIEF_S:
            return
        super().paint()
        if self._left or not self.is_mounted:
            return
        source = self._source
        self.query_one(TransportLine).show(
            Transport(
                position_s=(source.now() - source.start_ns) / 1e9,
                length_s=(source.end_ns - source.start_ns) / 1e9,
                speed=source.speed,
                is_playing=source.is_playing,
                is_growing=source.is_growing,
                note=self._note,
                ahead_share=source.ahead_share,
            )
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Home and End to the log where that has the screen."""
        if action in ("seek_start", "seek_end"):
            return not self._log_is_open
        return super().check_action(action, parameters)

    def action_pause(self) -> None:
        """Pause the replay, or go on with it."""
        if self._source.is_playing:
            self._source.stop_clock()
        else:
            self._source.play()
        self._show_moment("")

    def action_change_speed(self, steps: int) -> None:
        """Play faster or slower."""
        self._source.change_speed(steps)
        if not self._source.is_playing:
            self._source.play()
        self._show_moment("")

    def action_seek_mark(self, direction: int) -> None:
        """Go to the next mark, or to the one before."""
        mark: Mark | None = self._source.seek_mark(direction > 0, SEEKING_S)
        if mark is not None:
            self._show_moment(mark_text(mark, epoch_word(self._source.session.header)))
            return
        where = "after" if direction > 0 else "before"
        unread = self._source.ahead_share is not None and direction > 0
        self._show_moment(f"no mark {where} this one{' was found yet' if unread else ''}")

    def action_seek_start(self) -> None:
        """Show where the session began."""
        self._source.seek(self._source.start_ns, SEEKING_S)
        self._show_moment("")

    def action_seek_end(self) -> None:
        """Show how the session ended."""
        self._source.seek(self._source.end_ns, SEEKING_S)
        self._show_moment("")

    async def action_seek(self) -> None:
        """Ask for a time, and let no other key come before that is done."""
        await self.app.push_screen(SeekScreen(), self._seek_s)

    def _seek_s(self, seconds: float | None) -> None:
        if seconds is not None:
            self._source.seek(self._source.start_ns + int(seconds * 1e9), SEEKING_S)
            self._show_moment("")

    def _show_moment(self, note: str) -> None:
        self._note = note
        self._sought_s = time.monotonic()
        self.window = self.window.followed(self.run, self.plot_columns)
        self.refresh_bindings()
        self.tick()
