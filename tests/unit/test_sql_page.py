"""The questions of the page on SQL, as they stand there, have the answers of `--format json`."""

import json
import re
import shlex
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import duckdb
import pytest
from fakes.recorded import BEGIN_WALL, folded, recorded_session, write_log
from fakes.scripts import SECOND, script_session

from dlmon.cli.command_line import run_command
from dlmon.records import FailureKind, NamedPause, Result

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
QUESTIONS = dict(re.findall(r"\*\*([^*\n]+)\*\*\n\n```sql\n(.*?)```", PAGE, re.DOTALL))
(VIEW,) = re.findall(r"```sql\n(CREATE VIEW .*?)```", PAGE, re.DOTALL)
WEEK_S = 7 * 86_400


def recorded(session, **changes):
    """Return a session that a GPU trained, with the time breakdown in its result."""
    records = recorded_session(session_id=session, gpus=2, **changes)
    result = next(record for record in records if isinstance(record, Result))
    account = folded(records).snapshot().time_breakdown
    failed = {"failure": FailureKind.EXCEPTION} if result.status == "failed" else {}
    changed = replace(result, account=account, **failed)
    return [changed if record is result else record for record in records]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Return a function that asks a question of the page, and one that reports as JSON."""
    folder = tmp_path_factory.mktemp("sessions")
    slow, failed = {"step_us": 20_000}, {"status": "failed", "epochs": 4, "ended": 2}
    for number, (name, changes) in enumerate((("one", {}), ("two", slow), ("bad", failed))):
        write_log(folder, recorded(name, begin_wall=BEGIN_WALL + number * WEEK_S, **changes))
    header, *records = script_session(seconds=8)
    pauses = [
        NamedPause(header.t + second * SECOND, header.t + (second + 1) * SECOND, name)
        for second, name in ((11, "compile"), (12, "checkpoint"), (14, "checkpoint"))
    ]
    write_log(folder, [header, *records, *pauses])
    # A session that runs: its last line is not whole.
    log = write_log(folder, recorded("runs")[:40])
    log.write_bytes(log.read_bytes()[:-9])

    def report(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            run_command([*arguments, "--log-dir", str(folder)])

    for command in re.findall(r"^(?:> )?dlmon (report .*)$", PAGE, re.MULTILINE):
        report(*shlex.split(command))
    connection = duckdb.connect()

    def ask(question):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            rows = connection.execute(QUESTIONS[question])
            names = [column[0] for column in rows.description]
            return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]

    def as_json(*arguments):
        report("report", "*", "--format", "json", "-o", "all.json", *arguments)
        return json.loads((folder / "all.json").read_text())

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        connection.execute(VIEW)
    yield ask, as_json
    connection.close()


@pytest.fixture(scope="module")
def results(asked):
    """Return the sessions of the JSON report that have a result, by their ids."""
    sessions = asked[1]()["sessions"]
    return {each["session"]: each for each in sessions if each["result"] is not None}


def test_there_are_ten_questions():
    assert len(QUESTIONS) == 10


def test_speeds(asked, results):
    rows = asked[0]("How fast was each session?")
    assert [row["session"] for row in rows] == ["one", "two", "bad"] == list(results)
    for row in rows:
        rate = results[row.pop("session")]["result"]["samples_per_second"]
        assert row == {
            **{name: rate[name] for name in ("mean", "band", "unit")},
            "status": row["status"],
        }


def test_hours_by_week(asked, results):
    rows = asked[0]("How many hours did each workload run, by week?")
    assert [row["sessions"] for row in rows] == [1, 1, 1]
    assert rows[1]["week"] - rows[0]["week"] == timedelta(weeks=1)
    assert rows[0]["week"] == datetime(2026, 11, 16)
    hours = [session["result"]["wall_s"] / 3600 for session in results.values()]
    assert [row["hours"] for row in rows] == pytest.approx(hours)


def test_parts_of_the_time(asked, results):
    spent = Counter()
    for session in results.values():
        spent.update(session["account"])
    rows = asked[0]("Where did the time go, in all of them?")
    assert {row["part"]: row["seconds"] for row in rows} == pytest.approx(spent)
    assert len(rows) == len(spent)
    assert rows[0]["part"] == "training"


def test_failures(asked, results):
    (row,) = asked[0]("What failed, and how?")
    result = results["bad"]["result"]
    assert row == {
        "workload": result["workload"],
        "failure": result["failure"],
        "exit_code": result["exit_code"],
        "sessions": 1,
        "newest": "bad",
    }


def test_pauses(asked):
    rows = asked[0]("How long did checkpoints and compilations take?")
    assert rows == [
        {"name": "checkpoint", "pauses": 2, "seconds": 2.0, "longest_s": 1.0},
        {"name": "compile", "pauses": 1, "seconds": 1.0, "longest_s": 1.0},
    ]


def test_the_fastest_session(asked, results):
    (row,) = asked[0]("Which session of each workload was the fastest?")
    assert row["session"] == "one"
    assert row["samples_per_second"] == results["one"]["figures"]["samples_per_second"]


def test_long_epochs(asked, results):
    rows = asked[0]("Which epochs took 10 % longer than the median?")
    assert {row["session"] for row in rows} >= {"one", "two"}
    for row in rows:
        epochs = {epoch["epoch"]: epoch["seconds"] for epoch in results[row["session"]]["epochs"]}
        assert row["seconds"] == epochs[row["epoch"]]
        assert row["ratio"] == pytest.approx(row["seconds"] / median(epochs.values()))


def test_slow_steps(asked):
    ask, as_json = asked
    taken_ms = {}
    for batch in as_json("--table", "batches"):
        taken_ms.setdefault(batch["session"], []).append(batch["duration_ms"])
    rows = ask("How much time is in the slowest 1 % of the steps?")
    assert {row["session"] for row in rows} == set(taken_ms)
    for row in rows:
        of_session = taken_ms[row["session"]]
        slow = [ms for ms in of_session if ms >= row["slow_ms"]]
        assert len(slow) / len(of_session) >= 0.01
        assert row["share"] == pytest.approx(sum(slow) / sum(of_session))


def test_gpus(asked):
    ask, as_json = asked
    readings = {}
    for reading in as_json("--table", "machine"):
        key = reading["session"], reading["device"], reading["quantity"]
        readings.setdefault(key, []).append(reading["value"])
    rows = ask("How busy were the GPUs, and what did they use?")
    assert {(row["session"], row["device"]) for row in rows} >= {("one", "gpu:0"), ("two", "gpu:1")}
    for row in rows:
        for quantity in ("utilization_pct", "power_w", "temperature_c", "memory_used_mib"):
            values = readings.get((row["session"], row["device"], quantity))
            mean = values and pytest.approx(sum(values) / len(values))
            assert (row[f"{quantity}_mean"], row[f"{quantity}_most"]) == (
                mean,
                values and max(values),
            )


def test_the_best_validation(asked, results):
    rows = asked[0]("What is each session's best validation?")
    found = {
        row["session"]: (row["best"], row["epoch"]) for row in rows if row["session"] in results
    }
    best = {name: session["metrics"]["val_accuracy"] for name, session in results.items()}
    assert found == {name: (metric["best"], metric["best_epoch"]) for name, metric in best.items()}
