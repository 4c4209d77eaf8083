"""How many epochs follow those that were asked for (`--seconds`).

A quick network is through its epochs long before it is steady, above all where
`--steps` cuts them short. More of them follow then.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dlmon.instrument.reporter import Reporter
from dlmon.records import Model

# Ends a run whose clock stands still.
MAX_EXTRA_EPOCHS = 100_000
# How often the number of epochs is estimated again, and by how much it must differ to be reported.
ESTIMATE_EVERY_NS = 1_000_000_000
WORTH_REPORTING = 0.1


class MinimumTime:
    """Decides after every epoch whether another follows, and reports how many are planned.

    Args:
        reporter: knows how long the steady state has lasted; sends the changed `Model`.
        model: as it was sent, with the epochs that were asked for.
        seconds: how long the steady state is to last; 0 where that doesn't matter.
    """

    def __init__(self, reporter: Reporter, model: Model, seconds: float) -> None:
        self._reporter = reporter
        self._model = model
        self._steady_us = round(seconds * 1e6)
        # A workload's own model always says how many.
        self._asked = model.epochs or 0
        self._reported_epochs = self._asked
        # At the first estimate: how many epochs had ended, and what was left.
        self._estimated: tuple[int, int] | None = None
        self._since_estimate_ns = 0
        self.max_epochs = self._asked + (MAX_EXTRA_EPOCHS if seconds > 0 else 0)

    def should_continue(self, ended: int, train_ns: int) -> bool:
        """Return whether another epoch is to follow.

        Args:
            ended: how many epochs have ended.
            train_ns: how long the last one trained for.
        """
        if ended < self._asked:
            return True
        left_us = self._reporter.steady_left_us(self._steady_us) if self._steady_us else 0
        if not left_us or ended >= self.max_epochs:
            self._report(ended)
            return False
        self._since_estimate_ns += train_ns
        if ended >= self._reported_epochs or self._since_estimate_ns >= ESTIMATE_EVERY_NS:
            self._since_estimate_ns = 0
            per_epoch_us = self._gain_per_epoch_us(ended, left_us) or train_ns / 1000
            epochs = min(ended + math.ceil(left_us / max(per_epoch_us, 1)), self.max_epochs)
            if (
                ended >= self._reported_epochs
                or abs(epochs - self._reported_epochs) > WORTH_REPORTING * self._reported_epochs
            ):
                self._report(epochs)
        return True

    def _gain_per_epoch_us(self, ended: int, left_us: int) -> float:
        """Return what each epoch has added to the steady state since the first estimate.

        That is less than it took: each is opened first.
        """
        if self._estimated is None:
            self._estimated = ended, left_us
            return 0.0
        ended_then, left_then_us = self._estimated
        return max(0, left_then_us - left_us) / (ended - ended_then)

    def _report(self, epochs: int) -> None:
        if epochs != self._reported_epochs:
            self._reported_epochs = epochs
            self._reporter.send(replace(self._model, extra_epochs=epochs - self._asked))
