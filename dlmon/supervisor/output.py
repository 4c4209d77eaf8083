"""Let a script write without being held up, and turn what is written into lines worth keeping.

A line ends at a newline or at 64 KiB. A carriage return starts it over, a
backspace steps back and colours take no room, as on a terminal, so a progress
bar that rewrites itself leaves its last state once a second, not a thousand lines. So does one
of several lines, whose cursor goes up again.
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
# What moves the cursor, and the control sequences of ECMA-48, section 5.4.
_CONTROLS = re.compile(r"([\r\n]|\x08+|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~])")
_UNFINISHED_CONTROL = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8})?\Z")
_ERASE_TO_END = ("\x1b[K", "\x1b[0K", "\x1b[J", "\x1b[0J")
_ERASE_LINE = "\x1b[2K"
# Lines up or down; with E and F to their beginning.
_MOVE = re.compile(r"\x1b\[([0-9]{0,3})([ABEF])")
# So many lines may a bar have.
_MOST_ROWS = 16
# What both streams may bring in a second until only the end of the rest is read; a line costs as
# much as so many bytes. A line of the longest has room.
_READ_PER_SECOND = 4 * LINE_LIMIT
_LINE_COSTS = 64
_BLOCK = 4096
# How much of that end is read of each.
_END_BYTES = 2 * LINE_LIMIT


@dataclass(slots=True)
class _Row:
    """A line that may yet change: what was reported of it, and since when it is another."""

    text: str = ""
    sent: str = ""
    changed_t: int | None = None

    def is_due(self, t: int) -> bool:
        """Return whether something new has stood for a second."""
        if self.text == self.sent:
            self.changed_t = None
        return self.changed_t is not None and t - self.changed_t >= _STATE_NS

    def take(self) -> str:
        self.sent, self.changed_t = self.text, None
        return clean(self.text)


class OutputLines:
    """Assembles the lines of one stream from the bytes that arrive.

    A bar of several lines goes up to begin them again. From then on so many of the last lines
    may change, and are reported as an unfinished one is: once a second, until others follow them.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished_control = ""
        self._rows = [_Row()]
        """The last lines: those before `_live` have ended, the others may change."""
        self._live = self._at = self._column = 0
        self._reach = 0
        """How many lines above the last one may change."""

    def feed(self, data: bytes, t: int, final: bool = False) -> list[str]:
        """Take bytes that arrived at `t`; return the lines that ended.

        With `final` nothing more will come, so half a character is one too.
        """
        text = self._unfinished_control + self._decoder.decode(data, final)
        unfinished = _UNFINISHED_CONTROL.search(text)
        self._unfinished_control = unfinished.group() if unfinished else ""
        ended: list[str] = []
        pieces = _CONTROLS.split(text[: len(text) - len(self._unfinished_control)])
        for position, piece in enumerate(pieces):
            if position % 2:
                self._apply_control(piece, ended)
            elif piece:
                self._overwrite(piece, t, ended)
        return ended

    def standing(self, t: int, final: bool = False) -> list[str]:
        """Return the unfinished lines that are new and have stood for a second, or are `final`."""
        rows = self._rows[self._live :]
        due = [row for row in rows if row.is_due(t) or (final and row.text != row.sent)]
        return [row.take() for row in due if row.text.strip()]

    def _apply_control(self, control: str, ended: list[str]) -> None:
        row = self._rows[self._at]
        if control == "\n":
            self._end(ended)
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
        """Go so many lines down, or up, as far as there are lines."""
        last = len(self._rows) - 1
        self._at = max(0, last - _MOST_ROWS, min(self._at + count, last))
        self._live = min(self._live, self._at)
        self._reach = max(self._reach, last - self._at)

    def _overwrite(self, text: str, t: int, ended: list[str]) -> None:
        row = self._rows[self._at]
        if row.changed_t is None:
            row.changed_t = t
        after = row.text[self._column + len(text) :]
        row.text = row.text[: self._column].ljust(self._column) + text + after
        self._column += len(text)
        while len(row.text) >= LINE_LIMIT:
            ended.append(clean(row.text[:LINE_LIMIT]))
            row.text = row.text[LINE_LIMIT:]
            self._column = len(row.text)
            row.sent = ""

    def _end(self, ended: list[str]) -> None:
        self._column, self._at = 0, self._at + 1
        if self._at < len(self._rows):
            return
        self._rows.append(_Row())
        while self._at - self._live > self._reach:
            row, self._live = self._rows[self._live], self._live + 1
            if row.text != row.sent or not row.text:
                ended.append(row.take())
        if (excess := self._live - _MOST_ROWS) > 0:
            del self._rows[:excess]
            self._live, self._at = self._live - excess, self._at - excess


