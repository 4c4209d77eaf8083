"""The readings of a machine out of a log: as those of its sensors would be."""

import pytest
from fakes.recorded import BEGIN_NS, folded, recorded_machine

from dlmon.records import Facts, Notice, SessionHeader, Status
from dlmon.session.session import Session
from dlmon.session.source import RecordedMachine, SessionSource

SECOND = 1_000_000_000


class Source(SessionSource):
    """A session whose records come as a test says."""

    status = Status.RUNNING

    def __init__(self, *records):
        assert isinstance(records[0], SessionHeader)
        self.session = Session(records[0])
        self.coming = list(records[1:])
        self.now_ns = records[0].t

    def poll(self, max_s=None):
        for record in self.coming:
            self.session.add(record)
        self.coming = []

    def now(self):
        return self.now_ns


def test_it_shows_what_the_session_has_folded():
    header, *samples = recorded_machine(30, status=None)
    source = Source(header, *samples)
    machine = RecordedMachine(source)
    assert (machine.facts, machine.start_ns, machine.interval_s) == (header.machine, header.t, 1.0)
    assert machine.history.latest is None
    assert machine.age_s is None
    assert machine.poll() == []
    assert machine.history.latest.t == samples[-1].t
    source.now_ns = samples[-1].t + 4 * SECOND
    assert (machine.now(), machine.age_s) == (source.now_ns, 4)


def test_each_notice_is_heard_once_and_none_from_before_and_later_facts_count():
    header, *samples = recorded_machine(3, status=None, gpus=2)
    source = Source(header, Notice(BEGIN_NS + 5, "long ago"))
    source.poll()
    machine = RecordedMachine(source)
    assert machine.poll() == []
    later = Facts(samples[-1].t, 0.0, "tower", recorded_machine(3, gpus=3)[0].machine)
    source.coming = [*samples, later, *[Notice(samples[-1].t, "lost")] * 2]
    assert machine.poll() == ["lost"]
    assert machine.poll() == []
    assert machine.facts == source.session.facts != header.machine
    # Also one that is written late.
    source.coming = [Notice(samples[-1].t - 1, "written late")]
    assert machine.poll() == ["written late"]
    assert machine.poll() == []


def test_a_replay_that_goes_back_folds_another_session_and_repeats_what_it_passes_again():
    header, *samples = recorded_machine(5, status=None)
    lost = Notice(samples[1].t, "lost")
    machine = RecordedMachine(source := Source(header, samples[0], samples[1], lost))
    assert machine.poll() == ["lost"]
    source.session = folded([header, samples[0]])
    assert machine.poll() == []
    assert machine.history is source.session.machine
    source.coming = [samples[1], lost]
    assert machine.poll() == ["lost"]


def test_to_stop_it_stops_no_recording():
    source = Source(*recorded_machine(3, status=None))
    machine = RecordedMachine(source)
    assert not machine.is_on
    machine.start()
    assert machine.is_on
    machine.stop()
    assert not machine.is_on


@pytest.mark.parametrize("status", ["completed", "stopped"])
def test_the_session_of_a_machine_folds_with_every_figure_of_a_run_unknown(status):
    records = recorded_machine(30, status=status)
    snapshot = folded(records).snapshot()
    assert snapshot.result == records[-1]
    assert (snapshot.model, snapshot.phase, snapshot.batches) == (None, None, 0)
    assert snapshot.lacking == {}
    for name in ("seconds_per_epoch", "samples_per_second", "step_ms", "compile_s", "run_seconds"):
        assert getattr(snapshot, name) is None
    assert set(snapshot.why.values()) == {"no workload was run: only the machine was recorded"}
