"""What a report says of a session: its name, its account, what speaks against its figures."""

import json
from dataclasses import replace

from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from fakes.scripts import script_session
from fakes.sections import bars, said, under
from fakes.slow_epoch import with_slow_epoch

from dlmon.figures.report.report import make_report
from dlmon.figures.sections import as_sentence
from dlmon.records import (
    Alert,
    AlertEvent,
    Doubt,
    Epoch,
    Machine,
    MachineFacts,
    Operation,
    Process,
    Profile,
    Result,
)
from dlmon.render.html import html_of
from dlmon.render.markdown import markdown_of
from dlmon.render.tidy import OPERATIONS, json_lines, rows_of


def only(path, full=False):
    (session,) = make_report([path], [], full).sessions
    return session


def test_an_alert_explains_no_slow_epoch(tmp_path):
    header, *records = with_slow_epoch(recorded_session(), 2, 40.0, hot=False)
    slow = next(one for one in records if isinstance(one, Epoch) and one.epoch == 2)
    alert = Alert(slow.end - 1, AlertEvent.STALLED, "no batch for 60 s", slow.begin, False, ())
    at = records.index(slow)
    path = write_log(tmp_path, [header, *records[:at], alert, *records[at:]])
    assert "no batch for 60 s" not in dict(only(path).figures)["slow epoch 3"]


def test_a_profile_has_a_table_of_operations_or_says_why_not(tmp_path):
    header, *records = recorded_session()
    operations = (Operation("aten::mm|<b>", 5, 1_500, 40_000, 1.0),)
    begin, end = records[-1].t - 10**9, records[-1].t
    kept = Profile(end, 1, begin, end, 5, "torch", "profile-1.json.gz", 9, operations)
    lost = Profile(end, 2, begin, end, 5, "jax", why={"operations": "its trace is cut short"})
    path = write_log(tmp_path, [header, *records[:-1], kept, lost, records[-1]])
    report = make_report([path], [])
    rest = report.sessions[0].sections
    at = rest.index(under(report.sessions[0], "Profiles"))
    largest, profiled, table, lost = rest[at : at + 4]
    lead = "LARGEST OPERATION 100 % of the time in operations on the device: aten::mm|<b>"
    assert largest.sentences[0] == lead
    assert profiled.sentences == ("5 steps by PyTorch's profiler, 200 ms a step",)
    assert table.rows[0] == ("100 %", 10 * "█", "1", "8,000", "0.30 ms", "8.00 ms", "aten::mm|<b>")
    assert lost.sentences == ("5 steps by JAX's profiler, 200 ms a step: its trace is cut short",)
    assert "aten::mm|&lt;b&gt;" in html_of(report)
    assert "| `aten::mm¦<b>` |" in markdown_of(report)
    first, second = report.sessions[0].as_json["profiles"]
    assert (first["steps"], first["file"]) == (5, "profile-1.json.gz")
    assert first["operations"][0]["device_us"] == 40_000
    assert second["operations"] is None
    (row,) = json.loads("".join(json_lines(rows_of([path], OPERATIONS))))
    assert (row["operation"], row["host_ms"], row["device_ms"]) == ("aten::mm|<b>", 1.5, 40.0)


def test_what_speaks_against_figures_is_said_once_of_a_session_and_in_a_row_of_several(tmp_path):
    header, *records = recorded_session()
    busy = MachineFacts(**{**vars(header.machine), "on_battery": True})
    doubted = write_log(tmp_path, [replace(header, machine=busy), *records])
    alone = make_report([doubted], [])
    assert markdown_of(alone).count("\n- The machine ran on battery.\n") == 1
    assert all("in doubt" not in text for text in (html_of(alone), markdown_of(alone)))
    other = write_log(tmp_path, recorded_session(session_id="20261120-a1b2"))
    together = make_report([doubted, other], []).together
    rows = {row[0]: row[1:] for row in together.rows}
    assert "ran on battery" in rows["in doubt"][0]
    assert rows["in doubt"][1] == "–"


def test_who_else_was_on_the_gpu_is_not_named(tmp_path):
    header, *records, result = recorded_session(gpus=1)
    row = Process(7, "mallory", "/opt/spy --x", gpus=(0,), gpu_memory_mib=4096, of_run=False)
    records = [replace(r, processes=(row,)) if isinstance(r, Machine) else r for r in records]
    said = {Doubt.GPU_SHARED: "another program had 4.0 GiB on GPU 0 (spy, pid 7)"}
    result = replace(result, valid=False, against=said)
    path = write_log(tmp_path, [header, *records, result])
    assert "another program had 4.0 GiB on GPU 0 (unnamed, pid 7)" in str(only(path).as_json)
    assert "spy" not in html_of(make_report([path], []))
    assert "spy" in html_of(make_report([path], [], full=True))


