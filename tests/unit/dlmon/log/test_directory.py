import asyncio
import os
import shutil
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import GrowingLog
from fakes.strategies import header
from hypothesis import given
from hypothesis import strategies as st

from dlmon.log.directory import (
    NoSuchLog,
    SessionEntry,
    ask_session,
    find_session,
    find_sessions,
    list_sessions,
    read_entry,
    read_losses,
    read_output,
    running_session,
    skipped_text,
    stop_session,
)
from dlmon.log.folder import LOG_NAME, STOP_NAME, id_of, log_directory, part_name
from dlmon.log.label import Label, refuse_name, write_label
from dlmon.protocol.control import NotControlled
from dlmon.records import Epoch, Failure, Metrics, Notice, Output, Result, Status, StepTime, encode
from dlmon.system.this_host import boot_id, host_name

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="locks are probed on Linux")


def log_of(directory, session_id, *records, wall=0.0, host=None):
    head = header(id=session_id, host=host or host_name(), boot_id=boot_id(), wall=wall)
    return write_log(directory, [head, *records])


def result(status="completed", **changes):
    return replace(Result(status, "s", "l", "w", "cpu", {}, 1.0), **changes)


@pytest.fixture
def three(tmp_path):
    ids = ("20261120-145600-mnist-mlp-7f3a", "20261120-150000-cifar10-0a0b", "20261121-090000-x-1")
    return {name: log_of(tmp_path, name, wall=float(wall)) for wall, name in enumerate(ids)}


def test_of_an_earlier_list_only_sessions_without_a_result_are_read_again(tmp_path):
    ended, cut, gone = (
        log_of(tmp_path, name, *records)
        for name, *records in (("ended", result()), ("cut",), ("gone", result()))
    )
    before = list_sessions(tmp_path)
    write_label(ended, Label("renamed"))
    with cut.open("ab") as log:
        log.write(encode(result("stopped")))
    shutil.rmtree(gone.parent)
    log_of(tmp_path, "new", wall=1.0)
    now = {
        entry.header.id: (entry.status, entry.label.name)
        for entry in list_sessions(tmp_path, before)
    }
    assert now == {
        "cut": (Status.STOPPED, None),
        "ended": (Status.COMPLETED, None),
        "new": (Status.INTERRUPTED, None),
    }


@pytest.mark.parametrize(
    ("records", "host", "status"),
    [
        # Without a result or a writer it was interrupted; a result must be the last record.
        ([Notice(1, "a")], None, Status.INTERRUPTED),
        ([result(), Failure(1, "more came")], None, Status.INTERRUPTED),
        # Nobody knows how one of another host stands.
        ([], "elsewhere", Status.UNKNOWN),
        ([result()], "elsewhere", Status.COMPLETED),
    ],
)
def test_a_session_stands_as_its_last_record_says(tmp_path, records, host, status):
    entry = read_entry(log_of(tmp_path, "one", *records, host=host))
    assert (entry.status, entry.pid) == (status, None)
    assert (entry.result is None) == (status != Status.COMPLETED)


@pytest.mark.parametrize("status", ["completed", "failed", "stopped"])
def test_a_session_stands_as_its_result_says(tmp_path, status):
    records = recorded_session(status=status, samples=2_000)
    entry = read_entry(write_log(tmp_path, records))
    loss = next(each.metrics["loss"] for each in reversed(records) if isinstance(each, Epoch))
    assert entry == SessionEntry(records[0], entry.path, status, records[-1], None, loss=loss)


def test_the_newest_loss_is_that_of_training_also_while_it_runs(tmp_path):
    records = recorded_session("training")
    said = [each for each in records if isinstance(each, Epoch | Metrics)]
    values = said[-1].metrics if isinstance(said[-1], Epoch) else said[-1].values
    assert read_entry(write_log(tmp_path, records)).loss == values["loss"]


@on_linux
@pytest.mark.parametrize("host", [None, "elsewhere"])
def test_a_session_runs_while_its_log_is_locked_on_whatever_host(tmp_path, hold, host):
    path = log_of(tmp_path, "one", Notice(1, "a"), host=host)
    holder = hold(path)
    entry = read_entry(path)
    assert (entry.status, entry.pid) == (Status.RUNNING, holder.pid)
    holder.kill()
    holder.wait()
    assert read_entry(path).status == (Status.UNKNOWN if host else Status.INTERRUPTED)


