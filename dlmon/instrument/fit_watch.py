"""Track the Keras runs of this process, and count the batches of `train_on_batch`.

Keras calls no hook if an exception ends a `fit`. That fit is over once its list of callbacks is
freed; if a traceback holds the list, once another run trains.
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
    """A `fit`, `evaluate` or `predict`, or batches trained one by one."""

    in_epoch = False
    """Set while batches of an epoch run."""
    has_batches = False
    """Set once a batch has ended, and compiling with it."""
    thread = 0

    def abandon(self) -> None:
        """End the run: an exception has left it, or another run begins."""


class FitWatch:
    """The Keras runs of this process, the innermost last."""

    def __init__(self, reporter: Reporter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.reporter, self.clock = reporter, clock
        self.running: list[KerasRun] = []
        # The batch sizes that each train function was compiled for.
        self._compiled: weakref.WeakKeyDictionary[Any, set[int | None]] = (
            weakref.WeakKeyDictionary()
        )
        os.register_at_fork(after_in_child=self.running.clear)

    def is_compiled(self, model: Any, size: int | None = None) -> bool:
        """Return whether a model has trained before; on JAX, with batches of this size."""
        function = getattr(model, "train_function", None)
        return function is not None and size in self._compiled.get(function, ())

    def note_training(self, model: Any, size: int | None = None) -> None:
        """Note that a model has trained a batch, and so is compiled."""
        function = getattr(model, "train_function", None)
        if function is not None:
            self._compiled.setdefault(function, set()).add(size)

    def enter(self, run: KerasRun, framework: str, trains: bool) -> KerasRun | None:
        """Add a run, and return the run around it. A run that trains ends all others.

        Raises:
            LookupError: the run is not to be reported.
        """
        run.thread = threading.get_ident()
        for other in reversed(self.running.copy()):
            if other.thread != run.thread:
                raise LookupError("something runs in another thread")
            if trains or other is run:
                other.abandon()
        started = self.reporter.take(OWNER) and self.reporter.start(*framework_of(framework))
        if not started:
            raise LookupError("something else reports, or nobody listens")
        outer = self.running[-1] if self.running else None
        self.running.append(run)
        return outer

    def leave(self, run: KerasRun) -> None:
        """Remove a run, with the runs inside it."""
        if run in self.running:
            del self.running[self.running.index(run) :]
            if not self.running:
                self.reporter.let_go(OWNER)


@cache
def watch_of(reporter: Reporter) -> FitWatch:
    """Return the one `FitWatch` of a reporter."""
    return FitWatch(reporter)


def watch_single_batches(module: ModuleType, reporter: Reporter) -> None:
    """Count the batches of `train_on_batch`.

    `module` is keras.src.backend.<backend>.trainer or tf_keras.src.engine.training.
    """
    package = module.__name__.partition(".")[0]
    for kind in list(vars(module).values()):
        is_defined_here = isinstance(kind, type) and kind.__module__ == module.__name__
        if is_defined_here and "train_on_batch" in vars(kind):
            batches = SingleBatches(watch_of(reporter), package)
            wrap(kind, "train_on_batch", reporter, before=batches.began, after=batches.ended)


class SingleBatches(KerasRun):
    """The batches of `train_on_batch` of keras or tf_keras: one epoch of unknown length."""

    def __init__(self, watch: FitWatch, package: str) -> None:
        super().__init__()
        self._watch, self._reporter, self._clock = watch, watch.reporter, watch.clock
        self._package = package
        self._is_described = self._ends_with_process = False
        self._steps = Steps(self._reporter, self._clock)

    def began(self, model: Any, *arguments: Any, **named: Any) -> bool:
        if self in self._watch.running:
            # Not counted inside an evaluation.
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
        if not counts or not self.in_epoch:
            return
        samples = arguments[0] if arguments else named.get("x")
        self._steps.step(leading_size(samples), lambda: _metrics_by_name(logs, model))
        if not self.has_batches:
            self.has_batches = True
            self._watch.note_training(model)
            if not self._is_described:
                self._reporter.describe_loop(parameters=parameters_of(model))
        # Another reporter may take over before the next batch.
        self._reporter.take(OWNER, self.abandon)

    def abandon(self) -> None:
        if self.in_epoch:
            self.in_epoch = False
            self._steps.end_epoch({}, cut=True)
            self._reporter.end_loop()
        self._watch.leave(self)

    def _end_with_process(self) -> None:
        if self in self._watch.running:
            self.abandon()


def _metrics_by_name(logs: Any, model: Any) -> dict[str, Any]:
    """Return the result of `train_on_batch`, a dict, a list or the loss alone, as a dict."""
    if isinstance(logs, dict):
        return dict(logs)
    if not isinstance(logs, (list, tuple)):
        return {} if logs is None else {"loss": logs}
    names = getattr(model, "metrics_names", ())
    return dict(zip(names, logs)) if len(names) == len(logs) else {}  # noqa: B905 - Python 3.10
