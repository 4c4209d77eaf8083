"""Add what a Trainer of transformers knows to what the loader's clock shows.

Its callbacks are called by one function, which is watched; none is added to them.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from dlmon.instrument.around import wrap
from dlmon.instrument.emitter import READ_NS
from dlmon.instrument.losses import LOSS
from dlmon.instrument.pytorch import parameters_of, passes_of
from dlmon.instrument.queued import MetricsRead
from dlmon.instrument.reporter import Reporter

# What it logs beside metrics: where it is, and how fast it was.
NO_METRICS = ("epoch", "_runtime", "_per_second", "_preparation_time", "total_flos")
# An epoch's number when its end is only known in steps.
MANY = 1_000_000


def watch_transformers(module: ModuleType, reporter: Reporter) -> None:
    """Watch Trainers; `module` is transformers.trainer_callback."""
    passes = passes_of(reporter)
    losses = passes.reports.losses
    reported_ns = 0

    def report_metrics(metrics: dict[str, Any]) -> None:
        """Report what is logged while it trains, about once a second, and every evaluation."""
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
            passes.validates()
        elif event == "on_log":
            # Its loss is the mean of its last steps: that of all the epoch's is read.
            metrics = _metrics(named.get("logs") or {})
            if losses.has_read:
                metrics.pop(LOSS, None)
            for name in losses.read_names:
                metrics.pop(name, None)
            passes.reports.add_metrics(metrics)
            report_metrics(metrics)
        elif event == "on_train_begin":
            passes.reports.expect(
                epochs=_epochs(state),
                why={"epochs": f"it was asked for {state.max_steps} steps"},
                network=type(handler.model).__name__,
                parameters=parameters_of(handler.model),
            )
        elif event == "on_train_end":
            passes.fit_ended()

    wrap(module.CallbackHandler, "call_event", reporter, before=called)


def _epochs(state: Any) -> int | None:
    """Return how many epochs are to come, a part of one as one; those of a checkpoint are over."""
    asked = state.num_train_epochs
    if not isinstance(asked, int) or asked >= MANY:
        return None
    return max(0, asked - int(getattr(state, "epoch", None) or 0))


def _metrics(logs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in logs.items()
        if isinstance(value, (int, float))
        and not name.endswith(NO_METRICS)
        and not name.startswith("train_")
    }
