"""The screen that waits for a session to start or to be read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from dlmon.figures import units
from tui.screens.base import HELP, BaseScreen


class StartingScreen(BaseScreen):
    """A sentence that says what is being waited for.

    Args:
        sentence: the sentence at first.
        work: does the work in the background, then replaces this screen; closing the screen
            cancels it.
        exit_code: dlmon's exit code if the user leaves this screen and it is the first.
        details: shows the details of the session that are known already.
        clock: returns the time in seconds.
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
    """Cancels the job in Slurm's queue; None if the session is not in a queue."""

    def __init__(
        self,
        sentence: str,
        work: Callable[[StartingScreen], Coroutine[Any, Any, None]],
        exit_code: int,
        details: Widget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.exit_code = exit_code
        self._sentence, self._work, self._details = sentence, work, details
        self._clock, self._begun_s = clock, clock()

    def compose_parts(self) -> ComposeResult:
        if self._details is not None:
            yield self._details
        yield Static(self._waiting, id="waiting")

    @property
    def _waiting(self) -> Content:
        lasts = units.short_clock(self._clock() - self._begun_s)
        return Content(f"{self._sentence}  {lasts}")

    def on_mount(self) -> None:
        # By way of the app's queue: the screen is painted only after that is read.
        self.app.call_later(self.call_after_refresh, self._begin)
        self.set_interval(1.0, lambda: self.show_text(self._sentence))

    def _begin(self) -> None:
        if self.is_attached:
            self.run_worker(partial(self._work, self))

    WHY_NOT: ClassVar[Mapping[str, str]] = {
        "stop": "it is just starting: q leaves",
    }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to stop only a session that waits in a queue."""
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
        self._sentence = sentence
        for waiting in self.query("#waiting").results(Static):
            waiting.update(self._waiting, layout=False)


Read = TypeVar("Read")


async def read_in_thread(
    read: Callable[[Callable[[float], None]], Read], on_read: Callable[[float], None]
) -> Read:
    """Run `read` in a thread, and return its result.

    Args:
        read: takes a function to call with the share read so far, 0 to 1; once the caller is
            cancelled, that function raises an exception, which ends the thread.
        on_read: is called with the same share, on the event loop.
    """
    loop, is_over = asyncio.get_running_loop(), threading.Event()

    def report(share: float) -> None:
        if is_over.is_set():
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(on_read, share)

    try:
        return await asyncio.to_thread(read, report)
    finally:
        is_over.set()
