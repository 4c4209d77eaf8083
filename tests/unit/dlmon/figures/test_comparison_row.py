"""All that is known of one row of a comparison."""

from dataclasses import replace

from fakes.compared import compared as compare

from dlmon.comparison.compare import ComparisonRow
from dlmon.comparison.conditions import Conditions
from dlmon.figures.comparison_row import row_details
from dlmon.records import Result


def row_of(conditions, value):
    rows = compare("step_ms", conditions, conditions)
    return next(row for row in rows if row.value == value)


def test_a_published_row_shows_its_device_its_share_of_the_peak_and_its_sources():
    alone = Conditions("resnet50", 64, None, None)
    details = dict(row_details(row_of(alone, 292.2)))
    assert details["time"] == "292 ms per batch, batch 64"
    assert details["measured"] == "TensorFlow May-2017 tf_cnn_benchmarks, 2017"
    assert details["of its peak"] == "47 %"
    assert details["device"] == (
        "3,584 cores, 1,328 to 1,480 MHz, 16 GB HBM2, 732 GB/s, 10.6 TFLOP/s float32"
    )
    assert details["source"] == "tensorflow/docs r1 guide/performance/benchmarks.md"
    assert details["device by"].startswith("NVIDIA Tesla P100 data sheet")
    assert "differs" not in details


def test_what_an_article_prints_of_a_device_stands_beside_what_its_maker_states():
    row = row_of(Conditions("vgg-a", 64, None, None), 420.28)
    device = dict(row_details(row))["device"]
    assert "8.87 TFLOP/s float32, the article prints 6.1, 599 USD then" in device


def test_all_differences_are_in_the_details():
    ours = Conditions("resnet50", 7, None, None, precision="mixed_float16")
    details = dict(row_details(row_of(ours, 292.2)))
    assert details["differs"] == "batch 64, not 7; float32, not mixed_float16"


def test_what_a_comparable_row_should_be_known_for_is_no_difference():
    row = row_of(Conditions("resnet50", 16, None, None, mode="inference"), 34.14)
    details = dict(row_details(row))
    assert details["to know"] == "6 % more operations (stride in the 3×3); forward in training mode"
    assert "differs" not in details


def test_an_unknown_peak_says_why():
    row = compare("seconds_per_epoch", *[Conditions("cifar10-cnn", 100, 50_000, 10)] * 2)[1]
    assert row.label == "NVIDIA GeForce GTX 1060"
    assert dict(row_details(row))["of its peak"].startswith("– (sold with 3 GB and 1,152 cores")


def test_a_run_of_ours_shows_its_band_and_its_own_speed():
    row = ComparisonRow(
        "this run", "seconds_per_epoch", "this", 9.0, low=8.5, high=9.5, framework="JAX"
    )
    result = Result("completed", "a", "log", "cifar10-cnn", "cpu", {}, 1.0)
    result = replace(result, effective_flop_s=1.25e12, peak_share=0.344)
    assert row_details(row, result) == [
        ("time", "9.00 s per epoch (8.50 to 9.50 s)"),
        ("measured", "JAX"),
        ("speed", "1.25 TFLOP/s, 34 % of peak"),
    ]
    assert row_details(replace(row, low=None, high=None))[0] == ("time", "9.00 s per epoch")
