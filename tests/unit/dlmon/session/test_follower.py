import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.recorded import BEGIN_NS, recorded_machine, recorded_session, write_log

from dlmon.log.log_follower import LogFollower
from dlmon.records import Notice, Status, encode
from dlmon.session import follower as follower_module
from dlmon.session.follower import SessionFollower
from dlmon.system.this_host import boot_id, host_name

SECOND = 1_000_000_000
HERE = {"host": host_name(), "boot_id": boot_id()}


class Clock:
    def __init__(self):
        self.now = BEGIN_NS

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += int(seconds * SECOND)


class Log:
    """A log that grows, and whose lock is held for as long as a test says."""

    def __init__(self, directory, monkeypatch, records, **header):
        head = replace(records[0], **{**HERE, **header})
        self.records = [head, *records[1:]]
        self.path = write_log(directory, [head])
        self.holder = 4_711
        self.clock = Clock()
        monkeypatch.setattr(LogFollower, "writer_pid", lambda follower: self.holder)

    def append(self, *records):
        with self.path.open("ab") as file:
            file.write(b"".join(encode(record) for record in records))

    def view(self):
        return SessionFollower(self.path, self.clock)


@pytest.fixture
def log(tmp_path, monkeypatch):
    return Log(tmp_path, monkeypatch, recorded_session(samples=3_000))


def test_nothing_is_new_of_one_that_is_closed(tmp_path):
    """A screen that is going may still ask; to read the lock of a closed log is an error."""
    header, *rest = recorded_session(samples=3_000)
    path = write_log(tmp_path, [replace(header, **HERE), *rest[:-1]])
    follower = SessionFollower(path)
    follower.poll(0.0)
    follower.close()
    status = follower.status
    assert follower.poll() == []
    assert (follower.status, follower.read_share) == (status, None)


def test_a_free_lock_without_a_result_is_an_interruption_and_nobody_to_stop(log):
    follower = log.view()
    log.append(Notice(BEGIN_NS + 1, "the last words"))
    log.holder = None
    # What was written before the end is shown first.
    assert len(follower.poll()) == 1
    assert follower.status == Status.RUNNING
    assert follower.poll() == []
    assert (follower.status, follower.running) == (Status.INTERRUPTED, False)
    assert "interrupted" in follower.problem
    assert (follower.is_ours, follower.stop()) == (False, False)
    log.path.unlink()
    assert not follower.stop()


def test_a_result_that_is_written_between_lock_and_read_counts(log, monkeypatch):
    follower = log.view()

    def ends_right_then(follower):
        monkeypatch.undo()
        log.append(log.records[-1])
        return

    monkeypatch.setattr(LogFollower, "writer_pid", ends_right_then)
    assert follower.poll() == log.records[-1:]
    assert follower.status == "completed"


def test_the_lock_is_asked_for_before_the_log_is_read(log, monkeypatch):
    follower = log.view()
    read = LogFollower.new_records

    def ends_after_the_read(follower, *arguments):
        records = list(read(follower, *arguments))
        log.append(log.records[-1])
        log.holder = None
        return iter(records)

    monkeypatch.setattr(LogFollower, "new_records", ends_after_the_read)
    assert follower.poll() == []
    # The writer was there when it was asked for, so this is no interruption.
    assert follower.status == Status.RUNNING
    monkeypatch.setattr(LogFollower, "new_records", read)
    follower.poll()
    assert follower.status == "completed"


def test_a_session_on_another_host_is_of_unknown_standing(tmp_path, monkeypatch):
    log = Log(tmp_path, monkeypatch, recorded_session("training"), host="elsewhere")
    log.holder = None
    follower = log.view()
    follower.poll()
    assert (follower.status, follower.running) == (Status.UNKNOWN, False)
    assert follower.problem == (
        "recorded on elsewhere: whether it still runs can't be seen from here"
    )


@pytest.mark.parametrize(
    ("method", "error", "problem"),
    [
        (
            "new_records",
            OSError(116, "Stale file handle"),
            "the log can't be read any more: Stale file handle",
        ),
        ("writer_pid", OSError(37, "No locks available"), None),
    ],
    ids=["unreadable", "without locks"],
)
def test_of_a_log_that_can_not_be_read_or_locked_the_standing_is_unknown(
    log, monkeypatch, method, error, problem
):
    follower = log.view()
    follower.poll()

    def refuse(follower):
        raise error

    monkeypatch.setattr(LogFollower, method, refuse)
    assert follower.poll() == []
    follower.poll()
    assert follower.status == Status.UNKNOWN
    assert problem is None or (follower.problem, follower.running) == (problem, False)


def test_silence_is_trouble_after_three_intervals(log):
    follower = log.view()
    log.append(*log.records[1:4])
    follower.poll()
    log.clock.passes(2.9)
    follower.poll()
    assert follower.problem is None
    log.clock.passes(0.2)
    follower.poll()
    suspended = "the process that records it may be suspended"
    assert follower.problem == f"no new record for 3 s: {suspended}"
    lasting = follower.lasting_problem
    log.clock.passes(9.0)
    follower.poll()
    assert follower.problem == f"no new record for 12 s: {suspended}"
    assert follower.lasting_problem == lasting == f"no new record: {suspended}"
    log.append(log.records[4])
    follower.poll()
    assert follower.problem is follower.lasting_problem is None


@pytest.mark.parametrize(
    ("interval", "least_s"), [(30.0, 90), *((no, 3) for no in (None, "1", 0, -5, True, [1]))]
)
def test_silence_is_that_of_three_intervals_and_one_that_is_none_counts_as_a_second(
    tmp_path, monkeypatch, interval, least_s
):
    log = Log(tmp_path, monkeypatch, recorded_session("training"), options={"interval": interval})
    follower = log.view()
    for passed_s, is_silent in ((least_s - 0.5, False), (1.0, True)):
        log.clock.passes(passed_s)
        follower.poll()
        assert (follower.problem is not None) is is_silent


