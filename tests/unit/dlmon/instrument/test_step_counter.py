import itertools
import threading
from dataclasses import replace

import pytest
from fakes.loops import MS, FakeLoader, Optimizer, Script
from hypothesis import given
from hypothesis import strategies as st

from dlmon.instrument.queued import ProfiledSteps
from dlmon.records import Batches, Phase


@pytest.fixture
def script():
    return Script()


def train(script, loader, optimizer, ms=5):
    for _ in loader:
        script.took(ms)
        script.step(optimizer)


def validate(script, loader, ms=3):
    with script.no_grad():
        for _ in loader:
            script.took(ms)


def test_every_batch_of_a_pass_that_steps_counts(script):
    optimizer, loader = Optimizer(), script.loader(25, 10, wait_ms=2, opens_ms=300)
    for _ in range(2):
        train(script, loader, optimizer)
    reported = script.reported()
    assert reported.counts == [(25, 3, 3), (25, 3, 3)]
    # From one fetch to the next: two of waiting, five of work, one of the step.
    assert reported.dt_ms == [8] * 6
    assert reported.wait_ms == 12
    assert [batches.samples for batches in reported.batches] == [(10, 10, 5)] * 2
    assert [batches.opening_us for batches in reported.batches] == [300_000] * 2
    assert all(epoch.whole for epoch in reported.epochs)
    [model] = reported.models
    assert (model.batch_size, model.samples_per_epoch, model.steps_per_epoch) == (10, 25, 3)
    assert (model.epochs, model.inferred) == (None, None)
    assert "epochs" in model.why


def test_an_epoch_whose_iterator_was_made_early_begins_with_its_first_batch(script):
    optimizer = Optimizer()
    batches = iter(script.loader(30, 10, opens_ms=300))
    script.took(6000)
    begin = script.now
    train(script, batches, optimizer)
    reported = script.reported()
    [epoch] = reported.epochs
    assert epoch.begin == begin
    assert (reported.counts, reported.dt_ms) == ([(30, 3, 3)], [8] * 3)
    assert [batches.opening_us for batches in reported.batches] == [0]


@pytest.mark.parametrize("count", [2, 16])
def test_a_step_whose_batches_are_fetched_ahead_takes_each_of_them_as_long(script, count):
    """As transformers' Trainer does: fetch all batches of a step, then compute."""
    optimizer, loader = Optimizer(), script.loader(16 * count * 10, 10, wait_ms=1)
    for _ in range(2):
        batches = iter(loader)
        for _ in range(16):
            for _ in range(count):
                next(batches)
            script.took(40)
            script.step(optimizer)
    reported = script.reported()
    assert reported.counts == [(16 * count * 10, 16 * count, 16)] * 2
    # Each step: its fetches, and 41 ms.
    assert sum(reported.took_ms) == 2 * 16 * (count + 41)
    assert all(took == pytest.approx(1 + 41 / count, abs=0.01) for took in reported.took_ms)
    assert reported.wait_ms == 2 * 16 * count


def test_a_validation_between_steps_is_in_none_of_the_batches_that_were_fetched_ahead(script):
    optimizer, batches = Optimizer(), iter(script.loader(80, 10, wait_ms=1))
    for step in range(2):
        for _ in range(4):
            next(batches)
        script.took(40)
        script.step(optimizer)
        if not step:
            validate(script, script.loader(30, 10))
    with pytest.raises(StopIteration):
        next(batches)
    reported = script.reported()
    assert reported.counts == [(80, 8, 2)]
    assert reported.took_ms == [45 / 4] * 8


def test_a_few_times_backward_outside_of_any_pass_are_no_loop(script):
    for _ in range(8):
        script.backward()
    train(script, script.loader(20, 10), Optimizer())
    reported = script.reported()
    assert len(reported.models) == 1
    assert reported.counts == [(20, 2, 2)]


def test_where_there_is_an_optimiser_its_steps_count_and_not_what_goes_backward(script):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    for _ in range(4):
        for _ in range(40):
            script.backward()
        script.step(optimizer)
    reported = script.reported()
    assert reported.dt_ms == [1] + [41] * 3
    assert len(reported.models) == 1


def test_what_goes_backward_after_the_last_step_is_no_batch_of_a_loop_without_a_loader(script):
    """As quasi-Newton methods do, which compare the gradients before and after a step."""
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    for _ in range(4):
        for _ in range(2):
            script.steps.outermost.calls = 1
            script.backward()
        script.step(optimizer)
        script.steps.outermost.calls = 1
        script.backward()
    assert script.reported().steps == 4


@pytest.mark.parametrize("steps", [1, 2])
def test_an_optimizer_that_does_all_in_a_single_step_has_trained(script, steps):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    for _ in range(steps):
        script.steps.step_began(optimizer)
        for _ in range(30):
            script.backward()
        script.steps.step_ended(optimizer)
    reported = script.reported()
    assert reported.dt_ms == [30] * steps
    assert len(reported.models) == 1


def test_a_single_step_that_goes_backward_many_times_trains_before_it_has_ended(script):
    script.took(3)
    begin_ns = script.now
    script.steps.step_began(Optimizer())
    for number in range(1, 12):
        script.backward()
        phases = [item for item in script.reporter.queue if isinstance(item, Phase)]
        assert len(phases) == (number > 8)
    assert phases == [Phase(begin_ns, "training")]


