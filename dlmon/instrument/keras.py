"""Child side: the Keras callbacks that time every batch, of training and of inference.

On TensorFlow, Keras runs hooks on the training thread. On JAX and Torch it
would force a device sync for a hook that isn't `async_safe`; with it, hooks
run on a thread pool, after the batch's metrics have arrived, in any order. So
the hook takes the time, queues it with the batch's index, and does no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import keras

from dlmon.instrument.emitter import Emitter
from dlmon.instrument.keras_facts import with_learning_rate
from dlmon.instrument.minimum_time import MinimumTime
from dlmon.instrument.queued import EpochEnd, EpochOpened, EpochStart, Pause
from dlmon.instrument.run_delay import run_delay_ns
from dlmon.instrument.timed_pass import PipelineTeardowns, TimedPass
from dlmon.records import Evaluation, Notice, Phase, Validation, finite


class _TimingCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """What the timing of training and of inference share: the model, and where an epoch begins."""

    async_safe = True

    def __init__(
        self,
        emitter: Emitter,
        batch_size: int,
        samples_per_epoch: int,
        capped: bool,
        phase: str,
        clock: Callable[[], int],
    ) -> None:
        super().__init__()
        self._emitter = emitter
        self._batch_size = batch_size
        self._samples_per_epoch = samples_per_epoch
        self._capped = capped
        self._phase = phase
        self._clock = clock
        self._kept_model: Any = None
        self._stride = 1
        self._epoch_start = 0

    def set_model(self, model: Any) -> None:
        """Keep the model: Keras's own `model` property costs a state sync on JAX."""
        super().set_model(model)
        self._kept_model = model
        self._stride = int(getattr(model, "steps_per_execution", 1) or 1)

    def _start_epoch(self, epoch: int, follows: bool = False) -> None:
        """Send where an epoch begins, which is at `_epoch_start`."""
        self._emitter.send(
            EpochStart(
                epoch=epoch,
                t=self._epoch_start,
                batch_size=self._batch_size,
                samples=self._samples_per_epoch,
                stride=self._stride,
                phase=self._phase,
                capped=self._capped,
                follows=follows,
            )
        )


