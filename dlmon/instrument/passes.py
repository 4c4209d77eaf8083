"""Which passes over loaders train, which validate, and what each batch of them counts.

A batch lasts from one fetch of a loader's iterator to the next, and the time inside the fetch is
the wait for data. A pass in which an optimiser steps is training, and all its batches count, so
they are held back until that is known. What is nested, zipped or left in the middle is put where
it belongs: see `Passes`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from dlmon.instrument.loader_pass import (
    BESIDE,
    HELD,
    NEW,
    OVER,
    TRAINING,
    VALIDATING,
    Pass,
    Thread,
)
from dlmon.instrument.loaders import Loader
from dlmon.instrument.pass_reports import PassReports

# A loop asks an iterator of its own for the first batch within this time. One that waits for longer
# was made early: an epoch begins with its first batch then.
AT_ONCE_NS = 50_000_000

# So many batches that stepped in a pass within a batch of another: that other one was left.
TAKES_OVER = 16

# So often may `backward` be called outside of any pass, and be no loop of steps.
FEW_BACKWARDS = 8


class _Backward:
    """What stands for the optimiser of a loop in which none of PyTorch's steps."""


BACKWARD = _Backward()

NO_LOADER = Loader(
    has_passes=False,
    why={
        "batch_size": "there is no loader that says how many samples a step has",
        "samples_per_epoch": "a loop without a loader has no epochs",
        "steps_per_epoch": "a loop without a loader has no epochs",
        "epochs": "a loop without a loader has no epochs",
    },
)


