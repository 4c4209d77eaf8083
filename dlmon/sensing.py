"""Own a sensors process: start it, read it, replace it when it dies or falls silent.

Both the supervisor and a screen without a session use this; it lives on their
asyncio loop and never waits for a process that won't die.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

from dlmon.processes import die_with_parent, end_process, python_command
from dlmon.records import Facts, Machine, RecordError, decode
from dlmon.sanitize import clean

START_S = 15.0
BACK_OFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
LINE_BYTES = 4 << 20


class Sensing:
    """A sensors process and its successors.

    Args:
        interval_s: time between samples.
        on_facts: called with the static facts of the machine, after each start.
        on_sample: called with each sample and the line it came in.
        on_notice: called with a sentence when the process is lost or back.
    """

    def __init__(
        self,
        interval_s: float,
        on_facts: Callable[[Facts], None],
        on_sample: Callable[[Machine, bytes], None],
        on_notice: Callable[[str], None],
        command: list[str] | None = None,
    ) -> None:
        self._command = command or [
            *python_command("dlmon.sensors"),
            "--interval",
            str(interval_s),
        ]
        self._deadline_s = max(3 * interval_s, 2.0)
        self._check_s = min(max(interval_s, 0.25), 1.0)
        self._on_facts = on_facts
        self._on_sample = on_sample
        self._on_notice = on_notice
        self._process: subprocess.Popen[bytes] | None = None
        self._former: list[subprocess.Popen[bytes]] = []
        self._buffer = b""
        self._last_words = ""
        self._heard_at = 0.0
        self._heard_any = False
        self._failures = 0
        self._lost = False
        self._watched_pid: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The pid of the process that runs now."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process; call it on the loop, in the main thread."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent(os.getpid()),
        )
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        os.set_blocking(fd, False)
        self._buffer = b""
        self._last_words = ""
        self._heard_any = False
        self._heard_at = time.monotonic()
        asyncio.get_running_loop().add_reader(fd, self._read, self._process)
        if self._watched_pid is not None:
            self.watch(self._watched_pid)
        self._schedule(self._check_s, self._check)

    def watch(self, pid: int) -> None:
        """Have the process tree of `pid` sampled too."""
        self._watched_pid = pid
        if self._process is None or self._process.stdin is None:
            return
        # A process that just died is noticed by its end of file.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"watch {pid}\n".encode())
            self._process.stdin.flush()

    def reaped(self, pid: int, exit_code: int) -> bool:
        """Take note that somebody else's waitpid caught one of our processes."""
        for process in [*self._former, self._process]:
            if process is not None and process.pid == pid:
                process.returncode = exit_code
                return True
        return False

    def close(self) -> None:
        """End the process: killed, and waited for only a moment, for it may hang in a driver."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._leave(self._process)
        for process in self._former:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)

    def _schedule(self, delay_s: float, action: Callable[[], None]) -> None:
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(delay_s, action)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        try:
            data = os.read(process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(process.stdout.fileno())
            if process is self._process:
                self._gone(f"ended ({self._last_words})" if self._last_words else "ended")
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > LINE_BYTES:
            self._buffer = b""
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = decode(line)
        except RecordError:
            self._last_words = clean(line.decode("utf-8", "replace"), 200)
            return
        self._heard_at = time.monotonic()
        if isinstance(record, Facts):
            self._on_facts(record)
        elif isinstance(record, Machine):
            if self._lost:
                self._lost = False
                self._on_notice("sensors are back")
            if self._heard_any:
                self._failures = 0
            self._heard_any = True
            self._on_sample(record, line + b"\n")

    def _check(self) -> None:
        """Replace a process that has missed its deadline."""
        self._former = [p for p in self._former if p.poll() is None]
        silent_s = time.monotonic() - self._heard_at
        if silent_s > (self._deadline_s if self._heard_any else START_S):
            self._gone(f"gave no sample for {silent_s:.0f} s")
        else:
            self._schedule(self._check_s, self._check)

    def _gone(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._leave(self._process)
        self._process = None
        delay_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        if not self._lost:
            self._on_notice(f"sensors {reason}; starting them again, training is not affected")
        self._lost = True
        self._schedule(delay_s, self.start)

    def _leave(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        assert process.stdout is not None
        assert process.stdin is not None
        asyncio.get_running_loop().remove_reader(process.stdout.fileno())
        if process.poll() is None:
            end_process(process.pid, signal.SIGKILL)
            self._former.append(process)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
