"""Add what a Lightning trainer knows to what the loader's clock shows.

Its callbacks are called by one function, which is watched; none is added to them, so checkpoints,
and what a script finds in `trainer.callbacks`, stay as they are.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dlmon.instrument.around import wrap
from dlmon.instrument.pytorch import parameters_of, passes_of
from dlmon.instrument.queued import LEARNING_RATE
from dlmon.instrument.reporter import Reporter

STARTS = ("on_validation_start", "on_test_start", "on_predict_start")
ENDS = ("on_validation_end", "on_test_end", "on_predict_end")


def watch_lightning(module: ModuleType, reporter: Reporter) -> None:
    """Watch trainers; `module` is lightning.pytorch.trainer.call, or pytorch_lightning's."""
    passes = passes_of(reporter)
    losses = passes.reports.losses

    def read_metrics(trainer: Any) -> dict[str, Any]:
        """Return its metrics, without the learning rate that a monitor of its own logs."""
        metrics, is_read = _metrics(trainer), LEARNING_RATE in losses.read_names
        return {n: value for n, value in metrics.items() if not (is_read and n.startswith("lr-"))}

    def called(trainer: Any, event: str, *arguments: Any, **named: Any) -> None:
        if event in STARTS:
            if _evaluates(trainer, event):
                passes.reports.evaluates()
            else:
                is_prediction = event == "on_predict_start"
                passes.reports.phase = "predicting" if is_prediction else "validating"
        elif event in ENDS:
            passes.validated()
            if _evaluates(trainer, event):
                passes.reports.evaluated(read_metrics(trainer))
            passes.reports.phase = "validating"
        elif event == "on_fit_start":
            # Its sanity check validates no epoch of another fit.
            passes.reports.no_more_passes()
        elif event == "on_train_start":
            passes.reports.expect(
                epochs=_epochs(trainer),
                why={"epochs": f"it was asked for {trainer.max_steps} steps"},
                network=type(trainer.lightning_module).__name__,
                parameters=parameters_of(trainer.lightning_module),
            )
        elif event == "on_train_epoch_start":
            passes.reports.add_metrics(read_metrics(trainer))
            steps = trainer.num_training_batches
            passes.limit(steps if isinstance(steps, int) else None)
        elif event == "on_train_end":
            passes.reports.add_metrics(read_metrics(trainer))
            passes.fit_ended()

    wrap(module, "_call_callback_hooks", reporter, before=called)


def _evaluates(trainer: Any, event: str) -> bool:
    """Return whether what begins or ends is a test, or a validation that no fit asked for."""
    task = getattr(getattr(trainer, "state", None), "fn", None)
    return event.startswith("on_test") or (event.startswith("on_val") and task == "validate")


def _epochs(trainer: Any) -> int | None:
    """Return how many epochs are to come; those of a checkpoint are over."""
    asked = trainer.max_epochs
    return None if asked is None or asked < 0 else max(0, asked - trainer.current_epoch)


def _metrics(trainer: Any) -> dict[str, Any]:
    """Return the metrics that Lightning has computed; to ask it for them would compute more."""
    connector = getattr(trainer, "_logger_connector", None)
    metrics = dict(getattr(connector, "_callback_metrics", {}))
    for name in list(metrics):
        # Those of the last batch; and again those of the epoch.
        base = name.removesuffix("_step").removesuffix("_epoch")
        if base != name and base in metrics:
            del metrics[name]
    return metrics
