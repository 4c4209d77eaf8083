"""What can't be written as a report is refused in words for what was asked for."""

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.cli.command_line import run_command
from dlmon.cli.report import _table
from dlmon.cli.shared import UserError

SWEEP = Path("sweep.jsonl")


@pytest.mark.parametrize(
    ("sweeps", "form", "table"),
    [([SWEEP], "json", "batches"), ([SWEEP], "csv", "epochs"), ([SWEEP, SWEEP], "csv", None)],
)
def test_a_sweep_has_one_table_in_whatever_form(sweeps, form, table):
    with pytest.raises(UserError) as error:
        _table([], sweeps, form, table, False)
    assert str(error.value) == "a table is of one sweep, with one row per combination"


@pytest.fixture
def report(tmp_path, capsys):
    """Return what runs `dlmon report` where two settings were run three times each."""
    for number in range(3):
        for name, step_us, threads in (("w0", 18_000, 0), ("w2", 20_000, 2)):
            header, *records = recorded_session(
                session_id=f"{name}-{number}", step_us=step_us + 7 * number * number
            )
            options = {**header.options, "threads": threads}
            write_log(tmp_path, [replace(header, options=options), *records], f"{name}-{number}")

    def run(*arguments):
        run_command(["report", *arguments, "--log-dir", str(tmp_path)])
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    "arguments", [("--base", "w0*", "--new", "w2*"), ("w0*", "w2*"), ("w0*,w2*",)]
)
def test_repeats_stand_on_one_side_and_have_one_verdict(report, arguments):
    (compared,) = json.loads(report(*arguments, "--format", "json"))["comparisons"]
    assert [len(compared[side]) for side in ("base", "new")] == [3, 3]
    assert compared["verdict"] == "slower"
    text = report(*arguments)
    assert "w2-0 and 2 more (new) beside w0-0 and 2 more (base)" in text
    assert "repeat each" not in text


def test_runs_that_were_made_alike_are_compared_one_by_one_unless_sides_are_chosen(report):
    compared = json.loads(report("w0*", "--format", "json"))["comparisons"]
    assert [run["session"] for one in compared for run in one["new"]] == ["w0-1", "w0-2"]
    chosen = ("--base", "w0-0,w0-1,w2-0", "--new", "w2-1,w2-2")
    (compared,) = json.loads(report(*chosen, "--format", "json"))["comparisons"]
    assert [run["session"] for run in compared["base"]] == ["w0-0", "w0-1", "w2-0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--base", "w0*"), "belong together"),
        (("--base", "w0*", "--new", "w2*", "last"), "leave out SESSION"),
        (("--base", "w*", "--new", "w2*"), "w2-0 is on both sides"),
    ],
)
def test_sides_that_make_no_sense_are_refused(report, arguments, said):
    with pytest.raises(UserError, match=said):
        report(*arguments)


def test_parquet_is_written_to_a_file_only(report, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"^Parquet is no text: name a file for it, with -o"):
        report("w0-0", "--format", "parquet")
    monkeypatch.chdir(tmp_path)
    assert report("w0*", "-o", "runs.parquet") == "saved runs.parquet\n"
    assert report("w0-0", "--table", "epochs", "-o", "epochs.parquet") == "saved epochs.parquet\n"
    rows = duckdb.sql("SELECT session FROM 'runs.parquet' ORDER BY session").fetchall()
    assert rows == [("w0-0",), ("w0-1",), ("w0-2",)]
    assert len(duckdb.sql("FROM 'epochs.parquet'").fetchall()) == 3
