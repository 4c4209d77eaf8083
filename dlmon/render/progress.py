"""How much of the logs is read, on stderr, where that takes a while."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dlmon.render.console import line_console

SHOWN_AFTER_S = 1.0


class ReadingProgress:
    """A bar that is shown on a terminal once a second has passed, and is gone at the end.

    Use it as a context manager, and call it with how much is read, 0 to 1.
    """

    def __init__(self) -> None:
        console = line_console(stderr=True)
        self._is_wanted = console.is_terminal
        self._progress = Progress(
            TextColumn("reading"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("reading", total=1.0)
        self._shown_at = time.monotonic() + SHOWN_AFTER_S
        self._is_shown = False

    def __call__(self, share: float) -> None:
        """Show how much is read."""
        self._progress.update(self._task, completed=share)
        if self._is_wanted and not self._is_shown and time.monotonic() >= self._shown_at:
            self._progress.start()
            self._is_shown = True

    def __enter__(self) -> ReadingProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._progress.stop()
