"""Tables of sessions: a row an observation, numbers as numbers, gaps as nothing."""

import csv
import io
import json
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.scripts import script_session

from dlmon.records import (
    SCRIPT_PHASE,
    Batches,
    BatchSummary,
    Epoch,
    Evaluation,
    Machine,
    Model,
    Operation,
    Phase,
    Profile,
    Trainer,
)
from dlmon.render.files import ReportError
from dlmon.render.tidy import TABLES, csv_lines, json_lines, rows_of


def table(paths, name=None):
    text = "".join(csv_lines(rows_of(paths, name)))
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def records():
    return recorded_session(gpus=1)


@pytest.fixture
def log(tmp_path, records):
    header, *others, result = records
    operations = (Operation("aten::mm", 5, 1_500, 40_000, 1.0),)
    profile = Profile(result.t, 1, header.t, result.t, 5, "torch", operations=operations)
    return write_log(tmp_path, [header, *others, profile, result])


def test_without_a_table_a_row_is_a_session_with_what_it_trained_with(tmp_path, records):
    header, *others, result = records
    header = replace(header, options={**header.options, "data": "auto"})
    ended = [header, *others, replace(result, data="synthetic")]
    (row,) = table([write_log(tmp_path, ended, "ended")])
    assert row["session"] == "20261120-145600-cifar10-cnn-7f3a"
    assert (row["status"], row["data"], row["cost_usd"]) == ("completed", "synthetic", "")
    assert float(row["seconds_per_epoch"]) == pytest.approx(9.16, abs=0.01)
    # Of a script, with what it was seen to train with.
    header = replace(header, command=("python", "fit.py"), options={"interval": 1.0})
    trainer = Trainer(header.t, 0, 7, "torch", "2.9.1")
    model = next(record for record in records if isinstance(record, Model))
    for backend, shown in (("tensorflow", "tensorflow"), (None, "torch")):
        seen = replace(model, batch_size=64, backend=backend)
        (row,) = table([write_log(tmp_path, [header, trainer, seen], shown)])
        assert (row["batch_size"], row["backend"]) == ("64", shown)


def test_a_row_of_batches_is_a_batch_or_those_that_were_summarised(tmp_path, log, records):
    rows = table([log], "batches")
    of_records = [record for record in records if isinstance(record, Batches)]
    assert len(rows) == sum(len(record.dt_us) for record in of_records)
    first = of_records[0]
    assert float(rows[0]["duration_ms"]) == first.dt_us[0] / 1000
    assert float(rows[0]["end_s"]) == pytest.approx((first.t - records[0].t) / 1e9)
    steps = (1, 2, 3, 4, 5, 6, 7)
    summary = BatchSummary(0, 0, 50, 1600, first.t, first.t + 10**9, 900_000, steps)
    (row,) = table([write_log(tmp_path, [records[0], summary], "summed")], "batches")
    assert (row["batches"], row["samples"], row["duration_ms"]) == ("50", "1600", "900.0")


def test_a_row_of_samples_is_a_second(log, records):
    rows = table([log], "samples")
    total = sum(
        record.samples * len(record.dt_us)
        if isinstance(record.samples, int)
        else sum(record.samples)
        for record in records
        if isinstance(record, Batches)
    )
    assert sum(int(row["samples"]) for row in rows) == total
    seconds = [int(row["second"]) for row in rows]
    assert seconds == sorted(set(seconds))
    assert float(rows[10]["samples_per_second"]) == pytest.approx(5_500, rel=0.05)


def test_samples_are_empty_where_a_script_s_batches_have_no_known_size(tmp_path):
    result = replace(recorded_session()[-1], counts_steps=True)
    path = write_log(tmp_path, script_session(samples=None, result=result))
    for name in ("batches", "epochs"):
        assert {row["samples"] for row in table([path], name)} == {""}
    rows = table([path], "samples")
    assert {(row["samples"], row["samples_per_second"]) for row in rows} == {("", "")}
    assert sum(int(row["batches"]) for row in rows) == len(table([path], "batches"))
    (row,) = table([path])
    assert (row["samples_per_second"], row["samples_per_second_band"]) == ("", "")
    assert float(row["step_ms_median"]) == 20.0
    (row,) = json.loads("".join(json_lines(rows_of([path], "samples"))))[:1]
    assert row["samples"] is row["samples_per_second"] is None


