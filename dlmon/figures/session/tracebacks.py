"""The traceback of a run that failed: the script's own frames, libraries folded, the error last.

It is read from the lines that the run printed, so it may be cut, or mixed with other output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from dlmon.figures import units
from dlmon.records import Frame, Output
from dlmon.records.record import record
from dlmon.records.stacks import file_name, function_text, package_of
from dlmon.session.exception_line import lines_of_one_process

Kind = Literal["frame", "source", "library", "joint", "error", "message"]

_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'  File "(.{1,4096}?)", line (\d{1,9})(?:, in (.{1,500}))?')
_REPEATED = re.compile(r"  \[Previous line repeated (\d{1,9}) more times?\]")
_MARKS = re.compile(r"[\s~^]+")
# How Python draws groups of exceptions: a bar before each line, and numbers between them.
_BAR = re.compile(r"((?:  ){1,50})[|+] ?(?! ?-)")
_NUMBER = re.compile(r"(?:  ){1,50}\+-[+-]-* (\d{1,9}|\.\.\.) -+")
_END = re.compile(r"(?:  ){1,50}\+-+")
_JOINTS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_LONGEST_CYCLE, _LEAST_CYCLES = 8, 3
_MOST_SOURCE, _MOST_MESSAGE = 3, 12


@record(frozen=True)
class TraceRow:
    """A row of a traceback.

    Attributes:
        kind: a frame of the script, its source, frames of libraries, a sentence between exceptions,
            an error, or a further line of its message.
        text: the text.
        depth: the number of groups of exceptions around it.
    """

    kind: Kind
    text: str
    depth: int = 0


@record(frozen=True)
class _TraceFrame:
    frame: Frame
    source: tuple[str, ...] = ()
    times: int = 1
    cycle: int = 1
    """The number of frames, up to this one, that repeat in turn."""


def traceback_rows(output: Sequence[Output], folder: str | None = None) -> tuple[TraceRow, ...]:
    """Return the last traceback of some output, with those that led to it; empty without one.

    Args:
        output: the last lines that a run printed.
        folder: its directory, which is left out of the paths of its files.
    """
    lines = lines_of_one_process(output)
    streams = [line.stream for line in lines if _is_header(line.text)]
    reader = _Reader(f"{folder}/" if folder else "")
    for line in lines:
        if line.stream in streams[-1:]:
            reader.read(line)
    return reader.end()


def trace_lines(rows: Sequence[TraceRow]) -> tuple[str, ...]:
    """Return rows as lines, indented by the groups of exceptions around them."""
    return tuple(f"{'  ' * row.depth}{row.text}" for row in rows)


def before_traceback(output: Sequence[Output]) -> tuple[Output, ...]:
    """Return some output without its last traceback, and those that led to it."""
    start, is_joined = len(output), False
    for number, line in enumerate(output):
        depth, body = _without_bar(line.text)
        if _is_header(line.text) and _begins(depth, line.text):
            start, is_joined = start if is_joined else number, False
        elif body in _JOINTS:
            is_joined = True
    rest = (line for line in output[start:] if line.stream != output[start].stream)
    return (*output[:start], *rest)


def _begins(depth: int, text: str) -> bool:
    """Return whether the header of a traceback is not one of those in a group."""
    return not depth or (depth == 1 and text.lstrip().startswith("+"))


def folded_text(frames: Sequence[Frame], count: int) -> str:
    """Return the line in place of the frames of libraries: … 12 frames in torch."""
    names = dict.fromkeys(package_of(frame.file) or "" for frame in frames)
    return f"… {units.counted(count, 'frame')} in {', '.join(names)}"


def _without_bar(text: str) -> tuple[int, str]:
    """Return the number of groups that a line is in, and the line without their bar."""
    bar = _BAR.match(text)
    return (len(bar[1]) // 2, text[bar.end() :]) if bar else (0, text)


def _is_header(text: str) -> bool:
    return _HEADER.fullmatch(_without_bar(text)[1].strip()) is not None


class _Reader:
    """Reads lines of output, and keeps the rows of the last traceback and of those before it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._rows: list[TraceRow] = []
        self._frames: list[_TraceFrame] = []
        self._depth = 0
        self._is_joined = self._awaits_error = False
        self._messages = 0

    def read(self, line: Output) -> None:
        text = line.text
        depth, body = _without_bar(text)
        if line.left_out and (self._rows or self._frames):
            self._add_frames(is_last=False)
            self._add("library", f"… {units.counted(line.left_out, 'line')} left out")
        number = _NUMBER.fullmatch(text)
        if number is not None or _END.fullmatch(text):
            self._add_frames(is_last=False)
            self._awaits_error = True
            # The first number is drawn one step to the left of the others.
            self._depth = (len(text) - len(text.lstrip())) // 2 - ("+-+" not in text)
            if number is not None:
                self._add("joint", f"exception {number[1]}")
        elif _is_header(text):
            if _begins(depth, text) and not self._is_joined:
                self._rows = []
            self._frames, self._is_joined, self._awaits_error = [], False, True
        elif body in _JOINTS:
            self._depth = depth
            self._add("joint", body)
            self._is_joined = True
        elif (frame := _FRAME.fullmatch(body)) is not None:
            self._depth = depth
            at = Frame(frame[1], int(frame[2]), frame[3] or "<module>")
            self._frames.append(_TraceFrame(at))
        elif self._awaits_error and body.startswith("  "):
            # Without a frame, lines before it were left out.
            self._add_to_frame(body)
        elif self._awaits_error and body:
            self._add_frames(is_last=True)
            self._depth, self._awaits_error, self._messages = depth, False, 0
            self._add("error", body)
        elif body and self._rows:
            self._messages += 1
            if self._messages <= _MOST_MESSAGE:
                self._add("message", body)
            elif self._messages == _MOST_MESSAGE + 1:
                self._add("library", "… more lines in the log")

    def end(self) -> tuple[TraceRow, ...]:
        """Return the rows."""
        self._add_frames(is_last=True)
        return tuple(self._rows)

    def _add(self, kind: Kind, text: str) -> None:
        # The first group is drawn with a bar too.
        self._rows.append(TraceRow(kind, text, max(0, self._depth - 1)))

    def _add_to_frame(self, text: str) -> None:
        """Add a line of source, or a count of repetitions, to the last frame, if there is one."""
        if not self._frames:
            return
        last, repeated = self._frames[-1], _REPEATED.fullmatch(text)
        if repeated is not None:
            self._frames[-1] = replace(last, times=last.times + int(repeated[1]))
        elif not _MARKS.fullmatch(text) and len(last.source) < _MOST_SOURCE:
            self._frames[-1] = replace(last, source=(*last.source, text.strip()))

    def _add_frames(self, is_last: bool) -> None:
        """Add the rows of the frames so far; a library's last one too if the error follows."""
        frames, self._frames = list(_without_recursion(self._frames)), []
        runs = [list(run) for _, run in groupby(frames, lambda f: package_of(f.frame.file) is None)]
        for number, run in enumerate(runs, 1):
            shown = run
            if package_of(run[0].frame.file) is not None:
                shown = run[-1:] if is_last and number == len(runs) else []
                folded = run[: len(run) - len(shown)]
                if folded:
                    count = sum(f.times for f in folded)
                    self._add("library", folded_text([f.frame for f in folded], count))
            for frame in shown:
                self._add_frame(frame)

    def _add_frame(self, frame: _TraceFrame) -> None:
        at, package = frame.frame, package_of(frame.frame.file)
        is_own, path = package is None, file_name(at)
        if is_own and self._folder and at.file.startswith(self._folder):
            path = at.file.removeprefix(self._folder)
        elif package and f"/{package}/" in at.file:
            path = f"{package}/{at.file.rpartition(f'/{package}/')[2]}"
        self._add("frame" if is_own else "library", f"{path}:{at.line}{function_text(at)}")
        for line in frame.source:
            self._add("source" if is_own else "library", f"    {line}")
        if frame.times > 1:
            cycle = "" if frame.cycle == 1 else f"the last {frame.cycle} frames "
            self._add("library", f"… {cycle}repeated {units.counted(frame.times - 1, 'time')}")


def _without_recursion(frames: Sequence[_TraceFrame]) -> Iterator[_TraceFrame]:
    """Yield frames that repeat, alone or several in turn, once; the last of them has the count."""
    places = [frame.frame for frame in frames]
    position = 0
    while position < len(frames):
        length = 1
        for cycle in range(1, _LONGEST_CYCLE + 1):
            end = position + cycle
            while places[end : end + cycle] == places[position : position + cycle]:
                end += cycle
            if end - position >= _LEAST_CYCLES * cycle:
                length = cycle
                break
        else:
            end = position + 1
        *others, last = frames[position : position + length]
        yield from others
        times = sum(frame.times for frame in frames[position:end]) // length
        yield replace(last, times=times, cycle=length)
        position = end
