"""Report `fit`, `evaluate` and `predict` from the hooks of a Keras callback.

A script's runs are described from Keras's objects, a workload's from its `FitPlan`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dlmon.instrument.facts import (
    count_of_samples,
    framework_of,
    has_embedding,
    parameters_of,
    qualities_of,
    with_learning_rate,
)
from dlmon.instrument.fit_watch import FitWatch, KerasRun
from dlmon.instrument.keras_data import BatchSizes, claim_latest
from dlmon.instrument.queued import (
    MIN_PAUSE_NS,
    EpochEnd,
    EpochOpened,
    EpochStart,
    Interruption,
    Pause,
)
from dlmon.instrument.reporter import guarded
from dlmon.records import SCRIPT_PHASE, Evaluation, Phase, Validation, finite


@dataclass(frozen=True)
class FitPlan:
    """The plan of a workload; a workload sends its own `Model` and stops on request.

    Attributes:
        training: batch sizes of an epoch, or of a pass of inference.
        validation: batch sizes of a validation.
        evaluation: batch sizes of the evaluation after training.
        phase: the name of the phase in which batches run.
        capped: `--steps` cuts every epoch, so none counts as whole.
        evaluation_capped: `--steps` cuts the evaluation.
    """

    training: BatchSizes
    validation: BatchSizes | None = None
    evaluation: BatchSizes | None = None
    phase: str = "training"
    capped: bool = False
    evaluation_capped: bool = False


_UNKNOWN_SIZES = BatchSizes()


def _nothing() -> None:
    """Count no batch."""


class FitReport(KerasRun):
    """Reports the calls of one list of callbacks.

    Args:
        watch: the other runs of this process.
        package: keras or tf_keras.
        plan: the plan of a workload; None in a script.

    `batch_ended` is the fast path: it is called for every training batch.
    """

    def __init__(self, watch: FitWatch, package: str, plan: FitPlan | None = None) -> None:
        super().__init__()
        self._plan = plan
        self._watch, self._reporter, self._clock = watch, watch.reporter, watch.clock
        self._package = package
        self.model: Any = None
        self.params: Mapping[str, Any] = {}
        self.batch_ended: Callable[[], None] = _nothing
        self.is_due = False
        """Set while `batch_began` has work to do."""
        self.stride = 1
        """Keras's steps_per_execution."""
        self._list: weakref.ref[Any] | None = None
        self._claimed: BatchSizes | None = None
        self._sizes = BatchSizes()
        self._test_sizes = _UNKNOWN_SIZES
        self._mode = ""
        self._outer: KerasRun | None = None
        self._begin = 0
        # When a validation or evaluation began, and when its batches ended.
        self._test_begin = 0
        self._test_ends: list[int] = []
        self._forget_fit()

    def _forget_fit(self) -> None:
        self.batch_ended, self.is_due = _nothing, False
        self.in_epoch = self.has_batches = False
        self.stride = 1
        self._epoch = 0
        self._epoch_start = 0
        self._has_loop = self._is_described = self._follows = False
        self._validation: Any = None
        self._validation_compiled = False
        self._samples: int | None = None
        self._on_tensorflow = False

    def belong_to(self, callbacks: Any) -> None:
        """Belong to a new list of callbacks; once the list is freed, its `fit` is over."""

        @guarded(self._reporter)
        def abandon(reference: Any) -> None:
            if self in self._watch.running:
                self.abandon()

        self._list = weakref.ref(callbacks, abandon)
        self._claimed = claim_latest()

    # Training

    def train_began(self, logs: Any = None) -> None:
        """Open the compile phase, unless this model has trained before."""
        if not self._enter("fit"):
            return
        self._forget_fit()
        # A fit that goes on after it was abandoned keeps its sizes.
        claimed = self._claimed or claim_latest() or self._sizes
        self._sizes = self._plan.training if self._plan else claimed
        self._claimed, self._test_sizes = None, _UNKNOWN_SIZES
        self.stride = self._steps_per_execution()
        self._on_tensorflow = framework_of(self._package)[2] == "tensorflow"
        if self._watch.is_compiled(self.model, self._compiled_size()):
            self._follows = self.has_batches = True
        else:
            self._reporter.enter("compiling", self._begin)

    def _steps_per_execution(self) -> int:
        steps: Any = getattr(self.model, "steps_per_execution", None)
        if steps is None:
            # In tf_keras it is a variable of TensorFlow.
            steps = getattr(self.model, "_steps_per_execution", None)
            to_numpy = getattr(steps, "numpy", None)
            steps = steps if to_numpy is None else to_numpy()
        return int(steps or 1)

    def _compiled_size(self) -> int | None:
        """Return the batch size on JAX, which compiles for each; None elsewhere."""
        on_jax = framework_of(self._package)[2] == "jax"
        return self._sizes.batch_size if on_jax else None

    def epoch_began(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch; Keras sets up its data next."""
        if self not in self._watch.running:
            self.train_began()
        if self._mode != "fit":
            return
        if self.in_epoch:
            self._end_epoch({}, cut=True)
        if not self._has_loop and self._plan is None:
            self._begin_loop(epoch)
        self._epoch_start = self._clock()
        self._start_epoch()
        self.is_due = True

    def _begin_loop(self, epoch: int) -> None:
        sizes, params = self._sizes, self.params
        parameters = parameters_of(self.model)
        self._is_described = parameters is not None
        epochs, steps = params.get("epochs"), params.get("steps")
        facts: dict[str, Any] = {
            "batch_size": sizes.batch_size,
            "samples_per_epoch": sizes.samples_per_epoch,
            "steps_per_epoch": None if steps is None else int(steps),
            "epochs": None if epochs is None else max(0, int(epochs) - epoch),
            "parameters": parameters,
        }
        why = {name: "the script does not say it" for name, fact in facts.items() if fact is None}
        if parameters is None:
            why["parameters"] = "the model is built with its first batch"
        qualities = qualities_of(self.model, self._package)
        why |= qualities.pop("why", {})
        # Without an embedding, integers that look like tokens may be anything.
        tokens = sizes.tokens
        if tokens is not None and tokens[1] is not None and not has_embedding(self.model):
            tokens = sizes.tokens = None
        if tokens is not None:
            facts["sequence"], facts["tokens_inferred"] = tokens
        facts.update(qualities, inferred=sizes.inferred, why=why)
        self._reporter.begin_loop(**facts)
        self._has_loop = True

    def _start_epoch(self) -> None:
        """Report that an epoch begins, and choose the hook that counts its batches."""
        self._epoch, self.in_epoch = self._reporter.next_epoch(), True
        self._validation = self._samples = None
        self._sizes.begin_epoch()
        self.batch_ended = self._count_batch if self.has_batches else self._count_first_batch
        # Keras, or a script's own loop, tells its callbacks the number of batches.
        steps = self.params.get("steps") if self.stride == 1 else None
        self._reporter.send(
            EpochStart(
                epoch=self._epoch,
                t=self._epoch_start,
                sizes=self._sizes,
                stride=self.stride,
                follows=self._follows,
                steps=None if steps is None else int(steps),
                phase=self._plan.phase if self._plan else "training",
                capped=self._plan is not None and self._plan.capped,
            )
        )

    def _count_first_batch(self) -> None:
        self.has_batches = True
        self.batch_ended = self._count_batch
        self._count_batch()

    def _count_batch(self) -> None:
        self._reporter.batch_ended(self._clock())

    def batch_began(self, batch: int) -> None:
        """Time the opening of a later epoch, and describe a model that its first batch built."""
        if batch < self.stride and self._follows:
            self.is_due = False
            now = self._clock()
            self._reporter.send(EpochOpened(now))
        elif batch >= self.stride:
            self.is_due = False
            self._note_training()

    def _note_training(self) -> None:
        """Note that the model has trained a batch, and so is built and compiled."""
        self._watch.note_training(self.model, self._compiled_size())
        if not self._is_described:
            self._is_described = True
            parameters = parameters_of(self.model)
            if parameters is not None:
                self._reporter.describe_loop(parameters=parameters)

    def take_logs(self, logs: Mapping[str, Any] | None) -> None:
        """Report Keras's metrics of the epoch so far, and stop if that was requested."""
        if logs and self._mode == "fit" and self.in_epoch:
            self._reporter.send_metrics(self._clock(), with_learning_rate(logs, self.model))
        self._stop_if_requested()

    def _stop_if_requested(self) -> None:
        """End a workload's training, validation or evaluation after the current batch."""
        if self._plan is not None and self._reporter.reads.stop_requested:
            self.model.stop_training = self.model.stop_evaluating = True

    def epoch_ended(self, epoch: int, logs: Any = None) -> None:
        """Report the epoch; Keras has run all its batch hooks by now."""
        if self._mode != "fit" or not self.in_epoch:
            return
        stopped = bool(getattr(self.model, "stop_training", False))
        self._end_epoch(logs or {}, cut=stopped and self._sizes.batches is None)
        self._reporter.send(Pause(self._clock(), "closing"))
        self._stop_if_requested()

    def _end_epoch(self, logs: Mapping[str, Any], cut: bool) -> None:
        now = self._clock()
        if not cut and self.is_due:
            self._note_training()
        self.is_due, self._follows = False, True
        if self._validation is None and not cut:
            self._count_samples()
        self.batch_ended = _nothing
        if self._validation and self._validation.steps < (self._test_sizes.batches or 0):
            cut = True
        self._reporter.send(
            EpochEnd(
                epoch=self._epoch,
                t=now,
                metrics=dict(logs),
                cut=cut or (self._plan is not None and self._plan.capped),
                validation=self._validation,
                samples=self._samples,
            )
        )
        self.in_epoch = False

    def _count_samples(self) -> None:
        """Ask Keras for the samples of the epoch's training, if the batch sizes may be wrong."""
        if self._on_tensorflow and not self._sizes.is_exact:
            self._samples = count_of_samples(self.model)

    def train_ended(self, logs: Any = None) -> None:
        if self._mode != "fit":
            return
        if self.in_epoch:
            self._end_epoch({}, cut=True)
        self._leave()

    # Validation and evaluation

    def test_began(self, logs: Any = None) -> None:
        if self._mode == "fit":
            now = self._clock()
            self._count_samples()
            if self._test_sizes is _UNKNOWN_SIZES:
                claimed = self._plan.validation if self._plan else claim_latest()
                self._test_sizes = claimed or _UNKNOWN_SIZES
                self._describe_validation()
            self._reporter.enter("validating" if self._validation_compiled else "compiling", now)
        else:
            if not self._enter("test"):
                return
            plan, now = self._plan, self._begin
            claimed = plan.evaluation if plan else self._claimed or claim_latest()
            self._claimed, self._test_sizes = None, claimed or _UNKNOWN_SIZES
            self.stride = self._steps_per_execution()
            self._reporter.send((Phase if plan else Pause)(now, "evaluating"))
        self._test_sizes.begin_pass()
        self._test_begin, self._test_ends = now, []
        self._stop_if_requested()

    def _describe_validation(self) -> None:
        sizes = self._test_sizes
        if sizes.batches is not None:
            samples = None if sizes.inferred else sizes.samples_per_epoch
            self._reporter.describe_loop(validation_steps=sizes.batches, validation_samples=samples)

    def test_batch_ended(self, batch: int, logs: Any = None) -> None:
        if self._mode in ("fit", "test"):
            self._test_ends.append(self._clock())
            self._stop_if_requested()

    def test_ended(self, logs: Any = None) -> None:
        if self._mode not in ("fit", "test"):
            return
        now = self._clock()
        # With steps_per_execution, the last execution may run fewer steps.
        steps = len(self._test_ends) * self.stride
        batches, samples = self._test_sizes.read(steps)
        steps = min(steps, batches or steps)
        if self._mode == "fit":
            if self._test_ends:
                self._end_validation(now, steps)
            self._reporter.send(Pause(now, "closing"))
            return
        if self._test_ends:
            if self._test_sizes.inferred or samples is None:
                samples = count_of_samples(self.model) or samples
            self._end_evaluation(now, steps, samples, logs)
        self._leave()

    def _end_validation(self, now: int, steps: int) -> None:
        ends = self._test_ends
        if not self._validation_compiled:
            self._validation_compiled = True
            self._reporter.enter("validating", min(ends))
        first_steps = min(self.stride, steps)
        self._validation = Validation(
            begin=self._test_begin,
            first_end=min(ends),
            last_end=max(ends),
            end=now,
            steps=steps,
            first_steps=first_steps if first_steps > 1 else None,
        )

    def _end_evaluation(self, now: int, steps: int, samples: int | None, logs: Any) -> None:
        metrics, why = finite(logs or {})
        capped = self._plan is not None and self._plan.evaluation_capped
        whole = not capped and not getattr(self.model, "stop_evaluating", False)
        if samples is None:
            why["samples"] = "the size of its batches is not known"
        self._reporter.send(
            Evaluation(
                begin=self._test_begin,
                end=now,
                steps=steps,
                samples=samples,
                whole=whole and steps >= (self._test_sizes.batches or 0),
                metrics=metrics,
                first_end=min(self._test_ends),
                why=why,
            )
        )

    # Prediction

    def predict_began(self, logs: Any = None) -> None:
        if self._mode or not self._enter("predict"):
            return
        if self._plan is None:
            self._reporter.send(Pause(self._begin, "predicting"))
            return
        # Each pass counts as an epoch, and as the first of a fit.
        self._sizes, self._epoch_start, self._follows = self._plan.training, self._begin, False
        self.stride = self._steps_per_execution()
        self._reporter.enter("predicting" if self.has_batches else "compiling", self._begin)
        self._start_epoch()

    def predict_batch_ended(self) -> None:
        """Report a batch of a workload's inference."""
        self.batch_ended()
        if self._reporter.reads.stop_requested:
            self.model.stop_predicting = True

    def predict_ended(self, logs: Any = None) -> None:
        if self._mode == "predict":
            if self.in_epoch:
                self._end_epoch({}, cut=False)
            self._leave()

    # Runs within runs

    def _enter(self, mode: str) -> bool:
        """Begin a run; return False if it is not reported."""
        self._mode = ""
        if not self._reporter.is_on:
            return False
        try:
            self._outer = self._watch.enter(self, self._package, trains=mode == "fit")
        except LookupError:
            return False
        self._mode, self._begin = mode, self._clock()
        return True

    def _leave(self) -> None:
        """End this run, and go on with the run around it."""
        now = self._clock()
        mode, self._mode = self._mode, ""
        self.batch_ended, self.is_due = _nothing, False
        self._claimed, self._test_sizes = None, _UNKNOWN_SIZES
        self._watch.leave(self)
        outer, self._outer = self._outer, None
        if outer not in self._watch.running:
            outer = None
        if outer is None:
            if self._plan is not None:
                # Another pass of inference may follow at once.
                self._reporter.send((Pause if mode == "predict" else Phase)(now, "closing"))
            elif mode == "fit":
                self._reporter.end_loop()
            else:
                self._go_on(SCRIPT_PHASE, now)
        elif outer.in_epoch:
            self._reporter.send(Interruption(self._begin, now))
            self._go_on("training" if outer.has_batches else "compiling", now)
        else:
            self._reporter.send(Pause(now, "closing"))

    def _go_on(self, phase: str, now: int) -> None:
        """Return to a phase; a short run doesn't count as an interruption of it."""
        if now - self._begin >= MIN_PAUSE_NS:
            self._reporter.enter(phase, now)
        else:
            self._reporter.send(Pause(now, phase))

    def abandon(self) -> None:
        if self.in_epoch:
            self._end_epoch({}, cut=True)
        self._leave()
