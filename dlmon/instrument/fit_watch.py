"""Knows what of Keras runs in this process, and counts the batches that a script trains one by one.

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
from types import ModuleType
from typing import Any

from dlmon.instrument.facts import framework_of, parameters_of, qualities_of
from dlmon.instrument.loaders import leading_size
from dlmon.instrument.loops import Steps
from dlmon.instrument.reporter import Reporter, wrap

OWNER = "keras"
_NO_LENGTH = "the script trains batches one by one"


class KerasRun:
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
        self.running: list[KerasRun] = []
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

    def enter(self, activity: KerasRun, framework: str, trains: bool) -> KerasRun | None:
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

    def leave(self, activity: KerasRun) -> None:
        """Let something have ended."""
        if activity in self.running:
            del self.running[self.running.index(activity) :]
            if not self.running:
                self.reporter.let_go(OWNER)


@cache
def watch_of(reporter: Reporter) -> FitWatch:
    """Return what watches Keras for a reporter."""
    return FitWatch(reporter)


def watch_single_batches(module: ModuleType, reporter: Reporter) -> None:
    """Count the batches of `train_on_batch`: of a trainer of Keras 3 or of tf_keras's model.

    Args:
        module: `keras.src.backend.<backend>.trainer` or `tf_keras.src.engine.training`, just
            imported.
        reporter: the one of this process.
    """
    package = module.__name__.partition(".")[0]
    for made in list(vars(module).values()):
        is_its = isinstance(made, type) and made.__module__ == module.__name__
        if is_its and "train_on_batch" in vars(made):
            batches = SingleBatches(watch_of(reporter), package)
            wrap(made, "train_on_batch", reporter, before=batches.began, after=batches.ended)


class SingleBatches(KerasRun):
    """The batches that are trained one by one with Keras's `train_on_batch`.

    They are one long epoch of which nobody knows the length, until something else begins.

    Args:
        watch: what else runs.
        package: keras or tf_keras.
    """

    def __init__(self, watch: FitWatch, package: str) -> None:
        super().__init__()
        self._watch, self._reporter, self._clock = watch, watch.reporter, watch.clock
        self._package = package
        self._is_described = self._ends_with_process = False
        self._steps = Steps(self._reporter, self._clock)

    def began(self, model: Any, *arguments: Any, **named: Any) -> bool:
        if self in self._watch.running:
            # Within an evaluation that is not over it is not counted.
            return self._watch.running[-1] is self and self._reporter.take(OWNER)
        try:
            self._watch.enter(self, self._package, trains=True)
        except LookupError:
            return False
        self._begin_loop(model)
        return True

    def _begin_loop(self, model: Any) -> None:
        now = self._clock()
        self._reporter.enter("training" if self._watch.is_compiled(model) else "compiling", now)
        unknown = ("batch_size", "samples_per_epoch", "steps_per_epoch", "epochs")
        parameters = parameters_of(model)
        self._is_described = parameters is not None
        qualities = qualities_of(model, self._package)
        why = {**dict.fromkeys(unknown, _NO_LENGTH), **qualities.pop("why", {})}
        self._reporter.begin_loop(parameters=parameters, has_epochs=False, why=why, **qualities)
        self._steps.begin_epoch(now)
        self.in_epoch, self.has_batches = True, False
        if not self._ends_with_process:
            self._ends_with_process = True
            self._reporter.at_close(self._end_with_process)

    def ended(self, counts: bool, logs: Any, model: Any, *arguments: Any, **named: Any) -> None:
        """Count a batch that ended, of which Keras says so much."""
        if not counts or not self.in_epoch:
            return
        samples = arguments[0] if arguments else named.get("x")
        self._steps.step(leading_size(samples), lambda: _named(logs, model))
        if not self.has_batches:
            self.has_batches = True
            self._watch.has_trained(model)
            if not self._is_described:
                self._reporter.describe_loop(parameters=parameters_of(model))
        # Something else may report, should it ask before the next batch.
        self._reporter.take(OWNER, self.abandon)

    def abandon(self) -> None:
        """End the epoch: something else begins."""
        if self.in_epoch:
            self.in_epoch = False
            self._steps.end_epoch({}, cut=True)
            self._reporter.end_loop()
        self._watch.leave(self)

    def _end_with_process(self) -> None:
        if self in self._watch.running:
            self.abandon()


def _named(logs: Any, model: Any) -> dict[str, Any]:
    """Return what `train_on_batch` returned by name: it is a dict, a list, or the loss alone."""
    if isinstance(logs, dict):
        return dict(logs)
    if not isinstance(logs, (list, tuple)):
        return {} if logs is None else {"loss": logs}
    names = getattr(model, "metrics_names", ())
    return dict(zip(names, logs)) if len(names) == len(logs) else {}  # noqa: B905 - Python 3.10
