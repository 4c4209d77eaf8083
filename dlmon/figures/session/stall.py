"""Where a stalled run stands: the source there, what it waits for, and what the machine does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import dedent

from dlmon.figures.session.gap_texts import longest_gaps, meanwhile_texts
from dlmon.figures.session.stack_lines import (
    FOR_DEBUGGER,
    rank_prefix,
    standing_stack,
    waiting_text,
)
from dlmon.records import Frame, ProcessStack, SourceLines, StandardInput
from dlmon.records.record import record
from dlmon.records.stacks import place_text
from dlmon.session.gaps import Gap, stacks_in, takes_down_pipeline
from dlmon.session.reasons import PIPELINE_TAKEN_DOWN
from dlmon.session.snapshot import Snapshot

SourceRow = tuple[int, str, bool]
"""The number of a line, its text, and whether the run stands there."""

# What a line waits for that calls no Python code, and one that does.
_READS, _LOCKS = re.compile(r"\binput\(|\bsys\.stdin\b"), re.compile(r"\.acquire\(")
_NEXT_BATCH = re.compile(r"\s*(?:async )?for |.*\bnext\(")
_SAVES = re.compile(r"\.(save|dump|to_csv|write|savez|save_pretrained|save_checkpoint)\(")
_MOST_GAPS = 10
_SEE_DISK = "is the file system full or away (df)?"
CHANGED = "the file changed since the run began"


@record(frozen=True)
class Stall:
    """Where a run stands in a gap between batches.

    Attributes:
        place: the line of the script, and what that called.
        file: the file of that line.
        source: the lines around it; empty if they can't be read.
        note: why they can't be read, or may not be the code that runs.
        waits_for: what it waits for; empty if unknown.
        meanwhile: what the machine does, the most telling first; empty if it was not read.
        asks: it waits for what a person types into its terminal.
    """

    place: str
    file: str
    source: tuple[SourceRow, ...] = ()
    note: str = ""
    waits_for: str = ""
    meanwhile: tuple[str, ...] = ()
    asks: bool = False

    @property
    def source_here(self) -> str:
        """The text of the line where it stands; empty if it can't be read."""
        return _line_here(self.source)

    @property
    def advice(self) -> str:
        """What to look at, by the line where it stands; empty if that tells nothing."""
        return _SEE_DISK if _SAVES.search(self.source_here) else ""

    @property
    def source_lines(self) -> tuple[str, ...]:
        """The lines with their numbers, and a mark at the one where it stands."""
        return marked(self.source)


def marked(source: Sequence[SourceRow]) -> tuple[str, ...]:
    """Return lines with their numbers, and a mark at the one where a run stands."""
    digits = max((len(str(number)) for number, *_ in source), default=0)
    return tuple(
        f"{'▶' if is_here else ' '} {number:>{digits}}  {text}".rstrip()
        for number, text, is_here in source
    )


def stall_of(gap: Gap | None, snapshot: Snapshot) -> Stall | None:
    """Return where a run stands in a gap; None if no process reported that."""
    stack = gap and standing_stack(stacks_in(gap.start, gap.end, snapshot.stacks))
    if not gap or not stack or not stack.places:
        return None
    script, inner = stack.places[0].script, stack.places[0].inner
    at = script or inner
    source, note = source_at(at, snapshot.source_lines)
    here = _line_here(source)
    waits_for = waiting_at(inner, at, source)
    has_keyboard = snapshot.header.standard_input == StandardInput.TERMINAL
    asks = has_keyboard and waits_for == FOR_DEBUGGER
    if inner == at and _READS.search(here):
        asks = has_keyboard
        waits_for = "waits for input from the keyboard" if asks else "waits for its standard input"
    elif waits_for and _NEXT_BATCH.match(here):
        waits_for = f"waits for the next batch{_worker_place(snapshot.worker_stacks, gap)}"
    if takes_down_pipeline(stack, gap.meanwhile, snapshot.model):
        waits_for = PIPELINE_TAKEN_DOWN
    place = rank_prefix(stack, snapshot) + place_text(script, inner)
    return Stall(place, at.file, source, note, waits_for, meanwhile_texts(gap), asks)


def longest_stall(snapshot: Snapshot) -> Stall | None:
    """Return where a run stood in the longest of its gaps whose source is known; else None."""
    stalls = (stall_of(gap, snapshot) for gap in longest_gaps(snapshot.gaps, _MOST_GAPS))
    return next((stall for stall in stalls if stall is not None and stall.source), None)


def _worker_place(stacks: Sequence[ProcessStack], gap: Gap) -> str:
    """Say where a worker of the data loader is in the script; empty if unknown."""
    for stack in stacks:
        script = next((thread.script for thread in stack.threads or () if thread.script), None)
        if script is not None and stack.t > gap.start:
            return f": {stack.worker} is at {place_text(script, script)}"
    return ""


def waiting_at(inner: Frame, at: Frame, source: Sequence[SourceRow]) -> str:
    """Say what a thread waits for at a line of the script; empty if unknown."""
    is_lock = inner == at and _LOCKS.search(_line_here(source))
    return "waits for a lock" if is_lock else waiting_text(inner)


def _line_here(source: Sequence[SourceRow]) -> str:
    return next((text for _, text, is_here in source if is_here), "")


def source_at(at: Frame, sources: Sequence[SourceLines]) -> tuple[tuple[SourceRow, ...], str]:
    """Return the lines around a frame without their common indentation, and a note."""
    of_line = (s for s in reversed(sources) if (s.file, s.line) == (at.file, at.line))
    if (read := next(of_line, None)) is None:
        return (), ""
    if read.lines is None:
        return (), f"its source can't be read: {read.why.get('lines', 'no reason was recorded')}"
    texts = dedent("\n".join(map(str.rstrip, read.lines))).rstrip().split("\n")
    rows = enumerate(texts, read.first)
    source = tuple((number, text, number == read.line) for number, text in rows)
    return source, CHANGED if read.changed else ""
