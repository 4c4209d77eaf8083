"""Count the steps of a training loop, and what each of them trained on.

A step ends with the step of an optimizer, or with `backward` where a script changes its weights
itself. It holds the batches that went backward for it, whoever fetched them. Loaders say how long
the script waited, and where epochs begin and end. docs/epochs.md has these rules for people:

- A batch that a loader gave waits until something goes backward, or an optimizer steps. Each
  `backward` takes the batches that went into it: usually the one that waits. Of several it takes
  as many as the calls of the network tell, the oldest first; what the script has dropped was
  skipped, and never counts.
- A step lasts until its thread asks a loader for the next batch. Where none is read, or another
  thread reads, it lasts until its optimizer has stepped. The last step of an epoch that was read
  ahead ends with what comes next, but soon: no later than other steps were followed by a request.
- An iteration over a loader is an epoch if it is asked for more after a step that held its batch,
  or has no more then. Of loaders that are read for one step, the one that is asked first for the
  next step is meant, and the waits for all add up.
- An iteration that ends without a step validates. Left after a batch that no step follows within
  it, as `next(iter(loader))`, it gave one batch, and no epoch.
- Steps of no epoch make a loop without epochs, from the second step on.
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

# Gradients may be added up for longer than this: then batches are reported before their step.
LONG_STEP_NS = 2_000_000_000

# So many steps with batches of another iteration, and none of the epoch's: the epoch was left.
TAKES_OVER = 16

# So often may `backward` be called outside of any iteration, and be no loop of steps.
FEW_BACKWARDS = 8

# So many batches may be fetched ahead by a loop that holds no more of the one that it trains on.
MOST_AHEAD = 2

IN_TURN = "its steps take the batches of several loaders in turn"
OWN_BATCHES = "the script makes its batches itself of what its loader gives"

_new = tuple.__new__


class Thread:
    """What one thread does at the moment."""

    def __init__(self) -> None:
        self.stepping: int | None = None
        """The optimizer that steps, by its id; those that it calls don't count beside it."""
        self.has_claimed = False
        """Whether the step under way took batches: an optimizer may go backward several times."""
        self.is_inside = False
        """Whether a loader is at work: what it reads itself is none of the script's iterations."""


class _Threads(threading.local):
    """Gives each thread a `Thread` of its own."""

    def __init__(self) -> None:
        self.thread = Thread()


class Step:
    """What has happened since the last step ended."""

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
        # Outside of epochs: when its optimizer, or `backward`, was first called.
        self.began_ns = 0
        # The batches of each `backward`; and those that came after an optimizer stepped.
        self.claims = claims
        self.later: list[list[FetchedBatch]] = []
        self.backwards = len(claims)
        self.updates = 0
        self.stepped: tuple[int, ...] = ()
        """The optimizers that stepped, by their ids."""
        self.next_ns = 0
        """When the network was called first after an optimizer stepped last."""


class EndedStep(NamedTuple):
    """A step that has ended, and is not known to be of an epoch.

    Attributes:
        end_ns: when the next batch was asked for, or the like.
        active_ns: when its optimizer had stepped.
        began_ns: outside of epochs, when its optimizer, or `backward`, was first called.
        claims: the batches that it took.
        updates: steps of optimizers; None where the script changes its weights itself.
        lead: the iteration whose batches count; None where no loader gave any.
    """

    end_ns: int
    active_ns: int
    began_ns: int
    claims: list[list[FetchedBatch]]
    updates: int | None
    lead: LoaderIteration | None


