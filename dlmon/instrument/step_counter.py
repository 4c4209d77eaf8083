"""Count the steps of a training loop and the batches that each step trained on.

A step ends with an optimizer's step, or with `backward` if the script changes its weights itself.
It holds the batches that went backward for it, no matter which thread fetched them. Loaders tell
how long the script waited and when epochs begin and end. docs/epochs.md explains these rules:

- A fetched batch waits until something goes backward or an optimizer steps. Each `backward` takes
  the batches that went into it: usually the only one that waits. If several wait, the number of
  calls of the network tells how many it takes, the oldest first. A batch that the script dropped
  before was skipped and never counts.
- A step lasts until its thread asks a loader for the next batch. If no loader is read, or another
  thread reads it, the step lasts until its optimizer has stepped. If batches were read ahead, the
  last step of an epoch ends with the next event, at most as long after its optimizer as other
  steps did.
- An iteration over a loader is an epoch if it is asked for more after a step that held its batch,
  or is exhausted then. If several loaders are read for one step, the one that is asked first for
  the next step is the epoch, and the waits for all of them add up.
- If a loader ends while another one that is read beside it goes on, and the script begins it again
  with `next`, the epoch goes on. Such an epoch ends when the script makes a new iterator, or after
  it has validated.
- An iteration that ends without a step validates. If the script leaves it after one batch without
  a step, as `next(iter(loader))` does, it is no epoch.
- Steps outside of epochs make a loop without epochs, from the second step on.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

from dlmon.instrument.iterations import (
    AT_ONCE_NS,
    EPOCH,
    NEW,
    OVER,
    READ,
    VALIDATING,
    FetchedBatch,
    LoaderIteration,
)
from dlmon.instrument.loaders import Loader
from dlmon.instrument.loop_reports import LoopReports
from dlmon.instrument.outermost import Outermost
from dlmon.instrument.queued import Interruption, MeasuredBatch, Pause
from dlmon.instrument.step_parts import BEFORE, OPTIMIZER, REST, WAIT
from dlmon.instrument.waiting_batches import NO_ITERATION, NO_LOADER, WaitingBatches, joined
from dlmon.records import SCRIPT_PHASE

# If gradients are accumulated for longer than this, batches are reported before their step.
LONG_STEP_NS = 2_000_000_000

# After this many steps in a row with batches of another iteration, the script has left the epoch.
TAKES_OVER = 16

# Up to this many calls of `backward` outside of any iteration are no training loop.
FEW_BACKWARDS = 8

# A loop that trains on a batch before the one that it holds is at most this many batches ahead.
MOST_AHEAD = 2

IN_TURN = "its steps take the batches of several loaders in turn"
BEGUN_AGAIN = "its loader begins again within an epoch"
OWN_BATCHES = "the script makes its batches itself of what its loader gives"

_new = tuple.__new__


class Thread:
    """The state of one thread of the script."""

    def __init__(self) -> None:
        self.stepping: int | None = None
        """The id of the optimizer that steps; optimizers that it calls itself don't count."""
        self.backwards = 0
        """How often the optimizer that steps went backward; the first time takes the batches."""
        self.is_inside = False
        """Is a loader at work? Iterations that it makes itself are not the script's."""


class _Threads(threading.local):
    """Gives each thread a `Thread` of its own."""

    def __init__(self) -> None:
        self.thread = Thread()


class Step:
    """The step under way."""

    __slots__ = (
        "backwards",
        "began_ns",
        "begin_ns",
        "claims",
        "last_active_ns",
        "later",
        "next_ns",
        "stepped",
        "updates",
    )

    def __init__(self, begin_ns: int, claims: list[list[FetchedBatch]]) -> None:
        self.begin_ns = self.last_active_ns = begin_ns
        # The first call of its optimizer or of `backward`, outside of epochs only.
        self.began_ns = 0
        # The batches of each `backward`, before and after an optimizer stepped.
        self.claims = claims
        self.later: list[list[FetchedBatch]] = []
        self.backwards = len(claims)
        self.updates = 0
        self.stepped: tuple[int, ...] = ()
        """The ids of the optimizers that stepped."""
        self.next_ns = 0
        """The first call of the network after the last step of an optimizer."""


class EndedStep(NamedTuple):
    """A step that has ended and is not yet assigned to an epoch.

    Attributes:
        end_ns: the request for the next batch, or another event that ended the step.
        active_ns: the end of the optimizer's step.
        began_ns: the first call of its optimizer or of `backward`, outside of epochs only.
        claims: the batches that it took, per `backward`.
        updates: the number of optimizer steps; None if the script changes its weights itself.
        lead: the iteration whose batches count; None if no loader gave any.
    """

    end_ns: int
    active_ns: int
    began_ns: int
    claims: list[list[FetchedBatch]]
    updates: int | None
    lead: LoaderIteration | None


class ValidationBetween(NamedTuple):
    """A validation after a step of an epoch that may go on.

    Attributes:
        iteration: the iteration that validated.
        end_ns: its end.
        whole: whether all its batches came.
        active_ns: the end of the optimizer's step before it.
    """

    iteration: LoaderIteration
    end_ns: int
    whole: bool
    active_ns: int

    @property
    def interruption(self) -> Interruption:
        return Interruption(self.iteration.begin_ns, self.end_ns)


