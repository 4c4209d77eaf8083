"""Take a script's output without delaying the script, and assemble the lines for the log.

A line ends at a newline or at 64 KiB. As on a terminal, a carriage return starts it over, a
backspace steps back and colours take no room. So a progress bar that rewrites its line, or its
several lines, gives one state a second, not a thousand lines.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from dlmon.launch.spool import free_beginning, make_spool
from dlmon.records import Output
from dlmon.records.sanitize import LINE_LIMIT, clean
from dlmon.supervisor.connection import READ_BYTES, Reader

LINES_PER_SECOND = 50
_STATE_NS = 1_000_000_000
# The characters that move the cursor, and the control sequences of ECMA-48, section 5.4.
_CONTROLS = re.compile(r"([\r\n]|\x08+|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~])")
_UNFINISHED_CONTROL = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8})?\Z")
_ERASE_TO_END = ("\x1b[K", "\x1b[0K", "\x1b[J", "\x1b[0J")
_ERASE_LINE = "\x1b[2K"
# Move up or down (A, B), or to the beginning of a line below or above (E, F).
_MOVE = re.compile(r"\x1b\[([0-9]{0,3})([ABEF])")
# The most lines of a progress bar.
_MOST_ROWS = 16
# The bytes of both streams that are parsed in a second; of the rest, only the end is. A line
# costs this many bytes on top. The longest line fits.
_READ_PER_SECOND = 4 * LINE_LIMIT
_LINE_COST_BYTES = 64
_BLOCK_BYTES = 4096
# The bytes of a stream's end that are kept for the next second.
_END_BYTES = 2 * LINE_LIMIT


@dataclass(slots=True)
class _Row:
    """A line that may still change, the text that was sent of it, and when it changed since."""

    text: str = ""
    sent: str = ""
    changed_t: int | None = None

    def is_due(self, t: int) -> bool:
        """Return whether a new text has been unchanged for a second."""
        if self.text == self.sent:
            self.changed_t = None
        return self.changed_t is not None and t - self.changed_t >= _STATE_NS

    def take(self) -> str:
        self.sent, self.changed_t = self.text, None
        return clean(self.text)


class OutputLines:
    """Assembles the lines of one stream from its bytes.

    A progress bar of several lines moves up to rewrite them. From then on, that many last lines
    may change, and are sent like an unfinished line: once a second, until other lines follow.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished_control = ""
        self._rows = [_Row()]
        """The last lines; the ones from index `_live` on may still change."""
        self._live = self._at = self._column = 0
        self._rows_above = 0
        """The number of lines above the last one that may change."""

    def feed(self, data: bytes, t: int, final: bool = False) -> list[str]:
        """Take bytes that arrived at `t`; return the finished lines.

        With `final`, an incomplete character ends too.
        """
        text = self._unfinished_control + self._decoder.decode(data, final)
        unfinished = _UNFINISHED_CONTROL.search(text)
        self._unfinished_control = unfinished.group() if unfinished else ""
        lines: list[str] = []
        pieces = _CONTROLS.split(text[: len(text) - len(self._unfinished_control)])
        for position, piece in enumerate(pieces):
            if position % 2:
                self._apply_control(piece, lines)
            elif piece:
                self._overwrite(piece, t, lines)
        return lines

    def unfinished_lines(self, t: int, final: bool = False) -> list[str]:
        """Return the new unfinished lines that were unchanged for a second, or all if `final`."""
        rows = self._rows[self._live :]
        due = [row for row in rows if row.is_due(t) or (final and row.text != row.sent)]
        return [row.take() for row in due if row.text.strip()]

    def _apply_control(self, control: str, lines: list[str]) -> None:
        row = self._rows[self._at]
        if control == "\n":
            self._end_line(lines)
        elif control == "\r":
            self._column = 0
        elif control[0] == "\b":
            self._column = max(0, self._column - len(control))
        elif control in _ERASE_TO_END:
            row.text = row.text[: self._column]
            if control[-1] == "J":
                del self._rows[self._at + 1 :]
        elif control == _ERASE_LINE:
            row.text = " " * self._column
        elif (move := _MOVE.fullmatch(control)) is not None:
            count, direction = min(int(move[1] or 1) or 1, _MOST_ROWS), move[2]
            self._move(-count if direction in "AF" else count)
            if direction in "EF":
                self._column = 0

    def _move(self, count: int) -> None:
        """Move the cursor down by `count` lines, up if negative, within the existing lines."""
        last = len(self._rows) - 1
        self._at = max(0, last - _MOST_ROWS, min(self._at + count, last))
        self._live = min(self._live, self._at)
        self._rows_above = max(self._rows_above, last - self._at)

    def _overwrite(self, text: str, t: int, lines: list[str]) -> None:
        row = self._rows[self._at]
        if row.changed_t is None:
            row.changed_t = t
        after = row.text[self._column + len(text) :]
        row.text = row.text[: self._column].ljust(self._column) + text + after
        self._column += len(text)
        while len(row.text) >= LINE_LIMIT:
            lines.append(clean(row.text[:LINE_LIMIT]))
            row.text = row.text[LINE_LIMIT:]
            self._column = len(row.text)
            row.sent = ""

    def _end_line(self, lines: list[str]) -> None:
        self._column, self._at = 0, self._at + 1
        if self._at < len(self._rows):
            return
        self._rows.append(_Row())
        while self._at - self._live > self._rows_above:
            row, self._live = self._rows[self._live], self._live + 1
            if row.text != row.sent or not row.text:
                lines.append(row.take())
        if (excess := self._live - _MOST_ROWS) > 0:
            del self._rows[:excess]
            self._live, self._at = self._live - excess, self._at - excess


