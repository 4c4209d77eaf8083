import math
from dataclasses import replace

import pytest
from fakes.compared import THIS as NO_TIME
from fakes.compared import compared as compare
from fakes.compared import header_of
from fakes.compared import recorded as recorded_run
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.compared_run import SteadyFigure, timing_of_step
from dlmon.comparison.conditions import Conditions
from dlmon.comparison.published import WEIGHT_UPDATE, published, published_metrics
from dlmon.comparison.references import KINDS, ComparisonRow, beside
from dlmon.records import (
    MachineFacts,
    Result,
    RunSeconds,
    SecondsPerEpoch,
    StepTime,
    Throughput,
)
from dlmon.statistics.ratios import Ratio

CIFAR = Conditions("cifar10-cnn", batch_size=100, samples=50_000, epochs=10)
SMALL = Conditions("mnist-mlp-small", batch_size=32, samples=60_000, epochs=10)
FASTTEXT = Conditions("imdb-fasttext", batch_size=32, samples=25_000, epochs=5)
STEP = StepTime(median=15.0, p95=17.0, mean=16.0)
RATE = Throughput(median=4_266.7, mean=4_000.0, standard_error=10.0, jitter=1.0, band=40.0)


def epoch_s(value, projected=False, epochs=3):
    return SecondsPerEpoch(value, value * 0.9, value * 1.1, 0 if projected else epochs, projected)


def run_s(value, projected=False):
    return RunSeconds(value, value, value, projected)


def this_run(value=9.02, timing=None, metric=None, **more):
    timing = timing or epoch_s(value)
    names = {RunSeconds: "run_seconds", SteadyFigure: "step_ms"}
    metric = metric or names.get(type(timing), "seconds_per_epoch")
    return replace(NO_TIME, timings={metric: timing}, **more)


def result(value=12.0, **changes):
    return replace(
        Result(
            status="completed",
            session="earlier",
            log="session.jsonl",
            workload="cifar10-cnn",
            device="cpu",
            options={},
            wall_s=100.0,
            seconds_per_epoch=epoch_s(value),
            step_ms=STEP,
            device_name="AMD Ryzen 7 5800X",
            data="synthetic",
            wall=1_795_185_360.0,
        ),
        **changes,
    )


def one(rows, **wanted):
    (row,) = (r for r in rows if all(getattr(r, name) == wanted[name] for name in wanted))
    return row


def earlier_row(found, conditions=CIFAR, metric="seconds_per_epoch", this=NO_TIME, defaults=CIFAR):
    rows = compare(metric, conditions, defaults, this, [found])
    return one(rows, kind="earlier")


# The table


def factor(this, other, steady):
    found = beside(this, other, steady)
    return found.value if isinstance(found, Ratio) else None


def test_rows_of_the_same_work_stand_fastest_first_and_what_is_not_alike_comes_last():
    rows = compare("seconds_per_epoch", CIFAR, CIFAR, this_run(), [result(12.0)])
    assert [(row.kind, row.value) for row in rows] == [
        ("published", 4),
        ("published", 9),
        ("this", 9.02),
        ("earlier", 12.0),
        ("published", 16),
        ("published", 36),
        ("published", 36),
        ("published", 320),
        ("published", 382),
    ]


# Like with like: published numbers


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        ({"batch_size": 64}, "batch 100, not 64"),
        ({"batch_size": None}, "batch size not known"),
        ({"samples": 10_000}, "50,000 samples, not 10,000"),
        ({"samples": None}, "samples not known"),
        ({"precision": "mixed_float16"}, "float32, not mixed_float16"),
        ({"mode": "inference"}, "mode train, not inference"),
        # What does not change an epoch is no difference.
        *(
            (changes, None)
            for changes in (
                *({"epochs": 2}, {"data": "synthetic"}, {"data": "real"}),
                *({"samples": 49_984}, {"steps_cap": 500}),
            )
        ),
    ],
)
def test_a_published_row_says_what_differs_and_yields_no_factor(changes, badge):
    conditions = replace(CIFAR, **changes)
    rows = compare("seconds_per_epoch", conditions, CIFAR, this_run())
    row = one(rows, label="NVIDIA GeForce GTX 1080 Ti")
    assert row.badges == (() if badge is None else (badge,))
    assert row.comparable is (badge is None)
    ratio = factor(one(rows, kind="this"), row, steady=True)
    assert (ratio is None) is (badge is not None)


