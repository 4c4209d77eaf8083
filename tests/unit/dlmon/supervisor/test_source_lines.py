"""The source around the line at which a run stands is read, or the reason said why not."""

import os
import time
import zipfile

import pytest

from dlmon.records import Frame, decode, encode
from dlmon.supervisor.source_lines import LONGEST_LINE, MOST_BYTES, read_source_lines

TEXT = "".join(f"line {number}\n" for number in range(1, 10))


def read(path, line=5, began=None):
    began = time.time() + 60 if began is None else began
    return read_source_lines(os.getpid(), Frame(str(path), line, "f"), began)


@pytest.mark.parametrize(
    ("line", "first", "shown"), [(5, 3, range(3, 8)), (1, 1, range(1, 4)), (9, 7, range(7, 10))]
)
def test_the_lines_around_a_line_are_read(tmp_path, line, first, shown):
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    record = read(path, line)
    assert (record.file, record.line, record.first) == (str(path), line, first)
    assert record.lines == tuple(f"line {number}" for number in shown)
    assert (record.changed, record.why) == (None, {})


def test_lines_are_numbered_as_python_numbers_them(tmp_path):
    path = tmp_path / "train.py"
    path.write_bytes("a\x0cb\u2028c\r\nsecond\rthird".encode())
    assert read(path, 3).lines == ("abc", "second", "third")


def test_tabs_are_expanded_escapes_removed_and_long_lines_cut(tmp_path):
    path = tmp_path / "train.py"
    path.write_bytes(b"if True:\n\tx = '\x1b[31m[bold]\xff'\n" + b"y" * 5000)
    first, second, third = read(path, 2).lines
    assert second == "    x = '[bold]\ufffd'"
    assert len(third) == LONGEST_LINE
    # As the log has it, so any viewer reads it.
    assert decode(encode(read(path, 2))).lines == (first, second, third)


def test_a_file_that_changed_since_the_run_began_is_marked(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    assert read(path, began=time.time() - 60).changed


def test_a_relative_path_is_one_of_the_process(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert read("train.py").lines


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file or directory"),
        (b"\x7fELF\0\0\n" * 9, "it is not text"),
        (b"one\ntwo\n", "it has no line 5"),
        (b"", "it has no line 5"),
        (b"#" * (MOST_BYTES + 1), "it is larger than 4 MiB"),
    ],
    ids=["missing", "binary", "short", "empty", "large"],
)
def test_of_a_file_without_that_line_the_reason_is_said(tmp_path, content, why):
    path = tmp_path / "train.py"
    if content is not None:
        path.write_bytes(content)
    record = read(path)
    assert (record.lines, record.why) == (None, {"lines": why})
    assert decode(encode(record)) == record


def test_what_is_no_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, why in [
        (tmp_path / "pipe", "it is a named pipe, not a regular file"),
        (tmp_path, "it is a directory, not a regular file"),
        ("/dev/zero", "it is a device, not a regular file"),
        ("/x\0y", "embedded null byte"),
    ]:
        assert read(path).why == {"lines": why}


def test_a_module_within_an_archive_has_no_lines(tmp_path):
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("train.py", TEXT)
    assert read(tmp_path / "app.zip" / "train.py").why == {"lines": "not a directory"}
