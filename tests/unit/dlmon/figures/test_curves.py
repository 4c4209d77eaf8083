"""What a report draws over time: the throughput in its unit, and the machine."""

from dataclasses import replace

import pytest
from fakes.recorded import recorded_session
from fakes.scripts import SECOND, script_session
from hypothesis import given
from hypothesis import strategies as st

from dlmon.figures.curves import CPU, GPU, IN_STEPS, THROUGHPUT, SessionCurves, charts_of
from dlmon.records import Batches, BatchSummary, Cpu, Machine, Model, ProcessTree
from dlmon.statistics.envelope import Envelope


def throughput(*sessions):
    """Return the charts of the throughput of sessions, by their titles."""
    curves = []
    for header, *records in sessions:
        curves.append(SessionCurves(header))
        for record in records:
            curves[-1].fold(record)
    names = [f"run {number}" for number, _ in enumerate(sessions, 1)]
    charts = charts_of(curves, names)
    return {chart.title: chart for chart in charts if chart.title.startswith(THROUGHPUT)}


def drawn(chart):
    """Return what is known of the only line of a chart."""
    (line,) = chart.lines
    return [value for value in line.columns.mean if value is not None]


def in_one(batches):
    """Return what batches come to as a summary."""
    count, took_us = len(batches.dt_us), sum(batches.dt_us)
    samples = None if batches.samples is None else batches.samples * count
    end = batches.t + (took_us - batches.dt_us[0]) * 1000
    quantiles = (batches.dt_us[0],) * 7
    return BatchSummary(
        batches.epoch, batches.first, count, samples, batches.t, end, took_us, quantiles
    )


def summed(records):
    return [in_one(record) if isinstance(record, Batches) else record for record in records]


@pytest.mark.parametrize("written", [list, summed])
@pytest.mark.parametrize(
    ("samples", "unit", "rate"), [(64, "samples/s", 3_200), (None, "steps/s", 50)]
)
def test_the_throughput_has_its_unit(written, samples, unit, rate):
    charts = throughput(written(script_session(samples=samples)))
    assert list(charts) == [THROUGHPUT]
    assert charts[THROUGHPUT].unit == unit
    rates = drawn(charts[THROUGHPUT])[2:-2]
    assert (min(rates), max(rates)) == pytest.approx((rate, rate), rel=0.02)


def test_processes_that_train_together_are_summed_in_steps_too():
    chart = throughput(script_session(samples=None, trainers=2))[THROUGHPUT]
    assert chart.unit == "steps/s"
    assert drawn(chart)[10] == pytest.approx(50 + 1000 / 21, rel=0.02)


def test_steps_and_samples_do_not_share_an_axis():
    charts = throughput(recorded_session(), script_session(samples=None), recorded_session())
    assert [(title, chart.unit) for title, chart in charts.items()] == [
        (THROUGHPUT, "samples/s"),
        (IN_STEPS, "steps/s"),
    ]
    labels = [[line.label for line in chart.lines] for chart in charts.values()]
    assert labels == [["run 1", "run 3"], ["run 2"]]
    assert max(drawn(charts[IN_STEPS])) == pytest.approx(50, rel=0.02)
    both = throughput(script_session(samples=None), script_session(samples=None))
    assert [(title, chart.unit) for title, chart in both.items()] == [(THROUGHPUT, "steps/s")]


def test_batches_whose_size_is_not_known_are_a_gap_among_others():
    header, *records = script_session()
    middle = header.t + 12 * SECOND
    unknown = [
        replace(each, samples=None) if isinstance(each, Batches) and each.t > middle else each
        for each in records
    ]
    chart = throughput([header, *unknown])[THROUGHPUT]
    assert chart.unit == "samples/s"
    assert len(chart.lines[0].columns.mean) == pytest.approx(12 / chart.width_s, abs=2)
    assert drawn(chart)[-3] == pytest.approx(3_200, rel=0.02)


def test_a_run_that_may_use_some_of_the_cores_is_drawn_in_percent_of_all_as_the_machine_is():
    header = recorded_session(cores=4)[0]
    curves = SessionCurves(header)
    busy = Cpu(60.0, cores=(60,) * 64)
    curves.fold(Machine(header.t + SECOND, 0.0, cpu=busy, process=ProcessTree(cpu_pct=390.0)))
    (chart,) = charts_of([curves], ["run"])
    assert chart.title == CPU
    means = {line.label: line.columns.mean[0] for line in chart.lines}
    assert means == {"this run": pytest.approx(6.1, abs=0.01), "machine": 60.0}


def test_where_the_cores_are_not_read_a_run_is_drawn_in_percent_of_those_it_may_use():
    header = recorded_session(cores=4)[0]
    curves = SessionCurves(header)
    curves.fold(Machine(header.t + SECOND, 0.0, process=ProcessTree(cpu_pct=200.0)))
    (chart,) = charts_of([curves], ["run"])
    assert drawn(chart)[0] == 50.0


def test_among_others_a_session_has_the_gpu_of_its_first_process():
    header, *records = script_session(trainers=2)
    readings = [record for record in recorded_session(gpus=2) if isinstance(record, Machine)]
    curves = SessionCurves(header)
    for record in [*records, *readings]:
        if isinstance(record, Model):
            record = replace(record, device=f"gpu:{record.trainer or 0}")
        curves.fold(record)
    assert curves.overlaid()[GPU] is curves.lines[GPU, "GPU 0"]


LONGEST_NS = 100 * 24 * 3600 * SECOND
MOST_VALUES = 330_000


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(1, LONGEST_NS)), max_size=16),
    st.integers(0, 10**9),
)
def test_a_report_has_room_for_charts_whatever_else_it_holds(sessions, values_beside):
    header = recorded_session()[0]
    curves = []
    for ends_ns in sessions:
        curves.append(SessionCurves(header))
        for chart, end_ns in ends_ns.items():
            line = curves[-1].lines[chart, "machine" if chart == CPU else "GPU 0"] = Envelope(0)
            line.add(end_ns - 1, end_ns, 1.0)
    charts = charts_of(curves, ["run"] * len(curves), values_beside)
    lines = [line for chart in charts for line in chart.lines]
    assert len(lines) == sum(map(len, sessions))
    assert sum(3 * len(line.columns.mean) for line in lines) <= MOST_VALUES