def test_an_estimated_vocabulary_is_a_match_for_another_estimate_and_not_for_the_real_one():
    estimated, real = (replace(FASTTEXT, data=data) for data in ("synthetic", "real"))
    rows = compare("seconds_per_epoch", estimated, FASTTEXT, this_run())
    assert one(rows, kind="this").badges == ("vocabulary estimated",)
    assert {row.badges for row in rows if row.kind == "published"} == {
        ("vocabulary of the real data",)
    }
    rows = compare("seconds_per_epoch", real, FASTTEXT, this_run())
    assert {row.badges for row in rows} == {()}
    found = result(workload="imdb-fasttext", data="synthetic")
    for ours, comparable in ((estimated, True), (real, False)):
        row = earlier_row(found, ours, defaults=FASTTEXT)
        assert (row.badges, row.comparable) == (("vocabulary estimated",), comparable)
    for ours in (estimated, FASTTEXT):
        row = earlier_row(replace(found, data=None), ours, defaults=FASTTEXT)
        assert row.badges == ("vocabulary not known",)


# The time of a batch

RESNET = Conditions("resnet50", batch_size=64, samples=None, epochs=None)


def test_a_time_without_the_weight_update_says_that_ours_includes_it():
    conditions = replace(RESNET, batch_size=16)
    this = this_run(timing=timing_of_step(STEP, None))
    rows = compare("step_ms", conditions, RESNET, this)
    others = [row for row in rows if WEIGHT_UPDATE in row.badges and len(row.badges) == 2]
    assert len(others) == 13
    assert {row.published.note for row in others} == {"no weight update; synthetic input"}
    assert not any(row.comparable for row in others)
    assert factor(one(rows, kind="this"), others[0], steady=True) is None


def test_an_earlier_batch_compares_in_the_same_mode_only():
    found = result(workload="resnet50", seconds_per_epoch=None, options={"batch_size": 64})
    row = earlier_row(found, RESNET, "step_ms", defaults=RESNET)
    assert (row.value, row.comparable) == (16.0, True)
    row = earlier_row(found, replace(RESNET, mode="inference"), "step_ms", defaults=RESNET)
    assert row.badges == ("mode train, not inference",)
    assert compare("step_ms", RESNET, RESNET, earlier=[replace(found, step_ms=None)]) == compare(
        "step_ms", RESNET, RESNET
    )
    assert timing_of_step(None, RATE) is None


def test_a_batch_is_compared_by_its_mean_as_published_times_are_with_the_band_of_the_throughput():
    timing = timing_of_step(STEP, RATE)
    assert timing.value == 16.0
    assert (timing.low, timing.high) == (pytest.approx(16 / 1.01), pytest.approx(16 / 0.99))
    assert timing_of_step(STEP, None).low is None
    assert timing_of_step(STEP, replace(RATE, band=None)).high is None
    assert timing_of_step(STEP, replace(RATE, band=5_000.0)).high is None
    # Where a log has no mean, it follows from the throughput.
    old = StepTime(median=15.0, p95=17.0)
    assert timing_of_step(old, RATE).value == pytest.approx(16.0, rel=1e-4)
    assert timing_of_step(old, None) is None
    assert timing_of_step(old, replace(RATE, mean=0.0)) is None


# What it cost


def test_a_published_row_with_a_price_reports_its_cpus_and_what_an_epoch_cost():
    mnist = Conditions("mnist-mlp", batch_size=128, samples=60_000, epochs=20)
    row = one(compare("seconds_per_epoch", mnist, mnist), value=3.501)
    assert row.usd_per_hour == 0.1273
    assert row.cost_usd == pytest.approx(0.1273 * 3.501 / 3600)
    free = one(compare("seconds_per_epoch", CIFAR, CIFAR), label="Intel Core i7-9700K")
    assert (free.usd_per_hour, free.cost_usd) == (None, None)


@pytest.mark.parametrize(
    ("options", "usd_per_hour"),
    [
        ({}, None),
        ({"price": "0.5"}, 0.5),
        ({"price": "0.5/cpu"}, 4.0),
        ({"price": "0.5/cpu", "cpus": 2}, 1.0),
        ({"price": "free", "cpus": True}, None),
        ({"price": 0.5, "cpus": -1}, None),
    ],
)
def test_a_run_of_ours_costs_what_its_price_says(options, usd_per_hour):
    found = result(3600.0, options=options)
    row = earlier_row(recorded_run(found, header_of(found, MachineFacts(cores=8))))
    assert (row.usd_per_hour, row.cost_usd) == (usd_per_hour, usd_per_hour)


