import contextlib
import itertools
import os
import sys
import tempfile
from pathlib import Path

import pytest
from fakes.recorded import write_log
from fakes.strategies import header
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log import log_follower as follower_module
from dlmon.log.folder import LOG_NAME, LogError
from dlmon.log.log_follower import LogFollower, writer_pid
from dlmon.records import Notice, encode


def follow(path):
    return contextlib.closing(LogFollower(path))


def test_a_log_that_was_closed_is_read_no_more(tmp_path):
    follower = LogFollower(write_log(tmp_path, [header(), Notice(1, "a")]))
    follower.close()
    # As a screen and then its app close it.
    follower.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        follower.poll()


def test_a_line_that_is_not_whole_yet_is_left_for_later(tmp_path):
    path = write_log(tmp_path, [header()])
    line = encode(Notice(1, "caf\u00e9"))
    with follow(path) as follower, path.open("ab", buffering=0) as file:
        for byte in line[:-1]:
            file.write(bytes([byte]))
            assert follower.poll() == []
        file.write(b"\n")
        assert follower.poll() == [Notice(1, "café")]


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"notice","t":3,"te',
        b"\0" * 400,
        b"\xff\xfe",
        b"[" * 5_000,
        b'{"type":"notice"}',
        # Of a later version.
        b'{"type":"weather","t":1}',
    ],
    ids=["cut", "zeros", "no text", "deep", "no fields", "unknown"],
)
def test_a_line_that_is_no_record_is_skipped(tmp_path, line):
    path = write_log(tmp_path, [header(), Notice(1, "a")])
    with path.open("ab") as file:
        file.write(line + b"\n\n" + encode(Notice(2, "b")))
    with follow(path) as follower:
        assert follower.poll() == [Notice(1, "a"), Notice(2, "b")]


def test_a_line_without_end_takes_no_more_memory_than_it_may(tmp_path, monkeypatch):
    monkeypatch.setattr(follower_module, "LONGEST_LINE_BYTES", 3_000)
    monkeypatch.setattr(follower_module, "_CHUNK_BYTES", 1_000)
    path = write_log(tmp_path, [header()])
    with path.open("ab") as file:
        file.write(b"x" * 50_000 + b"\n" + encode(Notice(2, "b")))
    with follow(path) as follower:
        polls = [follower.poll(max_bytes=1_000) for _ in range(60)]
        assert [record for records in polls for record in records] == [Notice(2, "b")]


@given(
    st.lists(st.integers(1, 5_000), min_size=1, max_size=12),
    st.lists(st.integers(1, 4_000), min_size=1, max_size=6),
)
def test_however_lines_arrive_each_is_read_once(lengths, cuts):
    records = [Notice(number, "x" * length) for number, length in enumerate(lengths)]
    content = b"".join(map(encode, records))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower_module, "_CHUNK_BYTES", 1_000)
        path = write_log(Path(folder), [header()])
        found = []
        with follow(path) as follower, path.open("ab", buffering=0) as file:
            for cut in itertools.cycle(cuts):
                file.write(content[:cut])
                content = content[cut:]
                found += follower.poll(max_bytes=1_500)
                if not content:
                    break
            while more := follower.poll(max_bytes=1_500):
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


@pytest.mark.skipif(sys.platform != "linux", reason="locks are probed on Linux")
def test_who_writes_a_log_is_seen_until_that_process_ends_whoever_follows_it(tmp_path, hold):
    path = write_log(tmp_path, [header()])
    holder = hold(path)
    for _ in range(3):
        with follow(path) as follower:
            follower.poll()
            assert follower.writer_pid() == writer_pid(path) == holder.pid
    with follow(path) as follower:
        holder.kill()
        holder.wait()
        assert follower.writer_pid() is None
    assert writer_pid(path) is None


def test_a_header_longer_than_a_read_is_read_whole(tmp_path):
    long = header(options={f"option {number}": "x" * 900 for number in range(200)})
    path = write_log(tmp_path, [long, Notice(1, "a")])
    with follow(path) as follower:
        assert follower.header == long
        assert follower.poll() == [Notice(1, "a")]


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
    monkeypatch.setattr(follower_module, "_CHUNK_BYTES", 4_000)
    notices = [Notice(n, "x" * 50) for n in range(300)]
    path = write_log(tmp_path, [header(), *notices])
    got, shares = [], []
    with follow(path) as follower:
        while follower.read_share is not None:
            for record in follower.new_records(max_bytes=1):
                got.append(record)
                if len(got) % 20 == 0:
                    break
            shares.append(follower.read_share)
    assert got == notices
    assert shares.pop() is None
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2
    assert 0.8 < shares[-1] <= 1
