"""The callbacks of a workload's `fit`, `evaluate` and `predict`."""

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
    """Prints Keras's lines of the requested epochs, and ends training after the minimum time.

    Extra epochs, which may be thousands, print nothing.

    Args:
        epochs: the number of requested epochs.
        minimum_time: decides which epoch is the last.
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
        super().set_params({**params, "epochs": self._requested})

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
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


def reporting_callback(reporter: Reporter, plan: FitPlan) -> Any:
    """Return the callback that reports `fit` and `evaluate`."""
    return callback_class(keras.callbacks.Callback, reporter)(plan)


def inference_callback(reporter: Reporter, plan: FitPlan) -> Any:
    """Return the callback that reports each `predict` as a pass.

    Keras would keep the outputs of a whole pass, more than memory may hold. This callback
    withholds them, so `predict` returns an empty tuple.
    """
    reporting = callback_class(keras.callbacks.Callback, reporter)

    class InferenceCallback(reporting):  # type: ignore[misc, valid-type]
        """Reports passes, and keeps each output only until the hook of its batch."""

        def __init__(self) -> None:
            super().__init__(plan)
            self._predict_function: Any = None
            self._outputs: dict[int, Any] = {}

        def on_predict_begin(self, logs: Any = None) -> None:
            """Replace `predict_function` by one that returns no outputs.

            Keras has created it by now, and calls it once for each batch hook; on JAX it
            returns the model's state too.
            """
            model = self._dlmon_reports.model
            predict = self._predict_function = model.predict_function
            with_state = keras.backend.backend() == "jax"
            executions = count()
            self._outputs.clear()

            def predict_and_take(*arguments: Any) -> Any:
                results = predict(*arguments)
                outputs, state = results if with_state else (results, None)
                self._outputs[next(executions)] = outputs
                return ((), state) if with_state else ()

            model.predict_function = predict_and_take
            super().on_predict_begin(logs)

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            """Report a batch once its output can be read on the host.

            Unlike the loss of a training batch, nothing has waited for the output yet: a GPU,
            and JAX on any device, may still be computing it.
            """
            reports = self._dlmon_reports
            for output in keras.tree.flatten(self._outputs.pop(batch // reports.stride)):
                # A language model's output may be a gigabyte: read only the last position.
                last = output if len(output.shape) < 3 else output[:, -1]
                keras.ops.convert_to_numpy(last)
            reports.predict_batch_ended()

        def on_predict_end(self, logs: Any = None) -> None:
            super().on_predict_end(logs)
            self._dlmon_reports.model.predict_function = self._predict_function

    return InferenceCallback()
