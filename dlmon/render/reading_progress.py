"""Show the progress of reading logs on stderr, if it takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dlmon.render.console import line_console

SHOWN_AFTER_S = 1.0


@contextmanager
def reading_progress() -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share that was read, 0 to 1.

    A terminal shows it as a bar after one second; the bar disappears at the end.
    """
    console = line_console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task, begun_at = bar.add_task("reading", total=1.0), time.monotonic()

    def show(share: float) -> None:
        bar.update(task, completed=share)
        if time.monotonic() >= begun_at + SHOWN_AFTER_S:
            bar.start()

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
