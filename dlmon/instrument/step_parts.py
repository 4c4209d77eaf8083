"""Measure what a step of PyTorch's is made of, of about four steps a second.

What is measured goes from one batch to the next that follows a step of the optimiser, so all
batches whose gradients it adds up are in. Between them the hooks say which part begins. On a CPU
each beginning is a time; on a GPU, which works at what was queued long before, it is an event in
the stream of the thread that trains, read once the GPU has come to it and never waited for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from statistics import median
from typing import Any

from dlmon.instrument.outermost import COMPILER, Calls
from dlmon.instrument.pauses import pauses_of
from dlmon.instrument.reporter import Reporter, hide_this_frame, wrap
from dlmon.instrument.tokens import arrays_in
from dlmon.records import StepParts

WAIT, COPY, FORWARD, BACKWARD, OPTIMIZER = (
    *("wait_us", "copy_us", "forward_us", "backward_us"),
    "optimizer_us",
)
# From the loader's return on, and outside of all that is known.
BEFORE, REST = "before", "rest"

EVERY_NS = 250_000_000
REPORT_NS = 1_000_000_000
NEVER = 1 << 63
# The first batches compile, and set things up.
WARM_UP = 10
# A loop may do something else every few steps: so many are passed over now and then, or fewer.
MOST_SKIPPED = 7
# Of more, nothing is known: gradients of hundreds of batches are added up.
MOST_MARKS = 1024
# So many steps may wait for a GPU.
MOST_PENDING = 8
# One that took so many times the usual was held up by something else.
OUTLIER, KNOWN_STEPS, LEAST_KNOWN = 10, 15, 5
# In so many steps nothing went backward.
UNSEEN = 8
NOT_BACKWARD = "no call of backward was seen in a step: it may run in a CUDA graph"
SEVERAL_DEVICES = "its network lies on several devices"


class StepMarks:
    """Marks where the parts of a step begin.

    Args:
        reporter: takes what steps come to.
        clock: CLOCK_MONOTONIC in nanoseconds.
        is_watched: whether the hooks of PyTorch say what goes forward and backward.
    """

    def __init__(
        self,
        reporter: Reporter,
        clock: Callable[[], int] = time.monotonic_ns,
        is_watched: bool = True,
    ) -> None:
        self._reporter, self._clock, self._is_watched = reporter, clock, is_watched
        self.due_ns = NEVER
        """When `begin_batch` is to be called next: what its caller asks first."""
        self.is_on = False
        """Whether a step is measured, so that its parts are to be marked."""
        self.thread: Any = None
        self._is_known = False
        self._device: Any = None
        self._stream: Any = None
        self._parts: list[str] = []
        self._marks: list[Any] = []
        self._batches = self._seen = self._measured = self._skip = self._unseen = 0
        # How many parts had begun when the newest batch was counted.
        self._counted = 0
        self._begun_ns = self._sent_ns = 0
        self._ident = 0
        self._is_stepping = False
        self._hooks: list[Any] = []
        self._events: list[Any] = []
        self._pending: deque[tuple[list[str], list[Any], int]] = deque()
        self._known: deque[float] = deque(maxlen=KNOWN_STEPS)
        self._sums: Counter[str] = Counter()

    def begin_loop(self, optimizer: Any, device: Any = None) -> None:
        """Measure the steps of another loop from its eleventh batch on.

        Args:
            optimizer: what steps; None where that isn't known.
            device: where it trains then.
        """
        self.close()
        self._seen = self._unseen = 0
        self._known.clear()
        devices = _devices_of(optimizer) or ({device} if device is not None else set())
        kinds = {getattr(each, "type", None) for each in devices}
        # Of none, the clock would time what is queued.
        self._is_known = self._is_watched and bool(kinds) and kinds <= {"cpu", "cuda"}
        self._device = None
        if self._is_known and "cuda" in kinds:
            self._device = next(each for each in devices if each.type == "cuda")
            if len(devices) > 1:
                self._is_known = False
                self._send_why(SEVERAL_DEVICES)
        elif self._is_watched and not kinds <= {"cpu", "cuda", None}:
            self._send_why(f"it is not measured on {', '.join(sorted(map(str, kinds)))}")
        self.due_ns = 0 if self._is_known else NEVER

    def forget(self) -> None:
        """Measure no more in a forked child, until a loop of its own begins."""
        self._is_known, self._sums = False, Counter()
        self.drop()
        self._pending.clear()
        self.due_ns = NEVER

    # Called by the hooks, `begin_batch` where it is due and the others while it is on.

    def begin_batch(self, is_whole: bool, now: int, part: str, thread: Any) -> None:
        """Take the end of a batch, which begins another one with a part.

        Args:
            is_whole: whether an optimizer stepped since the step before.
            now: when it ended.
            part: what begins.
            thread: trains.
        """
        if self.is_on:
            if not is_whole:
                if BACKWARD in self._parts[self._counted :]:
                    # Else it asks again for the same one: it makes its batches itself.
                    self._batches += 1
                    self._counted = len(self._parts)
                self.enter(part)
                return
            self._end(now)
        if now < self.due_ns or not is_whole:
            return
        self._seen += 1
        if self._seen <= WARM_UP:
            return
        if self._skip:
            self._skip -= 1
            return
        self._begin(now, part, thread)

    def enter(self, part: str) -> None:
        """Begin a part; nothing is done where it runs already."""
        parts = self._parts
        if part == parts[-1]:
            return
        if len(parts) >= MOST_MARKS or not self._mark():
            self.drop()
            return
        parts.append(part)
        self._is_stepping = part == OPTIMIZER or (self._is_stepping and part in (FORWARD, BACKWARD))
        if part not in (BEFORE, REST, OPTIMIZER):
            self._unwatch_forward()
        else:
            self._watch_forward()

    def came(self, batch: Any) -> None:
        """Take a batch that the loader gave: of one that lies on a GPU nothing is to be copied."""
        if self._device is None or self._parts[-1] != BEFORE:
            return
        try:
            first = next(arrays_in(batch), None)
            if first is None or getattr(first, "is_cuda", False):
                self._parts[-1] = REST
        except Exception:  # noqa: BLE001 - what can't be looked at is not said to be copied
            self._parts[-1] = REST

    def begin_step(self, has_closure: bool) -> None:
        """Begin the step of an optimizer; what its closure does is not the optimizer's."""
        self.enter(REST if has_closure else OPTIMIZER)

    def marked(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Return a closure that marks where the work of the optimizer that calls it goes on."""

        @wraps(closure)
        def marked(*arguments: Any, **named: Any) -> Any:
            if self.is_on:
                self.enter(REST)
            try:
                return closure(*arguments, **named)
            except BaseException as error:
                hide_this_frame(error)
                raise
            finally:
                if self.is_on:
                    self.enter(OPTIMIZER)

        return marked

    def end_backward(self) -> None:
        self.enter(OPTIMIZER if self._is_stepping else REST)

    def is_of_this_thread(self) -> bool:
        return threading.get_ident() == self._ident

    def drop(self) -> None:
        """Measure this step no more: something else runs in it."""
        if self.is_on:
            self.is_on = False
            self.due_ns = self._begun_ns + EVERY_NS if self._is_known else NEVER
            self._unwatch_forward()

    def close(self) -> None:
        """Report what was measured so far, as far as a GPU has come to it."""
        self.drop()
        self._read_pending()
        self._send(self._clock())
        self._pending.clear()

    # What is measured.

    def _begin(self, now: int, part: str, thread: Any) -> None:
        self._read_pending()
        if len(self._pending) >= MOST_PENDING:
            self.due_ns = now + EVERY_NS
            return
        self._stream, self._begun_ns = None, now
        self._parts, self._marks, self._batches, self._counted = [part], [], 1, 0
        self._is_stepping = part == OPTIMIZER
        if self._mark():
            self.is_on, self.due_ns, self.thread = True, 0, thread
            self._ident = threading.get_ident()
            if part != WAIT:
                self._watch_forward()

    def _end(self, now: int) -> None:
        is_measured = self._mark()
        parts, marks, batches = self._parts, self._marks, self._batches
        self.drop()
        self._measured += 1
        often = EVERY_NS // max(1, now - self._begun_ns)
        self._skip = self._measured % (1 + min(MOST_SKIPPED, often))
        if is_measured and self._device is None:
            took_us = [(end - begin) // 1000 for begin, end in pairwise(marks)]
            self._add(parts, took_us, batches)
        elif is_measured:
            self._pending.append((parts, marks, batches))
        if now - self._sent_ns >= REPORT_NS:
            self._send(now)

    def _mark(self) -> bool:
        """Keep this moment; return whether that could be done."""
        if self._device is None:
            self._marks.append(self._clock())
            return True
        try:
            return self._record()
        except Exception:  # noqa: BLE001 - whatever the driver says, the steps are counted on
            self._is_known, self.due_ns = False, NEVER
            return False

    def _record(self) -> bool:
        cuda = sys.modules["torch"].cuda
        stream = cuda.current_stream(self._device)
        if self._stream is None:
            self._stream = stream
        # What is recorded as a graph runs later; events of two streams have no order.
        if stream != self._stream or cuda.is_current_stream_capturing():
            return False
        event = self._events.pop() if self._events else cuda.Event(enable_timing=True)
        event.record(stream)
        self._marks.append(event)
        return True

    def _read_pending(self) -> None:
        """Take the steps whose end a GPU has come to."""
        if not self._pending or sys.modules["torch"].cuda.is_current_stream_capturing():
            return
        try:
            while self._pending and self._pending[0][1][-1].query():
                parts, marks, batches = self._pending.popleft()
                took_us = [round(1000 * one.elapsed_time(next_)) for one, next_ in pairwise(marks)]
                self._events += marks
                self._add(parts, took_us, batches)
        except Exception:  # noqa: BLE001 - as above
            self._is_known, self.due_ns = False, NEVER
            self._pending.clear()

    def _add(self, parts: list[str], took_us: list[int], batches: int) -> None:
        step_us = sum(took_us)
        if min(took_us) < 0 or step_us <= 0:
            return
        is_usual = len(self._known) < LEAST_KNOWN or step_us <= OUTLIER * median(self._known)
        self._known.append(step_us)
        if not is_usual:
            return
        if BACKWARD not in parts:
            self._unseen += 1
            if self._unseen == UNSEEN:
                self._send_why(NOT_BACKWARD)
            return
        # The network that is called after it trains nothing: it generates, say.
        last = len(parts) - 1 - parts[::-1].index(BACKWARD)
        parts = [*parts[:last], *(REST if part == FORWARD else part for part in parts[last:])]
        sums = self._sums
        sums.update({"steps": batches, "step_us": step_us})
        for part, following, took in zip(parts, [*parts[1:], ""], took_us, strict=True):
            if part in (BEFORE, REST) and following == BACKWARD:
                # What goes forward is no module, or was not seen to begin.
                sums[FORWARD] += took
            elif part == BEFORE and following == FORWARD and self._device is not None:
                sums[COPY] += took
            elif part not in (BEFORE, REST):
                sums[part] += took

    def _send(self, now: int) -> None:
        self._sent_ns = now
        if self._sums:
            sums: dict[str, Any] = dict(self._sums)
            self._sums.clear()
            self._reporter.send(StepParts(t=now, **sums))

    def _send_why(self, reason: str) -> None:
        self._reporter.send(StepParts(self._clock(), 0, 0, why={BACKWARD: reason}))

    # Where what goes forward begins.

    def _watch_forward(self) -> None:
        """Have the next module that is called say that the network computes."""
        torch = sys.modules.get("torch")
        if self._hooks or torch is None:
            return
        if COMPILED:
            self._hooks = [Calls(kind, self._forward) for kind in COMPILED]
        elif not pauses_of(self._reporter).has_compiled:
            register = torch.nn.modules.module.register_module_forward_pre_hook
            self._hooks = [register(self._forward)]

    def _unwatch_forward(self) -> None:
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook.remove()

    def _forward(self, module: Any, arguments: Any, named: Any = None) -> None:
        try:
            if self.is_on and self.is_of_this_thread():
                self.enter(FORWARD)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._reporter.turn_off(error)

    # `torch.compile` calls such a function as it is, without a word.
    _forward._torchdynamo_disable = True  # type: ignore[attr-defined]


def _devices_of(optimizer: Any) -> set[Any]:
    """Return where the parameters lie that are stepped; nothing where that is not said."""
    try:
        groups = getattr(optimizer, "param_groups", None) or ()
        return {parameter.device for group in groups for parameter in group["params"]}
    except (AttributeError, KeyError, TypeError):
        return set()


COMPILED: list[Any] = []
"""The class of what `torch.compile` makes of modules, once it made one."""


def watch_compiled(module: Any, reporter: Reporter) -> None:
    """Note that `torch.compile` is used, and of what; `module` is torch._dynamo.eval_frame.

    A hook for all modules would have it warn then, and compile once more.
    """
    kind = module.OptimizedModule
    wrap(module.OptimizeContext, "__init__", reporter, before=COMPILER.used)

    def made(*arguments: Any, **named: Any) -> None:
        COMPILED[:] = [kind]

    wrap(kind, "__init__", reporter, before=made)
