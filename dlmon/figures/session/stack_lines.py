"""The code that a training thread executed during a pause, as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlmon.records import Frame, Stack
from dlmon.records.stacks import package_of, place_text
from dlmon.session.gaps import Gap, takes_down_pipeline
from dlmon.session.reasons import PIPELINE_TAKEN_DOWN
from dlmon.session.snapshot import Snapshot

_FEW_SAMPLES = 0.7
"""If a smaller share of the due samples was taken, something blocked sampling."""
_MOSTLY = 0.6
"""If the first line has a smaller share of the samples, name a second one, too."""
FOR_DEBUGGER = "waits for input to the debugger"
# By the file of the innermost frame.
_WAITING = (
    (re.compile(r"/torch/distributed/|/horovod/|/jax/.*multihost"), "waits for the other ranks"),
    (re.compile(r"/torch/utils/data/|/tensorflow/python/data/"), "waits for the data loader"),
    (re.compile(r"/(?:pdb|bdb|cmd|code)\.py$"), FOR_DEBUGGER),
    (
        re.compile(r"/(?:(?:subprocess|selectors)\.py$|multiprocessing/)"),
        "waits for another process",
    ),
    (re.compile(r"/(?:threading|queue)\.py$|/concurrent/"), "waits for another thread"),
    (re.compile(r"/(?:socket|ssl)\.py$"), "waits for the network"),
)
# In the backward pass, ranks wait for each other.
_WITH_RANKS = re.compile(rf"{_WAITING[0][0].pattern}|/torch/autograd/")


def waiting_text(inner: Frame) -> str:
    """Say what a thread waits for, by its innermost frame; empty if unknown."""
    if package_of(inner.file) is None:
        # A script may have a queue.py of its own.
        return ""
    return next((text for file, text in _WAITING if file.search(inner.file)), "")


def is_with_ranks(inner: Frame) -> bool:
    """Return whether a thread with this innermost frame may wait for other ranks."""
    return _WITH_RANKS.search(inner.file) is not None


def standing_stack(stacks: Sequence[Stack]) -> Stack | None:
    """Return the first stack that doesn't wait for other ranks, or else the first."""
    seen = (s for s in stacks if s.places and not is_with_ranks(s.places[0].inner))
    return next(seen, next(iter(stacks), None))


def rank_prefix(stack: Stack, snapshot: Snapshot) -> str:
    """Return the rank of a stack, to precede its place; empty for the main process."""
    ranks = {process.trainer.number: process.trainer.rank for process in snapshot.trainers}
    return f"rank {ranks.get(stack.trainer)}: " if stack.trainer else ""


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


def pause_cause(stack: Stack, gap: Gap, snapshot: Snapshot) -> str:
    """Say what a framework does in a gap if that is known, then where the training thread was."""
    known = takes_down_pipeline(stack, gap.meanwhile, snapshot.model)
    place = rank_prefix(stack, snapshot) + stack_text(stack)
    return f"{PIPELINE_TAKEN_DOWN}; {place}" if known else place