def test_a_long_time_without_a_batch_is_listed(tmp_path):
    header, *records = recorded_session()
    at = next(n for n, r in enumerate(records) if r.TYPE == "batches" and r.epoch == 1) + 3
    stalled = replace(records[at], dt_us=(2_500_000, *records[at].dt_us[1:]))
    path = write_log(tmp_path, [header, *records[:at], stalled, *records[at + 1 :]])
    report = make_report([path], [])
    assert any(
        "without a batch" in text
        for _, text in under(report.sessions[0], "The longest times without a batch").rows
    )
    assert any("without a batch" in mark.text for mark in report.marks)


def test_a_machine_alone_is_reported(tmp_path):
    header, *records = recorded_session(gpus=2)
    header = replace(header, workload="", options={"interval": 1.0})
    readings = [record for record in records if isinstance(record, Machine)]
    result = Result("completed", header.id, "", "", None, {}, 30.0, wall=BEGIN_WALL + 30)
    path = write_log(tmp_path, [header, *readings, result])
    report = make_report([path], [])
    (session,) = report.sessions
    assert session.sections[0].facts[0].startswith("the machine alone · ")
    assert under(session, "To run it again") is None
    assert under(session, "Where the time went") is None
    assert not said(session.sections, "good")
    assert not said(session.sections, "warning")
    assert report.charts[0].title == "CPU"
    assert "(host)" in dict(session.figures)["recorded"]
    assert "mean CPU" in dict(session.figures)


def test_the_sentence_of_a_script_has_the_unit_of_its_figures_and_a_capital(tmp_path):
    session = only(write_log(tmp_path, script_session(samples=None)))
    assert said(session.sections, "verdict")[0] == "50 steps/s."
    assert dict(session.figures)["throughput"].startswith("50 steps/s")
    of_samples = only(write_log(tmp_path, script_session(), "samples"))
    assert said(of_samples.sections, "verdict")[0] == "3,200 samples/s."
    assert as_sentence("new had more") == as_sentence("new had more", ("batch",)) == "New had more."
    name = "batch 256 has no throughput."
    assert as_sentence(name, ("batch 256",)) == name
    assert as_sentence(name) == "Batch 256 has no throughput."


def of_script(records, *arguments):
    """Return a session as that of a script which was given these arguments."""
    header, *rest, result = records
    command = ("python3", "/home/ada/train.py", *arguments)
    header = replace(header, workload="train.py", command=command)
    return [header, *rest, replace(result, workload="train.py")]


def test_no_command_of_an_earlier_run_is_in_the_comparison(tmp_path):
    """Its row is called as it is in every other form, also where other arguments differ."""
    early = recorded_session(session_id="20261120-a1b2", begin_wall=BEGIN_WALL - 600)
    write_log(tmp_path, of_script(early, "--lr", "0.1", "--api-key", "sk-abcdef", "--db", "x:hush"))
    path = write_log(tmp_path, of_script(recorded_session(), "--lr", "0.2"))
    session = only(path)
    comparison = session.as_json["comparison"]
    assert [row["label"] for row in comparison] == [bar.label for bar in bars(session)]
    assert any(row["session"] == "20261120-a1b2" for row in comparison)
    for secret in ("sk-abcdef", "python3", "/home/ada"):
        assert secret not in json.dumps(session.as_json)


def test_a_metric_takes_no_place_of_a_figure_beside_other_sessions(tmp_path):
    metrics = {"throughput": 7.5, "epochs": 8.5, "loss": 0.5}
    logs = []
    for name in ("run-0", "run-1", "usual"):
        records = [
            replace(one, metrics=metrics) if isinstance(one, Epoch) and name != "usual" else one
            for one in recorded_session(session_id=name)
        ]
        logs.append(write_log(tmp_path, records, name))
    shares = []
    report = make_report(logs, [], on_read=shares.append)
    rows = {row[0]: row[1:] for row in report.together.rows}
    assert len(rows) == len(report.together.rows)
    figures = [dict(session.figures)["throughput"] for session in report.sessions]
    assert list(rows["throughput"]) == figures
    assert rows["metric throughput"] == ("7.5000", "7.5000", "–")
    assert "loss" in rows
    assert "metric loss" not in rows
    # How much is read is said while it is read.
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert 0 <= shares[0] < 0.6 < shares[-1] <= 1