class Passes:
    """Sorts what the hooks of loaders and optimisers see, and reports it.

    Each thread has a stack of open passes. At its bottom is the one that may train; a validation
    within a batch of it lies above, and its time is taken out of that batch. A pass that was begun
    before the last fetch of the one below is read beside it, as in `zip`: its wait is added.

    Args:
        reports: what reports them.
        in_worker: says whether this process only loads data.
    """

    def __init__(self, reports: PassReports, in_worker: Callable[[], bool] = lambda: False) -> None:
        self.reports, self._in_worker = reports, in_worker
        self._reporter, self._clock = reports.reporter, reports.clock
        self._local = threading.local()
        self._events = 0
        self._limit: int | None = None
        # Of a script that drops an iterator, Python may say so in the middle of a hook.
        self._busy = False
        self._dropped: deque[Pass] = deque()
        os.register_at_fork(after_in_child=self._leave_parent)

    def _leave_parent(self) -> None:
        for thread in self.reports.open:
            for read in thread.stack:
                read.state = OVER
            thread.stack.clear()
        self._dropped.clear()
        self._busy = False
        self.reports.forget()

    # What the hooks call.

    def thread(self) -> Thread:
        try:
            return self._local.thread  # type: ignore[no-any-return]
        except AttributeError:
            self._local.thread = thread = Thread()
            return thread

    def new(self, loader: Loader, created: int, source: Callable[[], Any]) -> Pass:
        """Return a pass over a loader that a script began at `created`; `source` is the loader."""
        read = Pass(loader, created, self._events)
        read.source, read.made = source, self._clock()
        if loader.is_collated and self.reports.known_to_leave_out(source()):
            read.loader = loader.leaving_out()
        return read

    def fetch(self, read: Pass, with_gradients: bool = True) -> None:
        thread = read.thread
        if thread.stepping:
            # A step that raised, and whose optimiser was given up.
            thread.stepping.clear()
        if read.state == TRAINING and thread.stack[-1] is read:
            # As nearly always.
            now = read.asked = self._clock()
            if read.in_hand:
                self.reports.end_batch(read, now)
            self._events = read.fetched_after = self._events + 1
            return
        self._busy = True
        now = read.asked = self._clock()
        if read.state == NEW:
            self._first_fetch(read, now, with_gradients)
        elif read.state == BESIDE:
            if not thread.stack:
                self._begin(read, now, with_gradients)
        elif read.state != OVER:
            self._go_on(read, now)
            if read.state == HELD:
                self._look_again(read)
        self._events = read.fetched_after = self._events + 1
        self._done()

    def fetched(self, read: Pass, leading: int | None) -> None:
        """Note that it came; `leading` is the first size of its first array."""
        wait_ns = self._clock() - read.asked
        if read.state == BESIDE:
            if read.thread.stack:
                read.thread.stack[-1].wait_ns += wait_ns
        elif read.state != OVER:
            read.in_hand = True
            read.wait_ns = wait_ns
            whole = read.loader.batch_size
            read.size = leading if leading == whole else read.sizes.of(read.number, leading)
            if read.sizes.are_fewer and read.loader.inferred is None:
                self.reports.leaves_out(read)

    def exhausted(self, read: Pass) -> None:
        self._busy = True
        now = self._clock()
        if read.state in (HELD, TRAINING, VALIDATING):
            self.reports.end(read, now, whole=True, end=now)
        else:
            read.state = OVER
        self._done()

    def abandoned(self, read: Pass) -> None:
        """Note that nobody will ask it again."""
        if self._busy:
            self._dropped.append(read)
        else:
            self.reports.abandon(read)

    def step_began(self, optimizer: Any) -> None:
        try:
            # What `thread` returns, without its call.
            thread = self._local.thread
        except AttributeError:
            thread = self.thread()
        stepping, key = thread.stepping, id(optimizer)
        if stepping:
            if key in stepping:
                # It raised the last time.
                del stepping[stepping.index(key) :]
            if stepping:
                stepping.append(key)
                return
        stepping.append(key)
        stack = thread.stack
        if not stack or stack[0].optimizer is not None:
            self._step_without_loader(thread, optimizer, self._clock())

    def step_ended(self, optimizer: Any) -> None:
        """Note that it stepped; one that another one calls does not count beside it."""
        thread = self._local.thread
        stepping = thread.stepping
        if len(stepping) == 1:
            stepping.clear()
        else:
            key = id(optimizer)
            if key in stepping:
                del stepping[stepping.index(key) :]
            if stepping:
                return
        stack = thread.stack
        if stack:
            top = stack[-1]
            top.last_active = self._clock()
            top.updates += 1
            top.updates_in_all += 1
            if top.state == TRAINING:
                return
        self._busy = True
        self.reports.stepped_by = weakref.ref(optimizer)
        if stack:
            self._stepped(stack[-1])
        elif self.reports.may_step_yet(thread):
            self.reports.train_after_all()
        elif (other := self._elsewhere()) is not None:
            other.foreign.append(self._clock())
        elif (last := self.reports.late()) is not None:
            self.reports.step_late(last)
        self._done()

    def went_backward(self, device: Any, began: int) -> None:
        """Note that `backward`, which began then, has ended: a pass trains by it.

        Of a loop that has neither a loader nor an optimiser, it is the step.

        Args:
            device: where what it was called on lies.
            began: when it began.
        """
        thread = self.thread()
        if thread.stepping:
            return
        stack = thread.stack
        if stack and stack[-1].optimizer is None:
            top = stack[-1]
            top.last_active = self._clock()
            if not top.has_trained:
                self.reports.gone_backward_on = device
                self._reporter.saw("torch backward")
            top.goes_backward = top.has_gone_backward = True
        elif not self.reports.has_optimizers:
            self._busy = True
            self.reports.gone_backward_on = device
            self._reporter.saw("torch backward")
            if self.reports.may_step_yet(thread):
                self.reports.train_after_all(steps=0)
            else:
                self._step_without_loader(thread, BACKWARD, began)
            if stack:
                stack[-1].last_active = self._clock()
                stack[-1].goes_backward = stack[-1].has_gone_backward = True
            self._done()

    # What knows more than the loader's clock does.

    def limit(self, steps: int | None) -> None:
        """Say how many batches the pass that begins will have, where its loader has more."""
        self._limit = steps

    def validates(self) -> None:
        """Say that the pass that was begun last validates, though gradients are on."""
        stack = self.thread().stack
        if stack and stack[-1].state == HELD and not stack[-1].has_trained:
            self.reports.validate(stack[-1])

    def validated(self) -> None:
        """Say that validation is over, whether its loader was asked to the end or not."""
        stack = self.thread().stack
        if stack and stack[-1].state == VALIDATING:
            self.reports.abandon(stack[-1])

    # Where a pass belongs.

    def _go_on(self, read: Pass, now: int) -> None:
        """End the batch under way, and what was begun within it."""
        if read.thread.stack[-1] is not read:
            self.reports.leave_inner(read, now)
        if read.in_hand:
            self.reports.end_batch(read, now)

    def _first_fetch(self, read: Pass, now: int, with_gradients: bool) -> None:
        thread = read.thread = self.thread()
        thread.stepping.clear()
        if thread.inside or not self._reporter.may_take(self.reports.owner) or self._in_worker():
            read.state = OVER
            return
        stack = thread.stack
        while stack:
            below = stack[-1]
            if self._is_beside(below, read, with_gradients):
                read.state = BESIDE
                thread.beside.append(read.source)
                return
            if not self._is_left(below, read):
                break
            self.reports.end(below, read.created, below.has_all)
        self._begin(read, now, with_gradients)

    def _is_beside(self, below: Pass, read: Pass, with_gradients: bool) -> bool:
        """Return whether a pass is read along with one that was begun earlier."""
        if below.optimizer is not None or (below.with_gradients and not with_gradients):
            return False
        if read.created_after < below.fetched_after:
            return True
        source = read.source()
        return source is not None and any(other() is source for other in below.thread.beside)

    def _is_left(self, below: Pass, read: Pass) -> bool:
        """Return whether a pass is over, now that another one begins.

        Lightning and transformers ask for as many batches as there are, and not once more.
        """
        if below.optimizer is not None or read.created_after < below.fetched_after:
            return False
        if below.state == VALIDATING or (below.state == TRAINING and below.has_all):
            return True
        source = read.source()
        return source is not None and below.source() is source

    def _begin(self, read: Pass, now: int, with_gradients: bool) -> None:
        thread = read.thread
        stack = thread.stack
        is_direct = read.created_after == self._events and read.state == NEW
        if now - read.made > AT_ONCE_NS or (stack and stack[-1].last_active > read.created):
            is_direct = False
        read.begin, read.opened = (read.created if is_direct else now), now
        read.with_gradients, read.phase = with_gradients, self.reports.phase
        if with_gradients and self._limit is not None:
            read.loader, self._limit = read.loader.limited(self._limit), None
        read.state, read.held = HELD, []
        read.number = read.idle = read.updates = read.updates_in_all = 0
        read.goes_backward = read.has_gone_backward = False
        if not stack:
            if not self.reports.take_singles(read):
                self.reports.decide()
            self.reports.last_is_over()
            self.reports.losses.begin_epoch(steps_now=read.optimizer is not None)
        stack.append(read)
        self.reports.open.add(thread)
        if not with_gradients:
            self.reports.validate(read)

    def _look_again(self, read: Pass) -> None:
        """Decide of a pass within another that goes on and has stepped."""
        stack = read.thread.stack
        if not read.has_trained:
            return
        below = stack[stack.index(read) - 1] if len(stack) > 1 else None
        if below is None or below.optimizer is not None:
            self.reports.asked_again(read)
        elif below.state != TRAINING or read.stepped >= TAKES_OVER:
            self.reports.train(read)

    def _stepped(self, top: Pass) -> None:
        """Decide what a step says of a pass that has not trained so far."""
        stack = top.thread.stack
        if len(stack) == 1:
            if top.optimizer is None:
                self.reports.stepped(top)
            return
        below = stack[-2]
        if below.optimizer is not None and top.state == HELD:
            source = top.source()
            if source is not None and below.source() is source:
                self.reports.stepped(top)
            else:
                self.reports.train(top)
        elif below.state == TRAINING:
            top.given += 1
            below.updates += 1
            below.updates_in_all += 1
            below.last_active = top.last_active

    def _step_without_loader(self, thread: Thread, optimizer: Any, now: int) -> None:
        """Take a step outside of any pass as the beginning of a batch, if it is the first's."""
        stack = thread.stack
        if not stack:
            belongs = self.reports.may_step_yet(thread) or self.reports.late() is not None
            if not belongs and self._elsewhere() is None:
                self._begin_stretch(thread, optimizer, now)
            return
        stretch = stack[0]
        assert stretch.optimizer is not None
        first = stretch.optimizer()
        if stack[-1] is not stretch and stack[-1].state == HELD:
            return
        if not self._reporter.may_take(self.reports.owner):
            return
        others = stretch.state == TRAINING and self.reports.others_train
        if first is None or others or (first is BACKWARD and optimizer is not BACKWARD):
            if others:
                stretch.in_hand = False
            self.reports.end(stretch, now, whole=False)
            self._begin_stretch(thread, optimizer, now)
        elif first is optimizer:
            self._take_drawn(thread, stretch)
            stretch.asked = now
            self._go_on(stretch, now)
            self._hand_drawn(thread, stretch)
            is_loop = stretch.number >= (FEW_BACKWARDS if first is BACKWARD else 1)
            if stretch.state == HELD and is_loop:
                self.reports.train(stretch)
            # Between two steps another framework may train.
            self._reporter.let_go(self.reports.owner)

    def _begin_stretch(self, thread: Thread, optimizer: Any, now: int) -> None:
        if not self._reporter.may_take(self.reports.owner):
            return
        stretch = Pass(NO_LOADER, now, self._events)
        stretch.optimizer = weakref.ref(optimizer)
        if optimizer is not BACKWARD:
            self.reports.stepped_by = stretch.optimizer
        stretch.thread, stretch.waits = thread, False
        self._begin(stretch, now, with_gradients=True)
        self._hand_drawn(thread, stretch)

    def _take_drawn(self, thread: Thread, stretch: Pass) -> None:
        """Count what was waited for the batches that the next step trains on.

        Whether a loop takes a batch for each step shows at its second one: before the first, a
        batch may only have been looked at.
        """
        drawn = thread.drawn
        if stretch.state == HELD and not stretch.number:
            if drawn is None:
                stretch.size = None
            else:
                stretch.loader, stretch.waits = drawn.loader, True
        stretch.wait_ns = 0 if drawn is None else drawn.wait_ns

    def _hand_drawn(self, thread: Thread, stretch: Pass) -> None:
        """Begin a batch of a stretch, with the samples that were taken for it.

        A step for which none were taken trains on those of the one before.
        """
        drawn, thread.drawn = thread.drawn, None
        if drawn is not None and (stretch.waits or stretch.state == HELD):
            stretch.size = drawn.samples
        stretch.wait_ns, stretch.in_hand = 0, True

    def _elsewhere(self) -> Pass | None:
        """Return the pass that another thread reads, for a step of a thread that reads nothing."""
        thread = self.thread()
        if len(self.reports.open) == 1 and not thread.trains:
            stack = next(iter(self.reports.open)).stack
            if stack and stack[0].optimizer is None and stack[0].thread is not thread:
                return stack[0]
        return None

    def _done(self) -> None:
        self._busy = False
        while self._dropped:
            self.reports.abandon(self._dropped.popleft())
