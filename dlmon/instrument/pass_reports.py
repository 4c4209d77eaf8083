"""Report passes over loaders: as epochs and their batches, or as validation."""

from __future__ import annotations

import time
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
    Drawn,
    Pass,
    Thread,
)
from dlmon.instrument.loaders import Loader
from dlmon.instrument.losses import LOSS, Losses
from dlmon.instrument.queued import (
    EpochChanged,
    EpochEnd,
    EpochOpened,
    EpochStart,
    Interruption,
    MeasuredBatch,
    Pause,
)
from dlmon.instrument.reporter import Reporter
from dlmon.records import SCRIPT_PHASE, Evaluation, Validation, finite

OWNER = "torch"
EVALUATING = "evaluating"

# Batches without a step wait for the one that steps, no longer than this, and share its time: they
# may only have been fetched ahead, as transformers' Trainer does with gradient accumulation.
AHEAD_SPAN_NS = 2_000_000_000

# Batches that are held back of a pass that has not stepped; beyond them they are none of training.
MAX_HELD = 100_000

# So many loaders are remembered that gave more than one batch in a pass.
MOST_LOADERS = 8

_new = tuple.__new__


def _together(batches: list[MeasuredBatch]) -> MeasuredBatch:
    """Return batches that ended together with the last of them."""
    last = batches[-1]
    sizes = tuple(one.samples for one in batches if isinstance(one.samples, int))
    wait_ns = sum(one.wait_ns or 0 for one in batches)
    return last._replace(samples=sizes, wait_ns=wait_ns)


