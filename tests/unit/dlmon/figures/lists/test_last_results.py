"""A workload is shown with its last result here that is of the form's own options."""

from dataclasses import replace

import pytest
from fakes.recorded import BEGIN_WALL, HOST, recorded_session, write_log

from dlmon.figures.lists.last_results import (
    last_in_brief,
    last_result,
    last_text,
    other_options,
    results_here,
    timing_of_run,
)
from dlmon.log.directory import list_sessions
from dlmon.options.run_options import RunOptions
from dlmon.records import Requirement
from workloads.catalog import WORKLOADS

ALL = [WORKLOADS[name] for name in ("cifar10-cnn", "mnist-mlp-small", "mnist-mlp-wide")]
CIFAR, SMALL, WIDE = ALL
DAY_S = 86_400


def newest(workloads, entries, host, options=None):
    """Return what is shown of each workload of which anything is."""
    results = results_here(workloads, entries, host)
    found = {
        each.name: last_result(results[each.name], each, options or RunOptions())
        for each in workloads
    }
    return {name: last for name, last in found.items() if last is not None}


def with_options(records, **options):
    """Return a session that was launched with other options."""
    header, *rest, result = records
    options = {**header.options, **options}
    return [replace(header, options=options), *rest, replace(result, options=options)]


def test_the_newest_result_of_this_host_counts(tmp_path):
    for day, epochs in enumerate([3, 2]):
        begin = {"session_id": f"day-{day}", "begin_wall": BEGIN_WALL + day * DAY_S}
        write_log(tmp_path, recorded_session(epochs=epochs, **begin))
    write_log(tmp_path, recorded_session("training", session_id="cut", begin_wall=BEGIN_WALL + 9e5))
    entries = list_sessions(tmp_path)
    found = newest(ALL, entries, HOST)
    assert list(found) == ["cifar10-cnn"]
    assert found["cifar10-cnn"].header.wall == BEGIN_WALL + DAY_S
    assert timing_of_run(found["cifar10-cnn"]) == entries[1].result.seconds_per_epoch
    assert newest(ALL, entries, "another") == {}


def test_a_workload_is_represented_by_its_whole_run_or_its_batches_where_these_compare(tmp_path):
    write_log(tmp_path / "whole", recorded_session(workload="mnist-mlp-small", step_us=700))
    (entry,) = list_sessions(tmp_path / "whole")
    assert timing_of_run(newest(ALL, [entry], HOST)[SMALL.name]) == entry.result.run_seconds
    header, *records = recorded_session()
    write_log(tmp_path / "batches", [replace(header, workload="resnet50"), *records])
    (entry,) = list_sessions(tmp_path / "batches")
    (found,) = newest([WORKLOADS["resnet50"]], [entry], HOST).values()
    assert timing_of_run(found).value == entry.result.step_ms.mean


@pytest.mark.parametrize("mode", ["gradients", "inference"])
def test_a_run_that_learnt_nothing_shows_nothing_of_training(tmp_path, mode):
    write_log(tmp_path, with_options(recorded_session(), mode=mode))
    assert newest(ALL, list_sessions(tmp_path), HOST) == {}


def test_a_run_that_was_cut_short_shows_its_time_only_where_no_other_did(tmp_path):
    write_log(tmp_path, recorded_session(session_id="a"))
    stopped = recorded_session(status="stopped", session_id="b", begin_wall=BEGIN_WALL + 60)
    write_log(tmp_path, stopped)
    write_log(tmp_path / "alone", recorded_session(status="stopped", session_id="c"))
    for folder in (tmp_path, tmp_path / "alone"):
        assert newest(ALL, list_sessions(folder), HOST)[CIFAR.name].header.wall == BEGIN_WALL


def without_figure(records):
    """Return a session that ended before its speed was steady."""
    *rest, result = records
    metric = "seconds_per_epoch"
    lacking = {metric: Requirement.STEADY_STATE}
    return [*rest, replace(result, seconds_per_epoch=None, why={metric: "-"}, lacking=lacking)]


def run_of(log_dir, day, workload="mnist-mlp-small", **options):
    """Write a run of a day, with other options than the usual ones."""
    begin = {"session_id": f"day-{day}", "begin_wall": BEGIN_WALL + day * DAY_S}
    records = recorded_session(workload=workload, step_us=700, **begin)
    write_log(log_dir, with_options(records, **{"epochs": 10, "steps": None, **options}))


def test_like_is_shown_with_like_though_another_run_is_newer(tmp_path):
    run_of(tmp_path, 0)
    run_of(tmp_path, 1, epochs=2, steps=400)
    entries = list_sessions(tmp_path)
    found = newest(ALL, entries, HOST)["mnist-mlp-small"]
    assert found.header.wall == BEGIN_WALL
    assert other_options(found, SMALL, RunOptions()) == {}
    wanted = RunOptions(epochs=2, steps=400)
    assert newest(ALL, entries, HOST, wanted)["mnist-mlp-small"].header.wall == BEGIN_WALL + DAY_S


def test_of_another_run_what_differed_is_named(tmp_path, utc):
    run_of(tmp_path, 0, epochs=2, steps=400)
    (entry,) = list_sessions(tmp_path)
    found = newest(ALL, [entry], HOST)["mnist-mlp-small"]
    text = last_text(found, SMALL, RunOptions())
    assert text == "last here: 5.66 s per run with 2 epochs, 400 steps, 2026-11-20 14:56"
    assert last_in_brief(found, SMALL, RunOptions()) == "(5.66 s)"
    assert last_in_brief(found, SMALL, RunOptions(epochs=2, steps=400)) == "5.66 s"
    text = last_text(found, SMALL, RunOptions(epochs=2, steps=100, backend="jax"))
    assert "with 400 steps, TensorFlow," in text


def test_a_run_too_short_for_a_figure_is_no_run_that_never_was(tmp_path, utc):
    write_log(tmp_path, without_figure(recorded_session()))
    found = newest(ALL, list_sessions(tmp_path), HOST)["cifar10-cnn"]
    text = last_text(found, CIFAR, RunOptions())
    assert text == "last run here: completed, too short to measure (2026-11-20 14:56)"
    assert last_in_brief(found, CIFAR, RunOptions()) == ""
    assert last_text(None, CIFAR, RunOptions()) == "no result here yet"


def test_a_figure_counts_more_than_a_later_run_without_one(tmp_path):
    write_log(tmp_path, recorded_session())
    short = recorded_session(session_id="short", begin_wall=BEGIN_WALL + 60)
    write_log(tmp_path, without_figure(short))
    found = newest(ALL, list_sessions(tmp_path), HOST)["cifar10-cnn"]
    assert found.header.wall == BEGIN_WALL
