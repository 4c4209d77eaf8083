"""What a script writes: to a terminal of its own, or to files, so that no reader holds it up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable

from dlmon.launch.spool import free_beginning, make_spool

READ_BYTES = 1 << 18
POLL_S = 0.1
# What a file holds that was read before its beginning is given back to the disk.
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

    def started(self) -> None:
        """Read what the script writes: it has the terminal now."""
        os.close(self.stdout)
        os.set_blocking(self._fd, False)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def drain(self) -> None:
        """Read what is left, and no more."""
        while self._read():
            pass
        self.close()

    def close(self) -> None:
        """Let go of the terminal."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> int:
        if self._fd < 0:
            return 0
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError as error:
            # EIO: nobody has the other side open any more.
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            self.close()
            return 0
        if self._copy_fd is not None:
            # A full disk takes it from the person's eyes, not from the log.
            with contextlib.suppress(OSError):
                os.write(self._copy_fd, data)
        self._take("stdout", data)
        return len(data)


class FileOutput:
    """Files that the script writes to, and that are read as they grow.

    Args:
        fds: files for stdout and stderr, which may be one; None for files of ours.
        take: is given the bytes, and the stream's name.
    """

    def __init__(self, fds: tuple[int, int] | None, take: Callable[[str, bytes], None]) -> None:
        self._take = take
        self._is_ours = fds is None
        if fds is None:
            fds = make_spool(), make_spool()
        self.stdout, self.stderr = fds
        one = os.path.sameopenfile(self.stdout, self.stderr)
        streams = {"stdout": self.stdout} if one else {"stdout": fds[0], "stderr": fds[1]}
        self._files = {name: [fd, 0, 0] for name, fd in streams.items()}
        self._timer: asyncio.TimerHandle | None = None

    def started(self) -> None:
        """Read what the script writes from now on, several times a second."""
        self._poll()

    def drain(self) -> None:
        """Read what is left, and no more."""
        for name in self._files:
            while self._read(name):
                pass
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        if self._timer is not None:
            self._timer.cancel()
        for fd, _, _ in self._files.values():
            os.close(fd)
        self._files = {}

    def _poll(self) -> None:
        for name in self._files:
            self._read(name)
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)

    def _read(self, name: str) -> int:
        fd, offset, freed = self._files[name]
        data = os.pread(fd, READ_BYTES, offset)
        if data:
            offset += len(data)
            if self._is_ours and offset - freed > KEPT_BYTES:
                free_beginning(fd, offset)
                freed = offset
            self._files[name] = [fd, offset, freed]
            self._take(name, data)
        return len(data)
