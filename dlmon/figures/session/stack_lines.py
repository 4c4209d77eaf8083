"""Where the processes of a run are, or were while no batch came, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlmon.records import ProcessStack, SeenAt, Stack, ThreadStack
from dlmon.records.stacks import function_text, place_text

_FEW_SAMPLES = 0.7
"""With a smaller share of the samples that were due, something held them up."""
_MOSTLY = 0.6
"""A place that was seen less often than that is not the only one that is named."""


def stack_text(stack: Stack) -> str:
    """Say where the thread that trains was: train.py:88 in save → torch/serialization.py in save.

    The number in parentheses says in how many of the samples it was there.
    """
    if not stack.places:
        return "where it was could not be seen"
    first, *others = stack.places
    text = f"{seen_text(first)} ({first.looks:,} of {stack.looks:,} samples)"
    if others and first.looks < _MOSTLY * stack.looks:
        text += f", {seen_text(others[0])} ({others[0].looks:,})"
    if stack.looks < _FEW_SAMPLES * stack.due:
        held = "code that is not Python's held its lock at the others"
        text += f"; {stack.looks:,} of {stack.due:,} samples were taken: {held}"
    if stack.held:
        text += f"; at {stack.held:,} of them code that is not Python's held its lock"
    return text


def seen_text(seen: SeenAt) -> str:
    """Say where a thread was seen: the line of the script, and what that called."""
    return place_text(seen.script, seen.inner)


def process_name(stack: ProcessStack) -> str:
    """Return what a process is called: rank 1, process 4312."""
    process = f"process {stack.pid}"
    name = f"rank {stack.rank}" if stack.rank is not None else stack.worker
    return process if name is None else f"{name}, {process}"


def thread_place(thread: ThreadStack) -> str:
    """Say where a thread is."""
    if not thread.frames:
        return "in no Python code"
    return place_text(thread.script, thread.frames[0])


def stack_lines(stacks: Sequence[ProcessStack]) -> Iterator[tuple[str, bool]]:
    """Yield the lines of all processes, each with whether it is the heading of one.

    A thread that has no line of the script, as those of a library, has one line.
    """
    for stack in stacks:
        if stack.threads is None:
            yield f"{process_name(stack)}: {stack.why.get('threads', 'it did not answer')}", True
            continue
        first = stack.threads[0] if stack.threads else None
        late = stack.why.get("threads")
        said = f"; {late}, as code that is not Python's holds its lock" if late else ""
        yield f"{process_name(stack)}: {thread_place(first) if first else 'no threads'}{said}", True
        for thread in stack.threads:
            trains = ", which trains" if thread.trains else ""
            if thread.script is None and not thread.trains:
                yield f"  thread {thread.name}: {thread_place(thread)}", False
                continue
            yield f"  thread {thread.name}{trains}", False
            for frame in thread.frames:
                mark = ">" if frame == thread.script else " "
                yield f"  {mark} {frame.file}:{frame.line}{function_text(frame)}", False
