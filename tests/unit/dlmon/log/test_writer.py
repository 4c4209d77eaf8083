import contextlib
import errno
import os
import resource
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.recorded import write_log
from fakes.strategies import header

from dlmon.log import writer as writer_module
from dlmon.log.folder import LogError
from dlmon.log.log_follower import LogFollower, writer_pid
from dlmon.log.writer import LogWriter
from dlmon.records import Batches, Epoch, Machine, Notice, Output, Result, decode, encode


def epoch(number):
    return Epoch(number, number, number + 1, number + 2, True, 10, {"loss": 1.5})


def sample(number):
    return Machine(t=number, wall=float(number))


def result():
    return Result("completed", "s", "l", "w", "cpu", {}, 1.0)


@pytest.fixture
def writer(tmp_path):
    made = LogWriter(tmp_path, header())
    yield made
    made.close()


@contextlib.contextmanager
def files_no_larger_than(size):
    """Let the disk be full: no file may grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def read(path):
    """Return every record behind the header, and check that each line is one."""
    return [decode(line) for line in path.read_bytes().splitlines()[1:]]


def follow(path):
    return contextlib.closing(LogFollower(path))


@pytest.mark.parametrize("where", ["a file", "a file/below", "/proc/dlmon"])
def test_a_directory_that_can_not_be_written_is_refused(tmp_path, where):
    (tmp_path / "a file").write_text("")
    with pytest.raises(LogError, match="choose another with --log-dir"):
        LogWriter(tmp_path / where, header())


def test_a_session_is_never_written_over(tmp_path):
    path = write_log(tmp_path, [header(), epoch(0)])
    with pytest.raises(LogError):
        LogWriter(tmp_path, header())
    assert read(path) == [epoch(0)]


def test_what_can_not_be_written_is_refused_before_the_log_is_visible(tmp_path):
    with files_no_larger_than(10), pytest.raises(LogError, match="reached the file-size limit"):
        LogWriter(tmp_path, header())
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_leaves_whole_lines(writer):
    writer.write(Notice(1, "before"))
    size = writer.path.stat().st_size
    # Room for one and a half more lines.
    with files_no_larger_than(size + len(encode(sample(1))) * 3 // 2):
        writer.write(sample(1))
        writer.write(sample(2))
        assert writer.failing
        assert writer.path.read_bytes().endswith(b"\n")
        assert read(writer.path) == [Notice(1, "before"), sample(1)]


def test_a_torn_line_that_can_not_be_cut_stays_a_line_of_its_own(writer, monkeypatch):
    def refuse(fd, size):
        raise OSError(5, "input/output error")

    for number in range(2):
        with files_no_larger_than(writer.path.stat().st_size + 10), monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", refuse)
            writer.write(epoch(number))
        writer.retry(at_once=True)
    with follow(writer.path) as follower:
        assert follower.poll() == [epoch(0), epoch(1)]


def test_epochs_and_the_result_wait_for_room_and_samples_do_not(writer):
    with files_no_larger_than(writer.path.stat().st_size + 5):
        for number in range(4):
            writer.write(sample(number))
            writer.write(Output(number, "stdout", "text"))
            writer.write(Batches(0, number, 10, 1, (5,)))
            writer.write(epoch(number))
        writer.write(result())
        assert not writer.retry(at_once=True)
        assert read(writer.path) == []
    assert writer.lost_lines == 12
    assert writer.retry(at_once=True)
    assert writer.failing is None
    assert read(writer.path) == [*(epoch(number) for number in range(4)), result()]
    writer.write(sample(9))
    assert read(writer.path)[-1] == sample(9)


def test_a_full_disk_is_tried_again_once_a_second(writer, monkeypatch):
    now = 1_000.0
    monkeypatch.setattr(writer_module, "time", SimpleNamespace(monotonic=lambda: now))
    with files_no_larger_than(writer.path.stat().st_size):
        writer.write(epoch(0))
    # There is room again, but nobody looks before a second is over.
    assert not writer.retry()
    writer.write(epoch(1))
    assert read(writer.path) == []
    now += writer_module.RETRY_S
    writer.write(epoch(2))
    assert read(writer.path) == [epoch(0), epoch(1), epoch(2)]


def test_memory_for_what_waits_is_bounded_and_the_result_always_fits(writer, monkeypatch):
    monkeypatch.setattr(writer_module, "WAITING_LINES", 10)
    with files_no_larger_than(writer.path.stat().st_size):
        for number in range(30):
            writer.write(epoch(number))
        writer.write(result())
    assert writer.lost_lines == 20
    assert writer.retry(at_once=True)
    assert read(writer.path) == [*(epoch(number) for number in range(10)), result()]


def test_epochs_and_the_result_are_synced(writer, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for record in (sample(1), epoch(0), Notice(2, "a"), epoch(1), result()):
        writer.write(record)
    assert len(synced) == 3
    with files_no_larger_than(writer.path.stat().st_size):
        writer.write(epoch(2))
    assert len(synced) == 3
    writer.retry(at_once=True)
    assert len(synced) == 4


@pytest.mark.parametrize(
    ("number", "reason", "waits"),
    [
        (errno.ENOSPC, "the disk is full", True),
        (errno.EDQUOT, "the disk quota is used up", True),
        (errno.EFBIG, "it has reached the file-size limit", False),
        (errno.EIO, "input/output error", False),
    ],
)
def test_only_room_on_a_disk_is_waited_for(writer, monkeypatch, number, reason, waits):
    def refuse(fd, line):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        writer.write(epoch(0))
    assert (writer.failing, writer.is_full) == (reason, waits)
    assert writer.retry(at_once=True)
    assert (writer.failing, writer.is_full) == (None, False)


def replace_by_a_copy(path):
    path.with_name("copy").write_bytes(path.read_bytes())
    path.with_name("copy").rename(path)


LOSSES = [
    ("was removed", Path.unlink),
    ("was removed", lambda path: shutil.rmtree(path.parent)),
    ("was moved away", lambda path: path.rename(path.with_name("kept.jsonl"))),
    ("was replaced", replace_by_a_copy),
    ("was cut short", lambda path: os.truncate(path, 100)),
]


@pytest.mark.parametrize(("reported", "lose"), LOSSES)
def test_a_log_that_is_lost_is_noticed_and_written_on(writer, reported, lose):
    assert writer.find_damage() is None
    lose(writer.path)
    assert writer.find_damage() == reported
    writer.write(epoch(0))
    assert writer.find_damage() == reported
    assert writer.failing is None


@pytest.mark.skipif(sys.platform != "linux", reason="open files are listed on Linux")
def test_no_file_is_left_open(tmp_path):
    before = set(Path("/proc/self/fd").iterdir())
    path = write_log(tmp_path, [header()])
    writer_pid(path)
    LogFollower(path).close()
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(LogError):
        LogFollower(tmp_path / "empty")
    LogWriter(tmp_path / "more", header()).close()
    with files_no_larger_than(10), pytest.raises(LogError):
        LogWriter(tmp_path / "full", header())
    assert set(Path("/proc/self/fd").iterdir()) == before
