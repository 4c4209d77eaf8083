"""What a report leaves out: processes, users, home folders, hosts, command lines."""

import json
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.sections import under

from dlmon.figures.redact import Redaction
from dlmon.figures.report.report import make_report
from dlmon.records import Machine, Notice, Operation, Process, Profile
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of
from dlmon.render.tidy import TABLES, csv_lines, rows_of

SECRETS = ("mallory", "gertrude", "tower-of-ada", "/home/", "secret-agent", "--password", "uuid")


@pytest.fixture
def log(tmp_path):
    """Return a log in which everything private stands somewhere."""
    header, *records = recorded_session(gpus=1, status="failed")
    options = {
        **header.options,
        "python": "/home/gertrude/venv/bin/python",
        "command": ["secret-agent", "--password", "x"],
        "batch_size": 100,
        "price": None,
    }
    header = replace(header, host="tower-of-ada.example.org", options=options)
    rows = (
        Process(7, "mallory", "/opt/secret-agent --password x", 300.0, of_run=False, gpus=(0,)),
        Process(8, "gertrude", "/home/gertrude/venv/bin/python -m workloads", 90.0, of_run=True),
    )
    records = [
        replace(r, processes=rows) if isinstance(r, Machine) and r.processes is None else r
        for r in records
    ]
    *records, result = records
    notice = Notice(result.t, "mallory on tower-of-ada wrote /mnt/nfs/home/mallory/x, /root/y")
    error = "PermissionError: /Users/gertrude/data (tower-of-ada.example.org)"
    operations = (Operation("aten::mm", 5, 1_500, 40_000, 1.0),)
    profile = Profile(result.t, 1, header.t, result.t, 5, "torch", operations=operations)
    ended = replace(result, error=error)
    return write_log(tmp_path, [header, *records, profile, notice, ended])


def reported(log, full=False):
    report = make_report([log], [], full)
    tables = ["".join(csv_lines(rows_of([log], table, full))) for table in (None, *TABLES)]
    return [html_of(report), markdown_of(report), json.dumps(report.as_json()), *tables]


def test_nothing_private_is_in_a_report_and_the_rest_of_a_text_stays(log):
    texts = reported(log)
    for text in texts:
        for secret in SECRETS:
            assert secret not in text.replace("dlmon-report", ""), secret
    assert "(user) on (host) wrote ~/x, ~/y" in texts[0]
    assert "PermissionError: ~/data ((host))" in texts[0]


def test_a_full_report_leaves_nothing_out(log):
    page, text, data, *_ = reported(log, full=True)
    for one in (page, text):
        assert "/opt/secret-agent" in one
        assert "mallory" in one
        assert "tower-of-ada.example.org" in one
        assert str(log) in one
    assert json.loads(data)["sessions"][0]["host"] == "tower-of-ada.example.org"


def test_the_command_that_reproduces_a_run_names_no_home(log):
    session = make_report([log], []).sessions[0]
    (command,) = under(session, "To run it again").lines
    assert command.endswith("--python ~/venv/bin/python")


@pytest.mark.parametrize("name", ["root", "nobody", "a", "", None, "<b>"])
def test_a_name_that_says_nothing_takes_no_word_away(name):
    redaction = Redaction()
    redaction.record(Machine(1, 1.0, processes=(Process(1, name, "x"),)))
    assert redaction.text("a root <b>nobody</b>") == "a root <b>nobody</b>"


def test_a_name_within_a_word_stays_and_a_text_is_cut_where_it_is_too_long_for_a_report():
    redaction = Redaction()
    redaction.learn_names("ada", {})
    assert redaction.text("ada, adam, cicada, ada.") == "(host), adam, cicada, (host)."
    assert len(redaction.text("x" * 50_000)) == 2_000


def test_other_machines_are_told_apart_by_numbers():
    redaction = Redaction()
    hosts = ["gpu1", "lab@gpu12", "ssh://me@far:2222", "localhost"]
    redaction.learn_hosts(hosts)
    said = redaction.text(", ".join([*hosts, "gpu12", "gpu123"]))
    assert said == "(host 1), (host 2), (host 3), localhost, (host 2), gpu123"
    full = Redaction(full=True)
    full.learn_hosts(hosts)
    assert full.text("gpu1") == "gpu1"
