"""A replay: its clock, its speeds, where it is set to, and what it shows there."""

import pytest
from fakes.recorded import folded, recorded_session, write_log
from fakes.screens import Clock, GrowingLog, of_this_boot

from dlmon.log.folder import LogError
from dlmon.records import Epoch, Notice, Status, encode
from dlmon.session.replay import ReplaySource
from dlmon.session.session import Session, time_of
from dlmon.session.source import MOST_AT_ONCE_NS, SPEEDS

RECORDS = recorded_session(epochs=3, gpus=2)
SECOND = 10**9


@pytest.fixture
def clock():
    return Clock(77 * SECOND)


@pytest.fixture
def replay(tmp_path, clock, monkeypatch):
    """Return a function that plays a log of these records, read whole for its marks."""
    monkeypatch.setattr("dlmon.session.replay.PLAYING_S", 10.0)
    sources = []

    def play(records=RECORDS):
        source = ReplaySource(write_log(tmp_path / str(len(sources)), records), clock)
        sources.append(source)
        while source.ahead_share is not None:
            source.read_ahead(1.0)
        source.poll()
        return source

    yield play
    for source in sources:
        source.close()


def second_of(source):
    return (source.now() - source.start_ns) / SECOND


def finish(source):
    while source.read_share is not None:
        source.poll(1.0)


@pytest.mark.parametrize("speed", SPEEDS)
def test_it_plays_as_fast_as_is_said(replay, clock, speed):
    source = replay()
    source.change_speed(SPEEDS.index(speed) - SPEEDS.index(1.0))
    clock.advance(0.05)
    source.poll()
    assert second_of(source) == pytest.approx(min(0.05 * speed, 32.2), abs=0.5)


def test_it_begins_at_the_first_second_and_time_stands_while_it_is_paused(replay, clock):
    source = replay()
    assert (second_of(source), source.running, source.snapshot().epochs) == (0, True, ())
    clock.advance(1.5)
    source.poll()
    assert second_of(source) == 1.5
    source.stop_clock()
    clock.advance(1.0)
    source.poll()
    assert second_of(source) == 1.5
    source.play()
    clock.advance(1.0)
    source.poll()
    assert second_of(source) == 2.5
    # A change of the speed counts from then on, and a suspension of the machine skips nothing.
    source.change_speed(1)
    clock.advance(1.0)
    source.poll()
    assert second_of(source) == 4.5
    source.change_speed(-50)
    assert source.speed == 0.25
    source.change_speed(50)
    assert source.speed == 600
    source = replay()
    clock.advance(3600)
    source.poll()
    assert second_of(source) == MOST_AT_ONCE_NS / SECOND


def test_what_is_shown_is_what_was_written_by_then_whichever_way_one_came_there(replay):
    source = replay()
    source.stop_clock()
    for seconds in (0, 31, 3.3, 20.25, 12, 32):
        source.seek(source.start_ns + int(seconds * SECOND))
        finish(source)
        expected = Session(RECORDS[0])
        for record in RECORDS[1:]:
            if (time_of(record) or 0) > source.position_ns:
                break
            expected.add(record)
        assert source.snapshot() == expected.snapshot(source.position_ns)


def test_at_the_end_it_is_what_the_session_ended_as_and_play_begins_again(replay):
    source = replay()
    source.seek(-1)
    assert source.position_ns == source.start_ns
    source.seek(source.end_ns + 5 * SECOND)
    assert source.position_ns == source.end_ns
    assert (source.status, source.running) == (Status.COMPLETED, False)
    assert source.snapshot() == folded(RECORDS).snapshot()
    source.stop_clock()
    source.play()
    # The start before the first step is left out.
    assert 4 < second_of(source) < 5
    unended = replay(recorded_session("training"))
    unended.seek(unended.end_ns)
    assert unended.status == Status.UNKNOWN


def test_marks_are_gone_to_one_by_one_and_back(replay):
    source = replay()
    source.stop_clock()
    ends = [record.end for record in RECORDS if isinstance(record, Epoch)]
    epochs = [mark for mark in source.marks if mark.kind == "epoch"]
    assert [mark.t for mark in epochs] == ends
    # An epoch that a mark stands for has ended there.
    source.seek(ends[0])
    assert len(source.snapshot().epochs) == 1
    source.seek(source.start_ns)
    seen = []
    while (mark := source.seek_mark(forward=True)) is not None:
        seen.append(mark)
        assert source.position_ns == mark.t
    assert seen == source.marks
    back = []
    while (mark := source.seek_mark(forward=False)) is not None:
        back.append(mark)
    assert back == source.marks[-2::-1]
    assert source.position_ns == source.marks[0].t


def test_a_session_that_runs_is_played_as_far_as_it_has_come(tmp_path, clock):
    *records, last = of_this_boot(recorded_session("training"))
    log = GrowingLog(tmp_path, records)
    source = ReplaySource(log.path, clock)
    try:
        while source.ahead_share is not None:
            source.read_ahead(1.0)
        source.seek(source.end_ns)
        assert source.running
        assert source.is_growing
        end = source.end_ns
        log.write(last, Notice(end + 5 * SECOND, "something"))
        source.read_ahead(1.0)
        assert source.end_ns == end + 5 * SECOND
        clock.advance(1.0)
        source.poll()
        assert source.position_ns == end + SECOND
    finally:
        source.close()
        log.drop_lock()


def test_a_line_that_no_record_can_be_made_of_is_passed_over(tmp_path, clock):
    path = write_log(tmp_path / "torn", RECORDS)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:40], b'{"type":"batch\x00', *lines[40:], b"{torn"]))
    source = ReplaySource(path, clock)
    source.seek(source.end_ns)
    assert source.snapshot().epochs == folded(RECORDS).snapshot().epochs
    source.close()


@pytest.mark.parametrize("lines", [b"", encode(RECORDS[0])])
def test_a_log_of_nothing_is_refused_in_a_sentence(tmp_path, lines):
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines)
    with pytest.raises(LogError, match=r"(nothing to replay|empty)"):
        ReplaySource(path)


def test_a_log_that_is_removed_or_replaced_meanwhile_is_said(tmp_path, clock, replay):
    source = replay()
    source.path.unlink()
    source.read_ahead(1.0)
    assert source.problem == "the log was removed: what is shown was read from the old one"
    source.seek(source.end_ns)
    assert source.status == Status.COMPLETED
    source = replay(recorded_session("training"))
    source.path.rename(tmp_path / "away")
    source.path.write_bytes(b"")
    source.read_ahead(1.0)
    assert source.problem == "the log was replaced: what is shown was read from the old one"