def test_an_optimiser_that_calls_another_steps_once(script):
    outer, inner = Optimizer(), Optimizer()
    for _ in script.loader(30, 10):
        script.steps.step_began(outer)
        script.step(inner)
        script.steps.step_ended(outer)
    assert script.reported().counts == [(30, 3, 3)]


def test_a_step_that_raises_does_not_hide_the_next_ones(script):
    optimizer, given_up = Optimizer(), Optimizer()
    loader = script.loader(30, 10)
    script.steps.step_began(optimizer)
    train(script, loader, optimizer)
    script.steps.step_began(given_up)
    train(script, loader, optimizer)
    assert script.reported().counts == [(30, 3, 3)] * 2


def test_all_passes_between_two_trainings_belong_to_the_epoch_before_them(script):
    optimizer, loader = Optimizer(), script.loader(20, 10)
    checks, tests = script.loader(20, 5), script.loader(30, 10)
    for _ in range(2):
        train(script, loader, optimizer)
        begin = script.now
        validate(script, loader)
        script.took(500)
        validate(script, checks)
        validate(script, tests)
        end = script.now
    for epoch in (reported := script.reported()).epochs:
        assert (epoch.validation.steps, epoch.validation.passes) == (2 + 4 + 3, (2, 4, 3))
        assert epoch.validation.between_us == 500_000
        assert epoch.validation.took_s == pytest.approx((9 * 5 + 3 * 2) / 1000)
        assert epoch.whole
    assert (epoch.validation.begin, epoch.end, epoch.validation.end) == (begin, end, end)
    assert reported.counts == [(20, 2, 2)] * 2


@pytest.mark.parametrize("steps", [4, 0])
def test_a_test_after_the_last_epoch_is_none_of_its_validation(script, steps):
    optimizer, loader = Optimizer(), script.loader(20, 10)
    for _ in range(2):
        train(script, loader, optimizer)
        if steps:
            validate(script, script.loader(5 * steps, 5))
    end = script.now
    validate(script, script.loader(30, 10))
    last = script.reported().epochs[-1]
    assert (last.validation.steps if last.validation else 0) == steps
    assert last.end <= end


def test_one_more_validation_over_a_loader_than_after_any_epoch_before_is_of_no_epoch(script):
    optimizer, loader, checks = Optimizer(), script.loader(20, 10), script.loader(30, 10)
    for count in (2, 1, 2, 3):
        train(script, loader, optimizer)
        for _ in range(count):
            end = script.now
            validate(script, checks)
    epochs = script.reported().epochs
    assert [epoch.validation.steps for epoch in epochs] == [6, 3, 6, 6]
    assert epochs[-1].end == end


@pytest.mark.parametrize(
    ("batches", "whole"), [((4, 4), True), ((3, 3), True), ((4, 3), False), ((2, 4), True)]
)
def test_an_epoch_whose_validation_ended_sooner_than_the_one_before_is_not_whole(
    script, batches, whole
):
    """A script may want a part of its loader only; an error may cut a validation short."""
    optimizer, loader = Optimizer(), script.loader(20, 10)
    for count in batches:
        train(script, loader, optimizer)
        with script.no_grad():
            for number, _ in enumerate(script.loader(20, 5), 1):
                script.took(5)
                if number == count < 4:
                    break
    first, last = script.reported().epochs
    assert (first.whole, last.whole) == (True, whole)
    assert last.validation.steps == batches[1]


def test_a_pass_without_gradients_validates_from_its_first_batch_on(script):
    with script.no_grad():
        for _ in script.loader(20, 10):
            assert script.reporter.queue[-1].name == "validating"
    assert script.reported().counts == []


@pytest.mark.parametrize("gradients", [False, True])
def test_validation_within_a_batch_takes_no_time_of_it(script, gradients):
    optimizer, checks = Optimizer(), script.loader(30, 10)
    for number, _ in enumerate(script.loader(40, 10)):
        script.took(5)
        script.step(optimizer)
        if number in (0, 2):
            script.gradients = gradients
            for _ in checks:
                script.took(100)
            script.gradients = True
    reported = script.reported()
    assert reported.counts == [(40, 4, 4)]
    assert reported.dt_ms == [8] * 4
    assert reported.phases == ["validating", "training"] * 2


def test_an_evaluation_within_the_loop_after_the_last_step_is_in_the_time_of_the_epoch(script):
    optimizer, loader, checks = Optimizer(), script.loader(40, 10), script.loader(30, 10)
    ends = []
    for every in (3, 4):
        for number, _ in enumerate(loader, 1):
            script.step(optimizer)
            if number == every:
                validate(script, checks)
                script.took(70)
        ends.append(script.now)
        script.took(500)
    reported = script.reported()
    assert [epoch.end for epoch in reported.epochs] == ends
    assert reported.counts == [(40, 4, 4)] * 2
    assert reported.dt_ms[:2] + reported.dt_ms[4:] == [3] * 6


