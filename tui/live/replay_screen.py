"""The live screen of the replay of a recorded session."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dlmon.comparison.references import Reference
from dlmon.figures.session.epoch_numbers import epoch_word
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

_RUN_ACTIONS = {"stop", "detach", "again", "stop_and_again"}
# The playback uses their keys, or binds them to other keys.
_REPLACED_ACTIONS = {"processes", "go_to_start", "go_to_end"}
_PLAYBACK_ACTIONS = {binding.action.partition("(")[0] for binding in PLAYBACK_KEYS}
_LIVE_KEYS = [
    binding
    for binding in Binding.make_bindings(LiveScreen.BINDINGS)
    if binding.action not in _REPLACED_ACTIONS
]


class ReplayScreen(LiveScreen, PlaybackControls, inherit_bindings=False):
    """A replay of a session.

    Only if it `closes`, it closes the log when it is left.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *PLAYBACK_KEYS,
        Binding("p,f5", "processes", "Processes", tooltip="Show what ran on the machine"),
        *_LIVE_KEYS,
    ]

    IS_REPLAY = True

    _source: ReplaySource

    def __init__(
        self,
        source: ReplaySource,
        read_label: Callable[[], Label] = Label,
        *,
        closes: bool = True,
        references: MutableMapping[str, Reference] | None = None,
    ) -> None:
        super().__init__(source, read_label=read_label, references=references)
        self.set_class(source.session.header.is_machine_recording, "-machine-alone")
        self._closes = closes

    @property
    def topics(self) -> tuple[tuple[str, str], ...]:
        return (*topics_of(PLAYBACK_HELP), *super().topics)

    def tooltip_of_action(self, action: str) -> str:
        if action == "leave":
            return "Leave the replay"
        return super().tooltip_of_action(action)

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
        """Show the end, read the log for its marks, and paint often enough for a fast replay."""
        if self._closes:
            self._source.seek(self._source.end_ns, SEEKING_S)
        self.set_interval(FAST_REFRESH_S, self._on_timer)
        self.run_worker(self._read_ahead)

    def on_unmount(self) -> None:
        if self._closes:
            self._source.close()

    async def _read_ahead(self) -> None:
        while not self._has_left:
            self._source.read_ahead(SLICE_S)
            if self._source.ahead_share is None:
                break
            await self._source.pause()

    def tick(self) -> None:
        """Read the new records of a growing log, then tick as usual."""
        if not self._has_left and self._source.ahead_share is None:
            self._source.read_ahead(SLICE_S)
        super().tick()

    def _session_ended(self) -> None:
        """Refresh the keys only: a replay leaves out the notice of a live run's end."""
        self.refresh_bindings()

    def paint(self) -> None:
        """Show the session and the playback; paint nothing during a brief seek."""
        if self.is_brief_seek:
            return
        super().paint()
        if not self._has_left and self.has_parts:
            self.paint_playback()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Home and End to the log while it is maximized, and stop or leave no run."""
        if action in _RUN_ACTIONS or (action in _PLAYBACK_ACTIONS and self.filter_field.has_focus):
            return False
        if action == "seek_mark" and self.filter_field.display:
            # n and N go from match to match.
            return False
        if action in ("seek_start", "seek_end"):
            return not self._log_is_open
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str | None:
        if action in _RUN_ACTIONS:
            return "this is a replay: nothing runs that could be stopped or left"
        return super().why_not(action)

    def go_to_mark(self, forward: bool) -> str | None:
        mark = self._source.seek_mark(forward, SEEKING_S)
        return None if mark is None else mark_text(mark, epoch_word(self._source.session.header))

    def show_moment(self) -> None:
        self.window = self.window.followed(self.run, self.plot_columns)
        self.refresh_bindings()
        self.tick()
