"""Which passes over loaders train, which validate, and what each batch of them counts.

A batch lasts from one fetch of a loader's iterator to the next, and the time inside the fetch is
the wait for data. These are the rules, which docs/epochs.md says for people:

- Each thread has a stack of open passes, each begun within a batch of the one before. One that was
  begun before the last fetch of the one below is read beside it, as in `zip`: its wait is added.
- A step of an optimiser, or `backward`, counts in every open pass. One that is asked for another
  batch after it, or that has no more, is an epoch, with all its batches; those that are open around
  it are none. So batches are held back until that is known.
- A pass that ended without a step is a validation; one within a batch takes no time of that.
- Left after a first batch it is a look at data, as `next(iter(loader))` is. Steps outside of any
  pass make a stretch of steps without epochs, of which looks are the batches. There a batch lasts
  from the end of one step to that of the next; of the first, only the step is known.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from dlmon.instrument.loaders import Loader
from dlmon.instrument.outermost import Outermost
from dlmon.instrument.pass_reports import (
    BESIDE,
    HELD,
    NEW,
    OVER,
    TRAINING,
    VALIDATING,
    Pass,
    PassReports,
    Thread,
)
from dlmon.instrument.queued import Interruption, MeasuredBatch, Pause
from dlmon.instrument.step_parts import BEFORE, OPTIMIZER, REST, WAIT
from dlmon.records import SCRIPT_PHASE

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


def _of_each(counts: Iterable[Any]) -> int | tuple[int, ...] | None:
    """Return counts of batches, or that of one; None where one isn't known, or there is none."""
    known = tuple(counts)
    if not known or not all(isinstance(each, int) for each in known):
        return None
    return known if len(known) > 1 else known[0]


