"""Report training loops: the trained network, epochs and validations."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from dlmon.instrument import flop_count
from dlmon.instrument.iterations import LoaderIteration
from dlmon.instrument.loaders import Loader
from dlmon.instrument.losses import LOSS, Losses
from dlmon.instrument.queued import (
    LEAST_NAMED_NS,
    EpochChanged,
    EpochEnd,
    EpochOpened,
    EpochStart,
    Interruption,
    Pause,
)
from dlmon.instrument.reporter import Reporter
from dlmon.instrument.step_parts import StepMarks
from dlmon.instrument.tokens import shares_of
from dlmon.records import SCRIPT_PHASE, Evaluation, Validation, finite

OWNER = "torch"
_FLOPS = "flops_per_sample"
_EPOCH_SIZES = ("samples_per_epoch", "steps_per_epoch")
EVALUATING = "evaluating"

# Remember facts about this many loaders.
MOST_LOADERS = 8


class LoopReports:
    """Reports loops, epochs and validations.

    Args:
        reporter: takes the records.
        version: returns PyTorch's version.
        describe: returns fields of `Model` about the trained network and its device.
        clock: CLOCK_MONOTONIC in nanoseconds.
        owner: the reporting hooks, those of PyTorch or of TensorFlow.
        framework: the framework that counts the batches, and its backend.
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
        self._step_count: flop_count.StepCount | None = None
        self._expected: dict[str, Any] = {}
        self._epochs_before_fit = 0
        self.phase = "validating"
        """The phase of iterations that train nothing."""
        self.has_optimizers = False
        """Was any optimizer of PyTorch made? If not, the script changes its weights itself."""
        self.at_close: Callable[[], None] = lambda: None
        """Ends all that is open when the process ends."""
        self.yields: Callable[[], None] = lambda: None
        """Ends a loop without epochs when another framework begins to train."""
        self.forget()

    def forget(self) -> None:
        self.marks.forget()
        self.stepped_by: Callable[[], Any] = lambda: None
        """Returns the optimizer that stepped last before the loop began."""
        self.gone_backward_on: Any = None
        """The device of the last `backward` before the loop began."""
        self._closes = False
        self._loop: Loader | None = None
        self._loop_optimizer: Callable[[], Any] = lambda: None
        self._loop_source: Callable[[], Any] = lambda: None
        self._loops = self._epochs = self._epochs_of_loop = self._epochs_of_source = 0
        self._last: LoaderIteration | None = None
        # The number of steps after which the script leaves each epoch, if it does.
        self._own_steps: int | None = None
        self._are_batches_made = False
        # The epoch to which the next validations belong, its validation so far, and the batches of
        # each one over each loader; the same of earlier epochs of the loop, the last whole ones.
        self._before: LoaderIteration | None = None
        self._validation: Validation | None = None
        self._validated: dict[Loader, list[int]] = {}
        self._usually_validated: dict[Loader, list[int]] = {}
        self._evaluated: list[LoaderIteration] = []
        self._of_epochs: deque[Callable[[], Any]] = deque(maxlen=MOST_LOADERS)
        self._leaving_out: deque[Callable[[], Any]] = deque(maxlen=MOST_LOADERS)

    def expect(self, **fields: Any) -> None:
        """Note facts about the fit that begins: fields of `Reporter.begin_loop`."""
        self._expected = {name: value for name, value in fields.items() if value is not None}
        self._epochs_before_fit, self._loop = self._epochs, None

    def claim(self, yields: bool = False) -> bool:
        """Return whether these hooks are the ones that report.

        Args:
            yields: whether another framework may take over between two steps.
        """
        reporter = self.reporter
        if not reporter.take(self.owner, self.yields if yields else None):
            return False
        framework, backend = self._framework
        if not reporter.start(framework, self._version(), backend):
            return False
        if not self._closes:
            self._closes = True
            reporter.at_close(self.at_close)
        return True

    def release(self) -> None:
        """Let other hooks report: nothing is read or trained here any more."""
        self.reporter.let_go(self.owner)

    # Facts about loaders.

    def gave_epochs(self, iteration: LoaderIteration) -> bool:
        """Return whether an earlier iteration over its loader was an epoch."""
        return _is_among(iteration, self._of_epochs)

    def trained_on_others(self, iteration: LoaderIteration) -> bool:
        """Return whether there were epochs, and all were iterations over other loaders."""
        return bool(self._of_epochs) and not self.gave_epochs(iteration)

    def leaves_out(self, iteration: LoaderIteration) -> None:
        """Note that a script's collate function leaves samples out: epochs have no known size."""
        before, iteration.loader = iteration.loader, iteration.loader.leaving_out()
        self._leaving_out.append(iteration.source)
        if before == self._loop:
            self._loop = loader = iteration.loader
            self.reporter.describe_loop(
                samples_per_epoch=None, inferred=loader.inferred, why=loader.why
            )

    def is_known_to_leave_out(self, iteration: LoaderIteration) -> bool:
        """Return whether an earlier iteration over its loader left samples out."""
        return _is_among(iteration, self._leaving_out)

    # Training.

    def begin_epoch(
        self, iteration: LoaderIteration, begin_ns: int, has_epochs: bool = True
    ) -> None:
        """Begin an epoch with an iteration over a loader, or a loop without epochs.

        Args:
            iteration: over the loader, or for a loop without epochs the facts about its steps.
            begin_ns: the begin of its first step.
            has_epochs: whether it is an epoch.
        """
        self.no_more_validations()
        began = self.clock()
        self._begin_loop(iteration, has_epochs)
        took_ns = self.clock() - began
        if not self.gave_epochs(iteration):
            self._of_epochs.append(iteration.source)
        self._epochs += 1
        self._epochs_of_loop += 1
        iteration.epoch = self.reporter.next_epoch()
        opened = max(iteration.opened_ns, begin_ns)
        self.reporter.send(
            EpochStart(iteration.epoch, begin_ns, follows=True, skipped=iteration.skipped)
        )
        self.reporter.send(EpochOpened(opened))
        self._described_ns = (began, began + took_ns) if took_ns >= LEAST_NAMED_NS else None

    def end_epoch(self, iteration: LoaderIteration, end_ns: int) -> None:
        """Report the end of an epoch or of a loop without epochs."""
        if iteration.loader.has_passes:
            iteration.loss = self.losses.end_epoch()
            iteration.loss.is_told |= LOSS in iteration.metrics
            metrics = {**iteration.loss.metrics, **iteration.metrics}
            cut = not iteration.is_whole and not self._is_left_as_before(iteration)
            self.reporter.send(EpochEnd(iteration.epoch, end_ns, metrics, cut))
            self._last = self._before = iteration
        self.reporter.send(Pause(end_ns, SCRIPT_PHASE))

    def remember(self, iteration: LoaderIteration) -> None:
        """Remember the epoch that ended last by a copy, as its iteration goes on."""
        self._last = self._before = iteration

    def went_on(self, iteration: LoaderIteration, now: int) -> None:
        """Let the epoch that ended last end now, if it is this one: its loop was not over yet."""
        if iteration is self._before:
            self.reporter.send(EpochChanged(iteration.epoch, end=now))

    def _is_left_as_before(self, iteration: LoaderIteration) -> bool:
        """Return whether the script left an epoch after as many steps as the one before it.

        Then the epochs of this loop are that long, and the one before was whole, too.
        """
        before, steps = self._last, iteration.trained
        if not iteration.is_left_early or self._epochs_of_loop == 1 or before is None:
            return False
        if steps != self._own_steps:
            if not before.is_left_early or before.trained != steps:
                return False
            self._own_steps = steps
            self.reporter.send(EpochChanged(before.epoch, is_whole=True))
            if not (self._expected or iteration.is_one_of_several):
                self._say_own_length(iteration.loader, steps, iteration.is_continued)
        return True

    def _say_own_length(self, loader: Loader, steps: int, is_continued: bool) -> None:
        fields: dict[str, Any] = {"steps_per_epoch": steps}
        if loader.samples is not None and not (self._are_batches_made or is_continued):
            fields["samples_per_epoch"] = loader.limited(steps).samples
        self.reporter.describe_loop(**fields)

    def take_described(self) -> Interruption | None:
        """Return the time in which the network was described, if it was long: it is no batch's."""
        described, self._described_ns = self._described_ns, None
        return None if described is None else Interruption(*described)

    _described_ns: tuple[int, int] | None = None

    def add_metrics(self, metrics: dict[str, Any], current: LoaderIteration | None) -> None:
        """Add metrics to the epoch under way, or to the one that ended last."""
        if current is not None:
            current.metrics.update(metrics)
        elif self._last is not None and metrics:
            if self._last.loss is not None:
                self._last.loss.is_told |= LOSS in metrics
            self.reporter.send(EpochChanged(self._last.epoch, metrics=metrics))

    def look_at_tokens(self, batch: Any) -> None:
        """Report the shares of a batch's tokens that are no padding and that are trained on."""
        self.reporter.reads.are_shares_due = False
        try:
            shares = shares_of(batch)
        except Exception:  # noqa: BLE001 - whatever the batch is, its tokens are counted
            return
        if shares is not None:
            self.reporter.send(shares)

    def _begin_loop(self, iteration: LoaderIteration, has_epochs: bool) -> None:
        loader, optimizer = iteration.loader, self.stepped_by()
        if has_epochs and not self._is_another_loop(iteration, optimizer):
            source = iteration.source()
            is_same = source is not None and source is self._loop_source()
            self._epochs_of_source = self._epochs_of_source + 1 if is_same else 1
            self._loop_source = iteration.source
            if loader != self._loop and self._own_steps is None:
                self.say_that_lengths_differ(
                    loader, "epochs differ in length, as each has a loader of its own"
                )
            return
        self._own_steps, self._are_batches_made = None, False
        self._loop, self._epochs_of_loop, self._epochs_of_source = loader, 0, 1
        self._loop_optimizer = self.stepped_by
        self._loop_source = iteration.source
        why = {
            "parameters": "the script's network is not known",
            "epochs": "the script's own loop does not say how many",
            **loader.why,
        }
        # A fit that is resumed within an epoch may use another loader at first.
        expected = dict(self._expected)
        if "epochs" in expected:
            epochs_begun = self._epochs - self._epochs_before_fit
            expected["epochs"] = max(0, expected["epochs"] - epochs_begun)
        # A trainer knows the length, or that there is no end.
        infers_length = not expected
        why |= expected.pop("why", {})
        trained_by = self.gone_backward_on if optimizer is None else optimizer
        described = {} if trained_by is None else self._describe(trained_by)
        why |= described.pop("why", {})
        computes_again = described.pop("computes_again", False)
        # A trainer's module holds the network and may not be called itself.
        described["network"] = expected.get("network") or described.get("network")
        fields = {
            "batch_size": loader.batch_size,
            "samples_per_epoch": loader.samples,
            "steps_per_epoch": loader.steps,
            "workers": loader.workers,
            "inferred": loader.inferred,
            "has_epochs": None if loader.has_passes else False,
            "pin_memory": loader.pin_memory,
            "tokens_inferred": iteration.counter.inferred,
            "sequence": iteration.counter.sequence,
            **expected,
            **described,
        }
        why = {name: text for name, text in why.items() if fields.get(name) is None}
        self.marks.begin_loop(optimizer, self.gone_backward_on)
        self.reporter.begin_loop(why=why, infers_length=infers_length, **fields)
        self._loops = self.reporter.loops
        if flop_count.is_asked_for():
            self._count_a_step(computes_again)

    def _is_another_loop(self, iteration: LoaderIteration, optimizer: Any) -> bool:
        """Return whether an epoch belongs to another loop than the epochs before.

        A loop may make its loader anew for each epoch, even longer each time. But if the loader
        before gave several epochs, or another optimizer steps, a new loader is a new loop.
        """
        before, loader = self._loop, iteration.loader
        if before is None or self._loops != self.reporter.loops:
            return True
        if loader == before:
            return False
        is_made_anew = self._epochs_of_source == 1 and self._loop_optimizer() is optimizer
        return not (is_made_anew and before.has_passes and loader.batch_size == before.batch_size)

    def say_that_lengths_differ(self, loader: Loader, reason: str) -> None:
        """Report that the length of an epoch is unknown, and why."""
        self._loop = loader
        why = dict.fromkeys(_EPOCH_SIZES, reason)
        self.reporter.describe_loop(why, samples_per_epoch=None, steps_per_epoch=None)

    def say_that_epochs_are_own(self, loader: Loader, reason: str) -> None:
        """Report that only the script knows the length of an epoch, until it shows."""
        if self._own_steps is None:
            self.say_that_lengths_differ(loader, reason)

    def say_that_batches_are_made(self, reason: str) -> None:
        """Report that steps train on other batches than those of the loader."""
        if self._are_batches_made:
            return
        self._are_batches_made = True
        fields = ("batch_size", *_EPOCH_SIZES)
        nothing: dict[str, Any] = dict.fromkeys(fields)
        self.reporter.describe_loop(dict.fromkeys(fields, reason), **nothing)

    def _count_a_step(self, computes_again: bool) -> None:
        if computes_again:
            self.reporter.describe_loop({_FLOPS: flop_count.COMPUTES_AGAIN}, flops_per_sample=None)
        elif self.owner == OWNER and (self._step_count is None or self._step_count.is_over):
            self._step_count = flop_count.StepCount(self.reporter)

    # Validation.

    def validate(self, iteration: LoaderIteration) -> None:
        """Enter the phase of an iteration that doesn't train."""
        if self._step_count is not None:
            self._step_count.interrupt()
        self.marks.drop()
        self.reporter.enter(iteration.phase, iteration.begin_ns)

    def no_more_validations(self) -> None:
        """Let no later iteration validate the epoch that ended last."""
        usually = self._usually_validated
        for loader, steps in self._validated.items():
            usually[loader] = steps + usually.get(loader, [])[len(steps) :]
        self._before = self._validation = None
        self._validated = {}

    def evaluates(self) -> None:
        """Take the next iterations as an evaluation of the trained network."""
        self.phase, self._evaluated = EVALUATING, []

    def evaluated(self, metrics: dict[str, Any]) -> None:
        """Report the evaluation with the metrics that the framework gives at its end."""
        iterations, self._evaluated = self._evaluated, []
        self.phase = "validating"
        if not iterations:
            return
        values, why = finite(metrics)
        sizes = [iteration.samples for iteration in iterations]
        samples = None if None in sizes else sum(sizes)  # type: ignore[arg-type]
        if samples is None:
            why["samples"] = "the size of its batches is not known"
        self.reporter.send(
            Evaluation(
                begin=iterations[0].begin_ns,
                end=self.clock(),
                steps=sum(iteration.ended for iteration in iterations),
                samples=samples,
                whole=True,
                metrics=values,
                first_end=iterations[0].first_end_ns,
                why=why,
            )
        )

    def validated(self, iteration: LoaderIteration, end_ns: int, whole: bool) -> None:
        """Report a validation as that of the epoch before it, added to earlier ones.

        One more over its loader than any earlier epoch had belongs to no epoch: it tests the
        network at the end of the script.
        """
        loader, steps = iteration.loader, iteration.ended
        earlier = self._validated.setdefault(loader, [])
        usually = self._usually_validated.get(loader, [])[len(earlier) :]
        if iteration.phase == EVALUATING and steps:
            self._evaluated.append(iteration)
        is_usual = self._epochs_of_loop == 1 or bool(usually)
        if self._before is not None and is_usual and steps and iteration.phase == "validating":
            this = Validation(
                iteration.begin_ns, iteration.first_end_ns, iteration.last_end_ns, end_ns, steps
            )
            before = self._validation
            self._validation = this if before is None else before.followed_by(this)
            # A script may validate on a part of its loader. If it ends sooner than the last time,
            # it was cut short, as by an error.
            cut = not (whole or iteration.has_all) and bool(usually) and steps < usually[0]
            earlier.append(usually[0] if cut else steps)
            change = EpochChanged(self._before.epoch, validation=self._validation, cut=cut)
            self.reporter.send(change)
        self.reporter.send(Pause(end_ns, SCRIPT_PHASE))


def _is_among(iteration: LoaderIteration, sources: deque[Callable[[], Any]]) -> bool:
    source = iteration.source()
    return source is not None and any(remembered() is source for remembered in sources)
