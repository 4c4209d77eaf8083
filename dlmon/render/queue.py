"""Show a session of Slurm's without the screen: a line whenever it stands otherwise, then its own.

What Slurm restarts is another session, which is followed too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from rich.text import Text

from dlmon.exit_codes import FAILED
from dlmon.figures import units
from dlmon.figures.session.slurm_queue import queued_text
from dlmon.log.folder import id_of, location_options
from dlmon.log.submitted import read_submitted
from dlmon.records.sanitize import clean
from dlmon.render.console import line_console, print_error
from dlmon.render.follow import follow_to_end
from dlmon.session.follower import SessionFollower
from dlmon.slurm.job_follower import WaitingSession, follow_session, next_session
from dlmon.slurm.queue import Queued
from dlmon.system.signals import done_or_signalled

POLL_S = 0.25


async def wait_for_log(waiting: WaitingSession, show: Callable[[Queued], None]) -> Path | None:
    """Wait until a session's log begins, and return it; None where it never will."""
    while True:
        log = waiting.poll()
        if log is not None or waiting.failure is not None:
            return log
        show(waiting.queued)
        await asyncio.sleep(POLL_S)


def text_of(queued: Queued) -> str:
    """Say how the job of a session stands that has no log yet."""
    return clean(queued_text(queued.number, queued.job, queued.problem, time.time()))


class QueueLines:
    """Prints how the job of a session stands, whenever that has changed; nothing as JSON."""

    def __init__(self, as_json: bool) -> None:
        self._console, self._as_json = line_console(), as_json
        self.shown = ""
        """What was said last; empty of a session that did not have to wait."""

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


def follow_in_slurm(
    log: Path, as_json: bool, log_dir: str | None, desktop: bool, is_ours: bool
) -> int:
    """Follow a session of Slurm's from the queue to its end, and return the exit code.

    A signal leaves the job alone. The exit code of a script of ours is its own.
    """
    submitted = read_submitted(log)
    waiting = None if submitted is None else WaitingSession(log, submitted)
    while True:
        if waiting is not None:
            found = asyncio.run(_wait(waiting, as_json, log_dir))
            if isinstance(found, int):
                return found
            log = found
        follower = follow_session(log)
        following: list[WaitingSession] = []

        def goes_on(over: SessionFollower, following: list[WaitingSession] = following) -> bool:
            following.extend(filter(None, [None if over.running else next_session(over)]))
            return bool(following)

        code = asyncio.run(follow_to_end(follower, None, as_json, desktop, goes_on))
        waiting = next(iter(following), None)
        if waiting is None:
            is_script = follower.session.header.is_script and not follower.running
            return follower.script_exit_code if is_script and is_ours else code


async def _wait(waiting: WaitingSession, as_json: bool, log_dir: str | None) -> Path | int:
    lines = QueueLines(as_json)
    log, exit_code = await done_or_signalled(wait_for_log(waiting, lines.show))
    if exit_code:
        say_left_in_queue(id_of(waiting.log), location_options(log_dir))
        return exit_code
    if log is None:
        print_error(f"{waiting.failure}")
        return FAILED
    return log