# Earlier sessions


def test_an_earlier_session_brings_its_band_device_year_and_id():
    row = earlier_row(result(12.0, options={"backend": "jax"}))
    assert (row.value, row.low, row.high) == (12.0, pytest.approx(10.8), pytest.approx(13.2))
    assert (row.label, row.session, row.year) == ("AMD Ryzen 7 5800X", "earlier", 2025)
    assert row.framework == "JAX"
    assert row.badges == ()
    assert row.comparable


PROJECTED = {"seconds_per_epoch": epoch_s(12.0, projected=True)}


@pytest.mark.parametrize(
    ("changes", "ours", "badges"),
    [
        *(
            ({"options": options}, {}, badges)
            for options, badges in [
                ({}, ()),
                ({"batch_size": None, "epochs": None, "steps": None}, ()),
                ({"batch_size": 100, "precision": "float32", "mode": "train"}, ()),
                ({"device": "cpu", "threads": 2, "data": "auto"}, ()),
                ({"epochs": 1}, ()),
                ({"precision": "mixed_bfloat16"}, ("mixed_bfloat16, not float32",)),
                (
                    {"batch_size": 64, "mode": "inference"},
                    ("batch 64, not 100", "mode inference, not train"),
                ),
                # A cap beyond the end of the epoch is none.
                ({"steps": 500}, ()),
                ({"steps": 499}, ("499 steps per epoch, not all",)),
            ]
        ),
        # The samples are those of the data that it read; a log without them had them all only of
        # synthetic data.
        ({"data": "real", "samples_per_epoch": 20_000}, {}, ("20,000 samples, not 50,000",)),
        ({"data": "real", "samples_per_epoch": 50_000}, {}, ()),
        ({"samples_per_epoch": 20_000}, {"samples": 20_000}, ()),
        ({"data": "real"}, {}, ("samples not known",)),
        # A capped time that is no projection compares with the same cap only.
        ({"options": {"steps": 50}}, {"steps_cap": 50}, ()),
        ({}, {"steps_cap": 50}, ("all steps per epoch, not 50",)),
        # A projection counts once it was steady.
        (
            {"status": "stopped", "step_ms": None, **PROJECTED},
            {},
            ("ended before it was steady", "projected"),
        ),
    ],
)
def test_an_earlier_session_says_what_differs(changes, ours, badges):
    row = earlier_row(result(**changes), replace(CIFAR, **ours), this=this_run())
    assert (row.badges, row.comparable) == (badges, not badges)


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        ({"status": "stopped"}, "projected"),
        ({"options": {"steps": 50}}, "projected from 50 steps per epoch"),
    ],
)
def test_an_earlier_session_compares_by_its_projection_and_says_so(changes, badge):
    row = earlier_row(result(**changes, **PROJECTED))
    assert (row.badges, row.projected, row.comparable) == ((badge,), True, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "cifar10-deep-cnn"},
        {"status": "failed"},
        {"status": "interrupted"},
        {"seconds_per_epoch": None},
        {"session": "this"},
        {"seconds_per_epoch": epoch_s(0.0)},
        {"seconds_per_epoch": epoch_s(-1.0)},
        {"seconds_per_epoch": epoch_s(math.inf)},
        {"seconds_per_epoch": epoch_s(math.nan)},
    ],
)
def test_what_cannot_be_compared_at_all_has_no_row(changes):
    rows = compare("seconds_per_epoch", CIFAR, CIFAR, this_run(), [result(**changes)])
    assert [row for row in rows if row.kind == "earlier"] == []


def test_a_whole_run_that_was_stopped_early_is_no_whole_run():
    found = result(workload="mnist-mlp-small", run_seconds=run_s(3.0), status="stopped")
    row = earlier_row(found, SMALL, "run_seconds", defaults=SMALL)
    assert row.badges == ("stopped early",)
    assert not row.comparable
    found = replace(found, run_seconds=run_s(40.0, projected=True))
    assert earlier_row(found, SMALL, "run_seconds", defaults=SMALL).comparable


# A busy machine


