"""Which epochs are slow, and what differed in one: what was measured, and beyond chance."""

import random
from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import script_session
from fakes.slow_epoch import with_slow_epoch
from hypothesis import given
from hypothesis import strategies as st

from dlmon.records import Batches, Epoch, Validation
from dlmon.session.epoch_comparison import (
    LEAST_SHARE,
    NO_STATISTICS,
    EpochStatistics,
    compare_epoch,
    seconds_of,
    slow_epochs,
)

S = 10**9
LONG = recorded_session("training", epochs=12, ended=10)


def epochs_of(*seconds, whole=True):
    """Return epochs that took so long, one after the other."""
    found, at = [], 0
    for number, took in enumerate(seconds):
        end = at + int(took * S)
        found.append(Epoch(number, at, end, end, whole, 1_000, {}, steps=500))
        at = end
    return tuple(found)


def nothing(epoch):
    return NO_STATISTICS


def numbers(epochs, slow):
    return [epoch.epoch for epoch in epochs if epoch.begin in slow]


def compared(number, epochs, compile_s=None, **values):
    """Return the comparison of an epoch of which the machine said more than of the others."""
    usual = {"sm_mhz": 1_800.0, "other_cores": 0.2, "heat_pct": 0.0, "io_wait_pct": 1.0}
    uses = {one.begin: EpochStatistics(9, usual) for one in epochs}
    uses[epochs[number].begin] = EpochStatistics(9, usual | values)
    return compare_epoch(epochs[number], epochs, lambda one: uses[one.begin], compile_s)


@pytest.mark.parametrize(
    ("took_s", "slow"),
    [
        # One that took longer than all others is.
        ((9.1, 9.0, 9.2, 12.0, 9.1), [3]),
        # Of two nobody knows; of three, one that is far beyond both others.
        ((9.0, 30.0), []),
        ((9.0, 9.2, 30.0), [2]),
        ((9.0, 14.0, 9.1), [1]),
        ((9.0, 13.0, 9.1), []),
        ((9.0, 20.0, 30.0), []),
        ((0.001, 0.001, 0.001), []),
        # Those that vary by themselves are not.
        ((8.0, 10.0, 9.0, 11.0, 9.5, 12.0), []),
    ],
)
def test_an_epoch_is_slow_that_is_beyond_what_the_others_vary(took_s, slow):
    epochs = epochs_of(*took_s)
    assert numbers(epochs, slow_epochs(epochs, nothing, None)) == slow


def test_an_epoch_that_was_cut_short_or_whose_steps_nobody_counted_is_not_compared():
    *whole, last = epochs_of(9.0, 9.0, 9.0, 9.0, 40.0)
    assert slow_epochs((*whole, replace(last, whole=False)), nothing, None) == frozenset()
    profiled = (*whole, replace(last, profiled=True))
    assert slow_epochs(profiled, nothing, None) == frozenset()
    assert slow_epochs((*whole, last), nothing, None) == {last.begin}
    uncounted = tuple(replace(e, steps=None) for e in epochs_of(9.0, 9.0, 9.0, 40.0, whole=False))
    assert slow_epochs(uncounted, nothing, None) == frozenset()


def test_what_compiled_doesnt_make_the_first_epoch_slow():
    epochs = epochs_of(11.0, 9.0, 9.0, 9.0, 9.0)
    assert numbers(epochs, slow_epochs(epochs, nothing, None)) == [0]
    assert slow_epochs(epochs, nothing, 2.0) == frozenset()
    assert numbers(
        epochs_of(14.0, 9.0, 9.0, 9.0), slow_epochs(epochs_of(14.0, 9.0, 9.0, 9.0), nothing, 2.0)
    )


def test_what_compiled_in_a_later_epoch_is_taken_out_of_that_one():
    epochs = epochs_of(11.0, 9.0, 9.0, 14.0, 9.0, 9.0)
    use = {epochs[3].begin: EpochStatistics(9, {"compiled_s": 5.0})}

    def use_of(epoch):
        return use.get(epoch.begin, NO_STATISTICS)

    assert numbers(epochs, slow_epochs(epochs, nothing, 7.0)) == [3]
    assert slow_epochs(epochs, use_of, 7.0) == frozenset()
    found = compare_epoch(epochs[3], epochs, use_of, 7.0, 1.0)
    assert [(part.name, part.value) for part in found.parts] == [("compiling_s", 5.0)]
    found = compare_epoch(epochs[0], epochs, use_of, 7.0)
    assert [(part.name, part.value) for part in found.parts] == [("compiling_s", 2.0)]


