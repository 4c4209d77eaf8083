"""Turn a workload's stdout and stderr into lines worth keeping.

A line ends at a newline or at 64 KiB. A carriage return starts it over, a
backspace steps back and colours take no room, as on a terminal, so a progress
bar that rewrites itself leaves its last state once a second, not a thousand lines.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import replace

from dlmon.records import Output
from dlmon.records.sanitize import LINE_LIMIT, clean

LINES_PER_SECOND = 50
_STATE_NS = 1_000_000_000
# What moves the cursor, and the control sequences of ECMA-48, section 5.4.
_CONTROLS = re.compile(r"([\r\n]|\x08+|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~])")
_UNFINISHED_CONTROL = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8})?\Z")
_ERASE_TO_END = ("\x1b[K", "\x1b[0K", "\x1b[J", "\x1b[0J")
_ERASE_LINE = "\x1b[2K"


class OutputLines:
    """Assembles the lines of one stream from the bytes that arrive."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished_control = ""
        self._line = ""
        self._cursor = 0
        self._sent = ""
        self._changed_t = 0

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

    def state(self, t: int, final: bool = False) -> str | None:
        """Return the unfinished line if it is new and has stood for a second, or is `final`."""
        if self._line == self._sent or not self._line.strip():
            return None
        if not final and t - self._changed_t < _STATE_NS:
            return None
        self._sent = self._line
        self._changed_t = t
        return clean(self._line)

    def _apply_control(self, control: str, ended: list[str]) -> None:
        if control == "\n":
            self._end(ended)
        elif control == "\r":
            self._cursor = 0
        elif control[0] == "\b":
            self._cursor = max(0, self._cursor - len(control))
        elif control in _ERASE_TO_END:
            self._line = self._line[: self._cursor]
        elif control == _ERASE_LINE:
            self._line = " " * self._cursor

    def _overwrite(self, text: str, t: int, ended: list[str]) -> None:
        if self._line == self._sent:
            self._changed_t = t
        after = self._line[self._cursor + len(text) :]
        self._line = self._line[: self._cursor] + text + after
        self._cursor += len(text)
        while len(self._line) >= LINE_LIMIT:
            ended.append(clean(self._line[:LINE_LIMIT]))
            self._line = self._line[LINE_LIMIT:]
            self._cursor = len(self._line)
            self._sent = ""

    def _end(self, ended: list[str]) -> None:
        if self._line != self._sent or not self._line:
            ended.append(clean(self._line))
        self._line = self._sent = ""
        self._cursor = 0


class OutputLog:
    """Both streams, at most `LINES_PER_SECOND` lines together; counts what it leaves out.

    Of a flood, the last lines are worth more than the first: the newest wait
    for the next second, and none of those is lost at the end.
    """

    def __init__(self) -> None:
        self._streams = {"stdout": OutputLines(), "stderr": OutputLines()}
        self._waiting: deque[Output] = deque()
        self._second = 0
        self._room = LINES_PER_SECOND
        self._left_out = 0

    def feed(self, stream: str, data: bytes, t: int) -> list[Output]:
        """Take bytes of a stream; return the records to write."""
        self._queue(stream, self._streams[stream].feed(data, t), t)
        return self._due(t)

    def tick(self, t: int, final: bool = False) -> list[Output]:
        """Return what waited and unfinished lines that have stood for a second.

        With `final` all of them: nothing more will come.
        """
        for stream, lines in self._streams.items():
            if final:
                self._queue(stream, lines.feed(b"", t, final=True), t)
            standing = lines.state(t, final)
            if standing is not None:
                self._queue(stream, [standing], t)
        return self._due(t, final)

    def _queue(self, stream: str, lines: list[str], t: int) -> None:
        self._waiting.extend(Output(t, stream, line) for line in lines)

    def _due(self, t: int, final: bool = False) -> list[Output]:
        second = t // 1_000_000_000
        if second != self._second:
            self._second, self._room = second, LINES_PER_SECOND
        due: list[Output] = []
        while self._waiting and (self._room > 0 or final):
            self._room -= 1
            due.append(replace(self._waiting.popleft(), left_out=self._left_out or None))
            self._left_out = 0
        while len(self._waiting) > LINES_PER_SECOND:
            self._waiting.popleft()
            self._left_out += 1
        return due
