import contextlib
import json
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.scripts import script_session
from fakes.strategies import ANY_RECORDS, header
from hypothesis import given, settings

from dlmon.comparison.sides import THROUGHPUT, NotComparable
from dlmon.figures.comparison.side_rows import describe_sides, sides_json
from dlmon.log.directory import read_entry
from dlmon.records import Epoch, Metrics, Model, Result, SessionHeader, Status
from dlmon.session.run_figures import compare_logs, figures_of_entry, read_figures
from dlmon.system.this_host import boot_id, host_name


def log_of(tmp_path, name="a", records=None, **options):
    records = records or recorded_session(session_id=name, **options)
    return write_log(tmp_path, records, name)


def with_data(records, data):
    return [replace(r, data=data) if isinstance(r, (Model, Result)) else r for r in records]


def test_what_was_learned_of_real_data_is_compared_and_of_random_ones_not(tmp_path):
    records = with_data(recorded_session(), "real")
    *_, last = (number for number, record in enumerate(records) if isinstance(record, Epoch))
    real = read_figures(log_of(tmp_path, "real", records))
    values = {name: value for name, value in real.values.items() if name.startswith("metric.")}
    assert values == {f"metric.{name}": value for name, value in records[last].metrics.items()}
    assert "metric.loss" in values
    drawn = read_figures(log_of(tmp_path, "drawn", with_data(records, "synthetic")))
    assert not any(name.startswith("metric.") for name in drawn.values)
    # What is no number is named, and one below zero kept.
    metrics, why = {"loss": None, "reward": -2.5}, {"loss": "NaN"}
    records[last] = replace(records[last], metrics=metrics, why=why)
    run = read_figures(log_of(tmp_path, "nan", records))
    assert run.not_numbers == {"loss": "NaN"}
    assert run.values["metric.reward"] == -2.5
    assert "metric.loss" not in run.values


def test_a_metric_that_was_only_read_as_it_trained_is_of_no_epoch(tmp_path):
    records = with_data(recorded_session(), "real")
    assert read_figures(log_of(tmp_path, "said", records)).read_once == frozenset()
    bare = [replace(r, metrics={}) if isinstance(r, Epoch) else r for r in records]
    end = [record for record in records if isinstance(record, Epoch)][-1].train_end
    *rest, result = bare
    run = read_figures(log_of(tmp_path, "read", [*rest, Metrics(end, {"loss": 0.3}), result]))
    assert run.values["metric.loss"] == 0.3
    assert "loss" in run.read_once


