import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.recorded import recorded_session, write_log
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log.folder import LOG_NAME, LogError, id_of
from dlmon.log.label import Label, write_label
from dlmon.log.prune import Recording, is_link, removable, remove, size_bytes
from dlmon.records import Status

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.readline()
"""


def session(name, began, status="completed", named=False):
    return Recording(Path("logs") / name / LOG_NAME, began, Status(status), named)


def sweep(name, began, *runs, status="completed", named=False):
    path = Path("logs") / name / "sweep.jsonl"
    return Recording(path, began, Status(status), named, frozenset(runs))


def ids(recordings):
    return [id_of(recording.path) for recording in recordings]


# ---- what a rule means ----


FIVE = [session(name, float(began)) for began, name in enumerate("abcde")]


@pytest.mark.parametrize(("keep", "gone"), [(0, "abcde"), (2, "abc"), (4, "a"), (5, ""), (100, "")])
def test_all_but_the_newest_are_removed(keep, gone):
    assert ids(removable(FIVE[::-1], [], keep=keep)) == list(gone)


@pytest.mark.parametrize(("before", "gone"), [(-1, ""), (2.0, "ab"), (2.5, "abc"), (99, "abcde")])
def test_what_began_before_a_time_is_removed(before, gone):
    assert ids(removable(FIVE, [], before=before)) == list(gone)


@pytest.mark.parametrize("status", ["running", "unknown"])
def test_what_may_run_is_never_removed(status):
    sessions = [session("runs", 0.0, status, named=True), *FIVE[1:]]
    assert ids(removable(sessions, [], keep=0, named=True)) == list("bcde")
    assert removable([], [sweep("s", 0.0, status=status)], keep=0, named=True) == []


def test_what_has_a_name_is_removed_only_where_that_is_asked_for():
    sessions = [session("mine", 0.0, named=True), *FIVE[1:3]]
    assert ids(removable(sessions, [], keep=1)) == ["b"]
    assert ids(removable(sessions, [], keep=1, named=True)) == ["mine", "b"]


def test_a_sweep_goes_with_the_last_of_its_sessions():
    swept = [sweep("s", 0.5, "b", "c")]
    assert ids(removable(FIVE, swept, keep=3)) == ["a", "b"]
    assert ids(removable(FIVE, swept, keep=2)) == ["a", "s", "b", "c"]
    assert ids(removable(FIVE, swept, before=2.5)) == ["a", "s", "b", "c"]
    assert ids(removable(FIVE[3:], swept, keep=2)) == ["s"]
    named = [sweep("s", 0.5, "b", "c", named=True)]
    assert ids(removable(FIVE, named, keep=2)) == ["a", "b", "c"]


def test_a_sweep_that_has_yet_to_make_its_first_run_is_as_new_as_it_is():
    assert removable(FIVE, [sweep("s", 9.0)], keep=2) == [*FIVE[:3]]


@pytest.mark.parametrize("status", ["running", "unknown"])
def test_the_runs_of_a_sweep_that_goes_on_stay(status):
    swept = [sweep("s", 0.5, "b", "c", status=status)]
    assert ids(removable(FIVE, swept, keep=0)) == ["a", "d", "e"]


@given(
    sessions=st.lists(
        st.builds(
            session,
            st.uuids().map(str),
            st.floats(0, 10),
            st.sampled_from(list(Status)),
            st.booleans(),
        ),
        max_size=8,
    ),
    keep=st.integers(0, 9),
    named=st.booleans(),
)
def test_no_rule_removes_more_than_it_says(sessions, keep, named):
    gone = removable(sessions, [], keep=keep, named=named)
    assert len(sessions) - len(gone) >= min(keep, len(sessions))
    assert not any(each.may_run or (each.is_named and not named) for each in gone)
    kept = sorted(each.began for each in sessions if each not in gone)
    assert all(sum(began >= each.began for began in kept) >= keep for each in gone)


# ---- how it is removed ----


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path / "sessions", recorded_session(samples=2_000))


@pytest.fixture
def held(log):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, log], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    yield log
    holder.communicate()


def test_a_session_is_removed_with_all_that_dlmon_made_beside_it(log):
    write_label(log, Label("x"))
    beside = (
        "session-2.jsonl",
        "session.index.jsonl",
        "session.index",
        ".session.jsonl",
        ".label.json.12.0a1b2c3d",
    )
    for name in beside:
        log.with_name(name).write_bytes(b"1234")
    assert size_bytes(log) == sum(path.stat().st_size for path in log.parent.iterdir())
    other = write_log(log.parent.parent, recorded_session(samples=2_000), "other")
    remove(log)
    assert list(log.parent.parent.iterdir()) == [other.parent]


def test_what_dlmon_did_not_make_stays_and_so_does_its_folder(log):
    mine = {log.with_name(name) for name in ("notes.txt", "session.jsonl.bak", "label.json.old")}
    for path in mine:
        path.write_text("mine")
    log.with_name("folder").mkdir()
    with pytest.raises(LogError, match="stays: it holds files that dlmon didn't make"):
        remove(log)
    assert set(log.parent.iterdir()) == {*mine, log.with_name("folder")}


def test_a_session_that_began_to_run_meanwhile_stays(held):
    before = set(held.parent.iterdir())
    with pytest.raises(LogError, match=f"{id_of(held)} is running: it is not removed"):
        remove(held)
    assert set(held.parent.iterdir()) == before


def test_a_session_that_goes_on_in_another_file_stays(log, held):
    newest = log.with_name("session-2.jsonl")
    newest.touch()
    with pytest.raises(LogError, match="is running"):
        remove(newest)
    assert log.exists()
    assert newest.exists()


def test_a_folder_that_is_a_link_is_left_alone_with_what_it_leads_to(log, tmp_path):
    link = tmp_path / "other" / "linked"
    link.parent.mkdir()
    link.symlink_to(log.parent)
    assert is_link(link / LOG_NAME)
    assert not is_link(log)
    with pytest.raises(LogError, match="linked can't be removed"):
        remove(link / LOG_NAME)
    assert size_bytes(link / LOG_NAME) == 0
    assert log.exists()


def test_a_link_in_a_folder_stays_and_nothing_that_it_leads_to_is_touched(log, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    log.with_name("label.json").symlink_to(precious)
    with pytest.raises(LogError, match="stays"):
        remove(log)
    assert precious.read_text() == "mine"
    assert log.with_name("label.json").is_symlink()


def test_a_log_that_is_a_link_is_not_taken_for_one(log, tmp_path):
    folder = tmp_path / "sessions" / "foreign"
    folder.mkdir()
    (folder / LOG_NAME).symlink_to(log)
    assert is_link(folder / LOG_NAME)
    with pytest.raises(LogError):
        remove(folder / LOG_NAME)
    assert log.exists()


@pytest.mark.parametrize("name", ["..hidden", "-rf", "a b", "\x1b[31m", "é\n", "*"])
def test_a_folder_is_removed_whatever_its_name(log, name):
    folder = log.parent.rename(log.parent.with_name(name))
    remove(folder / LOG_NAME)
    assert not list(folder.parent.iterdir())


def test_what_is_gone_already_is_said(log):
    remove(log)
    with pytest.raises(LogError, match="no such file or directory"):
        remove(log)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_what_may_not_be_removed_is_one_sentence(log):
    log.parent.chmod(0o500)
    with pytest.raises(LogError, match="can't be removed: permission denied"):
        remove(log)
    log.parent.chmod(0o700)


def test_no_file_is_left_open(log, held):
    before = set(Path("/proc/self/fd").iterdir())
    size_bytes(log)
    with pytest.raises(LogError):
        remove(log)
    assert set(Path("/proc/self/fd").iterdir()) == before