class TrainingCallback(_TimingCallback):
    """Report the ends of batches, epochs, validation and evaluation to an `Emitter`.

    Args:
        emitter: sends the records.
        batch_size: samples in a whole batch.
        samples_per_epoch: samples that one epoch will see; a short last batch follows from it.
        capped: the epoch is not the whole set (`--steps`), so none counts as whole.
        validation_steps: batches of a whole validation pass, if there is one.
        evaluation_samples: samples of the evaluation after training, if there is one.
        evaluation_capped: these are not all of the test set.
        minimum_time: says which epoch is the last; without it, `fit` does.
        phase: what the model does batch by batch.
        clock: CLOCK_MONOTONIC in nanoseconds.
        cpu_clock: the CPU time of this process in nanoseconds.
    """

    def __init__(
        self,
        emitter: Emitter,
        *,
        batch_size: int,
        samples_per_epoch: int,
        capped: bool = False,
        validation_steps: int | None = None,
        evaluation_samples: int | None = None,
        evaluation_capped: bool = False,
        minimum_time: MinimumTime | None = None,
        phase: str = "training",
        clock: Callable[[], int] = time.monotonic_ns,
        cpu_clock: Callable[[], int] = time.process_time_ns,
        delay_clock: Callable[[], int] = run_delay_ns,
    ) -> None:
        super().__init__(emitter, batch_size, samples_per_epoch, capped, phase, clock)
        self.batch_ended, self._reads = emitter.batch_ended, emitter.reads
        # Which a profile replaces.
        emitter.steps = self
        self._validation_steps = validation_steps
        self._evaluation_samples = evaluation_samples
        self._evaluation_capped = evaluation_capped
        self._minimum_time = minimum_time
        self._cpu_clock, self._delay_clock = cpu_clock, delay_clock
        self._words = ("epoch", "epochs") if phase == "training" else ("pass", "passes")
        self._teardowns: PipelineTeardowns | None = None
        self._fitting = False
        self._first_epoch = True
        self._opening = False
        self._epoch = 0
        self._test = TimedPass(0)
        self._validation_compiled = False
        self._validation: Validation | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the compile phase; the first batch that ends closes it."""
        self._fitting = self._first_epoch = True
        on_tensorflow = keras.backend.backend() == "tensorflow"
        self._teardowns = None
        if on_tensorflow:
            self._teardowns = PipelineTeardowns(self._cpu_clock, *self._words, self._delay_clock)
        self._emitter.send(Phase(t=self._clock(), name="compiling"))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Mark where the epoch begins; Keras sets up its data next."""
        self._epoch_start = self._clock()
        self._validation = None
        self._opening, self._first_epoch = not self._first_epoch, False
        self._epoch = epoch
        if self._opening and self._teardowns is not None:
            self._teardowns.mark_start()
        self._start_epoch(epoch, follows=self._opening)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Time the opening of a later epoch; Keras calls this for every batch, so be quick."""
        if batch == 0 and self._opening:
            self._opening = False
            now = self._clock()
            self._emitter.send(EpochOpened(now))
            if self._teardowns is not None:
                number = f"{self._epoch + 1:,}"
                text = self._teardowns.explain(number, now - self._epoch_start)
                if text:
                    self._emitter.send(Notice(now, text))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batch_ended((batch, self._clock()))
        if self._reads.is_due and logs:
            self._emitter.send_metrics(self._clock(), with_learning_rate(logs, self._kept_model))
        if self._emitter.stop_requested:
            self._stop()

    def on_test_begin(self, logs: Any = None) -> None:
        self._test = TimedPass(self._clock())
        if not self._fitting:
            phase = "evaluating"
        else:
            phase = "validating" if self._validation_compiled else "compiling"
        self._emitter.send(Phase(t=self._test.begin, name=phase))
        if self._emitter.stop_requested:
            self._stop()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._test.ends.append((batch, self._clock()))
        if self._emitter.stop_requested:
            self._stop()

    def on_test_end(self, logs: Any = None) -> None:
        now = self._clock()
        if self._test.ends:
            if self._fitting:
                self._end_validation(now)
            else:
                self._end_evaluation(now, logs)
        # What follows in `fit` is the epoch's end: most often at once.
        self._emitter.send(Pause(now, "closing") if self._fitting else Phase(now, "closing"))

    def _end_validation(self, now: int) -> None:
        if not self._validation_compiled:
            self._validation_compiled = True
            self._emitter.send(Phase(t=self._test.first_end, name="validating"))
        self._validation = self._test.validation(now, self._validation_steps)

    def _end_evaluation(self, now: int, logs: Any) -> None:
        steps = self._test.steps
        samples = steps * self._batch_size
        if self._evaluation_samples is not None:
            samples = min(samples, self._evaluation_samples)
        metrics, why = finite(logs or {})
        self._emitter.send(
            Evaluation(
                begin=self._test.begin,
                end=now,
                steps=min(steps, -(-samples // self._batch_size)),
                samples=samples,
                whole=not self._evaluation_capped and not self._emitter.stop_requested,
                metrics=metrics,
                first_end=self._test.first_end,
                why=why,
            )
        )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report the epoch; Keras has run all its batch hooks by now."""
        metrics, why = finite(logs or {})
        now = self._clock()
        validated = self._validation.steps if self._validation else 0
        cut_validation = self._validation_steps is not None and validated < self._validation_steps
        self._emitter.send(
            EpochEnd(
                epoch=epoch,
                t=now,
                metrics=metrics,
                why=why,
                cut=self._capped or cut_validation,
                validation=self._validation,
            )
        )
        if self._emitter.stop_requested:
            self._stop()
        elif self._minimum_time is not None:
            train_end = self._validation.begin if self._validation else now
            if not self._minimum_time.should_continue(epoch + 1, train_end - self._epoch_start):
                self._kept_model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        self._fitting = False
        now = self._clock()
        if self._teardowns is not None and self._teardowns.count > 1:
            self._emitter.send(Notice(now, self._teardowns.summary()))
        self._emitter.send(Phase(now, "closing"))

    def _stop(self) -> None:
        """End training and any validation or evaluation after the current batch."""
        self._kept_model.stop_training = True
        self._kept_model.stop_evaluating = True