class OutputLog:
    """The lines of both streams, at most `LINES_PER_SECOND`, with the number of skipped lines.

    If there are more, the newest wait for the next second, and are all written at the end.
    Bytes that would be skipped anyway are not parsed, which would take all of the supervisor's
    time: their lines are only counted.
    """

    def __init__(self) -> None:
        self._streams = {"stdout": OutputLines(), "stderr": OutputLines()}
        self._held = dict.fromkeys(self._streams, b"")
        """The end of every stream's bytes that were not parsed yet."""
        self._waiting: deque[Output] = deque()
        self._second = 0
        self._remaining_lines = LINES_PER_SECOND
        self._remaining_bytes = _READ_PER_SECOND
        self._skipped = self._not_parsed = 0
        """The skipped lines before the first waiting one, and before the next parsed one."""

    def feed(self, stream: str, data: bytes, t: int) -> list[Output]:
        self._begin_second(t)
        start = 0
        while start < len(data) and self._remaining_bytes > 0:
            block = data[start : start + _BLOCK_BYTES]
            self._remaining_bytes -= len(block) + _LINE_COST_BYTES * block.count(b"\n")
            self._queue(stream, self._streams[stream].feed(block, t), t)
            start += len(block)
        self._hold(stream, data[start:])
        return self._due()

    def tick(self, t: int, final: bool = False) -> list[Output]:
        """Return the lines that are due, waiting or unfinished; all of them if `final`."""
        self._begin_second(t)
        if final:
            self._read_held(t)
        for stream, lines in self._streams.items():
            if final:
                self._queue(stream, lines.feed(b"", t, final=True), t)
            self._queue(stream, lines.unfinished_lines(t, final), t)
        return self._due(final)

    def _begin_second(self, t: int) -> None:
        second = t // 1_000_000_000
        if second != self._second:
            self._second, self._remaining_lines = second, LINES_PER_SECOND
            self._remaining_bytes = _READ_PER_SECOND
            self._read_held(t)

    def _hold(self, stream: str, data: bytes) -> None:
        held = self._held[stream] + data
        cut = len(held) - _END_BYTES
        if cut > 0:
            # Cut at the beginning of a line, or at its last rewrite.
            cut = held.find(b"\n", cut) + 1 or max(held.find(b"\r", cut), cut)
            self._not_parsed += held.count(b"\n", 0, cut)
            # The end of the unfinished line is cut off.
            self._streams[stream] = OutputLines()
            held = held[cut:]
        self._held[stream] = held

    def _read_held(self, t: int) -> None:
        for stream, data in self._held.items():
            self._held[stream] = b""
            self._queue(stream, self._streams[stream].feed(data, t), t)

    def _queue(self, stream: str, lines: list[str], t: int) -> None:
        for line in lines:
            self._waiting.append(Output(t, stream, line, self._not_parsed or None))
            self._not_parsed = 0

    def _due(self, final: bool = False) -> list[Output]:
        due = [self._next() for _ in range(min(self._remaining_lines, len(self._waiting)))]
        self._remaining_lines -= len(due)
        while len(self._waiting) > LINES_PER_SECOND:
            self._skipped += 1 + (self._waiting.popleft().left_out or 0)
        if final:
            due += [self._next() for _ in range(len(self._waiting))]
        return due

    def _next(self) -> Output:
        line = self._waiting.popleft()
        left_out, self._skipped = self._skipped + (line.left_out or 0), 0
        return replace(line, left_out=left_out or None)


