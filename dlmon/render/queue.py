"""Follow a Slurm session from the queue to its end in plain lines, also when it is requeued."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dlmon.exit_codes import FAILED
from dlmon.log.folder import id_of, location_options
from dlmon.log.submitted import read_submitted
from dlmon.render.console import print_error
from dlmon.render.follow import follow_to_end
from dlmon.render.queue_lines import QueueLines, say_left_in_queue, wait_for_log
from dlmon.render.summary import Ending
from dlmon.session.follower import SessionFollower
from dlmon.slurm.job_follower import WaitingSession, follow_session, next_session
from dlmon.system.signals import done_or_signalled


def follow_in_slurm(
    log: Path, as_json: bool, log_dir: str | None, desktop: bool, is_ours: bool, ending: Ending
) -> int:
    """Follow a Slurm session from the queue to its end, and return the exit code.

    Signals don't stop the job. If the script is ours, the exit code is the script's.
    """
    submitted = read_submitted(log)
    waiting = None if submitted is None else WaitingSession(log, submitted)
    while True:
        if waiting is not None:
            outcome = asyncio.run(_wait(waiting, as_json, log_dir))
            if isinstance(outcome, int):
                return outcome
            log = outcome
        follower = follow_session(log)
        following: list[WaitingSession] = []

        def goes_on(over: SessionFollower, following: list[WaitingSession] = following) -> bool:
            following.extend(filter(None, [None if over.running else next_session(over)]))
            return bool(following)

        code = asyncio.run(follow_to_end(follower, None, as_json, desktop, ending, goes_on))
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
