"""Knows what of Keras runs in this process, and what was left by an exception.

Keras calls no callback when a `fit` ends by an exception: its list of callbacks goes then; or,
where a traceback still holds that, its call is no longer under way when something else begins.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from dlmon.instrument.keras_facts import framework_of
from dlmon.instrument.reporter import Reporter

OWNER = "keras"
_PACKAGES = ("keras", "tf_keras")
# Inside a script, this package has another name than elsewhere.
_OURS = __name__.partition(".")[0] + "."
_LISTS = ".callbacks"


class Activity:
    """Something that a `FitWatch` has running: a fit, a pass, or batches one by one."""

    in_epoch = False
    """Whether batches of an epoch run."""
    has_batches = False
    """Whether the epoch's first batch has ended, and compiling with it."""
    is_silent = False
    """Whether nothing of what runs within it is reported, as it isn't itself."""

    def __init__(self) -> None:
        self.thread = 0
        self.frame: tuple[int, Any] | None = None
        """The call of Keras's that it runs in: its frame's id and its code."""

    def resume(self) -> None:
        """Go on: what ran within it has ended."""

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

    def enter(self, activity: Activity, framework: str) -> Activity | None:
        """Let something run, unless something else reports; return what it runs within.

        Raises:
            LookupError: nothing of it is to be reported.
        """
        activity.thread, calls = threading.get_ident(), _calls_under_way()
        # What called the callbacks: Keras, or a loop of a person's.
        outside = (one for one in calls if not one[1].startswith(_OURS) and _LISTS not in one[1])
        call, module = next(outside, (None, ""))
        activity.frame = call if module.partition(".")[0] in _PACKAGES else None
        if activity in self.running:
            activity.abandon()
        stack = {call for call, _ in calls} - {activity.frame}
        for other in reversed(self.running.copy()):
            if other.thread != activity.thread:
                raise LookupError("something runs in another thread")
            if other.frame is not None and other.frame not in stack:
                other.abandon()
            elif other.is_silent:
                raise LookupError("what it runs within is not reported")
        started = self.reporter.take(OWNER) and self.reporter.start(*framework_of(framework))
        if not started:
            raise LookupError("something else reports, or nobody listens")
        outer = self.running[-1] if self.running else None
        self.running.append(activity)
        return outer

    def leave(self, activity: Activity) -> Activity | None:
        """Let something have ended; return what it ran within."""
        if activity not in self.running:
            return None
        del self.running[self.running.index(activity) :]
        outer = self.running[-1] if self.running else None
        if outer is None:
            self.reporter.let_go(OWNER)
        else:
            outer.resume()
        return outer


@cache
def watch_of(reporter: Reporter) -> FitWatch:
    """Return what watches Keras for a reporter."""
    return FitWatch(reporter)


def _calls_under_way() -> list[tuple[tuple[int, Any], str]]:
    """Return the calls in this thread, the innermost first, each with its module's name."""
    found = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        found.append(((id(frame), frame.f_code), frame.f_globals.get("__name__", "")))
        frame = frame.f_back
    return found
