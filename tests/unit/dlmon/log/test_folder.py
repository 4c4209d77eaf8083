import contextlib
import errno
import itertools
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.strategies import header
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log import folder as log
from dlmon.log.folder import (
    LOG_NAME,
    LogError,
    LogFollower,
    LogWriter,
    new_session_id,
    writer_pid,
)
from dlmon.records import Batches, Epoch, Machine, Notice, Output, Phase, Result, encode

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="locks are probed on Linux")

# Holds a log until it is told to leave.
HOLDER = """
import sys
from pathlib import Path
from dlmon.log.folder import LogWriter
from dlmon.records import SessionHeader, decode
writer = LogWriter(Path(sys.argv[1]), decode(sys.stdin.readline()))
print(writer.path, flush=True)
sys.stdin.readline()
"""


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


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(encode(header()).decode())
    process.stdin.flush()
    process.path = Path(process.stdout.readline().strip())
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


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
    follower = LogFollower(path)
    records = follower.poll()
    follower.close()
    assert follower.skipped == 0
    return records


def follow(path):
    return contextlib.closing(LogFollower(path))


def test_what_is_written_is_followed(writer):
    with follow(writer.path) as follower:
        assert follower.header == header()
        assert follower.poll() == []
        writer.write(Phase(1, "loading"))
        writer.write(epoch(0))
        assert follower.poll() == [Phase(1, "loading"), epoch(0)]
        assert follower.poll() == []
        writer.write(result())
        assert follower.poll() == [result()]
    assert json.loads(writer.path.read_text().splitlines()[0])["type"] == "session"


