"""What a workload has Keras call beside the callback that times its batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import keras

from dlmon.instrument.fit_report import FitPlan
from dlmon.instrument.fits import callback_class
from dlmon.instrument.reporter import Reporter
from workloads.minimum_time import MinimumTime


class RequestedEpochs(keras.callbacks.ProgbarLogger):  # type: ignore[misc]
    """Keras's own lines of the epochs that were asked for, and as many more as take long enough.

    Of those that follow, which may be thousands, nothing is printed.

    Args:
        epochs: how many were asked for.
        minimum_time: says which is the last.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    async_safe = True

    def __init__(
        self,
        epochs: int,
        minimum_time: MinimumTime,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__()
        self._requested, self._minimum_time, self._clock = epochs, minimum_time, clock
        self._kept_model: Any = None
        self._start_ns = 0
        self._train_end_ns: int | None = None

    def set_model(self, model: Any) -> None:
        """Keep the model: Keras's own `model` property costs a state sync on JAX."""
        super().set_model(model)
        self._kept_model = model

    def set_params(self, params: dict[str, Any]) -> None:
        """Count to the epochs that were asked for, not to the most that there may be."""
        super().set_params({**params, "epochs": self._requested})

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Print nothing once they have ended."""
        if epoch >= self._requested:
            self.verbose = 0
        super().on_epoch_begin(epoch, logs)
        self._start_ns, self._train_end_ns = self._clock(), None

    def on_test_begin(self, logs: Any = None) -> None:
        super().on_test_begin(logs)
        self._train_end_ns = self._clock()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        train_ns = (self._train_end_ns or self._clock()) - self._start_ns
        if self._kept_model.stop_training:
            return
        if not self._minimum_time.should_continue(epoch + 1, train_ns):
            self._kept_model.stop_training = True


def reporting_callback(reporter: Reporter, known: FitPlan) -> Any:
    """Return the callback that reports `fit` and `evaluate`."""
    return callback_class(keras.callbacks.Callback, reporter)(known)


def inference_callback(reporter: Reporter, known: FitPlan) -> Any:
    """Return the callback that reports each `predict` as a pass, once outputs have arrived.

    Keras would keep the outputs of a whole pass, more than memory may hold: with this
    callback it is handed none, and `predict` returns an empty tuple.
    """
    reporting = callback_class(keras.callbacks.Callback, reporter)

    class InferenceCallback(reporting):  # type: ignore[misc, valid-type]
        """Reports passes, and keeps each output for its own hook only."""

        def __init__(self) -> None:
            super().__init__(known)
            self._predict_function: Any = None
            self._outputs: dict[int, Any] = {}

        def on_predict_begin(self, logs: Any = None) -> None:
            """Hand Keras an empty structure in the place of each output.

            Keras has made `predict_function` by the time a pass begins, and calls it
            once for each batch hook; on JAX it returns the model's state too.
            """
            model = self._dlmon_reports.model
            predict = self._predict_function = model.predict_function
            with_state = keras.backend.backend() == "jax"
            executions = count()
            self._outputs.clear()

            def predict_and_take(*arguments: Any) -> Any:
                answer = predict(*arguments)
                outputs, state = answer if with_state else (answer, None)
                self._outputs[next(executions)] = outputs
                return ((), state) if with_state else ()

            model.predict_function = predict_and_take
            super().on_predict_begin(logs)

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            """Time one batch, once its output can be read on the host.

            A GPU, and JAX everywhere, still computes when this is called: unlike
            the loss of a training batch, nothing has waited for the output yet.
            """
            reports = self._dlmon_reports
            for output in keras.tree.flatten(self._outputs.pop(batch // reports.stride)):
                # Of a language model's, which may be a gigabyte, what comes after the last word.
                read = output if len(output.shape) < 3 else output[:, -1]
                keras.ops.convert_to_numpy(read)
            reports.predict_batch_ended()

        def on_predict_end(self, logs: Any = None) -> None:
            super().on_predict_end(logs)
            self._dlmon_reports.model.predict_function = self._predict_function

    return InferenceCallback()
