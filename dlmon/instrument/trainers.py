"""Add the metrics and facts of a trainer of Lightning or transformers to the counted steps.

The function that calls all callbacks is wrapped. No callback is added, so that checkpoints and
`trainer.callbacks` don't change.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from dlmon.instrument.emitter import READ_NS
from dlmon.instrument.losses import LOSS
from dlmon.instrument.pytorch import parameters_of, steps_of
from dlmon.instrument.queued import LEARNING_RATE, MetricsRead
from dlmon.instrument.reporter import Reporter, wrap
from dlmon.instrument.step_counter import StepCounter

STARTS = ("on_validation_start", "on_test_start", "on_predict_start")
ENDS = ("on_validation_end", "on_test_end", "on_predict_end")
# Values that transformers logs beside metrics: its progress and speed.
NO_METRICS = ("epoch", "_runtime", "_per_second", "_preparation_time", "total_flos")
# Transformers has larger numbers of epochs if only the number of steps is known.
MANY = 1_000_000


def watch_lightning(module: ModuleType, reporter: Reporter) -> None:
    """Watch trainers; `module` is lightning.pytorch.trainer.call, or pytorch_lightning's."""
    steps = steps_of(reporter)
    losses = steps.reports.losses

    def read_metrics(trainer: Any) -> dict[str, Any]:
        """Return the trainer's metrics, without a learning rate that is read already."""
        metrics, is_read = _metrics(trainer), LEARNING_RATE in losses.read_names
        return {n: value for n, value in metrics.items() if not (is_read and n.startswith("lr-"))}

    def called(trainer: Any, event: str, *arguments: Any, **named: Any) -> None:
        if event in STARTS:
            if _evaluates(trainer, event):
                steps.reports.evaluates()
            else:
                is_prediction = event == "on_predict_start"
                steps.reports.phase = "predicting" if is_prediction else "validating"
        elif event in ENDS:
            steps.validated()
            if _evaluates(trainer, event):
                steps.reports.evaluated(read_metrics(trainer))
            steps.reports.phase = "validating"
        elif event == "on_fit_start":
            # The sanity check that follows is no validation of the last fit.
            steps.reports.no_more_validations()
        elif event == "on_train_start":
            _expect_fit(steps, trainer.lightning_module, _epochs(trainer), trainer.max_steps)
        elif event == "on_train_epoch_start":
            steps.add_metrics(read_metrics(trainer))
            batches = trainer.num_training_batches
            steps.limit(batches if isinstance(batches, int) else None)
        elif event == "on_train_end":
            steps.add_metrics(read_metrics(trainer))
            steps.fit_ended()

    wrap(module, "_call_callback_hooks", reporter, before=called)


def _expect_fit(steps: StepCounter, network: Any, epochs: int | None, max_steps: Any) -> None:
    """Note what a trainer knows of the fit that begins."""
    steps.reports.expect(
        epochs=epochs,
        why={"epochs": f"it was asked for {max_steps} steps"},
        network=type(network).__name__,
        parameters=parameters_of(network),
    )


def _evaluates(trainer: Any, event: str) -> bool:
    """Return whether an event is of a test, or of a validation outside of a fit."""
    task = getattr(getattr(trainer, "state", None), "fn", None)
    return event.startswith("on_test") or (event.startswith("on_val") and task == "validate")


def _epochs(trainer: Any) -> int | None:
    """Return the number of epochs to come, without those of a checkpoint."""
    epochs = trainer.max_epochs
    return None if epochs is None or epochs < 0 else max(0, epochs - trainer.current_epoch)


def _metrics(trainer: Any) -> dict[str, Any]:
    """Return the metrics that Lightning has computed, without computing any."""
    connector = getattr(trainer, "_logger_connector", None)
    metrics = dict(getattr(connector, "_callback_metrics", {}))
    for name in list(metrics):
        # Copies for the last batch and for the epoch.
        base = name.removesuffix("_step").removesuffix("_epoch")
        if base != name and base in metrics:
            del metrics[name]
    return metrics


def watch_transformers(module: ModuleType, reporter: Reporter) -> None:
    """Watch Trainers; `module` is transformers.trainer_callback."""
    steps = steps_of(reporter)
    losses = steps.reports.losses
    reported_ns = 0

    def report_metrics(metrics: dict[str, Any]) -> None:
        """Report metrics about once a second, and those of every evaluation."""
        nonlocal reported_ns
        now = time.monotonic_ns()
        is_evaluation = any(name.startswith("eval_") for name in metrics)
        if is_evaluation or now - reported_ns >= READ_NS:
            reported_ns = reported_ns if is_evaluation else now
            reporter.send(MetricsRead(now, metrics))

    def called(
        handler: Any, event: str, arguments: Any, state: Any, control: Any, **named: Any
    ) -> None:
        if event == "on_prediction_step":
            steps.validates()
        elif event == "on_log":
            # Its loss is the mean of some steps; a loss that we read is of all.
            metrics = _logged_metrics(named.get("logs") or {})
            if losses.has_read:
                metrics.pop(LOSS, None)
            for name in losses.read_names:
                metrics.pop(name, None)
            steps.add_metrics(metrics)
            report_metrics(metrics)
        elif event == "on_train_begin":
            _expect_fit(steps, handler.model, _epochs_to_come(state), state.max_steps)
        elif event == "on_train_end":
            steps.fit_ended()

    wrap(module.CallbackHandler, "call_event", reporter, before=called)


def _epochs_to_come(state: Any) -> int | None:
    """Return the number of epochs to come, including a part, without those of a checkpoint."""
    epochs = state.num_train_epochs
    if not isinstance(epochs, int) or epochs >= MANY:
        return None
    return max(0, epochs - int(getattr(state, "epoch", None) or 0))


def _logged_metrics(logs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in logs.items()
        if isinstance(value, (int, float))
        and not name.endswith(NO_METRICS)
        and not name.startswith("train_")
    }
