"""Run a script of a person's own without a screen: what it writes comes straight through."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from dlmon.exit_codes import code_of_script
from dlmon.launch.job import Job, Refused
from dlmon.launch.lifeline import Lifeline, launch
from dlmon.launch.spool import free_beginning, make_spool
from dlmon.session.follower import SessionFollower
from dlmon.session.source import SLICE_S
from dlmon.stop import PASS_ON
from tui.plain.summary import print_script_outcome, result_json

# How long what the script wrote may wait until it is passed on.
POLL_S = 0.05
READ_BYTES = 1 << 18
# The supervisor reads the same file, and is never this far behind.
KEPT_BYTES = 64 << 20
# What a script alone would get from its terminal, a scheduler or a person.
PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class ScriptRefused(Exception):
    """The script was not started; the message is one sentence for a person."""


def run_script(job: Job, as_json: bool, log_dir: Path | None = None) -> int:
    """Run a script to its end, and return its exit code.

    What it writes goes to stdout and stderr as it is, and what came of it to stderr; with
    `as_json`, its result alone goes to stdout. Signals are passed on to it.

    Args:
        job: what to run.
        as_json: print the result alone.
        log_dir: where a person asked for it to be kept; None for the usual place.

    Raises:
        ScriptRefused: it was not started.
    """
    try:
        streams = [] if as_json else _streams()
        lifeline = _launched(job, streams)
    except OSError as error:
        raise ScriptRefused(str(error)) from None
    answer = lifeline.answer()
    if isinstance(answer, Refused):
        raise ScriptRefused(answer.reason)
    follower = SessionFollower(Path(answer.log), launch=lifeline)
    try:
        asyncio.run(_follow(follower, lifeline, streams))
    finally:
        follower.close()
    if as_json and follower.result is not None:
        print(result_json(follower))
    elif not as_json:
        print_script_outcome(follower, log_dir)
    return script_exit_code(follower)


def _launched(job: Job, streams: list[_Stream]) -> Lifeline:
    """Start the supervisor, with our standard input and what stands for our other streams."""
    job = replace(
        job,
        stdin_fd=_standard_input(),
        terminal=_terminal_size() if streams else None,
        copy_fds=(streams[0].fd, streams[-1].fd) if streams else None,
    )
    try:
        return launch(job)
    finally:
        if job.stdin_fd is not None:
            os.close(job.stdin_fd)


def script_exit_code(follower: SessionFollower) -> int:
    """Return the exit code of a script that has ended, as a shell gives it."""
    return code_of_script(None if follower.result is None else follower.result.exit_code)


class _Stream:
    """What the script writes to one of our streams."""

    def __init__(self, to_fd: int) -> None:
        self.fd = make_spool()
        self._to_fd = to_fd
        self._offset = self._freed = 0

    def pass_on(self) -> bool:
        """Write what is new; return whether there was anything."""
        data = os.pread(self.fd, READ_BYTES, self._offset)
        if not data:
            return False
        self._offset += len(data)
        if self._offset - self._freed > 2 * KEPT_BYTES:
            self._freed = self._offset - KEPT_BYTES
            free_beginning(self.fd, self._freed)
        view = memoryview(data)
        # A reader that has left misses the rest, and the script goes on.
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._to_fd, view) :]
        return True


def _streams() -> list[_Stream]:
    """Return our streams; one where stdout and stderr are the same."""
    same = os.path.sameopenfile(1, 2)
    return [_Stream(1)] if same else [_Stream(1), _Stream(2)]


def _standard_input() -> int | None:
    """Return a descriptor of ours that the script is to read from."""
    try:
        return os.dup(0)
    except OSError:
        return None


def _terminal_size() -> tuple[int, int] | None:
    """Return the columns and rows of our terminal, where all that is written goes to one."""
    if not (os.isatty(1) and os.isatty(2)):
        return None
    return tuple(os.get_terminal_size(1))  # type: ignore[return-value]


async def _follow(follower: SessionFollower, lifeline: Lifeline, streams: list[_Stream]) -> None:
    """Pass on what the script writes, and to it what signals we get, until it has ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    for number in PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            word = f"{PASS_ON.decode()}{number.value}"
            asyncio.get_running_loop().add_signal_handler(number, lifeline.send, word)
    while True:
        records = follower.poll(SLICE_S)
        has_written = False
        for stream in streams:
            has_written |= stream.pass_on()
        if not follower.running and not records and not has_written:
            break
        if not records and not has_written:
            await asyncio.sleep(POLL_S)
        else:
            await asyncio.sleep(0)
    lifeline.release()
