"""A process beside a session that ends with its supervisor and prints notices."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from dlmon.records import Notice, decode_lines
from dlmon.system.children import die_with_parent, end_group

_LONGEST_LINE = 1 << 16


class NoticingProcess:
    """A process whose notices go into the log.

    Args:
        command: its words.
        environment: its environment variables.
        notice: is called with each sentence that it says.
        failure: a sentence for a person if it can't be started; the reason follows.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        notice: Callable[[str], None],
        failure: str,
    ) -> None:
        self._notice = notice
        self._unfinished = b""
        self._has_ended = asyncio.Event()
        self._is_whole = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent(os.getpid()),
            )
        except OSError as error:
            notice(f"{failure}: {error.strerror}")
            return
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()
        os.set_blocking(self._fd, False)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    @property
    def pids(self) -> set[int]:
        return set() if self._process is None else {self._process.pid}

    def reaped(self, pid: int, exit_code: int) -> None:
        """Note the exit code that the caller's waitpid got, if the process is ours."""
        if self._process is not None and pid == self._process.pid:
            self._process.returncode = exit_code
            self._is_whole = exit_code == 0
            self._has_ended.set()

    def end(self) -> None:
        """Take what it has said, and kill it if it runs."""
        if self._process is None:
            return
        self._read()
        if not self._has_ended.is_set():
            end_group(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _LONGEST_LINE)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            return
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for record in decode_lines(lines):
            if isinstance(record, Notice):
                self._notice(record.text)