@on_linux
def test_the_only_session_that_runs_needs_no_name(tmp_path, hold):
    paths = [log_of(tmp_path, name) for name in ("one", "two", "three")]
    with pytest.raises(NoSuchLog, match="no session is running"):
        running_session(tmp_path)
    hold(paths[1])
    assert running_session(tmp_path) == paths[1]
    write_label(paths[0], Label("first"))
    hold(paths[0])
    with pytest.raises(NoSuchLog, match="2 sessions are running, say which: ") as refused:
        running_session(tmp_path)
    assert {"first", "two"} == set(str(refused.value).rpartition(": ")[2].split(", "))


def test_a_session_may_end_while_it_is_looked_at(tmp_path, monkeypatch):
    path = log_of(tmp_path, "one")

    def end_now(follower):
        """Answer as if the writer held the lock, and ended right after the question."""
        with path.open("ab") as log:
            log.write(encode(result()))
        return Status.INTERRUPTED, None

    monkeypatch.setattr("dlmon.log.directory.status_without_result", end_now)
    assert read_entry(path).status == "completed"


def test_sessions_are_listed_oldest_first(tmp_path):
    log_of(tmp_path, "b", wall=3.0)
    log_of(tmp_path, "a", wall=20.0)
    log_of(tmp_path, "c", result(), wall=1.0)
    assert [entry.header.id for entry in list_sessions(tmp_path)] == ["c", "b", "a"]