@pytest.mark.parametrize("gradients", [False, True])
def test_of_loaders_that_a_validation_reads_side_by_side_the_first_counts(script, gradients):
    optimizer, loader = Optimizer(), script.loader(40, 10)
    pair = script.loader(30, 10, wait_ms=1), script.loader(40, 10, wait_ms=1)
    for _ in range(2):
        for number, _ in enumerate(loader):
            script.took(5)
            script.step(optimizer)
            if number == 1:
                script.gradients = gradients
                for _ in zip(*pair, strict=False):
                    script.took(100)
                script.gradients = True
        script.gradients = gradients
        for _ in zip(*pair, strict=False):
            script.took(100)
        script.gradients = True
    reported = script.reported()
    assert reported.dt_ms == [8] * 8
    assert [epoch.validation.steps for epoch in reported.epochs] == [3, 3]
    assert [epoch.validation.took_s for epoch in reported.epochs] == [0.307, 0.307]


def test_a_validation_that_goes_on_with_iterators_of_before_takes_no_time_of_a_batch(script):
    optimizer, loader = Optimizer(), script.loader(100, 10)
    checks = [iter(script.loader(300, 10)) for _ in range(3)]
    script.took(1000)
    for _ in range(2):
        for number, _ in enumerate(loader):
            script.took(5)
            script.step(optimizer)
            if number in (2, 5):
                with script.no_grad():
                    for batches in checks:
                        for _ in range(4):
                            next(batches)
                            script.took(10)
    reported = script.reported()
    assert reported.counts == [(100, 10, 10)] * 2
    assert reported.dt_ms == [8] * 20
    assert all(epoch.train_end <= epoch.end for epoch in reported.epochs)


def test_a_validation_that_asks_for_all_batches_and_no_more_is_whole(script):
    optimizer, loader, checks = Optimizer(), script.loader(40, 10), script.loader(25, 10)
    for _ in range(2):
        train(script, loader, optimizer)
        batches = iter(checks)
        for _ in range(len(checks)):
            next(batches)
            script.took(10)
        del batches
    assert [epoch.validation.steps for epoch in script.reported().epochs] == [3, 3]


@pytest.mark.parametrize("kept", [2, 4])
def test_batches_left_of_a_validation_do_not_make_its_loader_one_that_trains(script, kept):
    """The script keeps the iterators of its epochs until it makes the next."""
    optimizer, loader, checks = Optimizer(), script.loader(50, 10), script.loader(30, 10)
    for _ in range(3):
        batches = iter(loader)
        for _ in range(kept):
            next(batches)
            script.took(5)
            script.step(optimizer)
        next(batches)
        for _ in checks:
            script.took(100)
        rest = iter(checks)
        next(rest)
    reported = script.reported()
    assert reported.counts == [(10 * kept, kept, kept)] * 3
    assert reported.phases.count("validating") == 3
    assert all(epoch.train_end <= epoch.end for epoch in reported.epochs)


def test_an_epoch_begins_with_the_first_of_the_iterators_made_for_it(script):
    """Each takes the place of the one of the epoch before, whose workers take time to stop."""
    optimizer = Optimizer()
    loaders = [script.loader(40, 10, opens_ms=300, stops_ms=200) for _ in range(3)]
    begins, iterators = [], [None] * 3
    for _ in range(2):
        begins.append(script.now)
        for number, loader in enumerate(loaders):
            iterators[number] = iter(loader)
        for _ in range(4):
            for batches in iterators:
                next(batches)
            script.took(5)
            script.step(optimizer)
        del batches
        script.took(60)
    reported = script.reported()
    assert [epoch.begin for epoch in reported.epochs] == begins
    assert [batches.opening_us for batches in reported.batches] == [900_000, 1_500_000]


def test_of_loaders_in_one_loop_the_first_counts_and_all_waits_do(script):
    optimizer = Optimizer()
    loader, other = script.loader(40, 10, wait_ms=2), script.loader(60, 6, wait_ms=3)
    for _ in range(2):
        for _ in zip(loader, other, strict=False):
            script.took(5)
            script.step(optimizer)
    reported = script.reported()
    assert reported.counts == [(40, 4, 4)] * 2
    assert reported.wait_ms == 2 * 4 * (2 + 3)


class Beside:
    """Loaders that a script reads side by side with `next`; it begins each again as it ends."""

    def __init__(self, *loaders):
        self.loaders = loaders

    def begin(self):
        self.iterators = [iter(loader) for loader in self.loaders]

    def take(self):
        for number, loader in enumerate(self.loaders):
            try:
                next(self.iterators[number])
            except StopIteration:
                self.iterators[number] = iter(loader)
                next(self.iterators[number])


