"""Reports the batches that a script trains one by one with Keras's `train_on_batch`.

They are one long epoch of which nobody knows the length, until something else begins.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dlmon.instrument.around import wrap
from dlmon.instrument.fit_watch import OWNER, Activity, FitWatch, watch_of
from dlmon.instrument.keras_facts import parameters_of, qualities_of
from dlmon.instrument.loaders import leading_size
from dlmon.instrument.loops import Steps
from dlmon.instrument.reporter import Reporter

_NO_LENGTH = "the script trains batches one by one"


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


class SingleBatches(Activity):
    """The batches that are trained one by one.

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
