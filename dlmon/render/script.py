"""Run a script without a screen, and pass its output through."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dlmon.exit_codes import NOT_STARTED, code_of_script
from dlmon.launch.spool import free_beginning, make_spool
from dlmon.launch.supervisor_process import SupervisorProcess, launch
from dlmon.log.folder import is_log
from dlmon.notification import DesktopAlerts
from dlmon.protocol.job import Job, Refused
from dlmon.protocol.stop import ASKS_TO_END, PASS_ON
from dlmon.records import Status
from dlmon.render.console import print_error
from dlmon.render.summary import Ending, leaving_running_on_error, print_outcome, result_json
from dlmon.session.follower import SessionFollower
from dlmon.session.source import SLICE_S

# The interval at which output is passed on.
POLL_S = 0.05
READ_BYTES = 1 << 18
# Output that was passed on is freed on disk, but for the last part: the supervisor reads it too,
# and is never further behind.
KEPT_BYTES = 64 << 20
# The time for passing on the remaining output after an interrupt.
PATIENCE_S = 2.0
# The signals that a script may get from its terminal, a scheduler or a person.
_SIGNALS = (*sorted(ASKS_TO_END), signal.SIGUSR1, signal.SIGUSR2)


class ScriptRefused(Exception):
    """The script was not started; the message is one sentence for a person."""

    exit_code = NOT_STARTED


def run_script(job: Job, as_json: bool, ending: Ending, desktop: bool = False) -> int:
    """Run a script to its end, and return its exit code.

    Its output goes unchanged to stdout and stderr, and its result to stderr; with `as_json`, only
    the result goes to stdout. Signals are passed on to it. Alerts notify the desktop through a
    program, as the terminal belongs to the script.

    Raises:
        ScriptRefused: the script was not started.
    """
    try:
        streams = [] if as_json else _streams()
        supervisor = _launched(job, streams)
    except OSError as error:
        raise ScriptRefused(str(error)) from None
    answer = supervisor.answer()
    if isinstance(answer, Refused):
        raise ScriptRefused(answer.reason)
    follower = SessionFollower(Path(answer.log), supervisor=supervisor)
    if os.isatty(2) and not job.ends_with_terminal:
        print_error(f"{answer.session}: a closed terminal won't end it; dlmon attach comes back")
    try:
        with leaving_running_on_error(follower, supervisor):
            cut_by = asyncio.run(_follow(follower, supervisor, streams, DesktopAlerts(desktop)))
    finally:
        follower.close()
    if as_json and follower.result is not None:
        print(result_json(follower))
    elif not as_json and is_log(follower.path):
        # Of a run on several hosts, only the first part prints the result.
        print_outcome(follower, ending, is_script=True)
    return follower.script_exit_code if cut_by is None else code_of_script(-cut_by)


def _launched(job: Job, streams: list[_Stream]) -> SupervisorProcess:
    """Start the supervisor with our standard input, and with spool files for its output."""
    stdin = None
    with contextlib.suppress(OSError):
        stdin = os.dup(0)
    if streams:
        job = replace(job, copy_fds=(streams[0].fd, streams[-1].fd))
    if streams and os.isatty(1) and os.isatty(2):
        # The output goes to our terminal, so give the script one of the same size.
        columns, rows = os.get_terminal_size(1)
        job = replace(job, terminal=(columns, rows))
    try:
        return launch(replace(job, stdin_fd=stdin))
    finally:
        if stdin is not None:
            os.close(stdin)


class _Stream:
    """The script's output to one of our streams, in a spool file."""

    def __init__(self, to_fd: int) -> None:
        self.fd = make_spool()
        self.offset = 0
        """The output before this offset was passed on."""
        self._freed = 0
        self._end: int | None = None
        self._to_fd = to_fd

    @property
    def is_to_file(self) -> bool:
        """True if our stream is a regular file, which never blocks."""
        return stat.S_ISREG(os.fstat(self._to_fd).st_mode)

    @property
    def remaining(self) -> int:
        """The number of bytes that were not passed on yet."""
        return (os.fstat(self.fd).st_size if self._end is None else self._end) - self.offset

    def pass_on(self) -> bool:
        """Pass on new output; return whether there was any."""
        count = READ_BYTES if self._end is None else min(READ_BYTES, self._end - self.offset)
        data = os.pread(self.fd, count, self.offset)
        end = self.offset + len(data)
        # If the reader is gone, drop the output; the script goes on.
        with contextlib.suppress(OSError):
            while self.offset < end:
                try:
                    self.offset += os.write(self._to_fd, data[self.offset - end :])
                except BlockingIOError:
                    select.select([], [self._to_fd], [])
        self.offset = end
        if end - self._freed > 2 * KEPT_BYTES:
            self._freed = end - KEPT_BYTES
            free_beginning(self.fd, self._freed)
        return bool(data)

    def end(self) -> None:
        """Pass on no output beyond the present end: other processes may write for ever."""
        self._end = os.fstat(self.fd).st_size