class Passes:
    """Sorts what the hooks of loaders and optimisers see, and has it reported.

    Args:
        reports: what reports them.
        in_worker: says whether this process only loads data.
    """

    def __init__(self, reports: PassReports, in_worker: Callable[[], bool] = lambda: False) -> None:
        self.reports, self._in_worker = reports, in_worker
        self._reporter, self._clock = reports.reporter, reports.clock
        self.marks = reports.marks
        self._local = threading.local()
        self._events = 0
        self._limit: int | None = None
        self.outermost = Outermost()
        # Of a script that drops an iterator, Python may say so in the middle of a hook.
        self._busy = False
        self._dropped: deque[Pass] = deque()
        reports.at_close, reports.yields = self.close, self._end_counted
        os.register_at_fork(after_in_child=self._leave_parent)

    def _leave_parent(self) -> None:
        for thread in self.reports.open:
            for read in thread.stack:
                read.state = OVER
            thread.stack.clear()
        self._dropped.clear()
        self._busy = False
        self.reports.forget()

    def close(self) -> None:
        """End what is open; the process ends."""
        for thread in tuple(self.reports.open):
            while thread.stack:
                self._abandon(thread.stack[-1])
        self.marks.close()

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
        # A step may have raised.
        thread.stepping = None
        if read.state == TRAINING and thread.stack[-1] is read:
            # As nearly always.
            now = read.asked = self._clock()
            if now >= self.marks.due_ns:
                self.marks.begin_batch(read, now, WAIT, self.reports.has_optimizers)
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
            if self._is_epoch(read):
                self.reports.train(read)
        self._events = read.fetched_after = self._events + 1
        if self.marks.is_on and read.thread is self.marks.thread:
            self.marks.enter(WAIT)
        self._done()

    def fetched(self, read: Pass, size: int | None, tokens: int | None = None) -> None:
        """Note that it came, with so many samples and tokens."""
        wait_ns = self._clock() - read.asked
        if self.marks.is_on and read.thread is self.marks.thread:
            self.marks.enter(BEFORE)
        if read.state == BESIDE:
            if read.thread.stack:
                with_it = read.thread.stack[-1]
                with_it.wait_ns += wait_ns
                if tokens is not None and isinstance(with_it.tokens, int):
                    with_it.tokens += tokens
        elif read.state != OVER:
            read.in_hand = True
            read.wait_ns = wait_ns
            read.size = size
            read.tokens = tokens
            if read.sizes.are_fewer and read.loader.inferred is None:
                self.reports.leaves_out(read)

    def look_within(self, read: Pass, batch: Any) -> None:
        """Look at a batch that another loader hands on, where that one trains."""
        thread = read.thread
        if thread.inside and thread.stack and thread.stack[-1].state == TRAINING:
            self.reports.look_at_tokens(batch)

    def exhausted(self, read: Pass) -> None:
        self._busy = True
        now = self._clock()
        if read.state in (HELD, TRAINING, VALIDATING):
            self._end(read, now, whole=True, end=now)
        else:
            read.state = OVER
        if self.marks.is_on and read.thread is self.marks.thread:
            self.marks.enter(BEFORE)
        self._done()

    def abandoned(self, read: Pass) -> None:
        """Note that nobody will ask it again."""
        if self._busy:
            self._dropped.append(read)
        else:
            self._abandon(read)

    def step_began(self, optimizer: Any) -> None:
        try:
            # What `thread` returns, without its call.
            thread = self._local.thread
        except AttributeError:
            thread = self.thread()
        if thread.stepping not in (None, id(optimizer)):
            return
        thread.stepping, stack = id(optimizer), thread.stack
        if not stack or stack[-1].state != TRAINING or stack[-1].optimizer is not None:
            self._undecided_step(thread, optimizer, self._clock())
        if self.marks.is_on and thread is self.marks.thread:
            self.marks.enter(OPTIMIZER)

    def step_ended(self, optimizer: Any) -> None:
        """Note that it stepped; one that another one calls does not count beside it."""
        thread = self._local.thread
        if thread.stepping != id(optimizer):
            return
        thread.stepping, stack = None, thread.stack
        if self.marks.is_on and thread is self.marks.thread:
            self.marks.enter(REST)
        if stack:
            top = stack[-1]
            top.last_active = self._clock()
            top.updates += 1
            top.updates_in_all += 1
            if top.state != TRAINING:
                self._undecided_step_ended(thread, optimizer)
            return
        self._busy = True
        self.reports.stepped_by = weakref.ref(optimizer)
        if (other := self._elsewhere()) is not None:
            other.foreign.append(self._clock())
        elif (last := self.reports.late()) is not None:
            self.reports.step_late(last)
        self._done()

    def ran_out_of_memory(self) -> None:
        """Note that the batch under way has failed, unless something trains on it after all."""
        for read in self.thread().stack[-1:]:
            read.failed_at, read.goes_backward = self._clock(), False
        self.outermost.failed()

    def went_backward(self, device: Any, began: int) -> None:
        """Note that `backward`, which began then, has ended: a pass trains by it.

        Of a loop that has neither a loader nor an optimiser, it is the step.

        Args:
            device: where what it was called on lies.
            began: when it began.
        """
        thread = self.thread()
        if thread.stepping is not None:
            return
        stack, is_step = thread.stack, not self.reports.has_optimizers
        is_read = bool(stack) and stack[-1].optimizer is None
        if not (is_read or is_step):
            return
        if not is_read or not stack[-1].has_trained:
            self.reports.gone_backward_on = device
            self._reporter.saw("torch backward")
        if is_step and not (is_read and stack[-1].state == TRAINING):
            self._busy = True
            self._undecided_step(thread, BACKWARD, began)
            self._done()
        if is_read and began <= stack[-1].failed_at:
            # It ran out of memory itself.
            return
        now = self._clock()
        for read in stack[-1:] if not is_read else stack:
            read.failed_at = 0
            read.last_active = now
            read.goes_backward = read.has_gone_backward = True
            read.backwards += 1

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
            self._abandon(stack[-1])

    def fit_ended(self) -> None:
        """End the epoch under way; what was known of the fit is not known of what follows."""
        self._end_counted()
        self.reports.expect()
        self.reports.no_more_passes()

    def _end_counted(self) -> None:
        thread = self.reports.counting
        if thread is not None and thread.stack:
            self._abandon(thread.stack[0])

    # Where a pass belongs.

    def _go_on(self, read: Pass, now: int) -> None:
        """End the batch under way, and what was begun within it."""
        if read.thread.stack[-1] is not read:
            self._leave_inner(read, now)
        if read.in_hand:
            self.reports.end_batch(read, now)

    def _first_fetch(self, read: Pass, now: int, with_gradients: bool) -> None:
        thread = read.thread = self.thread()
        thread.stepping = None
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
            if not self._is_left(below, read, with_gradients):
                break
            self._end(below, read.created, below.has_all)
        self._begin(read, now, with_gradients)

    def _is_beside(self, below: Pass, read: Pass, with_gradients: bool) -> bool:
        """Return whether a pass is read along with one that was begun earlier."""
        if below.optimizer is not None or (below.with_gradients and not with_gradients):
            return False
        if read.created_after < below.fetched_after:
            return True
        source = read.source()
        return source is not None and any(other() is source for other in below.thread.beside)

    def _is_left(self, below: Pass, read: Pass, with_gradients: bool) -> bool:
        """Return whether a pass is over, now that another one begins.

        Lightning and transformers ask for as many batches as there are, and not once more. A loop
        may look in its midst, without gradients, how good it is at what it trains on.
        """
        if below.optimizer is not None or read.created_after < below.fetched_after:
            return False
        if below.state == VALIDATING or (below.state == TRAINING and below.has_all):
            return True
        source = read.source()
        is_test = below.with_gradients and not with_gradients
        return source is not None and below.source() is source and not is_test

    def _begin(self, read: Pass, now: int, with_gradients: bool) -> None:
        stack = read.thread.stack
        if read.optimizer is None:
            self.outermost.looks_back = False
            if stack and stack[-1].optimizer is not None and stack[-1].state == TRAINING:
                # What is read now comes after it.
                self._end_step(stack[-1], now, WAIT)
        is_direct = read.state == NEW and now - read.made <= AT_ONCE_NS
        read.begin, read.opened = (read.created if is_direct else now), now
        read.with_gradients, read.phase = with_gradients, self.reports.phase
        if with_gradients and self._limit is not None:
            read.loader, self._limit = read.loader.limited(self._limit), None
        read.state, read.held, read.first_step = HELD, [], None
        read.number = read.idle = read.updates = read.updates_in_all = 0
        read.goes_backward = read.has_gone_backward = read.begins_ahead = False
        read.backwards = 0
        if not stack:
            self.reports.last_is_over()
            self.reports.losses.begin_epoch(steps_now=read.optimizer is not None)
        stack.append(read)
        self.reports.open.add(read.thread)
        if not with_gradients:
            self.reports.validate(read)

    def _is_epoch(self, read: Pass, is_over: bool = False) -> bool:
        """Return whether a pass that is asked for more, or has no more, trains by its steps."""
        if read.state == TRAINING or read.optimizer is not None:
            return False
        below = read.thread.stack[0]
        if read.state == VALIDATING:
            return below is read and read.updates_in_all > 0
        if below.state == TRAINING and below.optimizer is None:
            return read.has_trained and (is_over or read.stepped >= TAKES_OVER)
        return read.has_trained

    def _leave_inner(self, read: Pass, now: int) -> None:
        """Leave the passes that were begun within the batch of one that goes on, or ends."""
        stack = read.thread.stack
        while stack[-1] is not read:
            inner = stack[-1]
            if inner.state == VALIDATING:
                self._end(inner, now, whole=False)
                # It may go on later: an iterator that gives one batch at a time.
                inner.state = NEW
            else:
                stack.pop()
                inner.state = BESIDE
                read.thread.beside.append(inner.source)
                read.wait_ns += inner.waited_ns + (inner.wait_ns if inner.in_hand else 0)

    def _abandon(self, read: Pass) -> None:
        """End a pass that nobody will ask again: whole if all its batches have come."""
        if read.state in (HELD, TRAINING, VALIDATING):
            self._end(read, self._clock(), read.has_all)
        else:
            read.state = OVER

    def _end(self, read: Pass, now: int, whole: bool, end: int | None = None) -> None:
        """End a pass, with all that was begun within it.

        Args:
            read: the pass.
            now: when the next thing began.
            whole: it ran to its end.
            end: when it ended; None for the end of its last batch.
        """
        thread = read.thread
        if read is self.marks.read:
            self.marks.drop()
        self._leave_inner(read, now)
        if read.foreign:
            self.reports.take_foreign(read)
        is_more = read.number + read.in_hand > 1 or self.reports.gave_epochs(read)
        if (whole or is_more) and self._is_epoch(read, is_over=whole):
            self.reports.train(read)
        if read.state == OVER:
            return
        thread.stack.pop()
        if read.in_hand and read.trains_now:
            if read.is_ahead and isinstance(read.size, int):
                # Its step counts, and what was fetched doesn't.
                read.size, read.tokens = 0, read.tokens and 0
            self.reports.end_batch(read, max(read.last_active, read.asked))
        elif read.in_hand and (whole or read.state != TRAINING):
            self.reports.end_batch(read, now)
        state, read.state, read.in_hand = read.state, OVER, False
        if state == TRAINING:
            self.reports.end_epoch(read, whole, end)
        elif read.optimizer is None:
            self._end_without_epoch(read, state, now, whole)
        self.reports.release(thread)

    def _end_without_epoch(self, read: Pass, state: int, now: int, whole: bool) -> None:
        """Take a pass that was no epoch as a validation, or as a look at data."""
        stack = read.thread.stack
        below = stack[-1] if stack and stack[-1].optimizer is None else None
        if state == HELD:
            many = whole or (bool(stack) and read.number > 1)
            if not many or not read.held or read.has_trained:
                if below is None:
                    self._look(read)
                else:
                    below.wait_ns += read.waited_ns
                return
            if not self.reports.claim(read.thread):
                return
            self.marks.drop()
            self._reporter.enter(read.phase, read.begin)
        if not stack:
            self.reports.validated(read, now, whole)
            return
        stack[-1].last_active = now
        self.reports.send(stack[-1], Interruption(read.begin, now))
        if stack[0].state == TRAINING:
            self._reporter.enter("training", now)
        else:
            self._reporter.send(Pause(now, SCRIPT_PHASE))

    # Steps outside of any pass.

    def _undecided_step(self, thread: Thread, optimizer: Any, began: int) -> None:
        """Take a step that begins where nothing is known to train, or nothing is read."""
        stack = thread.stack
        is_left = bool(stack) and stack[-1].state == VALIDATING and stack[0].optimizer is not None
        if stack and stack[-1].optimizer is None and not is_left:
            for read in stack:
                read.first_step = read.first_step or (weakref.ref(optimizer), began)
            return
        self._step_outside(thread, weakref.ref(optimizer), began)

    def _undecided_step_ended(self, thread: Thread, optimizer: Any) -> None:
        *around, top = thread.stack
        self.reports.stepped_by = weakref.ref(optimizer)
        for read in around:
            if read.optimizer is None:
                read.updates += 1
                read.updates_in_all += 1
                read.last_active = top.last_active
        if top.optimizer is None:
            thread.trains = True
            if not self.reports.claim(thread):
                self.reports.drop(top)

    def _step_outside(self, thread: Thread, optimizer: Callable[[], Any], began: int) -> None:
        """Take a step outside of any pass as the beginning of a batch, if it is the first's."""
        if not thread.stack:
            if self.reports.late() is None and self._elsewhere() is None:
                self._begin_stretch(thread, optimizer, began)
            return
        stretch = thread.stack[0]
        assert stretch.optimizer is not None
        first, steps = stretch.optimizer(), optimizer()
        if first is steps:
            self._next_batch(stretch, began)
            is_loop = stretch.number >= (FEW_BACKWARDS if first is BACKWARD else 1)
            if stretch.state == HELD and is_loop:
                self.reports.train(stretch)
        elif first is None or first is BACKWARD:
            self._end(stretch, began, whole=False)
            self._begin_stretch(thread, optimizer, began)

    def _begin_stretch(self, thread: Thread, optimizer: Callable[[], Any], now: int) -> None:
        if not self._reporter.may_take(self.reports.owner):
            return
        stretch = Pass(NO_LOADER, now, self._events)
        stretch.optimizer = optimizer
        if optimizer() is not BACKWARD:
            self.reports.stepped_by = optimizer
        if not thread.looks:
            self._watch_networks(stretch)
        stretch.thread, stretch.waits = thread, False
        self._begin(stretch, now, with_gradients=True)
        self._next_batch(stretch, now)

    def _end_step(self, stretch: Pass, now: int, part: str) -> None:
        """End a batch of a stretch where its last step ended; a part of the next one begins."""
        if not stretch.in_hand or not stretch.trains_now:
            return
        if now >= self.marks.due_ns and stretch.state == TRAINING:
            self.marks.begin_batch(stretch, now, part, self.reports.has_optimizers)
        self.reports.end_batch(stretch, stretch.last_active)

    def _watch_networks(self, stretch: Pass) -> None:
        """Count what goes into the networks that a stretch trains."""
        optimizer = None if stretch.optimizer is None else stretch.optimizer()
        self.outermost.watch(None if optimizer is BACKWARD else optimizer)

    def _next_batch(self, stretch: Pass, now: int) -> None:
        """End a batch of a stretch, and begin one with the samples that were taken for it.

        Whether a loop takes a batch for each step shows at its second one: before the first, a
        batch may only have been looked at. A step for which none were taken trains on those of the
        one before; of another loader's batches only the wait counts, as where they are zipped.
        """
        looks, given = stretch.thread.looks, self.outermost.take()
        is_first = not stretch.in_hand and not stretch.number
        if stretch.in_hand and stretch.state == HELD and not stretch.number:
            if looks:
                stretch.loader, stretch.waits = looks[0].loader.without_passes(), True
                stretch.counter = looks[0].counter
            else:
                stretch.size = None
                stretch.tokens = self.outermost.took_at_first(given)
                if not self.outermost.is_watching:
                    self._watch_networks(stretch)
                stretch.counter = self.outermost.counter
        # Of `backward` it is known once it has ended.
        self._end_step(stretch, now, OPTIMIZER if self.reports.has_optimizers else REST)
        stretch.asked = now
        self._go_on(stretch, now)
        if looks and (stretch.waits or stretch.state == HELD):
            source = looks[0].source()
            held = (item for look in looks if look.source() is source for item in look.held or ())
            items = [item for item in held if isinstance(item, MeasuredBatch)]
            stretch.size = _of_each(item.samples for item in items)
            stretch.tokens = _of_each(item.tokens for item in items)
        elif stretch.size is None:
            stretch.tokens = given
        # To begin an iterator for each may take longer than to fetch from it: its workers start.
        waits = (look.opened - look.begin + look.waited_ns for look in looks)
        # What the first one waited for came before it.
        stretch.wait_ns = 0 if is_first else sum(waits)
        looks.clear()
        stretch.in_hand = True

    def _look(self, read: Pass) -> None:
        """Keep the batches of a pass that was left for the step that follows.

        If that came before it was left, as where its iterator has a name, it is a step of a loop.
        """
        thread = read.thread
        if read.first_step is not None and not thread.stack:
            # What was taken before the first step may only have been looked at.
            thread.looks.clear()
        thread.looks.append(read)
        if read.first_step is None:
            return
        self._step_outside(thread, *read.first_step)
        stretch = thread.stack[0] if thread.stack else None
        if stretch is None:
            return
        stretch.updates += read.updates_in_all
        stretch.updates_in_all += read.updates_in_all
        stretch.goes_backward = stretch.has_gone_backward = read.has_gone_backward
        stretch.last_active = read.last_active
        if stretch.state == HELD:
            stretch.loader, stretch.waits = read.loader.without_passes(), True
            stretch.counter = read.counter
            self.reports.train(stretch)
        for item in read.held or ():
            if isinstance(item, Interruption):
                self.reports.send(stretch, item)

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
            self._abandon(self._dropped.popleft())
