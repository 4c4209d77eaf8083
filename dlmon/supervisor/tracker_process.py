"""The process that sends the session to a tracker; it follows the log, so it never slows a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from dlmon.protocol.job import Job
from dlmon.records import Result, encode
from dlmon.supervisor.noticing_process import NoticingProcess
from dlmon.system.children import SAFE_PATH, python_command
from dlmon.trackers.sink import GRACE_S
from dlmon.trackers.tracker_address import unsent_text

# It needs a moment to end by itself after the grace.
_MORE_S = 3.0
# A longer wait than this is said.
_SILENT_S = 2.0
_LONGEST_S = GRACE_S + _MORE_S - _SILENT_S
# The script's own run is no place for another process while the script writes to it.
_NOT_PASSED_ON = "WANDB_RUN_ID"


class TrackerFeed(NoticingProcess):
    """The process of one session.

    Args:
        to: the destination, as typed.
        job: the job, with the script's environment.
        log: the session's log.
        notice: is called with a sentence for a person.
    """

    def __init__(self, to: str, job: Job, log: Path, notice: Callable[[str], None]) -> None:
        self._to, self._log = to, log
        environment = {**os.environ, **job.environment, **SAFE_PATH}
        environment.pop(_NOT_PASSED_ON, None)
        super().__init__(
            [*python_command("dlmon.trackers"), str(log), to],
            environment,
            notice,
            f"nothing is sent to {to}: its process can't be started",
        )

    async def finish(self, result: Result, hurry: asyncio.Event) -> None:
        """Let it send the rest and the result, within its grace or until `hurry`."""
        process = self._process
        if process is None:
            return
        # A result may be longer than the pipe takes while the process waits for its tracker.
        told = asyncio.create_task(asyncio.to_thread(_tell, process, encode(result)))
        waits = [asyncio.ensure_future(event.wait()) for event in (self._has_ended, hurry)]
        done, _ = await asyncio.wait(waits, timeout=_SILENT_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            self._notice(f"the run is over, and waits up to {GRACE_S:g} s for {self._to}")
            await asyncio.wait(waits, timeout=_LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self.end()
        await told
        if not self._is_whole:
            self._notice(unsent_text(self._log, self._to))


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    """Write a line to the process, and nothing more."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        while line:
            line = line[os.write(process.stdin.fileno(), line) :]
    process.stdin.close()
