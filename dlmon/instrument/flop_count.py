"""Count the operations of one early step of PyTorch's, where a person asks for it.

PyTorch's counter watches the step, which is slow and counts in no figure. It begins and ends where
the training thread queues a batch, as a profile does, so that no other step costs anything. What
is compiled runs as it is written in that step: a counter sees nothing of what was compiled.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from importlib import import_module
from typing import Any

from dlmon.instrument.queued import MeasuredBatch, ProfiledSteps, Queued
from dlmon.instrument.reporter import Reporter
from dlmon.statistics.operations import COUNTED

VARIABLE = "DLMON_COUNT_FLOPS"
_FUSED = "_scaled_dot_product_flash_attention"
# Of five products on the way back.
_NEEDED = 4 / 5
COMPUTES_AGAIN = "it computes activations again, which a counter can't tell from the rest"
NOTHING = "PyTorch's counter saw no operation in a step"
_FIELDS = ("flops_per_sample", "flops_per_token")


def is_asked_for() -> bool:
    """Return whether a person wants a step of this process counted."""
    return bool(os.environ.get(VARIABLE))


def _counter() -> Any:
    """Return PyTorch's counter, which here knows the fused attention of a CPU too.

    Fused attention computes a fifth of its way back again, the scores, which adds nothing.
    """
    torch = sys.modules["torch"]
    flop_counter = import_module("torch.utils.flop_counter")
    more = {}
    for operation, formula in flop_counter.flop_registry.items():
        name = str(operation)
        is_attention, is_back = "attention" in name, "backward" in name
        if is_attention and is_back:
            more[operation] = _less(formula)
        if name.partition(".")[2] in (_FUSED, f"{_FUSED}_backward"):
            end = "_backward" if is_back else ""
            on_cpu = getattr(torch.ops.aten, f"{_FUSED}_for_cpu{end}", None)
            more[on_cpu] = more[operation] if is_back else _less(formula, 1)
    more.pop(None, None)
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=more)
    if hasattr(counter, "mod_tracker"):
        # It hooks every module, of which `torch.compile` warns.
        counter.mod_tracker = nullcontext()
        counter.mod_tracker.parents = {"Global"}
    return counter


def _less(formula: Callable[..., int], share: float = _NEEDED) -> Callable[..., int]:
    def count(*arguments: Any, **named: Any) -> int:
        return round(share * formula(*arguments, **named))

    # It is given the arrays, as the formula is, and not their shapes.
    count._get_raw = True  # type: ignore[attr-defined]
    return count


class StepCount:
    """Counts the step that follows the next batch, and describes the loop with what it took.

    Args:
        reporter: queues the batches, and takes what is said of the loop.
        counter: returns what counts while it is entered.
    """

    def __init__(self, reporter: Reporter, counter: Callable[[], Any] = _counter) -> None:
        self._reporter, self._make = reporter, counter
        self._thread = threading.get_ident()
        self._counter: Any = None
        self._entered: ExitStack | None = None
        self._computes_again = False
        self.is_over = False
        self._queue: Callable[[Queued], None] = reporter.batch_ended
        # One that is there for good: each access to a method makes another.
        self._in_place = self.ended
        reporter.batch_ended = self._in_place

    def ended(self, item: Queued) -> None:
        """Queue a batch, and begin or end the count."""
        self._queue(item)
        if self.is_over or threading.get_ident() != self._thread:
            return
        try:
            if self._entered is None:
                self._begin()
            elif self._is_on_top():
                self._leave()
                self._finish(item)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._fail(f"a step can't be counted: {type(error).__name__}: {error}"[:300])

    def interrupt(self) -> None:
        """Start again after the next batch: what comes now is no step of training."""
        if self._entered is not None and self._is_on_top():
            self._leave()

    def _begin(self) -> None:
        self._counter, entered = self._make(), ExitStack()
        stance = getattr(getattr(sys.modules["torch"], "compiler", None), "set_stance", None)
        if stance is not None and "torch._dynamo" in sys.modules:
            entered.enter_context(stance("force_eager"))
        entered.enter_context(self._counter)
        self._note_checkpoints(entered)
        self._entered = entered
        self._reporter.send(ProfiledSteps(True))

    def _note_checkpoints(self, entered: ExitStack) -> None:
        """Note, until that is left, that `torch.utils.checkpoint` is called in the step."""
        module = sys.modules.get("torch.utils.checkpoint")
        for kind, name in (("_checkpoint_hook", "__init__"), ("CheckpointFunction", "forward")):
            holder: Any = getattr(module, kind, None)
            own = getattr(holder, "__dict__", {}).get(name)
            if own is None:
                continue
            entered.callback(setattr, holder, name, own)
            noting = self._noting(getattr(holder, name))
            setattr(holder, name, staticmethod(noting) if isinstance(own, staticmethod) else noting)

    def _noting(self, following: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **named: Any) -> Any:
            self._computes_again = True
            return following(*arguments, **named)

        return noting

    def _is_on_top(self) -> bool:
        """Return whether no mode of the script's own was entered since, which is left first."""
        modes = sys.modules.get("torch.utils._python_dispatch")
        stack: list[Any] = getattr(modes, "_get_current_dispatch_mode_stack", list)()
        ours = (self._counter, getattr(self._counter, "mode", None))
        return not stack or any(stack[-1] is one for one in ours)

    def _leave(self) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.close()
            self._reporter.send(ProfiledSteps(False))

    def _finish(self, item: Queued) -> None:
        operations = int(self._counter.get_total_flops())
        self._end()
        if operations <= 0 or self._computes_again:
            self._describe(None, COMPUTES_AGAIN if self._computes_again else NOTHING)
            return
        samples = tokens = None
        if isinstance(item, MeasuredBatch):
            samples, tokens = _sum(item.samples), _sum(item.tokens)
        if tokens:
            self._describe({"flops_per_token": operations // tokens})
        else:
            # Where steps are counted, each of them is a sample.
            self._describe({"flops_per_sample": operations // (samples or 1)})

    def _end(self) -> None:
        self.is_over = True
        if self._reporter.batch_ended is self._in_place:
            self._reporter.batch_ended = self._queue

    def _fail(self, why: str) -> None:
        self._leave()
        self._end()
        self._describe(None, why)

    def _describe(self, found: dict[str, int] | None, why: str | None = None) -> None:
        if found is None:
            self._reporter.describe_loop(why={"flops_per_sample": why or ""}, flops_per_sample=None)
            return
        nothing: dict[str, Any] = dict.fromkeys((*_FIELDS, "attention_flops"))
        self._reporter.describe_loop(**{**nothing, **found, "flops_from": COUNTED})


def _sum(sizes: int | tuple[int, ...] | None) -> int | None:
    return sum(sizes) if isinstance(sizes, tuple) else sizes
