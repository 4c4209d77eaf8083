import json

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.submitted import SUBMITTED_WALL, submit

from dlmon.log.directory import NoSuchLog, find_session, list_sessions, read_entry, running_session
from dlmon.log.submitted import is_of_slurm, read_submitted
from dlmon.records import Status


def test_a_session_without_a_log_is_queued(tmp_path):
    log = submit(tmp_path)
    entry = read_entry(log)
    assert (entry.status, entry.result, entry.pid) == (Status.QUEUED, None, None)
    assert (entry.header.id, entry.header.workload) == (log.parent.name, "train.py")
    assert entry.header.command == ("python", "train.py")
    assert entry.header.wall == SUBMITTED_WALL
    assert entry.header.why["machine"] == "its job has not started"


def test_it_is_listed_and_found_like_any_other(tmp_path):
    write_log(tmp_path, recorded_session(samples=100))
    log = submit(tmp_path, "29991127-190000-train-py-1a2b")
    assert [entry.status for entry in list_sessions(tmp_path)].count(Status.QUEUED) == 1
    assert find_session("2999", tmp_path) == log
    assert (
        find_session("last", tmp_path)
        == max((entry.header.wall, entry.path) for entry in list_sessions(tmp_path))[1]
    )
    with pytest.raises(NoSuchLog):
        running_session(tmp_path)


def test_once_it_has_a_log_that_counts(tmp_path):
    records = recorded_session(samples=100)
    log = write_log(tmp_path, records)
    submit(tmp_path, log.parent.name)
    assert is_of_slurm(log)
    assert read_entry(log).status == Status.COMPLETED


@pytest.mark.parametrize(
    "change",
    [
        {"session": "another"},
        {"wall": "now"},
        {"job": []},
        {"job": {"options": []}},
        {"slurm_job": "12; rm -rf ~"},
        {"slurm_job": 12},
        {"host": None},
        {"colour": "red"},
    ],
)
def test_what_nobody_of_ours_wrote_is_none(tmp_path, change):
    log = submit(tmp_path)
    file = log.with_name("job.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    assert read_submitted(log) is None
    assert list_sessions(tmp_path) == []


def test_foreign_text_in_it_is_cleaned(tmp_path):
    log = submit(tmp_path)
    file = log.with_name("job.json")
    fields = json.loads(file.read_text())
    fields["job"] |= {
        "workload": "\x1b[31mred",
        "command": ["a\x1b]0;x\x07b"],
        "directory": "\x1bc/",
    }
    file.write_text(json.dumps(fields))
    header = read_submitted(log).header
    assert (header.workload, header.command, header.directory) == ("red", ("ab",), "/")
