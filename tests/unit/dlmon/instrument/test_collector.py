import math
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.instrument import collector as emit
from dlmon.instrument.collector import BatchCollector
from dlmon.instrument.keras_data import BatchPlan, BatchSizes, NotedBatchSizes
from dlmon.instrument.queued import (
    EpochChanged,
    EpochEnd,
    EpochOpened,
    EpochStart,
    MeasuredBatch,
    MetricsRead,
    Pause,
    ProfiledSteps,
)
from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    Metrics,
    NamedPause,
    Notice,
    Phase,
    Validation,
    decode,
    encode,
)
from dlmon.statistics.histogram import step_quantiles

MS = 1_000_000
BEGIN = 7_000_000_123


def sizes(batch_size, samples):
    """Return what knows the batches of so many samples, or of any number."""
    if samples is None:
        return BatchSizes(None, BatchPlan(batch_size, None))
    return BatchSizes.of_samples(samples, batch_size)


def begin(epoch=0, t=BEGIN, batch_size=10, samples=100, stride=1):
    return EpochStart(epoch, t, sizes(batch_size, samples), stride)


def end(epoch=0, t=BEGIN + 10_000 * MS, cut=False, **changes):
    values = {"metrics": {"loss": 1.0}, "validation": None, **changes}
    return EpochEnd(epoch, t, cut=cut, **values)


def ends(count, first=0, since=BEGIN):
    return [since + (index + 1) * 20 * MS for index in range(first, count)]


def collect(*flushes, finish=True, collector=None):
    """Return the records of what was queued, flush by flush."""
    collector = collector or BatchCollector()
    records = []
    for number, flush in enumerate(flushes):
        last = finish and number == len(flushes) - 1
        collector.take(deque(flush))
        records.extend(collector.records(last))
    return records


def batches_in(records):
    return [record for record in records if isinstance(record, Batches | BatchSummary)]


def count_of(record):
    return len(record.dt_us) if isinstance(record, Batches) else record.count


def samples_of(record):
    if isinstance(record, BatchSummary):
        return record.samples
    if isinstance(record.samples, int):
        return record.samples * len(record.dt_us)
    return sum(record.samples)


def time_of(record):
    return sum(record.dt_us) if isinstance(record, Batches) else record.time_us


def test_a_hook_that_stands_for_several_batches_becomes_as_many_equal_ones():
    queued = [begin(stride=4), BEGIN + 40 * MS, BEGIN + 81 * MS + 5_000, end()]
    (record,) = batches_in(collect(queued))
    assert record.first == 0
    assert sum(record.dt_us) == 81_005
    assert record.dt_us[:4] == (10_000,) * 4
    assert max(record.dt_us[4:]) - min(record.dt_us[4:]) <= 1
    assert record.t == BEGIN // 1000 * 1000 + 10 * MS


def test_an_epoch_follows_its_batches_and_sums_them_up():
    validation = Validation(*(BEGIN + ms * MS for ms in (210, 220, 230, 240)), 5)
    queued = [begin(samples=95), *ends(10), end(validation=validation, metrics={"loss": math.nan})]
    record, epoch = collect(queued)
    assert isinstance(record, Batches)
    assert epoch == Epoch(
        epoch=0,
        begin=BEGIN,
        train_end=BEGIN // 1000 * 1000 + 200 * MS,
        end=BEGIN + 10_000 * MS,
        whole=True,
        samples=95,
        metrics={"loss": None},
        steps=10,
        validation=validation,
        why={"loss": "NaN"},
    )


@pytest.mark.parametrize(("arrived", "cut"), [(9, False), (10, True), (0, False)])
def test_an_epoch_that_was_cut_is_not_whole(arrived, cut):
    *batches, epoch = collect([begin(), *ends(arrived), end(cut=cut)])
    assert not epoch.whole
    assert (epoch.steps, epoch.samples) == (arrived, 10 * arrived)
    assert sum(count_of(record) for record in batches) == arrived