def test_epochs_of_as_many_steps_as_were_asked_for_are_compared_with_each_other():
    *capped, slow = epochs_of(9.0, 9.0, 9.0, 9.0, 40.0, whole=False)
    (stopped,) = epochs_of(5.0, whole=False)
    stopped = replace(stopped, begin=slow.end, end=slow.end + 5 * S, steps=400)
    epochs = (*capped, slow, stopped)
    assert numbers(epochs, slow_epochs(epochs, nothing, None)) == [slow.epoch]
    found = compare_epoch(slow, epochs, nothing, None)
    assert (found.usual_s, found.is_slow) == (9.0, True)
    assert compare_epoch(stopped, epochs, nothing, None).usual_s is None


@given(st.lists(st.floats(0.01, 1e5), min_size=1, max_size=60))
def test_fewer_than_half_are_slow_and_each_is_longer_than_those_that_are_not(seconds):
    epochs = epochs_of(*seconds)
    slow = slow_epochs(epochs, nothing, None)
    took = [seconds_of(epoch) for epoch in epochs]
    assert 2 * len(slow) < len(epochs)
    usual = [seconds_of(epoch) for epoch in epochs if epoch.begin not in slow]
    assert all(seconds_of(e) > max(usual) for e in epochs if e.begin in slow)
    assert all(seconds_of(e) > (1 + LEAST_SHARE) * min(took) for e in epochs if e.begin in slow)


@given(st.integers(0, 2**32), st.integers(4, 200))
def test_noise_of_one_percent_marks_nothing(seed, count):
    chance = random.Random(seed)
    epochs = epochs_of(*(chance.gauss(100, 1) for _ in range(count)))
    assert slow_epochs(epochs, nothing, None) == frozenset()


def test_it_says_by_what_it_differs_where_that_was_measured():
    epochs = epochs_of(9.0, 9.0, 9.0, 12.0, 9.0)
    found = compared(3, epochs, sm_mhz=1_200.0, other_cores=3.0, heat_pct=80.0)
    assert (found.is_slow, found.seconds, found.usual_s) == (True, 12.0, 9.0)
    assert {cause.name for cause in found.causes} == {"sm_mhz", "other_cores", "heat_pct"}
    assert [(part.name, part.value) for part in found.parts] == [("steps_s", 12.0)]
    of_three = compared(2, epochs_of(9.0, 9.2, 30.0), other_cores=6.0)
    assert (of_three.is_slow, of_three.usual_s) == (True, pytest.approx(9.1))
    assert [cause.name for cause in of_three.causes] == ["other_cores"]


def test_no_cause_is_named_where_nothing_differed_or_nothing_was_read():
    epochs = epochs_of(9.0, 9.0, 9.0, 12.0, 9.0)
    alike = compared(3, epochs)
    assert (alike.causes, alike.is_read) == ((), True)
    # Nor what lies within the usual spread, and of no more than next to nothing.
    varied = dict(zip((e.begin for e in epochs), (1.0, 4.0, 2.0, 5.0, 0.0), strict=True))
    spread = {begin: EpochStatistics(9, {"other_cores": cores}) for begin, cores in varied.items()}
    assert compare_epoch(epochs[3], epochs, lambda one: spread[one.begin], None).causes == ()
    assert with_values(epochs, 3, {"run_cores": 0.06}, run_cores=0.0).causes == ()
    unread = compare_epoch(epochs[3], epochs, nothing, None)
    assert (unread.causes, unread.is_read, unread.is_slow) == ((), False, True)
    alone = {one.begin: NO_STATISTICS for one in epochs} | {epochs[3].begin: EpochStatistics(3, {})}
    assert not compare_epoch(epochs[3], epochs, lambda one: alone[one.begin], None).is_read


def with_values(epochs, number, usual, **changed):
    uses = {one.begin: EpochStatistics(3, dict(usual)) for one in epochs}
    uses[epochs[number].begin] = EpochStatistics(3, {**usual, **changed})
    return compare_epoch(epochs[number], epochs, lambda one: uses[one.begin], None)


