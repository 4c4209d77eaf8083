"""Show a session of Slurm's without the screen: a line whenever it stands otherwise, then its own.

What Slurm restarts is another session, which is followed too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.text import Text

from dlmon.exit_codes import FAILED
from dlmon.figures import units
from dlmon.figures.slurm import queued_text
from dlmon.log.folder import id_of, place_options
from dlmon.log.submitted import read_submitted
from dlmon.records.sanitize import clean
from dlmon.render.console import line_console, print_error
from dlmon.render.follow import follow_with
from dlmon.session.follower import SessionFollower
from dlmon.signals import on_signals
from dlmon.slurm.watch import Waiting, follow_session, next_session

POLL_S = 0.25


async def wait_for_log(waiting: Waiting, show: Callable[[str], None]) -> Path | None:
    """Wait until a session's log begins, and return it; None where it never will.

    Args:
        waiting: the session.
        show: takes how its job stands, whenever that has changed.
    """
    shown = ""
    while True:
        log = waiting.poll()
        if log is not None or waiting.failure is not None:
            return log
        text = text_of(waiting)
        if text != shown:
            shown = text
            show(text)
        await asyncio.sleep(POLL_S)


def text_of(waiting: Waiting) -> str:
    """Say how the job of a session stands that has no log yet."""
    watch = waiting.watch
    problem = None if watch is None else watch.problem
    number = waiting.submitted.slurm_job
    return clean(queued_text(number, waiting.job, problem, time.time()))


def follow_in_slurm(
    log: Path, as_json: bool, log_dir: str | None, desktop: bool, is_ours: bool
) -> int:
    """Follow a session of Slurm's from the queue to its end, and return the exit code.

    A signal leaves the job alone.

    Args:
        log: where its log is, or will be.
        as_json: print nothing but the result, as JSON.
        log_dir: where sessions are kept, as the command line says.
        desktop: notify the desktop of alerts.
        is_ours: end with the exit code of a script, as where it runs here.
    """
    submitted = read_submitted(log)
    waiting = None if submitted is None else Waiting(log, submitted)
    while True:
        if waiting is not None:
            found = asyncio.run(_wait(waiting, as_json, log_dir))
            if isinstance(found, int):
                return found
            log = found
        follower = follow_session(log)
        following: list[Waiting] = []

        def goes_on(over: SessionFollower, following: list[Waiting] = following) -> bool:
            following.extend(filter(None, [None if over.running else next_session(over)]))
            return bool(following)

        code = follow_with(follower, None, as_json, desktop, goes_on)
        waiting = next(iter(following), None)
        if waiting is None:
            is_script = follower.session.header.is_script and not follower.running
            return follower.script_exit_code if is_script and is_ours else code


async def _wait(waiting: Waiting, as_json: bool, log_dir: str | None) -> Path | int:
    console = line_console()
    signalled: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def leave(exit_code: int) -> None:
        if not signalled.done():
            signalled.set_result(exit_code)

    def show(text: str) -> None:
        if not as_json:
            console.print(Text(f"{units.time_of_day(time.time())}  {text}"))
            console.file.flush()

    on_signals(leave)
    asking = asyncio.ensure_future(wait_for_log(waiting, show))
    either: set[asyncio.Future[Any]] = {asking, signalled}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not asking.done():
        asking.cancel()
        session = id_of(waiting.log)
        where = place_options(log_dir)
        print_error(
            f"it stays in the queue; dlmon attach{where} {session} shows it, "
            f"dlmon stop{where} {session} takes it out"
        )
        return signalled.result()
    log = asking.result()
    if log is None:
        print_error(f"{waiting.failure}")
        return FAILED
    return log