def test_of_a_second_with_a_batch_of_unknown_size_the_samples_are_not_known(tmp_path, records):
    batches = [record for record in records if isinstance(record, Batches)]
    of_one = batches[len(batches) // 2]
    unknown = [replace(each, samples=None) if each is of_one else each for each in records]
    rows = table([write_log(tmp_path, unknown)], "samples")
    ended_s = [row["second"] for row in rows if row["samples"] == ""]
    assert 1 <= len(ended_s) <= 2
    assert str((of_one.t - records[0].t) // 10**9) in ended_s


def test_a_row_of_epochs_is_an_epoch_with_its_metrics(log, records):
    rows = table([log, log], "epochs")
    assert len(rows) == 2 * sum(isinstance(record, Epoch) for record in records)
    assert rows[0]["whole"] == "true"
    assert float(rows[0]["metric_loss"]) > 0


def test_a_row_of_the_machine_is_a_number_of_a_reading(log, records):
    rows = table([log], "machine")
    first = next(record for record in records if isinstance(record, Machine))
    of_first = {
        (row["device"], row["quantity"]): row["value"]
        for row in rows
        if row["at_s"] == rows[0]["at_s"]
    }
    assert float(of_first["cpu", "pct"]) == first.cpu.pct
    assert float(of_first["core:0", "pct"]) == first.cpu.cores[0]
    assert int(of_first["gpu:0", "utilization_pct"]) == first.gpus[0].utilization_pct
    # What nobody reads has no row, in place of a zero.
    assert ("gpu:0", "pcie_receive_mib_s") not in of_first
    assert ("gpu:0", "index") not in of_first


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_nothing_is_refused(tmp_path, records, name):
    path = write_log(tmp_path, records[:1])
    what = {"machine": "readings of the machine"}.get(name, name)
    with pytest.raises(ReportError, match=f"there are no {what} in what was recorded"):
        table([path], name)


@pytest.mark.parametrize(("phase", "whole"), [("validating", "false"), (SCRIPT_PHASE, "true")])
def test_an_epoch_that_a_kill_left_in_its_validation_is_not_whole(tmp_path, phase, whole):
    records = script_session(steps=100, validated=True)
    ended = [n for n, each in enumerate(records) if isinstance(each, Epoch)]
    last = max(n for n in ended if records[n].validation is None)
    log = write_log(tmp_path, [*records[: last + 1], Phase(records[last].end, phase)])
    *before, cut = [row["whole"] for row in table([log], "epochs")]
    assert set(before) == {"true"}
    assert cut == whole


def test_a_row_of_metrics_is_a_value_with_its_time_and_epoch(tmp_path, log, records):
    rows = table([log], "metrics")
    validations = [row for row in rows if row["is_validation"] == "true"]
    losses = [row for row in validations if row["metric"] == "loss"]
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert [float(row["value"]) for row in losses] == [e.metrics["val_loss"] for e in epochs]
    assert [row["epoch"] for row in losses] == ["1", "2", "3"]
    at_s = [(epoch.end - records[0].t) / 1e9 for epoch in epochs]
    assert [float(row["at_s"]) for row in losses] == pytest.approx(at_s)
    assert {row["phase"] for row in rows} == {"training", "validation"}
    assert {row["metric"] for row in rows} == {"loss", "accuracy"}
    # What an evaluation came to is among them, and each table is the same as JSON.
    t = records[0].t
    evaluation = Evaluation(t + 10**9, t + 2 * 10**9, 5, 100, True, {"loss": 0.7})
    (row,) = table([write_log(tmp_path, [records[0], evaluation], "evaluated")], "metrics")
    assert (row["phase"], row["epoch"], row["value"]) == ("evaluation", "", "0.7")
    for name in TABLES:
        of_json, of_csv = json.loads("".join(json_lines(rows_of([log], name)))), table([log], name)
        assert (len(of_json), list(of_json[0])) == (len(of_csv), list(of_csv[0]))