class PassReports:
    """Reports what passes come to; one thread's passes count at a time.

    Args:
        reporter: takes the records.
        version: says PyTorch's version.
        device_of: says what an optimiser trains on, in fields of `Model`.
        clock: CLOCK_MONOTONIC in nanoseconds.
        owner: what reports: loops of PyTorch, or of TensorFlow.
        framework: what counts the batches, and what that runs on.
        losses: what adds up the losses of each epoch.
    """

    def __init__(
        self,
        reporter: Reporter,
        version: Callable[[], str | None] = lambda: None,
        device_of: Callable[[Any], dict[str, Any]] = lambda optimizer: {},
        clock: Callable[[], int] = time.monotonic_ns,
        owner: str = OWNER,
        framework: tuple[str, str | None] = (OWNER, None),
        losses: Losses | None = None,
    ) -> None:
        self.reporter, self.owner, self._framework = reporter, owner, framework
        self.losses = losses or Losses(reporter, clock)
        self._version, self._device_of, self.clock = version, device_of, clock
        self._asked: dict[str, Any] = {}
        self._asked_after = 0
        self.phase = "validating"
        """What passes without a step are."""
        self.has_optimizers = False
        """Whether any optimiser of PyTorch's was made: without a loader, its steps count."""
        self.forget()

    def forget(self) -> None:
        self.stepped_by: Callable[[], Any] = lambda: None
        """The optimiser that stepped last outside of an epoch that counts."""
        self.gone_backward_on: Any = None
        """The device of what `backward` was called on last, outside of such an epoch."""
        self.open: set[Thread] = set()
        """Threads that read something."""
        self._counting: Thread | None = None
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
        # Passes that follow no epoch as a rule: they are of this one if another one follows.
        self._unusual: list[tuple[Validation, Loader]] = []
        self._evaluated: list[Pass] = []
        # Ran to its end with gradients on and has not stepped, or was left after its first batch,
        # which did: when, and what.
        self._undecided: tuple[Pass, int] | None = None
        self._asked_again: deque[Callable[[], Any]] = deque(maxlen=MOST_LOADERS)
        self._leaving_out: deque[Callable[[], Any]] = deque(maxlen=MOST_LOADERS)

    @property
    def others_train(self) -> bool:
        """Whether another loop has begun since, which was not reported here."""
        return self._loops != self.reporter.loops

    def expect(self, **known: Any) -> None:
        """Say what is known of the fit that begins: fields of `Reporter.begin_loop`."""
        self._asked = {name: value for name, value in known.items() if value is not None}
        self._asked_after, self._loop = self._epochs, None

    def fit_ended(self) -> None:
        """End the epoch under way; what was known of the fit is not known of what follows."""
        thread = self._counting
        if thread is not None and thread.stack:
            self.abandon(thread.stack[0])
        self._asked = {}
        self.no_more_passes()

    def late(self) -> Pass | None:
        """Return the epoch that a step outside of any pass still belongs to."""
        last = self._last
        return last if last is not None and last.may_step_late else None

    def step_late(self, last: Pass) -> None:
        last.late += 1
        values, why = finite(self.losses.end_epoch(last.epoch).metrics)
        self.reporter.send(EpochChanged(last.epoch, updates=1, metrics=values, why=why))

    def last_is_over(self) -> None:
        """Let no later step belong to the epoch that ended last: another pass begins."""
        if self._last is not None:
            self._last.idle = 0

    def may_step_yet(self, thread: Thread) -> bool:
        """Return whether a step outside of any pass makes the last one training after all.

        So it is where a script adds up gradients over a whole pass.
        """
        return self._undecided is not None and self._undecided[0].thread is thread

    def train_after_all(self, steps: int = 1) -> None:
        """Take the pass that ended as training, with one more step, or none, at its end."""
        assert self._undecided is not None
        read, _ = self._undecided
        assert read.held
        was_left = read.has_trained
        last = read.held[-1]
        if isinstance(last, MeasuredBatch) and steps:
            read.held[-1] = last._replace(updates=(last.updates or 0) + steps)
        read.updates_in_all += steps
        self._train_undecided(whole=not was_left)
        if read.state == OVER and steps:
            # One more by a second optimiser; a loop without a loader may begin here too.
            read.idle = 1

    def _train_undecided(self, whole: bool) -> None:
        assert self._undecided is not None
        (read, ended), self._undecided = self._undecided, None
        read.state = HELD
        read.thread.stack.append(read)
        self.train(read)
        if read.state == TRAINING:
            self.end(read, ended, whole, end=ended if whole else None)

    def decide(self) -> None:
        """Decide what the pass that ended last was: something else begins."""
        if self._undecided is None:
            return
        read, ended = self._undecided
        if read.has_trained:
            self._train_undecided(whole=False)
            return
        self._undecided = None
        if self._claim(read.thread):
            self.reporter.enter(read.phase, read.begin)
            self._report_validation(read, ended, whole=True)
            self._release(read.thread)

    def awaits_more(self, read: Pass) -> bool:
        """Return whether a pass that stepped is no epoch before it is asked for a second batch.

        A loop may take one batch of it, and the next one of another.
        """
        source = read.source()
        is_first = not read.number and read.optimizer is None and read.loader.steps != 1
        return is_first and not (source is None or any(s() is source for s in self._asked_again))

    def stepped(self, read: Pass) -> None:
        """Take a pass that stepped as training, once it is known what kind of it."""
        if not self.awaits_more(read):
            self.train(read)
            return
        read.thread.trains = True
        if not self._claim(read.thread):
            self.drop(read)

    def asked_again(self, read: Pass) -> None:
        """Note that a pass whose first batch stepped is asked for more: it is an epoch."""
        self._asked_again.append(read.source)
        self.train(read)

    def take_singles(self, read: Pass) -> bool:
        """Begin a loop of single batches with the pass that ended last, now that one begins.

        It is one if the other was left after a batch that stepped, and both are over one loader.
        """
        if self._undecided is None or not self._undecided[0].has_trained:
            return False
        first, _ = self._undecided
        source, thread = read.source(), first.thread
        if source is None or first.source() is not source or thread is not read.thread:
            return False
        self._undecided = None
        loop = Pass(first.loader.without_passes(), first.begin, first.created_after)
        loop.optimizer, loop.source, loop.thread = self.stepped_by, first.source, thread
        loop.opened, loop.phase = first.opened, first.phase
        thread.stack.append(loop)
        self.open.add(thread)
        # What was taken before the first step may only have been looked at.
        thread.drawn = None
        first.begin = first.opened
        self.train(loop)
        if loop.state == TRAINING:
            self._count_single(loop, first)
        return True

    def _count_single(self, loop: Pass, read: Pass) -> None:
        """Count a pass that was left after its first step as a batch of a loop, up to the step."""
        if loop.in_hand:
            self.end_batch(loop, read.begin)
        self._draw(read)
        drawn, read.thread.drawn = read.thread.drawn, None
        loop.wait_ns = 0 if drawn is None else drawn.wait_ns
        interruptions = [item for item in read.held or () if isinstance(item, Interruption)]
        for item in interruptions:
            self._send(loop, item)
        loop.size = None if drawn is None else drawn.samples
        loop.goes_backward = loop.has_gone_backward = read.has_gone_backward
        loop.updates += read.updates_in_all
        loop.updates_in_all += read.updates_in_all
        # A new iterator opens before the one that it replaces is dropped.
        loop.last_active = read.last_active
        self.end_batch(loop, read.last_active)
        if interruptions:
            self.reporter.enter("training", read.last_active)

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        """Add metrics to the epoch under way, or to the one that ended last."""
        values, why = finite(metrics)
        self.decide()
        for each in tuple(self.open):
            if each.stack and each.stack[0].state == HELD and each.stack[0].has_trained:
                self.train(each.stack[0])
        thread = self._counting
        if thread is not None and thread.stack and thread.stack[0].state == TRAINING:
            current = thread.stack[0]
            current.metrics.update(values)
            current.why.update(why)
        elif self._last is not None and values:
            if self._last.loss is not None:
                self._last.loss.is_told |= LOSS in values
            self.reporter.send(EpochChanged(self._last.epoch, metrics=values, why=why))

    def close(self) -> None:
        """End what is open; the process ends."""
        self.decide()
        for thread in tuple(self.open):
            while thread.stack:
                self.abandon(thread.stack[-1])
        self.decide()
        self.losses.finish()

    def _claim(self, thread: Thread) -> bool:
        """Return whether this thread's passes are the ones that count."""
        reporter = self.reporter
        if self._counting not in (None, thread) or not reporter.take(self.owner):
            return False
        framework, backend = self._framework
        if not reporter.start(framework, self._version(), backend):
            return False
        if not self._closes:
            self._closes = True
            reporter.at_close(self.close)
        self._counting = thread
        return True

    def _release(self, thread: Thread) -> None:
        """Let others count, if a thread reads nothing any more."""
        if not thread.stack:
            self.open.discard(thread)
            if self._counting is thread:
                self._counting = None
                self.reporter.let_go(self.owner)
            if self._undecided is not None and self.reporter.take(self.owner):
                # What else trains comes after that pass, and decides what it was.
                self.reporter.hold(self.owner, self.decide)

    def drop(self, read: Pass) -> None:
        """Count a pass no more, and what was begun within it."""
        thread = read.thread
        stack = thread.stack
        if read in stack:
            for inner in stack[stack.index(read) :]:
                inner.state = OVER
            del stack[stack.index(read) :]
        read.state = OVER
        self._release(thread)

    def validate(self, read: Pass) -> None:
        """Enter the phase of a pass that does not train."""
        if not self._claim(read.thread):
            self.drop(read)
            return
        read.state = VALIDATING
        self.reporter.enter(read.phase, read.begin)

    def train(self, read: Pass) -> None:
        """Begin an epoch with a pass, and send what was held back of it."""
        stack = read.thread.stack
        if read.waits or read.optimizer is not None:
            read.thread.trains = True
        if not self._claim(read.thread):
            self.drop(read)
            return
        below = stack[: stack.index(read)]
        del stack[: len(below)]
        for left in below:
            left.updates -= read.given
            if left.state == TRAINING:
                self._finish(left, read.begin, whole=False, end=None)
                self.losses.begin_epoch(is_known=False)
            left.state = OVER
        if read.held is None:
            # Too long ago: it begins with the batch under way.
            read.begin = read.opened = read.asked
            read.number, read.clipped, read.held = 0, True, []
        for validation, loader in self._unusual:
            self._add_validation(validation, loader, cut=False)
        self.no_more_passes()
        self._begin_loop(read)
        self._epochs += 1
        self._epochs_of_loop += 1
        read.epoch = self.reporter.next_epoch()
        self.reporter.send(EpochStart(read.epoch, read.begin, follows=True, skipped=read.skipped))
        self.reporter.send(EpochOpened(read.opened))
        held, read.held, read.state = read.held, None, TRAINING
        for item in held:
            self._send(read, item)

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
        if is_another or self.others_train:
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
            device = {} if trained_by is None else self._device_of(trained_by)
            why |= device.pop("why", {})
            known = {
                "batch_size": loader.batch_size,
                "samples_per_epoch": loader.samples,
                "steps_per_epoch": loader.steps,
                "workers": loader.workers,
                "inferred": loader.inferred,
                "has_epochs": None if loader.has_passes else False,
                **device,
                **asked,
            }
            why = {name: text for name, text in why.items() if known.get(name) is None}
            self.reporter.begin_loop(why=why, infers_length=infers_length, **known)
            self._loops = self.reporter.loops

    def _send(self, read: Pass, item: MeasuredBatch | Interruption) -> None:
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
        known = all(isinstance(one.samples, int) and one.wait_ns is not None for one in ahead)
        for item in [_together(ahead)] if len(ahead) > 1 and known else ahead:
            self.reporter.batch_ended(item)

    def end_batch(self, read: Pass, now: int) -> None:
        if read.foreign:
            self._take_foreign(read)
        updates: int | None = read.updates
        number = read.number
        if not number:
            read.first_end = now
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
        item = _new(MeasuredBatch, (now, read.size, read.wait_ns, updates))
        if updates and read.state == TRAINING and read.waits and not read.ahead:
            self.reporter.batch_ended(item)
        else:
            self._send(read, item)
        read.number = number + 1
        read.last_end = now
        read.in_hand = False

    def _take_foreign(self, read: Pass) -> None:
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

    def abandon(self, read: Pass) -> None:
        """End a pass that nobody will ask again: whole if all its batches have come."""
        if read.state not in (HELD, TRAINING, VALIDATING):
            read.state = OVER
            return
        self.end(read, self.clock(), read.has_all)

    def end(self, read: Pass, now: int, whole: bool, end: int | None = None) -> None:
        """End a pass, with all that was begun within it.

        Args:
            read: the pass.
            now: when the next thing began.
            whole: it ran to its end.
            end: when it ended; None for the end of its last batch.
        """
        thread = read.thread
        stack = thread.stack
        self.losses.look()
        self.leave_inner(read, now)
        if read.foreign:
            self._take_foreign(read)
        if read.state == OVER:
            return
        is_inner = len(stack) > 1 and stack[-2].state != TRAINING
        if (is_inner or whole) and read.state == HELD and read.has_trained:
            self.train(read)
        stack.pop()
        self._finish(read, now, whole, end)
        self._release(thread)

    def leave_inner(self, read: Pass, now: int) -> None:
        """Leave the passes that were begun within the batch of one that goes on, or ends."""
        stack = read.thread.stack
        while stack[-1] is not read:
            inner = stack[-1]
            if inner.state == VALIDATING:
                self.end(inner, now, whole=False)
                # It may go on later: an iterator that gives one batch at a time.
                inner.state = NEW
                continue
            stack.pop()
            inner.state = BESIDE
            read.thread.beside.append(inner.source)
            read.wait_ns += inner.waited_ns + (inner.wait_ns if inner.in_hand else 0)
            if read.state != TRAINING and inner.has_trained:
                read.goes_backward |= inner.has_gone_backward
                read.has_gone_backward |= inner.has_gone_backward
                read.updates += inner.updates_in_all
                read.updates_in_all += inner.updates_in_all
                read.last_active = inner.last_active
                self.stepped(read)
                if read.state == OVER:
                    return

    def _finish(self, read: Pass, now: int, whole: bool, end: int | None) -> None:
        state = read.state
        if read.in_hand and read.trains_now:
            self.end_batch(read, max(read.last_active, read.asked))
        elif read.in_hand and (whole or state != TRAINING):
            self.end_batch(read, now)
        self._report_ahead(read)
        read.state = OVER
        read.in_hand = False
        if state in (HELD, VALIDATING):
            self._end_validation(read, state, now, whole)
            return
        end = read.last_end if end is None else end
        if read.loader.has_passes:
            cut = read.clipped or not whole
            read.loss = self.losses.end_epoch(read.epoch)
            read.loss.is_told |= LOSS in read.metrics
            values, why = finite(read.loss.metrics)
            metrics, why = {**values, **read.metrics}, {**why, **read.why}
            self.reporter.send(EpochEnd(read.epoch, end, metrics, why, cut))
            self._last = self._before = read
        self.reporter.send(Pause(end, SCRIPT_PHASE))

    def _end_validation(self, read: Pass, state: int, now: int, whole: bool) -> None:
        stack = read.thread.stack
        if state == HELD:
            is_loop = bool(stack) and stack[-1].optimizer is not None
            if read.has_trained and (is_loop or not stack) and read.held:
                # Left after a batch that stepped.
                if is_loop:
                    self._count_single(stack[-1], read)
                else:
                    self._undecided = read, now
                return
            # A look at one batch is no validation; neither is what a pass below has trained with.
            many = whole or (bool(stack) and read.number > 1)
            if not many or not read.held or read.has_trained or read.optimizer is not None:
                if not stack or stack[-1].optimizer is not None:
                    self._draw(read)
                else:
                    stack[-1].wait_ns += read.waited_ns
                return
            if not stack:
                self._undecided = read, now
                return
            if not self._claim(read.thread):
                return
            self.reporter.enter(read.phase, read.begin)
        if not stack:
            self._report_validation(read, now, whole)
            return
        self._send(stack[-1], Interruption(read.begin, now))
        stack[-1].last_active = now
        if stack[-1].state == TRAINING:
            self.reporter.enter("training", now)
        else:
            self.reporter.send(Pause(now, SCRIPT_PHASE))

    def _draw(self, read: Pass) -> None:
        """Keep a look at one batch for the step that may follow: `next(iter(loader))`."""
        thread = read.thread
        if thread.drawn is None:
            thread.drawn = Drawn(read.loader, read.source)
        drawn = thread.drawn
        # To begin an iterator for each may take longer than to fetch from it: its workers start.
        drawn.wait_ns += read.opened - read.begin + read.waited_ns
        if drawn.source() is read.source():
            # Of another loader's batches only the wait counts, as where they are zipped.
            batches = (item for item in read.held or () if isinstance(item, MeasuredBatch))
            drawn.sizes.extend(item.samples for item in batches)

    def no_more_passes(self) -> None:
        """Let no later pass belong to the epoch that ended last."""
        self._usually_validated |= self._validated
        self._before = self._validation = None
        self._validated = {}
        self._unusual.clear()

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

    def _report_validation(self, read: Pass, end: int, whole: bool) -> None:
        """Report a pass as validation of the epoch before it, after those that it has already.

        One over a loader that the loop's epochs before this one were not followed by is of this
        epoch if another epoch follows: at the end of a script it tests what came of all.
        """
        if read.phase == EVALUATING and read.number:
            self._evaluated.append(read)
        if self._before is not None and read.number and read.phase == "validating":
            one = Validation(read.begin, read.first_end, read.last_end, end, read.number)
            usually = self._usually_validated
            is_first = self._epochs_of_loop == 1
            if self._unusual or not (is_first or read.loader in usually):
                self._unusual.append((one, read.loader))
            else:
                # A script may want a part of its loader only; where it ends sooner than the time
                # before, it was cut short, as by an error.
                cut = not (whole or read.has_all) and read.number < usually.get(read.loader, 0)
                self._add_validation(one, read.loader, cut)
        self.reporter.send(Pause(end, SCRIPT_PHASE))

    def _add_validation(self, one: Validation, loader: Loader, cut: bool) -> None:
        assert self._before is not None
        before = self._validation
        self._validation = one if before is None else before.followed_by(one)
        if not cut:
            self._validated[loader] = one.steps
        change = EpochChanged(self._before.epoch, validation=self._validation, cut=cut)
        self.reporter.send(change)