POLL_S = 0.1
# The most time that reading takes at once: the supervisor has other tasks.
SLICE_S = 0.01
# This shell waits until the supervisor has ended, and then reads the terminal, its stdout, until
# nobody has it open: without a reader, the script's writes would fail or wait for ever.
_READ_ON = "read -r _; exec cat <&1 >/dev/null"
# The bytes of a file of ours that are read before their disk blocks are freed.
KEPT_BYTES = 16 << 20


class TerminalOutput:
    """A terminal that the script writes to, with stdout and stderr as one stream.

    Args:
        size: its columns and rows.
        copy_fd: a file for a copy of every byte, if there is one.
        take: is called with the stream's name and the bytes.
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
        # Pass the output on unchanged, as to a file; there is no input.
        settings[1] &= ~termios.OPOST
        settings[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self.stdout, termios.TCSANOW, settings)
        # Without a shell, a script that writes does not outlive the supervisor.
        with contextlib.suppress(FileNotFoundError):
            self._reads_on = subprocess.Popen(
                ["sh", "-c", _READ_ON],
                stdin=subprocess.PIPE,
                stdout=self._fd,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def started(self) -> None:
        """Begin to read: the script has the terminal now."""
        os.close(self.stdout)
        self._reader = Reader(self._fd, self._pass_on)

    async def drain(self) -> None:
        """Read the buffered output and stop: remaining processes may write for ever."""
        self._reader.drain()

    def stop_copying(self) -> None:
        """Make no more copies: nobody reads them."""
        self._copy_fd = None

    def _pass_on(self, data: bytes) -> None:
        if self._copy_fd is not None:
            # If the disk is full, the log still gets the output.
            with contextlib.suppress(OSError):
                os.write(self._copy_fd, data)
        self._take("stdout", data)


class FileOutput:
    """Files that the script writes to, read as they grow.

    Args:
        fds: the files for stdout and stderr, which may be the same; None for files of ours.
        take: is called with the stream's name and the bytes.
    """

    def __init__(self, fds: tuple[int, int] | None, take: Callable[[str, bytes], None]) -> None:
        self._take = take
        is_ours = fds is None
        if fds is None:
            fds = make_spool(), make_spool()
        self.stdout, self.stderr = fds
        streams = {"stdout": self.stdout}
        if not os.path.sameopenfile(self.stdout, self.stderr):
            streams["stderr"] = self.stderr
        self._files = {name: _File(fd, is_ours) for name, fd in streams.items()}
        self._timer: asyncio.TimerHandle | None = None

    def started(self) -> None:
        """Begin to read several times a second."""
        self._poll()

    async def drain(self) -> None:
        """Read up to the present end and stop: remaining processes may write for ever."""
        for file in self._files.values():
            file.end = os.fstat(file.fd).st_size
        has_more = True
        while has_more:
            has_more = self._read_for(SLICE_S)
            await asyncio.sleep(0)
        self.close()

    def stop_copying(self) -> None:
        """Free what is read from now on: nobody else reads it."""
        for file in self._files.values():
            file.is_ours = True

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
        """Read the files in turns; return whether time was up before their end."""
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
    """A file that a script writes to, and the offset that was read.

    Args:
        fd: its descriptor.
        is_ours: true if nobody else reads it, so that the read part can be freed.
    """

    def __init__(self, fd: int, is_ours: bool) -> None:
        self.fd = fd
        self.end: int | None = None
        """The offset to stop at; None reads on as the file grows."""
        self.is_ours = is_ours
        self._offset = self._freed = 0

    def read(self) -> bytes:
        """Return up to `READ_BYTES` new bytes; free the disk blocks that were read, if ours."""
        count = READ_BYTES if self.end is None else min(READ_BYTES, self.end - self._offset)
        data = os.pread(self.fd, max(0, count), self._offset)
        self._offset += len(data)
        if self.is_ours and self._offset - self._freed > KEPT_BYTES:
            free_beginning(self.fd, self._offset)
            self._freed = self._offset
        return data
