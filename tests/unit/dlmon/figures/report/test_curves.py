"""What a report draws over time: the throughput in its unit, and the machine."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.scripts import SECOND, script_header, script_session

from dlmon.comparison.compared_run import Curve
from dlmon.figures.report import curves
from dlmon.figures.report.curves import (
    CPU,
    GPU,
    IN_STEPS,
    THROUGHPUT,
    MetricCurves,
    charts_of,
    curves_of,
    metric_charts,
)
from dlmon.records import (
    Batches,
    BatchSummary,
    Cpu,
    Epoch,
    Gpu,
    Machine,
    Metrics,
    Model,
    ProcessTree,
)
from dlmon.session.session import Session
from dlmon.statistics.series import Series


def charts(*sessions):
    """Return the charts of sessions, by their titles."""
    read = []
    for header, *records in sessions:
        read.append(Session(header))
        for record in records:
            read[-1].add(record)
    names = [f"run {number}" for number, _ in enumerate(sessions, 1)]
    return {chart.title: chart for chart in charts_of(read, names)}


def throughput(*sessions):
    found = charts(*sessions)
    return {title: chart for title, chart in found.items() if title.startswith(THROUGHPUT)}


def drawn(chart):
    """Return what is known of the only line of a chart."""
    (line,) = chart.lines
    return [value for value in line.mean if value is not None]


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
    # Processes that train together are summed, in either unit.
    of_two = throughput(script_session(samples=samples, trainers=2))[THROUGHPUT]
    assert (of_two.unit, drawn(of_two)[10]) == (unit, pytest.approx(rate * (1 + 20 / 21), rel=0.02))


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
    assert len(chart.lines[0].mean) == pytest.approx(12 / chart.width_s, abs=2)
    assert drawn(chart)[-3] == pytest.approx(3_200, rel=0.02)


@pytest.mark.parametrize(("cores", "pct"), [((60,) * 64, 390.0 / 64), (None, 390.0 / 4)])
def test_a_run_is_drawn_in_percent_of_all_cores_as_the_machine_is(cores, pct):
    header = recorded_session(cores=4)[0]
    busy = Cpu(60.0, cores=cores)
    reading = Machine(header.t + SECOND, 0.0, cpu=busy, process=ProcessTree(cpu_pct=390.0))
    (chart,) = charts([header, reading]).values()
    assert chart.title == CPU
    means = {line.label: line.mean[0] for line in chart.lines}
    assert means == {"this run": pytest.approx(pct), "machine": 60.0}


def test_among_others_a_session_has_the_gpu_of_its_first_process():
    header, *records = script_session(trainers=2)
    readings = [record for record in recorded_session(gpus=2) if isinstance(record, Machine)]
    records = [
        replace(one, device=f"gpu:{one.trainer or 0}") if isinstance(one, Model) else one
        for one in (*records, *readings)
    ]
    alone = {line.label: line.mean for line in charts([header, *records])[GPU].lines}
    among = [line.mean for line in charts([header, *records], [header, *records])[GPU].lines]
    assert list(alone) == ["GPU 0", "GPU 1"]
    assert among == [alone["GPU 0"]] * 2


@pytest.mark.parametrize("hours", [0.01, 5, 30])
def test_a_report_of_many_sessions_is_not_too_large(hours):
    header = recorded_session()[0]
    session = Session(header)
    for minute in range(int(hours * 60) + 1):
        at_ns = header.t + minute * 60 * SECOND
        session.machine.cpu_pct.add(at_ns, at_ns + 30 * SECOND, minute % 7)
    drawn = charts_of([session] * 16, ["run"] * 16)
    values = sum(3 * len(line.mean) for chart in drawn for line in chart.lines)
    assert 0 < values <= 330_000


TRAINING, VALIDATION = "training", "validation, at the end of each epoch"


def metric_charts_of(*sessions):
    curves = []
    for records in sessions:
        curves.append(MetricCurves(records[0]))
        for record in records[1:]:
            curves[-1].add(record)
    names = [f"run {number}" for number, _ in enumerate(sessions, 1)]
    return {chart.metric: chart for chart in metric_charts(curves, names)}


def losses(records):
    """Return the lines of the loss."""
    charts = metric_charts_of(records)
    return {line.label: line for line in charts["loss"].lines} if charts else {}


def without_metrics():
    return [record for record in recorded_session() if not isinstance(record, Metrics)]


def test_each_metric_has_a_chart_with_its_validation_at_the_end_of_its_epoch():
    records = recorded_session()
    charts = metric_charts_of(records)
    assert list(charts) == ["loss", "accuracy"]
    for chart in charts.values():
        assert [line.label for line in chart.lines] == [TRAINING, VALIDATION]
    drawn = losses(records)
    assert drawn[TRAINING].mean[0] > 2
    assert drawn[TRAINING].mean[-1] < 0.7
    assert [round(mean, 4) for mean in drawn[VALIDATION].mean] == [1.8, 0.9, 0.6]
    epochs = [r for r in records if isinstance(r, Epoch)]
    ends = [(one.end - records[0].t) / 1e9 for one in epochs]
    assert drawn[VALIDATION].xs == pytest.approx(ends)
    # An older log draws those of training at the ends of it.
    ends = [(one.train_end - records[0].t) / 1e9 for one in epochs]
    assert losses(without_metrics())[TRAINING].xs == pytest.approx(ends)


def test_each_epoch_has_a_value_however_short_it_is_and_however_often_it_is_written():
    header, *records = without_metrics()
    epochs = [r for r in records if isinstance(r, Epoch)]
    short = []
    for number in range(20):
        begin = header.t + number * SECOND * 6 // 10
        ends = {"train_end": begin + SECOND * 4 // 10, "end": begin + SECOND * 5 // 10}
        short.append(replace(epochs[0], epoch=number, begin=begin, validation=None, **ends))
    assert [len(line.mean) for line in losses([header, *short]).values()] == [20, 20]
    first = replace(short[0], metrics={"loss": 2.0})
    again = replace(epochs[0], metrics={"loss": 2.0, "val_loss": 1.5})
    drawn = losses([header, replace(epochs[0], metrics=first.metrics, validation=None), again])
    assert [line.mean for line in drawn.values()] == [(2.0,), (1.5,)]


def test_the_validation_of_a_session_among_several_has_its_colour():
    lines = metric_charts_of(recorded_session(), recorded_session())["loss"].lines
    assert [line.label for line in lines] == [
        "run 1", "run 1, validation", "run 2", "run 2, validation",
    ]  # fmt: skip
    assert [line.session for line in lines] == [0, 0, 1, 1]


def test_of_very_many_values_each_point_has_the_mean_and_the_extremes_of_neighbours():
    header = recorded_session()[0]
    values = [float(number % 7) for number in range(5000)]
    records = [Metrics(t=header.t + n * 10**9, values={"loss": v}) for n, v in enumerate(values)]
    line = losses([header, *records])[TRAINING]
    assert len(line.xs) <= 600
    assert line.mean[0] == pytest.approx(sum(values[:16]) / 16)
    assert (line.xs[0], line.low[0], line.high[0]) == (7.5, 0.0, 6.0)
    # One that is no number is a gap.
    points = losses(recorded_session("training", ended=2, nan_loss=True))[TRAINING].mean
    assert None in points
    assert all(mean is None or mean > 0 for mean in points)


def of_peak(**changes):
    """Return the curves of a script whose network takes so many operations for a token."""
    known = {"flops_per_token": 1e6, "sequence": 64, "peak_flop_s": 1e12, "peak_from": "measured"}
    records = [
        replace(record, **{**known, **changes}) if isinstance(record, Model) else record
        for record in script_session(tokens=64)
    ]
    return curves_of(folded(records), 0)


def test_the_share_of_the_peak_is_a_curve_that_follows_the_tokens():
    curves = of_peak()
    share, in_tokens = curves["share of the peak"], curves["tokens"]
    assert share.unit == "%"
    # 64 samples of 64 tokens in 20 ms.
    assert share.factor * share.series.mean == pytest.approx(100 * 204_800 * 1e6 / 1e12, rel=0.01)
    assert share.series.sums == in_tokens.series.sums


@pytest.mark.parametrize("unknown", [{"peak_flop_s": None}, {"flops_per_token": None}])
def test_a_share_of_the_peak_that_is_not_known_is_no_curve(unknown):
    assert "share of the peak" not in of_peak(**unknown)


def test_of_samples_whose_operations_are_counted_the_share_follows_the_samples():
    curves = of_peak(flops_per_sample=1e8, flops_per_token=None)
    assert curves["share of the peak"].series.sums == curves["throughput"].series.sums


def test_a_curve_of_the_machine_ends_with_the_last_reading_or_why_there_is_none():
    records = recorded_session("training")
    *_, last = (record for record in records if isinstance(record, Machine))
    gpu = Gpu(0, 3, sm_mhz=1, why={"power_w": "denied"})
    read = curves_of(folded([*records, replace(last, t=last.t + SECOND, gpus=(gpu,))]), 0)
    ends = {name: (read[f"GPU 0{name}"].newest, read[f"GPU 0{name}"].why) for name in ENDS}
    # Not the mean of the last seconds.
    assert ends == ENDS
    assert read["CPU"].newest == last.cpu.pct


ENDS = {
    "": (3, ""),
    " clock": (1, ""),
    " power": (None, "denied"),
}


def test_what_dlmon_reads_itself_has_a_name_in_words_and_a_metric_of_the_script_its_own():
    header, *records = recorded_session("training")
    metrics = {"learning_rate": 0.1, "grad_norm": 2.0, "my_score": 3.0}
    charts = metric_charts_of([header, *records, Metrics(header.t + 10 * SECOND, metrics)])
    titles = {name: chart.title for name, chart in charts.items()}
    assert [titles[name] for name in metrics] == ["Learning rate", "Gradient norm", "My_score"]


# ---- other axes than time ----


def test_progress_counts_steps_tokens_and_epochs_and_finds_their_times_again():
    session = folded(script_session(seconds=20, samples=64, step_ms=20, tokens=128))
    steps, tokens = (curves.progress_of(session, x) for x in (curves.STEPS, curves.TOKENS))
    assert steps.counts[-1] == pytest.approx(session.loops.longest.steady.batches)
    assert tokens.counts[-1] / steps.counts[-1] == pytest.approx(64 * 128, rel=0.02)
    half_ns = steps.time_of(steps.counts[-1] / 2)
    assert steps.count_at(half_ns) == pytest.approx(steps.counts[-1] / 2)
    epochs = curves.progress_of(session, curves.EPOCHS)
    ended = list(session.loops.longest.epochs.values())
    assert epochs.count_at(ended[2].end) == 3
    # Nothing is done before the first and after the last.
    assert (epochs.count_at(0), epochs.count_at(1e30)) == (0, len(ended))


@pytest.mark.parametrize("x_axis", [curves.STEPS, curves.EPOCHS, curves.TOKENS])
def test_a_run_that_did_not_train_has_no_progress(x_axis):
    assert curves.progress_of(folded(script_session(seconds=0)), x_axis) is None


def test_a_curve_along_steps_has_the_value_of_the_time_of_each_step():
    series = Series()
    for second in range(10):
        series.add(second * 10**9, (second + 1) * 10**9, float(second))
    # Half of all steps in the first of ten seconds.
    progress = curves.Progress([0, 1e9, 10e9], [0, 50, 100])
    along = curves.along(Curve(series, 0, validations=[(10**9, 0.5)]), progress, 1e6)
    means = along.series.columns(0, 25_000_000, 5)
    assert means[:2] == [0.0, 0.0]
    assert means[2:4] == pytest.approx([3.0, 7.5], abs=0.6)
    # There are no more steps.
    assert means[4] is None
    assert along.validations == [(50_000_000, 0.5)]


# ---- the names of runs in a legend ----


def header(**changes):
    words = changes.pop("command", "python train.py --lr 0.1").split()
    return replace(script_header(), command=tuple(words), workload="train.py", **changes)


def test_runs_are_named_by_what_differs():
    first = header(command="python train.py --lr 0.1 --width 64 --seed 1", git_commit="a" * 40)
    second = header(command="python train.py --lr 0.2 --width 64 --fast", git_commit="b" * 40)
    assert curves.names_by_difference([first, second], [None, "new"]) == [
        "--lr 0.1, --seed 1, aaaaaaa",
        "new",
    ]
    assert (
        curves.names_by_difference([first, second], [None, None])[1] == "--lr 0.2, --fast, bbbbbbb"
    )
    fast = header(command="python train.py --fast")
    assert curves.names_by_difference([header(command="python train.py"), fast], [None, None]) == [
        "without --fast",
        "--fast",
    ]
    hosts = [header(host=host) for host in ("gpu1", "gpu2")]
    assert curves.names_by_difference(hosts, [None, None]) == ["gpu1", "gpu2"]


def test_repeats_of_one_run_are_named_by_their_ids_and_keys_are_left_out():
    other = replace(header(command="python -u other.py --deep"), workload="other.py")
    both = [header(command="python -u train.py"), other]
    assert curves.names_by_difference(both, [None, None]) == ["train.py", "other.py, --deep"]
    runs = [
        header(id=f"run-{key}", command=f"python train.py --api-key {key}") for key in ("aa", "bb")
    ]
    assert curves.names_by_difference(runs, [None, None]) == ["run-aa", "run-bb"]
    assert curves.names_by_difference(runs, ["same", "same"]) == ["run-aa", "run-bb"]
