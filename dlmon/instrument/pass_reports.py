"""Passes over loaders, reported as what they are: epochs and their batches, or validations."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from dlmon.instrument import flop_count
from dlmon.instrument.loaders import Loader, Sizes
from dlmon.instrument.losses import LOSS, EpochLoss, Losses
from dlmon.instrument.queued import (
    LEAST_NAMED_NS,
    EpochChanged,
    EpochEnd,
    EpochOpened,
    EpochStart,
    Interruption,
    MeasuredBatch,
    Pause,
)
from dlmon.instrument.reporter import Reporter
from dlmon.instrument.step_parts import StepMarks
from dlmon.instrument.tokens import Tokens, shares_of
from dlmon.records import SCRIPT_PHASE, Evaluation, Validation, finite

OWNER = "torch"
_FLOPS = "flops_per_sample"
EVALUATING = "evaluating"

# Batches without a step wait for the one that steps, no longer than this, and share its time: they
# may only have been fetched ahead, as transformers' Trainer does with gradient accumulation.
AHEAD_SPAN_NS = 2_000_000_000

# Batches that are held back of a pass that has not stepped; beyond them they are none of training.
MAX_HELD = 100_000

# So many loaders are remembered of which something is known.
MOST_LOADERS = 8

_new = tuple.__new__


# What becomes of a pass: not yet fetched from; held back until it is known; read beside another
# one; over, or none that counts.
NEW, HELD, TRAINING, VALIDATING, BESIDE, OVER = range(6)

# A script may look at any number of batches without a step.
MOST_LOOKS = 1000


class Thread:
    """What one thread reads and does: the passes that are open, each within the one before."""

    def __init__(self) -> None:
        self.stack: list[Pass] = []
        self.stepping: int | None = None
        """The optimiser that steps, by its id; those that it calls don't count beside it."""
        # Loaders that were read beside another one; a script begins them again within its batches.
        self.beside: deque[Callable[[], Any]] = deque(maxlen=8)
        # Passes that were left, as `next(iter(loader))` is, since the last step.
        self.looks: deque[Pass] = deque(maxlen=MOST_LOOKS)
        self.inside = False
        """Whether a loader is at work: what it reads itself is none of the script's passes."""
        self.trains = False
        """Whether it has read what it trained with: its steps are no other thread's."""


NO_THREAD = Thread()
"""Reads what was not fetched from."""


class Pass:
    """One pass over a loader, or a stretch of steps without one: then it has an `optimizer`."""

    def __init__(self, loader: Loader, created: int, created_after: int) -> None:
        self.loader = loader
        self.sizes = Sizes(loader)
        self.certain = self.sizes.certain
        self.state = NEW
        self.thread = NO_THREAD
        self.source: Callable[[], Any] = lambda: None
        self.alive: Any = None
        self.optimizer: Callable[[], Any] | None = None
        self.created, self.created_after = created, created_after
        # When its iterator was ready, and its first batch could be asked for.
        self.made = created
        self.begin = self.opened = self.asked = created
        self.fetched_after = 0
        self.with_gradients = True
        self.epoch = 0
        self.phase = ""
        # What is sent once it is known to train; None where that was too much.
        self.held: list[MeasuredBatch | Interruption] | None = []
        # Batches of a whole pass that it leaves out at its beginning.
        self.skipped = loader.skipped
        self.clipped = self.skipped > 0
        self.metrics: dict[str, Any] = {}
        self.loss: EpochLoss | None = None
        # Batches that ended, those of them before the first step, and one that is under way.
        self.number = self.idle = 0
        self.in_hand = False
        self.size: int | tuple[int, ...] | None = None
        self.counter = Tokens()
        self.tokens: int | tuple[int, ...] | None = None
        self.wait_ns = 0
        self.waits = True
        # What stepped first while it was not known to train, and when that began.
        self.first_step: tuple[Callable[[], Any], int] | None = None
        # Steps in the batch under way, and in all; batches with one; steps after its end.
        self.updates = self.updates_in_all = self.stepped = self.late = 0
        self.most = 1
        # Whether `backward` was called in the batch under way, and in any.
        self.goes_backward = self.has_gone_backward = False
        # How often in all, and whether it was not within the first batch.
        self.backwards, self.begins_ahead = 0, False
        # When the batch under way ran out of memory; 0 where nothing did, or it trained after all.
        self.failed_at = 0
        # When another thread stepped with what this one read.
        self.foreign: deque[int] = deque()
        # Batches that wait for the one that steps.
        self.ahead: list[MeasuredBatch] = []
        self.first_end = self.last_end = self.last_active = created

    @property
    def has_all(self) -> bool:
        """Whether it has as many batches as its loader has.

        Where all others stepped and the last one did not, a loop was left before it did.
        """
        came = self.number + self.in_hand + self.sizes.lost
        if self.loader.steps is None or came != self.loader.steps:
            return False
        is_left = self.in_hand and not self.trains_now and self.stepped == self.number
        return not (is_left and self.state == TRAINING)

    @property
    def is_ahead(self) -> bool:
        """Whether the batch under way was fetched ahead: what trained in it is the one before.

        A loop may fetch each batch before it goes backward from the one before.
        """
        return self.begins_ahead and self.backwards == self.number

    def lose_batch(self) -> None:
        """Note that the next batch raised as it was fetched: the one after it takes its turn."""
        self.sizes.lost += 1
        self.certain = self.sizes.certain

    def skip(self, batches: int) -> None:
        """Leave out so many batches, as a loader does that goes on from a checkpoint."""
        self.skipped = self.sizes.lost = self.loader.skipped + batches
        self.certain, self.clipped = self.sizes.certain, self.skipped > 0

    @property
    def trains_now(self) -> bool:
        return self.updates > 0 or self.goes_backward

    @property
    def has_trained(self) -> bool:
        return self.updates_in_all > 0 or self.has_gone_backward

    @property
    def may_step_late(self) -> bool:
        """Whether a step after its end still belongs to it.

        What reads a batch ahead steps for the last one then; so does what adds up gradients.
        """
        return self.late < self.idle * self.most

    @property
    def waited_ns(self) -> int:
        """How long its batches waited, as far as they are held back."""
        held = self.held or ()
        return sum(item.wait_ns or 0 for item in held if isinstance(item, MeasuredBatch))


