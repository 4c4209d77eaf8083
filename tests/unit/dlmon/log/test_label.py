import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log.folder import LOG_NAME, LogError
from dlmon.log.label import (
    LABEL_NAME,
    LONGEST_NAME,
    LONGEST_NOTE,
    Label,
    read_label,
    refuse_name,
    write_label,
)
from dlmon.records.sanitize import clean


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir(mode=0o755)
    return folder / LOG_NAME


@pytest.fixture
def wrote(log):
    """Return a function that puts a label of anybody's beside the log, and reads it."""

    def wrote(content):
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        content = content.encode() if isinstance(content, str) else content
        log.with_name(LABEL_NAME).write_bytes(content)
        return read_label(log)

    return wrote


@pytest.mark.parametrize(
    "label", [Label("batch 256", "after the fix"), Label("ä", None), Label(None, "x"), Label()]
)
def test_what_is_written_is_read(log, label):
    write_label(log, label)
    assert read_label(log) == label
    write_label(log, Label("another"))
    assert read_label(log) == Label("another")
    assert list(log.parent.iterdir()) == [log.with_name(LABEL_NAME)]


def test_a_label_is_that_of_the_folder_whichever_log_is_read_and_its_owners_alone(log):
    write_label(log, Label("the log"))
    for name in ("session-2.jsonl", "sweep.jsonl"):
        assert read_label(log.with_name(name)) == Label("the log")
    assert stat.S_IMODE(log.with_name(LABEL_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o755
    other = log.with_name("mine.jsonl")
    assert read_label(other) == Label()
    with pytest.raises(LogError, match="is not a log that dlmon wrote"):
        write_label(other, Label("other"))


@pytest.mark.parametrize(
    "name",
    [
        *("", "  ", "x" * 61, "a,b", "base*", "what?", "[b]", "../x", "x.jsonl", "-x", "last"),
        *("last~12", " x", "x" * 59 + "  ", "a\nb", "a\x1b[31mb", "a\u202eb", "\udc80"),
    ],
)
def test_what_would_mean_something_else_is_no_name(log, name):
    assert "can't be a name: it has 1 to 60 visible characters" in refuse_name(name)
    with pytest.raises(LogError):
        write_label(log, Label(name))
    assert not log.with_name(LABEL_NAME).exists()


@pytest.mark.parametrize("note", ["x" * (LONGEST_NOTE + 1), "a\nb"])
def test_a_note_is_one_line(log, note):
    with pytest.raises(LogError, match="a note is one line of at most 1,000 visible characters"):
        write_label(log, Label("x", note))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b'"baseline"',
        b"[" * 100_000,
        b'{"name": 1, "note": []}',
        b'{"name": "", "note": "  "}',
        b'{"name": "a/b"}',
        b'{"name": "last"}',
        b'{"name": "' + b"x" * 70_000 + b'"}',
    ],
)
def test_what_is_no_label_names_nothing(wrote, content):
    assert wrote(content) == Label()


def test_a_foreign_label_is_cleaned_and_short(wrote):
    label = wrote({"name": "a\x1b]0;t\x07\u202eb\n[x", "note": "\x1b[2Jnote\nmore" + "x" * 9_999})
    assert (label.name, label.note[:8]) == (None, "notemore")
    assert len(label.note) <= LONGEST_NOTE
    assert wrote({"name": "\x1b[31mred\x1b[0m"}) == Label("red")
    assert len(wrote({"name": "x" * 99}).name) == LONGEST_NAME


def test_a_label_that_is_no_regular_file_is_none(log):
    for make in (os.mkfifo, os.mkdir):
        path = log.with_name(LABEL_NAME)
        make(path)
        assert read_label(log) == Label()
        path.rename(path.with_name(make.__name__))


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(log, tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    log.with_name(LABEL_NAME).symlink_to(target)
    write_label(log, Label("x"))
    assert target.read_text() == "mine"
    assert read_label(log) == Label("x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_name_that_can_not_be_kept_is_one_sentence(log):
    log.parent.chmod(0o500)
    with pytest.raises(LogError, match="the name can't be kept in"):
        write_label(log, Label("x"))


@given(st.dictionaries(st.sampled_from(["name", "note"]), st.text() | st.integers() | st.none()))
def test_whatever_a_label_holds_nothing_gets_through(tmp_path_factory, fields):
    log = tmp_path_factory.mktemp("label") / LOG_NAME
    log.with_name(LABEL_NAME).write_text(json.dumps(fields))
    label = read_label(log)
    assert label.name is None or refuse_name(label.name) is None
    assert label.note is None or (label.note == clean(label.note) and len(label.note) <= 1_000)