def test_only_its_owner_may_read_a_log(tmp_path):
    directory = tmp_path / "deep" / "sessions"
    writer = LogWriter(directory, header())
    writer.close()
    assert writer.path == directory / header().id / LOG_NAME
    assert stat.S_IMODE(writer.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(writer.path.parent.stat().st_mode) == 0o700
    assert list(writer.path.parent.iterdir()) == [writer.path]


def test_a_line_that_is_not_whole_yet_is_left_for_later(tmp_path):
    path = write_log(tmp_path, [header()])
    line = encode(Notice(1, "caf\u00e9"))
    with follow(path) as follower, path.open("ab", buffering=0) as file:
        for byte in line[:-1]:
            file.write(bytes([byte]))
            assert follower.poll() == []
        file.write(b"\n")
        assert follower.poll() == [Notice(1, "café")]
        assert follower.skipped == 0


@given(st.lists(st.integers(0, 2_000), max_size=8))
def test_it_makes_no_difference_when_a_log_is_read(tmp_path_factory, cuts):
    records = [header(), *(Notice(n, "x" * (n % 7)) for n in range(20)), epoch(0), result()]
    data = b"".join(encode(record) for record in records)
    path = tmp_path_factory.mktemp("log") / LOG_NAME
    first = len(encode(records[0]))
    path.write_bytes(data[:first])
    got = []
    with follow(path) as follower, path.open("ab", buffering=0) as file:
        cuts = sorted(first + cut for cut in cuts)
        for start, stop in zip([first, *cuts], [*cuts, len(data)], strict=True):
            file.write(data[start:stop])
            got += follower.poll()
    assert got == records[1:]


def test_a_long_log_is_read_in_steps(tmp_path):
    notices = [Notice(number, "x" * 100) for number in range(500)]
    path = write_log(tmp_path, [header(), *notices])
    got = []
    with follow(path) as follower:
        while records := follower.poll(most_bytes=1):
            got += records
    assert got == notices


def test_a_line_longer_than_a_read_is_one_record(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_CHUNK_BYTES", 100)
    batches = Batches(0, 0, 10, 1, tuple(range(2_000)))
    path = write_log(tmp_path, [header(), Notice(1, "a"), batches, Notice(2, "b")])
    with follow(path) as follower:
        got = [record for _ in range(9) for record in follower.poll(most_bytes=100)]
    assert got == [Notice(1, "a"), batches, Notice(2, "b")]


@pytest.mark.parametrize(
    "torn",
    [b'{"type":"notice","t":3,"te', b"\0" * 400, b"\xff\xfe", b"[" * 5_000, b'{"type":"notice"}'],
    ids=["cut", "zeros", "no text", "deep", "no fields"],
)
def test_a_line_that_is_no_record_is_skipped_and_counted(tmp_path, torn):
    path = write_log(tmp_path, [header(), Notice(1, "a")])
    with path.open("ab") as file:
        file.write(torn + b"\n\n" + encode(Notice(2, "b")))
    with follow(path) as follower:
        assert follower.poll() == [Notice(1, "a"), Notice(2, "b")]
        assert follower.skipped == 1


def test_a_torn_last_line_is_no_record(tmp_path):
    path = write_log(tmp_path, [header(), Notice(1, "a")])
    with path.open("ab") as file:
        file.write(b'{"type":"notice","t":3,"te')
    assert read(path) == [Notice(1, "a")]


def test_records_of_a_kind_unknown_here_are_passed_over(tmp_path):
    path = write_log(tmp_path, [header()])
    with path.open("ab") as file:
        file.write(b'{"type":"weather","t":1}\n' + encode(Notice(2, "b")))
    assert read(path) == [Notice(2, "b")]


def test_a_line_without_end_takes_no_more_memory_than_it_may(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LONGEST_LINE_BYTES", 3_000)
    monkeypatch.setattr(log, "_CHUNK_BYTES", 1_000)
    path = write_log(tmp_path, [header()])
    with path.open("ab") as file:
        file.write(b"x" * 50_000 + b"\n" + encode(Notice(2, "b")))
    with follow(path) as follower:
        polls = [follower.poll(most_bytes=1_000) for _ in range(60)]
        assert [record for records in polls for record in records] == [Notice(2, "b")]
        assert follower.skipped == 1


def test_a_long_line_that_grows_is_searched_once_and_then_read(tmp_path, monkeypatch):
    path = write_log(tmp_path, [header()])
    line = encode(Notice(2, "x" * 40_000))
    parts = [line[start : start + 7_000] for start in range(0, len(line), 7_000)]
    monkeypatch.setattr(log, "_CHUNK_BYTES", 1_000)
    with follow(path) as follower, path.open("ab", buffering=0) as file:
        read = []
        pread = os.pread
        monkeypatch.setattr(log.os, "pread", lambda *a: (read.append(a[1]), pread(*a))[1])
        for part in parts:
            assert follower.poll(most_bytes=2_000) == []
            file.write(part)
            searched = len(read)
            # A tick in which nothing was written asks once more for what is behind the last byte.
            follower_polls = [follower.poll(most_bytes=2_000) for _ in range(10)]
            if part is not parts[-1]:
                assert follower_polls == [[]] * 10
                assert len(read) - searched <= 7_000 // 1_000 + 12
        assert [r for records in follower_polls for r in records] == [Notice(2, "x" * 40_000)]
        file.write(encode(Notice(3, "b")))
        assert follower.poll() == [Notice(3, "b")]


@given(
    st.lists(st.integers(1, 5_000), min_size=1, max_size=12),
    st.lists(st.integers(1, 4_000), min_size=1, max_size=6),
)
def test_however_lines_arrive_each_is_read_once(lengths, cuts):
    records = [Notice(number, "x" * length) for number, length in enumerate(lengths)]
    content = b"".join(map(encode, records))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "_CHUNK_BYTES", 1_000)
        path = write_log(Path(folder), [header()])
        found = []
        with follow(path) as follower, path.open("ab", buffering=0) as file:
            for cut in itertools.cycle(cuts):
                file.write(content[:cut])
                content = content[cut:]
                found += follower.poll(most_bytes=1_500)
                if not content:
                    break
            while more := follower.poll(most_bytes=1_500):
                found += more
        assert found == records


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\0" * 100, "is not a dlmon log"),
        (b"hello\n", "is not a dlmon log"),
        (b"{}\n", "is not a dlmon log"),
        (b'[{"type":"session"}]\n', "is not a dlmon log"),
        (b'{"type":"session","schema":1}\n', "is not a dlmon log"),
        (b'{"type":"session","schema":"1"}\n', "is not a dlmon log"),
        (b'{"type":"phase","t":1,"name":"loading"}\n', "is not a dlmon log"),
        (b'{"type":"session","schema":2}\n', "has schema 2 and this dlmon reads schema 1"),
        (encode(header())[:-1], "is not a dlmon log"),
        (b"[" * 100_000, "is not a dlmon log"),
        (b"x" * 6_000_000, "is not a dlmon log"),
    ],
    ids=[
        *("empty", "zeros", "text", "no type", "no object", "no fields", "schema as text"),
        *("no header", "another schema", "no newline", "deep", "endless"),
    ],
)
def test_what_is_no_log_is_refused_in_a_sentence(tmp_path, content, complaint):
    path = tmp_path / LOG_NAME
    path.write_bytes(content)
    with pytest.raises(LogError, match=complaint):
        LogFollower(path)


