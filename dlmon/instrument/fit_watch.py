"""Knows what of Keras runs in this process.

Keras calls no callback when a `fit` ends by an exception: its list of callbacks goes then; or,
where a traceback still holds that, it ends when something else trains.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from dlmon.instrument.keras_facts import framework_of
from dlmon.instrument.reporter import Reporter

OWNER = "keras"


class Activity:
    """Something that a `FitWatch` has running: a fit, a pass, or batches one by one."""

    in_epoch = False
    """Whether batches of an epoch run."""
    has_batches = False
    """Whether the epoch's first batch has ended, and compiling with it."""
    thread = 0

    def abandon(self) -> None:
        """Take note that it was left by an exception, or that something else begins."""


class FitWatch:
    """What of Keras runs in this process, the innermost last."""

    def __init__(self, reporter: Reporter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.reporter, self.clock = reporter, clock
        self.running: list[Activity] = []
        # For each function that has trained a batch, the sizes that it was compiled for.
        self._compiled: weakref.WeakKeyDictionary[Any, set[int | None]] = (
            weakref.WeakKeyDictionary()
        )
        os.register_at_fork(after_in_child=self.running.clear)

    def is_compiled(self, model: Any, size: int | None = None) -> bool:
        """Return whether a model has trained before, with batches of a size where that matters."""
        function = getattr(model, "train_function", None)
        return function is not None and size in self._compiled.get(function, ())

    def has_trained(self, model: Any, size: int | None = None) -> None:
        """Take note that a model has trained a batch, and so is compiled."""
        function = getattr(model, "train_function", None)
        if function is not None:
            self._compiled.setdefault(function, set()).add(size)

    def enter(self, activity: Activity, framework: str, trains: bool) -> Activity | None:
        """Let something run, unless something else reports; return what it runs within.

        What trains ends whatever else ran.

        Raises:
            LookupError: nothing of it is to be reported.
        """
        activity.thread = threading.get_ident()
        for other in reversed(self.running.copy()):
            if other.thread != activity.thread:
                raise LookupError("something runs in another thread")
            if trains or other is activity:
                other.abandon()
        started = self.reporter.take(OWNER) and self.reporter.start(*framework_of(framework))
        if not started:
            raise LookupError("something else reports, or nobody listens")
        outer = self.running[-1] if self.running else None
        self.running.append(activity)
        return outer

    def leave(self, activity: Activity) -> None:
        """Let something have ended."""
        if activity in self.running:
            del self.running[self.running.index(activity) :]
            if not self.running:
                self.reporter.let_go(OWNER)


@cache
def watch_of(reporter: Reporter) -> FitWatch:
    """Return what watches Keras for a reporter."""
    return FitWatch(reporter)
