"""Count the operations of one early PyTorch step, on request.

The step under PyTorch's counter is slow and is left out of all figures. Counting begins and ends as
the training thread queues a batch, like a profile, so that no other step costs anything. Compiled
modules run uncompiled in that step: the counter can't see into them.
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
# One of the five products in the backward pass of fused attention is a recomputation.
_NEEDED = 4 / 5
COMPUTES_AGAIN = "it computes activations again, which a counter can't tell from the rest"
NOTHING = "PyTorch's counter saw no operation in a step"
_FIELDS = ("flops_per_sample", "flops_per_token")


def is_asked_for() -> bool:
    """Return whether the user wants a step of this process counted."""
    return bool(os.environ.get(VARIABLE))


def _counter() -> Any:
    """Return PyTorch's counter, extended by the fused attention of a CPU.

    The scores that fused attention computes again in its backward pass don't count.
    """
    torch = sys.modules["torch"]
    flop_counter = import_module("torch.utils.flop_counter")
    formulas = {}
    for operation, formula in flop_counter.flop_registry.items():
        name = str(operation)
        is_attention, is_back = "attention" in name, "backward" in name
        if is_attention and is_back:
            formulas[operation] = _scaled(formula, _NEEDED)
        if name.partition(".")[2] in (_FUSED, f"{_FUSED}_backward"):
            end = "_backward" if is_back else ""
            on_cpu = getattr(torch.ops.aten, f"{_FUSED}_for_cpu{end}", None)
            formulas[on_cpu] = formulas[operation] if is_back else _scaled(formula, 1)
    formulas.pop(None, None)
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=formulas)
    if hasattr(counter, "mod_tracker"):
        # It would hook every module, and `torch.compile` warns of that.
        counter.mod_tracker = nullcontext()
        counter.mod_tracker.parents = {"Global"}
    return counter


def _scaled(formula: Callable[..., int], share: float) -> Callable[..., int]:
    def count(*arguments: Any, **named: Any) -> int:
        return round(share * formula(*arguments, **named))

    # Pass it the arrays, like the formula, instead of their shapes.
    count._get_raw = True  # type: ignore[attr-defined]
    return count


class StepCount:
    """Counts the operations of the step after the next batch, and describes the loop with them.

    Args:
        reporter: queues the batches, and takes the description.
        new_counter: returns a context manager that counts.
    """

    def __init__(self, reporter: Reporter, new_counter: Callable[[], Any] = _counter) -> None:
        self._reporter, self._new_counter = reporter, new_counter
        self._thread = threading.get_ident()
        self._counter: Any = None
        self._contexts: ExitStack | None = None
        self._computes_again = False
        self.is_over = False
        self._queue: Callable[[Queued], None] = reporter.batch_ended
        # One object to compare with: each access to a method creates another.
        self._replacement = self.ended
        reporter.batch_ended = self._replacement

    def ended(self, item: Queued) -> None:
        """Queue a batch, and begin or end the count."""
        self._queue(item)
        if self.is_over or threading.get_ident() != self._thread:
            return
        try:
            if self._contexts is None:
                self._begin()
            elif self._is_on_top():
                self._leave()
                self._finish(item)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._fail(f"a step can't be counted: {type(error).__name__}: {error}"[:300])

    def interrupt(self) -> None:
        """Count a later step instead: the script does something else than training now."""
        if self._contexts is not None and self._is_on_top():
            self._leave()

    def _begin(self) -> None:
        self._counter, contexts = self._new_counter(), ExitStack()
        stance = getattr(getattr(sys.modules["torch"], "compiler", None), "set_stance", None)
        if stance is not None and "torch._dynamo" in sys.modules:
            contexts.enter_context(stance("force_eager"))
        contexts.enter_context(self._counter)
        self._watch_checkpoints(contexts)
        self._contexts = contexts
        self._reporter.send(ProfiledSteps(True))

    def _watch_checkpoints(self, contexts: ExitStack) -> None:
        """Note calls of `torch.utils.checkpoint`, until the contexts are left."""
        module = sys.modules.get("torch.utils.checkpoint")
        for kind, name in (("_checkpoint_hook", "__init__"), ("CheckpointFunction", "forward")):
            holder: Any = getattr(module, kind, None)
            original = getattr(holder, "__dict__", {}).get(name)
            if original is None:
                continue
            contexts.callback(setattr, holder, name, original)
            noting: Any = self._noting(getattr(holder, name))
            if isinstance(original, staticmethod):
                noting = staticmethod(noting)
            setattr(holder, name, noting)

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **named: Any) -> Any:
            self._computes_again = True
            return function(*arguments, **named)

        return noting

    def _is_on_top(self) -> bool:
        """Return whether the counter is the innermost mode: the script's modes are left first."""
        modes = sys.modules.get("torch.utils._python_dispatch")
        stack: list[Any] = getattr(modes, "_get_current_dispatch_mode_stack", list)()
        ours = (self._counter, getattr(self._counter, "mode", None))
        return not stack or any(stack[-1] is mode for mode in ours)

    def _leave(self) -> None:
        contexts, self._contexts = self._contexts, None
        if contexts is not None:
            contexts.close()
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
            # If the loop's samples are unknown, each step counts as one.
            self._describe({"flops_per_sample": operations // (samples or 1)})

    def _end(self) -> None:
        self.is_over = True
        if self._reporter.batch_ended is self._replacement:
            self._reporter.batch_ended = self._queue

    def _fail(self, why: str) -> None:
        self._leave()
        self._end()
        self._describe(None, why)

    def _describe(self, counts: dict[str, int] | None, why: str | None = None) -> None:
        if counts is None:
            self._reporter.describe_loop(why={"flops_per_sample": why or ""}, flops_per_sample=None)
            return
        empty: dict[str, Any] = dict.fromkeys((*_FIELDS, "attention_flops"))
        self._reporter.describe_loop(**{**empty, **counts, "flops_from": COUNTED})


def _sum(sizes: int | tuple[int, ...] | None) -> int | None:
    return sum(sizes) if isinstance(sizes, tuple) else sizes