def test_the_parts_that_are_named_come_to_what_a_slow_epoch_took_longer():
    epochs = epochs_of(2.0, 2.0, 2.0, 2.0, 9.07, 2.0)
    usual = {"stalls": 0, "stalled_s": 0.0, "opening_s": 0.02}
    found = with_values(epochs, 4, usual, stalls=3, stalled_s=1.17)
    assert [(part.name, part.count) for part in found.parts] == [("steps_s", 0), ("stalled_s", 3)]
    beyond_s = sum(part.value - part.usual for part in found.parts) + found.rest_s
    assert beyond_s == pytest.approx(7.07, abs=0.05 * 7.07)
    assert found.rest_s == 0.0


def test_in_an_epoch_of_slow_steps_a_stall_is_one_beside_those():
    epochs = [replace(epoch, steps=40) for epoch in epochs_of(2.0, 2.0, 2.0, 2.0, 9.07, 2.0)]
    usual = {"stalls": 0, "stalled_s": 0.0}
    slow_steps = with_values(epochs, 4, usual, stalls=3, stalled_s=1.17)
    assert [part.name for part in slow_steps.parts] == ["steps_s"]
    all_slow = with_values(epochs, 4, usual, stalls=39, stalled_s=9.0)
    assert [part.name for part in all_slow.parts] == ["steps_s"]
    one_stalled = with_values(epochs, 4, usual, stalls=1, stalled_s=7.0)
    assert [part.name for part in one_stalled.parts] == ["stalled_s"]


@given(
    st.lists(st.floats(0, 3), min_size=7, max_size=7),
    st.lists(st.floats(0, 0.2), min_size=6, max_size=6),
)
def test_of_whatever_parts_a_slow_epoch_consists_all_of_it_is_accounted_for(more, noise):
    names = ("stalled_s", "opening_s", "waited_s")
    epochs, uses, at = [], {}, 0
    for number in range(7):
        slow = number == 6
        parts = {name: 0.1 + more[n] * slow for n, name in enumerate(names)}
        steps_s = 3 + (more[3] + 2) * slow + (0 if slow else noise[number])
        train_end = at + int((steps_s + sum(parts.values())) * S)
        end = train_end + int(more[4] * slow * S)
        epochs.append(Epoch(number, at, train_end, end, True, 10, {}))
        uses[at] = EpochStatistics(3, {**parts, "stalls": 1})
        at = end
    found = compare_epoch(epochs[6], epochs, lambda one: uses[one.begin], None)
    beyond_s = sum(part.value - part.usual for part in found.parts) + found.rest_s
    if found.is_slow:
        excess_s = found.seconds - found.usual_s
        assert beyond_s == pytest.approx(excess_s, abs=max(0.05 * excess_s, 0.01 * found.usual_s))
    assert all(part.value > part.usual for part in found.parts)


def test_a_run_that_did_less_than_half_of_its_least_is_named_however_much_that_varies():
    epochs = epochs_of(2.0, 2.0, 2.0, 2.0, 9.0, 2.0)
    cores = iter((0.46, 1.3, 0.6, 0.9, 0.14, 1.1))
    uses = {one.begin: EpochStatistics(3, {"run_cores": next(cores)}) for one in epochs}

    def causes_of(number):
        found = compare_epoch(epochs[number], epochs, lambda one: uses[one.begin], None)
        return [cause.name for cause in found.causes]

    assert causes_of(4) == ["run_cores"]
    assert [causes_of(number) for number in (0, 1, 2, 3, 5)] == [[]] * 5


def test_a_longer_validation_and_a_longer_end_are_parts_of_it():
    epochs = list(epochs_of(10.0, 10.0, 10.0, 14.0, 10.0))
    for number, epoch in enumerate(epochs):
        train_end = epoch.begin + 8 * S
        until = train_end + (4 if number == 3 else 1) * S
        validation = Validation(train_end, train_end, until, until, 10)
        epochs[number] = replace(epoch, train_end=train_end, validation=validation)
    found = compared(3, tuple(epochs))
    assert [(part.name, part.value, part.usual) for part in found.parts] == [
        ("validation_s", 4.0, 1.0), ("ending_s", 2.0, 1.0),
    ]  # fmt: skip


