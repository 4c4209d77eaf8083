"""What a script writes: to a terminal of its own, or to files, so that no reader holds it up."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Callable

from dlmon.launch.spool import free_beginning, make_spool
from dlmon.supervisor.records_in import READ_BYTES, Reader

POLL_S = 0.1
# So long it reads at a time: the supervisor has other things to do.
SLICE_S = 0.01
# Waits until the supervisor is gone, however it went; then reads the terminal, which is its stdout,
# until nobody has it open: a write to one that nobody reads fails, or waits for ever.
_READ_ON = "read -r _; exec cat <&1 >/dev/null"
# What a file of ours holds that was read before its beginning is given back to the disk.
KEPT_BYTES = 16 << 20


class TerminalOutput:
    """A terminal that the script writes to: stdout and stderr are one stream.

    Args:
        size: its columns and rows.
        copy_fd: a file that takes every byte, where there is one.
        take: is given the bytes, and the stream's name.
    """

    def __init__(
        self, size: tuple[int, int], copy_fd: int | None, take: Callable[[str, bytes], None]
    ) -> None:
        self._copy_fd, self._take = copy_fd, take
        self._fd, self.stdout = pty.openpty()
        self.stderr = self.stdout
        columns, rows = size
        fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        settings = termios.tcgetattr(self.stdout)
        # What is written arrives as it is, as it would in a file, and nothing is typed here.
        settings[1] &= ~termios.OPOST
        settings[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self.stdout, termios.TCSANOW, settings)
        # Where there is no shell, nothing outlives the supervisor but what writes nothing.
        with contextlib.suppress(FileNotFoundError):
            self._reads_on = subprocess.Popen(
                ["sh", "-c", _READ_ON],
                stdin=subprocess.PIPE,
                stdout=self._fd,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def started(self) -> None:
        """Read what the script writes: it has the terminal now."""
        os.close(self.stdout)
        self._reader = Reader(self._fd, self._pass_on)

    async def drain(self) -> None:
        """Read what is left, and no more: what goes on may write for ever."""
        self._reader.drain()

    def _pass_on(self, data: bytes) -> None:
        if self._copy_fd is not None:
            # A full disk takes it from the person's eyes, not from the log.
            with contextlib.suppress(OSError):
                os.write(self._copy_fd, data)
        self._take("stdout", data)


class FileOutput:
    """Files that the script writes to, and that are read as they grow.

    Args:
        fds: files for stdout and stderr, which may be one; None for files of ours.
        take: is given the bytes, and the stream's name.
    """

    def __init__(self, fds: tuple[int, int] | None, take: Callable[[str, bytes], None]) -> None:
        self._take = take
        is_ours = fds is None
        if fds is None:
            fds = make_spool(), make_spool()
        self.stdout, self.stderr = fds
        one = os.path.sameopenfile(self.stdout, self.stderr)
        streams = {"stdout": self.stdout} if one else {"stdout": fds[0], "stderr": fds[1]}
        self._files = {name: _File(fd, is_ours) for name, fd in streams.items()}
        self._timer: asyncio.TimerHandle | None = None

    def started(self) -> None:
        """Read what the script writes from now on, several times a second."""
        self._poll()

    async def drain(self) -> None:
        """Read what is left, and no more: what goes on may write for ever."""
        for file in self._files.values():
            file.end = os.fstat(file.fd).st_size
        has_more = True
        while has_more:
            has_more = self._read_for(SLICE_S)
            await asyncio.sleep(0)
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for file in self._files.values():
            os.close(file.fd)
        self._files = {}

    def _poll(self) -> None:
        has_more = self._read_for(SLICE_S)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SLICE_S if has_more else POLL_S, self._poll)

    def _read_for(self, seconds: float) -> bool:
        """Read in turns what is new; return whether there is more than there was time for."""
        until = time.monotonic() + seconds
        while sum(self._read(name, file) for name, file in self._files.items()):
            if time.monotonic() >= until:
                return True
        return False

    def _read(self, name: str, file: _File) -> int:
        data = file.read()
        if data:
            self._take(name, data)
        return len(data)


class _File:
    """A file that a script writes to, and how far it is read.

    Args:
        fd: of the file.
        is_ours: whether nobody else reads it; else who does gives back what it holds.
    """

    def __init__(self, fd: int, is_ours: bool) -> None:
        self.fd = fd
        self.end: int | None = None
        """Up to where it is read; None for all that is ever written."""
        self._is_ours = is_ours
        self._offset = self._freed = 0

    def read(self) -> bytes:
        """Return what is new, up to `READ_BYTES`; nobody needs what was read of a file of ours."""
        count = READ_BYTES if self.end is None else min(READ_BYTES, self.end - self._offset)
        data = os.pread(self.fd, max(0, count), self._offset)
        self._offset += len(data)
        if self._is_ours and self._offset - self._freed > KEPT_BYTES:
            free_beginning(self.fd, self._offset)
            self._freed = self._offset
        return data
