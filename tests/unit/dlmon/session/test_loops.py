"""Figures of a script that trains in several loops: unlike ones are apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.recorded import folded
from fakes.scripts import SECOND, Script, script_session

from dlmon.records import Epoch, Validation
from dlmon.session.epoch_comparison import slow_epochs
from dlmon.session.loops import Loop


def ended(script):
    return folded(script.records).snapshot(is_over=True)


def test_the_figures_are_those_of_the_loop_whose_steps_took_most_time():
    script = Script().train("small", 10, step_ms=1, steps=80)
    script.train("large", 900, step_ms=200, first_ms=5_000, epochs=4).train("small_1", 10, steps=80)
    snapshot = ended(script)
    assert snapshot.seconds_per_epoch.value == pytest.approx(20.0)
    assert snapshot.seconds_per_epoch.epochs == 3
    assert snapshot.samples_per_second.mean == pytest.approx(32 / 0.2)
    assert snapshot.step_ms.median == pytest.approx(200, rel=0.01)
    assert snapshot.measured_model.network == "large"
    assert [loop.headline for loop in snapshot.loops] == [None, True]


def test_each_of_the_unlike_loops_has_figures_of_its_own():
    script = Script().train("small", 10, step_ms=10, steps=200).train("large", 900, step_ms=50)
    script.train("large", 900, batch=64, step_ms=80)
    small, large, other = ended(script).loops
    of_each = [(one.network, one.batch_size, one.batches, one.epochs) for one in (small, large)]
    assert of_each == [("small", 32, 600, 3), ("large", 32, 300, 3)]
    assert (other.network, other.batch_size, other.train_s) == ("large", 64, pytest.approx(24.0))
    seconds = [loop.seconds_per_epoch.value for loop in (small, large, other)]
    assert seconds == pytest.approx([2.0, 5.0, 8.0])
    assert small.samples_per_second.mean == pytest.approx(32 / 0.01)
    # What all of them did is counted together.
    script = Script().train("a", 1, first_ms=2_000, steps=200)
    snapshot = ended(script.train("b", 2, first_ms=4_000, steps=200))
    assert snapshot.batches == 1200
    assert snapshot.compile_s == pytest.approx(1.98 + 3.98)
    # Those of one name that a person gave are told apart by their parameters.
    script = Script().train("net_1", None).train("net_2", None).train("net_2", 8)
    assert len(ended(script).loops) == 3


@pytest.mark.parametrize("late", [False, True])
def test_folds_of_one_set_are_one_loop_and_the_first_epoch_of_each_is_left_out(late):
    script = Script()
    for fold in range(5):
        name = f"sequential_{fold}" if fold else "sequential"
        script.train(name, 700, steps=200 + (fold == 1), first_ms=3_000, late=late)
    snapshot = ended(script)
    (loop,) = snapshot.loops
    assert (loop.count, loop.epochs, loop.network) == (5, 15, "sequential")
    epoch = snapshot.seconds_per_epoch
    assert epoch.value == pytest.approx(4.0, rel=0.01)
    assert (epoch.epochs, epoch.left_out) == (10, 5)
    # What compiles is no stall, and no step.
    assert snapshot.compile_s == pytest.approx(5 * 2.98)
    assert snapshot.stalls == 0
    assert snapshot.step_ms.mean == pytest.approx(20)
    assert snapshot.batches == sum(1000 - 400 + (fold == 1) * 3 for fold in range(5))


def test_a_loop_without_a_loader_counts_its_steps_however_the_one_before_did():
    script = Script().train(None, None, steps=10, epochs=1)
    script.train(None, None, batch=None, steps=390, epochs=1)
    session = folded(script.records)
    snapshot = session.snapshot(is_over=True)
    assert snapshot.samples_per_second.unit == "steps/s"
    assert snapshot.samples_per_second.mean == pytest.approx(50)
    assert [loop.counts_steps for loop in snapshot.loops] == [None, True]
    rates = session.throughput.columns(session.training_start, SECOND, 8)
    assert rates[5] == pytest.approx(50)


def test_an_epoch_is_slow_beside_those_of_its_own_loop():
    script = Script().train("a", 1, epochs=9, first_ms=900).train("b", 2, step_ms=60, epochs=5)
    session = folded(script.records)
    epochs = session.snapshot(is_over=True).epochs
    assert session.slow_epochs(epochs) == frozenset()
    assert slow_epochs(epochs, session.epoch_history.of, None) != frozenset()
    alike, _ = session.epochs_like(epochs[10], epochs)
    assert [epoch.epoch for epoch in alike] == [9, 10, 11, 12, 13]


def test_an_epoch_of_several_processes_has_the_samples_of_all():
    alone = folded(script_session(samples=64, steps=200)).snapshot(is_over=True)
    together = folded(script_session(samples=64, steps=100, trainers=2)).snapshot(is_over=True)
    assert alone.measured_model.samples_per_epoch == 12_800
    assert together.measured_model.samples_per_epoch == 12_800
    assert together.loops[0].samples_per_epoch == 12_800


def test_what_a_validation_takes_follows_when_more_is_known_of_one():
    loop, epoch = Loop(), Epoch(0, 0, 1, 10 * SECOND, True, 320, {})
    loop.add_epoch(replace(epoch, validation=Validation(0, 1, 2, 2 * SECOND, 5)))
    loop.add_epoch(replace(epoch, begin=1, validation=Validation(0, 1, 2, 4 * SECOND, 5)))
    assert loop.validations.seconds(5) == pytest.approx(4)
    loop.add_epoch(replace(epoch, begin=1, validation=Validation(0, 1, 2, 6 * SECOND, 5)))
    assert loop.validations.seconds(5) == pytest.approx(6)