@pytest.mark.parametrize("lengths", [(4, 100), (4, 12), (100, 4), (1, 3)])
@pytest.mark.parametrize("begins", ["each", "once"])
@pytest.mark.parametrize("validates", [True, False])
def test_an_epoch_goes_on_while_a_script_begins_its_loaders_again(
    script, lengths, begins, validates
):
    optimizer, held_out = Optimizer(), script.loader(20, 10)
    beside = Beside(*(script.loader(10 * length, 10) for length in lengths))
    for epoch in range(4):
        if epoch == 0 or begins == "each":
            beside.begin()
        for _ in range(10):
            beside.take()
            script.took(5)
            script.step(optimizer)
        if validates:
            validate(script, held_out)
    del beside
    reported = script.reported()
    assert (reported.steps, reported.samples) == (40, 400)
    if begins == "once" and lengths[0] > lengths[1]:
        # The loader that counts never ends: all is a part of its pass.
        assert reported.counts == [(400, 40, 40)]
    elif begins == "once" and not validates:
        # Nothing tells where an epoch of the script ends.
        assert (reported.counts, reported.epochs[0].whole) == ([(400, 40, 40)], False)
    else:
        assert reported.counts == [(100, 10, 10)] * 4
        assert all(epoch.whole for epoch in reported.epochs)
        steps = [epoch.validation and epoch.validation.steps for epoch in reported.epochs]
        assert steps == [2 if validates else None] * 4
        assert reported.models[-1].steps_per_epoch == 10
    assert {model.loop for model in reported.models} == {0}


def test_a_loader_that_a_loop_reads_to_its_end_gives_epochs_though_another_goes_on(script):
    optimizer, loader = Optimizer(), script.loader(40, 10)
    other = iter(script.loader(1000, 10))
    for _ in range(3):
        for _ in loader:
            next(other)
            script.step(optimizer)
    assert script.reported().counts == [(40, 4, 4)] * 3


def test_a_script_that_alone_begins_a_loader_again_makes_an_epoch_of_each_pass(script):
    optimizer, beside = Optimizer(), Beside(script.loader(40, 10))
    beside.begin()
    for _ in range(12):
        beside.take()
        script.step(optimizer)
    del beside
    assert script.reported().counts == [(40, 4, 4)] * 3