@pytest.mark.parametrize("name", ["missing", ""])
def test_what_can_not_be_opened_is_refused_in_a_sentence(tmp_path, name):
    with pytest.raises(LogError, match="can't be read"):
        LogFollower(tmp_path / name)


def test_a_header_longer_than_a_read_is_read_whole(tmp_path):
    long = header(options={f"option {number}": "x" * 900 for number in range(200)})
    path = write_log(tmp_path, [long, Notice(1, "a")])
    with follow(path) as follower:
        assert follower.header == long
        assert follower.poll() == [Notice(1, "a")]


@pytest.mark.parametrize("where", ["a file", "a file/below", "/proc/dlmon"])
def test_a_directory_that_can_not_be_written_is_refused(tmp_path, where):
    (tmp_path / "a file").write_text("")
    with pytest.raises(LogError, match="choose another with --log-dir"):
        LogWriter(tmp_path / where, header())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(LogError, match="permission denied"):
        LogWriter(tmp_path, header())


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
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda: now))
    with files_no_larger_than(writer.path.stat().st_size):
        writer.write(epoch(0))
    # There is room again, but nobody looks before a second is over.
    assert not writer.retry()
    writer.write(epoch(1))
    assert read(writer.path) == []
    now += log.RETRY_S
    writer.write(epoch(2))
    assert read(writer.path) == [epoch(0), epoch(1), epoch(2)]


def test_room_for_some_of_what_waits_is_used(writer):
    size = writer.path.stat().st_size
    with files_no_larger_than(size):
        for number in range(4):
            writer.write(epoch(number))
    with files_no_larger_than(size + 2 * len(encode(epoch(0))) + 3):
        assert not writer.retry(at_once=True)
        assert read(writer.path) == [epoch(0), epoch(1)]
    assert writer.retry(at_once=True)
    assert read(writer.path) == [epoch(number) for number in range(4)]


def test_memory_for_what_waits_is_bounded_and_the_result_always_fits(writer, monkeypatch):
    monkeypatch.setattr(log, "WAITING_LINES", 10)
    with files_no_larger_than(writer.path.stat().st_size):
        for number in range(30):
            writer.write(epoch(number))
        writer.write(result())
    assert writer.lost_lines == 20
    assert writer.retry(at_once=True)
    assert read(writer.path) == [*(epoch(number) for number in range(10)), result()]


def test_a_torn_line_that_can_not_be_cut_stays_a_line_of_its_own(writer, monkeypatch):
    def refuse(fd, size):
        raise OSError(5, "input/output error")

    writer.write(Notice(1, "before"))
    with files_no_larger_than(writer.path.stat().st_size + 10):
        monkeypatch.setattr(log.os, "ftruncate", refuse)
        writer.write(epoch(0))
    monkeypatch.undo()
    writer.retry(at_once=True)
    with files_no_larger_than(writer.path.stat().st_size + 10):
        writer.write(epoch(1))
    writer.retry(at_once=True)
    with follow(writer.path) as follower:
        assert follower.poll() == [Notice(1, "before"), epoch(0), epoch(1)]
        assert follower.skipped == 1


