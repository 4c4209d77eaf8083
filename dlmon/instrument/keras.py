"""Child side: the Keras callbacks that time every batch, of training and of inference.

On TensorFlow, Keras runs hooks on the training thread. On JAX and Torch it
would force a device sync for a hook that isn't `async_safe`; with it, hooks
run on a thread pool, after the batch's metrics have arrived, in any order. So
the hook takes the time, queues it with the batch's index, and does no more.

Runs in the trained interpreter: Python 3.10 syntax.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import keras

from dlmon.instrument.collector import EpochEnd, EpochOpened, EpochStart, Pause
from dlmon.instrument.emitter import Emitter
from dlmon.instrument.minimum_time import MinimumTime
from dlmon.records import Evaluation, Notice, Phase, Validation, finite

# The cause of a pause is named from this length on, where the process was idle meanwhile.
NAMED_PAUSE_NS = 500_000_000
IDLE_SHARE = 0.2


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
        minimum_time: MinimumTime | None = None,
        phase: str = "training",
        clock: Callable[[], int] = time.monotonic_ns,
        cpu_clock: Callable[[], int] = time.process_time_ns,
    ) -> None:
        super().__init__(emitter, batch_size, samples_per_epoch, capped, phase, clock)
        self._batch_ended = emitter.batch_ended
        self._validation_steps = validation_steps
        self._evaluation_samples = evaluation_samples
        self._minimum_time = minimum_time
        self._cpu_clock = cpu_clock
        self._words = ("epoch", "epochs") if phase == "training" else ("pass", "passes")
        self._teardowns: _PipelineTeardowns | None = None
        self._fitting = False
        self._first_epoch = True
        self._opening = False
        self._epoch = 0
        self._test_start = 0
        self._test_ends: list[tuple[int, int]] = []
        self._validation_compiled = False
        self._validation: Validation | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the compile phase; the first batch that ends closes it."""
        self._fitting = self._first_epoch = True
        on_tensorflow = keras.backend.backend() == "tensorflow"
        self._teardowns = None
        if on_tensorflow:
            self._teardowns = _PipelineTeardowns(self._cpu_clock, *self._words)
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
                text = self._teardowns.explain(self._epoch, now - self._epoch_start)
                if text:
                    self._emitter.send(Notice(now, text))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Time one batch: the fast path."""
        self._batch_ended((batch, self._clock()))
        if self._emitter.stop_requested:
            self._stop()

    def on_test_begin(self, logs: Any = None) -> None:
        """Open validation inside `fit`, evaluation outside it."""
        self._test_start = self._clock()
        self._test_ends = []
        if not self._fitting:
            phase = "evaluating"
        else:
            phase = "validating" if self._validation_compiled else "compiling"
        self._emitter.send(Phase(t=self._test_start, name=phase))
        if self._emitter.stop_requested:
            self._stop()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._test_ends.append((batch, self._clock()))
        if self._emitter.stop_requested:
            self._stop()

    def on_test_end(self, logs: Any = None) -> None:
        now = self._clock()
        if self._test_ends:
            steps = max(batch for batch, _ in self._test_ends) + 1
            if self._fitting:
                self._end_validation(steps, now)
            else:
                self._end_evaluation(steps, now, logs)
        # What follows in `fit` is the epoch's end: most often at once.
        self._emitter.send(Pause(now, "closing") if self._fitting else Phase(now, "closing"))

    def _end_validation(self, steps: int, now: int) -> None:
        ends = [end for _, end in self._test_ends]
        if not self._validation_compiled:
            self._validation_compiled = True
            self._emitter.send(Phase(t=min(ends), name="validating"))
        # With steps_per_execution the last hook may claim more batches than there are.
        steps = min(steps, self._validation_steps or steps)
        first_steps = min(min(batch for batch, _ in self._test_ends) + 1, steps)
        self._validation = Validation(
            begin=self._test_start,
            first_end=min(ends),
            last_end=max(ends),
            end=now,
            steps=steps,
            first_steps=first_steps if first_steps > 1 else None,
        )

    def _end_evaluation(self, steps: int, now: int, logs: Any) -> None:
        samples = steps * self._batch_size
        if self._evaluation_samples is not None:
            samples = min(samples, self._evaluation_samples)
        metrics, why = finite(logs or {})
        self._emitter.send(
            Evaluation(
                begin=self._test_start,
                end=now,
                steps=min(steps, -(-samples // self._batch_size)),
                samples=samples,
                whole=not self._capped and not self._emitter.stop_requested,
                metrics=metrics,
                first_end=min(end for _, end in self._test_ends),
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
        """Leave `fit`: it takes down its data yet; a test pass from here on is the evaluation."""
        self._fitting = False
        now = self._clock()
        if self._teardowns is not None and self._teardowns.count > 1:
            self._emitter.send(Notice(now, self._teardowns.summary()))
        self._emitter.send(Phase(now, "closing"))

    def _stop(self) -> None:
        """End training and any validation or evaluation after the current batch."""
        self._kept_model.stop_training = True
        self._kept_model.stop_evaluating = True


class _PipelineTeardowns:
    """Detects openings in which TensorFlow tears down the last epoch's input pipeline.

    Keras replaces the iterator of the epoch before between the start of an epoch and its first
    batch. To delete it, TensorFlow waits for a thread of tf.data that sleeps, so this process
    uses next to no CPU meanwhile.
    """

    def __init__(self, cpu_clock: Callable[[], int], word: str, plural: str) -> None:
        self._cpu_clock, self._word, self._plural = cpu_clock, word, plural
        self._cpu_start = 0
        self._took_ns = 0
        self.count = 0

    def mark_start(self) -> None:
        self._cpu_start = self._cpu_clock()

    def explain(self, epoch: int, took_ns: int) -> str:
        """Count an opening that was such a teardown; return a sentence on the first, else ""."""
        if took_ns < NAMED_PAUSE_NS:
            return ""
        if self._cpu_clock() - self._cpu_start > IDLE_SHARE * took_ns:
            return ""
        self.count += 1
        self._took_ns += took_ns
        if self.count > 1:
            return ""
        return (
            f"{took_ns / 1e9:.1f} s at the start of {self._word} {epoch + 1}: "
            f"TensorFlow takes down the last {self._word}'s input pipeline"
        )

    def summary(self) -> str:
        """Return how many there were, and how long they took together."""
        return (
            f"{self._took_ns / 1e9:.1f} s at the start of {self.count:,} {self._plural}: "
            f"TensorFlow took down the input pipelines of the {self._plural} before"
        )


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
