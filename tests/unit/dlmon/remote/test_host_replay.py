"""Several recordings on one time axis: which may be played together, and what each shows."""

from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_WALL, recorded_host, recorded_machine, recorded_session, write_log
from fakes.screens import Clock, GrowingLog, of_this_boot

from dlmon.log.folder import LogError
from dlmon.records import Notice
from dlmon.remote.host import Age, HostState
from dlmon.remote.host_replay import HostReplay

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
        made.append(HostReplay(logs, names, clock))
        return made[-1]

    yield begin
    for replay in made:
        replay.close()


def read_all(replay):
    while replay.read_share is not None:
        replay.poll()


def read_marks(replay):
    while replay.ahead_share is not None:
        replay.read_ahead(1.0)


def at(replay, seconds):
    replay.seek(BEGIN_NS + int(seconds * 1e9))
    read_all(replay)
    return {host.name: host for host in replay.snapshots()}


def test_the_axis_goes_from_the_first_begin_to_the_last_end(play):
    replay = play(gpu1=5, gpu2=0)
    assert replay.start_ns == BEGIN_NS
    assert replay.now() == BEGIN_NS
    lengths = [host.end_ns - host.start_ns for host in replay.hosts]
    assert replay.end_ns == BEGIN_NS + 5_000_000_000 + lengths[0]
    assert [host.name for host in replay.hosts] == ["gpu1", "gpu2"]


def test_every_host_shows_the_same_time_of_day(play):
    replay = play(gpu1=0, gpu2=5)
    hosts = at(replay, 12)
    assert hosts["gpu1"].state == hosts["gpu2"].state == HostState.RECORDED
    for host in hosts.values():
        assert BEGIN_WALL + 11 <= host.sample_wall <= BEGIN_WALL + 12
    first, second = (hosts[name].machine.t for name in ("gpu1", "gpu2"))
    assert first - second == 5_000_000_000


def test_a_host_is_named_as_not_begun_and_as_ended_with_the_time(play):
    replay = play(gpu1={"seconds": 10}, gpu2=5)
    hosts = at(replay, 2)
    assert hosts["gpu2"].state == HostState.NOT_STARTED
    assert hosts["gpu2"].edge_wall == pytest.approx(BEGIN_WALL + 5)
    assert hosts["gpu2"].machine is None
    assert not hosts["gpu2"].is_current
    hosts = at(replay, 25)
    assert hosts["gpu1"].state == HostState.ENDED
    assert hosts["gpu1"].edge_wall == pytest.approx(replay.hosts[0].end_ns / 1e9)
    assert hosts["gpu1"].machine is not None
    assert not hosts["gpu1"].is_current
    assert hosts["gpu2"].is_current


def test_a_recording_that_ends_with_the_last_is_not_called_over(play):
    replay = play(gpu1=0, gpu2=2)
    replay.seek(replay.end_ns)
    read_all(replay)
    assert [host.state for host in replay.snapshots()] == [HostState.RECORDED] * 2


def test_where_samples_are_missing_their_age_is_that_of_the_moment(tmp_path, clock):
    header, *records = recorded_machine()
    kept = [record for record in records if not 5e9 < record.t - header.t < 25e9]
    replay = HostReplay([write_log(tmp_path, [header, *kept])], clock=clock)
    (host,) = at(replay, 15).values()
    assert host.age == Age.LATE
    assert host.sample_wall == pytest.approx(BEGIN_WALL + 5, abs=1.1)
    (host,) = at(replay, 4.5).values()
    assert host.age == Age.FRESH
    replay.close()


def test_time_passes_at_the_speed_that_was_chosen_and_not_while_it_is_paused(play, clock):
    replay = play(gpu1=0, gpu2=3)

    def passed(seconds):
        clock.advance(seconds)
        replay.poll()
        return (replay.now() - BEGIN_NS) / 1e9

    assert passed(1) == 1
    replay.change_speed(3)
    assert passed(1) == 11
    replay.stop_clock()
    assert passed(1) == 11
    replay.play()
    assert passed(0.5) == 16
    assert {host.age for host in replay.snapshots()} == {Age.FRESH}