class StepCounter:
    """Makes steps, epochs and validations of what the hooks see.

    Args:
        reports: reports them.
        in_worker: says whether this process only loads data.
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
        # Of a script that drops an iterator, Python may say so in the middle of a hook.
        self._is_busy = False
        self._dropped: deque[LoaderIteration] = deque()
        self._forget()
        os.register_at_fork(after_in_child=self._leave_parent)

    def _forget(self) -> None:
        self._step = Step(0, [])
        self.waiting = WaitingBatches(self.outermost, self._clock)
        self._open: list[LoaderIteration] = []
        self.epoch: LoaderIteration | None = None
        """The iteration that makes the epoch under way."""
        # The loop without epochs that is under way, and its steps until it is known to be one.
        self._loop: LoaderIteration | None = None
        self._loop_steps: list[EndedStep | Interruption] = []
        self._loop_claims: list[list[FetchedBatch]] = []
        self._tokens_at_first: int | None = None
        self._loop_optimizer: Callable[[], Any] | None = None
        # Loaders that were read beside another one; a script begins them again within its batches.
        self._beside: deque[Callable[[], Any]] = deque(maxlen=8)
        # Steps that may be of an epoch, and what interrupted them.
        self._undecided: list[EndedStep | Interruption] = []
        self._thread: Thread | None = None
        """The thread that trains."""
        self._last_end_ns = self._longest_tail_ns = 0
        self._failed_ns = 0
        self._was_in_eval_mode = False
        self._validating: LoaderIteration | None = None
        """The validation under way."""
        # One whose last batches are still under way, as it is read ahead, and when it is over.
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

    # What the hooks call.

    def thread(self) -> Thread:
        return self._local.thread

    def new(self, loader: Loader, created: int, source: Callable[[], Any]) -> LoaderIteration:
        """Return an iteration over a loader that a script began then; `source` is the loader."""
        iteration = LoaderIteration(loader, created, source)
        iteration.made_ns = self._clock()
        if loader.is_collated and self.reports.is_known_to_leave_out(iteration):
            iteration.loader = loader.leaving_out()
        return iteration

    def fetch(self, iteration: LoaderIteration, with_gradients: bool = True) -> None:
        """Note that a script asks for a batch."""
        thread = self._local.thread
        # A step may have raised.
        thread.stepping = None
        now = iteration.asked_ns = self._clock()
        if iteration.state == EPOCH and thread is self._thread and not self._failed_ns:
            # As nearly always.
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
                # It is fetched ahead: the step of the one that waits has waited for it.
                ahead[0].wait_ns = (ahead[0].wait_ns or 0) + wait_ns
                wait_ns = 0
            waiting.batches.append(FetchedBatch(iteration, size, tokens, wait_ns, asked_ns, batch))
            if iteration.sizes.are_fewer and iteration.loader.inferred is None:
                self.reports.leaves_out(iteration)

    def look_within(self, batch: Any) -> None:
        """Look at a batch that another loader hands on, where that one trains."""
        if self.thread().is_inside and self.epoch is not None:
            self.reports.look_at_tokens(batch)

    def exhausted(self, iteration: LoaderIteration) -> None:
        """Note that a loader has no more."""
        self._is_busy = True
        iteration.is_exhausted = True
        now = self._clock()
        if iteration.state in (READ, EPOCH, VALIDATING):
            self._end_iteration(iteration, now)
        else:
            iteration.state = OVER
        if self.marks.is_on and iteration.thread is self.marks.thread:
            self.marks.enter(BEFORE)
        self._done()

    def abandoned(self, iteration: LoaderIteration) -> None:
        """Note that nobody will ask it again."""
        if self._is_busy:
            self._dropped.append(iteration)
        else:
            self._leave(iteration)

    def step_began(self, optimizer: Any, has_closure: bool = False) -> None:
        thread, number = self._local.thread, id(optimizer)
        if thread.stepping is not None and thread.stepping != number:
            return
        thread.stepping, thread.has_claimed = number, False
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
        """Note that an optimizer steps where no loader says where the step before ended."""
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
        """Note that it stepped; one that another one calls does not count beside it."""
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
            # Nothing was seen to go backward.
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
        """Note that the batch under way has failed, unless something trains on it after all."""
        self._failed_ns = self._clock()
        self.outermost.failed()

    def goes_backward(self, loss: Any) -> None:
        """Look what a loss was computed with, where that is not clear."""
        if self.outermost.looks_back:
            self.outermost.went_backward(loss)
        if len(self.waiting.batches) > 1:
            self.waiting.goes_backward(loss)

    def went_backward(self, tensors: Any, began: int) -> None:
        """Note that something went backward: the batches that wait are trained on.

        Args:
            tensors: what it was called on, or a tensor that it returned.
            began: when it began.
        """
        if began <= self._failed_ns:
            # It ran out of memory itself.
            return
        self._failed_ns = 0
        thread = self._local.thread
        if thread.stepping is not None:
            if thread.has_claimed:
                return
            thread.has_claimed = True
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

    def _go_backward_outside(self, tensors: Any, began: int, by_hand: bool) -> None:
        """Note what goes backward where no epoch is under way, or where that is the step."""
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

    # What knows more than the hooks do.

    def limit(self, steps: int | None) -> None:
        """Say how many batches the iteration that begins will have, where its loader has more."""
        self._limit = steps

    def validates(self) -> None:
        """Say that the iteration that was begun last validates, though gradients are on."""
        iteration = self._open[-1] if self._open else None
        if iteration is not None and iteration.state == READ and not self._is_claimed(iteration):
            self._validate(iteration)

    def validated(self) -> None:
        """Say that validation is over, whether its loader was asked to the end or not."""
        iteration = self._open[-1] if self._open else None
        if iteration is not None and iteration.state == VALIDATING:
            self._leave(iteration)

    def fit_ended(self) -> None:
        """End the epoch under way; what was known of the fit is not known of what follows."""
        self._settle(self._clock())
        self._end_training()
        self.reports.expect()
        self.reports.no_more_validations()

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        """Add metrics to the epoch under way, or to the one that ended last."""
        current = self.epoch
        if current is None:
            kept = [step.lead for step in _steps_in(self._undecided)]
            claimed = [batch.iteration for batch in chain(*self._step.claims)]
            leads = [lead for lead in [*kept, *claimed] if lead is not None and lead.state != OVER]
            current = leads[0] if leads else None
        self.reports.add_metrics(metrics, current)

    # What a step takes.

    def _claim(self, all_that_wait: bool = False) -> None:
        """Give the step the batches that were trained on."""
        step, waiting = self._step, self.waiting
        batches = waiting.batches
        if waiting.is_usual and len(batches) == 1 and batches[0].iteration is self.epoch:
            # As nearly always.
            (step.later if step.updates else step.claims).append([batches.popleft()])
            return
        were_made = waiting.are_made
        given = [batch for batch in chain(*step.claims) if batch.iteration is not NO_ITERATION]
        is_alone = self.epoch is None and not given
        claim = waiting.claim(self._thread, is_alone, all_that_wait)
        if waiting.are_made and not were_made and self.epoch is not None:
            self.reports.say_that_batches_are_made(OWN_BATCHES)
        claims = step.later if step.updates else step.claims
        if claim and claims and is_alone and claim[0].iteration is NO_ITERATION:
            # Without a loader, what a step takes is one batch.
            claims[-1] = [joined([*claims[-1], *claim])]
        elif claim:
            claims.append(claim)

    def _give_back(self, step: Step) -> None:
        """Let batches wait that were there before another optimizer stepped.

        This one trains on what that one did, as in a generative adversarial network.
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
        """Note that the network is called for what may be the next step."""
        if self._validating is not None:
            self._end_turn(self._clock())
        step = self._step
        if not step.next_ns and (
            step.updates or (step.backwards and not self.reports.has_optimizers)
        ):
            step.next_ns = self._clock()

    # Where a step ends, and what it is of.

    @property
    def _is_complete(self) -> bool:
        step = self._step
        return step.updates > 0 or (step.backwards > 0 and not self.reports.has_optimizers)

    def _is_bounded(self) -> bool:
        """Return whether the step has a batch of an iteration that may be asked again."""
        claimed = [batch.iteration for batch in chain(*self._step.claims)]
        return any(
            one.state == READ and not one.is_exhausted and one.thread is self._thread
            for one in claimed
        )

    def _end_step_between(self, part: str, end_ns: int) -> None:
        """End a step that no request for a batch follows; a part of the next one has begun."""
        now = self._clock()
        if now >= self.marks.due_ns and (self.epoch or self._loop) is not None:
            self.marks.begin_batch(True, now, part, self._thread)
        self._end_step(end_ns, keeps_later=True)

    def _end_step(
        self, end_ns: int, asked: LoaderIteration | None = None, keeps_later: bool = False
    ) -> None:
        """End the step under way.

        Args:
            end_ns: when.
            asked: the iteration that is asked for the next one.
            keeps_later: what was claimed after the optimizer stepped is the next step's.
        """
        self._sort(self._take_step(end_ns, keeps_later), asked)

    def _end_usual_step(self, end_ns: int, epoch: LoaderIteration, batch: FetchedBatch) -> None:
        """End a step of an epoch that took one batch, as nearly always, in the least time."""
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
        """Return the step under way as one that ends, and begin the next one."""
        step = self._step
        claims = step.claims
        if keeps_later:
            self._step = Step(end_ns, step.later)
        else:
            claims += step.later
            self._step = Step(end_ns, [])
        updates: int | None = step.updates
        if not updates and not self.reports.has_optimizers:
            # What steps is none of PyTorch's optimizers.
            updates = None
        if (tail_ns := end_ns - step.last_active_ns) > self._longest_tail_ns:
            self._longest_tail_ns = tail_ns
        return _new(EndedStep, (end_ns, step.last_active_ns, step.began_ns, claims, updates, None))

    def _report_part(self, end_ns: int) -> None:
        """Report the batches of a step under way, before it ends."""
        step = self._step
        if self.epoch is not None and step.claims:
            updates = 0 if self.reports.has_optimizers or step.updates else None
            part = EndedStep(end_ns, end_ns, 0, step.claims, updates, self.epoch)
            self._step = Step(end_ns, [])
            self._send_undecided()
            self._send(part, self.epoch)

    def _sort(self, step: EndedStep, asked: LoaderIteration | None) -> None:
        """Report a step as one of the epoch, or keep it until it is known what it is of."""
        claimed = [batch.iteration for batch in chain(*step.claims)]
        iterations = [iteration for iteration in claimed if iteration is not NO_ITERATION]
        epoch = self.epoch
        if epoch is not None and (epoch in iterations or not iterations):
            self._send_undecided()
            self._send(step, epoch)
            return
        if not iterations:
            self._add_to_loop(step)
            return
        lead = asked if asked in iterations else self._lead_of(iterations)
        step = step._replace(lead=lead)
        if epoch is not None and epoch.thread is not self._thread and self._is_drained(epoch):
            # Another thread has read on.
            self._end_epoch(self._last_end_ns)
        gave_one = lead.state == OVER and lead.fetched == 1 and not lead.has_all
        if self.epoch is None and gave_one and not self.reports.gave_epochs(lead):
            self._add_to_loop(step)
            return
        self._undecided.append(step)
        if lead.state == OVER or lead.is_exhausted or lead is asked or lead.fetched > 1:
            self._decide(lead)

    def _lead_of(self, iterations: list[LoaderIteration]) -> LoaderIteration:
        """Return whose batches count, of iterations none of which is asked for the next step."""
        alone = [iteration for iteration in iterations if not self._is_beside(iteration)]
        alone = alone or iterations
        return next((iteration for iteration in alone if iteration.state != OVER), alone[0])

    def _decide(self, iteration: LoaderIteration) -> None:
        """Take an iteration that is asked for more, or has no more, as an epoch if it trains."""
        steps = _steps_in(self._undecided)
        own = [step for step in steps if step.lead is iteration]
        if not own:
            return
        if self.epoch is None:
            self._begin_epoch(iteration)
            return
        is_whole = iteration.is_exhausted and not iteration.trained
        if len(own) == len(steps) and (is_whole or len(own) >= TAKES_OVER):
            # It is read within a batch of the epoch under way, or that was left.
            left, kept, self._undecided = self.epoch, self._undecided, []
            self._end_epoch(self._last_end_ns)
            left.state = READ
            self._open.append(left)
            self.reports.losses.begin_epoch(is_known=False)
            self._undecided = kept
            self._begin_epoch(iteration)

    def _begin_epoch(self, iteration: LoaderIteration) -> None:
        """Begin an epoch, and send what was kept of it."""
        self._end_loop()
        if not self.reports.claim():
            self._undecided.clear()
            self._drop(iteration)
            return
        steps = _steps_in(self._undecided)
        begin_ns = min(step.lead.begin_ns for step in steps if step.lead is not None)
        # It may have been read while the epoch before was trained on.
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
        kept, self._undecided = self._undecided, []
        for step in kept:
            if isinstance(step, Interruption):
                self._reporter.send(step)
            elif self.epoch is not None:
                self._send(step, self.epoch)

    def _send(self, step: EndedStep, lead: LoaderIteration, end_ns: int | None = None) -> None:
        """Report a step of an epoch, or of a loop without epochs: batches that ended together."""
        sizes: list[int | None] = []
        tokens: list[int | None] = []
        waits: list[int | None] = []
        for claim in step.claims:
            iterations = [batch.iteration for batch in claim]
            counted = lead if lead in iterations else step.lead
            counted = counted if counted in iterations else iterations[0]
            assert counted is not None
            for batch in claim:
                if batch.iteration is counted:
                    if lead is self.epoch and counted is not lead:
                        self._note_turn(lead)
                    sizes.append(batch.size)
                    tokens.append(batch.tokens)
                    waits.append(batch.wait_ns)
                    counted.trained += 1
                elif batch.asked_ns >= counted.created_ns or batch.iteration.state != OVER:
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
        """Say once that no loader says how long an epoch of several loaders in turn is."""
        if not self.waiting.are_made and not epoch.is_one_of_several:
            epoch.is_one_of_several = True
            self.reports.say_that_lengths_differ(epoch.loader, IN_TURN)

    def _note_beside(self, iteration: LoaderIteration) -> None:
        """Remember that a loader is read beside another one."""
        if not self._is_beside(iteration):
            self._beside.append(iteration.source)

    def _is_beside(self, iteration: LoaderIteration) -> bool:
        source = iteration.source()
        return any(other() is source for other in self._beside)

    # Loops without epochs.

    def _trained_outside(self) -> None:
        """Count what goes into the network from a loop's first step on, if no loader gives it."""
        step, outermost = self._step, self.outermost
        self._reporter.reads.stepped_ns = step.last_active_ns
        made = list(chain(*step.claims))
        if self._loop is not None or any(batch.iteration is not NO_ITERATION for batch in made):
            return
        kept = _steps_in(self._loop_steps)
        if (not kept and not made) or not outermost.is_watching:
            outermost.watch(self.reports.stepped_by() if step.updates else None)
        if len(kept) == 1 and made and outermost.looks_back:
            self._tokens_at_first = outermost.took_at_first(made[0].tokens)

    def _add_to_loop(self, step: EndedStep) -> None:
        """Take a step of no epoch: from the second one on, they are a loop."""
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
        """Begin a loop without epochs, with the steps that were kept of it."""
        kept, self._loop_steps = self._loop_steps, []
        if not self.reports.claim(yields=True):
            return
        steps = _steps_in(kept)
        first, lead = steps[0], steps[min(1, len(steps) - 1)].lead
        begin_ns = first.began_ns or first.active_ns
        loader = NO_LOADER if lead is None else lead.loader.without_passes()
        self._loop = LoaderIteration(loader, begin_ns)
        self._loop.counter = self.outermost.counter if lead is None else lead.counter
        self._loop_optimizer = None if first.updates is None else self.reports.stepped_by
        self._loop_claims = []
        self.reports.begin_epoch(self._loop, begin_ns, has_epochs=False)
        for step in kept:
            if isinstance(step, Interruption):
                self._reporter.send(step)
                continue
            is_made = any(batch.iteration is NO_ITERATION for batch in chain(*step.claims))
            if step is first and not is_made and (lead is None or step.lead is None):
                # What was taken before the first step may only have been looked at.
                first_batch = FetchedBatch(NO_ITERATION, None, self._tokens_at_first, None, 0)
                step = step._replace(claims=[[first_batch]], lead=None)
            self._send_of_loop(step, is_first=step.end_ns == first.end_ns)

    def _send_of_loop(self, step: EndedStep, is_first: bool = False) -> None:
        """Report a step of a loop without epochs: it ends as its optimizer has stepped.

        One that takes no batch of a loop that takes batches of a loader trains on the last ones.
        """
        assert self._loop is not None
        claims = step.claims
        if self._loop.loader is not NO_LOADER:
            if claims:
                self._loop_claims = claims
            for batch in chain(*(claims or self._loop_claims)):
                # To begin an iterator may take longer than to fetch from it: workers start.
                opening_ns = batch.iteration.opened_ns - batch.iteration.begin_ns
                is_now = bool(claims) and not is_first and batch.wait_ns is not None
                batch.wait_ns = (batch.wait_ns or 0) + opening_ns if is_now else 0
            step = step._replace(claims=claims or self._loop_claims)
        self._send(step, step.lead or NO_ITERATION, step.active_ns)

    def _end_loop(self) -> None:
        """End the loop without epochs that is under way, where one is."""
        if self._loop is not None and self._is_complete:
            self._end_step(self._step.last_active_ns)
        elif any(step.lead for step in _steps_in(self._loop_steps)):
            # One step that took a batch of a loader.
            self._begin_loop()
        loop, self._loop, self._loop_steps = self._loop, None, []
        if loop is not None:
            self.marks.drop()
            self.reports.end_epoch(loop, self._last_end_ns)
            self._release()

    def _end_training(self) -> None:
        """End the epoch, or the loop without epochs, that is under way."""
        now = self._clock()
        if self.epoch is None and self._is_complete and self._loop is None:
            self._end_step(now)
        if self.epoch is not None:
            self._end_epoch(now)
        self._end_loop()
        self._undecided.clear()

    # Where an iteration begins and ends.

    def _begin(
        self, iteration: LoaderIteration, thread: Thread, now: int, with_gradients: bool
    ) -> None:
        reports = self.reports
        is_ours = self._reporter.may_take(reports.owner) and not self._in_worker()
        # Another thread may evaluate meanwhile; with gradients, it may read what is trained on.
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
        if with_gradients and self._limit is not None:
            iteration.loader, self._limit = iteration.loader.limited(self._limit), None
        if self.epoch is None:
            self.outermost.looks_back = False
            if self._loop is None and not self._undecided and not self._step.claims:
                reports.losses.begin_epoch()
        self._open.append(iteration)
        self.outermost.evaluated = self._evaluated
        self.outermost.wake()
        self._drop_what_was_begun_in_vain(iteration)
        if not with_gradients:
            self._validate(iteration)

    def _drop_what_was_begun_in_vain(self, iteration: LoaderIteration) -> None:
        """Drop what another thread began to read of the same loader, and nobody trained on."""
        source = iteration.source()
        for other in tuple(self._open[:-1]) if source is not None else ():
            is_vain = other.state == READ and not (other.trained or other.is_exhausted)
            if is_vain and other.thread is not iteration.thread and other.source() is source:
                self._drop(other)

    def _is_left(
        self,
        epoch: LoaderIteration,
        iteration: LoaderIteration,
        thread: Thread,
        with_gradients: bool,
    ) -> bool:
        """Return whether the epoch is over, now that another iteration begins.

        Lightning and transformers ask for as many batches as there are, and not once more. A loop
        may look in its midst, without gradients, how good it is at what it trains on.
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
        """Return whether all batches of an iteration came, and all steps with them are over."""
        if not (iteration.is_exhausted or iteration.has_all or iteration.is_left):
            return False
        if self.waiting.of(iteration):
            return False
        return not self._step.claims or self._is_complete

    def _is_claimed(self, iteration: LoaderIteration) -> bool:
        """Return whether a step that is not reported holds a batch of an iteration."""
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
        """Return whether batches wait of what another thread than the one that trains has read."""
        if self._thread is None:
            is_read_ahead = threading.current_thread() is not threading.main_thread()
        else:
            is_read_ahead = iteration.thread is not self._thread
        return is_read_ahead and iteration.is_exhausted and bool(self.waiting.of(iteration))

    def _trains(self, iteration: LoaderIteration) -> bool:
        """Return whether steps hold, or held, batches of an iteration."""
        return iteration.trained > 0 or self._is_claimed(iteration)

    def _lose_batch(self, iteration: LoaderIteration, now: int) -> None:
        """Leave out the batch that ran out of memory, and the time that it took."""
        failed_ns, self._failed_ns = self._failed_ns, 0
        step = self._step
        if self._is_complete:
            return
        lost = [batch for batch in self.waiting.of(iteration) if batch.asked_ns < failed_ns]
        self.waiting.forget(lost[-1:])
        if not lost:
            # It went backward before.
            step.claims = step.claims[:-1]
        self._report_part(step.last_active_ns)
        iteration.lose_batch()
        begin_ns = max(self._last_end_ns, iteration.opened_ns)
        self._interrupt(Interruption(begin_ns, now))
        if self.epoch is not None:
            self._last_end_ns = now
        self._step.begin_ns = now

    def _interrupt(self, interruption: Interruption) -> None:
        """Take time of the step under way that is none of it."""
        if self.epoch is None and self._loop is None and self._loop_steps:
            self._loop_steps.append(interruption)
        elif self._undecided or (self.epoch is None and self._loop is None):
            self._undecided.append(interruption)
        else:
            self._reporter.send(interruption)

    def _end_iteration(self, iteration: LoaderIteration, now: int) -> None:
        """End an iteration that has no more batches."""
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
                # Or what was trained on is always the one before the one that is held.
                self.waiting.add(iteration.skipped_batches)
            if self._is_drained(iteration):
                self._end_epoch(now, now)
        elif self._is_claimed(iteration):
            return
        elif iteration.trained or self._is_beside(iteration):
            self._close(iteration)
        elif iteration.state == READ:
            waiting = self.waiting.of(iteration)
            if self._may_train_later(iteration):
                return
            if len(waiting) > 1 and all(batch.is_held for batch in waiting):
                # A script may keep all batches, and train on them later.
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
            if is_claimed and self._is_complete:
                self._end_step(now, iteration)
            if is_claimed:
                self._decide_over(iteration)
            elif iteration.fetched > 1 and (iteration.trained or self._is_beside(iteration)):
                self.waiting.forget(self.waiting.of(iteration))
            elif iteration.fetched > 1:
                self._end_without_training(iteration, now, whole=False)
        elif iteration.state == NEW:
            iteration.state = OVER

    def _decide_over(self, iteration: LoaderIteration) -> None:
        """Take what is known of an iteration that gave one batch as a step of no epoch."""
        if iteration.fetched > 1 or iteration.has_all or self.reports.gave_epochs(iteration):
            self._decide(iteration)
        elif self.epoch is None:
            kept, self._undecided = self._undecided, []
            for step in kept:
                if isinstance(step, Interruption):
                    self._interrupt(step)
                else:
                    self._add_to_loop(step)

    def _close(self, iteration: LoaderIteration) -> None:
        iteration.state = OVER
        if iteration in self._open:
            self._open.remove(iteration)

    def _drop(self, iteration: LoaderIteration) -> None:
        """Count an iteration no more."""
        self._close(iteration)
        self.waiting.forget(self.waiting.of(iteration))
        self._release()

    def _end_epoch(self, now: int, end_ns: int | None = None) -> None:
        """End the epoch under way.

        Args:
            now: when the next thing began; the last step ended no later.
            end_ns: when the epoch ended; None for the end of its last step.
        """
        epoch, step = self.epoch, self._step
        assert epoch is not None
        if self._is_complete:
            ended = self._take_step(min(now, step.last_active_ns + self._longest_tail_ns))
            self._send_undecided()
            self._send(ended, epoch)
        elif any(batch.iteration is epoch for batch in chain(*step.claims)):
            self._report_part(step.last_active_ns)
        self._send_undecided()
        self.epoch = None
        self.marks.drop()
        self._close(epoch)
        self.waiting.forget(self.waiting.of(epoch))
        end_ns = max(self._last_end_ns, epoch.opened_ns) if end_ns is None else end_ns
        if self.waiting.are_made and epoch.is_exhausted:
            # How many steps it gives is up to the script.
            epoch.trained = max(epoch.trained, epoch.fetched)
        self.reports.end_epoch(epoch, end_ns)
        self.waiting.look_closely()
        self._release()

    def _release(self) -> None:
        """Let others count, if nothing is read or trained any more."""
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
        """End what a validation did so far, as training goes on: it may give single batches."""
        iteration, self._validating = self._validating, None
        if iteration is not None and iteration.state == VALIDATING and self._is_within():
            iteration.end_batch(now)
            self._close(iteration)
            self._finish_validation(iteration, now, whole=False)
            iteration.state = NEW

    def _evaluated(self, network: Any) -> None:
        """Take the first call of a network in a validation: is it one, and is it read ahead?"""
        self.outermost.evaluated = None
        iteration = self._open[-1] if self._open else None
        if iteration is None or iteration.state not in (VALIDATING, READ):
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
        """End a validation; of one that is read ahead, the last batches are still under way."""
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
        """End a validation that was read ahead, now that something else begins."""
        if self._unsettled is not None:
            (iteration, latest_ns), self._unsettled = self._unsettled, None
            iteration.last_end_ns = end_ns = min(now, latest_ns)
            self._finish_validation(iteration, end_ns, whole=True)

    def _is_within(self) -> bool:
        """Return whether what ends was within a step, or between the steps of a loop."""
        if self.epoch is not None or self._loop is not None:
            return True
        return bool(self._step.claims or self._undecided or self._loop_steps)

    def _finish_validation(self, iteration: LoaderIteration, end_ns: int, whole: bool) -> None:
        if not self._is_within():
            if iteration.is_in_training_mode:
                self._reporter.send(Pause(end_ns, SCRIPT_PHASE))
            else:
                self.reports.validated(iteration, end_ns, whole)
            self._release()
            return
        if self._step.updates or self._step.backwards:
            self._step.last_active_ns = end_ns
        self._interrupt(Interruption(iteration.begin_ns, end_ns))
        if self.epoch is not None or self._loop is not None:
            self._reporter.enter("training", end_ns)
        else:
            self._reporter.send(Pause(end_ns, SCRIPT_PHASE))

    def _end_without_training(self, iteration: LoaderIteration, now: int, whole: bool) -> None:
        """Take an iteration that nothing trained on as a validation, or as a look at data."""
        self._close(iteration)
        self.waiting.forget(self.waiting.of(iteration))
        is_validation = whole or (self._is_within() and iteration.ended > 1)
        if is_validation and iteration.ended and self.reports.claim(yields=self._loop is not None):
            self.reports.validate(iteration)
            self._finish_in_time(iteration, now, whole)
        else:
            self._release()

    def _done(self) -> None:
        self._is_busy = False
        while self._dropped:
            self._leave(self._dropped.popleft())


def _steps_in(kept: Iterable[EndedStep | Interruption]) -> list[EndedStep]:
    return [step for step in kept if isinstance(step, EndedStep)]


def keeps_statistics(network: Any) -> bool:
    """Return whether a network has layers whose statistics change in training mode."""
    return any(
        getattr(module, "track_running_stats", False) is True for module in network.modules()
    )


def _of_each(counts: Iterable[int | None]) -> Any:
    """Return counts of batches, or that of one; None where there is none."""
    known = tuple(counts)
    return known if len(known) > 1 else known[0] if known else None
