"""The stacks of all processes of a run at one moment, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from dlmon.figures import units
from dlmon.figures.session.stack_lines import is_with_ranks, standing_stack
from dlmon.figures.session.stall import marked, source_at, stall_of, waiting_at
from dlmon.figures.session.tracebacks import folded_text
from dlmon.records import ProcessStack, Record, SourceLines, ThreadStack
from dlmon.records.stacks import file_name, function_text, package_of, place_text
from dlmon.session.gaps import in_order, stacks_in
from dlmon.session.snapshot import Snapshot, is_stalled

_MOST_FRAMES = 3
StackLine = tuple[str, Literal["", "dim", "strong"]]
"""A line and its style."""


def stack_lines(
    answer: Sequence[Record],
    is_folded: bool = False,
    are_short: bool = False,
    is_long: bool = False,
) -> Iterator[StackLine]:
    """Yield the lines of all processes; those that don't wait for other ranks come first.

    Args:
        answer: the stacks, and the source at their lines.
        is_folded: frames of libraries side by side take one line.
        are_short: files of the script have their names without folders.
        is_long: show the lines around each of the script, and several of each other thread.
    """
    sources = [record for record in answer if isinstance(record, SourceLines)]
    stacks = in_order(record for record in answer if isinstance(record, ProcessStack))
    before: list[StackLine] = []
    for number, stack in enumerate(sorted(stacks, key=_waits_for_ranks)):
        if number:
            yield "", ""
        first = stack.threads[0] if stack.threads else None
        yield _heading(stack, first, sources), "strong"
        lines = list(_lines_of(stack.threads or (), sources, is_folded, are_short, is_long))
        if lines and lines == before:
            yield "  the same lines as above", "dim"
        else:
            yield from lines
        before = lines


def stacks_title(answer: Sequence[Record]) -> str:
    """Write how many processes and threads answered; empty for none."""
    stacks = [record for record in answer if isinstance(record, ProcessStack)]
    threads = sum(len(stack.threads or ()) for stack in stacks)
    counts = units.counted(len(stacks), "process"), units.counted(threads, "thread")
    return ", ".join(counts) if stacks else ""


def standing_text(snapshot: Snapshot, is_running: bool) -> tuple[str, tuple[str, ...]]:
    """Return how long a run has stalled, or did last; the samples at its line; what to look at."""
    pause = snapshot.pause if is_running else snapshot.last_stall
    stack = pause and standing_stack(stacks_in(pause.start, pause.end, snapshot.stacks))
    if not pause or not stack or not stack.places:
        return "", ()
    if not is_stalled(pause.seconds, snapshot.regular_steps):
        return "", ()
    first = stack.places[0]
    share = units.share(first.looks / stack.looks)
    place = place_text(first.script, first.inner)
    title = f"{'STALLED' if is_running else 'LAST STALL'} {units.short_clock(pause.seconds)}"
    stall = stall_of(pause, snapshot)
    advice = stall.advice if stall else ""
    text = f"{share} of {stack.looks:,} samples at {place}"
    return title, (text, *[f"→ {advice}"] * bool(advice))


def _waits_for_ranks(stack: ProcessStack) -> tuple[bool, bool]:
    frames = stack.threads[0].frames if stack.threads else ()
    return stack.worker is not None, bool(frames) and is_with_ranks(frames[0])


def _heading(stack: ProcessStack, first: ThreadStack | None, sources: Sequence[SourceLines]) -> str:
    """Return where a process is: rank 1: train.py:9 in main, waits for a lock (pid 4312)."""
    rank = stack.worker if stack.rank is None else f"rank {stack.rank}"
    why = stack.why.get("threads")
    if first is None:
        place = "no threads" if stack.threads is not None else why or "it did not answer"
    else:
        place = _place_of(first)
        at = first.script or next(iter(first.frames), None)
        waits = waiting_at(first.frames[0], at, source_at(at, sources)[0]) if at else ""
        place += f", {waits}" if waits else ""
        place += f"; {why}, as code that is not Python's holds its lock" if why else ""
    return f"{f'{rank}: ' if rank else ''}{place} (pid {stack.pid})"


def _place_of(thread: ThreadStack) -> str:
    return place_text(thread.script, thread.frames[0]) if thread.frames else "in no Python code"


def _lines_of(
    threads: Sequence[ThreadStack],
    sources: Sequence[SourceLines],
    is_folded: bool,
    are_short: bool,
    is_long: bool,
) -> Iterator[StackLine]:
    """Yield the threads with the source at their lines; in short, others in a line each."""
    for thread in threads:
        if thread.script is None and not thread.trains:
            yield f"  thread {thread.name}: {_place_of(thread)}", "dim"
            for frame in thread.frames[1:_MOST_FRAMES] if is_long else ():
                yield f"    {place_text(None, frame)}", "dim"
            continue
        trains = ", which trains" if thread.trains else ""
        yield f"  thread {thread.name}{trains}, innermost frame first", "dim"
        for is_own, group in groupby(thread.frames, lambda frame: package_of(frame.file) is None):
            frames = list(group)
            if is_folded and not is_own:
                yield f"    {folded_text(frames, len(frames))}", "dim"
                continue
            for frame in frames:
                mark = "▶" if frame == thread.script else " "
                file = file_name(frame) if are_short else frame.file
                text = f"  {mark} {file}:{frame.line}{function_text(frame)}"
                yield text, "strong" if is_own else "dim"
                if not is_own:
                    continue
                source, note = source_at(frame, sources)
                is_around = is_long or frame == threads[0].script
                here = [code.strip() for _, code, is_here in source if is_here]
                rows = marked(source) if is_around else here
                yield from ((f"        {row}", "strong" if row[:1] == "▶" else "") for row in rows)
                if note and frame == thread.script:
                    yield f"        {note}", "dim"
