"""The last lines that the workload printed, and what a person should know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from rich.cells import chop_cells
from textual import events

from dlmon.records import Alert, Notice, Output
from tui.widgets.lines import MUTED, PLAIN, STRONG, TextRow, cut_inside, fit
from tui.widgets.tables import FollowingLines

_Line = Output | Notice | Alert


# 2026-11-20 14:56:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] …
# I0000 00:00:1763650560.123456    1234 gpu_device.cc:2022] …
_LEVEL = re.compile(
    r"(?:\d{4}-\d\d-\d\d [\d:.]+: (?P<old>[IWEF]) |(?P<new>[IWEF])\d{4} [\d:.]+ +\d+ )"
    r"(?P<file>\S+\.(?:cc|h|cu)):\d+\] (?P<text>.*)"
)
_TROUBLE = re.compile(
    r"\b(?:error|errors|fail\w*|could not|couldn't|can ?not|can't|unable|not be used|invalid|"
    r"denied|out of memory|oom|exception|traceback|abort\w*|fatal|missing|no such|warning)\b|"
    r"CUDA_ERROR|_ERROR\b",
    re.IGNORECASE,
)
# What sounds like trouble, and is printed by every healthy start.
_HARMLESS = re.compile(
    r"Unable to register (?P<plugin>cuDNN|cuFFT|cuBLAS) factory: Attempting to register factory "
    r"for plugin (?P=plugin) when one has already been registered"
    r"|computation placer already registered\. Please check linkage and avoid linking the same "
    r"target more than once\."
    r"|oneDNN custom operations are on\. You may see slightly different numerical results due to "
    r"floating-point round-off errors from different computation orders\..*"
    r"|TF-TRT Warning: Could not find TensorRT"
)
_WITHOUT_LEVEL = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    r"|To enable the following instructions: .*rebuild TensorFlow with the appropriate compiler "
    r"flags\."
)


def is_startup_message(line: Output) -> bool:
    """Return whether a line is one that every start of TensorFlow, CUDA or XLA prints."""
    text = line.text.strip()
    if _WITHOUT_LEVEL.fullmatch(text):
        return True
    found = _LEVEL.fullmatch(text)
    if found is None:
        return False
    if _HARMLESS.fullmatch(found["text"].strip()):
        return True
    return (found["old"] or found["new"]) == "I" and not _TROUBLE.search(found["text"])


def startup_text(count: int) -> str:
    """Name the messages that are folded, and where they are."""
    return f"{count} start-up message{'' if count == 1 else 's'} (in the log: l)"


class OutputPane(FollowingLines):
    """Output and notices in the order of time, newest at the bottom, unless one scrolls back."""

    DEFAULT_CLASSES = "panel"

    _lines: Sequence[_Line] = ()
    _empty = ""
    _folded = True
    _shown: tuple[object, ...] = ()
    _rows_of_width: tuple[int, list[TextRow]] = (-1, [])

    def show(
        self,
        output: tuple[Output, ...],
        notices: tuple[Notice | Alert, ...],
        running: bool = True,
        until_ns: int | None = None,
        folded: bool = True,
    ) -> None:
        """Show lines of output with the notices among them; one that is over prints no more.

        Args:
            output: the lines, oldest first.
            notices: those of dlmon.
            running: whether more may come.
            until_ns: when the start was over; None while it isn't.
            folded: whether what libraries print at the start is one line, and no line is broken.
        """
        self._empty = "nothing printed yet" if running else "nothing was printed"
        shown = (*output[:1], *output[-1:], len(output), notices, until_ns, folded)
        if shown != self._shown:
            self._shown, self._folded = shown, folded
            lines = fold_startup(output, until_ns) if folded else output
            before, self._lines = self._lines, sorted((*lines, *notices), key=lambda line: line.t)
            self._stay(before)
        self.redraw()

    def _stay(self, before: Sequence[_Line]) -> None:
        """Keep in view what one has scrolled to: lines come at the end, and go at the beginning."""
        width, rows = self._rows_of_width
        self._rows_of_width = (-1, [])
        if self._scrolled and before:
            new = takewhile(lambda line: line != before[-1], reversed(self._lines))
            to_end = len(rows) - self._first + sum(len(self._rows_of(line, width)) for line in new)
            self._first = len(self._all_rows(width)) - to_end

    def _all_rows(self, width: int) -> list[TextRow]:
        """Return all lines as rows of a width."""
        if self._rows_of_width[0] != width:
            rows = [row for line in self._lines for row in self._rows_of(line, width)]
            self._rows_of_width = width, rows
        return self._rows_of_width[1]

    def draw(self, width: int, height: int) -> list[TextRow]:
        """Return the newest lines, or those where one has scrolled to."""
        if width < 1 or height < 1:
            return []
        if not self._lines:
            return [((fit(self._empty, width), MUTED),)]
        rows = self._all_rows(width)
        seen = self.in_view(len(rows), height)
        return rows[seen.start : seen.stop]

    def redraw(self) -> None:
        """Draw again, and say how many lines lie below."""
        super().redraw()
        below = len(self._rows_of_width[1]) - self._seen.stop if self._scrolled else 0
        self.set_titles("Output", f"{below} newer below" if below else "")

    def on_resize(self, event: events.Resize) -> None:
        """Say again how many lines lie below."""
        self.redraw()

    def _rows_of(self, line: _Line, width: int) -> list[TextRow]:
        """Return a line, broken in the whole log, else cut."""
        mark, style = "", PLAIN
        if not isinstance(line, Output):
            mark, style = "▲ ", STRONG
        elif line.stream != "stdout":
            style = MUTED
        room = max(1, width - len(mark))
        parts = [cut_inside(line.text, room)] if self._folded else broken(line.text, room)
        return [
            ((f"{' ' * len(mark) if n else mark}{part}", style),) for n, part in enumerate(parts)
        ]


def fold_startup(output: Iterable[Output], until_ns: int | None) -> tuple[Output, ...]:
    """Return lines with one in place of all that libraries print at the start.

    It stands where the first of them was.

    Args:
        output: the lines, oldest first.
        until_ns: when the start was over; None while it isn't.
    """
    kept: list[Output] = []
    first: int | None = None
    count = 0
    for line in output:
        is_early = until_ns is None or line.t <= until_ns
        if is_early and is_startup_message(line):
            count += 1
            if first is None:
                first = len(kept)
                kept.append(line)
        else:
            kept.append(line)
    if first is not None and count > 1:
        kept[first] = replace(kept[first], stream="stderr", text=startup_text(count))
    return tuple(kept)


def broken(text: str, width: int) -> list[str]:
    """Return a text in parts of at most `width` cells, broken at blanks that are not far off."""
    parts = []
    while text:
        part = next(iter(chop_cells(text, width)), text) or text
        blank = part.rfind(" ")
        if len(part) < len(text) and text[len(part)] != " " and blank > len(part) // 2:
            part = part[:blank]
        parts.append(part)
        text = text[len(part) :].removeprefix(" ")
    return parts or [""]