def _together(batches: list[MeasuredBatch]) -> MeasuredBatch:
    """Return batches that ended together with the last of them."""
    last = batches[-1]
    sizes = tuple(one.samples for one in batches if isinstance(one.samples, int))
    wait_ns = sum(one.wait_ns or 0 for one in batches)
    tokens = tuple(one.tokens for one in batches if isinstance(one.tokens, int))
    known = tokens if len(tokens) == len(batches) else None
    return last._replace(samples=sizes, wait_ns=wait_ns, tokens=known)


class PassReports:
    """Reports what passes come to; one thread's passes count at a time.

    Args:
        reporter: takes the records.
        version: says PyTorch's version.
        describe: says what an optimiser trains, and on what, in fields of `Model`.
        clock: CLOCK_MONOTONIC in nanoseconds.
        owner: what reports: loops of PyTorch, or of TensorFlow.
        framework: what counts the batches, and what that runs on.
    """

    def __init__(
        self,
        reporter: Reporter,
        version: Callable[[], str | None] = lambda: None,
        describe: Callable[[Any], dict[str, Any]] = lambda optimizer: {},
        clock: Callable[[], int] = time.monotonic_ns,
        owner: str = OWNER,
        framework: tuple[str, str | None] = (OWNER, None),
    ) -> None:
        self.reporter, self.owner, self._framework = reporter, owner, framework
        self.losses = Losses(reporter, clock)
        self.marks = StepMarks(reporter, clock, is_watched=owner == OWNER)
        self._version, self._describe, self.clock = version, describe, clock
        self._described: Interruption | None = None
        self._step_count: flop_count.StepCount | None = None
        self._asked: dict[str, Any] = {}
        self._asked_after = 0
        self.phase = "validating"
        """What passes without a step are."""
        self.has_optimizers = False
        """Whether any optimiser of PyTorch's was made: without a loader, its steps count."""
        self.at_close: Callable[[], None] = lambda: None
        """Ends what is open as the process ends."""
        self.yields: Callable[[], None] = lambda: None
        """Ends a stretch of steps as another framework begins to train."""
        self.forget()

    def forget(self) -> None:
        self.marks.forget()
        self.stepped_by: Callable[[], Any] = lambda: None
        """The optimiser that stepped last outside of an epoch that counts."""
        self.gone_backward_on: Any = None
        """The device of what `backward` was called on last, outside of such an epoch."""
        self.open: set[Thread] = set()
        """Threads that read something."""
        self.counting: Thread | None = None
        """The thread whose passes count now."""
        self._closes = False
        self._loop: Loader | None = None
        self._loops = self._epochs = self._epochs_of_loop = 0
        self._last: Pass | None = None
        # The epoch to which the passes that follow belong, its validation so far, and the batches
        # of each of its loaders; those of the epochs before it, of the last time each was whole.
        self._before: Pass | None = None
        self._validation: Validation | None = None
        self._validated: dict[Loader, int] = {}
        self._usually_validated: dict[Loader, int] = {}
        self._evaluated: list[Pass] = []
        self._of_epochs: deque[Callable[[], Any]] = deque(maxlen=MOST_LOADERS)
        self._leaving_out: deque[Callable[[], Any]] = deque(maxlen=MOST_LOADERS)

    def expect(self, **known: Any) -> None:
        """Say what is known of the fit that begins: fields of `Reporter.begin_loop`."""
        self._asked = {name: value for name, value in known.items() if value is not None}
        self._asked_after, self._loop = self._epochs, None

    def late(self) -> Pass | None:
        """Return the epoch that a step outside of any pass still belongs to."""
        last = self._last
        return last if last is not None and last.may_step_late else None

    def step_late(self, last: Pass) -> None:
        last.late += 1
        metrics = self.losses.end_epoch().metrics
        self.reporter.send(EpochChanged(last.epoch, updates=1, metrics=metrics))

    def last_is_over(self) -> None:
        """Let no later step belong to the epoch that ended last: another pass begins."""
        if self._last is not None:
            self._last.idle = 0

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        """Add metrics to the epoch under way, or to the one that ended last."""
        thread = self.counting or next(iter(self.open), None)
        current = thread.stack[0] if thread is not None and thread.stack else None
        if current is not None and current.optimizer is None and current.has_trained:
            current.metrics.update(metrics)
        elif self._last is not None and metrics:
            if self._last.loss is not None:
                self._last.loss.is_told |= LOSS in metrics
            self.reporter.send(EpochChanged(self._last.epoch, metrics=metrics))

    def claim(self, thread: Thread) -> bool:
        """Return whether this thread's passes are the ones that count."""
        reporter = self.reporter
        # Between the steps of a stretch another framework may train.
        is_stretch = bool(thread.stack) and thread.stack[0].optimizer is not None
        yields = self.yields if is_stretch else None
        if self.counting not in (None, thread) or not reporter.take(self.owner, yields):
            return False
        framework, backend = self._framework
        if not reporter.start(framework, self._version(), backend):
            return False
        if not self._closes:
            self._closes = True
            reporter.at_close(self.at_close)
        self.counting = thread
        return True

    def release(self, thread: Thread) -> None:
        """Let others count, if a thread reads nothing any more."""
        if not thread.stack:
            self.open.discard(thread)
            if self.counting is thread:
                self.counting = None
                self.reporter.let_go(self.owner)

    def drop(self, read: Pass) -> None:
        """Count a pass no more, and what was begun within it."""
        thread = read.thread
        stack = thread.stack
        if read in stack:
            for inner in stack[stack.index(read) :]:
                inner.state = OVER
            del stack[stack.index(read) :]
        read.state = OVER
        self.release(thread)

    def validate(self, read: Pass) -> None:
        """Enter the phase of a pass that does not train."""
        if not self.claim(read.thread):
            self.drop(read)
            return
        if self._step_count is not None:
            self._step_count.interrupt()
        read.state = VALIDATING
        self.marks.drop()
        self.reporter.enter(read.phase, read.begin)

    def train(self, read: Pass) -> None:
        """Begin an epoch with a pass, and send what was held back of it."""
        stack = read.thread.stack
        if read.waits or read.optimizer is not None:
            read.thread.trains = True
        if not self.claim(read.thread):
            self.drop(read)
            return
        below = stack[: stack.index(read)]
        del stack[: len(below)]
        for left in below:
            if left.optimizer is None:
                left.updates -= read.updates_in_all
            if left.state == TRAINING:
                if left.in_hand and left.trains_now:
                    self.end_batch(left, max(left.last_active, left.asked))
                self.end_epoch(left, whole=False, end=None)
                self.losses.begin_epoch(is_known=False)
            left.state = OVER
        if read.held is None:
            # Too long ago: it begins with the batch under way.
            read.begin = read.opened = read.asked
            read.number, read.clipped, read.held = 0, True, []
        self.no_more_passes()
        self._begin_loop(read)
        if not self.gave_epochs(read):
            self._of_epochs.append(read.source)
        self._epochs += 1
        self._epochs_of_loop += 1
        read.epoch = self.reporter.next_epoch()
        self.reporter.send(EpochStart(read.epoch, read.begin, follows=True, skipped=read.skipped))
        self.reporter.send(EpochOpened(read.opened))
        held, read.held, read.state = read.held, None, TRAINING
        for item in held:
            self.send(read, item)
        described, self._described = self._described, None
        if described is not None and described.end - described.t >= LEAST_NAMED_NS:
            # That was our time, and none of a batch, or of a wait for data.
            self.reporter.send(described)
            read.asked += described.end - described.t

    def look_at_tokens(self, batch: Any) -> None:
        """Report what share of a batch's tokens means something: of one about once a second."""
        self.reporter.reads.are_shares_due = False
        try:
            shares = shares_of(batch)
        except Exception:  # noqa: BLE001 - whatever it is, its tokens are counted on
            return
        if shares is not None:
            self.reporter.send(shares)

    def gave_epochs(self, read: Pass) -> bool:
        """Return whether an earlier pass over a loader was an epoch."""
        source = read.source()
        return source is not None and any(other() is source for other in self._of_epochs)

    def leaves_out(self, read: Pass) -> None:
        """Note that a script's own function leaves samples out: no pass's are known beforehand."""
        before, read.loader = read.loader, read.loader.leaving_out()
        self._leaving_out.append(read.source)
        if before == self._loop:
            self._loop = loader = read.loader
            self.reporter.describe_loop(
                samples_per_epoch=None, inferred=loader.inferred, why=loader.why
            )

    def known_to_leave_out(self, source: Any) -> bool:
        """Return whether samples were left out of what an earlier pass over a loader read."""
        return source is not None and any(other() is source for other in self._leaving_out)

    def _begin_loop(self, read: Pass) -> None:
        loader = read.loader
        is_another = read.optimizer is not None or loader != self._loop
        if is_another or self._loops != self.reporter.loops:
            self._loop, self._epochs_of_loop = loader, 0
            why = {
                "parameters": "the script's network is not known",
                "epochs": "the script's own loop does not say how many",
                **loader.why,
            }
            # A fit that goes on from within an epoch may do so with another loader at first.
            asked = dict(self._asked)
            if "epochs" in asked:
                asked["epochs"] = max(0, asked["epochs"] + self._asked_after - self._epochs)
            # A trainer knows it, or that it has no end.
            infers_length = not asked
            why |= asked.pop("why", {})
            optimizer = self.stepped_by()
            trained_by = self.gone_backward_on if optimizer is None else optimizer
            began = self.clock()
            described = {} if trained_by is None else self._describe(trained_by)
            self._described = Interruption(began, self.clock())
            why |= described.pop("why", {})
            computes_again = described.pop("computes_again", False)
            known = {
                "batch_size": loader.batch_size,
                "samples_per_epoch": loader.samples,
                "steps_per_epoch": loader.steps,
                "workers": loader.workers,
                "inferred": loader.inferred,
                "has_epochs": None if loader.has_passes else False,
                "pin_memory": loader.pin_memory,
                "tokens_inferred": read.counter.inferred,
                "sequence": read.counter.sequence,
                **asked,
                **described,
            }
            why = {name: text for name, text in why.items() if known.get(name) is None}
            self.marks.begin_loop(optimizer, self.gone_backward_on)
            self.reporter.begin_loop(why=why, infers_length=infers_length, **known)
            self._loops = self.reporter.loops
            if flop_count.is_asked_for():
                self._count_a_step(computes_again)

    def _count_a_step(self, computes_again: bool) -> None:
        if computes_again:
            self.reporter.describe_loop({_FLOPS: flop_count.COMPUTES_AGAIN}, flops_per_sample=None)
        elif self.owner == OWNER and (self._step_count is None or self._step_count.is_over):
            self._step_count = flop_count.StepCount(self.reporter)

    def send(self, read: Pass, item: MeasuredBatch | Interruption) -> None:
        if read.state != TRAINING:
            if read.held is not None:
                read.held.append(item)
                if len(read.held) > MAX_HELD:
                    read.held = None
        elif isinstance(item, MeasuredBatch):
            self._report_batch(read, item if read.waits else item._replace(wait_ns=None))
        else:
            self.reporter.send(item)

    def _report_batch(self, read: Pass, item: MeasuredBatch) -> None:
        read.ahead.append(item)
        if item.updates != 0 or item.end_ns - read.ahead[0].end_ns > AHEAD_SPAN_NS:
            self._report_ahead(read)

    def _report_ahead(self, read: Pass) -> None:
        """Report batches as what took one step together, as far as each is measured."""
        ahead, read.ahead = read.ahead, []
        if not ahead:
            return
        known = all(isinstance(one.samples, int) and one.wait_ns is not None for one in ahead)
        for item in [_together(ahead)] if len(ahead) > 1 and known else ahead:
            self.reporter.batch_ended(item)

    def end_batch(self, read: Pass, now: int) -> None:
        if read.foreign:
            self.take_foreign(read)
        updates: int | None = read.updates
        if read.failed_at:
            read.failed_at = 0
            if not updates and read.state != VALIDATING:
                read.lose_batch()
                read.in_hand = False
                self._report_ahead(read)
                self.send(read, Interruption(max(read.last_end, read.opened), now))
                read.last_end = now
                return
        number = read.number
        if not number:
            read.first_end = now
            read.begins_ahead = not (updates or read.goes_backward)
        if updates:
            read.stepped += 1
            read.updates = 0
            if updates > read.most:
                read.most = updates
        else:
            if not read.updates_in_all:
                read.idle += 1
                if read.has_gone_backward and not self.has_optimizers:
                    # What steps is none of PyTorch's optimisers.
                    updates = None
            if read.goes_backward:
                read.stepped += 1
        read.goes_backward = False
        # A tuple's own `__new__` takes half as long as a named one's.
        item = _new(MeasuredBatch, (now, read.size, read.wait_ns, updates, read.tokens))
        if updates and read.state == TRAINING and read.waits and not read.ahead:
            self.reporter.batch_ended(item)
        else:
            self.send(read, item)
        read.number = number + 1
        read.last_end = now
        read.in_hand = False

    def take_foreign(self, read: Pass) -> None:
        """Count steps that another thread did; this one only reads, and its waits are not theirs.

        A loader that is read ahead by a thread of the script's own is one such.
        """
        read.waits = False
        while read.foreign:
            read.last_active = read.foreign.popleft()
            read.updates += 1
            read.updates_in_all += 1
        if read.state != TRAINING and read.thread.stack[0] is read:
            self.train(read)

    def end_epoch(self, read: Pass, whole: bool, end: int | None) -> None:
        """Report the end of a pass that trained; without a time, that of its last batch."""
        self._report_ahead(read)
        end = read.last_end if end is None else end
        if read.loader.has_passes:
            cut = read.clipped or not whole
            read.loss = self.losses.end_epoch()
            read.loss.is_told |= LOSS in read.metrics
            metrics = {**read.loss.metrics, **read.metrics}
            self.reporter.send(EpochEnd(read.epoch, end, metrics, cut))
            self._last = self._before = read
        self.reporter.send(Pause(end, SCRIPT_PHASE))

    def no_more_passes(self) -> None:
        """Let no later pass belong to the epoch that ended last."""
        self._usually_validated |= self._validated
        self._before = self._validation = None
        self._validated = {}

    def evaluates(self) -> None:
        """Say that the passes that follow test what the training came to."""
        self.phase, self._evaluated = EVALUATING, []

    def evaluated(self, metrics: dict[str, Any]) -> None:
        """Report what those passes came to, as the framework says it at their end."""
        passes, self._evaluated = self._evaluated, []
        self.phase = "validating"
        if not passes:
            return
        values, why = finite(metrics)
        steps = sum(read.number for read in passes)
        batches = (item for read in passes for item in read.held or ())
        sizes = [item.samples for item in batches if isinstance(item, MeasuredBatch)]
        known = [size for size in sizes if isinstance(size, int)]
        samples = sum(known) if len(known) == steps else None
        if samples is None:
            why["samples"] = "the size of its batches is not known"
        self.reporter.send(
            Evaluation(
                begin=passes[0].begin,
                end=self.clock(),
                steps=steps,
                samples=samples,
                whole=True,
                metrics=values,
                first_end=passes[0].first_end,
                why=why,
            )
        )

    def validated(self, read: Pass, end: int, whole: bool) -> None:
        """Report a pass as validation of the epoch before it, after those that it has already.

        One over a loader that none of the loop's epochs before was followed by is of no epoch: at
        the end of a script it tests what came of all.
        """
        usually = self._usually_validated
        if read.phase == EVALUATING and read.number:
            self._evaluated.append(read)
        is_usual = self._epochs_of_loop == 1 or read.loader in usually
        if self._before is not None and is_usual and read.number and read.phase == "validating":
            one = Validation(read.begin, read.first_end, read.last_end, end, read.number)
            before = self._validation
            self._validation = one if before is None else before.followed_by(one)
            # A script may want a part of its loader only; where it ends sooner than the time
            # before, it was cut short, as by an error.
            cut = not (whole or read.has_all) and read.number < usually.get(read.loader, 0)
            if not cut:
                self._validated[read.loader] = read.number
            change = EpochChanged(self._before.epoch, validation=self._validation, cut=cut)
            self.reporter.send(change)
        self.reporter.send(Pause(end, SCRIPT_PHASE))
