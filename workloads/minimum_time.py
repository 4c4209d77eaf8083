"""Add epochs to those requested until the steady state has lasted `--seconds`.

A fast network ends its epochs long before it is steady, above all if `--steps` cuts them short.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dlmon.instrument.reporter import Reporter
from dlmon.records import Model

# Ends a run even if its clock stands still.
MAX_EXTRA_EPOCHS = 100_000
# The time between estimates, and the relative change that is worth reporting.
ESTIMATE_EVERY_NS = 1_000_000_000
WORTH_REPORTING = 0.1


class MinimumTime:
    """Decides after every epoch whether another follows, and reports the planned number.

    Args:
        reporter: measures the steady state, and sends the changed `Model`.
        model: the sent `Model`, with the requested epochs.
        seconds: minimum time of the steady state; 0 for none.
    """

    def __init__(self, reporter: Reporter, model: Model, seconds: float) -> None:
        self._reporter = reporter
        self._model = model
        self._steady_us = round(seconds * 1e6)
        # A workload's own model always has a number.
        self._requested_epochs = model.epochs or 0
        self._reported_epochs = self._requested_epochs
        # Ended epochs and time left at the first estimate.
        self._first_estimate: tuple[int, int] | None = None
        self._since_estimate_ns = 0
        self.max_epochs = self._requested_epochs + (MAX_EXTRA_EPOCHS if seconds > 0 else 0)

    def should_continue(self, ended_epochs: int, train_ns: int) -> bool:
        """Return whether another epoch is to follow.

        Args:
            ended_epochs: the number of epochs that have ended.
            train_ns: training time of the last epoch.
        """
        if ended_epochs < self._requested_epochs:
            return True
        left_us = self._reporter.steady_left_us(self._steady_us) if self._steady_us else 0
        if not left_us or ended_epochs >= self.max_epochs:
            self._report(ended_epochs)
            return False
        self._since_estimate_ns += train_ns
        is_behind = ended_epochs >= self._reported_epochs
        if is_behind or self._since_estimate_ns >= ESTIMATE_EVERY_NS:
            self._since_estimate_ns = 0
            per_epoch_us = self._gain_per_epoch_us(ended_epochs, left_us) or train_ns / 1000
            epochs = min(ended_epochs + math.ceil(left_us / max(per_epoch_us, 1)), self.max_epochs)
            change = abs(epochs - self._reported_epochs)
            if is_behind or change > WORTH_REPORTING * self._reported_epochs:
                self._report(epochs)
        return True

    def _gain_per_epoch_us(self, ended_epochs: int, left_us: int) -> float:
        """Return the steady time that each epoch has added since the first estimate.

        That is less than the epoch took: its opening is not steady.
        """
        if self._first_estimate is None:
            self._first_estimate = ended_epochs, left_us
            return 0.0
        first_ended, first_left_us = self._first_estimate
        return max(0, first_left_us - left_us) / (ended_epochs - first_ended)

    def _report(self, epochs: int) -> None:
        if epochs != self._reported_epochs:
            self._reported_epochs = epochs
            extra_epochs = epochs - self._requested_epochs
            self._reporter.send(replace(self._model, extra_epochs=extra_epochs))