def test_what_speaks_against_a_recorded_result_is_worn_in_place_of_what_its_header_says():
    busy = MachineFacts(cpu_pct=62.0)
    for against in ({"steal": "the host took 4.0 % of the CPUs"}, {}):
        found = result(against=against)
        row = earlier_row(recorded_run(found, header_of(found, busy)))
        assert row.badges == tuple(against.values())


# The factor


def test_a_projection_has_no_factor_before_the_run_is_steady():
    rows = compare("seconds_per_epoch", CIFAR, CIFAR, this_run(timing=epoch_s(2.0, True)))
    this, other = one(rows, kind="this"), one(rows, label="NVIDIA GeForce GTX 1080 Ti")
    assert this.badges == ("projected",)
    assert factor(this, other, steady=False) is None
    assert factor(this, other, steady=True) == pytest.approx(2)


# Whatever comes in

NUMBERS = st.floats() | st.integers(-(2**63), 2**63)
COUNTS = st.none() | st.integers(0, 200)
OPTION = st.none() | st.booleans() | st.integers(-3, 500) | st.text(max_size=3) | st.just("train")
NAMES = ("batch_size", "epochs", "steps", "precision", "mode", "backend")
WORKLOAD = st.sampled_from(["cifar10-cnn", "mnist-mlp-small", "imdb-fasttext", "alexnet", "x.py"])
METRIC = st.sampled_from(["seconds_per_epoch", "run_seconds", "forward_ms", "step_ms"])
EPOCH_S = st.builds(SecondsPerEpoch, NUMBERS, NUMBERS, NUMBERS, st.just(1), st.booleans())
RUN_S = st.builds(RunSeconds, NUMBERS, NUMBERS, NUMBERS, st.booleans())
CONDITIONS = st.builds(
    Conditions,
    *(WORKLOAD, COUNTS, COUNTS, COUNTS, st.sampled_from([None, "float32", "mixed_float16"])),
    st.sampled_from([None, "train", "gradients", "inference"]),
    st.sampled_from([None, "real", "synthetic"]),
    st.none() | st.integers(1, 10),
)
RESULTS = st.builds(
    result,
    status=st.sampled_from(["completed", "stopped", "failed"]),
    session=st.sampled_from(["a", "b", "this"]),
    workload=WORKLOAD,
    options=st.dictionaries(st.sampled_from(NAMES), OPTION),
    seconds_per_epoch=st.none() | EPOCH_S,
    run_seconds=st.none() | RUN_S,
    step_ms=st.none() | st.builds(StepTime, NUMBERS, NUMBERS, st.none() | NUMBERS),
    samples_per_second=st.none()
    | st.builds(Throughput, NUMBERS, NUMBERS, st.none(), NUMBERS, st.none() | NUMBERS),
    wall=st.none() | NUMBERS,
)


@given(
    METRIC,
    CONDITIONS,
    CONDITIONS,
    st.none() | EPOCH_S | RUN_S,
    st.lists(RESULTS, max_size=4),
    st.booleans(),
)
def test_any_comparison_is_sorted_and_honest(metric, conditions, defaults, timing, earlier, steady):
    this = replace(NO_TIME, timings={} if timing is None else {metric: timing})
    rows = compare(metric, conditions, defaults, this, earlier)
    ranks = [(not row.comparable, row.value) for row in rows]
    assert ranks == sorted(ranks)
    assert all(0 < row.value < math.inf for row in rows)
    assert {row.kind for row in rows} <= set(KINDS)
    assert sum(row.kind == "this" for row in rows) <= 1
    beside = published_metrics(metric, conditions.mode)
    expected = [row for row in published(conditions.workload) if row.metric in beside]
    assert sum(row.kind == "published" for row in rows) == len(expected)
    ours = [row for row in rows if row.kind == "this"]
    for row in rows:
        assert row.metric == metric
        assert row.comparable or row.badges
        assert len(set(row.badges)) == len(row.badges)
        for this_row in ours:
            ratio = factor(this_row, row, steady)
            if row is this_row or ratio is None:
                continue
            assert 0 < ratio < math.inf
            assert row.comparable
            assert steady or not this_row.projected
            assert ratio >= 1 if this_row.value <= row.value else ratio <= 1


def row(kind, value, half=0.05, session=None, **more):
    band = {} if half is None else {"low": value - half, "high": value + half}
    label = {"this": "this run", "published": "GTX 1060"}.get(kind, "CPU")
    return ComparisonRow(label, "seconds_per_epoch", kind, value, session=session, **band, **more)