class RequestedEpochs(keras.callbacks.ProgbarLogger):  # type: ignore[misc]
    """Keras's own lines of the epochs that were asked for; those that follow may be thousands."""

    async_safe = True

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self._requested = epochs

    def set_params(self, params: dict[str, Any]) -> None:
        """Count to the epochs that were asked for, not to the most that there may be."""
        super().set_params({**params, "epochs": self._requested})

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Print nothing once they have ended."""
        if epoch >= self._requested:
            self.verbose = 0
        super().on_epoch_begin(epoch, logs)


class InferenceCallback(_TimingCallback):
    """Report the ends of batches and passes of `predict` to an `Emitter`; a pass is an epoch.

    Keras would keep the outputs of a whole pass, more than memory may hold: with this
    callback it is handed none, and `predict` returns an empty tuple.

    Args:
        emitter: sends the records.
        batch_size: samples in a whole batch.
        samples_per_epoch: samples that one pass will see.
        capped: the pass is not the whole set (`--steps`), so none counts as whole.
        minimum_time: says which pass is the last.

    `should_continue` says, after a pass, whether another is to follow.
    """

    def __init__(
        self,
        emitter: Emitter,
        *,
        batch_size: int,
        samples_per_epoch: int,
        minimum_time: MinimumTime,
        capped: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(emitter, batch_size, samples_per_epoch, capped, "predicting", clock)
        self._minimum_time = minimum_time
        self._predict_function: Any = None
        self._outputs: dict[int, Any] = {}
        self._passes = 0
        self.should_continue = True

    def on_predict_begin(self, logs: Any = None) -> None:
        """Mark where the pass's first batch is timed from; in the first pass, it compiles."""
        self._take_outputs()
        self._epoch_start = self._clock()
        phase = "predicting" if self._passes else "compiling"
        self._emitter.send(Phase(t=self._epoch_start, name=phase))
        self._start_epoch(self._passes)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """Time one batch, once its output can be read on the host.

        A GPU, and JAX everywhere, still computes when this is called: unlike
        the loss of a training batch, nothing has waited for the output yet.
        """
        for output in keras.tree.flatten(self._outputs.pop(batch // self._stride)):
            keras.ops.convert_to_numpy(output)
        self._emitter.batch_ended((batch, self._clock()))
        if self._emitter.stop_requested:
            self._kept_model.stop_predicting = True

    def on_predict_end(self, logs: Any = None) -> None:
        """Report the pass; Keras has run all its batch hooks by now."""
        now = self._clock()
        end = EpochEnd(epoch=self._passes, t=now, metrics={}, why={}, cut=self._capped)
        self._emitter.send(end)
        self._emitter.send(Pause(now, "closing"))
        self._passes += 1
        took_ns = now - self._epoch_start
        self.should_continue = self._minimum_time.should_continue(self._passes, took_ns)
        self._kept_model.predict_function = self._predict_function

    def _take_outputs(self) -> None:
        """Keep each output for its own hook only, and hand Keras an empty structure.

        Keras has made `predict_function` by the time a pass begins, and calls it
        once for each batch hook; on JAX it returns the model's state too.
        """
        predict = self._predict_function = self._kept_model.predict_function
        with_state = keras.backend.backend() == "jax"
        executions = count()
        self._outputs.clear()

        def predict_and_take(*arguments: Any) -> Any:
            answer = predict(*arguments)
            outputs, state = answer if with_state else (answer, None)
            self._outputs[next(executions)] = outputs
            return ((), state) if with_state else ()

        self._kept_model.predict_function = predict_and_take
