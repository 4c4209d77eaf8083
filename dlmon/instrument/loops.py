"""The script's own reports: `training`, `step` and `epoch`, for loops of unknown frameworks.

They do nothing if no monitor listens.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from dlmon.instrument.queued import EpochEnd, EpochStart, MeasuredBatch
from dlmon.instrument.reporter import REPORTER, Reporter
from dlmon.records import Notice

OWNER = "dlmon"
NO_SIZE = "the script does not say how many samples a step has"
IMPOSSIBLE = "the script says a number that can't be"
# A log can hold the sum of a million such numbers.
LARGEST = 10**12

_lock = threading.RLock()
"""Held while a step is queued: steps of several threads may end at once, or with an epoch."""


def _renew_lock() -> None:
    """Replace the lock in a forked child: another thread of the parent may hold it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _whole(number: Any) -> int | None:
    """Return a count as an int, also from NumPy; None if it is no whole number from 0 on."""
    try:
        whole = int(number)
        return whole if whole == number and 0 <= whole <= LARGEST else None
    except Exception:  # noqa: BLE001 - whatever it is, the script goes on
        return None


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _safe(method: _Method) -> _Method:
    """Turn reporting off by an error of ours in a method of `Training`, instead of raising."""

    @wraps(method)
    def call(self: Training, *arguments: Any, **named: Any) -> None:
        try:
            method(self, *arguments, **named)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self.turn_off(error)

    return call  # type: ignore[return-value]


