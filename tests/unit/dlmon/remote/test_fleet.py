"""Several recordings on one time axis: which may be played together, and what each shows."""

from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_WALL, recorded_host, recorded_machine, recorded_session, write_log
from fakes.screens import Clock, GrowingLog, of_this_boot

from dlmon.log.folder import LogError
from dlmon.records import Notice
from dlmon.remote.fleet import Fleet
from dlmon.remote.host import Age, HostState

BEGIN_NS = int(BEGIN_WALL * 1e9)


@pytest.fixture
def clock():
    return Clock(10**12)


@pytest.fixture
def play(tmp_path, clock):
    """Return a function that plays hosts by their names, each begun so many seconds later."""
    made = []

    def begin(names=None, **hosts):
        logs = [
            recorded_host(tmp_path, name, **({"begin_s": more} if type(more) is int else more))
            for name, more in hosts.items()
        ]
        made.append(Fleet(logs, names, clock))
        return made[-1]

    yield begin
    for fleet in made:
        fleet.close()


def read_all(fleet):
    while fleet.read_share is not None:
        fleet.poll()


def read_marks(fleet):
    while fleet.ahead_share is not None:
        fleet.read_ahead(1.0)


def at(fleet, seconds):
    fleet.seek(BEGIN_NS + int(seconds * 1e9))
    read_all(fleet)
    return {host.name: host for host in fleet.snapshots()}


def test_the_axis_goes_from_the_first_begin_to_the_last_end(play):
    fleet = play(gpu1=5, gpu2=0)
    assert fleet.start_ns == BEGIN_NS
    assert fleet.now() == BEGIN_NS
    lengths = [host.end_ns - host.start_ns for host in fleet.hosts]
    assert fleet.end_ns == BEGIN_NS + 5_000_000_000 + lengths[0]
    assert [host.name for host in fleet.hosts] == ["gpu1", "gpu2"]


def test_every_host_shows_the_same_time_of_day(play):
    fleet = play(gpu1=0, gpu2=5)
    hosts = at(fleet, 12)
    assert hosts["gpu1"].state == hosts["gpu2"].state == HostState.RECORDED
    for host in hosts.values():
        assert BEGIN_WALL + 11 <= host.sample_wall <= BEGIN_WALL + 12
    first, second = (hosts[name].machine.t for name in ("gpu1", "gpu2"))
    assert first - second == 5_000_000_000


def test_a_host_is_named_as_not_begun_and_as_ended_with_the_time(play):
    fleet = play(gpu1={"seconds": 10}, gpu2=5)
    hosts = at(fleet, 2)
    assert hosts["gpu2"].state == HostState.NOT_STARTED
    assert hosts["gpu2"].edge_wall == pytest.approx(BEGIN_WALL + 5)
    assert hosts["gpu2"].machine is None
    assert not hosts["gpu2"].is_current
    hosts = at(fleet, 25)
    assert hosts["gpu1"].state == HostState.ENDED
    assert hosts["gpu1"].edge_wall == pytest.approx(fleet.hosts[0].end_ns / 1e9)
    assert hosts["gpu1"].machine is not None
    assert not hosts["gpu1"].is_current
    assert hosts["gpu2"].is_current


def test_a_recording_that_ends_with_the_last_is_not_called_over(play):
    fleet = play(gpu1=0, gpu2=2)
    fleet.seek(fleet.end_ns)
    read_all(fleet)
    assert [host.state for host in fleet.snapshots()] == [HostState.RECORDED] * 2


def test_where_samples_are_missing_their_age_is_that_of_the_moment(tmp_path, clock):
    header, *records = recorded_machine()
    kept = [record for record in records if not 5e9 < record.t - header.t < 25e9]
    fleet = Fleet([write_log(tmp_path, [header, *kept])], clock=clock)
    (host,) = at(fleet, 15).values()
    assert host.age == Age.LATE
    assert host.sample_wall == pytest.approx(BEGIN_WALL + 5, abs=1.1)
    (host,) = at(fleet, 4.5).values()
    assert host.age == Age.FRESH
    fleet.close()


def test_time_passes_at_the_speed_that_was_chosen_and_not_while_it_is_paused(play, clock):
    fleet = play(gpu1=0, gpu2=3)

    def passed(seconds):
        clock.advance(seconds)
        fleet.poll()
        return (fleet.now() - BEGIN_NS) / 1e9

    assert passed(1) == 1
    fleet.change_speed(3)
    assert passed(1) == 11
    fleet.stop_clock()
    assert passed(1) == 11
    fleet.play()
    assert passed(0.5) == 16
    assert {host.age for host in fleet.snapshots()} == {Age.FRESH}