def test_what_is_no_session_is_passed_over(tmp_path, monkeypatch):
    log_of(tmp_path, "good")
    (tmp_path / "a file").write_text("")
    (tmp_path / "an empty folder").mkdir()
    for name, content in (("empty", b""), ("text", b"hello\n"), ("old", b'{"schema":0}\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / LOG_NAME).write_bytes(content)
    (tmp_path / "a folder as log" / LOG_NAME).mkdir(parents=True)
    (tmp_path / "a link to nowhere").symlink_to(tmp_path / "nowhere")
    assert [entry.header.id for entry in list_sessions(tmp_path)] == ["good"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter everything")
def test_a_folder_that_may_not_be_entered_is_passed_over(tmp_path):
    log_of(tmp_path, "good")
    log_of(tmp_path, "locked").parent.chmod(0)
    assert [entry.header.id for entry in list_sessions(tmp_path)] == ["good"]
    (tmp_path / "locked").chmod(0o700)


def test_a_result_is_found_behind_a_torn_line_and_however_long_it_is(tmp_path):
    long = result("failed", error="x" * 60_000, options={"note": "é" * 60_000})
    path = log_of(tmp_path, "one", *(Notice(n, "x" * 1_000) for n in range(300)), long)
    with path.open("ab") as log:
        log.write(b'{"type":"noti')
    entry = read_entry(path)
    assert (entry.status, entry.result) == ("failed", long)


def test_a_session_is_found_by_id_or_unique_prefix_or_as_the_last_that_began(tmp_path, three):
    for name, path in three.items():
        assert find_session(name, tmp_path) == path
    ids = list(three)
    assert find_session("20261120-1456", tmp_path) == three[ids[0]]
    assert find_session("20261121", tmp_path) == three[ids[2]]
    newest = log_of(tmp_path, "0-imported", wall=99.0)
    (tmp_path / "zzz").mkdir()
    (tmp_path / "zzz" / LOG_NAME).write_text("not a log")
    assert find_session("last", tmp_path) == find_session("last~0", tmp_path) == newest
    assert find_session("last~1", tmp_path) == three[ids[2]]


def test_before_the_last_only_sessions_that_can_be_compared_count(tmp_path):
    timed = {"step_ms": StepTime(1.0, 1.0, 1.0)}
    ends = {
        "old": [result("completed", **timed)],
        "stopped": [result("stopped", **timed)],
        "failed": [result("failed", **timed)],
        "short": [result("completed")],
        "cut": [],
        "newest": [result("failed")],
    }
    paths = {
        name: log_of(tmp_path, name, *records, wall=float(wall))
        for wall, (name, records) in enumerate(ends.items())
    }
    counted = {"last": "newest", "last~1": "cut", "last~2": "stopped", "last~3": "old"}
    assert {text: find_session(text, tmp_path).parent.name for text in counted} == counted
    assert find_sessions("last~2,last", tmp_path) == [paths["stopped"], paths["newest"]]
    skips = "last~2 skips short, failed, which can't be compared"
    assert [skipped_text(text, tmp_path) for text in ("last", "last~1", "last~2")] == [
        "",
        "",
        skips,
    ]
    with pytest.raises(NoSuchLog, match="last~4 matches none"):
        find_session("last~4", tmp_path)


def test_a_session_is_found_by_the_path_of_its_log_or_folder(tmp_path, three, monkeypatch):
    path = next(iter(three.values()))
    for name in (path, path.parent, f"{path.parent}/"):
        assert find_session(str(name), tmp_path / "elsewhere") == path
    monkeypatch.chdir(path.parent)
    assert find_session(LOG_NAME, tmp_path).samefile(path)
    assert find_session(f"./{LOG_NAME}", tmp_path).samefile(path)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("20261120", "could be any of 2 sessions: 20261120-145600-mnist-mlp-7f3a, 2026"),
        ("nothing", 'there is no session "nothing" in '),
        ("", 'there is no session "" in '),
        ("/nowhere/session.jsonl", "there is no log at /nowhere/session.jsonl"),
        ("~nobody-of-that-name/x", "there is no log at ~nobody-of-that-name/x"),
        ("~", 'there is no session "~" in '),
        ("missing.jsonl", "there is no log at missing.jsonl"),
        ("last~3", "last~3 matches none of the 3 in "),
        ("last~", 'there is no session "last~" in '),
        ("last~-1", 'there is no session "last~-1" in '),
        ("last~1234567890", 'there is no session "last~1234567890" in '),
        ("a\0b", "there is no session"),
        ("/a\0b", "there is no log"),
    ],
)
def test_what_means_no_session_or_several_is_said(tmp_path, three, name, complaint):
    with pytest.raises(NoSuchLog) as error:
        find_session(name, tmp_path)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("find", "sentence"),
    [
        (partial(find_session, "nothing"), "dlmon sessions --host lab lists what there is"),
        (partial(find_sessions, "nothing"), "dlmon sessions --host lab lists what there is"),
        (partial(find_sessions, "no*"), "dlmon sessions --host lab lists what there is"),
        (running_session, "dlmon attach --host lab last shows the newest"),
    ],
)
def test_who_finds_none_is_told_where_to_look(tmp_path, find, sentence):
    where = " --host lab"
    for name in ("last", "anything"):
        with pytest.raises(NoSuchLog, match="yet; dlmon run --host lab makes"):
            find_session(name, tmp_path, where)
    log_of(tmp_path, "20261120-145600-x-0001")
    with pytest.raises(NoSuchLog, match=sentence):
        find(tmp_path, where)


def test_a_sentence_shows_a_long_path_and_many_sessions_in_part(tmp_path):
    with pytest.raises(NoSuchLog) as error:
        find_session("/" + "nowhere/" * 500, tmp_path)
    sentence = str(error.value)
    assert sentence.startswith("there is no log at /nowhere/nowhere/")
    assert sentence.endswith("…")
    assert len(sentence) < 250
    for number in range(9):
        log_of(tmp_path, f"run-{number}")
    with pytest.raises(NoSuchLog) as error:
        find_session("run", tmp_path)
    assert str(error.value).endswith("any of 9 sessions: run-0, run-1, run-2, run-3, …")


def test_a_session_is_found_by_its_name_behind_its_id_and_before_a_prefix(tmp_path, three):
    first, _, third = three.values()
    write_label(third, Label("20261120"))
    assert find_session("20261120", tmp_path) == third
    write_label(third, Label(id_of(first)))
    assert find_session(id_of(first), tmp_path) == first
    write_label(third, Label("2026"))
    assert find_session("2026", tmp_path) == third
    assert read_entry(third).label == Label("2026")
    with pytest.raises(NoSuchLog):
        find_session("202", tmp_path)


def test_a_name_that_several_bear_means_none_of_them(tmp_path, three):
    for path in three.values():
        write_label(path, Label("base"))
    with pytest.raises(NoSuchLog) as error:
        find_session("base", tmp_path)
    sentence = f'3 sessions are called "base", the newest first: {", ".join(reversed(three))}'
    assert str(error.value) == sentence


