"""What a script reports itself: training, step and epoch, for loops that no framework shows.

All of it does nothing where no monitor listens.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from dlmon.instrument.queued import EpochEnd, EpochStart, MeasuredBatch
from dlmon.instrument.reporter import REPORTER, Reporter
from dlmon.records import finite

OWNER = "dlmon"
NO_SIZE = "the script does not say how many samples a step has"


def _whole(number: Any) -> int | None:
    """Return a number of samples or the like, which a script may have as NumPy's; None if none."""
    if type(number) is int:
        return number if number >= 0 else None
    try:
        whole = int(number) if number == int(number) else None
    except Exception:  # noqa: BLE001 - whatever it is, the script goes on
        return None
    return whole if whole is not None and whole >= 0 else None


class Training:
    """A loop that a script reports itself: `with dlmon.training(...)`.

    Args:
        samples: of an epoch; None where there is no such number.
        epochs: how many there are to be.
        batch_size: samples of a step, where each has as many: then `step` needs no number.
        steps: of an epoch.
        network: what is trained.
        reporter: what it reports to.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        samples: int | None = None,
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        network: str | None = None,
        reporter: Reporter | None = None,
        clock: Any = time.monotonic_ns,
    ) -> None:
        self._samples, self._epochs = _whole(samples), _whole(epochs)
        self._batch_size, self._steps = _whole(batch_size), _whole(steps)
        self._network = network if isinstance(network, str) else None
        if self._steps is None and self._samples is not None and self._batch_size:
            self._steps = -(-self._samples // self._batch_size)
        self._reporter = reporter or REPORTER
        self._clock = clock
        self._is_on = False
        self._epoch: int | None = None
        self._step = 0
        self._entered_ns = 0

    def __enter__(self) -> Training:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def begin(self) -> None:
        """Begin the loop: what trains is counted here, and nowhere else, until it ends."""
        global _current
        _current = self
        self._entered_ns = self._clock()
        self._is_on = self._reporter.is_on
        if not self._is_on:
            return
        self._reporter.claim(OWNER)
        self._is_on = self._reporter.start(OWNER, None)
        why = {} if self._samples is not None else {"samples_per_epoch": NO_SIZE}
        self._reporter.begin_loop(
            batch_size=self._batch_size,
            samples_per_epoch=self._samples,
            steps_per_epoch=self._steps,
            epochs=self._epochs,
            network=self._network,
            why=why,
            infers_length=True,
        )
        self._reporter.enter("compiling", self._entered_ns)

    def step(self, samples: int | None = None, metrics: Mapping[str, Any] | None = None) -> None:
        """Report that a step has ended, how many samples it had, and what came of it.

        Of its metrics, those of about one step a second are looked at.
        """
        if not self._is_on:
            return
        if self._epoch is None:
            self._begin_epoch()
        held = self._batch_size if samples is None else _whole(samples)
        self._reporter.batch_ended(MeasuredBatch(self._step, self._clock(), held))
        self._step += 1
        if metrics:
            reads = self._reporter.reads
            reads.are_reported = True
            if reads.is_due:
                self._report_metrics(metrics)

    def _report_metrics(self, metrics: Mapping[str, Any]) -> None:
        # As numbers: a tensor may change before the side thread looks at it.
        numbers = {}
        for name, metric in metrics.items():
            try:
                numbers[name] = float(metric)
            except Exception:  # noqa: BLE001, S112 - whatever it is, the script goes on
                continue
        self._reporter.send_metrics(self._clock(), numbers)

    def epoch(self, metrics: Mapping[str, Any] | None = None) -> None:
        if not self._is_on or self._epoch is None:
            return
        values, why = finite(metrics or {})
        now, number = self._clock(), self._epoch
        self._reporter.send(EpochEnd(epoch=number, t=now, metrics=values, why=why, cut=False))
        self._entered_ns, self._epoch = now, None

    def end(self) -> None:
        """End the loop; an epoch that has not ended was cut short."""
        global _current
        if _current is self:
            _current = None
        if not self._is_on:
            return
        if self._epoch is not None and self._has_epochs:
            self._reporter.send(
                EpochEnd(epoch=self._epoch, t=self._clock(), metrics={}, why={}, cut=True)
            )
        self._reporter.end_loop()
        self._reporter.let_go(OWNER)
        self._reporter.reads.are_reported = False

    @property
    def _has_epochs(self) -> bool:
        return self._samples is not None or self._epochs is not None or self._steps is not None

    def _begin_epoch(self) -> None:
        self._epoch, self._step = self._reporter.next_epoch(), 0
        self._reporter.send(
            EpochStart(
                epoch=self._epoch,
                t=self._entered_ns,
                phase="training",
            )
        )


_current: Training | None = None


def training(
    samples: int | None = None,
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    steps: int | None = None,
    network: str | None = None,
) -> Training:
    """Return a context in which `step` and `epoch` report a loop.

    Args:
        samples: of an epoch; None where there is no such number.
        epochs: how many there are to be.
        batch_size: samples of a step, where each has as many: then `step` needs no number.
        steps: of an epoch.
        network: what is trained.
    """
    return Training(samples, epochs=epochs, batch_size=batch_size, steps=steps, network=network)


def step(samples: int | None = None, **metrics: Any) -> None:
    """Report that a step has ended, and how many samples it had: `dlmon.step(32, loss=0.3)`.

    Without `training` around it, a loop begins with the first one.
    """
    current = _current
    if current is None:
        current = Training()
        current.begin()
    current.step(samples, metrics)


def epoch(**metrics: Any) -> None:
    """Report that an epoch has ended, and what came of it: `dlmon.epoch(loss=0.3)`."""
    if _current is not None:
        _current.epoch(metrics)
