"""Print the state of a Slurm session that waits in the queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from rich.text import Text

from dlmon.figures import units
from dlmon.figures.session.headline import Headline
from dlmon.figures.session.slurm_queue import queued_text
from dlmon.records.sanitize import clean
from dlmon.render.console import line_console, print_error
from dlmon.slurm.job_follower import WaitingSession
from dlmon.slurm.queue import Queued

POLL_S = 0.25


async def wait_for_log(waiting: WaitingSession, show: Callable[[Queued], None]) -> Path | None:
    """Wait until a session's log begins, and return its path; None if it never will."""
    while True:
        log = waiting.poll()
        if log is not None or waiting.failure is not None:
            return log
        show(waiting.queued)
        await asyncio.sleep(POLL_S)


def text_of(queued: Queued) -> str:
    """Write the state of the job of a session that has no log yet."""
    text = clean(queued_text(queued.number, queued.job, queued.problem, time.time()))
    waits = queued.job is not None and queued.job.state.is_waiting
    return Headline("queued", "", (text,)).text if waits else text


class QueueLines:
    """Prints the state of a session's job whenever it changes; nothing as JSON."""

    def __init__(self, as_json: bool) -> None:
        self._console, self._as_json = line_console(), as_json
        self.shown = ""
        """The last state; empty if the session did not have to wait."""

    def show(self, queued: Queued) -> None:
        text = text_of(queued)
        if text == self.shown:
            return
        self.shown = text
        if not self._as_json:
            self._console.print(Text(f"{units.time_of_day(time.time())}  {text}"))
            self._console.file.flush()


def say_left_in_queue(session: str, where: str) -> None:
    """Say that the job of a session stays in the queue, and how to come back to it."""
    print_error(
        f"it stays in the queue; dlmon attach{where} {session} shows it, "
        f"dlmon stop{where} {session} takes it out"
    )