class Steps:
    """A loop whose steps are reported as they end.

    Args:
        reporter: takes the reports.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, reporter: Reporter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._reporter, self._clock = reporter, clock
        self._owner = ""
        self._epoch: int | None = None
        self._epoch_begin_ns = 0
        self.last_metrics: Callable[[], Mapping[str, Any]] = dict
        """Returns the metrics of the last step, which are sent as the loop ends."""

    def begin(self, owner: str, version: str | None, **fields: Any) -> bool:
        """Begin the loop, and return whether a monitor listens.

        Args:
            owner: the framework that reports, which has the reporter.
            version: its version.
            fields: arguments of `Reporter.begin_loop`.
        """
        if not self._reporter.start(owner, version):
            return False
        self._owner, self._epoch_begin_ns = owner, self._clock()
        self._reporter.begin_loop(**fields)
        self._reporter.enter("compiling", self._epoch_begin_ns)
        return True

    def begin_epoch(self, t: int | None = None) -> None:
        """Begin an epoch, by default as the loop began or the last epoch ended."""
        number = self._reporter.next_epoch()
        self._reporter.send(EpochStart(number, self._epoch_begin_ns if t is None else t))
        self._epoch = number

    def step(
        self,
        samples: int | None,
        metrics: Callable[[], Mapping[str, Any]],
        tokens: int | None = None,
    ) -> None:
        """Report a step that has ended; `metrics` is called about once a second."""
        with _lock:
            if self._epoch is None:
                self.begin_epoch()
            now = self._clock()
            self._reporter.batch_ended(MeasuredBatch(now, samples, tokens=tokens))
        if self._reporter.reads.is_due and (values := metrics()):
            self._reporter.send_metrics(now, values)

    def end_epoch(self, metrics: Mapping[str, Any], cut: bool = False) -> None:
        with _lock:
            if self._epoch is not None:
                now, number = self._clock(), self._epoch
                self._reporter.send(EpochEnd(epoch=number, t=now, metrics=dict(metrics), cut=cut))
                self._epoch_begin_ns, self._epoch = now, None

    def end(self) -> None:
        """End the loop; an epoch that is still open stays without an end."""
        if values := self.last_metrics():
            self._reporter.send_metrics(self._clock(), values)
        self._epoch = None
        self._reporter.end_loop()
        self._reporter.let_go(self._owner)


class Training:
    """A loop that a script reports itself: `with dlmon.training(...)`.

    Inside it, call `step` and `epoch`.

    Args:
        samples: samples of an epoch; None if unknown.
        epochs: the number of epochs.
        batch_size: samples of every step, if they are equal: then `step` needs no number.
        steps: steps of an epoch.
        network: the name of the network.
        reporter: takes the reports.
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
    ) -> None:
        numbers = {"samples": samples, "epochs": epochs, "batch_size": batch_size, "steps": steps}
        self._samples, self._epochs = _whole(samples), _whole(epochs)
        self._batch_size, self._steps_per_epoch = _whole(batch_size), _whole(steps)
        self._impossible = [
            f"dlmon.training({name}=…)"
            for name, number in numbers.items()
            if number is not None and _whole(number) is None
        ]
        self._network = network if isinstance(network, str) else None
        if self._steps_per_epoch is None and self._samples is not None and self._batch_size:
            self._steps_per_epoch = -(-self._samples // self._batch_size)
        self._reporter = reporter or REPORTER
        self._steps = Steps(self._reporter)
        self._is_on = False

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

    @_safe
    def begin(self) -> None:
        """Begin the loop; until it ends, dlmon counts no other training."""
        global _current
        try:
            if self._reporter.is_on:
                self._begin()
        finally:
            # Another thread that finds it before it has begun would lose its steps.
            _current = self

    def _begin(self) -> None:
        why = {}
        if self._samples is None:
            is_impossible = "dlmon.training(samples=…)" in self._impossible
            why["samples_per_epoch"] = IMPOSSIBLE if is_impossible else NO_SIZE
        self._reporter.take(OWNER, by_force=True)
        self._is_on = self._steps.begin(
            OWNER,
            None,
            batch_size=self._batch_size,
            samples_per_epoch=self._samples,
            steps_per_epoch=self._steps_per_epoch,
            epochs=self._epochs,
            network=self._network,
            why=why,
            infers_length=True,
        )
        for argument in self._impossible:
            self._notice_impossible(argument)

    def _notice_impossible(self, argument: str) -> None:
        text = f"{argument} got a number that can't be: it is not used"
        self._reporter.send(Notice(time.monotonic_ns(), text))

    def _count_of(self, number: Any, argument: str) -> int | None:
        """Return a count of a step; None if it is impossible, with a notice the first time."""
        whole = _whole(number)
        if whole is None and argument not in self._impossible:
            self._impossible.append(argument)
            self._notice_impossible(argument)
        return whole

    def step(
        self,
        samples: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        tokens: int | None = None,
    ) -> None:
        """Report that a step has ended; metrics are read about once a second."""
        if not self._is_on:
            return
        try:
            if metrics:
                self._reporter.reads.are_reported = True
            size = self._batch_size
            if samples is not None:
                size = self._count_of(samples, "dlmon.step(samples=…)")
            if tokens is not None:
                tokens = self._count_of(tokens, "dlmon.step(tokens=…)")
            self._steps.step(size, lambda: _numbers(metrics or {}), tokens)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self.turn_off(error)

    @_safe
    def epoch(self, metrics: Mapping[str, Any] | None = None) -> None:
        if self._is_on:
            self._steps.end_epoch(_numbers(metrics or {}))

    def turn_off(self, error: Exception) -> None:
        """Report no more of the loop after an error of ours."""
        self._is_on = False
        self._reporter.turn_off(error)

    @_safe
    def end(self) -> None:
        """End the loop, and cut an epoch that has not ended."""
        global _current
        if _current is self:
            _current = None
        if not self._is_on:
            return
        if (self._samples, self._epochs, self._steps_per_epoch) != (None, None, None):
            self._steps.end_epoch({}, cut=True)
        self._steps.end()
        self._reporter.reads.are_reported = False


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return metrics as numbers: a tensor may change before the side thread reads it."""
    numbers = {}
    for name, metric in metrics.items():
        try:
            numbers[name] = float(metric)
        except OverflowError:
            numbers[name] = math.inf if metric > 0 else -math.inf
        except Exception:  # noqa: BLE001, S112 - whatever it is, the script goes on
            continue
    return numbers


_current: Training | None = None


training = Training


def step(samples: int | None = None, *, tokens: int | None = None, **metrics: Any) -> None:
    """Report that a step has ended: `dlmon.step(32, loss=0.3)`.

    Without `training` around it, the first step begins a loop.

    Args:
        samples: samples of the step.
        tokens: tokens of the step, for a language model.
        metrics: metrics of the step, by name.
    """
    current = _current
    if current is None:
        with _lock:
            current = _current
            if current is None:
                current = Training()
                current.begin()
    current.step(samples, metrics, tokens)


def epoch(**metrics: Any) -> None:
    """Report that an epoch has ended, with its metrics: `dlmon.epoch(loss=0.3)`."""
    if _current is not None:
        _current.epoch(metrics)
