"""The index that is written while a log is written."""

import stat

import pytest
from fakes.recorded import recorded_session

from dlmon.log.follower import LogFollower
from dlmon.log.index import index_of
from dlmon.log.writer import LogWriter
from dlmon.session.keyframes.entries import last_of
from dlmon.session.keyframes.reader import IndexReader
from dlmon.session.keyframes.writer import SessionIndex
from dlmon.session.session import Session

RECORDS = recorded_session(epochs=12)
EVERY_NS = 10 * 10**9


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a log and its index as a supervisor does."""
    writers = []

    def begin(records=RECORDS, before=lambda writer: None, halfway=lambda writer: None):
        writer, session = LogWriter(tmp_path / "sessions", records[0]), Session(records[0])
        writers.append(writer)
        before(writer)
        index = SessionIndex(writer, session, EVERY_NS, 0)
        for number, record in enumerate(records[1:]):
            if number == len(records) // 2:
                halfway(writer)
            writer.write(record)
            session.fold(record)
            index.take(record)
        index.close()
        return writer.path

    yield begin
    for writer in writers:
        writer.close()


def near_end(path):
    follower = LogFollower(path)
    reader = IndexReader(path, follower)
    reader.read()
    found = last_of(reader.restored_near_end())
    follower.close()
    return found


def test_a_log_can_be_taken_up_from_the_index_that_was_written_with_it(write):
    path = write()
    session, place = near_end(path)
    follower = LogFollower(path)
    follower.go_to(place.offset)
    for record in follower.new_records():
        session.fold(record)
    follower.close()
    whole = Session(RECORDS[0])
    for record in RECORDS[1:]:
        whole.fold(record)
    assert session.snapshot() == whole.snapshot()


def test_nobody_else_can_read_it(write):
    assert stat.S_IMODE(index_of(write()).stat().st_mode) == 0o600


def test_a_log_whose_index_can_not_be_written_is_whole(write):
    path = write(before=lambda writer: index_of(writer.path).mkdir())
    assert near_end(path) is None
    assert len(path.read_bytes().splitlines()) == len(RECORDS)