class StepCounter:
    """Makes steps, epochs and validations from the calls of the hooks.

    Args:
        reports: reports them.
        in_worker: returns whether this process is a worker of a loader.
    """

    def __init__(self, reports: LoopReports, in_worker: Callable[[], bool] = lambda: False) -> None:
        self.reports, self._in_worker = reports, in_worker
        self._reporter, self._clock = reports.reporter, reports.clock
        self.marks = reports.marks
        self.outermost = Outermost()
        self._local = _Threads()
        self._limit: int | None = None
        self.outermost.called = self._called
        reports.at_close, reports.yields = self.close, self._end_loop
        # Python may collect an iterator that the script dropped in the middle of a hook.
        self._is_busy = False
        self._dropped: deque[LoaderIteration] = deque()
        self._forget()
        os.register_at_fork(after_in_child=self._leave_parent)

    def _forget(self) -> None:
        self._step = Step(0, [])
        self.waiting = WaitingBatches(self.outermost, self._clock)
        self._open: list[LoaderIteration] = []
        # The iteration whose iterator was made last, if none was asked for a batch since.
        self._newest: LoaderIteration | None = None
        self.epoch: LoaderIteration | None = None
        """The iteration of the epoch under way."""
        # The loop without epochs under way; before it has two steps, these are kept.
        self._loop: LoaderIteration | None = None
        self._loop_steps: list[EndedStep | Interruption] = []
        self._loop_claims: list[list[FetchedBatch]] = []
        self._tokens_at_first: int | None = None
        self._loop_optimizer: Callable[[], Any] | None = None
        # Loaders that were read beside another; a script starts them again within an epoch.
        self._beside: deque[Callable[[], Any]] = deque(maxlen=8)
        # Steps that may belong to an epoch, their interruptions, and validations that may end it.
        self._undecided: list[EndedStep | Interruption | ValidationBetween] = []
        self._thread: Thread | None = None
        """The thread that trains."""
        self._last_end_ns = self._longest_tail_ns = 0
        self._failed_ns = 0
        self._was_in_eval_mode = False
        self._validating: LoaderIteration | None = None
        """The validation under way."""
        self._validated = NO_ITERATION
        """The validation that ended last."""
        # A validation read ahead, whose last batches still compute, and the latest time it ends.
        self._unsettled: tuple[LoaderIteration, int] | None = None

    def _leave_parent(self) -> None:
        for iteration in self._open:
            iteration.state = OVER
        self._dropped.clear()
        self._is_busy = False
        self._forget()
        self.reports.forget()

    def close(self) -> None:
        """End what is open; the process ends."""
        self._settle(self._clock())
        for iteration in reversed(tuple(self._open)):
            self._leave(iteration)
        self._end_training()
        self.marks.close()

    # Calls of the hooks.

    def thread(self) -> Thread:
        return self._local.thread

    def new(self, loader: Loader, created: int, source: Callable[[], Any]) -> LoaderIteration:
        """Return a new iteration over a loader; `source` returns the loader itself."""
        iteration = LoaderIteration(loader, created, source)
        newest = self._newest
        if newest is not None and created <= newest.ready_ns[0] + AT_ONCE_NS:
            # The script makes several iterators before it asks one of them for a batch.
            iteration.ready_ns = newest.ready_ns
        iteration.ready_ns[0] = self._clock()
        self._newest = iteration
        if loader.is_collated and self.reports.is_known_to_leave_out(iteration):
            iteration.loader = loader.leaving_out()
        return iteration

    def begin_again(self, loader: Any, created: int) -> LoaderIteration | None:
        """Let the epoch go on with another iterator over its loader; None if it doesn't.

        A script that reads loaders side by side with `next`, as many times as it likes, begins one
        of them again when it ends.
        """
        ended = [i for i in self._open if i.is_exhausted and i.source() is loader]
        if not ended or not self._may_begin_again(ended[0]):
            return None
        epoch = ended[0]
        if not epoch.is_continued:
            self.reports.say_that_epochs_are_own(epoch.loader, BEGUN_AGAIN)
        epoch.begin_again(created)
        return epoch

    def _may_begin_again(self, iteration: LoaderIteration) -> bool:
        """Return whether the epoch under way, or the next one, may go on though its loader ended.

        It may if a loader that is read beside it has more batches. If the script has begun it again
        before, all of them may end at once.
        """
        if iteration.is_continued:
            return True
        return iteration is self.epoch and any(
            beside is not iteration
            and beside.state == READ
            and not (beside.is_exhausted or beside.has_all)
            and self._is_beside(beside)
            for beside in self._open
        )

    def fetch(self, iteration: LoaderIteration, with_gradients: bool = True) -> None:
        """Note that the script asks for a batch."""
        thread = self._local.thread
        # The optimizer's step may have raised.
        thread.stepping = None
        now = iteration.asked_ns = self._clock()
        if iteration.state == EPOCH and thread is self._thread and not self._failed_ns:
            # The usual case.
            if self._validating is not None:
                self._end_turn(now)
            step = self._step
            is_whole = step.updates > 0 or (step.backwards > 0 and not self.reports.has_optimizers)
            if now >= self.marks.due_ns:
                self.marks.begin_batch(is_whole, now, WAIT, thread)
            if is_whole:
                if len(step.claims) == 1 and not (step.later or self._undecided):
                    claim = step.claims[0]
                    if len(claim) == 1 and claim[0].iteration is iteration:
                        self._end_usual_step(now, iteration, claim[0])
                        return
                if iteration.is_continued and self._validations:
                    self._split_epoch(iteration, now)
                    return
                self._end_step(now, iteration)
            elif step.claims and now - step.begin_ns > LONG_STEP_NS:
                self._report_part(now)
            if self._undecided:
                self._send_undecided()
            return
        self._is_busy = True
        if iteration.state == NEW:
            self._begin(iteration, thread, now, with_gradients)
        elif iteration.state != OVER:
            self._ask_again(iteration, thread, now)
        if self.marks.is_on and thread is self.marks.thread:
            self.marks.enter(WAIT)
        self._done()

    def fetched(
        self,
        iteration: LoaderIteration,
        size: int | None,
        tokens: int | None = None,
        batch: Any = None,
    ) -> None:
        """Note that a batch came, with its samples and tokens."""
        now, asked_ns, marks = self._clock(), iteration.asked_ns, self.marks
        if marks.is_on and iteration.thread is marks.thread:
            marks.enter(BEFORE)
        iteration.fetched += 1
        state = iteration.state
        if state in (VALIDATING, READ):
            iteration.has_batch = True
            if iteration.samples is not None:
                iteration.samples = None if size is None else iteration.samples + size
            if iteration.fetched == 1:
                self.outermost.first.begin()
        if state in (EPOCH, READ):
            wait_ns, waiting = now - asked_ns, self.waiting
            if waiting.batches and (ahead := waiting.of(iteration)):
                # This batch is fetched ahead: the step of the waiting batch waited for it.
                ahead[0].wait_ns = (ahead[0].wait_ns or 0) + wait_ns
                wait_ns = 0
            waiting.batches.append(FetchedBatch(iteration, size, tokens, wait_ns, asked_ns, batch))
            if iteration.sizes.are_fewer and iteration.loader.inferred is None:
                self.reports.leaves_out(iteration)

    def look_within(self, batch: Any) -> None:
        """Look at the tokens of a batch that another loader hands on during an epoch."""
        if self.thread().is_inside and self.epoch is not None:
            self.reports.look_at_tokens(batch)

    def exhausted(self, iteration: LoaderIteration, is_next: bool = False) -> None:
        """Note that a loader has no more batches; `is_next` if the script called `next`."""
        now = self._clock()
        if iteration.state == OVER:
            self.reports.went_on(iteration, now)
            return
        self._is_busy = True
        iteration.is_exhausted = True
        if iteration.state in (READ, EPOCH, VALIDATING):
            self._end_iteration(iteration, now, is_next)
        else:
            iteration.state = OVER
        if self.marks.is_on and iteration.thread is self.marks.thread:
            self.marks.enter(BEFORE)
        self._done()

    def abandoned(self, iteration: LoaderIteration) -> None:
        """Note that the iterator is gone."""
        newest = self._newest
        if newest is not None and newest.source() is iteration.source():
            # The script has put a new one in its place, and its workers had to stop.
            newest.ready_ns[0] = self._clock()
        if self._is_busy:
            self._dropped.append(iteration)
        else:
            self._leave(iteration)

    def step_began(self, optimizer: Any, has_closure: bool = False) -> None:
        thread, number = self._local.thread, id(optimizer)
        if thread.stepping is not None and thread.stepping != number:
            return
        thread.stepping, thread.backwards = number, 0
        step, epoch = self._step, self.epoch
        if (
            epoch is None
            or step.later
            or (step.updates and (self.waiting.batches or epoch.is_exhausted))
        ):
            self._begin_to_step(optimizer)
        if self.marks.is_on and thread is self.marks.thread:
            self.marks.begin_step(has_closure)

    def _begin_to_step(self, optimizer: Any) -> None:
        """Note that an optimizer steps, if no loader tells when the step before ended."""
        step, epoch = self._step, self.epoch
        if epoch is not None:
            if id(optimizer) in step.stepped:
                self._end_step_between(OPTIMIZER, step.next_ns or step.last_active_ns)
                if epoch.thread is self._thread and self._is_drained(epoch) and not step.later:
                    # The script trains on what it has kept.
                    self._end_epoch(self._last_end_ns)
                    self._step.began_ns = self._clock()
            return
        self._settle(self._clock())
        loop = self._loop_optimizer
        if self._loop is not None and (loop is None or loop() is None):
            self._end_loop()
        elif id(optimizer) in step.stepped and not self._is_bounded():
            self._end_step_between(OPTIMIZER, step.last_active_ns)
        self._step.began_ns = self._step.began_ns or self._clock()

    def step_ended(self, optimizer: Any) -> None:
        """Note that an optimizer stepped; one that another optimizer calls doesn't count."""
        thread, number = self._local.thread, id(optimizer)
        if thread.stepping != number:
            return
        thread.stepping, self._thread = None, thread
        if self.marks.is_on and thread is self.marks.thread:
            self.marks.enter(REST)
        step = self._step
        if step.later:
            if id(optimizer) not in step.stepped:
                self._give_back(step)
            step.claims += step.later
            step.later = []
        elif not step.claims and (self.waiting.batches or self.outermost.calls):
            # No call of `backward` was seen.
            self._claim(all_that_wait=True)
        step.last_active_ns = self._clock()
        step.next_ns = 0
        step.updates += 1
        step.stepped += (number,)
        if self.epoch is None:
            self.reports.stepped_by = weakref.ref(optimizer)
            self._trained_outside()
        elif self.epoch.thread is not thread:
            self._reporter.reads.stepped_ns = step.last_active_ns

    def ran_out_of_memory(self) -> None:
        """Note that memory ran out; if nothing goes backward next, the batch is lost."""
        self._failed_ns = self._clock()
        self.outermost.failed()

    def goes_backward(self, loss: Any) -> None:
        """Look at the graph of a loss if it isn't clear which batches it came from."""
        if self.outermost.looks_back:
            self.outermost.went_backward(loss)
        if len(self.waiting.batches) > 1:
            self.waiting.goes_backward(loss)

    def went_backward(self, tensors: Any, began: int) -> None:
        """Note that something went backward and give the step the waiting batches.

        Args:
            tensors: the arguments of `backward`, or a gradient.
            began: when the call began.
        """
        if began <= self._failed_ns:
            # This call ran out of memory.
            return
        self._failed_ns = 0
        thread = self._local.thread
        if thread.stepping is not None:
            thread.backwards += 1
            if thread.backwards == FEW_BACKWARDS + 1:
                self._say_that_it_trains()
            if thread.backwards > 1:
                return
        by_hand = not self.reports.has_optimizers
        if self.epoch is None or by_hand:
            self._go_backward_outside(tensors, began, by_hand)
        self._thread, step = thread, self._step
        if self.waiting.batches or self.outermost.calls:
            self._claim()
        step.backwards += 1
        if not step.updates:
            step.last_active_ns = self._clock()
        if by_hand and self.epoch is None:
            self._trained_outside()

    def _say_that_it_trains(self) -> None:
        """Enter training within the first step of an optimizer that may do all in one, as LBFGS."""
        is_known = self.epoch is not None or self._loop is not None or self._open
        if not is_known and not self._loop_steps and self.reports.claim(yields=True):
            self._reporter.enter("training", self._step.began_ns)

    def _go_backward_outside(self, tensors: Any, began: int, by_hand: bool) -> None:
        """Note what goes backward outside of an epoch or without an optimizer."""
        step = self._step
        if self.epoch is None:
            self.reports.gone_backward_on = getattr(tensors, "device", None)
            self._reporter.saw("torch backward")
        is_next = bool(self.waiting.batches) if self.epoch is not None else not self._is_bounded()
        if by_hand and step.backwards and is_next:
            end_ns = step.next_ns if self.epoch is not None else 0
            self._end_step_between(REST, end_ns or step.last_active_ns)
        if by_hand and self.epoch is None:
            self._step.began_ns = self._step.began_ns or began

    # Calls of trainers, which know more than the hooks.

    def limit(self, steps: int | None) -> None:
        """Limit the next iteration to this many batches, if its loader has more."""
        self._limit = steps

    def validates(self) -> None:
        """Make the newest iteration a validation, though gradients are on."""
        iteration = self._open[-1] if self._open else None
        if iteration is not None and iteration.state == READ and not self._is_claimed(iteration):
            self._validate(iteration)

    def validated(self) -> None:
        """End the validation under way, even if its loader has more batches."""
        iteration = self._open[-1] if self._open else None
        if iteration is not None and iteration.state == VALIDATING:
            self._leave(iteration)

    def fit_ended(self) -> None:
        """End the epoch under way and forget what the fit told of its length."""
        self._settle(self._clock())
        self._end_training()
        self.reports.expect()
        self.reports.no_more_validations()

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        """Add metrics to the epoch under way, or to the one that ended last."""
        current = self.epoch
        if current is None:
            leads = [step.lead for step in _steps_in(self._undecided)]
            leads += [batch.iteration for batch in chain(*self._step.claims)]
            open_leads = [lead for lead in leads if lead is not None and lead.state != OVER]
            current = open_leads[0] if open_leads else None
        self.reports.add_metrics(metrics, current)

    # Batches of a step.

    def _claim(self, all_that_wait: bool = False) -> None:
        """Give the step the batches that went backward."""
        step, waiting = self._step, self.waiting
        batches = waiting.batches
        if waiting.is_usual and len(batches) == 1 and batches[0].iteration is self.epoch:
            # The usual case.
            (step.later if step.updates else step.claims).append([batches.popleft()])
            return
        were_made = waiting.are_made
        has_loader = any(b.iteration is not NO_ITERATION for b in chain(*step.claims))
        is_alone = self.epoch is None and not has_loader
        is_kept = self.epoch is not None and self.epoch.ends_within_step
        claim = waiting.claim(self._thread, is_alone or is_kept, all_that_wait)
        if waiting.are_made and not were_made and self.epoch is not None:
            self.reports.say_that_batches_are_made(OWN_BATCHES)
        claims = step.later if step.updates else step.claims
        if claim and claims and is_alone and claim[0].iteration is NO_ITERATION:
            # Without a loader, each step has one batch.
            claims[-1] = [joined([*claims[-1], *claim])]
        elif claim:
            claims.append(claim)

    def _give_back(self, step: Step) -> None:
        """Let batches wait again that were fetched before another optimizer stepped.

        Both optimizers train on the same batch, as in a generative adversarial network.
        """
        for claim in reversed(step.later):
            ready = [
                batch
                for batch in claim
                if batch.asked_ns < step.last_active_ns
                or batch.iteration.thread is not self._thread
            ]
            self.waiting.add_first(ready)
            claim[:] = [batch for batch in claim if batch not in ready]
        step.later = [claim for claim in step.later if claim]

    def _called(self) -> None:
        """Note a call of the network: it may belong to the next step."""
        if self._validating is not None:
            self._end_turn(self._clock())
        if self.epoch is not None and self.epoch.ends_within_step and self._step.updates:
            self._end_epoch(self._clock())
        if not self._step.next_ns and self._is_complete:
            self._step.next_ns = self._clock()

    # Ends of steps.

    @property
    def _is_complete(self) -> bool:
        step = self._step
        return step.updates > 0 or (step.backwards > 0 and not self.reports.has_optimizers)

    def _is_bounded(self) -> bool:
        """Return whether the step has a batch of an iteration that may be asked again."""
        iterations = [batch.iteration for batch in chain(*self._step.claims)]
        return any(
            iteration.state == READ
            and not iteration.is_exhausted
            and iteration.thread is self._thread
            for iteration in iterations
        )

    def _end_step_between(self, part: str, end_ns: int) -> None:
        """End a step without a request for the next batch; a part of the next step has begun."""
        now = self._clock()
        if now >= self.marks.due_ns and (self.epoch or self._loop) is not None:
            self.marks.begin_batch(True, now, part, self._thread)
        self._end_step(end_ns, keeps_later=True)

    def _end_step(
        self, end_ns: int, requested: LoaderIteration | None = None, keeps_later: bool = False
    ) -> None:
        """End the step under way.

        Args:
            end_ns: the end of the step.
            requested: the iteration that is asked for the next batch.
            keeps_later: batches claimed after the optimizer stepped go to the next step.
        """
        self._assign(self._take_step(end_ns, keeps_later), requested)

    def _end_usual_step(self, end_ns: int, epoch: LoaderIteration, batch: FetchedBatch) -> None:
        """End a step of an epoch with one batch: the usual case, made fast."""
        step = self._step
        tail_ns = end_ns - step.last_active_ns
        if tail_ns > self._longest_tail_ns:
            self._longest_tail_ns = tail_ns
        updates = step.updates or (0 if self.reports.has_optimizers else None)
        step.begin_ns = step.last_active_ns = self._last_end_ns = end_ns
        step.claims.clear()
        step.stepped = ()
        step.updates = step.backwards = step.next_ns = 0
        epoch.trained += 1
        # A tuple's own `__new__` takes half as long as a named one's.
        self._reporter.batch_ended(
            _new(MeasuredBatch, (end_ns, batch.size, batch.wait_ns, updates, batch.tokens))
        )

    def _take_step(self, end_ns: int, keeps_later: bool = False) -> EndedStep:
        """Return the step under way as an ended one and begin the next."""
        step = self._step
        claims = step.claims
        if keeps_later:
            self._step = Step(end_ns, step.later)
        else:
            claims += step.later
            self._step = Step(end_ns, [])
        updates: int | None = step.updates
        if not updates and not self.reports.has_optimizers:
            # The script steps without an optimizer of PyTorch.
            updates = None
        if (tail_ns := end_ns - step.last_active_ns) > self._longest_tail_ns:
            self._longest_tail_ns = tail_ns
        return _new(EndedStep, (end_ns, step.last_active_ns, step.began_ns, claims, updates, None))

    def _report_part(self, end_ns: int) -> None:
        """Report the batches of the step under way before it ends."""
        step = self._step
        if self.epoch is not None and step.claims:
            updates = 0 if self.reports.has_optimizers or step.updates else None
            part = EndedStep(end_ns, end_ns, 0, step.claims, updates, self.epoch)
            self._step = Step(end_ns, [])
            self._send_undecided()
            self._send(part, self.epoch)

    def _assign(self, step: EndedStep, requested: LoaderIteration | None) -> None:
        """Report a step of the epoch, or keep it until its epoch is known."""
        batches = chain(*step.claims)
        iterations = [b.iteration for b in batches if b.iteration is not NO_ITERATION]
        epoch = self.epoch
        if epoch is not None and (epoch in iterations or not iterations):
            self._send_undecided()
            self._send(step, epoch)
            return
        if not iterations:
            self._add_to_loop(step)
            return
        lead = requested if requested in iterations else self._lead_of(iterations)
        step = step._replace(lead=lead)
        is_over = epoch is not None and (epoch.is_exhausted or epoch.thread is not self._thread)
        if epoch is not None and is_over and self._is_drained(epoch):
            # Another thread reads the next epoch already, or the script reads on beside it.
            self._end_epoch(self._last_end_ns)
        gave_one = lead.state == OVER and lead.fetched == 1 and not lead.has_all
        if self.epoch is None and gave_one and not self.reports.gave_epochs(lead):
            self._add_to_loop(step)
            return
        self._undecided.append(step)
        if lead.state == OVER or lead.is_exhausted or lead is requested or lead.fetched > 1:
            self._decide(lead)

    def _lead_of(self, iterations: list[LoaderIteration]) -> LoaderIteration:
        """Return the iteration whose batches count, if none is asked for the next step."""
        leads = [iteration for iteration in iterations if not self._is_beside(iteration)]
        leads = leads or iterations
        return next((iteration for iteration in leads if iteration.state != OVER), leads[0])

    def _decide(self, iteration: LoaderIteration) -> None:
        """Begin an epoch with an iteration whose batch was trained on before its next request."""
        steps = _steps_in(self._undecided)
        own_steps = [step for step in steps if step.lead is iteration]
        if not own_steps:
            return
        if self.epoch is None:
            self._begin_epoch(iteration)
            return
        is_whole = iteration.is_exhausted and not iteration.trained
        if len(own_steps) == len(steps) and (is_whole or len(own_steps) >= TAKES_OVER):
            # The script reads it within a batch of the epoch under way, or has left that epoch.
            outer, undecided, self._undecided = self.epoch, self._undecided, []
            self._end_epoch(self._last_end_ns)
            outer.state = READ
            self._open.append(outer)
            self.reports.losses.begin_epoch(is_known=False)
            self._undecided = undecided
            self._begin_epoch(iteration)

    def _begin_epoch(self, iteration: LoaderIteration) -> None:
        """Begin an epoch and report its first steps."""
        self._end_loop()
        if not self.reports.claim():
            self._undecided.clear()
            self._drop(iteration)
            return
        steps = _steps_in(self._undecided)
        begin_ns = min(step.lead.begin_ns for step in steps if step.lead is not None)
        # Its loader may have been read before the epoch before it ended.
        begin_ns = max(begin_ns, self._last_end_ns)
        self.waiting.always_looks = iteration.thread is not self._thread
        self.outermost.wake()
        is_over = iteration.state == OVER
        iteration.state, self.epoch = EPOCH, iteration
        self._longest_tail_ns = 0
        self.reports.begin_epoch(iteration, begin_ns)
        if self.waiting.are_made:
            self.reports.say_that_batches_are_made(OWN_BATCHES)
        self._send_undecided()
        described = self.reports.take_described()
        if described is not None:
            self._reporter.send(described)
            iteration.asked_ns += described.end - described.t
        if is_over:
            self._end_epoch(self._clock())

    def _send_undecided(self) -> None:
        undecided, self._undecided = self._undecided, []
        for step in undecided:
            if isinstance(step, Interruption):
                self._reporter.send(step)
            elif isinstance(step, ValidationBetween):
                self._reporter.send(step.interruption)
                if self.epoch is not None:
                    self.epoch.was_interrupted = True
            elif self.epoch is not None:
                self._send(step, self.epoch)

    def _send(self, step: EndedStep, lead: LoaderIteration, end_ns: int | None = None) -> None:
        """Report the batches of a step of an epoch or of a loop without epochs."""
        sizes: list[int | None] = []
        tokens: list[int | None] = []
        waits: list[int | None] = []
        for claim in step.claims:
            iterations = [batch.iteration for batch in claim]
            counting = lead if lead in iterations else step.lead
            counting = counting if counting in iterations else iterations[0]
            assert counting is not None
            for batch in claim:
                if batch.iteration is counting:
                    if lead is self.epoch and counting not in (lead, NO_ITERATION):
                        self._note_turn(lead)
                    sizes.append(batch.size)
                    tokens.append(batch.tokens)
                    waits.append(batch.wait_ns)
                    counting.trained += 1
                elif batch.asked_ns >= counting.created_ns or self._is_beside(batch.iteration):
                    self._note_beside(batch.iteration)
                    waits.append(batch.wait_ns)
                    if tokens and tokens[-1] is not None and batch.tokens is not None:
                        tokens[-1] += batch.tokens
        wait_ns = None if None in waits or not waits else sum(waits)  # type: ignore[arg-type]
        end_ns = step.end_ns if end_ns is None else end_ns
        self._last_end_ns = max(self._last_end_ns, end_ns)
        self._reporter.batch_ended(
            MeasuredBatch(end_ns, _of_each(sizes), wait_ns, step.updates, _of_each(tokens))
        )

    def _note_turn(self, epoch: LoaderIteration) -> None:
        """Report once that an epoch takes several loaders in turn, so its length is unknown."""
        if not self.waiting.are_made and not epoch.is_one_of_several:
            epoch.is_one_of_several = True
            self.reports.say_that_lengths_differ(epoch.loader, IN_TURN)

    def _note_beside(self, iteration: LoaderIteration) -> None:
        """Remember that a loader is read beside another."""
        if not self._is_beside(iteration):
            self._beside.append(iteration.source)

    def _is_beside(self, iteration: LoaderIteration) -> bool:
        source = iteration.source()
        return any(beside() is source for beside in self._beside)

    # Loops without epochs.

    def _trained_outside(self) -> None:
        """Count the input of the network from the first step on, if no loader gives batches."""
        step, outermost = self._step, self.outermost
        self._reporter.reads.stepped_ns = step.last_active_ns
        batches = list(chain(*step.claims))
        if self._loop is not None or any(b.iteration is not NO_ITERATION for b in batches):
            return
        steps = _steps_in(self._loop_steps)
        if (not steps and not batches) or not outermost.is_watching:
            outermost.watch(self.reports.stepped_by() if step.updates else None)
        if len(steps) == 1 and batches and outermost.looks_back:
            self._tokens_at_first = outermost.took_at_first(batches[0].tokens)
        if not steps and step.updates and self._local.thread.backwards > FEW_BACKWARDS:
            # An optimizer such as LBFGS may do all of a training in a single step.
            self._end_step(step.last_active_ns)
            if self._loop_steps:
                self._begin_loop()

    def _add_to_loop(self, step: EndedStep) -> None:
        """Add a step outside of epochs; from the second on, such steps are a loop."""
        if self._loop is not None:
            self._send_of_loop(step)
        elif self._reporter.may_take(self.reports.owner):
            if step.lead is not None and not self.reports.claim(yields=True):
                return
            if not self._loop_steps:
                self.reports.losses.begin_epoch(steps_now=True)
            self._loop_steps.append(step)
            if len(_steps_in(self._loop_steps)) > (FEW_BACKWARDS if step.updates is None else 1):
                self._begin_loop()

    def _begin_loop(self) -> None:
        """Begin a loop without epochs and report its first steps."""
        first_steps, self._loop_steps = self._loop_steps, []
        if not self.reports.claim(yields=True):
            return
        steps = _steps_in(first_steps)
        first, lead = steps[0], steps[min(1, len(steps) - 1)].lead
        begin_ns = first.began_ns or first.active_ns
        loader = NO_LOADER if lead is None else lead.loader.without_passes()
        self._loop = LoaderIteration(loader, begin_ns)
        self._loop.counter = self.outermost.counter if lead is None else lead.counter
        self._loop_optimizer = None if first.updates is None else self.reports.stepped_by
        self._loop_claims = []
        self.reports.begin_epoch(self._loop, begin_ns, has_epochs=False)
        for step in first_steps:
            if isinstance(step, Interruption):
                self._reporter.send(step)
                continue
            is_made = any(batch.iteration is NO_ITERATION for batch in chain(*step.claims))
            if step is first and not is_made and (lead is None or step.lead is None):
                # The script may only have looked at a batch that it took before its first step.
                first_batch = FetchedBatch(NO_ITERATION, None, self._tokens_at_first, None, 0)
                step = step._replace(claims=[[first_batch]], lead=None)
            self._send_of_loop(step, is_first=step.end_ns == first.end_ns)

    def _send_of_loop(self, step: EndedStep, is_first: bool = False) -> None:
        """Report a step of a loop without epochs, which ends when its optimizer has stepped.

        A step without a batch, in a loop that takes batches from a loader, trains on the last ones.
        """
        assert self._loop is not None
        claims = step.claims
        if self._loop.loader is not NO_LOADER:
            if claims:
                self._loop_claims = claims
            for batch in chain(*(claims or self._loop_claims)):
                # Opening an iterator may take longer than a fetch: its workers start.
                opening_ns = batch.iteration.opened_ns - batch.iteration.begin_ns
                is_now = bool(claims) and not is_first and batch.wait_ns is not None
                batch.wait_ns = (batch.wait_ns or 0) + opening_ns if is_now else 0
            step = step._replace(claims=claims or self._loop_claims)
        self._send(step, step.lead or NO_ITERATION, step.active_ns)

    def _end_loop(self) -> None:
        """End the loop without epochs, if one is under way."""
        if self._loop is not None and self._is_complete:
            # What went backward since is of a step that never came.
            self._step.later.clear()
            self._end_step(self._step.last_active_ns)
        elif any(step.lead for step in _steps_in(self._loop_steps)):
            # A single step that took a batch of a loader.
            self._begin_loop()
        loop, self._loop, self._loop_steps = self._loop, None, []
        if loop is not None:
            self.marks.drop()
            self.reports.end_epoch(loop, self._last_end_ns)
            self._release()

    def _end_training(self) -> None:
        """End the epoch or the loop without epochs that is under way."""
        now = self._clock()
        if self.epoch is None and self._is_complete and self._loop is None:
            self._end_step(now)
        if self.epoch is not None:
            self._end_epoch(now)
        self._end_loop()
        self._undecided.clear()

    # Begin and end of iterations.

    def _begin(
        self, iteration: LoaderIteration, thread: Thread, now: int, with_gradients: bool
    ) -> None:
        reports = self.reports
        is_ours = self._reporter.may_take(reports.owner) and not self._in_worker()
        # Another thread may evaluate meanwhile, or, with gradients on, read ahead for training.
        is_elsewhere = thread is not (self._thread or thread) and not with_gradients
        if thread.is_inside or not is_ours or (is_elsewhere and self._is_within()):
            iteration.state = OVER
            return
        self._settle(iteration.created_ns)
        if self.epoch is not None:
            if self._is_left(self.epoch, iteration, thread, with_gradients):
                self._end_epoch(iteration.created_ns)
        elif self._is_complete and not self._is_bounded():
            self._end_step_between(WAIT, self._step.last_active_ns)
        iteration.begin(now, thread, reports.phase)
        self._newest = None
        if with_gradients and self._limit is not None:
            iteration.loader, self._limit = iteration.loader.limited(self._limit), None
        if self.epoch is None:
            self.outermost.looks_back = False
            if self._loop is None and not self._undecided and not self._step.claims:
                reports.losses.begin_epoch()
        self._open.append(iteration)
        self.outermost.evaluated = self._evaluated
        self.outermost.wake()
        self._drop_unused(iteration)
        if not with_gradients:
            self._validate(iteration)

    def _drop_unused(self, iteration: LoaderIteration) -> None:
        """Drop an iteration of another thread over the same loader that nothing trained on."""
        source = iteration.source()
        for open_one in tuple(self._open[:-1]) if source is not None else ():
            is_unused = open_one.state == READ and not (open_one.trained or open_one.is_exhausted)
            is_elsewhere = open_one.thread is not iteration.thread
            if is_unused and is_elsewhere and open_one.source() is source:
                self._drop(open_one)

    def _is_left(
        self,
        epoch: LoaderIteration,
        iteration: LoaderIteration,
        thread: Thread,
        with_gradients: bool,
    ) -> bool:
        """Return whether the epoch is over when another iteration begins.

        Lightning and transformers ask for all batches, but not once more to see the end. A script
        may evaluate on its training loader in the middle of an epoch, without gradients.
        """
        has_ended = epoch.is_exhausted or epoch.is_left
        is_read_ahead = epoch.thread is not self._thread and bool(self.waiting.of(epoch))
        if self._is_drained(epoch) or (has_ended and not is_read_ahead):
            return True
        source = iteration.source()
        is_begun_again = source is not None and epoch.source() is source and with_gradients
        is_within = iteration.created_ns < epoch.asked_ns or self._is_beside(iteration)
        return is_begun_again and not is_within and thread is epoch.thread

    def _is_drained(self, iteration: LoaderIteration) -> bool:
        """Return whether all batches of an iteration came and all their steps ended."""
        if not (iteration.is_exhausted or iteration.has_all or iteration.is_left):
            return False
        if self.waiting.of(iteration):
            return False
        return not self._step.claims or self._is_complete

    def _is_claimed(self, iteration: LoaderIteration) -> bool:
        """Return whether a step that isn't reported yet holds a batch of an iteration."""
        steps = _steps_in(self._undecided)
        claims = [*self._step.claims, *self._step.later]
        for step in steps:
            claims += step.claims
        return any(batch.iteration is iteration for batch in chain(*claims))

    def _ask_again(self, iteration: LoaderIteration, thread: Thread, now: int) -> None:
        iteration.end_batch(now)
        if iteration.state == VALIDATING or thread is not (self._thread or thread):
            return
        self._end_step_at_request(iteration, now)
        if iteration.state == READ:
            self._decide(iteration)
        elif self._undecided:
            self._send_undecided()

    def _end_step_at_request(self, iteration: LoaderIteration, now: int) -> None:
        """End the step under way, as the thread that trains asks a loader for the next batch."""
        if self._failed_ns:
            self._lose_batch(iteration, now)
        if self._is_complete and self._trains(iteration):
            self._end_step(now, iteration)

    def _may_train_later(self, iteration: LoaderIteration) -> bool:
        """Return whether batches wait that a thread other than the training one has read."""
        if self._thread is None:
            is_read_ahead = threading.current_thread() is not threading.main_thread()
        else:
            is_read_ahead = iteration.thread is not self._thread
        return is_read_ahead and iteration.is_exhausted and bool(self.waiting.of(iteration))

    def _trains(self, iteration: LoaderIteration) -> bool:
        """Return whether steps hold, or held, batches of an iteration."""
        return iteration.trained > 0 or self._is_claimed(iteration)

    def _lose_batch(self, iteration: LoaderIteration, now: int) -> None:
        """Leave out the batch for which memory ran out, and its time."""
        failed_ns, self._failed_ns = self._failed_ns, 0
        step = self._step
        if self._is_complete:
            return
        lost = [batch for batch in self.waiting.of(iteration) if batch.asked_ns < failed_ns]
        self.waiting.forget(lost[-1:])
        if not lost:
            # The batch went backward before memory ran out.
            step.claims = step.claims[:-1]
        self._report_part(step.last_active_ns)
        iteration.lose_batch()
        begin_ns = max(self._last_end_ns, iteration.opened_ns)
        self._interrupt(Interruption(begin_ns, now))
        if self.epoch is not None:
            self._last_end_ns = now
        self._step.begin_ns = now

    def _interrupt(self, interruption: Interruption) -> None:
        """Take time that belongs to something else out of the step under way."""
        if self.epoch is None and self._loop is None and self._loop_steps:
            self._loop_steps.append(interruption)
        elif self._undecided or (self.epoch is None and self._loop is None):
            self._undecided.append(interruption)
        else:
            self._reporter.send(interruption)

    def _end_iteration(self, iteration: LoaderIteration, now: int, is_next: bool) -> None:
        """End an iteration that has no more batches, unless the script may begin it again."""
        if iteration.state == VALIDATING:
            self._end_validation(iteration, now, whole=True)
            return
        iteration.end_batch(now)
        if iteration.thread is (self._thread or iteration.thread):
            self._end_step_at_request(iteration, now)
        if iteration.state == READ:
            self._decide(iteration)
        if iteration is self.epoch:
            self._send_undecided()
            if len(iteration.skipped_batches) <= MOST_AHEAD:
                # The script always trains on a batch before the one that it holds.
                self.waiting.add(iteration.skipped_batches)
            if self._is_drained(iteration):
                if not (is_next and self._may_begin_again(iteration)):
                    self._end_epoch(now, now)
            elif not self.waiting.batches:
                # The script may go on with batches that it has kept, as `itertools.cycle` does.
                iteration.ends_within_step = True
                self.waiting.look_closely()
        elif self._is_claimed(iteration):
            return
        elif iteration.trained or self._is_beside(iteration):
            self._close(iteration)
        elif iteration.state == READ and not (is_next and self._may_begin_again(iteration)):
            waiting = self.waiting.of(iteration)
            if self._may_train_later(iteration):
                iteration.last_end_ns = now
                return
            if len(waiting) > 1 and all(batch.is_held for batch in waiting):
                # A script may keep all batches and train on them later.
                self._drop(iteration)
            else:
                self._end_without_training(iteration, now, whole=True)

    def _leave(self, iteration: LoaderIteration) -> None:
        """End an iteration that nobody will ask again."""
        now = self._clock()
        if iteration.state == VALIDATING:
            self._end_validation(iteration, now, iteration.has_all)
        elif iteration.state == EPOCH:
            iteration.is_left = True
            if not iteration.is_exhausted:
                self.waiting.forget(self.waiting.of(iteration))
            if self._is_drained(iteration):
                self._end_epoch(now)
        elif iteration.state == READ and not self._may_train_later(iteration):
            iteration.end_batch(now)
            is_claimed = self._is_claimed(iteration)
            self._close(iteration)
            if is_claimed and self._is_complete and not self._validations:
                self._end_step(now, iteration)
            if is_claimed:
                self._decide_over(iteration)
            elif iteration.fetched > 1 and (iteration.trained or self._is_beside(iteration)):
                self.waiting.forget(self.waiting.of(iteration))
            elif iteration.fetched > 1:
                self._end_without_training(iteration, now, iteration.has_all)
        elif iteration.state == NEW:
            iteration.state = OVER

    def _decide_over(self, iteration: LoaderIteration) -> None:
        """Decide on an iteration that is over: with one batch only, its step is of no epoch."""
        if iteration.fetched > 1 or iteration.has_all or self.reports.gave_epochs(iteration):
            self._decide(iteration)
        elif self.epoch is None:
            undecided, self._undecided = self._undecided, []
            for step in undecided:
                if isinstance(step, EndedStep):
                    self._add_to_loop(step)
                elif isinstance(step, Interruption):
                    self._interrupt(step)

    def _close(self, iteration: LoaderIteration) -> None:
        iteration.state = OVER
        if iteration in self._open:
            self._open.remove(iteration)

    def _drop(self, iteration: LoaderIteration) -> None:
        """Stop counting an iteration."""
        self._close(iteration)
        self.waiting.forget(self.waiting.of(iteration))
        self._release()

    def _end_epoch(self, now: int, end_ns: int | None = None) -> None:
        """End the epoch under way.

        Args:
            now: the latest time at which the last step may have ended.
            end_ns: the end of the epoch; None for the end of its last step.
        """
        epoch, step = self.epoch, self._step
        assert epoch is not None
        validations = self._validations_after(epoch)
        if validations:
            now = min(now, validations[0].iteration.begin_ns)
            step.last_active_ns = validations[0].active_ns
        if self._is_complete:
            last_step = self._take_step(min(now, step.last_active_ns + self._longest_tail_ns))
            self._send_undecided()
            self._send(last_step, epoch)
        elif any(batch.iteration is epoch for batch in chain(*step.claims)):
            self._report_part(step.last_active_ns)
        self._send_undecided()
        self.epoch = None
        self.marks.drop()
        self._close(epoch)
        self.waiting.forget(self.waiting.of(epoch))
        end_ns = max(self._last_end_ns, epoch.opened_ns) if end_ns is None else end_ns
        if self.waiting.are_made and epoch.is_exhausted:
            # The script decides how many steps it makes of the batches.
            epoch.trained = max(epoch.trained, epoch.fetched)
        self.reports.end_epoch(epoch, end_ns)
        self.waiting.look_closely()
        for validation in validations:
            self._finish_validation(validation.iteration, validation.end_ns, validation.whole)
        self._release()

    @property
    def _validations(self) -> list[ValidationBetween]:
        """The validations since the last step of the epoch under way."""
        return [v for v in self._undecided if isinstance(v, ValidationBetween)]

    def _validations_after(self, epoch: LoaderIteration) -> list[ValidationBetween]:
        """Take the validations after the last step of an epoch that the script has left.

        If it validated between earlier steps of this epoch, none follows the epoch.
        """
        validations = self._validations
        if epoch.was_interrupted or not validations:
            return []
        self._undecided = [step for step in self._undecided if step not in validations]
        return validations

    def _release(self) -> None:
        """Let another framework's hooks report, if nothing is read or trained here any more."""
        if self.epoch is None and self._loop is None and not self._open:
            self.reports.release()

    # Validation.

    def _validate(self, iteration: LoaderIteration) -> None:
        if not self.reports.claim(yields=self._loop is not None):
            self._drop(iteration)
            return
        iteration.state, self._validating = VALIDATING, iteration
        self.waiting.forget(self.waiting.of(iteration))
        self.reports.validate(iteration)

    def _end_turn(self, now: int) -> None:
        """End parts of validations when training goes on: they may come batch by batch."""
        self._validating = None
        for iteration in tuple(self._open) if self._is_within() else ():
            if iteration.state == VALIDATING:
                iteration.end_batch(now)
                self._close(iteration)
                self._finish_validation(iteration, now, whole=False)
                iteration.state = NEW

    def _evaluated(self, network: Any) -> None:
        """Note the first call of a network in a validation.

        It tells whether the network is in training mode and how many batches were read ahead.
        """
        self.outermost.evaluated = None
        iteration = self._open[-1] if self._open else None
        if iteration is None or iteration.state not in (VALIDATING, READ):
            return
        if iteration.state == READ and iteration.thread is not (self._thread or iteration.thread):
            if self.thread() is self._thread:
                iteration.call(self._clock())
            self.outermost.evaluated = self._evaluated
            return
        iteration.fetched_at_call = iteration.fetched
        if iteration.state == READ:
            return
        self._was_in_eval_mode |= not network.training
        if network.training and (self._was_in_eval_mode or keeps_statistics(network)):
            iteration.is_in_training_mode = True
            self._reporter.send(Pause(iteration.begin_ns, SCRIPT_PHASE))
        self.waiting.rest()

    def _end_validation(self, iteration: LoaderIteration, now: int, whole: bool) -> None:
        """End a validation; if it was read ahead, its last batches still compute."""
        iteration.end_batch(now)
        self._close(iteration)
        self._validating = None
        self._finish_in_time(iteration, now, whole)

    def _finish_in_time(self, iteration: LoaderIteration, now: int, whole: bool) -> None:
        ahead = (iteration.fetched_at_call or 1) - 1
        if whole and ahead > 0 and not self._is_within():
            self._unsettled = iteration, now + ahead * iteration.longest_ns
        else:
            self._finish_validation(iteration, now, whole)

    def _settle(self, now: int) -> None:
        """End a validation that was read ahead when something else begins."""
        iteration = self._open[-1] if self._open else None
        if iteration is not None and self._was_evaluated(iteration):
            latest_ns = iteration.called_ns + iteration.longest_call_ns
            # The script waits until the other thread has seen the end of the loader.
            iteration.last_end_ns = max(iteration.last_end_ns, min(now, latest_ns))
            self._end_without_training(iteration, iteration.last_end_ns, whole=True)
        if self._unsettled is not None:
            (iteration, latest_ns), self._unsettled = self._unsettled, None
            iteration.last_end_ns = end_ns = min(now, latest_ns)
            self._finish_validation(iteration, end_ns, whole=True)

    def _was_evaluated(self, iteration: LoaderIteration) -> bool:
        """Return whether the network was evaluated on all that another thread has read.

        The script may still hold the last batch of a validation, and `enumerate` another one. If
        all epochs so far were of other loaders, it may hold any.
        """
        if iteration.state != READ or not (iteration.is_exhausted and iteration.fetched > 1):
            return False
        waiting = self.waiting.of(iteration)
        are_gone = all(batch.is_held is False for batch in waiting[:-2] or waiting[:1])
        are_gone |= self.reports.trained_on_others(iteration)
        return len(waiting) == iteration.fetched <= iteration.calls and are_gone

    def _split_epoch(self, epoch: LoaderIteration, now: int) -> None:
        """End an epoch with its validation, though its loaders go on: they tell no epochs."""
        self._end_epoch(now)
        self.reports.remember(epoch.split(now))
        self._open.append(epoch)

    def _is_within(self) -> bool:
        """Return whether a step, an epoch or a loop is under way."""
        if self.epoch is not None or self._loop is not None:
            return True
        return bool(self._step.claims or self._undecided or self._loop_steps)

    def _is_beside_validation(self, iteration: LoaderIteration) -> bool:
        """Return whether the script read an iteration beside the validation that ended last."""
        last = self._validated
        was_open = last.opened_ns <= iteration.opened_ns < last.last_end_ns
        return was_open and last is not iteration

    def _finish_validation(self, iteration: LoaderIteration, end_ns: int, whole: bool) -> None:
        if self._is_beside_validation(iteration):
            return
        self._validated = iteration
        if not self._is_within():
            if iteration.is_in_training_mode:
                self._reporter.send(Pause(end_ns, SCRIPT_PHASE))
            else:
                self.reports.validated(iteration, end_ns, whole)
            self._release()
            return
        step, epoch = self._step, self.epoch
        between = ValidationBetween(iteration, end_ns, whole, step.last_active_ns)
        if step.updates or step.backwards:
            step.last_active_ns = end_ns
        if epoch is not None and self._is_complete and not self.waiting.of(epoch):
            # If the script leaves the epoch next, this validation follows it.
            self._undecided.append(between)
        else:
            self._interrupt(between.interruption)
        if epoch is not None or self._loop is not None:
            self._reporter.enter("training", end_ns)
        else:
            self._reporter.send(Pause(end_ns, SCRIPT_PHASE))

    def _end_without_training(self, iteration: LoaderIteration, now: int, whole: bool) -> None:
        """End an iteration that nothing trained on: a validation, or a look at the data."""
        self._close(iteration)
        self.waiting.forget(self.waiting.of(iteration))
        is_validation = whole or (self._is_within() and iteration.ended > 1)
        is_validation &= iteration.ended > 0 and not self._is_beside_validation(iteration)
        if is_validation and self.reports.claim(yields=self._loop is not None):
            self.reports.validate(iteration)
            self._finish_in_time(iteration, now, whole)
        else:
            self._release()

    def _done(self) -> None:
        self._is_busy = False
        while self._dropped:
            self._leave(self._dropped.popleft())


def _steps_in(events: Iterable[Any]) -> list[EndedStep]:
    return [event for event in events if isinstance(event, EndedStep)]


def keeps_statistics(network: Any) -> bool:
    """Return whether a network has layers whose statistics change in training mode."""
    return any(
        getattr(module, "track_running_stats", False) is True for module in network.modules()
    )


def _of_each(counts: Iterable[int | None]) -> Any:
    """Return the counts of several batches, the count of a single one, or None of none."""
    of_batches = tuple(counts)
    return of_batches if len(of_batches) > 1 else of_batches[0] if of_batches else None
