"""Read the loss that a PyTorch script goes backward from, about once a second.

What counts is what one step of the optimiser takes: where a script adds up gradients over several
batches, the sum of their losses. A GPU is never waited for: the loss is added up there, copied
without waiting once the step is queued, and looked at when a later step finds the copy done.

PyTorch is there when a hook is set: it is never imported from here.

Runs in the trained interpreter: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from dlmon.instrument.around import hide_this_frame
from dlmon.instrument.fit_watch import OWNER as KERAS
from dlmon.instrument.reporter import Reporter

LOSS = "loss"
# So many steps of other optimisers without one of the optimiser that is followed: it is done.
GIVEN_UP_AFTER = 64
# They scale the loss by factors of their own before they go backward.
_SCALING = ("deepspeed", "apex")

_IDLE, _READING, _COPYING = 0, 1, 2


class Losses:
    """Follows the loss of the optimiser that stepped first, from one of its steps to the next.

    Args:
        reporter: says when to read, and takes what was read; Keras reports its metrics itself.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        reporter: Reporter,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._reporter, self._clock = reporter, clock
        self.is_reading = False
        """Whether `went_backward` wants to know: what its caller asks first."""
        self.goes_backward = False
        """Whether PyTorch goes backward now; what it calls within that is none of the script's."""
        self.has_read = False
        """Whether any loss was read."""
        self._state = _IDLE
        self._sum: Any = None
        self._copied: Callable[[], float | None] | None = None
        self._copied_ns = 0
        self._is_within_step = self._has_inner = False
        self._followed: Callable[[], Any] = lambda: None
        self._others = 0
        self._has_scaler = False
        self._unscaled: tuple[Callable[[], Any], Any] | None = None
        self._is_off = False

    def step_began(self) -> None:
        """Note that an optimiser steps: what it computes itself, maybe several times, is within."""
        self._is_within_step = True

    def stepped(self, optimizer: Any) -> None:
        """Go on after a step of an optimiser, now that metrics are due."""
        self._is_within_step = False
        try:
            self._go_on(optimizer)
        except Exception:  # noqa: BLE001 - whatever it is, the steps are counted on
            self.turn_off()

    def _go_on(self, optimizer: Any) -> None:
        reads = self._reporter.reads
        if self._is_off or reads.are_reported or self._reporter.is_of(KERAS):
            self._rest()
            return
        if self._state == _COPYING:
            self._look_at_copy()
            return
        followed = self._followed()
        if followed is None or self._others >= GIVEN_UP_AFTER:
            self._followed, followed, self._others = weakref.ref(optimizer), optimizer, 0
        if followed is not optimizer:
            self._others += 1
            self._sum, self._has_inner = None, False
            return
        if self._state == _IDLE:
            # From one of its steps to the next, so that no part of a loss is left out.
            self._begin()
            return
        self._others = 0
        if self._sum is None:
            self._has_inner = False
            return
        total, self._sum = self._sum, None
        self.is_reading, self._copied_ns = False, self._clock()
        if isinstance(total, float):
            self._send(total)
            return
        self._copied = _copied_from_gpu(total)
        self._state = _IDLE if self._copied is None else _COPYING

    def zeroed(self) -> None:
        """Forget what has no part in the next step: its gradients were made zero."""
        if not self._has_inner:
            self._sum = None

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
                return
            loss = unscaled[1]
        if self._is_within_step:
            if self._has_inner:
                return
            self._has_inner = True
        kind = loss.device.type
        if kind == "cpu":
            value: Any = float(loss.item())
        elif kind == "cuda":
            value = _on_gpu(loss)
        else:
            self.turn_off()
            return
        if value is None:
            # Recorded for later: nothing is computed now.
            self._rest()
            return
        self._sum = value if self._sum is None else self._sum + value

    def turn_off(self) -> None:
        """Read no more: something is not as expected."""
        self._is_off = True
        self._rest()

    def _begin(self) -> None:
        if any(name in sys.modules for name in _SCALING):
            self.turn_off()
            return
        self._state, self._sum, self._has_inner = _READING, None, False
        self.is_reading = True

    def _rest(self) -> None:
        self._state, self._sum, self._copied, self._unscaled = _IDLE, None, None, None
        self.is_reading = False

    def _look_at_copy(self) -> None:
        value = self._copied() if self._copied is not None else None
        if value is not None:
            self._send(value)

    def _send(self, value: float) -> None:
        self._rest()
        self.has_read = True
        self._reporter.send_metrics(self._copied_ns, {LOSS: value})


def _on_gpu(loss: Any) -> Any:
    """Return a copy of a loss on its GPU; None while the GPU's work is only recorded."""
    torch = sys.modules["torch"]
    if torch.cuda.is_current_stream_capturing():
        return None
    return loss.detach().to(dtype=torch.float64, copy=True)


def _copied_from_gpu(number: Any) -> Callable[[], float | None] | None:
    """Begin to copy a number from a GPU; return what gives it once it is there."""
    torch = sys.modules["torch"]
    if torch.cuda.is_current_stream_capturing():
        return None
    copied = number.to("cpu", non_blocking=True)
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(number.device))
    return lambda: float(copied.item()) if done.query() else None


def around_backward(
    following: Callable[..., Any], losses: Losses, is_loss: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return `Tensor.backward` that shows its tensor first, about once a second.

    Args:
        following: PyTorch's own.
        losses: what follows them.
        is_loss: whether a tensor may be read at all.
    """

    def look(
        tensor: Any,
        gradient: Any,
        retain_graph: Any = None,
        create_graph: Any = None,
        inputs: Any = None,
    ) -> None:
        try:
            # What computes gradients of some inputs alone is no step of training.
            if gradient is None and inputs is None and is_loss(tensor):
                losses.went_backward(tensor)
        except Exception:  # noqa: BLE001 - whatever it is, the script goes on
            losses.turn_off()

    @wraps(following)
    def backward(self: Any, gradient: Any = None, *arguments: Any, **named: Any) -> Any:
        is_read = losses.is_reading and not losses.goes_backward
        if is_read:
            try:
                look(self, gradient, *arguments, **named)
            except TypeError:
                # PyTorch says itself what is wrong with these arguments.
                losses.turn_off()
            losses.goes_backward = True
        try:
            if arguments or named:
                return following(self, gradient, *arguments, **named)
            # As nearly always, and in half the time.
            return following(self, gradient)
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            if is_read:
                losses.goes_backward = False

    # `torch.compile` calls such a function as it is, without a word.
    backward._torchdynamo_disable = True  # type: ignore[attr-defined]
    return backward