def test_a_validation_after_an_epoch_whose_iterator_is_kept_belongs_to_it(script):
    optimizer, loader, held_out = Optimizer(), script.loader(100, 10), script.loader(20, 10)
    for _ in range(3):
        batches = iter(loader)
        for _ in range(6):
            next(batches)
            script.took(5)
            script.step(optimizer)
        script.took(1)
        validate(script, held_out)
    del batches
    reported = script.reported()
    assert reported.counts == [(60, 6, 6)] * 3
    assert [epoch.validation.steps for epoch in reported.epochs] == [2] * 3
    # Its last step lasts as long as the others, and until the validation at most.
    assert reported.dt_ms == [8] * 18
    took_ms = [(epoch.validation.end - epoch.train_end) // MS for epoch in reported.epochs]
    assert took_ms == [1 + 2 * (2 + 3) + 2] * 3


def test_validations_between_the_steps_of_a_pass_belong_to_no_epoch_nor_does_the_last(script):
    optimizer, batches = Optimizer(), iter(script.loader(100, 10))
    held_out = script.loader(20, 10)
    for _ in range(3):
        for _ in range(3):
            next(batches)
            script.step(optimizer)
        validate(script, held_out)
    del batches
    [epoch] = script.reported().epochs
    assert (epoch.steps, epoch.validation) == (9, None)


@pytest.mark.parametrize("in_reverse", [False, True])
def test_of_loaders_whose_batches_come_in_turn_every_step_counts(script, in_reverse):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    loaders = [script.loader(40, 10, wait_ms=2) for _ in range(3)]
    for _ in range(2):
        iterators = [iter(loader) for loader in loaders]
        for _ in range(4):
            for batches in reversed(iterators) if in_reverse else iterators:
                next(batches)
                script.backward(ms=5)
                script.step(optimizer)
    del batches, iterators
    reported = script.reported()
    assert reported.counts == [(120, 12, 12)] * 2
    assert reported.dt_ms == [8] * 24
    assert {model.loop for model in reported.models} == {0}


def test_the_last_step_that_is_read_ahead_lasts_as_long_as_the_others(script):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    loader = script.loader(50, 10, wait_ms=2)
    for _ in range(2):
        for _ in loader.ahead():
            script.backward(ms=5)
            script.step(optimizer)
            script.took(90)
        # Something else, which dlmon does not see.
        script.took(4000)
    reported = script.reported()
    assert reported.counts == [(50, 5, 5)] * 2
    # The first step fetches two batches.
    assert reported.dt_ms == [100, 98, 98, 98, 98] * 2
    assert [epoch.whole for epoch in reported.epochs] == [True, True]
    assert reported.wait_ms == 2 * 5 * 2


def read_in_a_thread(loader):
    thread = threading.Thread(target=lambda: sum(loader))
    thread.start()
    thread.join()


class Evaluated:
    """A network in evaluation mode."""

    training = False


def evaluate(script, batches, ms=3):
    for _ in range(batches):
        script.steps.outermost.evaluated(Evaluated())
        script.took(ms)


@pytest.mark.parametrize("held", [1, 2, 4])
def test_a_validation_that_another_thread_reads_belongs_to_the_epoch_before_it(script, held):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    kept, ends = [], []
    loader, checks = script.loader(30, 10), script.loader(40, 10, kept=kept)
    script.step(optimizer)
    for _ in range(3):
        read_in_a_thread(loader)
        for _ in range(3):
            script.backward(ms=5)
            script.step(optimizer)
        read_in_a_thread(checks)
        evaluate(script, 4)
        del kept[:-held]
        ends.append(script.now)
    script.took(500)
    reported = script.reported()
    assert reported.counts == [(30, 3, 3)] * 3
    assert [epoch.validation.steps for epoch in reported.epochs] == [4] * 3
    assert [epoch.end for epoch in reported.epochs] == ends
    assert reported.phases.count("validating") == 3


def test_what_another_thread_has_read_is_trained_on_though_the_network_is_evaluated_before(script):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    script.step(optimizer)
    kept = []
    read_in_a_thread(script.loader(30, 10, kept=kept))
    evaluate(script, 3)
    read_in_a_thread(script.loader(10, 10))
    for _ in range(3):
        script.backward(ms=5)
        script.step(optimizer)
        kept.pop(0)
    assert script.reported().counts == [(30, 3, 3)]


def test_what_another_thread_has_read_counts_once_it_is_trained_on(script):
    """It reads all of an epoch before the first step, and of the next epoch before the last one."""
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    loader = script.loader(30, 10, wait_ms=2)

    def train(steps):
        for _ in range(steps):
            script.backward(ms=5)
            script.step(optimizer)

    # Which thread trains is known by its first step.
    train(1)
    read_in_a_thread(loader)
    train(2)
    read_in_a_thread(loader)
    train(4)
    reported = script.reported()
    assert reported.counts == [(30, 3, 3)] * 2
    assert {batches.wait_us for batches in reported.batches} == {None}


def test_a_step_within_which_the_loader_ends_holds_the_batches_that_the_script_repeats_for_it(
    script,
):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    network = script.steps.outermost
    batches = itertools.cycle(script.loader(50, 10))
    for _ in range(4):
        for size in itertools.islice(batches, 3):
            network.called()
            network.calls, network.samples = network.calls + 1, network.samples + size
            script.backward(ms=5)
        script.step(optimizer)
    reported = script.reported()
    assert reported.counts == [(60, 6, 2)]
    assert [sum(batches.counted) for batches in reported.batches] == [60, 60]


def test_of_two_optimizers_that_step_for_one_batch_the_second_takes_none_that_was_read_ahead(
    script,
):
    critic, generator = Optimizer(), Optimizer()
    script.steps.reports.has_optimizers = True
    for _ in range(2):
        for _ in script.loader(60, 10).ahead():
            for optimizer in (critic, generator):
                script.backward(ms=5)
                script.step(optimizer)
    assert script.reported().counts == [(60, 6, 12)] * 2


def test_a_batch_that_is_in_hand_as_a_loop_ends_counts_for_nothing(script):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    steps = 0
    for _ in range(2):
        for _ in script.loader(40, 10):
            if steps == 6:
                break
            script.backward()
            script.step(optimizer)
            steps += 1
    reported = script.reported()
    assert reported.counts == [(40, 4, 4), (20, 2, 2)]
    assert [epoch.whole for epoch in reported.epochs] == [True, False]


def test_an_epoch_that_lost_a_batch_is_not_whole(script):
    optimizer = Optimizer()
    for number, _ in enumerate(batches := iter(script.loader(30, 10))):
        script.step(optimizer)
        if number == 1:
            # The next one raises as it is fetched.
            batches.iteration.lose_batch()
    [epoch] = script.reported().epochs
    assert (epoch.samples, epoch.whole) == (30, False)


def test_a_loop_over_tasks_that_each_train_with_a_loader_counts_the_inner_one(script):
    optimizer = Optimizer()
    for _ in script.loader(3, 1):
        train(script, script.loader(20, 10), optimizer)
    assert script.reported().counts == [(20, 2, 2)] * 3


def test_another_loader_takes_over_from_one_that_an_error_left(script):
    optimizer = Optimizer()
    left = iter(script.loader(1000, 10))
    for _ in range(5):
        next(left)
        script.step(optimizer)
    for _ in range(2):
        train(script, script.loader(200, 10), optimizer)
    assert script.reported().counts == [(50, 5, 5), (200, 20, 20), (200, 20, 20)]


def test_a_loop_without_a_loader_ends_when_a_pass_trains_and_goes_on_through_validation(script):
    optimizer = Optimizer()
    for number in range(6):
        script.took(4)
        script.step(optimizer)
        if number == 2:
            validate(script, script.loader(20, 10), ms=100)
    train(script, script.loader(20, 10), optimizer)
    reported = script.reported()
    assert reported.counts == [(20, 2, 2)]
    alone = [batches for batches in reported.batches if batches.samples is None]
    assert sum(len(batches.dt_us) for batches in alone) == 6
    assert max(took for batches in alone for took in batches.dt_us) <= 5000


def draw(script, loader, optimizer, steps):
    """Train as scripts do that count steps, not epochs: an iterator for each batch."""
    for _ in range(steps):
        next(iter(loader))
        script.took(5)
        script.step(optimizer)


def hold(script, loader, optimizer, steps):
    """Train with single batches of iterators that have a name."""
    for _ in range(steps):
        batches_of_loader = iter(loader)
        next(batches_of_loader)
        script.took(5)
        script.step(optimizer)
    del batches_of_loader


@pytest.mark.parametrize("take", [draw, hold])
def test_a_loop_that_takes_single_batches_has_samples_and_waits_for_them(script, take):
    loader = script.loader(100, 10, wait_ms=2, opens_ms=30)
    take(script, loader, Optimizer(), steps=6)
    reported = script.reported()
    assert reported.epochs == []
    [model] = reported.models
    assert (model.batch_size, model.samples_per_epoch, model.has_epochs) == (10, None, False)
    assert model.why["samples_per_epoch"] == "a loop that takes single batches has no epochs"
    # To the end of each step: 30 of opening, two of waiting, five of work, one of the step.
    assert reported.dt_ms == [1] + [38] * 5
    assert [batches.samples for batches in reported.batches] == [10]
    assert reported.wait_ms == 5 * 32
    assert "validating" not in reported.phases


def test_of_two_loaders_that_give_single_batches_the_first_counts_and_both_are_waited_for(script):
    optimizer, mine = Optimizer(), script.loader(100, 10, wait_ms=2)
    other = script.loader(100, 50, wait_ms=3)
    for _ in range(5):
        next(iter(mine))
        next(iter(other))
        script.step(optimizer)
    reported = script.reported()
    assert [sum(batches.counted) for batches in reported.batches] == [50]
    assert reported.wait_ms == 4 * 5


def test_a_loop_over_one_batch_that_was_taken_before_it_has_no_samples(script):
    optimizer = Optimizer()
    next(iter(script.loader(100, 10)))
    for _ in range(5):
        script.took(5)
        script.step(optimizer)
    reported = script.reported()
    [model] = reported.models
    assert (model.batch_size, model.has_epochs) == (None, False)
    assert {batches.samples for batches in reported.batches} == {None}
    assert {batches.wait_us for batches in reported.batches} == {None}


@pytest.mark.parametrize("added_up", [1, 2])
def test_what_was_fetched_ahead_and_not_trained_on_is_no_part_of_a_run(script, added_up):
    """As llama2.c does: the next batch is fetched between the way forward and the way back."""
    optimizer, loader = Optimizer(), script.loader(1000, 10, wait_ms=2, length=7)
    batches = iter(loader)
    next(batches)
    for _ in range(12):
        for _ in range(added_up):
            script.took(5)
            next(batches)
            script.backward()
        script.step(optimizer)
    del batches
    reported = script.reported()
    assert reported.counts == [(120 * added_up, 12 * added_up, 12)]
    [epoch] = reported.epochs
    assert epoch.tokens == 120 * added_up * 7


@pytest.mark.parametrize("tested", [1, 3], ids=["one batch", "several"])
def test_a_loop_that_tests_itself_on_what_it_trains_on_is_still_in_its_epoch(script, tested):
    optimizer, loader = Optimizer(), script.loader(100, 10, wait_ms=2)
    for _ in range(2):
        for number, _ in enumerate(loader):
            script.took(5)
            script.step(optimizer)
            if number % 4 == 0:
                with script.no_grad():
                    for seen, _ in enumerate(loader):
                        if seen == tested:
                            break
                        script.took(50)
    reported = script.reported()
    assert reported.counts == [(100, 10, 10), (100, 10, 10)]
    assert reported.dt_ms == [8] * 20
    assert [epoch.whole for epoch in reported.epochs] == [True, True]


def test_a_validation_between_named_single_batches_takes_no_time_of_them(script):
    optimizer, loader, checks = Optimizer(), script.loader(100, 10, wait_ms=2), script.loader(30)
    for number in range(6):
        one = iter(loader)
        next(one)
        script.step(optimizer, 10)
        if number % 2:
            with script.no_grad():
                validate(script, checks, ms=50)
    del one
    reported = script.reported()
    assert reported.epochs == []
    assert sum(sum(batches.counted) for batches in reported.batches) == 60
    assert reported.dt_ms == [10] + [12] * 5
    assert reported.phases.count("validating") == 3


def test_a_loader_that_goes_through_no_set_of_samples_has_steps_and_no_epochs(script):
    optimizer, loader, checks = Optimizer(), script.loader(60, 10), script.loader(20, 10)
    loader.facts = loader.facts.without_passes("it draws for ever")
    for _ in range(2):
        for number, _ in enumerate(loader):
            script.step(optimizer)
            if number == 2:
                validate(script, checks)
    reported = script.reported()
    assert reported.epochs == []
    [model] = reported.models
    assert (model.has_epochs, model.samples_per_epoch, model.steps_per_epoch) == (False, None, None)
    assert model.why["epochs"] == "it draws for ever"
    assert sum(sum(batches.counted) for batches in reported.batches) == 120
    assert reported.dt_ms == [3] * 12


def test_a_loop_left_after_a_batch_is_an_epoch_where_its_loader_gave_one_and_else_a_step(script):
    optimizer, loader = Optimizer(), script.loader(100, 10)
    for _ in range(2):
        for _ in loader:
            script.step(optimizer)
            script.step(optimizer)
            break
        validate(script, script.loader(30))
        train(script, loader, optimizer)
    reported = script.reported()
    assert reported.counts == [(100, 10, 10), (10, 1, 2), (100, 10, 10)]
    assert sum(len(batches.dt_us) for batches in reported.batches) == 22
    assert [model.has_epochs for model in reported.models] == [False, None]


def test_nothing_counts_while_another_framework_does(script):
    optimizer = Optimizer()
    assert script.reporter.take("keras")
    train(script, script.loader(20, 10), optimizer)
    validate(script, script.loader(20, 10))
    script.step(optimizer)
    script.step(optimizer)
    script.reporter.let_go("keras")
    train(script, script.loader(30, 10), optimizer)
    assert script.reporter.take("keras")
    assert script.reported().counts == [(30, 3, 3)]


def test_steps_without_a_loader_let_another_framework_train_in_between(script):
    optimizer = Optimizer()
    for _ in range(3):
        script.step(optimizer)
    assert script.reporter.take("keras")
    script.reporter.begin_loop(batch_size=5)
    script.reporter.let_go("keras")
    for _ in range(3):
        script.step(optimizer)
    assert [model.loop for model in script.reported().models] == [0, 1, 2]


def test_steps_of_a_thread_that_reads_nothing_belong_to_the_pass_that_is_read(script):
    optimizer = Optimizer()

    def step():
        thread = threading.Thread(target=script.step, args=(optimizer,))
        thread.start()
        thread.join()

    for _ in script.loader(30, 10):
        step()
    reported = script.reported()
    assert reported.counts == [(30, 3, 3)]
    # Whoever reads does not work meanwhile: how long it waited says nothing.
    assert {batches.wait_us for batches in reported.batches} == {None}


@pytest.mark.parametrize("is_said_by", ["loader", "iterator"])
def test_the_rest_of_an_epoch_is_no_whole_one_and_goes_on_where_it_was_left(script, is_said_by):
    optimizer, loader, rest = Optimizer(), script.loader(95, 10), script.loader(35, 10)
    rest.facts = loader.facts
    if is_said_by == "loader":
        rest.facts = replace(rest.facts, skipped=6)
    script.steps.reports.expect(epochs=3, network="Net")
    batches = iter(rest)
    if is_said_by == "iterator":
        batches.iteration.skip(6)
    train(script, batches, optimizer)
    train(script, loader, optimizer)
    reported = script.reported()
    assert reported.counts == [(35, 4, 4), (95, 10, 10)]
    assert [epoch.whole for epoch in reported.epochs] == [False, True]
    assert [batches.first for batches in reported.batches] == [6, 0]
    assert [batches.opening_us for batches in reported.batches] == [0, 0]
    [model] = reported.models
    assert (model.steps_per_epoch, model.samples_per_epoch, model.epochs) == (10, 95, 3)


def test_what_was_asked_of_a_fit_holds_until_it_ends(script):
    optimizer = Optimizer()
    script.steps.reports.expect(epochs=3, network="Net", parameters=12)
    for samples in (20, 30, 30):
        train(script, script.loader(samples, 10), optimizer)
    batches = iter(script.loader(30, 10))
    for _ in range(2):
        next(batches)
        script.step(optimizer)
    script.steps.fit_ended()
    train(script, script.loader(40, 10), optimizer)
    reported = script.reported()
    assert [(m.epochs, m.network) for m in reported.models] == [
        (3, "Net"),
        (3, "Net"),
        (None, None),
    ]
    assert [epoch.whole for epoch in reported.epochs] == [True, True, True, False, True]


class Epochs:
    """Draws epochs of every kind, runs them, and counts what a script would."""

    def __init__(self, draw):
        self.script = Script()
        self.script.steps.reports.has_optimizers = True
        self.draw = draw
        self.optimizers = [Optimizer() for _ in range(draw(st.integers(1, 2)))]
        self.beside = self.endless(FakeLoader(self.script, 12, 5))
        self.checks = FakeLoader(self.script, draw(st.integers(1, 20)), 4)
        self.counts, self.steps = [], 0

    @staticmethod
    def endless(loader):
        while True:
            yield from loader

    def run(self):
        draw, script = self.draw, self.script
        samples, batch_size = draw(st.integers(1, 40)), draw(st.integers(1, 8))
        loader = FakeLoader(script, samples, batch_size, says=draw(st.booleans()))
        every = draw(st.integers(1, min(3, len(loader))))
        leaves = draw(st.sampled_from(["no", "after a step", "at the top"]))
        last = draw(st.integers(every - 1, len(loader) - 1))
        # A last batch that never steps could as well be one that gradients were added up for.
        if every > 1 and last + 2 == len(loader):
            leaves = "no"
        check_every = draw(st.sampled_from([0, 0, 2, 3]))
        # What is read ahead of its first step must not be over before that.
        ahead = draw(st.booleans()) and leaves == "no" and not check_every and len(loader) > every
        with_beside = draw(st.booleans()) and not ahead
        count = steps = updates = 0
        for number, size in enumerate(loader.ahead() if ahead else loader):
            if leaves == "at the top" and number == last + 1:
                break
            if with_beside:
                next(self.beside)
            script.took(draw(st.integers(0, 3)))
            count, steps = count + size, steps + 1
            script.backward(0)
            stepped = number % every == every - 1
            if stepped:
                for optimizer in self.optimizers:
                    script.step(optimizer, 0)
                updates += len(self.optimizers)
            if check_every and number % check_every == 0:
                self.check()
            if leaves == "after a step" and stepped and number >= last:
                break
        self.steps += steps
        # What is left after its first batch is a step of no epoch.
        if steps > 1 or leaves != "after a step" or (loader.facts.steps == 1):
            self.counts.append((count, steps, updates))

    def check(self):
        script = self.script
        script.gradients = self.draw(st.booleans())
        for number, _ in enumerate(self.checks):
            script.took(1)
            # With gradients, what is left early could as well be a second source of data.
            if not script.gradients and number == 2:
                break
        script.gradients = True


@given(st.data())
def test_whatever_is_nested_zipped_or_left_every_sample_batch_and_step_is_counted(data):
    epochs = Epochs(data.draw)
    for _ in range(data.draw(st.integers(1, 4))):
        epochs.run()
        if data.draw(st.booleans()):
            epochs.check()
    script = epochs.script
    del epochs.beside
    reported = script.reported()
    assert reported.counts == epochs.counts
    assert sum(len(batches.dt_us) for batches in reported.of(Batches)) == epochs.steps


@pytest.mark.parametrize("failing", range(4))
def test_a_step_that_runs_out_of_memory_is_none_and_takes_no_time_of_others(script, failing):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    for number, _ in enumerate(script.loader(40, 10, wait_ms=2)):
        script.took(5)
        if number == failing:
            script.backward()
            script.steps.ran_out_of_memory()
            script.took(700)
            continue
        script.backward()
        script.step(optimizer)
    reported = script.reported()
    assert reported.counts == [(30, 3, 3)]
    assert reported.dt_ms == [9] * 3
    # One of its batches was lost.
    assert [epoch.whole for epoch in reported.epochs] == [False]


def test_memory_that_runs_out_in_a_validation_leaves_the_batch_around_it_alone(script):
    optimizer = Optimizer()
    for number, _ in enumerate(script.loader(30, 10)):
        script.took(5)
        script.step(optimizer)
        if number == 1:
            with script.no_grad():
                for _ in script.loader(20, 10):
                    script.took(3)
                    script.steps.ran_out_of_memory()
                    break
    reported = script.reported()
    assert reported.counts == [(30, 3, 3)]


def test_batches_whose_gradients_were_added_up_count_though_the_next_one_fails(script):
    optimizer, script.steps.reports.has_optimizers = Optimizer(), True
    for number, _ in enumerate(script.loader(60, 10)):
        script.took(5)
        if number == 3:
            script.steps.ran_out_of_memory()
            continue
        script.backward()
        if number % 2:
            script.step(optimizer)
    reported = script.reported()
    assert reported.counts == [(50, 5, 2)]
    assert min(reported.took_ms) > 0


def leave(script, loader, optimizer, steps):
    """Train on the first batches of a loader, and leave it with the next one in hand."""
    for number, _ in enumerate(loader):
        if number == steps:
            break
        script.took(5)
        script.step(optimizer)


def test_an_epoch_left_after_as_many_steps_as_the_one_before_is_whole_and_so_is_that_one(script):
    optimizer, loader = Optimizer(), script.loader(100, 10)
    for steps in (4, 4, 4, 3):
        leave(script, loader, optimizer, steps)
    reported = script.reported()
    assert [epoch.steps for epoch in reported.epochs] == [4, 4, 4, 3]
    assert [epoch.whole for epoch in reported.epochs] == [True, True, True, False]
    lengths = [(model.steps_per_epoch, model.samples_per_epoch) for model in reported.models]
    assert lengths == [(10, 100), (4, 40)]


@pytest.mark.parametrize("loses", [False, True])
def test_an_epoch_that_lost_a_batch_before_the_script_left_it_is_not_whole(script, loses):
    optimizer, loader = Optimizer(), script.loader(100, 10)
    for _ in range(2):
        batches = iter(loader)
        if loses:
            batches.iteration.lose_batch()
        leave(script, batches, optimizer, 4)
        del batches
    assert [epoch.whole for epoch in script.reported().epochs] == [not loses] * 2


def test_an_epoch_whose_validation_was_cut_short_is_not_whole_though_the_script_leaves_it(script):
    optimizer, loader, checks = Optimizer(), script.loader(100, 10), script.loader(40, 10)
    train(script, loader, optimizer)
    validate(script, checks)
    leave(script, loader, optimizer, 4)
    with script.no_grad():
        for number, _ in enumerate(checks):
            script.took(5)
            if number == 1:
                break
    leave(script, loader, optimizer, 4)
    assert [epoch.whole for epoch in script.reported().epochs] == [True, False, True]


def test_an_epoch_that_a_profiler_slowed_is_whole_and_marked_though_the_script_leaves_each(script):
    optimizer, loader = Optimizer(), script.loader(100, 10)
    for number, _ in enumerate(loader):
        if number == 4:
            break
        script.step(optimizer)
        if number > 1:
            script.reporter.send(ProfiledSteps(on=number == 2))
    leave(script, loader, optimizer, 4)
    epochs = script.reported().epochs
    assert [(epoch.whole, epoch.profiled) for epoch in epochs] == [(True, True), (True, None)]