def test_what_compiled_in_the_validation_counts_once():
    epochs, at = [], 0
    for number, (train_s, validation_s) in enumerate([(15, 6), *[(10, 1)] * 3]):
        train_end, end = at + train_s * S, at + (train_s + validation_s) * S
        passed = Validation(train_end, train_end + S, end, end, 10)
        epochs.append(Epoch(number, at, train_end, end, True, 1_000, {}, validation=passed))
        at = end
    uses = {one.begin: EpochStatistics(9, {}) for one in epochs}
    found = compare_epoch(epochs[0], epochs, lambda one: uses[one.begin], 10.0, 5.0)
    assert [(part.name, part.value) for part in found.parts] == [("compiling_s", 10.0)]
    assert found.rest_s == 0.0


@pytest.mark.parametrize("end_s", [0, -3])
def test_an_epoch_that_took_no_time_is_compared_with_nothing(end_s):
    epochs = epochs_of(10.0, 10.0, 10.0, 10.0, 10.0)
    at = epochs[-1].end
    broken = Epoch(5, at, at + end_s * S, at + end_s * S, True, 1_000, {})
    uses = {one.begin: EpochStatistics(9, {}) for one in (*epochs, broken)}
    for one in (epochs[1], broken):
        found = compare_epoch(one, (*epochs, broken), lambda each: uses[each.begin], None)
        assert (found.is_slow, found.parts, found.causes) == (False, (), ())
    assert found.usual_s is None


def test_of_a_recorded_run_the_stall_and_the_heat_are_found_and_nothing_in_the_others():
    session = folded(with_slow_epoch(LONG, 7))
    snapshot = session.snapshot()
    for epoch in snapshot.epochs[:10]:
        found = compare_epoch(epoch, snapshot.epochs, session.epoch_history.of, snapshot.compile_s)
        assert found.is_slow == (epoch.epoch == 7)
        heat_pct = session.epoch_history.of(epoch).values["heat_pct"]
        assert heat_pct == (100.0 if epoch.epoch == 7 else 0.0)
        if epoch.epoch == 7:
            (stall,) = found.parts
            assert (stall.name, stall.count) == ("stalled_s", 1)
            assert 3.0 <= stall.value < 3.1
            assert {cause.name for cause in found.causes} == {"heat_pct", "sm_mhz"}
        elif epoch.epoch == 0:
            # While it compiled, the GPU did nothing.
            assert [part.name for part in found.parts] == ["compiling_s"]
        else:
            assert (found.causes, found.parts) == ((), ())


def test_a_stall_that_waited_for_data_is_counted_as_the_wait_alone():
    header, *rest = script_session(seconds=10, wait_ms=2)
    records = []
    for record in rest:
        if isinstance(record, Batches) and record.epoch == 3 and record.first == 50:
            took_us = (2_000_000, *record.dt_us[1:])
            record = replace(record, dt_us=took_us, wait_us=1_990_000)
        records.append(record)
    session = folded([header, *records])
    (epoch,) = (one for one in session.snapshot().epochs if one.epoch == 3)
    values = session.epoch_history.of(epoch).values
    assert values["stalls"] == 1
    assert values["stalled_s"] == pytest.approx(0.01)
    assert values["waited_s"] == pytest.approx(1.99 + 9 * 0.02)


def test_the_first_batch_of_another_size_compiles_in_the_epoch_that_it_lies_in():
    header, *rest = script_session(seconds=10)
    records = []
    for record in rest:
        if isinstance(record, Batches) and record.epoch == 3 and record.first == 50:
            took_us, samples = list(record.dt_us), list(record.counted)
            took_us[4], samples[4] = 2_000_000, 1 + samples[4]
            record = replace(record, dt_us=tuple(took_us), samples=tuple(samples))
        records.append(record)
    session = folded([header, *records])
    snapshot = session.snapshot()
    use_of = session.epoch_history.of
    [epoch] = (one for one in snapshot.epochs if "compiled_s" in use_of(one).values)
    assert epoch.epoch == 3
    compiled_s = use_of(epoch).values["compiled_s"]
    assert compiled_s == pytest.approx(2.0, abs=0.05)
    assert use_of(epoch).values.get("stalls", 0) == 0
    [part] = compare_epoch(epoch, snapshot.epochs, use_of, snapshot.compile_s).parts[:1]
    assert (part.name, part.value) == ("compiling_s", compiled_s)
    assert compiled_s == pytest.approx(snapshot.compile_s)
