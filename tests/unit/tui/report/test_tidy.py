"""Tables of sessions: a row an observation, numbers as numbers, gaps as nothing."""

import csv
import io

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.records import Batches, BatchSummary, Epoch, Machine
from tui.report.files import ReportError
from tui.report.tidy import TABLES, csv_lines


def table(paths, name=None):
    text = "".join(csv_lines(paths, name))
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def records():
    return recorded_session(gpus=1)


@pytest.fixture
def log(tmp_path, records):
    return write_log(tmp_path, records)


def test_without_a_table_a_row_is_a_session(log):
    (row,) = table([log])
    assert row["session"] == "20261120-145600-cifar10-cnn-7f3a"
    assert row["status"] == "completed"
    assert float(row["seconds_per_epoch"]) == pytest.approx(9.16, abs=0.01)
    assert row["cost_usd"] == ""


def test_a_row_of_batches_is_a_batch(log, records):
    rows = table([log], "batches")
    of_records = [record for record in records if isinstance(record, Batches)]
    assert len(rows) == sum(len(record.dt_us) for record in of_records)
    first = of_records[0]
    assert float(rows[0]["duration_ms"]) == first.dt_us[0] / 1000
    assert float(rows[0]["end_s"]) == pytest.approx((first.t - records[0].t) / 1e9)


def test_batches_that_were_summarised_are_a_row_together(tmp_path, records):
    t = records[0].t + 2_000_000_000
    steps = (1, 2, 3, 4, 5, 6, 7)
    summary = BatchSummary(0, 0, 50, 1600, t, t + 10**9, 900_000, steps)
    (row,) = table([write_log(tmp_path, [records[0], summary])], "batches")
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
    with pytest.raises(ReportError, match=f"there are no {name}"):
        table([path], name)