@pytest.mark.parametrize(
    ("records", "more"),
    [
        (recorded_session(samples=3_000), ""),
        (recorded_machine(status=None), ": make room on it; no sample is kept until then"),
    ],
    ids=["run", "machine"],
)
def test_a_full_disk_explains_the_silence_and_one_that_reports_nothing_is_not_called_full(
    tmp_path, monkeypatch, records, more
):
    log = Log(tmp_path, monkeypatch, records)
    follower = log.view()
    log.clock.passes(5)
    disk = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(follower_module.os, "statvfs", lambda path: disk)
    follower.poll()
    assert follower.problem.startswith("the disk that holds the log is full" + more)

    def refuse(path):
        raise OSError(38, "function not implemented")

    monkeypatch.setattr(follower_module.os, "statvfs", refuse)
    follower.poll()
    assert "full" not in follower.problem


def test_time_goes_on_between_records_and_stands_still_once_a_session_is_over(log):
    follower = log.view()
    follower.poll()
    log.clock.passes(7)
    assert follower.now() == BEGIN_NS + 7 * SECOND
    assert follower.snapshot().elapsed_s == follower.second() == 7
    log.append(*log.records[1:])
    while follower.poll():
        pass
    log.clock.passes(3_600)
    follower.poll()
    assert follower.now() == log.records[-1].t
    assert follower.problem is None
    # What ticks on the screen goes on.
    assert follower.second() == 3_607


@pytest.mark.parametrize("differs", [{"host": "elsewhere"}, {"boot_id": "an earlier boot"}])
def test_another_machines_clock_is_not_compared_with_ours(tmp_path, monkeypatch, differs):
    log = Log(tmp_path, monkeypatch, recorded_session("training"), **differs)
    log.append(*log.records[1:])
    follower = log.view()
    follower.poll()
    log.clock.passes(10_000)
    assert follower.now() == follower.session.last_t


def test_a_broken_line_in_a_log_breaks_no_viewer_and_one_that_was_cut_short_is_no_interruption(log):
    follower = log.view()
    with log.path.open("ab") as file:
        file.write(b"\0" * 300 + b"\n")
    log.append(*log.records[1:-1])
    assert follower.poll() == log.records[1:-1]
    os.truncate(log.path, 500)
    log.holder = None
    follower.poll()
    assert follower.problem == "the log was cut short by another program, and holds no result"
    follower.close()


def test_a_long_log_is_read_in_slices_and_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(follower_module, "AT_ONCE", 5)
    log = Log(tmp_path, monkeypatch, recorded_session(samples=3_000))
    log.holder = None
    log.append(*log.records[1:])
    follower = log.view()
    read, shares = [], []
    while (records := follower.poll(max_s=0)) or follower.read_share is not None:
        read += records
        shares.append(follower.read_share)
        if follower.read_share is not None:
            # Nothing old is now, and an end that isn't read is no interruption.
            assert (follower.status, follower.problem) == (Status.RUNNING, None)
            assert follower.now() == follower.session.last_t
        assert len(records) <= 5
    assert read == log.records[1:]
    assert shares.pop() is None
    assert shares == sorted(shares)
    assert follower.status == "completed"


def move_away(path):
    path.rename(path.with_name("elsewhere"))


def replace_by_a_copy(path):
    path.with_name("copy").write_bytes(path.read_bytes())
    path.with_name("copy").rename(path)


def remove_with_its_folder(path):
    path.unlink()
    path.parent.rmdir()


LOSSES = [
    (os.unlink, "was removed"),
    (remove_with_its_folder, "was removed"),
    (move_away, "was moved away"),
    (replace_by_a_copy, "was replaced"),
]


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "over"])
@pytest.mark.parametrize(("lose", "loss"), LOSSES)
def test_a_log_that_is_lost_under_a_viewer_is_said_and_read_on(log, lose, loss, is_over):
    follower = log.view()
    *records, result = log.records[1:]
    log.append(*records, *([result] if is_over else []))
    follower.poll()
    assert (follower.loss, follower.problem) == (None, None)
    with log.path.open("ab") as file:
        lose(log.path)
        file.write(encode(records[-1]))
        file.flush()
        assert follower.poll() == [records[-1]]
    assert follower.loss == loss
    assert follower.problem == (
        f"the log {loss} by another program: what it held until then is shown"
    )
    assert follower.status == ("completed" if is_over else "running")


class Said:
    """A supervisor that says what its log can't take."""

    def __init__(self):
        self.records = []

    def new_records(self):
        said, self.records = self.records, []
        return said


def test_what_the_log_can_not_take_comes_from_the_supervisor_with_its_reason(log):
    supervisor = Said()
    follower = SessionFollower(log.path, log.clock, supervisor)
    supervisor.records = [Notice(BEGIN_NS, "the log is on fire; training goes on")]
    log.clock.passes(60)
    follower.poll()
    assert follower.problem == "the log is on fire; training goes on"
    supervisor.records = [Notice(BEGIN_NS, "")]
    follower.poll()
    assert "on fire" not in follower.problem
    supervisor.records = [
        Notice(BEGIN_NS, "the log can't be written: it is on fire"),
        log.records[-1],
    ]
    log.holder = None
    follower.poll()
    assert (follower.status, follower.result) == ("completed", log.records[-1])
    assert follower.why_result_unwritten == "the log can't be written: it is on fire"
    follower.poll()
    assert follower.problem == "the log can't be written: it is on fire: the result is not recorded"