def test_what_can_not_be_read_as_fast_is_played_as_fast_as_it_is_read(play, clock):
    replay = play(gpu1=0, gpu2=3)
    replay.change_speed(100)
    clock.advance(1)
    replay.poll(max_s=0.0)
    shown_s = (replay.now() - BEGIN_NS) / 1e9
    assert 0 < shown_s <= 10
    # However much of it was read, it is the same moment for all.
    assert {host.position_ns for host in replay.hosts} == {replay.now()}


def test_marks_of_all_hosts_are_gone_through_in_the_order_of_time(tmp_path, clock):
    logs = []
    for begin_s, name in ((0, "gpu1"), (4, "gpu2")):
        header, *records = recorded_machine(begin_wall=BEGIN_WALL + begin_s, gpus=0)
        noted = [
            Notice(header.t + second * 1_000_000_000, f"{name} at {second} s") for second in (5, 10)
        ]
        records = sorted([*records, *noted], key=lambda record: getattr(record, "t", 0) or 2**62)
        logs.append(write_log(tmp_path, [header, *records], folder=name))
    replay = HostReplay(logs, ["gpu1", "gpu2"], clock)
    read_marks(replay)
    seen = []
    while (found := replay.seek_mark(True)) is not None:
        read_all(replay)
        seen.append((found[0], found[1].text, round((replay.now() - BEGIN_NS) / 1e9)))
    assert seen == [
        ("gpu1", "gpu1 at 5 s", 5),
        ("gpu2", "gpu2 at 5 s", 9),
        ("gpu1", "gpu1 at 10 s", 10),
        ("gpu2", "gpu2 at 10 s", 14),
    ]
    found = replay.seek_mark(False)
    assert found is not None
    assert found[1].text == "gpu1 at 10 s"
    replay.close()


def test_a_host_that_is_lent_goes_on_alone_and_the_others_follow_it_afterwards(play, clock):
    replay = play(gpu1=0, gpu2=5)
    at(replay, 8)
    source = replay.lend(replay.hosts[1])
    assert source.is_playing
    clock.advance(1)
    replay.poll()
    source.poll()
    assert replay.now() == BEGIN_NS + 8_000_000_000
    assert source.position_ns - source.start_ns == 4_000_000_000
    source.seek(source.start_ns + 15_000_000_000)
    source.change_speed(1)
    source.stop_clock()
    replay.take_back()
    read_all(replay)
    assert replay.now() == BEGIN_NS + 20_000_000_000
    assert (replay.speed, replay.is_playing) == (2.0, False)
    assert {host.age for host in replay.snapshots()} == {Age.FRESH}


def test_a_recording_that_goes_on_is_followed(tmp_path, clock):
    header, *records = of_this_boot(recorded_machine(status=None))
    log = GrowingLog(tmp_path, [header, *records[:10]])
    replay = HostReplay([log.path], clock=clock)
    read_marks(replay)
    assert replay.is_growing
    before_ns = replay.end_ns
    log.write(*records[10:])
    replay.read_ahead(1.0)
    assert replay.end_ns > before_ns
    replay.seek(replay.end_ns)
    read_all(replay)
    assert replay.snapshots()[0].state == HostState.RECORDED
    log.drop_lock()
    replay.close()


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
    replay = HostReplay(logs, clock=clock)
    assert [host.name for host in replay.hosts] == names
    replay.close()


def test_a_training_is_refused_with_what_to_do(tmp_path, clock):
    logs = [recorded_host(tmp_path, "gpu1"), write_log(tmp_path, recorded_session())]
    with pytest.raises(LogError, match=r"is a training run, and .*: replay it by itself"):
        HostReplay(logs, clock=clock)


@pytest.mark.parametrize("wall", [1e300, -1.0, 1e12])
def test_a_recording_of_no_time_that_can_be_is_refused(tmp_path, clock, wall):
    header, *records = recorded_machine()
    log = write_log(tmp_path, [replace(header, wall=wall), *records])
    with pytest.raises(LogError, match="does not say when it was recorded"):
        HostReplay([log], clock=clock)
