"""The live screen of a recorded session that is played: its clock is the person's."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.references import Reference
from dlmon.figures.comparison.earlier_runs import epoch_word
from dlmon.figures.session.playback import mark_text
from dlmon.log.label import Label
from dlmon.session.replay import SEEKING_S, ReplaySource
from dlmon.session.source import SLICE_S
from tui.live.live_screen import LiveScreen
from tui.screens.base import topics_of
from tui.screens.playback import (
    FAST_REFRESH_S,
    PLAYBACK_HELP,
    PLAYBACK_KEYS,
    PlaybackControls,
    PlaybackLine,
)

_OF_A_RUN = {"stop", "detach", "again", "stop_and_again"}

# Of the live screen's keys, one is another here, and what a run alone can do is none.
_MOVED = {"processes", "go_to_start", "go_to_end"}
_KEPT = [
    binding
    for binding in Binding.make_bindings(LiveScreen.BINDINGS)
    if binding.action not in _OF_A_RUN | _MOVED
]


class ReplayScreen(LiveScreen, PlaybackControls, inherit_bindings=False):
    """A session as it was at any moment.

    Args:
        source: what is played.
        read_label: returns what it is called now, and its note.
        closes: let go of the log when the screen is left.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *PLAYBACK_KEYS,
        Binding("f5", "processes", "Processes", tooltip="Show what ran on the machine"),
        *_KEPT,
    ]

    _source: ReplaySource

    def __init__(
        self,
        source: ReplaySource,
        read_label: Callable[[], Label] = Label,
        *,
        closes: bool = True,
        references: MutableMapping[str, Reference] | None = None,
    ) -> None:
        """Take the session and what it is called; it is not played before the screen is shown."""
        super().__init__(source, read_label=read_label, references=references)
        self.set_class(source.session.header.is_machine_recording, "-machine-alone")
        self._closes = closes

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        """What `?` explains."""
        return (*topics_of(PLAYBACK_HELP), *super().topics)

    def tooltip_of_action(self, action: str) -> str:
        """Return what one of the screen's keys does, where that differs from its tooltip."""
        if action == "leave":
            return "Leave the replay"
        return super().tooltip_of_action(action)

    @property
    def source(self) -> ReplaySource:
        """What is played."""
        return self._source

    @property
    def _is_over(self) -> bool:
        return True

    @property
    def player(self) -> ReplaySource:
        return self._source

    def compose_parts(self) -> ComposeResult:
        yield from super().compose_parts()
        yield PlaybackLine()

    def on_mount(self) -> None:
        """Go through the log behind the screen, and paint more often while it plays fast."""
        self.set_interval(FAST_REFRESH_S, self._on_timer)
        self.run_worker(self._read_ahead)

    def on_unmount(self) -> None:
        """Let go of the log, unless that is another's to do."""
        if self._closes:
            self._source.close()

    async def _read_ahead(self) -> None:
        """Go through what is recorded for its marks, as long as it may grow."""
        while not self._has_left:
            self._source.read_ahead(SLICE_S)
            if self._source.ahead_share is None:
                break
            await self._source.pause()

    def tick(self) -> None:
        """Read on where the log grows, then as ever."""
        if not self._has_left and self._source.ahead_share is None:
            self._source.read_ahead(SLICE_S)
        super().tick()

    def _session_ended(self) -> None:
        """The end was reached, which is nothing that anybody waited for."""
        self.refresh_bindings()

    def paint(self) -> None:
        """Show the session as it was, and where that is; nothing new while a short seek lasts."""
        if self.is_brief_seek:
            return
        super().paint()
        if not self._has_left and self.has_parts:
            self.paint_playback()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Home and End to the log where that has the screen."""
        if action in ("seek_start", "seek_end"):
            return not self._log_is_open
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str | None:
        """Return why an action can't be done now; None where nobody needs to be told."""
        if action in _OF_A_RUN:
            return "this is a replay: nothing runs that could be stopped or left"
        return super().why_not(action)

    def go_to_mark(self, forward: bool) -> str | None:
        mark = self._source.seek_mark(forward, SEEKING_S)
        return None if mark is None else mark_text(mark, epoch_word(self._source.session.header))

    def show_moment(self) -> None:
        self.window = self.window.followed(self.run, self.plot_columns)
        self.refresh_bindings()
        self.tick()
