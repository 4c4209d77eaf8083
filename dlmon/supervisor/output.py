"""Turn a workload's stdout and stderr into lines worth keeping.

A line ends at a newline or at 64 KiB. A carriage return starts it over, a
backspace steps back and colours take no room, as on a terminal, so a progress
bar that rewrites itself leaves its last state once a second, not a thousand lines. So does one
of several lines, whose cursor goes up again.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass, replace

from dlmon.records import Output
from dlmon.records.sanitize import LINE_LIMIT, clean

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
        """Return what it holds, to be reported."""
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
        self._row = _Row()
        self._cursor = 0
        # Lines that may change, above and below that of the cursor, and those before that ended.
        self._above: list[_Row] = []
        self._below: list[_Row] = []
        self._ended: deque[_Row] = deque(maxlen=_MOST_ROWS)
        self._reach = 0

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
        rows = (*self._above, self._row, *self._below)
        due = [row for row in rows if row.is_due(t) or (final and row.text != row.sent)]
        return [row.take() for row in due if row.text.strip()]

    def _apply_control(self, control: str, ended: list[str]) -> None:
        row = self._row
        if control == "\n":
            self._end(ended)
        elif control == "\r":
            self._cursor = 0
        elif control[0] == "\b":
            self._cursor = max(0, self._cursor - len(control))
        elif control in _ERASE_TO_END:
            row.text = row.text[: self._cursor]
            if control[-1] == "J":
                self._below.clear()
        elif control == _ERASE_LINE:
            row.text = " " * self._cursor
        elif (move := _MOVE.fullmatch(control)) is not None:
            count, direction = min(int(move[1] or 1) or 1, _MOST_ROWS), move[2]
            for _ in range(count):
                (self._go_up if direction in "AF" else self._go_down)()
            if direction in "EF":
                self._cursor = 0

    def _go_up(self) -> None:
        if len(self._below) == _MOST_ROWS or not (self._above or self._ended):
            return
        self._below.insert(0, self._row)
        self._row = self._above.pop() if self._above else self._ended.pop()
        self._reach = max(self._reach, len(self._below))

    def _go_down(self) -> bool:
        """Go to the line below, and return whether there is one."""
        if not self._below:
            return False
        self._above.append(self._row)
        self._row = self._below.pop(0)
        return True

    def _overwrite(self, text: str, t: int, ended: list[str]) -> None:
        row = self._row
        if row.changed_t is None:
            row.changed_t = t
        after = row.text[self._cursor + len(text) :]
        row.text = row.text[: self._cursor].ljust(self._cursor) + text + after
        self._cursor += len(text)
        while len(row.text) >= LINE_LIMIT:
            ended.append(clean(row.text[:LINE_LIMIT]))
            row.text = row.text[LINE_LIMIT:]
            self._cursor = len(row.text)
            row.sent = ""

    def _end(self, ended: list[str]) -> None:
        self._cursor = 0
        if self._go_down():
            return
        self._above.append(self._row)
        self._row = _Row()
        while len(self._above) > self._reach:
            row = self._above.pop(0)
            if row.text != row.sent or not row.text:
                ended.append(row.take())
            self._ended.append(row)


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
            self._queue(stream, lines.standing(t, final), t)
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
