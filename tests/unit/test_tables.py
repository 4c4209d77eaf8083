"""The tables of `dlmon list`, `sessions` and `doctor`."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.recorded import BEGIN_WALL, recorded_session, write_log
from rich.cells import cell_len
from rich.console import Console

from dlmon.doctor import Finding
from dlmon.sessions import list_sessions
from tui.tables import print_findings, print_sessions, print_workloads, session_json
from workloads.catalog import WORKLOADS

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def log_dir(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def table(log_dir, capsys):
    """Return a function that writes sessions and returns the table of them, cell by cell."""

    def read(*sessions):
        for records in sessions:
            write_log(log_dir, records)
        print_sessions(list_sessions(log_dir), log_dir)
        return cells(capsys.readouterr().out)

    return read


def cells(text):
    """Return the rows of a table: cells are two blanks apart."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()
    ]


def test_every_workload_has_a_row_with_its_figures(capsys):
    print_workloads(tuple(WORKLOADS.values()))
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "name"
    told = "\n".join(rows)
    for workload in WORKLOADS.values():
        assert f"{workload.name} " in told
        assert f" {workload.parameters:,} " in told
        assert workload.title in told
        assert workload.source in told
    assert "1,337,002" in told


def test_a_workload_tells_how_long_a_run_of_it_is(capsys):
    print_workloads(tuple(WORKLOADS.values()))
    rows = {row[0]: row for row in cells(capsys.readouterr().out) if row}
    assert rows["cifar10-cnn"][5:] == ["10 epochs", "[1]"]
    assert rows["resnet50"][5] == "100 steps"


@pytest.mark.parametrize("width", [20, 60, 80, 139, 140, 200])
def test_the_workloads_are_told_whole_at_any_width(capsys, monkeypatch, width):
    console = Console(width=width, highlight=False)
    monkeypatch.setattr("tui.tables.table_console", lambda: console)
    print_workloads(tuple(WORKLOADS.values()))
    told = capsys.readouterr().out
    for workload in WORKLOADS.values():
        assert f"\n{workload.name} " in told
        assert f" {workload.parameters:,} " in told
        assert workload.title.split()[-1] in told
    if width == 80:
        assert max(map(cell_len, told.splitlines())) <= width


def test_without_sessions_it_says_where_none_are(log_dir, capsys):
    print_sessions([], log_dir)
    said = capsys.readouterr().out.replace("\n", "")
    assert said == f"no sessions in {log_dir} yet; dlmon run makes one"


def test_sessions_are_listed_oldest_first_with_what_they_took(table):
    day_s = 86_400
    rows = table(
        recorded_session(session_id="second", begin_wall=BEGIN_WALL + day_s, status="stopped"),
        recorded_session(session_id="first"),
        recorded_session(session_id="third", begin_wall=BEGIN_WALL + 2 * day_s, status="failed"),
    )
    assert rows == [
        ["session", "started", "workload", "status", "device", "result"],
        [
            "first", "2026-11-20 14:56", "cifar10-cnn", "completed",
            "NVIDIA GeForce GTX 1060 6GB", "9.16 s ± 2.15 an epoch",
        ],
        [
            "second", "2026-11-21 14:56", "cifar10-cnn", "stopped",
            "NVIDIA GeForce GTX 1060 6GB", "10.7 s an epoch",
        ],
        [
            "third", "2026-11-22 14:56", "cifar10-cnn", "failed",
            "NVIDIA GeForce GTX 1060 6GB",
            "memory ran out with batch size 100 (ResourceExhaustedError: OOM when allocating)",
        ],
    ]  # fmt: skip


def test_a_workload_that_is_compared_whole_tells_the_time_of_a_run(table):
    _, row = table(recorded_session(workload="mnist-mlp-small", step_us=700))
    assert row[-1] == "5.66 s a run"


def test_a_session_without_a_result_says_what_is_known_of_it(table):
    header, *rest = recorded_session("training")
    asked = {"device": "gpu:1"}
    _, row = table([replace(header, options=asked), *rest])
    assert row[2:] == ["cifar10-cnn", "unknown", "gpu:1"]


def test_a_run_without_a_figure_has_an_empty_cell(table):
    records = recorded_session()
    records[-1] = replace(records[-1], seconds_per_epoch=None)
    _, row = table(records)
    assert row[-1] == "NVIDIA GeForce GTX 1060 6GB"


def test_nothing_is_cut_in_a_pipe(table):
    session_id = "20261120-145600-" + "long-" * 8 + "7f3a"
    _, row = table(recorded_session(session_id=session_id))
    assert row[0] == session_id


def test_a_session_as_json_holds_its_result_and_where_it_is(log_dir):
    path = write_log(log_dir, recorded_session())
    (entry,) = list_sessions(log_dir)
    told = session_json(entry)
    assert told["session"] == entry.header.id
    assert told["status"] == told["result"]["status"] == "completed"
    assert told["host"] == "tower"
    assert told["pid"] is None
    assert Path(told["log"]) == path
    assert told["result"]["seconds_per_epoch"]["epochs"] == 3
    assert told["options"]["epochs"] == 3


def test_a_session_without_a_result_is_null_in_json(log_dir):
    write_log(log_dir, recorded_session("training"))
    (entry,) = list_sessions(log_dir)
    assert session_json(entry)["result"] is None
    assert session_json(entry)["status"] == "unknown"


def test_findings_are_marked_and_followed_by_what_to_do(capsys):
    print_findings(
        [
            Finding("Python", "ok", "3.11.7"),
            Finding("GPU", "missing", "no NVIDIA driver", "install one"),
            Finding("CPU", "warning", "on battery"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "✓ Python: 3.11.7",
        "✗ GPU: no NVIDIA driver",
        "    → install one",
        "! CPU: on battery",
    ]