class _OutputThread(threading.Thread):
    """Passes on a script's output in a thread, as its reader may block."""

    def __init__(self, streams: list[_Stream]) -> None:
        super().__init__(daemon=True)
        self._streams = streams
        self._script_ended = threading.Event()

    async def finish(self, asked_to_end: Sequence[object]) -> bool:
        """Pass on the remaining output, and return whether it was cut.

        After a signal in `asked_to_end`, which may still grow, it takes at most `PATIENCE_S`. As
        files never block, only signals from now on count if all streams are files.
        """
        before = len(asked_to_end) if all(stream.is_to_file for stream in self._streams) else 0
        for stream in self._streams:
            stream.end()
        self._script_ended.set()
        asked_at = None
        while self.is_alive():
            await asyncio.sleep(POLL_S)
            if asked_at is None and len(asked_to_end) > before:
                asked_at = time.monotonic()
            if asked_at is not None and time.monotonic() > asked_at + PATIENCE_S:
                break
        missing = sum(stream.remaining for stream in self._streams)
        if missing and asked_at is not None:
            print_error(f"{missing:,} bytes that it wrote were not passed on")
            return True
        return False

    def run(self) -> None:
        while True:
            is_last = self._script_ended.is_set()
            if not sum(stream.pass_on() for stream in self._streams):
                if is_last:
                    return
                self._script_ended.wait(POLL_S)


def _streams() -> list[_Stream]:
    """Return our streams: one if stdout and stderr are the same file, else two."""
    is_one_file = os.path.sameopenfile(1, 2)
    return [_Stream(1)] if is_one_file else [_Stream(1), _Stream(2)]


async def _follow(
    follower: SessionFollower,
    supervisor: SupervisorProcess,
    streams: list[_Stream],
    alerts: DesktopAlerts,
) -> int | None:
    """Pass on the script's output, and our signals to the script, until it has ended.

    Return the signal that cut the output of a script that had ended by itself; None without one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    asked_to_end: list[tuple[int, signal.Signals]] = []
    hung_up = asyncio.Event()

    def take(number: signal.Signals) -> None:
        if number == signal.SIGHUP and not supervisor.job.ends_with_terminal:
            supervisor.hang_up()
            hung_up.set()
            return
        if number in ASKS_TO_END:
            asked_to_end.append((time.monotonic_ns(), number))
        supervisor.send(f"{PASS_ON.decode()} {number.value}")

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, take, number)
    output = _OutputThread(streams)
    output.start()
    why_unwritten = None
    while True:
        records = follower.poll(SLICE_S)
        alerts.notify(follower)
        if follower.running and follower.why_unwritten not in (None, why_unwritten):
            print_error(f"{follower.why_unwritten}")
        why_unwritten = follower.why_unwritten
        if hung_up.is_set():
            supervisor.release()
            return signal.SIGHUP
        if not follower.running and not records:
            break
        await asyncio.sleep(0 if records else POLL_S)
    result = follower.result
    was_stopped = result is not None and result.status == Status.STOPPED
    if result is not None and result.t is not None and not was_stopped:
        # The script went on after these signals, so they don't cut its output.
        asked_to_end[:] = [(t, number) for t, number in asked_to_end if t > result.t]
    is_cut = await output.finish(asked_to_end)
    supervisor.release()
    return asked_to_end[-1][1] if is_cut and not was_stopped else None