def test_the_first_batch_of_each_fit_ends_its_compile_phase():
    later = BEGIN + 50_000 * MS
    records = collect(
        [Phase(1, "compiling"), begin(), *ends(10), end()],
        [Phase(2, "training"), begin(epoch=1), *ends(10), end(epoch=1)],
        [Phase(3, "compiling"), begin(t=later), *ends(10, since=later), end()],
    )
    reported = [record for record in records if isinstance(record, Phase)]
    assert reported == [
        Phase(1, "compiling"),
        Phase(BEGIN // 1000 * 1000 + 20 * MS, "training"),
        Phase(2, "training"),
        Phase(3, "compiling"),
        Phase(later // 1000 * 1000 + 20 * MS, "training"),
    ]


@pytest.mark.parametrize(
    ("first_end_ms", "begin_ms"),
    # Hooks run on a thread pool: the first batch of the validation may be said to end too early.
    [(250, 200), (190, 190)],
)
def test_a_validation_that_the_host_began_while_the_device_trained_begins_after_it(
    first_end_ms, begin_ms
):
    first_end, last_end = BEGIN + first_end_ms * MS, BEGIN + 300 * MS
    validation = Validation(BEGIN + 120 * MS, first_end, last_end, last_end, 5)
    *_, epoch = collect([begin(), *ends(10), end(validation=validation)])
    # Records have times of whole microseconds.
    assert epoch.train_end == (BEGIN + 200 * MS) // 1000 * 1000
    assert epoch.validation.begin // 1000 == (BEGIN + begin_ms * MS) // 1000
    assert epoch.validation == replace(validation, begin=epoch.validation.begin)


def test_beyond_the_batches_that_keep_their_times_there_is_a_summary_a_second(monkeypatch):
    monkeypatch.setattr(emit, "KEPT_BATCHES", 50)
    arrived = ends(500)
    flushes = [arrived[start : start + 12] for start in range(0, 500, 12)]
    flushes[0] = [begin(samples=4_995), *flushes[0]]
    flushes[-1] = [*flushes[-1], end()]
    *reported, epoch = collect(*flushes)
    kept = [record for record in reported if isinstance(record, Batches)]
    summaries = [record for record in reported if isinstance(record, BatchSummary)]
    assert 50 <= sum(count_of(record) for record in kept) < 50 + 12
    # 20 ms per batch: 50 in a second, sent with the flush that completes it.
    assert all(50 <= summary.count <= 62 for summary in summaries[:-1])
    assert sum(count_of(record) for record in reported) == epoch.steps == 500
    assert sum(samples_of(record) for record in reported) == epoch.samples == 4_995
    assert sum(time_of(record) for record in reported) == 500 * 20_000
    assert all(record.step_us == (20_000,) * 7 for record in summaries)
    assert summaries[-1].t_last == epoch.train_end


def opened(after_ms, **options):
    """Return what is queued of an epoch that is opened within so long, and its ten batches."""
    mark = EpochStart(1, BEGIN, sizes(10, 100), follows=True, **options)
    at = BEGIN + after_ms * MS
    return [mark, EpochOpened(at), *ends(10, since=at), end(1)]


def phases_of(records):
    return [record for record in records if isinstance(record, Phase)]


def test_the_opening_of_an_epoch_is_timed_apart_from_its_first_batch():
    _, record, epoch = collect(opened(after_ms=70))
    assert (record.opening_us, record.dt_us) == (70_000, (20_000,) * 10)
    assert record.t == BEGIN // 1000 * 1000 + 90 * MS
    assert epoch.begin == BEGIN


def test_an_epoch_that_is_opened_in_no_time_trains_from_its_begin_on():
    assert phases_of(collect(opened(after_ms=249))) == [Phase(BEGIN, "training")]
    inference = opened(after_ms=249, phase="predicting")
    assert phases_of(collect(inference)) == [Phase(BEGIN, "predicting")]


def test_a_long_opening_is_reported_while_it_lasts_and_once():
    collector = BatchCollector()
    mark, *rest = opened(after_ms=2_100)
    reported = []
    for number in range(8):
        collector.take(deque([] if number else [mark]), now=BEGIN + number * 100 * MS)
        reported.append([record.name for record in collector.records()])
    assert reported == [[], [], [], ["opening"], [], [], [], []]
    assert phases_of(collect(rest, collector=collector)) == [Phase(BEGIN + 2_100 * MS, "training")]


def test_a_pause_is_a_phase_only_where_it_lasts():
    pause = Pause(BEGIN, "closing")
    for after_ms, names in ((249, ["evaluating"]), (250, ["closing", "evaluating"])):
        queued = [pause, Phase(BEGIN + after_ms * MS, "evaluating")]
        assert [record.name for record in collect(queued)] == names
    collector = BatchCollector()
    collector.take(deque([pause]), now=BEGIN + 300 * MS)
    assert list(collector.records()) == [Phase(BEGIN, "closing")]


def summarised(monkeypatch, *epochs, capped=False):
    """Return the summaries of epochs: each its opening, and the times of its batches, in ms."""
    monkeypatch.setattr(emit, "KEPT_BATCHES", 0)
    queue, t = [], BEGIN
    for number, (opening_ms, took_ms) in enumerate(epochs):
        mark = EpochStart(
            number, t, sizes(10, 10 * len(took_ms)), capped=capped, follows=number > 0
        )
        queue.append(mark)
        t += opening_ms * MS
        if number:
            queue.append(EpochOpened(t))
        for ms in took_ms:
            t += ms * MS
            queue.append(t)
        queue.append(end(number, t=t))
    return batches_in(collect(queue))


def test_stalls_are_counted_before_batches_are_folded_into_a_summary(monkeypatch):
    slow = [20] * 400 + [201] + [20] * 300 + [199] + [20] * 298
    calm, stalled = summarised(monkeypatch, (0, [20] * 1_000), (0, slow))
    assert (calm.stalls, stalled.stalls) == (0, 1)


def test_in_an_epoch_cut_short_the_first_batch_of_a_summary_is_no_stall(monkeypatch):
    epochs = ((0, [20] * 100), (700, [300] + [20] * 98 + [300]))
    for capped, stalls in ((True, 1), (False, 2)):
        _, reported = summarised(monkeypatch, *epochs, capped=capped)
        assert (reported.first_us, reported.stalls) == (300_000, stalls)


EPOCHS = st.lists(
    st.tuples(
        st.integers(1, 7),  # batch size
        st.integers(1, 40),  # batches due
        st.integers(0, 6),  # samples that the last one lacks
        st.sampled_from([1, 1, 2, 5]),  # stride
        st.booleans(),  # cut in the middle
    ),
    min_size=1,
    max_size=4,
)


@given(EPOCHS, st.randoms(use_true_random=False), st.integers(10, 80))
def test_no_batch_is_lost_or_reported_twice(epochs, random, kept):
    queue, expected, t = [], [], BEGIN
    for number, (batch_size, due, lacking, stride, cut) in enumerate(epochs):
        samples = batch_size * due - min(lacking, batch_size - 1)
        hooks = range(stride - 1, due + stride - 1, stride)
        hooks = hooks[: len(hooks) // 2] if cut else hooks
        arrived = []
        for _ in hooks:
            t += random.randrange(1, 400 * MS)
            arrived.append(t)
        # A thread pool: each hook may be overtaken by a few.
        places = {at: place + random.randrange(4) for place, at in enumerate(arrived)}
        arrived.sort(key=places.get)
        steps = min(due, hooks[-1] + 1) if hooks else 0
        expected.append((steps, min(steps * batch_size, samples)))
        begun = min(arrived, default=t) - MS
        queue.append(begin(number, begun, batch_size, samples, stride))
        queue += [*arrived, Notice(t, "between"), end(number, t)]
    collector, records = BatchCollector(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emit, "KEPT_BATCHES", kept)
        while queue:
            size = random.randrange(1, 30)
            collector.take(deque(queue[:size]))
            queue = queue[size:]
            if random.random() < 0.6 or not queue:
                records.extend(collector.records(finish=not queue))
    check_order(records)
    reported = [record for record in records if isinstance(record, Epoch)]
    assert [(epoch.steps, epoch.samples) for epoch in reported] == expected
    assert sum(isinstance(record, Notice) for record in records) == len(epochs)


def check_order(records):
    """Check that batches are sent in order, once, before their epoch, with all their time."""
    next_index = samples = time_us = 0
    for record in records:
        assert decode(encode(record)) == record
        if isinstance(record, Epoch):
            assert (record.steps, record.samples) == (next_index, samples)
            assert time_us == record.train_end // 1000 - record.begin // 1000
            next_index = samples = time_us = 0
        elif isinstance(record, Batches | BatchSummary):
            assert record.first == next_index
            next_index += count_of(record)
            samples += samples_of(record)
            time_us += time_of(record)


def test_the_record_of_an_epoch_is_written_again_with_what_is_known_later():
    batches = [MeasuredBatch(BEGIN + (number + 1) * MS, 10, 0, 1) for number in range(3)]
    checked = Validation(BEGIN + 20 * MS, BEGIN + 21 * MS, BEGIN + 22 * MS, BEGIN + 23 * MS, 2)
    records = collect(
        [
            EpochStart(4, BEGIN),
            *batches,
            end(4, t=BEGIN + 5 * MS),
            EpochChanged(4, validation=checked),
            EpochChanged(4, metrics={"accuracy": math.nan}),
            EpochChanged(3, metrics={"accuracy": 1.0}),
        ]
    )
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert len(epochs) == 3
    last = epochs[-1]
    assert (last.epoch, last.samples, last.steps, last.updates) == (4, 30, 3, 3)
    assert (last.begin, last.end) == (BEGIN, checked.end)
    assert last.validation == checked
    assert (last.metrics, last.why) == ({"loss": 1.0, "accuracy": None}, {"accuracy": "NaN"})


def test_batches_of_several_sizes_may_end_together():
    start = EpochStart(0, BEGIN, stride=4, steps=6)
    queue = [
        start,
        MeasuredBatch(BEGIN + 40 * MS, (8, 8, 8, 5), 7 * MS),
        # The hook claims four, and two came.
        MeasuredBatch(BEGIN + 60 * MS, (8, 3), 1 * MS),
        end(),
    ]
    batches, epoch = collect(queue)
    assert batches.samples == (8, 8, 8, 5, 8, 3)
    assert batches.dt_us == (10_000,) * 6
    assert (batches.wait_us, batches.per_execution) == (8_000, 4)
    assert (epoch.samples, epoch.steps, epoch.whole) == (40, 6, True)


class OnGpu:
    """A number that comes when it is computed."""

    def __init__(self):
        self.value = None

    def is_there(self):
        return self.value is not None

    def __float__(self):
        return self.value


def test_metrics_that_a_gpu_still_computes_are_written_once_they_are_there():
    first, second, read = OnGpu(), OnGpu(), OnGpu()
    collector = BatchCollector()
    told = EpochChanged(1, metrics={"loss": 0.125})
    epochs = [begin(), end(metrics={"loss": first}), begin(1), end(1, metrics={"loss": second})]
    collector.take(deque([MetricsRead(BEGIN, {"loss": read}), *epochs, told]))
    found = list(collector.records())
    assert [(one.epoch, one.metrics) for one in found] == [(0, {}), (1, {}), (1, {"loss": 0.125})]
    assert collector.awaits_a_gpu
    first.value, second.value, read.value = 0.5, 0.25, 0.75
    collector.take(deque())
    known = list(collector.records())
    assert known[0] == Metrics(BEGIN, {"loss": 0.75})
    # What the framework says of an epoch stays.
    assert [one.metrics for one in known[1:]] == [{"loss": 0.5}, {"loss": 0.125}]


def test_of_batches_that_end_together_it_is_not_known_which_of_them_was_waited_for():
    data = NotedBatchSizes(SimpleNamespace(num_batches=5), is_waited_for=True, clock=lambda: BEGIN)
    data.is_claimed = True
    for _ in range(5):
        data.note(np.zeros(8), BEGIN)
    start = EpochStart(0, BEGIN, data, stride=4)
    (record,) = batches_in(collect([start, BEGIN + 40 * MS, BEGIN + 50 * MS, end()]))
    assert (record.samples, len(record.dt_us), record.wait_us) == (8, 5, None)


def named(start_ms, end_ms, name="compile", **more):
    return NamedPause(BEGIN + start_ms * MS, BEGIN + end_ms * MS, name, **more)


def test_a_pause_comes_before_the_batch_that_it_lies_in():
    records = collect([begin(), *ends(2), named(45, 145), BEGIN + 160 * MS, end()])
    assert [type(record) for record in records] == [Batches, NamedPause, Batches, Epoch]
    assert [record.first for record in records if isinstance(record, Batches)] == [0, 2]


def test_pauses_that_go_on_or_lie_in_each_other_are_one():
    parts = (
        named(0, 30, reason="x"),
        named(35, 70, written_bytes=5),
        named(10, 200, graph_breaks=2),
    )
    (record,) = collect(parts)
    assert record == named(0, 200, reason="x", written_bytes=5, graph_breaks=2)
    apart = (named(0, 60), named(100, 160), named(160, 220, "garbage"))
    assert tuple(collect(apart)) == apart


def test_short_pauses_are_left_out_and_the_more_there_are_the_longer_they_have_to_be(monkeypatch):
    monkeypatch.setattr(emit, "NAMED_PAUSES", 2)
    pauses = [named(start, start + 60) for start in range(0, 1000, 200)]
    assert collect([named(0, 40), *pauses, named(2000, 2110)]) == [*pauses[:2], named(2000, 2110)]


def test_steps_that_are_profiled_are_marked_and_so_is_their_epoch_which_is_whole():
    records = collect(
        [begin(), *ends(4), ProfiledSteps(True), *ends(6, 4), ProfiledSteps(False), *ends(10, 6)],
        [end(), begin(1), *ends(10), end(1)],
    )
    batches = [record for record in records if isinstance(record, Batches)]
    assert [(each.first, len(each.dt_us), each.profiled) for each in batches[:3]] == [
        (0, 4, None),
        (4, 2, True),
        (6, 4, None),
    ]
    epochs = [each for each in records if isinstance(each, Epoch)]
    assert [each.whole for each in epochs] == [True, True]
    assert [each.profiled for each in epochs] == [True, None]
    assert [each.is_timed for each in epochs] == [False, True]


def test_a_profiled_epoch_that_was_cut_short_is_not_whole():
    (epoch,) = (
        each
        for each in collect([begin(), *ends(4), ProfiledSteps(True), *ends(6, 4), end(cut=True)])
        if isinstance(each, Epoch)
    )
    assert (epoch.whole, epoch.profiled) == (False, True)


def test_what_runs_since_the_last_batch_is_known_and_a_validation_waits_for_none():
    collector = BatchCollector()
    assert collector.quiet_since_ns is None
    collect([begin(), *ends(4)], collector=collector, finish=False)
    assert collector.quiet_since_ns == (BEGIN // 1000 + 4 * 20_000) * 1000
    assert collector.last_steps_us() == [20_000] * 4
    collect([Pause(BEGIN + 100 * MS, "validating")], collector=collector, finish=False)
    assert collector.quiet_since_ns is None


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_the_quantiles_of_a_summary_are_durations_that_occurred(durations):
    quantiles = step_quantiles(durations)
    assert list(quantiles) == sorted(quantiles)
    assert (quantiles[0], quantiles[-1]) == (min(durations), max(durations))
    assert set(quantiles) <= set(durations)
    middle, ordered = len(durations) // 2, sorted(durations)
    assert ordered[max(0, middle - 2)] <= quantiles[3] <= ordered[min(len(ordered) - 1, middle + 1)]


@pytest.mark.parametrize(
    ("samples", "counted", "of_batches", "of_epoch"),
    [(35, None, (40, 40, 40, 20), 140), (None, 33, 40, 132), (None, None, 40, 160)],
)
def test_samples_that_have_as_many_tokens_each_say_those_of_batches_and_of_the_epoch(
    samples, counted, of_batches, of_epoch
):
    start = begin(samples=samples)
    start.sizes.tokens = (4, None)
    records = collect([start, *ends(4), end(samples=counted)])
    [epoch] = [record for record in records if isinstance(record, Epoch)]
    [batches] = [record for record in records if isinstance(record, Batches)]
    assert (batches.tokens, epoch.tokens) == (of_batches, of_epoch)
