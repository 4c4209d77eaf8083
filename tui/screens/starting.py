"""What is shown until a session can be: what is on its way, and what is known of it by now."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.screens.base import HELP, BaseScreen


class StartingScreen(BaseScreen):
    """A line that says what is on its way, for as long as that takes.

    Args:
        sentence: what is waited for.
        work: what is waited for; it puts another screen in place of this one. Whoever takes this
            one off ends it.
        exit_code: that of dlmon where a person leaves its first screen meanwhile.
        known: shows what is known of it by now.
    """

    DEFAULT_CSS = """
    StartingScreen {
        #waiting { height: 1fr; content-align: center middle; color: $text-muted; }
        .panel { height: 8; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        HELP,
        Binding("s", "stop", "Stop", tooltip="Take it out of Slurm's queue; asks first"),
        Binding("q", "leave", "Quit", tooltip="Don't wait for it"),
        Binding("escape,ctrl+c,ctrl+q", "leave", "Quit", show=False),
    ]
    HELP_PAGES = (Path(__file__).with_name("starting.md"),)

    take_out_of_queue: Callable[[], object] | None = None
    """Cancels what waits in Slurm's queue; None for what does not."""

    def __init__(
        self,
        sentence: str,
        work: Callable[[StartingScreen], Coroutine[Any, Any, None]],
        exit_code: int,
        known: Widget | None = None,
    ) -> None:
        """Begin nothing before the screen is painted."""
        super().__init__()
        self.exit_code = exit_code
        self._sentence, self._work, self._known = sentence, work, known

    def compose_parts(self) -> ComposeResult:
        if self._known is not None:
            yield self._known
        yield Static(Content(self._sentence), id="waiting")

    def on_mount(self) -> None:
        # Nothing is painted before the app's own queue is read.
        self.app.call_later(self.call_after_refresh, self._begin)

    def _begin(self) -> None:
        if self.is_attached:
            self.run_worker(partial(self._work, self))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop only what waits in a queue: all else begins at once."""
        if action == "stop":
            return self.take_out_of_queue is not None
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        from tui.screens.session_controls import OutOfQueueScreen

        self.ask(OutOfQueueScreen(), self._take_stop_answer)

    def _take_stop_answer(self, answer: str) -> None:
        if answer == "stop" and self.take_out_of_queue is not None:
            self.take_out_of_queue()

    def show_text(self, sentence: str) -> None:
        """Show how far it has come, as long as this is shown."""
        for waiting in self.query("#waiting").results(Static):
            waiting.update(Content(sentence), layout=False)


Read = TypeVar("Read")


async def read_in_thread(
    read: Callable[[Callable[[float], None]], Read], on_read: Callable[[float], None]
) -> Read:
    """Return what `read` does, in a thread.

    Args:
        read: takes a function that it calls with how much is read, 0 to 1. Where nobody waits any
            more, that function ends it by an exception.
        on_read: is called on the loop with the same.
    """
    loop, is_left = asyncio.get_running_loop(), threading.Event()

    def report(share: float) -> None:
        if is_left.is_set():
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(on_read, share)

    try:
        return await asyncio.to_thread(read, report)
    finally:
        is_left.set()
