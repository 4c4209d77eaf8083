"""Measure the parts of PyTorch steps, of about four steps a second.

A measured step has all batches whose gradients the optimizer accumulates. Hooks mark the begin of
each part. On a CPU a mark is a time; on a GPU, which runs behind the host, it is an event in the
training thread's stream, read once the GPU has reached it and never waited for.
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
from dlmon.instrument.reporter import Reporter, hide_this_frame, uncompiled, wrap
from dlmon.instrument.tokens import arrays_in
from dlmon.records import StepParts

WAIT, COPY, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE = (
    *("wait_us", "copy_us", "forward_us", "backward_us"),
    *("optimizer_us", "collective_us"),
)
# Between the loader's return and the first part, and outside of all parts.
BEFORE, REST = "before", "rest"

EVERY_NS = 250_000_000
REPORT_NS = 1_000_000_000
NEVER = 1 << 63
# The first batches compile and set up.
WARM_UP = 10
# Up to this many steps are skipped in turn, as a loop may do something else every few steps.
MOST_SKIPPED = 7
# A step with more marks, which accumulates hundreds of batches, is not measured.
MOST_MARKS = 1024
# At most this many steps wait for the GPU.
MOST_PENDING = 8
# A step of this many median steps was delayed by something else.
OUTLIER, MEDIAN_STEPS, LEAST_MEDIAN_STEPS = 10, 15, 5
# After this many steps without a backward pass, the reason is reported.
STEPS_WITHOUT_BACKWARD = 8
NOT_BACKWARD = (
    "no call of backward was seen in a step: a CUDA graph may hold it, or torch.autograd.grad "
    "stand in its place"
)
SEVERAL_DEVICES = "its network lies on several devices"


class StepMarks:
    """Marks the begins of the parts of a step.

    Args:
        reporter: takes the sums of parts.
        clock: CLOCK_MONOTONIC in nanoseconds.
        is_watched: hooks of PyTorch mark the forward and the backward pass.
    """

    def __init__(
        self,
        reporter: Reporter,
        clock: Callable[[], int] = time.monotonic_ns,
        is_watched: bool = True,
    ) -> None:
        self._reporter, self._clock, self._is_watched = reporter, clock, is_watched
        self.due_ns = NEVER
        """The time from which `begin_batch` is to be called; its caller checks it first."""
        self.is_on = False
        """A step is being measured: its parts are to be marked."""
        self.thread: Any = None
        self._is_measurable = False
        self._device: Any = None
        self._stream: Any = None
        self._parts: list[str] = []
        self._marks: list[Any] = []
        self._batches = self._steps = self._steps_measured = self._steps_to_skip = 0
        self._steps_without_backward = 0
        # The number of parts as the newest batch was counted.
        self._parts_counted = 0
        self._step_begin_ns = self._sent_ns = 0
        self._ident = 0
        self._is_stepping = False
        # The ids of the modules of networks that were called without gradients in this step.
        self._looking: set[int] = set()
        self._hooks: list[Any] = []
        self._loss_hook: Any = None
        self._events: list[Any] = []
        self._pending: deque[tuple[list[str], list[Any], int]] = deque()
        self._last_steps_us: deque[float] = deque(maxlen=MEDIAN_STEPS)
        self._sums: Counter[str] = Counter()

    def begin_loop(self, optimizer: Any, device: Any = None) -> None:
        """Measure the steps of another loop from its eleventh batch on.

        Args:
            optimizer: the optimizer that steps; None if unknown.
            device: the device that trains, if the optimizer doesn't tell.
        """
        self.close()
        self._steps = self._steps_without_backward = 0
        self._last_steps_us.clear()
        devices = _devices_of(optimizer) or ({device} if device is not None else set())
        kinds = {getattr(device, "type", None) for device in devices}
        # On an unknown device, the clock would time only the queueing.
        self._is_measurable = self._is_watched and bool(kinds) and kinds <= {"cpu", "cuda"}
        self._device = None
        if self._is_measurable and "cuda" in kinds:
            self._device = next(device for device in devices if device.type == "cuda")
            if len(devices) > 1:
                self._is_measurable = False
                self._send_why(SEVERAL_DEVICES)
        elif self._is_watched and not kinds <= {"cpu", "cuda", None}:
            self._send_why(f"it is not measured on {', '.join(sorted(map(str, kinds)))}")
        self.due_ns = 0 if self._is_measurable else NEVER

    def forget(self) -> None:
        """Stop measuring in a forked child, until a loop of its own begins."""
        self._is_measurable, self._sums = False, Counter()
        self.drop()
        self._pending.clear()
        self.due_ns = NEVER

    # Hooks call these: `begin_batch` from `due_ns` on, the others while `is_on`.

    def begin_batch(self, is_whole: bool, now: int, part: str, thread: Any) -> None:
        """End a batch and begin the next one.

        Args:
            is_whole: an optimizer has stepped since the last step.
            now: CLOCK_MONOTONIC in nanoseconds.
            part: the part that begins.
            thread: the training thread.
        """
        if self.is_on:
            if not is_whole:
                if BACKWARD in self._parts[self._parts_counted :]:
                    # Without a backward pass, the loop fetches more data for the same batch.
                    self._batches += 1
                    self._parts_counted = len(self._parts)
                self.enter(part)
                return
            self._end(now)
        if now < self.due_ns or not is_whole:
            return
        self._steps += 1
        if self._steps <= WARM_UP:
            return
        if self._steps_to_skip:
            self._steps_to_skip -= 1
            return
        self._begin(now, part, thread)

    def enter(self, part: str) -> None:
        """Begin a part, unless it is running already."""
        parts = self._parts
        if part == parts[-1]:
            return
        if len(parts) >= MOST_MARKS or not self._mark():
            self.drop()
            return
        parts.append(part)
        within = (FORWARD, BACKWARD, COLLECTIVE)
        self._is_stepping = part == OPTIMIZER or (self._is_stepping and part in within)
        if part not in (BEFORE, REST, OPTIMIZER):
            self._unwatch_forward()
        else:
            self._watch_forward()

    def came(self, batch: Any) -> None:
        """Note a batch from the loader: if it is on a GPU already, no copy follows."""
        if self._device is None or self._parts[-1] != BEFORE:
            return
        try:
            first = next(arrays_in(batch), None)
            if first is None or getattr(first, "is_cuda", False):
                self._parts[-1] = REST
        except Exception:  # noqa: BLE001 - an unreadable batch counts as not copied
            self._parts[-1] = REST

    def begin_step(self, has_closure: bool) -> None:
        """Begin a step of the optimizer; the work of its closure isn't part of it."""
        self.enter(REST if has_closure else OPTIMIZER)

    def marked(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Return a closure after which the optimizer's part goes on."""

        @wraps(closure)
        def call(*arguments: Any, **named: Any) -> Any:
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

        return call

    def begin_backward(self, loss: Any) -> None:
        """Begin a backward pass; after its own part of it, a rank waits for the others."""
        self.enter(BACKWARD)
        if _has_ranks():
            first = loss if hasattr(loss, "register_hook") else next(iter(loss))
            if getattr(first, "grad_fn", None) is not None:
                self._loss_hook = first.register_hook(self._watch_own_backward)

    @uncompiled
    def _watch_own_backward(self, gradient: Any) -> None:
        """Let PyTorch call us once this rank has all its gradients.

        DistributedDataParallel asks for the same later, so its wait for other ranks comes after.
        """
        engine = sys.modules["torch"].autograd.Variable._execution_engine
        engine.queue_callback(self._end_own_backward)

    def _end_own_backward(self) -> None:
        try:
            if self.is_on and self._parts[-1] == BACKWARD:
                self.enter(COLLECTIVE)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._reporter.turn_off(error)

    def begin_collective(self, *arguments: Any, **named: Any) -> str | None:
        """Begin a collective operation; return the part that it interrupts.

        Return None if no step is measured, or if a loader or another stream of the GPU does it.
        """
        if not (self.is_on and self.is_of_this_thread()) or self._parts[-1] == WAIT:
            return None
        if self._device is not None:
            stream = sys.modules["torch"].cuda.current_stream(self._device)
            if stream != self._stream:
                return None
        part = self._parts[-1]
        self.enter(COLLECTIVE)
        return part

    def end_collective(self, interrupted: str | None, *arguments: Any, **named: Any) -> None:
        """Go on with the part that a collective operation interrupted."""
        if interrupted is not None and self.is_on:
            self.enter(interrupted)

    def end_backward(self) -> None:
        if self._loss_hook is not None:
            self._loss_hook.remove()
            self._loss_hook = None
        self.enter(OPTIMIZER if self._is_stepping else REST)

    def is_of_this_thread(self) -> bool:
        return threading.get_ident() == self._ident

    def drop(self) -> None:
        """Drop the step that is being measured: something else runs in it."""
        if self.is_on:
            self.is_on = False
            self.due_ns = self._step_begin_ns + EVERY_NS if self._is_measurable else NEVER
            self._unwatch_forward()

    def close(self) -> None:
        """Report all steps that the GPU has finished, and drop the others."""
        self.drop()
        self._read_pending()
        self._send(self._clock())
        self._pending.clear()

    def _begin(self, now: int, part: str, thread: Any) -> None:
        self._read_pending()
        if len(self._pending) >= MOST_PENDING:
            self.due_ns = now + EVERY_NS
            return
        self._stream, self._step_begin_ns = None, now
        self._parts, self._marks, self._batches, self._parts_counted = [part], [], 1, 0
        self._is_stepping = part == OPTIMIZER
        self._looking.clear()
        if self._mark():
            self.is_on, self.due_ns, self.thread = True, 0, thread
            self._ident = threading.get_ident()
            if part != WAIT:
                self._watch_forward()

    def _end(self, now: int) -> None:
        is_measured = self._mark()
        parts, marks, batches = self._parts, self._marks, self._batches
        self.drop()
        self._steps_measured += 1
        steps_per_interval = EVERY_NS // max(1, now - self._step_begin_ns)
        self._steps_to_skip = self._steps_measured % (1 + min(MOST_SKIPPED, steps_per_interval))
        if is_measured and self._device is None:
            took_us = [(end - begin) // 1000 for begin, end in pairwise(marks)]
            self._add(parts, took_us, batches)
        elif is_measured:
            self._pending.append((parts, marks, batches))
        if now - self._sent_ns >= REPORT_NS:
            self._send(now)

    def _mark(self) -> bool:
        """Add a mark; return whether that was possible."""
        if self._device is None:
            self._marks.append(self._clock())
            return True
        try:
            return self._record_event()
        except Exception:  # noqa: BLE001 - after any error of the driver, steps are still counted
            self._is_measurable, self.due_ns = False, NEVER
            return False

    def _record_event(self) -> bool:
        cuda = sys.modules["torch"].cuda
        stream = cuda.current_stream(self._device)
        if self._stream is None:
            self._stream = stream
        # A graph that is captured runs later, and events of two streams have no order.
        if stream != self._stream or cuda.is_current_stream_capturing():
            return False
        event = self._events.pop() if self._events else cuda.Event(enable_timing=True)
        event.record(stream)
        self._marks.append(event)
        return True

    def _read_pending(self) -> None:
        """Add the steps that the GPU has finished."""
        if not self._pending or sys.modules["torch"].cuda.is_current_stream_capturing():
            return
        try:
            while self._pending and self._pending[0][1][-1].query():
                parts, marks, batches = self._pending.popleft()
                took_us = [round(1000 * begin.elapsed_time(end)) for begin, end in pairwise(marks)]
                self._events += marks
                self._add(parts, took_us, batches)
        except Exception:  # noqa: BLE001 - as above
            self._is_measurable, self.due_ns = False, NEVER
            self._pending.clear()

    def _add(self, parts: list[str], took_us: list[int], batches: int) -> None:
        step_us = sum(took_us)
        if min(took_us) < 0 or step_us <= 0:
            return
        last_us = self._last_steps_us
        is_outlier = len(last_us) >= LEAST_MEDIAN_STEPS and step_us > OUTLIER * median(last_us)
        last_us.append(step_us)
        if is_outlier:
            return
        if BACKWARD not in parts:
            self._steps_without_backward += 1
            if self._steps_without_backward == STEPS_WITHOUT_BACKWARD:
                self._send_why(NOT_BACKWARD)
            return
        # A network that is called after the backward pass doesn't train: it may generate.
        last = len(parts) - 1 - parts[::-1].index(BACKWARD)
        parts = [*parts[:last], *(REST if part == FORWARD else part for part in parts[last:])]
        sums = self._sums
        sums.update({"steps": batches, "step_us": step_us})
        for part, next_part, part_us in zip(parts, [*parts[1:], ""], took_us, strict=True):
            if part in (BEFORE, REST) and next_part == BACKWARD:
                # The forward pass calls no module, or its begin was missed.
                sums[FORWARD] += part_us
            elif part == BEFORE and next_part == FORWARD and self._device is not None:
                sums[COPY] += part_us
            elif part not in (BEFORE, REST):
                sums[part] += part_us

    def _send(self, now: int) -> None:
        self._sent_ns = now
        if self._sums:
            sums: dict[str, Any] = dict(self._sums)
            self._sums.clear()
            parts = StepParts(t=now, **sums)
            self._reporter.reads.is_own_code_sampled = parts.is_mostly_rest
            self._reporter.send(parts)

    def _send_why(self, reason: str) -> None:
        self._reporter.send(StepParts(self._clock(), 0, 0, why={BACKWARD: reason}))

    def _watch_forward(self) -> None:
        """Make the next call of a module begin the forward pass."""
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

    @uncompiled
    def _forward(self, module: Any, arguments: Any, named: Any = None) -> None:
        try:
            if not (self.is_on and self.is_of_this_thread()):
                return
            if self._only_looks(module):
                self.enter(REST)
            else:
                self.enter(FORWARD)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._reporter.turn_off(error)

    def _only_looks(self, module: Any) -> bool:
        """Return whether a network that trains, or a part of it, is called without gradients.

        It plays or generates then. A frozen network, such as a teacher, goes forward for the step.
        """
        if sys.modules["torch"].is_grad_enabled():
            return False
        if id(module) in self._looking:
            return True
        is_training = any(weights.requires_grad for weights in module.parameters())
        if is_training:
            self._looking.update(map(id, module.modules()))
        return is_training


def _has_ranks() -> bool:
    """Return whether several ranks train together."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return False
    # A compiled backward pass has other hooks.
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return distributed.get_world_size() > 1 and not getattr(
        compiled, "compiled_autograd_enabled", False
    )


def _devices_of(optimizer: Any) -> set[Any]:
    """Return the devices of an optimizer's parameters; empty if unknown."""
    try:
        groups = getattr(optimizer, "param_groups", None) or ()
        return {parameter.device for group in groups for parameter in group["params"]}
    except (AttributeError, KeyError, TypeError):
        return set()


COMPILED: list[Any] = []
"""The class of compiled modules, once `torch.compile` has created one."""


def watch_compiled(module: Any, reporter: Reporter) -> None:
    """Note the use of `torch.compile`, and compiled modules; `module` is torch._dynamo.eval_frame.

    A hook on all modules would make it warn, and compile once more.
    """
    kind = module.OptimizedModule
    wrap(module.OptimizeContext, "__init__", reporter, before=COMPILER.used)

    def note_kind(*arguments: Any, **named: Any) -> None:
        COMPILED[:] = [kind]

    wrap(kind, "__init__", reporter, before=note_kind)