def test_a_disk_that_can_not_sync_is_written_all_the_same(writer, monkeypatch):
    def refuse(fd):
        raise OSError(22, "invalid argument")

    monkeypatch.setattr(log.os, "fsync", refuse)
    records = [epoch(0), sample(1), Notice(2, "after"), result()]
    for record in records:
        writer.write(record)
    assert read(writer.path) == records
    assert writer.lost_lines == 0


def test_epochs_and_the_result_are_synced(writer, monkeypatch):
    synced = []
    monkeypatch.setattr(log.os, "fsync", synced.append)
    for record in (sample(1), epoch(0), Notice(2, "a"), epoch(1), result()):
        writer.write(record)
    assert len(synced) == 3
    with files_no_larger_than(writer.path.stat().st_size):
        writer.write(epoch(2))
    assert len(synced) == 3
    writer.retry(at_once=True)
    assert len(synced) == 4


def test_a_log_that_can_not_be_opened_leaves_no_folder(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(24, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(log.os, "open", refuse)
        with pytest.raises(LogError, match="too many open files"):
            LogWriter(tmp_path, header())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "small"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "dlmon-test", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nothing can be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_real_disk_that_is_full_costs_no_epoch(small_disk):
    ballast = small_disk / "ballast"
    writer = LogWriter(small_disk, header())
    try:
        ballast.write_bytes(b"x" * 32 * 1024)
        for number in range(400):
            writer.write(sample(number))
            writer.write(Output(number, "stdout", "x" * 200))
        assert writer.failing == "the disk is full" or "no space" in writer.failing
        writer.write(epoch(0))
        writer.write(result())
        assert all(isinstance(record, Machine | Output) for record in read(writer.path))
        ballast.unlink()
        assert writer.retry(at_once=True)
        assert read(writer.path)[-2:] == [epoch(0), result()]
        assert writer.lost_lines + len(read(writer.path)) - 2 == 800
    finally:
        writer.close()


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
        patch.setattr(log.os, "write", refuse)
        writer.write(epoch(0))
    assert (writer.failing, writer.is_full) == (reason, waits)
    assert writer.retry(at_once=True)
    assert (writer.failing, writer.is_full) == (None, False)


def remove(path):
    path.unlink()


def move_away(path):
    path.rename(path.with_name("kept.jsonl"))


def replace_by_a_copy(path):
    path.with_name("copy").write_bytes(path.read_bytes())
    path.with_name("copy").rename(path)


def cut_short(path):
    os.truncate(path, 100)


def remove_folder(path):
    shutil.rmtree(path.parent)


LOSSES = {
    "was removed": remove,
    "was moved away": move_away,
    "was replaced": replace_by_a_copy,
    "was cut short": cut_short,
}


@pytest.mark.parametrize(("told", "lose"), [*LOSSES.items(), ("was removed", remove_folder)])
def test_a_log_that_is_lost_goes_on_in_the_next_which_is_a_log_of_its_own(writer, told, lose):
    first = writer.path
    writer.write(Notice(1, "before"))
    assert writer.find_loss() is None
    with follow(first) as follower:
        lose(first)
        assert writer.find_loss() == told
        writer.go_on_in_next([Phase(1, "training")])
        assert writer.path == first.with_name("session-2.jsonl")
        assert writer.find_loss() is None
        writer.write(Notice(2, "after"))
        assert follower.header.id == first.parent.name
    assert log.log_of(first.parent) == writer.path
    with follow(writer.path) as follower:
        assert follower.header == header()
        assert follower.poll() == [Phase(1, "training"), Notice(2, "after")]
    assert stat.S_IMODE(writer.path.stat().st_mode) == 0o600
    lose(writer.path)
    writer.go_on_in_next([])
    assert writer.path.name == "session-3.jsonl" or lose is remove_folder


@on_linux
def test_the_next_log_is_locked_and_the_lost_one_is_let_go(writer):
    first = writer.path
    kept = first.with_name("kept.jsonl")
    move_away(first)
    writer.go_on_in_next([])
    assert pid_seen_by_another_process(writer.path) == str(os.getpid())
    assert pid_seen_by_another_process(kept) == "None"


def test_a_log_that_is_lost_with_all_folders_around_it_is_kept_open(writer, tmp_path):
    shutil.rmtree(tmp_path)
    with pytest.raises(LogError, match="no such file or directory"):
        writer.go_on_in_next([])
    writer.write(epoch(0))
    assert writer.find_loss() == "was removed"
    assert writer.failing is None


def test_what_waits_for_room_is_written_to_the_next_log(writer):
    with files_no_larger_than(writer.path.stat().st_size):
        writer.write(epoch(0))
    remove(writer.path)
    writer.go_on_in_next([])
    assert writer.retry(at_once=True)
    assert read(writer.path) == [epoch(0)]


def test_a_log_that_is_cut_short_while_it_is_read_is_noticed(tmp_path):
    path = write_log(tmp_path, [header(), *(Notice(n, "x") for n in range(50))])
    with follow(path) as follower:
        assert len(follower.poll()) == 50
        os.truncate(path, 700)
        assert follower.poll() == []
        assert follower.was_cut
        with path.open("ab") as file:
            file.write(b"\n" + encode(Notice(60, "after")))
        assert follower.poll() == [Notice(60, "after")]


def test_how_much_of_a_log_is_read_is_known_until_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_CHUNK_BYTES", 4_000)
    notices = [Notice(n, "x" * 50) for n in range(300)]
    path = write_log(tmp_path, [header(), *notices])
    got, shares = [], []
    with follow(path) as follower:
        while follower.read_share is not None:
            for record in follower.new_records(most_bytes=1):
                got.append(record)
                if len(got) % 20 == 0:
                    break
            shares.append(follower.read_share)
    assert got == notices
    assert shares.pop() is None
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2
    assert 0.8 < shares[-1] <= 1


@on_linux
def test_another_process_is_seen_to_write_until_it_ends(holder):
    assert writer_pid(holder.path) == holder.pid
    with follow(holder.path) as follower:
        assert follower.writer_pid() == holder.pid
        holder.stdin.write("leave\n")
        holder.stdin.flush()
        assert holder.wait() == 0
        assert follower.writer_pid() is None
    assert writer_pid(holder.path) is None


@on_linux
def test_a_killed_writer_lets_go_of_the_log(holder):
    holder.kill()
    holder.wait()
    assert writer_pid(holder.path) is None


@on_linux
def test_followers_come_and_go_without_taking_the_lock(holder):
    followers = [LogFollower(holder.path) for _ in range(3)]
    for follower in followers:
        assert follower.writer_pid() == holder.pid
        follower.poll()
        follower.close()
    assert writer_pid(holder.path) == holder.pid


@on_linux
def test_the_lock_is_held_before_the_log_is_visible(tmp_path, monkeypatch):
    seen = []
    rename = Path.rename

    def look_then_rename(self, target):
        seen.append(pid_seen_by_another_process(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", look_then_rename)
    writer = LogWriter(tmp_path, header())
    writer.close()
    assert [*seen, pid_seen_by_another_process(writer.path)] == [str(os.getpid()), "None"]


def pid_seen_by_another_process(path):
    probe = (
        "from pathlib import Path; from dlmon.log.folder import writer_pid; "
        f"print(writer_pid(Path({str(path)!r})))"
    )
    return subprocess.check_output([sys.executable, "-c", probe], text=True).strip()


@on_linux
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


def test_ids_sort_by_time_and_are_safe_as_names():
    assert new_session_id("cifar10-cnn", 0.0).split("-")[2:4] == ["cifar10", "cnn"]
    nasty = new_session_id("../../x y\0" + "z" * 100, 1_795_186_560.0)
    assert not set(nasty) & set("/\0. ")
    assert len(nasty) < 70
    assert new_session_id("a", 1e9) < new_session_id("a", 1e9 + 3_600)
    assert new_session_id("a", 1e9) != new_session_id("a", 1e9)


def test_a_recorded_session_reads_back_as_it_was_written(tmp_path):
    records = recorded_session(gpus=8, cores=16, foreign=True, nan_loss=True)
    assert read(write_log(tmp_path, records)) == records[1:]
