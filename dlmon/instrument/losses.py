"""Add up the loss that a PyTorch script goes backward from, of every step of the optimiser.

What counts is what one step of the optimiser takes: where a script adds up gradients over several
batches, the sum of their losses. About once a second the mean since the last time is reported, and
of each epoch the mean of all its steps. A GPU is never waited for: losses are added up there, one
addition a loss, and the side thread reads the sum once it has been copied. The learning rate, and
the norm of the gradients where the script clips it, are read with the loss.

PyTorch is there when a hook is set: it is never imported from here.
"""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from dlmon.instrument.fit_watch import OWNER as KERAS
from dlmon.instrument.queued import GRADIENT_NORM, LEARNING_RATE
from dlmon.instrument.reporter import Reporter

LOSS = "loss"
# They scale the loss by factors of their own before they go backward.
_SCALING = ("deepspeed", "apex")


class OnGpu:
    """A number that a GPU computes, as what it is divided by: its copy begins, and is awaited."""

    def __init__(self, number: Any, divided_by: int = 1) -> None:
        cuda = sys.modules["torch"].cuda
        self._copy, self._divided_by = number.to("cpu", non_blocking=True), divided_by
        self._done = cuda.Event()
        self._done.record(cuda.current_stream(number.device))

    def is_there(self) -> bool:
        return bool(self._done.query())

    def __float__(self) -> float:
        return float(self._copy.item()) / self._divided_by


def _mean(total: Any, steps: int) -> Any:
    return total / steps if isinstance(total, float) else OnGpu(total, steps)


class EpochLoss:
    """What the losses of an epoch's steps add up to, as far as it is known."""

    def __init__(self) -> None:
        self.total: Any = None
        self.steps = 0
        self.is_known = True
        """Whether no loss of it was missed."""
        self.is_told = False
        """Whether the script's framework says what the epoch's loss is."""

    @property
    def metrics(self) -> dict[str, Any]:
        """The mean of the steps, by its name; nothing where that isn't known."""
        if self.is_told or not self.is_known or not self.steps:
            return {}
        return {LOSS: _mean(self.total, self.steps)}

    def add(self, total: Any, steps: int) -> None:
        self.total = total if self.total is None else self.total + total
        self.steps += steps