def test_what_can_not_be_read_as_fast_is_played_as_fast_as_it_is_read(play, clock):
    fleet = play(gpu1=0, gpu2=3)
    fleet.change_speed(100)
    clock.advance(1)
    fleet.poll(max_s=0.0)
    shown_s = (fleet.now() - BEGIN_NS) / 1e9
    assert 0 < shown_s <= 10
    # However much of it was read, it is the same moment for all.
    assert {host.position_ns for host in fleet.hosts} == {fleet.now()}


def test_marks_of_all_hosts_are_gone_through_in_the_order_of_time(tmp_path, clock):
    logs = []
    for begin_s, name in ((0, "gpu1"), (4, "gpu2")):
        header, *records = recorded_machine(begin_wall=BEGIN_WALL + begin_s, gpus=0)
        noted = [
            Notice(header.t + second * 1_000_000_000, f"{name} at {second} s") for second in (5, 10)
        ]
        records = sorted([*records, *noted], key=lambda record: getattr(record, "t", 0) or 2**62)
        logs.append(write_log(tmp_path, [header, *records], folder=name))
    fleet = Fleet(logs, ["gpu1", "gpu2"], clock)
    read_marks(fleet)
    seen = []
    while (found := fleet.seek_mark(True)) is not None:
        read_all(fleet)
        seen.append((found[0], found[1].text, round((fleet.now() - BEGIN_NS) / 1e9)))
    assert seen == [
        ("gpu1", "gpu1 at 5 s", 5),
        ("gpu2", "gpu2 at 5 s", 9),
        ("gpu1", "gpu1 at 10 s", 10),
        ("gpu2", "gpu2 at 10 s", 14),
    ]
    found = fleet.seek_mark(False)
    assert found is not None
    assert found[1].text == "gpu1 at 10 s"
    fleet.close()


def test_a_host_that_is_lent_goes_on_alone_and_the_others_follow_it_afterwards(play, clock):
    fleet = play(gpu1=0, gpu2=5)
    at(fleet, 8)
    source = fleet.lend(fleet.hosts[1])
    assert source.is_playing
    clock.advance(1)
    fleet.poll()
    source.poll()
    assert fleet.now() == BEGIN_NS + 8_000_000_000
    assert source.position_ns - source.start_ns == 4_000_000_000
    source.seek(source.start_ns + 15_000_000_000)
    source.change_speed(1)
    source.stop_clock()
    fleet.take_back()
    read_all(fleet)
    assert fleet.now() == BEGIN_NS + 20_000_000_000
    assert (fleet.speed, fleet.is_playing) == (2.0, False)
    assert {host.age for host in fleet.snapshots()} == {Age.FRESH}


def test_a_recording_that_goes_on_is_followed(tmp_path, clock):
    header, *records = of_this_boot(recorded_machine(status=None))
    log = GrowingLog(tmp_path, [header, *records[:10]])
    fleet = Fleet([log.path], clock=clock)
    read_marks(fleet)
    assert fleet.is_growing
    before_ns = fleet.end_ns
    log.write(*records[10:])
    fleet.read_ahead(1.0)
    assert fleet.end_ns > before_ns
    fleet.seek(fleet.end_ns)
    read_all(fleet)
    assert fleet.snapshots()[0].state == HostState.RECORDED
    log.drop_lock()
    fleet.close()


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (["tower", "tower", "tower"], ["tower", "tower (2)", "tower (3)"]),
        (["tower", "tower (2)", "tower"], ["tower", "tower (2)", "tower (3)"]),
    ],
)
def test_no_two_hosts_have_one_name(tmp_path, clock, hosts, names):
    logs = [
        recorded_host(tmp_path, host, session_id=f"machine-{number}")
        for number, host in enumerate(hosts)
    ]
    fleet = Fleet(logs, clock=clock)
    assert [host.name for host in fleet.hosts] == names
    fleet.close()


def test_a_training_is_refused_with_what_to_do(tmp_path, clock):
    logs = [recorded_host(tmp_path, "gpu1"), write_log(tmp_path, recorded_session())]
    with pytest.raises(LogError, match=r"is a training run, and .*: replay it by itself"):
        Fleet(logs, clock=clock)


@pytest.mark.parametrize("wall", [1e300, -1.0, 1e12])
def test_a_recording_of_no_time_that_can_be_is_refused(tmp_path, clock, wall):
    header, *records = recorded_machine()
    log = write_log(tmp_path, [replace(header, wall=wall), *records])
    with pytest.raises(LogError, match="does not say when it was recorded"):
        Fleet([log], clock=clock)
