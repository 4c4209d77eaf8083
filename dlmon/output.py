"""Turn a workload's stdout and stderr into lines worth keeping.

A line ends at a newline or at 64 KiB. A carriage return starts it over and a
backspace steps back, as on a terminal, so a progress bar that rewrites itself
leaves its last state once a second, not a thousand lines.
"""

from __future__ import annotations

import codecs
import re

from dlmon.records import Output
from dlmon.sanitize import LINE_LIMIT, clean

LINES_PER_SECOND = 50
_STATE_NS = 1_000_000_000
_CONTROLS = re.compile(r"(\r\n|[\r\n\b])")


class OutputLines:
    """Assembles the lines of one stream from the bytes that arrive."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._cursor = 0
        self._told = ""
        self._changed_t = 0

    def feed(self, data: bytes, t: int) -> list[str]:
        """Take bytes that arrived at `t`; return the lines that ended."""
        ended: list[str] = []
        for token in _CONTROLS.split(self._decoder.decode(data)):
            if token in ("\n", "\r\n"):
                self._end(ended)
            elif token == "\r":
                self._cursor = 0
            elif token == "\b":
                self._cursor = max(0, self._cursor - 1)
            elif token:
                self._put(token, t, ended)
        return ended

    def state(self, t: int, final: bool = False) -> str | None:
        """Return the unfinished line if it is new and has stood for a second."""
        if self._line == self._told or not self._line.strip():
            return None
        if not final and t - self._changed_t < _STATE_NS:
            return None
        self._told = self._line
        self._changed_t = t
        return clean(self._line)

    def _put(self, text: str, t: int, ended: list[str]) -> None:
        if self._line == self._told:
            self._changed_t = t
        after = self._line[self._cursor + len(text) :]
        self._line = self._line[: self._cursor] + text + after
        self._cursor += len(text)
        while len(self._line) >= LINE_LIMIT:
            ended.append(clean(self._line[:LINE_LIMIT]))
            self._line = self._line[LINE_LIMIT:]
            self._cursor = len(self._line)
            self._told = ""

    def _end(self, ended: list[str]) -> None:
        if self._line != self._told or not self._line:
            ended.append(clean(self._line))
        self._line = self._told = ""
        self._cursor = 0


class OutputLog:
    """Both streams, at most `LINES_PER_SECOND` lines together; counts what it leaves out."""

    def __init__(self) -> None:
        self._streams = {"stdout": OutputLines(), "stderr": OutputLines()}
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def feed(self, stream: str, data: bytes, t: int) -> list[Output]:
        """Take bytes of a stream; return the records to write."""
        lines = self._streams[stream].feed(data, t)
        return self._limit([(stream, line) for line in lines], t)

    def tick(self, t: int, final: bool = False) -> list[Output]:
        """Return unfinished lines that have stood for a second; all of them when `final`."""
        standing = [(name, s.state(t, final)) for name, s in self._streams.items()]
        told = self._limit([(name, line) for name, line in standing if line is not None], t)
        if self._left_out and (final or t // 1_000_000_000 != self._second):
            told.append(Output(t, "stdout", f"… {self._left_out} lines left out", self._left_out))
            self._left_out = 0
        return told

    def _limit(self, lines: list[tuple[str, str]], t: int) -> list[Output]:
        second = t // 1_000_000_000
        if second != self._second:
            self._second, self._lines = second, 0
        kept: list[Output] = []
        for stream, line in lines:
            if self._lines >= LINES_PER_SECOND:
                self._left_out += 1
                continue
            self._lines += 1
            kept.append(Output(t, stream, line, self._left_out or None))
            self._left_out = 0
        return kept
