"""Which logs of a directory are followed, and how often they are looked at."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fakes.recorded import recorded_session, write_log
from fakes.screens import GrowingLog

from dlmon.session import running_sessions
from dlmon.session.running_sessions import RunningSessions, running_logs
from dlmon.system.this_host import boot_id, host_name


def session(name):
    header, *records = recorded_session(session_id=name)
    return [replace(header, host=host_name(), boot_id=boot_id()), *records]


def test_what_has_begun_is_found_until_it_is_over_and_what_is_over_read_once(tmp_path, monkeypatch):
    read, read_entry = [], running_sessions.read_entry
    monkeypatch.setattr(
        running_sessions, "read_entry", lambda path: read.append(path) or read_entry(path)
    )
    logs = partial(running_logs, tmp_path, set())
    over = write_log(tmp_path, session("over"), "over")
    assert (logs(), logs(), read) == ([], [], [over])
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "session.jsonl").touch()
    assert logs() == []
    begun = GrowingLog(tmp_path, session("begun")[:5])
    try:
        assert logs() == logs() == [begun.path]
    finally:
        begun.drop_lock()
    assert logs() == []


def test_a_log_is_followed_to_its_end_and_left_once_it_is_not_named(tmp_path):
    log, sessions = GrowingLog(tmp_path, session("runs")[:-1]), RunningSessions()
    try:
        sessions.follow([log.path])
        (follower,) = sessions.followers
        while not sessions.are_read:
            sessions.follow([log.path])
        assert sessions.followers == [follower]
        assert follower.snapshot().progress is not None
        sessions.follow([])
        assert sessions.followers == []
    finally:
        log.drop_lock()
