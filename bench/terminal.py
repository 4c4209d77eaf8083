"""Run a command in a pseudo-terminal that reads all its output and answers no requests."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence

from harness import CannotRun, end_tree

COLUMNS, ROWS = 120, 40
READ_BYTES = 1 << 16
TAIL_BYTES = 1 << 17
# An escape sequence, such as one that moves the cursor, or else a run of text.
PIECES = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b.|([^\x1b]+)", re.DOTALL)


def painted_cells(output: bytes) -> int:
    """Return the number of cells that hold something other than a space."""
    painted: dict[tuple[int, int], bool] = {}
    row = column = 1
    for piece in PIECES.finditer(output.decode("utf-8", "ignore")):
        if piece[1]:
            row, column = int(piece[1]), int(piece[2])
        for character in piece[3] or "":
            if character == "\r":
                column = 1
            elif character == "\n":
                row += 1
            else:
                painted[row, column] = character != " "
                column += 1
    return sum(painted.values())


class Terminal:
    """A command whose stdin, stdout and stderr are a terminal.

    Use it as a context manager: on exit, the command and its descendants are killed.

    Args:
        command: the command and its arguments.
        marker: the text that `first_seen` waits for.
        environment: variables on top of ours.
        size: columns and rows.
        cells: the number of cells that must be painted, too, before the marker counts.
    """

    def __init__(
        self,
        command: Sequence[str],
        marker: str = "",
        environment: Mapping[str, str] | None = None,
        size: tuple[int, int] = (COLUMNS, ROWS),
        cells: int = 0,
    ) -> None:
        self._command, self._cells, self._marker = list(command), cells, marker.encode()
        self._seen, self._lock = threading.Event(), threading.Lock()
        self._seen_at, self._tail = 0.0, b""
        self.bytes_received = 0
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        # Without PYTHONDONTWRITEBYTECODE, or compiling would be measured too.
        removed = ("COLUMNS", "LINES", "NO_COLOR", "PYTHONDONTWRITEBYTECODE")
        inherited = {name: value for name, value in os.environ.items() if name not in removed}
        colors = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self._command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**inherited, **colors, **(environment or {})},
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def first_seen(self, timeout_s: float) -> float:
        """Wait for the marker; return the seconds from the start until it appeared.

        Raises:
            CannotRun: it did not appear in time.
        """
        if not self._seen.wait(timeout_s) or not self._seen_at:
            raise CannotRun(
                f"{' '.join(self._command)[:100]} ended or went {timeout_s:.0f} s without "
                f"showing {self._marker!r}; its last words: {self.last_output}"
            )
        return self._seen_at - self.started_at

    def look_for(self, marker: str) -> None:
        """Wait for another text from now on."""
        with self._lock:
            self._seen.clear()
            self._tail, self._marker = b"", marker.encode()

    def has_seen(self, timeout_s: float) -> bool:
        """Wait for the marker or the end of the output; return False at the time limit."""
        return self._seen.wait(timeout_s)

    @property
    def last_output(self) -> str:
        """The end of its output, without escape sequences."""
        pieces = PIECES.finditer(self._tail.decode("utf-8", "replace"))
        return " ".join(" ".join(piece[3] or "" for piece in pieces).split())[-300:]

    def press(self, keys: str) -> None:
        """Send keys to the command."""
        os.write(self._master, keys.encode())

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        end_tree(self.pid)
        self.process.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, READ_BYTES)
            except OSError:
                # EIO: the last process that had this terminal is gone.
                data = b""
            if not data:
                self._seen.set()
                return
            now = time.monotonic()
            with self._lock:
                self.bytes_received += len(data)
                self._tail = (self._tail + data)[-TAIL_BYTES - len(data) :]
                is_there = self._marker and not self._seen.is_set() and self._marker in self._tail
                if is_there and (not self._cells or painted_cells(self._tail) >= self._cells):
                    self._seen_at = now
                    self._seen.set()


def _take_terminal() -> None:
    """Make this the controlling terminal, so that closing it sends SIGHUP."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
