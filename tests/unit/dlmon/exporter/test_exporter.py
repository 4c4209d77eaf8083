"""What a scraper gets of sessions and of their machines, whatever stands in their logs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fakes.exported import exporter_of, full_machine, training
from fakes.recorded import recorded_session, write_log
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dlmon.exporter.exporter import LONGEST_LABEL, MOST_SERIES, Exporter
from dlmon.log.label import Label, write_label
from dlmon.quantities import value_of
from dlmon.records import Machine, Metrics, Node

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def families_of(exporter):
    body, content_type = exporter.answer(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def values_of(families, name):
    """Return the values of a metric by the values of its labels, of which a session's come last."""
    order = ("rank", "gpu", "metric", "of", "use", "workload", "host", "name", "session")
    return {
        tuple(sample.labels[label] for label in order if label in sample.labels): sample.value
        for sample in families[name].samples
    }


def test_figures_are_those_of_the_session_in_base_units(tmp_path):
    exporter = exporter_of(tmp_path, training("one"), training("two"))
    follower, _ = exporter.sessions.followers
    write_label(follower.path, Label("baseline"))
    families, snapshot = families_of(exporter), follower.snapshot()
    host = snapshot.header.host
    for name, value in (
        ("samples_per_second", snapshot.samples_per_second_now.per_second),
        ("step_median_seconds", snapshot.step_ms.median / 1000),
        ("epoch_seconds", value_of(snapshot, "seconds_per_epoch")),
        ("steps", snapshot.batches),
        ("epochs", len(snapshot.epochs)),
        ("stalls", snapshot.stalls),
    ):
        values = values_of(families, f"dlmon_{name}")
        assert values[host, "baseline", "one"] == pytest.approx(value), name
        assert values[host, "", "two"] == pytest.approx(value), name
    (age,) = {
        snapshot.wall - value
        for value in values_of(families, "dlmon_last_step_timestamp_seconds").values()
    }
    assert -0.001 <= age < 1
    spent = values_of(families, "dlmon_time_seconds")
    assert spent["training", host, "baseline", "one"] == snapshot.time_breakdown["training"]


def test_readings_are_in_base_units_by_uuid_and_once_for_all_sessions_of_a_machine(tmp_path):
    exporter = exporter_of(tmp_path, training("one", gpus=8), training("two", gpus=8))
    families = families_of(exporter)
    host = exporter.sessions.followers[0].session.header.host
    used = values_of(families, "dlmon_gpu_memory_used_bytes")
    assert used == {(f"GPU-{index}", host): 50 * 2**20 for index in range(8)}
    for name, value in (
        ("gpu_utilization_ratio", 0.5),
        ("gpu_sm_hertz", 50e6),
        ("gpu_power_watts", 50),
        ("gpu_temperature_celsius", 50),
        ("gpu_energy_joules", 50),
        ("gpu_nvlink_send_bytes_per_second", 50 * 2**20),
        ("gpu_lost", 0),
    ):
        assert values_of(families, f"dlmon_{name}")["GPU-7", host] == value, name
    assert values_of(families, "dlmon_cpu_utilization_ratio") == {(host,): 0.5}
    of_sessions = values_of(families, "dlmon_session_gpu")
    assert of_sessions == {("GPU-0", host, "", name): 1 for name in ("one", "two")}
    assert families["dlmon_gpu_energy_joules"].type == "counter"
    assert families["dlmon_gpu_energy_joules"].unit == "joules"
    assert families["dlmon_gpu_power_watts"].documentation == "Power draw."


def test_the_other_machines_of_a_run_have_their_own_names(tmp_path):
    header, *records = training("one")
    last = next(record for record in reversed(records) if isinstance(record, Machine))
    node = Node(last.t, "node-2", full_machine(last.t, last.wall, 1), header.machine)
    families = families_of(exporter_of(tmp_path, [header, *records, node]))
    assert set(values_of(families, "dlmon_gpu_power_watts")) == {
        ("GPU-0", header.host),
        ("GPU-0", "node-2"),
    }


def test_an_old_reading_is_left_out_and_the_session_stays(tmp_path):
    header, *records = training("one")
    last = next(record for record in reversed(records) if isinstance(record, Machine))
    later = Metrics(last.t + 60 * 10**9, {"loss": 1.0})
    families = families_of(exporter_of(tmp_path, [header, *records, later]))
    assert "dlmon_gpu_power_watts" not in families
    assert values_of(families, "dlmon_step_overdue_seconds")["tower", "", "one"] > 50


def test_hostile_names_stay_in_their_labels(tmp_path):
    names = ('a"} 1\n# EOF\nb{c="', "\x1b[31mred\\n", "x" * 2**20, "漢字", "\ud800")
    header, *records = training("one")
    last = next(record for record in reversed(records) if isinstance(record, Machine))
    hostile = Metrics(last.t, dict.fromkeys(names, 1.0))
    header = replace(header, workload=names[0])
    exporter = exporter_of(tmp_path, [header, *records, hostile])
    families = families_of(exporter)
    of_training = values_of(families, "dlmon_training_metric")
    labels = {metric for metric, of, *_ in of_training if of == "training"}
    assert {'a"} 1# EOFb{c="', "red\\n", "漢字"} <= labels
    assert max(map(len, labels)) <= LONGEST_LABEL
    (workload,) = values_of(families, "dlmon_session")
    assert workload[0] == 'a"} 1# EOFb{c="'
    plain, content_type = exporter.answer("")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert all(
        re.match(r"# |dlmon_\w+(\{.*\})? \S+$", line) for line in plain.decode().splitlines()
    )


def test_of_ten_thousand_names_as_many_are_served_as_there_is_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr("dlmon.session.learning.MOST_METRICS", 20_000)
    exporter = exporter_of(tmp_path, training("one", names=10_000), training("two"))
    for scrapes in (1, 2):
        families = families_of(exporter)
        of_one = [
            sample
            for family in families.values()
            for sample in family.samples
            if sample.labels.get("session") == "one" and family.name != "dlmon_dropped_series"
        ]
        assert MOST_SERIES - 100 < len(of_one) <= MOST_SERIES
        dropped = values_of(families, "dlmon_dropped_series")
        assert dropped[("one",)] > scrapes * 8_000
        assert dropped[("two",)] == 0
        assert ("tower", "", "two") in values_of(families, "dlmon_steps")


def test_gpus_with_one_uuid_make_one_series(tmp_path):
    header, *records = training("one", gpus=2)
    gpus = tuple(replace(gpu, uuid="GPU-0") for gpu in header.machine.gpus)
    header = replace(header, machine=replace(header.machine, gpus=gpus))
    families = families_of(exporter_of(tmp_path, [header, *records]))
    assert values_of(families, "dlmon_gpu_power_watts") == {("GPU-0", "tower"): 50}
    assert values_of(families, "dlmon_dropped_series")[("one",)] > 20


def test_ends_are_counted_by_their_status_and_a_removed_log_is_interrupted(tmp_path):
    exporter = Exporter(tmp_path)
    logs = [
        write_log(tmp_path, recorded_session(session_id=n, status=n))
        for n in ("failed", "completed")
    ]
    gone = tmp_path / "gone" / "session.jsonl"
    exporter.count_ends([*logs, gone])
    ended = families_of(exporter)["dlmon_sessions_ended"].samples
    counts = {sample.labels["status"]: sample.value for sample in ended}
    assert counts == {"completed": 1, "failed": 1, "stopped": 0, "interrupted": 1}
