"""Add up the loss of every step of a PyTorch optimizer.

The loss of a step is the sum of all losses that went backward for it, as gradients may be
accumulated over several batches. About once a second the mean since the last report is reported,
and for each epoch the mean of its steps. A GPU is never waited for: it adds up its losses itself,
one addition a loss, and the side thread reads the sum once it has been copied. The learning rate,
and the norm of the gradients if the script clips it, are read along with the loss.

PyTorch is imported by the script before a hook is set, never from here.
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
# These scale the loss by factors of their own.
_SCALING = ("deepspeed", "apex")


class GpuNumber:
    """A number that a GPU still computes: it is copied without waiting, and then divided."""

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
    return total / steps if isinstance(total, float) else GpuNumber(total, steps)


class EpochLoss:
    """The sum of the losses of an epoch's steps."""

    def __init__(self) -> None:
        self.total: Any = None
        self.steps = 0
        self.is_known = True
        """Were all losses of the epoch read?"""
        self.is_told = False
        """Does the script's framework tell the loss of the epoch itself?"""

    @property
    def metrics(self) -> dict[str, Any]:
        """The mean loss of the steps under its name; empty if it isn't known."""
        if self.is_told or not self.is_known or not self.steps:
            return {}
        return {LOSS: _mean(self.total, self.steps)}

    def add(self, total: Any, steps: int) -> None:
        self.total = total if self.total is None else self.total + total
        self.steps += steps


class Losses:
    """Adds up the losses between the steps of the optimizer that steps first.

    Args:
        reporter: takes the metrics; Keras reports its own.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, reporter: Reporter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._reporter, self._clock, self._reads = reporter, clock, reporter.reads
        self.is_reading = True
        """Are losses read at all? Hooks look here before they call `went_backward`."""
        self.is_within_step = False
        """Is an optimizer stepping? It may compute the loss itself, even several times."""
        # `_total` is the sum of the steps since the last report; `_sum` adds what went backward
        # since the last step, or is None if nothing did. Both are numbers, or tensors on a GPU,
        # which are replaced and never changed.
        self.norm: Any = None
        """The norm of the gradients of the next step, if the script computed it."""
        self.read_names: set[str] = set()
        """The names of the metrics read so far."""
        self._total: Any = None
        self._sum: Any = None
        self._since_step = 0.0
        """The losses since the last step, on a CPU: infinity minus infinity is no number."""
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

    # Epochs.

    def begin_epoch(self, is_known: bool = True, steps_now: bool = False) -> None:
        """Begin to add up the losses of another epoch, of the optimizer that steps first in it.

        Args:
            is_known: false if some steps of the epoch are over.
            steps_now: whether what went backward before belongs to its first step.
        """
        if not self.has_read and not steps_now:
            # Nothing stepped: earlier losses belong to no step.
            self._sum = None
        self._close()
        self._epoch, self._followed = EpochLoss(), lambda: None
        self._epoch.is_known = is_known
        self.is_within_step = self._has_inner = False
        if not self._is_off:
            self.is_reading = True

    def end_epoch(self) -> EpochLoss:
        """Return the losses of the epoch so far."""
        self._close()
        return self._epoch

    # Calls of the hooks.

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
        """Forget the losses since the last step: their gradients were set to zero.

        A scaler leaves out the step of a loss that isn't finite: the mean isn't finite then.
        """
        if self._has_inner:
            return
        if self._has_scaler and self._sum is not None:
            self._keep_not_finite(self._sum)
        self._sum = None

    def _keep_not_finite(self, total: Any) -> None:
        """Take a sum that isn't finite as the sum of the steps."""
        if isinstance(total, float):
            if not math.isfinite(total):
                self._total, self._steps = total, self._steps + 1
        else:
            torch = sys.modules["torch"]
            before = torch.zeros_like(total) if self._total is None else self._total
            self._total = torch.where(torch.isfinite(total), before, total)

    def scaled(self, loss: Any, scaled: Any) -> None:
        """Note a loss before a gradient scaler scaled it."""
        self._unscaled = None
        if scaled is loss:
            return
        self._has_scaler = True
        if self.is_reading:
            self._unscaled = weakref.ref(scaled), loss.detach()

    def went_backward(self, loss: Any) -> None:
        """Add a loss, a tensor of one number; within an optimizer's step only the first counts."""
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
            # A CUDA graph under capture is computed later, without our hooks.
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
        """Stop reading losses: something is not as expected."""
        self._is_off, self.is_reading = True, False
        self._forget()
        self._unscaled = None

    def _follow(self, optimizer: Any) -> bool:
        """Follow the losses of an optimizer; return False if they can't be read."""
        if any(name in sys.modules for name in _SCALING):
            self.turn_off()
            return False
        if self.has_read:
            # The epoch has steps of two optimizers.
            self._forget()
        self._followed = weakref.ref(optimizer)
        return True

    def _forget(self) -> None:
        """Drop the sums; the loss of the epoch is unknown then."""
        self._total, self._sum, self._steps = None, None, 0
        self._epoch.is_known = False

    def _report(self, optimizer: Any) -> None:
        """Report the mean loss when an optimizer stepped, unless a framework reports its own."""
        if self._reads.are_reported or self._reporter.owner == KERAS:
            self._forget()
            self.is_reading = False
        else:
            groups = getattr(optimizer, "param_groups", None)
            step_metrics = {LEARNING_RATE: groups[0].get("lr") if groups else None}
            step_metrics[GRADIENT_NORM], self.norm = self.norm, None
            self._close(self._clock(), step_metrics)

    def _close(
        self, read_ns: int | None = None, step_metrics: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Add the sum of the steps to the epoch; report its mean if it was read at a time."""
        total, steps = self._total, self._steps
        if total is None:
            return
        if self._sum is not None:
            # Losses of a step to come belong to the next epoch.
            self._sum = self._since_step if isinstance(total, float) else self._sum - total
        self._total, self._steps = None, 0
        self._epoch.add(total, steps)
        if read_ns is not None:
            is_on_cpu = isinstance(total, float)
            readable = {
                name: GpuNumber(value) if _is_on_gpu(value) else value
                for name, value in step_metrics.items()
                if value is not None and not (is_on_cpu and _is_on_gpu(value))
            }
            self.read_names.update(readable)
            self._reporter.send_metrics(read_ns, {LOSS: _mean(total, steps), **readable})


def _is_on_gpu(value: Any) -> bool:
    return bool(getattr(value, "is_cuda", False))
