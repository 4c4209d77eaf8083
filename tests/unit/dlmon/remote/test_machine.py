"""Another machine's readings, as they arrive."""

import json
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session

from dlmon.records import Machine, Notice, encode
from dlmon.remote.connection import Clock
from dlmon.remote.host import WatchedHost

SECOND = 1_000_000_000
HEADER, *RECORDS = recorded_session()
SAMPLE = next(record for record in RECORDS if isinstance(record, Machine))


class FakeLink:
    """A link on which a test answers."""

    def __init__(self):
        self.boot_id = None
        self.times = None
        self.standing = []

    def start(self):
        pass

    def add(self, standing):
        self.standing.append(standing)

    def connect(self, boot_id="boot-1"):
        """Ask again what stands, as a new connection does; return what goes with it."""
        self.boot_id = boot_id
        return [standing.fields() for standing in self.standing if standing.ask == "watch"]

    def answer(self, **answer):
        self.standing[0].take(answer)

    def send(self, record):
        self.answer(record=json.loads(encode(record)))


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def now():
    return [1_000 * SECOND]


@pytest.fixture
def machine(link, now):
    made = WatchedHost("box", 0.5, True, link=link, clock=lambda: now[0])
    made.start()
    link.connect()
    return made


def sample_at(seconds, **changed):
    return replace(SAMPLE, t=int(seconds * SECOND), **changed)


def test_it_is_asked_for_from_its_start_and_stays_on_where_a_screen_of_it_is_left(link, machine):
    machine.start()
    assert [standing.ask for standing in link.standing] == ["watch", "running"]
    assert link.connect() == [{"interval_s": 0.5, "pcie": True}]
    assert machine.is_on
    machine.stop()
    assert machine.is_on
    assert [standing.ask for standing in link.standing] == ["watch", "running"]


def test_its_samples_make_its_history(link, machine):
    for seconds in (5, 5.5, 6):
        link.send(sample_at(seconds))
    assert machine.history.latest.t == 6 * SECOND
    assert machine.start_ns == 5 * SECOND
    assert machine.history.cpu_pct.mean is not None


def test_a_sample_that_is_older_than_the_last_is_passed_over(link, machine, now):
    link.send(sample_at(6))
    now[0] += SECOND
    for seconds in (6, 5, 0):
        link.send(sample_at(seconds))
    assert machine.history.latest.t == 6 * SECOND
    assert machine.age_s == 1


def test_the_age_of_a_sample_counts_from_when_it_came(link, machine, now):
    assert machine.age_s is None
    # Whatever its own clock says.
    link.send(sample_at(9_999))
    assert machine.age_s == 0
    now[0] += int(2.5 * SECOND)
    assert machine.age_s == 2.5


def test_the_time_there_is_known_by_its_clock_or_its_last_sample(link, machine, now):
    assert machine.now() == 0
    link.send(sample_at(7))
    assert machine.now() == 7 * SECOND
    link.times = Clock(monotonic_ns=-400 * SECOND, wall_s=0.0, round_trip_s=0.1)
    assert machine.now() == 600 * SECOND
    now[0] += SECOND
    assert machine.now() == 601 * SECOND


def test_a_boot_begins_its_history_anew(link, machine):
    link.send(sample_at(5_000))
    link.connect("boot-2")
    assert machine.history.latest is None
    link.send(sample_at(3))
    assert machine.history.latest.t == 3 * SECOND
    assert machine.start_ns == 3 * SECOND


def test_what_it_has_to_say_is_read_once(link, machine):
    link.send(Notice(t=1, text="a GPU was lost"))
    link.answer(error="this can't be watched")
    assert machine.status == "this can't be watched"
    assert machine.poll() == ["a GPU was lost", "this can't be watched"]
    assert machine.poll() == []


@pytest.mark.parametrize("t", [0, 1, 2**62, 2**63 - 1])
def test_any_time_can_be_that_of_a_sample(link, machine, t):
    link.send(sample_at(1e-9))
    link.send(replace(SAMPLE, t=t))
    assert machine.history.latest.t == max(1, t)
    assert machine.history.use() is not None