class OutputLog:
    """Both streams, at most `LINES_PER_SECOND` lines together; counts what it leaves out.

    Of a flood, the last lines are worth more than the first: the newest wait
    for the next second, and none of those is lost at the end. What nobody will see of it is
    counted and not taken apart, which would take all of the supervisor's time.
    """

    def __init__(self) -> None:
        self._streams = {"stdout": OutputLines(), "stderr": OutputLines()}
        self._held = dict.fromkeys(self._streams, b"")
        """What nobody has read of each stream: no more than its end."""
        self._waiting: deque[Output] = deque()
        self._second = 0
        self._room = LINES_PER_SECOND
        self._bytes_to_read = _READ_PER_SECOND
        self._left_out = self._not_read = 0
        """Lines before the first that waits, and before the next that is read."""

    def feed(self, stream: str, data: bytes, t: int) -> list[Output]:
        self._begin_second(t)
        start = 0
        while start < len(data) and self._bytes_to_read > 0:
            block = data[start : start + _BLOCK]
            self._bytes_to_read -= len(block) + _LINE_COSTS * block.count(b"\n")
            self._queue(stream, self._streams[stream].feed(block, t), t)
            start += len(block)
        self._hold(stream, data[start:])
        return self._due()

    def tick(self, t: int, final: bool = False) -> list[Output]:
        """Return what waited and unfinished lines that have stood for a second.

        With `final` all of them: nothing more will come.
        """
        self._begin_second(t)
        if final:
            self._read_held(t)
        for stream, lines in self._streams.items():
            if final:
                self._queue(stream, lines.feed(b"", t, final=True), t)
            self._queue(stream, lines.standing(t, final), t)
        return self._due(final)

    def _begin_second(self, t: int) -> None:
        second = t // 1_000_000_000
        if second != self._second:
            self._second, self._room = second, LINES_PER_SECOND
            self._bytes_to_read = _READ_PER_SECOND
            self._read_held(t)

    def _hold(self, stream: str, data: bytes) -> None:
        held = self._held[stream] + data
        cut = len(held) - _END_BYTES
        if cut > 0:
            # From where a line begins, or is begun anew.
            begins = held.find(b"\n", cut) + 1 or max(held.find(b"\r", cut), cut)
            self._not_read += held.count(b"\n", 0, begins)
            # What was unfinished has its end among those.
            self._streams[stream] = OutputLines()
            held = held[begins:]
        self._held[stream] = held

    def _read_held(self, t: int) -> None:
        for stream, data in self._held.items():
            self._held[stream] = b""
            self._queue(stream, self._streams[stream].feed(data, t), t)

    def _queue(self, stream: str, lines: list[str], t: int) -> None:
        for line in lines:
            self._waiting.append(Output(t, stream, line, self._not_read or None))
            self._not_read = 0

    def _due(self, final: bool = False) -> list[Output]:
        due = [self._next() for _ in range(min(self._room, len(self._waiting)))]
        self._room -= len(due)
        while len(self._waiting) > LINES_PER_SECOND:
            self._left_out += 1 + (self._waiting.popleft().left_out or 0)
        if final:
            due += [self._next() for _ in range(len(self._waiting))]
        return due

    def _next(self) -> Output:
        line = self._waiting.popleft()
        left_out, self._left_out = self._left_out + (line.left_out or 0), 0
        return replace(line, left_out=left_out or None)


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