class Losses:
    """Adds up the losses of the optimiser that steps first, from one of its steps to the next.

    Args:
        reporter: says when to report, and takes what is read; Keras reports its metrics itself.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        reporter: Reporter,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._reporter, self._clock, self._reads = reporter, clock, reporter.reads
        self.is_reading = True
        """Whether `went_backward` wants to know: what its caller asks first."""
        self.is_within_step = False
        """Whether an optimiser steps: what it computes itself, maybe several times, is within."""
        # Of the steps since the last look; and with what went backward since the last of them, None
        # where nothing did. Numbers, or tensors on a GPU, which are replaced and never changed.
        self.norm: Any = None
        """The norm of the gradients that are to be stepped with, where that was computed."""
        self.read_names: set[str] = set()
        """The metrics that were read so far."""
        self._total: Any = None
        self._sum: Any = None
        self._since_step = 0.0
        """Of a CPU, what went backward since the last step: infinite less infinite is no number."""
        self._steps = 0
        self._epoch = EpochLoss()
        self._has_inner = False
        self._followed: Callable[[], Any] = lambda: None
        self._has_scaler = False
        self._unscaled: tuple[Callable[[], Any], Any] | None = None
        self._is_off = False

    @property
    def has_read(self) -> bool:
        return bool(self._steps or self._epoch.steps)

    # What epochs are.

    def begin_epoch(self, is_known: bool = True, steps_now: bool = False) -> None:
        """Begin to add up what may be another epoch: its first step says whose losses count.

        Args:
            is_known: false where some of its steps are over.
            steps_now: it begins with a step of what went backward before.
        """
        if not self.has_read and not steps_now:
            # Nothing stepped: what went backward is of no step to come.
            self._sum = None
        self._close()
        self._epoch, self._followed = EpochLoss(), lambda: None
        self._epoch.is_known = is_known
        self.is_within_step = self._has_inner = False
        if not self._is_off:
            self.is_reading = True

    def end_epoch(self) -> EpochLoss:
        """Return what the epoch comes to so far."""
        self._close()
        return self._epoch

    # What the hooks call.

    def stepped(self, optimizer: Any) -> None:
        self.is_within_step = self._has_inner = False
        try:
            followed = self._followed()
            if followed is not optimizer and (followed is not None or not self._follow(optimizer)):
                self._sum = None
            elif self._sum is not None:
                self._total, self._sum = self._sum, None
                self._steps += 1
                if self._reads.is_due:
                    self._report(optimizer)
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
            self.turn_off()

    def zeroed(self) -> None:
        """Forget what has no part in the next step: its gradients were made zero.

        A scaler leaves out the step of a loss that is no finite number: the mean says so.
        """
        if self._has_inner:
            return
        if self._has_scaler and self._sum is not None:
            self._keep_no_number(self._sum)
        self._sum = None

    def _keep_no_number(self, total: Any) -> None:
        """Take a sum that is no finite number for the sum of the steps."""
        if isinstance(total, float):
            if not math.isfinite(total):
                self._total, self._steps = total, self._steps + 1
        else:
            torch = sys.modules["torch"]
            before = torch.zeros_like(total) if self._total is None else self._total
            self._total = torch.where(torch.isfinite(total), before, total)

    def scaled(self, loss: Any, scaled: Any) -> None:
        """Note what a loss was, before a scaler of gradients made it another."""
        self._unscaled = None
        if scaled is loss:
            return
        self._has_scaler = True
        if self.is_reading:
            self._unscaled = weakref.ref(scaled), loss.detach()

    def went_backward(self, loss: Any) -> None:
        """Take a loss, a tensor of one number; within a step, the first counts."""
        if self._has_scaler:
            unscaled, self._unscaled = self._unscaled, None
            if unscaled is None or unscaled[0]() is not loss:
                self._epoch.is_known = False
                return
            loss = unscaled[1]
        if self.is_within_step:
            if self._has_inner:
                return
            self._has_inner = True
        before = self._total if self._sum is None else self._sum
        if loss.is_cpu:
            value: Any = loss.item()
            self._since_step = value if self._sum is None else self._since_step + value
        elif not loss.is_cuda or sys.modules["torch"].cuda.is_current_stream_capturing():
            # A graph that is recorded is computed later, without a call of ours.
            self.turn_off()
            return
        else:
            value = loss.detach()
            if before is None or value.device != getattr(before, "device", None):
                if before is not None:
                    self._forget()
                    before = None
                value = value.to(dtype=sys.modules["torch"].float64, copy=True)
        self._sum = value if before is None else before + value

    def turn_off(self) -> None:
        """Read no more: something is not as expected."""
        self._is_off, self.is_reading = True, False
        self._forget()
        self._unscaled = None

    def _follow(self, optimizer: Any) -> bool:
        """Return whether the losses of an optimiser count, the first that steps."""
        if any(name in sys.modules for name in _SCALING):
            self.turn_off()
            return False
        if self.has_read:
            # The epoch has steps of two.
            self._forget()
        self._followed = weakref.ref(optimizer)
        return True

    def _forget(self) -> None:
        """Leave out what was added up: the epoch's loss isn't known then."""
        self._total, self._sum, self._steps = None, None, 0
        self._epoch.is_known = False

    def _report(self, optimizer: Any) -> None:
        """Report what was added up as an optimiser stepped, unless something says it better."""
        if self._reads.are_reported or self._reporter.owner == KERAS:
            self._forget()
            self.is_reading = False
        else:
            groups = getattr(optimizer, "param_groups", None)
            others = {LEARNING_RATE: groups[0].get("lr") if groups else None}
            others[GRADIENT_NORM], self.norm = self.norm, None
            self._close(self._clock(), others)

    def _close(
        self, read_ns: int | None = None, others: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Give the epoch what was added up, and report its mean as read at a time."""
        total, steps = self._total, self._steps
        if total is None:
            return
        if self._sum is not None:
            # What went backward for a step to come is the next epoch's.
            self._sum = self._since_step if isinstance(total, float) else self._sum - total
        self._total, self._steps = None, 0
        self._epoch.add(total, steps)
        if read_ns is not None:
            is_on_cpu = isinstance(total, float)
            known = {
                name: OnGpu(value) if _is_on_gpu(value) else value
                for name, value in others.items()
                if value is not None and not (is_on_cpu and _is_on_gpu(value))
            }
            self.read_names.update(known)
            self._reporter.send_metrics(read_ns, {LOSS: _mean(total, steps), **known})


def _is_on_gpu(value: Any) -> bool:
    return bool(getattr(value, "is_cuda", False))
