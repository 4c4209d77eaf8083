"""Watch `fit`, `evaluate` and `predict` by a callback of ours in Keras's lists of callbacks.

On TensorFlow, Keras runs hooks on the training thread. On JAX and Torch it would sync the device
for a hook that isn't `async_safe`; hooks that are run on a thread pool, after the batch's metrics
have arrived, in any order. So the hook of a batch only queues the time.

Keras is never imported here: its modules are passed in. Keras 3 (which is `tf.keras` too) and
tf_keras are handled alike.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from dlmon.instrument.fit_report import FitPlan, FitReport
from dlmon.instrument.fit_watch import watch_of
from dlmon.instrument.reporter import Reporter, guarded, wrap

_REPORTS = "_dlmon_reports"
# Keras's hooks, and the methods of `FitReport` that they call.
_HOOKS = {
    "on_train_begin": "train_began",
    "on_train_end": "train_ended",
    "on_epoch_begin": "epoch_began",
    "on_epoch_end": "epoch_ended",
    "on_test_begin": "test_began",
    "on_test_batch_end": "test_batch_ended",
    "on_test_end": "test_ended",
    "on_predict_begin": "predict_began",
    "on_predict_end": "predict_ended",
}


def watch_fits(module: ModuleType, reporter: Reporter) -> None:
    """Put a reporting callback into every `CallbackList` of Keras, not into the script's own list.

    `module` is keras.src.callbacks.callback_list or tf_keras.src.callbacks.
    """
    if not hasattr(module, "CallbackList"):
        return
    kind = callback_class(module.Callback, reporter)

    def add(prepared: None, result: None, callbacks: Any, *arguments: Any, **named: Any) -> None:
        reporting = [callback for callback in callbacks.callbacks if hasattr(callback, _REPORTS)]
        ours = reporting[0] if reporting else kind()
        # First, so that an epoch ends before other callbacks save the model or train another.
        others = [callback for callback in callbacks.callbacks if not hasattr(callback, _REPORTS)]
        callbacks.callbacks[:] = [ours, *others]
        if not reporting:
            model = getattr(callbacks, "_model", None) or getattr(callbacks, "model", None)
            ours.set_model(model)
            ours.set_params(getattr(callbacks, "params", None) or {})
            for mode in ("train", "test"):
                # tf_keras decides whether to call batch hooks when it creates the list.
                if hasattr(callbacks, f"_should_call_{mode}_batch_hooks"):
                    setattr(callbacks, f"_should_call_{mode}_batch_hooks", True)
        getattr(ours, _REPORTS).belong_to(callbacks)

    wrap(module.CallbackList, "__init__", reporter, after=add)


@cache
def callback_class(base: type[Any], reporter: Reporter) -> type[Any]:
    """Return a reporting subclass of `Callback` of Keras 3 or tf_keras; it may take a `FitPlan`."""
    guard, reads = guarded(reporter), reporter.reads
    package = base.__module__.partition(".")[0]

    class ReportingCallback(base):  # type: ignore[misc]
        """Reports to dlmon what Keras trains."""

        async_safe = True
        _supports_tf_logs = True

        def __init__(self, plan: FitPlan | None = None) -> None:
            super().__init__()
            self._dlmon_reports = FitReport(watch_of(reporter), package, plan)

        def __reduce_ex__(self, protocol: Any) -> Any:
            # A copy reports on its own, and a socket can't be copied.
            return type(self), ()

        @guard
        def set_model(self, model: Any) -> None:
            """Keep the model: Keras's own `model` property costs a state sync on JAX."""
            super().set_model(model)
            self._dlmon_reports.model = model

        @guard
        def set_params(self, params: Any) -> None:
            super().set_params(params)
            self._dlmon_reports.params = params or {}

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if self._dlmon_reports.is_due:
                self._batch_began(batch)

        @guard
        def _batch_began(self, batch: int) -> None:
            self._dlmon_reports.batch_began(batch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            try:
                self._dlmon_reports.batch_ended()
                if reads.is_due:
                    self._dlmon_reports.take_logs(logs)
            except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
                reporter.turn_off(error)

    def hook_of(name: str) -> Any:
        @guard
        def hook(self: Any, *arguments: Any, **named: Any) -> None:
            getattr(self._dlmon_reports, name)(*arguments, **named)

        return hook

    for hook, name in _HOOKS.items():
        setattr(ReportingCallback, hook, hook_of(name))
    return ReportingCallback