def test_a_session_is_found_by_the_script_that_a_list_shows_it_by(tmp_path):
    def run_of(script, name, wall):
        begun = header(id=name, host=host_name(), boot_id=boot_id(), wall=wall)
        return write_log(tmp_path, [replace(begun, workload=script)])

    once, first, second = (
        run_of(script, name, float(wall))
        for wall, (script, name) in enumerate([("a.py", "1-x"), ("b.py", "2-y"), ("b.py", "3-z")])
    )
    run_of("", "4-machine", 3.0)
    assert find_session("a.py", tmp_path) == once
    # Of several, the newest; a pattern means all.
    assert find_session("b.py", tmp_path) == second
    assert find_session("src/b.py", tmp_path) == second
    assert find_sessions("b.py", tmp_path) == [second]
    assert find_sessions("b*", tmp_path) == [first, second]
    # A name that a person gave comes first, and nothing is called like a machine alone.
    write_label(second, Label("a.py"))
    assert find_session("a.py", tmp_path) == second
    with pytest.raises(NoSuchLog):
        find_session("", tmp_path)


@pytest.fixture
def named(tmp_path):
    """Return five logs by their ids, the oldest first; three of them have names."""
    paths = {name: log_of(tmp_path, name, wall=float(n)) for n, name in enumerate("edcba")}
    for name, label in (("e", "base one"), ("c", "base"), ("a", "base")):
        write_label(paths[name], Label(label))
    return paths


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("b", "b"),
        ("b,e,d", "edb"),
        ("b, e ,b", "eb"),
        ("base", "ca"),
        ("base one", "e"),
        ("base*", "eca"),
        ("base,last,d", "dca"),
        ("[bd]", "db"),
        ("?", "edcba"),
        ("last", "a"),
        ("last~1", "b"),
        ("last~4,last", "ea"),
    ],
)
def test_a_list_means_each_session_once_the_oldest_first(tmp_path, named, text, ids):
    assert find_sessions(text, tmp_path) == [named[each] for each in ids]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'there is no session "" in '),
        ("a,", 'there is no session "" in '),
        ("a,nothing", 'there is no session "nothing" in '),
        ("x*", 'there is no session "x*" in {directory}'),
        ("a,/nowhere/x", "there is no log at /nowhere/x"),
        ("[", 'there is no session "["'),
    ],
)
def test_a_list_of_which_a_part_means_nothing_is_refused(tmp_path, named, text, complaint):
    with pytest.raises(NoSuchLog) as error:
        find_sessions(text, tmp_path)
    assert complaint.format(directory=tmp_path) in str(error.value)


def test_a_path_in_a_list_may_have_a_comma(tmp_path):
    path = log_of(tmp_path / "a,b", "one")
    assert find_sessions(str(path.parent), tmp_path) == [path]
    other = log_of(tmp_path, "two", wall=1.0)
    assert find_sessions(f"two,{other.parent}", tmp_path) == [other]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: refuse_name(name) is None
)


@given(labels=st.lists(st.none() | NAMES | st.sampled_from(["a", "b"]), min_size=1, max_size=4))
def test_every_name_finds_those_that_bear_it(tmp_path_factory, labels):
    directory = tmp_path_factory.mktemp("logs")
    paths = [log_of(directory, f"0-{n}", wall=float(n)) for n in range(len(labels))]
    for path, name in zip(paths, labels, strict=True):
        write_label(path, Label(name))
    for name in filter(None, labels):
        bear_it = [path for path, other in zip(paths, labels, strict=True) if other == name]
        assert find_sessions(name, directory) == bear_it
        if len(bear_it) == 1:
            assert find_session(name, directory) == bear_it[0]
        else:
            with pytest.raises(NoSuchLog):
                find_session(name, directory)
    assert find_sessions(",".join(filter(None, labels)) or "*", directory)


