"""Of many processes, records of consecutive batches become one: nothing of them is lost."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dlmon.records import Batches, BatchSummary, decode, encode
from dlmon.statistics.steady_state import SteadyState
from dlmon.supervisor import joined_batches
from dlmon.supervisor.joined_batches import SHORT, JoinedBatches

MS = 1_000
FIRST = Batches(0, 0, 32, 1_050 * 1_000_000, (50 * MS,) * 5, wait_us=100, trainer=1000)


def after(record, **changed):
    """Return the record of as many batches that follow those of another at once."""
    t = record.t_last + record.dt_us[0] * 1000
    return replace(record, first=record.first + record.count, t=t, opening_us=None, **changed)


def run_of(number, **changed):
    records = [replace(FIRST, **changed)]
    while len(records) < number:
        records.append(after(records[-1]))
    return records


def joined(records, joiner=None):
    joiner = joiner or JoinedBatches()
    found = [made for record in records for made in joiner.add(record)]
    found += joiner.take()
    for made in found:
        assert decode(encode(made)) == made
    return found


def test_a_few_become_one_with_each_of_their_times():
    records = run_of(4, opening_us=7)
    [one] = joined(records)
    assert one.dt_us == (50 * MS,) * 20
    assert (one.first, one.t, one.t_last) == (0, records[0].t, records[-1].t_last)
    assert (one.samples, one.wait_us, one.opening_us, one.updates) == (32, 400, 7, None)
    sizes = [records[0], replace(records[1], samples=(32, 32, 32, 32, 8), updates=3)]
    [uneven] = joined(sizes)
    assert (uneven.samples, uneven.updates) == ((32,) * 9 + (8,), 8)
    [unknown] = joined([records[0], replace(records[1], samples=None, wait_us=None)])
    assert (unknown.samples, unknown.wait_us) == (None, None)


@pytest.mark.parametrize(
    "changed",
    [{"epoch": 1, "first": 0}, {"first": 6}, {"t": 2}, {"opening_us": 3}, {"profiled": True}],
)
def test_what_does_not_go_on_from_them_stays_apart(changed):
    records = [FIRST, replace(after(FIRST), **changed)]
    assert joined(records) == records


def test_many_are_summed_up_once_it_is_known_how_long_each_takes(monkeypatch):
    monkeypatch.setattr(joined_batches, "KEPT_BATCHES", 5)
    joiner, records = JoinedBatches(), run_of(20, tokens=64)
    [first] = joined(records[:1], joiner)
    slow = replace(records[8], dt_us=(50 * MS,) * 4 + (900 * MS,))
    rest = [*records[1:8], slow]
    for _ in records[9:]:
        rest.append(after(rest[-1], dt_us=(50 * MS,) * 5))
    [summary] = joined(rest, joiner)
    assert isinstance(summary, BatchSummary)
    assert summary.count == 95 > SHORT
    assert (summary.samples, summary.tokens, summary.wait_us) == (95 * 32, 95 * 64, 19 * 100)
    assert summary.time_us == sum(sum(each.dt_us) for each in rest)
    assert (summary.begin, summary.t_last) == (first.t_last, rest[-1].t_last)
    assert (summary.stalls, summary.step_us[0], summary.step_us[-1]) == (1, 50 * MS, 900 * MS)
    assert (summary.first_us, summary.trainer) == (None, 1000)


def test_the_throughput_is_the_same():
    records = run_of(400)
    made, joiner = [], JoinedBatches()
    for record in records:
        made += joiner.add(record)
        if joiner.held_ns >= 8e9:
            made += joiner.take()
    made += joiner.take()
    assert len(made) < len(records) / 20
    assert all(b.first == a.first + a.count for a, b in pairwise(made))
    each, few = SteadyState(), SteadyState()
    for record in records:
        each.add(record.samples, record.dt_us, first=record.first)
    for record in made:
        if isinstance(record, BatchSummary):
            few.add_summary(record)
        else:
            few.add(record.samples, record.dt_us, first=record.first)
    assert (few.batches, few.time_us) == (each.batches, each.time_us)
    assert few.throughput().mean == pytest.approx(each.throughput().mean)


def test_what_is_held_of_a_process_that_stands_still_is_given_up():
    joiner = JoinedBatches()
    assert list(joiner.add(FIRST)) == []
    assert list(joiner.take_old()) == []
    assert list(joiner.take_old()) == [FIRST]
    assert list(joiner.take_old()) == []
