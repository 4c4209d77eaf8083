"""Runs are found in files and folders of every kind, and read."""

import json
import math
import os
import sqlite3

import pytest

from dlmon.metric_files.file_session import FileSource
from dlmon.metric_files.find import NoMetrics, find_runs


def source_of(found):
    source = FileSource(found)
    while source.read_share is not None:
        source.poll(1)
    return source


def points_of(path):
    return {run.name: source_of(run).session.points.metrics for run in find_runs(path)}


def pairs(metric):
    return list(zip(metric.steps, metric.values, strict=True))


def test_a_table_of_lightning_has_gaps_and_an_epoch(tmp_path):
    folder = tmp_path / "version_0"
    folder.mkdir()
    (folder / "metrics.csv").write_text(
        "epoch,step,train_loss,val_loss\n0,9,1.5,\n0,19,,1.25\n1,29,nan,\n"
    )
    [(name, metrics)] = points_of(tmp_path).items()
    assert name == "version_0"
    assert set(metrics) == {"train_loss", "val_loss"}
    assert pairs(metrics["val_loss"]) == [(19, 1.25)]
    assert math.isnan(metrics["train_loss"].values[1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_plain_table_without_a_step_counts_its_rows(tmp_path, delimiter):
    path = tmp_path / "any.csv"
    lines = ("loss", "time"), ("2", "2026-11-30T06:00:00+00:00"), ("1", "1796018401")
    path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    metrics = points_of(path)["any.csv"]
    assert pairs(metrics["loss"]) == [(0, 2.0), (1, 1.0)]
    assert list(metrics["loss"].walls) == [1796018400.0, 1796018401.0]


def test_json_lines_with_objects_in_them(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = {"step": 1, "train": {"loss": 2}}, {"step": 2, "train": {"loss": 1}}, ["no", "object"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n" + '{"cut": ')
    assert pairs(points_of(path)["log.jsonl"]["train/loss"]) == [(1, 2.0), (2, 1.0)]


def test_a_table_that_grows_is_read_on_and_its_head_may_come_again(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n1,4\n2,3")
    now = [0.0]
    source = FileSource(find_runs(path)[0], clock=lambda: now[0])
    source.poll()
    source.poll()
    assert pairs(source.session.points.metrics["loss"]) == [(1, 4)]
    with path.open("a") as file:
        file.write("\nstep,loss\n1,5\n")
    now[0] += 60
    source.poll()
    source.poll()
    assert pairs(source.session.points.metrics["loss"]) == [(1, 4), (2, 3), (1, 5)]


@pytest.fixture
def database(tmp_path):
    def make(name, *statements):
        connection = sqlite3.connect(tmp_path / name)
        for statement, rows in statements:
            connection.executemany(statement, rows) if rows else connection.execute(statement)
        connection.commit()
        connection.close()
        return tmp_path / name

    return make


def test_a_database_of_mlflow(database):
    path = database(
        "mlflow.db",
        ("CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT, start_time INT)", ()),
        (
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INT, run_uuid TEXT, step INT, "
            "is_nan INT, PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan))",
            (),
        ),
        ("INSERT INTO runs VALUES (?, ?, ?)", [("a", "first", 1), ("b", None, 2)]),
        (
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)",
            [
                *(("loss", 1 / (n + 1), 1_700_000_000_000 + n, "a", n, 0) for n in range(6000)),
                ("loss", 0.0, 1, "b", 0, 1),
            ],
        ),
    )
    runs = points_of(path)
    assert len(runs["first"]["loss"].values) == 6000
    assert runs["first"]["loss"].walls[0] == 1.7e9
    assert math.isnan(runs["b"]["loss"].values[0])


def test_a_database_of_trackio(database):
    path = database(
        "project.db",
        ("CREATE TABLE configs (id INTEGER PRIMARY KEY)", ()),
        (
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, "
            "run_name TEXT, step INTEGER, metrics TEXT)",
            (),
        ),
        (
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)",
            [
                (1, "x", "2026-11-30T06:00:00+00:00", "run", 5, '{"train/loss": 2, "note": "a"}'),
                (2, "x", "2026-11-30T06:00:01+00:00", "run", 6, '{"train/loss": "Infinity"}'),
                (3, "x", "?", "run", 7, "broken"),
            ],
        ),
    )
    metrics = points_of(path)["run"]
    assert pairs(metrics["train/loss"]) == [(5, 2.0), (6, math.inf)]
    assert set(metrics) == {"train/loss"}


def test_a_database_of_an_older_trackio_knows_runs_by_name(database):
    path = database(
        "project.db",
        ("CREATE TABLE configs (id INTEGER PRIMARY KEY)", ()),
        (
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, "
            "step INTEGER, metrics TEXT)",
            (),
        ),
        (
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?)",
            [(n, "2026-11-30T06:00:00+00:00", "ab"[n % 2], n, '{"loss": 2}') for n in range(4)],
        ),
    )
    assert {name: pairs(m["loss"]) for name, m in points_of(path).items()} == {
        "a": [(0, 2.0), (2, 2.0)],
        "b": [(1, 2.0), (3, 2.0)],
    }


def test_the_files_of_trackio_on_a_network_file_system(tmp_path):
    def write(writer, number, *rows):
        folder = tmp_path / "inbox" / writer
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps({"v": 1, "project": "p", **row}) + "\n" for row in rows)
        (folder / f"{number:08d}.jsonl").write_text(text)

    def row(step, run="sun", kind="metric", **metrics):
        return {"kind": kind, "run": run, "run_id": run, "step": step, "metrics": metrics}

    write("a", 0, row(None, kind="system_metric", cpu=1), row(0, loss=3.0))
    write("a", 1, row(1, loss=2.0, note="text"))
    write("b", 0, row(0, **{"dlmon/step_ms": 5.0}))
    write("c", 0, row(0, run="moon", loss=1.0))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "00000000.jsonl").write_text('{"no": "trackio"}\n')
    runs = points_of(tmp_path)
    assert set(runs) == {"sun", "moon"}
    assert pairs(runs["sun"]["loss"]) == [(0, 3.0), (1, 2.0)]
    assert set(runs["sun"]) == {"loss", "dlmon/step_ms"}
    [sun] = [run for run in find_runs(tmp_path) if run.name == "sun"]
    now = [0.0]
    source = FileSource(sun, clock=lambda: now[0])
    while source.read_share is not None:
        source.poll(1)
    write("a", 2, row(2, loss=1.5))
    now[0] += 60
    source.poll(1)
    source.poll(1)
    assert pairs(source.session.points.metrics["loss"])[-1] == (2, 1.5)


def test_another_database_and_a_broken_one_have_no_metrics(database, tmp_path):
    other = database("other.db", ("CREATE TABLE runs (id INT)", ()))
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + b"?" * 5000)
    for path in (other, tmp_path / "broken.db", tmp_path / "nothing"):
        with pytest.raises(NoMetrics):
            find_runs(path)


def test_the_folders_of_mlflow(tmp_path):
    run = tmp_path / "mlruns" / "0" / "abc"
    (run / "metrics" / "train").mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: abc\nrun_name: 'brave sun'\n")
    (run / "metrics" / "train" / "loss").write_text("1700000000000 2.0 0\n1700000001000 nan 10\n")
    metrics = points_of(tmp_path)["brave sun"]
    assert list(metrics["train/loss"].steps) == [0, 10]


def test_the_newest_run_of_a_folder_is_last(tmp_path):
    for number, name in enumerate(("b", "a", "c")):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "metrics.csv"
        path.write_text("step,loss\n1,2\n")
        os.utime(path, (number, number))
    assert [run.name for run in find_runs(tmp_path)] == ["b", "a", "c"]