def test_the_curve_is_of_steady_training(tmp_path):
    run = read_figures(log_of(tmp_path))
    length_ns = run.curve.end_ns - run.curve.start_ns
    assert length_ns > 20e9
    columns = run.curve.series.columns(run.curve.start_ns, length_ns // 10, 10)
    assert sum(columns[1:5]) / 4 == pytest.approx(run.values[THROUGHPUT], rel=0.2)


def test_a_script_whose_batches_have_no_known_size_counts_steps(tmp_path):
    *_, result = recorded_session()
    records = script_session(samples=None, result=replace(result, counts_steps=True))
    log = log_of(tmp_path, "steps", records)
    run = read_figures(log)
    assert run.throughput_unit == run.curve.unit == "steps/s"
    assert run.values[THROUGHPUT] == pytest.approx(50)
    assert figures_of_entry(read_entry(log)).throughput_unit == "steps/s"
    of_samples = read_figures(log_of(tmp_path, "samples", script_session()))
    assert of_samples.throughput_unit == of_samples.curve.unit == "samples/s"


def test_the_price_of_an_epoch_follows_from_its_time(tmp_path):
    header, *rest = recorded_session()
    header = replace(header, options={**header.options, "price": "3.6"})
    values = read_figures(log_of(tmp_path, records=[header, *rest])).values
    assert values["cost_usd_per_epoch"] == pytest.approx(values["seconds_per_epoch"] / 1000)


def keras_script_on(tmp_path, backend):
    """Return the log of a script whose Keras was seen to run on a backend."""
    records = []
    for record in recorded_session(session_id=backend):
        if isinstance(record, SessionHeader):
            record = replace(record, command=("python", "train.py"), options={}, versions={})
        elif isinstance(record, Model):
            record = replace(record, backend=backend, backend_version="1.2")
        elif isinstance(record, Result):
            record = replace(record, options={"backend": backend})
        records.append(record)
    return log_of(tmp_path, backend, records)


def test_two_runs_of_a_script_differ_in_what_its_keras_ran_on(tmp_path):
    base, new = (keras_script_on(tmp_path, backend) for backend in ("jax", "torch"))
    compared = compare_logs([base], [new])
    options = {one.name: (one.base, one.new) for one in compared.options}
    assert options["backend"] == ("jax", "torch")
    environment = {one.name: (one.base, one.new) for one in compared.environment}
    assert environment["version of jax"] == ("1.2", "–")
    # Without the log it is known too: a run on another backend is no repeat.
    assert figures_of_entry(read_entry(new)).options == read_figures(new).options


def test_a_run_that_ended_before_it_trained_says_so_and_not_that_it_was_too_short(tmp_path):
    begun, *records = recorded_session(reached="compiling")
    here = replace(begun, host=host_name(), boot_id=boot_id())
    run = read_figures(log_of(tmp_path, records=[here, *records]))
    assert run.status is Status.INTERRUPTED
    assert THROUGHPUT not in run.values
    assert run.lacking["samples_per_second"] == "no training was recorded"
    assert (run.throughput_error, run.curve) == (None, None)


def test_an_entry_gives_the_same_without_its_log(tmp_path):
    log = log_of(tmp_path)
    whole, brief = read_figures(log), figures_of_entry(read_entry(log))
    assert whole.values["seconds_per_epoch"] == pytest.approx(9.16, abs=0.01)
    assert 50 < whole.values["gpu_pct"] <= 100
    assert brief.values[THROUGHPUT] == pytest.approx(whole.values[THROUGHPUT])
    assert (brief.device, brief.samples) == (whole.device, whole.samples) == ("gpu:0", 50_000)
    assert (whole.batch_size, whole.precision, whole.mode) == (100, "float32", "train")
    assert (whole.status, whole.is_projected) == (Status.COMPLETED, False)
    unended = log_of(tmp_path, "b", reached="training", gpus=0)
    assert figures_of_entry(read_entry(unended)).values == {}
    assert "gpu_pct" not in read_figures(unended).values


def test_other_sessions_of_the_directory_say_how_runs_differ(tmp_path):
    logs = [log_of(tmp_path, name, step_us=us) for name, us in (("a", 18_000), ("b", 20_000))]
    alone = compare_logs(logs[:1], logs[1:])
    assert alone.throughput.ratio.p is None
    for name, step_us in (("c", 18_010), ("d", 17_990), ("e", 18_020)):
        log_of(tmp_path, name, step_us=step_us)
    log_of(tmp_path, "f", status="failed")
    assert compare_logs(logs[:1], logs[1:]).throughput.ratio.is_significant


@pytest.mark.slow
@settings(max_examples=40)
@given(ANY_RECORDS, ANY_RECORDS)
def test_whatever_two_logs_hold_they_are_compared_or_refused(tmp_path_factory, first, second):
    log_dir = tmp_path_factory.mktemp("logs")
    logs = [
        write_log(log_dir, [header(id=name), *records], name)
        for name, records in (("a", first), ("b", second))
    ]
    with contextlib.suppress(NotComparable):
        compared = compare_logs(logs[:1], logs[1:])
        assert compared.throughput.runs == (1, 1)
        list(describe_sides(compared))
        json.dumps(sides_json(compared), allow_nan=False)
