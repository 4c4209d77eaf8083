"""What limits a run is seen alike by all who follow it, whenever and wherever they look."""

import random
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from fakes.recorded import BEGIN_NS, recorded_session

from dlmon.log.index import LogPosition
from dlmon.records import Cpu, Machine, ProcessTree
from dlmon.session.index import Index
from dlmon.session.session import Session, time_of

SECOND = 10**9


def near_the_threshold():
    """Return a run that takes all of its CPUs, or nearly: now more, now less."""
    rng = random.Random(3)
    records = []
    for record in recorded_session(epochs=30, gpus=0):
        if isinstance(record, Machine):
            pct = 90 + rng.uniform(-9, 9)
            record = replace(
                record,
                cpu=Cpu(pct=pct, cores=(round(pct),) * 8, steal_pct=0.0),
                process=ProcessTree(cpu_pct=8 * pct),
            )
        records.append(record)
    return records


RECORDS = near_the_threshold()


def until(session, records, t):
    for record in records:
        if (time_of(record) or t) > t:
            break
        session.add(record)
    return session


def limits_of(poll_s):
    """Return what a viewer shows who looks every so often, by the second."""
    session, at, said = Session(RECORDS[0]), BEGIN_NS, {}
    for record in RECORDS[1:]:
        while (time_of(record) or 0) > at:
            said[(at - BEGIN_NS) // SECOND] = session.snapshot(at).limit
            at += poll_s * SECOND
        session.add(record)
    return said


def test_near_a_threshold_the_verdict_does_not_flip():
    rules = [limit.rule for limit in limits_of(1).values() if limit is not None]
    changes = sum(before != after for before, after in pairwise(rules))
    assert changes <= 1


def test_two_viewers_say_the_same_whenever_each_of_them_looks():
    every_second, seldom = limits_of(1), limits_of(7)
    assert seldom == {second: every_second[second] for second in seldom}


def test_it_is_the_same_wherever_one_goes_in_a_replay():
    session = Session(RECORDS[0])
    index = Index(Path("nowhere"), session, every_ns=10 * SECOND, apart=0)
    for number, record in enumerate(RECORDS[1:], 1):
        session.add(record)
        index.take(partial(LogPosition, number + 1, 1, ""))
    for second in range(120, 290, 7):
        t = BEGIN_NS + second * SECOND
        found = index.before(t)
        there = until(index.restored(found), RECORDS[found.position.offset :], t).snapshot(t).limit
        assert there == until(Session(RECORDS[0]), RECORDS[1:], t).snapshot(t).limit, second