def test_the_log_directory_is_absolute_and_links_stay_as_given(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert log_directory(Path("link")) == tmp_path / "link"
    assert log_directory(Path("~/link")) == tmp_path / "link"
    assert log_directory(Path("~nobody-of-that-name")) == tmp_path / "~nobody-of-that-name"
    assert log_directory() == tmp_path / "state" / "dlmon" / "sessions"


@on_linux
def test_a_session_is_the_newest_of_its_logs(tmp_path):
    first = log_of(tmp_path, "one", Notice(1, "a"))
    second = first.with_name("session-2.jsonl")
    second.write_bytes(first.read_bytes() + encode(result("stopped")))
    assert [entry.path for entry in list_sessions(tmp_path)] == [second]
    assert find_session("one", tmp_path) == find_session(str(first.parent), tmp_path) == second
    assert find_session(str(first), tmp_path) == first
    first.unlink()
    assert [entry.status for entry in list_sessions(tmp_path)] == ["stopped"]


@on_linux
@pytest.mark.parametrize(
    ("host", "boot", "pid"),
    [(None, None, None), ("elsewhere", None, 1), (None, "another boot", 1), (None, None, 0)],
)
def test_nothing_is_stopped_that_does_not_run_here(tmp_path, host, boot, pid, monkeypatch):
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("something was killed"))
    head = header(host=host or host_name(), boot_id=boot or boot_id())
    with pytest.raises(NotControlled, match="stop it there"):
        stop_session(SessionEntry(head, tmp_path, Status.RUNNING, None, pid))


@pytest.mark.parametrize("ends", [None, result("completed")])
def test_a_run_of_several_machines_is_asked_to_stop_from_each_that_sees_its_folder(tmp_path, ends):
    head = header(host="elsewhere", boot_id="another boot")
    log = write_log(tmp_path, [head, *([ends] if ends else [])])
    with pytest.raises(NotControlled):
        stop_session(read_entry(log))
    (log.parent / part_name(1)).touch()
    if ends is None:
        assert stop_session(read_entry(log)) == "was asked to stop on all its machines"
    else:
        with pytest.raises(NotControlled, match="is not running: completed"):
            stop_session(read_entry(log))
    assert (log.parent / STOP_NAME).exists() is (ends is None)


def test_a_folder_that_cannot_be_written_is_why_a_run_is_not_asked_to_stop(tmp_path):
    log = write_log(tmp_path, [header(host="elsewhere", boot_id="another boot")])
    (log.parent / part_name(1)).touch()
    (log.parent / STOP_NAME).symlink_to(tmp_path / "gone" / STOP_NAME)
    with pytest.raises(NotControlled, match="can't be asked to stop: no such file"):
        stop_session(read_entry(log))


@on_linux
def test_a_supervisor_that_just_ended_is_not_stopped(tmp_path, hold):
    path = log_of(tmp_path, "one")
    holder = hold(path)
    entry = read_entry(path)
    holder.kill()
    holder.wait()
    with pytest.raises(NotControlled, match="is not running any more"):
        stop_session(entry)


@on_linux
def test_a_suspended_supervisor_is_asked_nothing(tmp_path, hold):
    path = log_of(tmp_path, "one")
    holder = hold(path)
    os.kill(holder.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(NotControlled, match="one: the process that records it is suspended"):
        asyncio.run(ask_session(read_entry(path), {"ask": "profile", "steps": 5}))


def test_the_losses_are_read_evenly_over_a_log_and_no_other_record_counts(tmp_path):
    first, *_ = recorded_session()
    losses = [Metrics(first.t + n, {"loss": 100.0 - n}) for n in range(1, 100)]
    log = write_log(tmp_path, [first, Notice(first.t, 'a "loss" in words'), *losses])
    read = read_losses(log, 5)
    assert read[-1] == 1.0
    assert read == sorted(read, reverse=True)
    assert len(read) >= 4
    assert read_losses(write_log(tmp_path, [first], "none"), 5) == []


def test_the_newest_output_is_read_oldest_first(tmp_path):
    first, *_ = recorded_session()
    lines = [Output(first.t + n, "stdout", f"line {n}") for n in range(10)]
    log = write_log(tmp_path, [first, *lines, Notice(first.t + 20, "no output")])
    assert [line.text for line in read_output(log, 2)] == ["line 8", "line 9"]
    assert len(read_output(log)) == 10


def test_the_epoch_of_a_running_session_is_that_of_its_newest_batches(tmp_path):
    log = GrowingLog(tmp_path, recorded_session("training"))
    assert read_entry(log.path).epoch == 2
    log.drop_lock()
    assert read_entry(log.path).epoch is None
