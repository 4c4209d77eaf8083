"""The code that the processes of a run execute, or executed during a pause, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlmon.records import ProcessStack, Stack, ThreadStack
from dlmon.records.stacks import function_text, place_text

_FEW_SAMPLES = 0.7
"""If a smaller share of the due samples was taken, something blocked sampling."""
_MOSTLY = 0.6
"""If the first line has a smaller share of the samples, name a second one, too."""


def stack_text(stack: Stack) -> str:
    """Say where the training thread was: train.py:88 in save → torch/serialization.py in save.

    The number in parentheses is the number of samples that saw it there.
    """
    if not stack.places:
        return "where it was could not be seen"
    first, *rest = stack.places
    text = f"{place_text(first.script, first.inner)} ({first.looks:,} of {stack.looks:,} samples)"
    if rest and first.looks < _MOSTLY * stack.looks:
        text += f", {place_text(rest[0].script, rest[0].inner)} ({rest[0].looks:,})"
    if stack.looks < _FEW_SAMPLES * stack.due:
        held = "code that is not Python's held its lock at the others"
        text += f"; {stack.looks:,} of {stack.due:,} samples were taken: {held}"
    if stack.held:
        text += f"; at {stack.held:,} of them code that is not Python's held its lock"
    return text


def process_name(stack: ProcessStack) -> str:
    """Return the name of a process: rank 1, process 4312."""
    process = f"process {stack.pid}"
    name = f"rank {stack.rank}" if stack.rank is not None else stack.worker
    return process if name is None else f"{name}, {process}"


def thread_place(thread: ThreadStack) -> str:
    """Return the place of a thread in its code."""
    if not thread.frames:
        return "in no Python code"
    return place_text(thread.script, thread.frames[0])


def stack_lines(stacks: Sequence[ProcessStack]) -> Iterator[tuple[str, bool]]:
    """Yield the lines of all processes, each with whether it is a heading.

    A thread outside the script, such as a library's, takes one line.
    """
    for stack in stacks:
        if stack.threads is None:
            yield f"{process_name(stack)}: {stack.why.get('threads', 'it did not answer')}", True
            continue
        first = stack.threads[0] if stack.threads else None
        late = stack.why.get("threads")
        why_late = f"; {late}, as code that is not Python's holds its lock" if late else ""
        place = thread_place(first) if first else "no threads"
        yield f"{process_name(stack)}: {place}{why_late}", True
        for thread in stack.threads:
            trains = ", which trains" if thread.trains else ""
            if thread.script is None and not thread.trains:
                yield f"  thread {thread.name}: {thread_place(thread)}", False
                continue
            yield f"  thread {thread.name}{trains}", False
            for frame in thread.frames:
                mark = ">" if frame == thread.script else " "
                yield f"  {mark} {frame.file}:{frame.line}{function_text(frame)}", False
