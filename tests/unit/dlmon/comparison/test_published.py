import csv
import math
from collections import Counter
from dataclasses import replace
from importlib import resources

import pytest
from fakes.compared import compared as compare

from dlmon.comparison.conditions import Conditions
from dlmon.comparison.published import (
    FEWER_OPERATIONS,
    MORE_OPERATIONS_PCT,
    Published,
    find_device,
    published,
)
from dlmon.figures.comparison_row import operations, peak_share
from workloads.architectures import resnet
from workloads.catalog import WORKLOADS as CATALOG
from workloads.catalog import refuse_options
from workloads.layers import Branches, count

ROWS = tuple(row for name in CATALOG for row in published(name))
TABLE = resources.files("dlmon.comparison").joinpath("devices.csv")

WORKLOADS = (
    *("cifar10-cnn", "cifar10-deep-cnn", "mnist-mlp-small", "mnist-mlp-wide", "mnist-mlp"),
    *("mnist-cnn", "imdb-fasttext", "imdb-bilstm", "nietzsche-lstm"),
    *("alexnet", "overfeat", "vgg-a", "vgg16", "googlenet", "resnet50", "resnet101", "resnet152"),
)
EVERY = tuple(row for workload in WORKLOADS for row in published(workload))


def only(workload, **wanted):
    (row,) = (
        row
        for row in published(workload)
        if all(getattr(row, name) == value for name, value in wanted.items())
    )
    return row


def test_all_290_rows_are_there_and_each_is_read_once():
    assert len(EVERY) == 290
    assert published("cifar10-cnn") is published("cifar10-cnn")


def test_an_unknown_workload_has_none():
    assert published("my-script.py") == ()
    assert published("") == ()


def test_metrics_are_known_and_counted():
    assert Counter(row.metric for row in EVERY) == {
        "seconds_per_epoch": 73,
        "run_seconds": 4,
        "forward_ms": 101,
        "forward_backward_ms": 103,
        "train_step_ms": 9,
    }


@pytest.mark.parametrize(
    ("workload", "metric", "rows"),
    [
        ("cifar10-cnn", "seconds_per_epoch", 7),
        ("mnist-mlp-small", "run_seconds", 2),
        ("mnist-mlp-wide", "run_seconds", 2),
        ("mnist-mlp", "seconds_per_epoch", 11),
        ("mnist-cnn", "seconds_per_epoch", 11),
        ("cifar10-deep-cnn", "seconds_per_epoch", 11),
        ("imdb-fasttext", "seconds_per_epoch", 11),
        ("imdb-bilstm", "seconds_per_epoch", 11),
        ("nietzsche-lstm", "seconds_per_epoch", 11),
    ],
)
def test_a_workload_trained_by_epochs_has_one_metric(workload, metric, rows):
    assert [row.metric for row in published(workload)] == [metric] * rows


def test_every_row_is_whole():
    for row in EVERY:
        assert isinstance(row, Published)
        assert 0 < row.value < math.inf, row
        assert row.batch_size in (16, 32, 64, 100, 128), row
        assert row.device_kind in ("cpu", "gpu", "tpu"), row
        assert row.year in (2016, 2017, 2018, 2019), row
        assert row.vcpus is None or row.vcpus in (8, 16, 32, 64), row
        assert row.price_usd_per_hour is None or 0 < row.price_usd_per_hour < 2, row
        for text in (row.device, row.framework, row.source, row.note):
            assert text, row
            assert text.isprintable(), row
            assert text == text.strip(), row


def test_no_number_is_there_twice():
    named = Counter(
        (row.workload, row.device, row.framework, row.metric, row.batch_size) for row in EVERY
    )
    assert set(named.values()) == {1}


def test_forward_and_backward_take_longer_than_forward():
    forward = {
        (row.workload, row.device, row.framework, row.batch_size): row.value
        for row in EVERY
        if row.metric == "forward_ms"
    }
    both = {
        (row.workload, row.device, row.framework, row.batch_size): row.value
        for row in EVERY
        if row.metric == "forward_backward_ms"
    }
    assert set(forward) <= set(both)
    assert all(both[key] > value for key, value in forward.items())


def test_cifar10_is_as_published():
    assert {row.device: row.value for row in published("cifar10-cnn")} == {
        "Colab TPU runtime": 382,
        "Intel Core i5-8250U": 320,
        "Intel Core i7-9700K": 36,
        "NVIDIA GeForce MX150": 36,
        "Colab GPU (model not stated)": 16,
        "NVIDIA GeForce GTX 1060": 9,
        "NVIDIA GeForce GTX 1080 Ti": 4,
    }
    assert {(row.batch_size, row.year) for row in published("cifar10-cnn")} == {(100, 2019)}


def test_the_gpu_loses_on_the_small_network_and_wins_on_the_wide_one():
    assert only("mnist-mlp-small", device_kind="gpu").value == 122.774
    assert only("mnist-mlp-small", device_kind="cpu").value == 52.423
    assert only("mnist-mlp-wide", device_kind="gpu").value == 224.408
    assert only("mnist-mlp-wide", device_kind="cpu").value == 390.031


def test_the_tpu_that_did_no_work_keeps_its_note():
    tpu = only("cifar10-cnn", device_kind="tpu")
    assert "sets no TPU strategy" in tpu.note
    assert tpu.caveats == (tpu.note,)
    assert [row for row in EVERY if row.device_kind == "tpu"] == [tpu]


def test_fused_lstm_kernels_are_distinguished():
    fused = [row for row in EVERY if row.caveats == ("fused LSTM kernel",)]
    assert {(row.workload, row.value) for row in fused} == {
        ("imdb-bilstm", 43.356),
        ("imdb-bilstm", 27.741),
        ("nietzsche-lstm", 25.27),
        ("nietzsche-lstm", 19.332),
    }
    plain = only("imdb-bilstm", framework="TensorFlow 1.2.1")
    assert plain.value == 307.354
    assert plain.caveats == ()


def strided_in_3x3(*blocks):
    """Return our residual network, but for each stage's stride in its first 3×3 convolution."""

    def moved(layer):
        if not isinstance(layer, Branches) or layer.branches[0][0].strides == 1:
            return layer
        (first, norm, second, *rest), shortcut = layer.branches
        strides = first.strides
        moved = (replace(first, strides=1), norm, replace(second, strides=strides), *rest)
        return replace(layer, branches=(moved, shortcut))

    return tuple(moved(layer) for layer in resnet(*blocks))


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("resnet50", (3, 4, 6, 3)), ("resnet101", (3, 4, 23, 3)), ("resnet152", (3, 8, 36, 3))],
)
def test_the_resnets_with_another_stride_say_how_many_more_operations_that_is(name, blocks):
    ours, theirs = CATALOG[name], count((224, 224, 3), strided_in_3x3(*blocks))
    assert theirs.parameters == ours.parameters
    for more in (
        theirs.forward_flops / ours.forward_flops,
        theirs.train_flops / ours.train_flops,
    ):
        assert round(100 * (more - 1)) == MORE_OPERATIONS_PCT[name]
    badge = f"{MORE_OPERATIONS_PCT[name]} % more operations (stride in the 3×3)"
    for row in published(name):
        theirs = "jcjohnson" in row.source
        forward = theirs and row.metric == "forward_ms"
        reported = ("forward in training mode",) if forward else ()
        assert row.remarks == ((badge, *reported) if theirs else ())


def test_a_resnet_with_another_stride_wears_its_badge_and_still_compares():
    ours = Conditions("resnet50", 16, None, None, mode="inference")
    rows = compare("step_ms", ours, ours)
    assert len(rows) == 13
    assert all(row.comparable for row in rows)
    assert {row.badges for row in rows} == {
        ("6 % more operations (stride in the 3×3)", "forward in training mode")
    }


def test_nothing_else_has_a_remark():
    assert {row.workload for row in EVERY if row.remarks} == set(MORE_OPERATIONS_PCT)


def test_nothing_else_has_a_caveat():
    assert sum(bool(row.caveats) for row in EVERY) == 5


def test_the_vgg_that_only_fits_the_eleven_layer_model_is_filed_there():
    gtx_1080 = only("vgg-a", device="NVIDIA GeForce GTX 1080", batch_size=64)
    assert gtx_1080.value == 420.28
    assert "11-layer" in gtx_1080.note
    assert not [row for row in published("vgg16") if row.value == 420.28]


def test_doubling_the_batch_took_more_than_twice_as_long():
    small = only("vgg-a", device="NVIDIA GeForce GTX 1080", batch_size=64)
    large = only("vgg-a", device="NVIDIA GeForce GTX 1080", batch_size=128)
    assert large.value > 2 * small.value


def test_half_precision_is_read_from_the_framework():
    half = [row for row in EVERY if row.precision == "float16"]
    assert {row.framework for row in half} == {"CuDNN[R4]-fp16 (Torch)", "Nervana-neon-fp16"}
    assert {row.workload for row in half} == {"alexnet", "overfeat", "vgg-a"}
    assert {row.precision for row in EVERY} == {"float16", "float32"}


def test_the_mode_of_a_published_time_is_what_was_timed():
    modes = {row.metric: row.mode for row in EVERY}
    assert modes.pop("forward_ms") == "inference"
    assert modes.pop("forward_backward_ms") == "gradients"
    assert set(modes.values()) == {"train"}
    assert sum(row.mode == "gradients" for row in EVERY) == 103


@pytest.mark.parametrize(("batch_size", "ms"), [(64, 420.28), (128, 899.86)])
def test_gradients_of_vgg_compare_with_the_four_gpus_article(batch_size, ms):
    ours = Conditions("vgg-a", batch_size, 6400, 1, mode="gradients")
    alike = [row for row in compare("step_ms", ours, ours) if row.comparable]
    assert ms in [row.value for row in alike if row.label == "NVIDIA GeForce GTX 1080"]
    assert not any(row.badges for row in alike)


def test_sixty_four_cpus_are_no_faster_than_thirty_two():
    times = {
        row.vcpus: row.value
        for row in published("mnist-cnn")
        if row.framework.endswith("compiled for the CPU")
    }
    assert set(times) == {8, 16, 32, 64}
    assert times[64] > times[32]


@pytest.mark.parametrize("row", EVERY, ids=lambda row: f"{row.workload} {row.metric} {row.value}")
def test_every_row_is_reached_from_its_workload_and_compares_where_nothing_differs(row):
    """Run the row's workload as it was run, and look for the row in the comparison."""
    workload = CATALOG[row.workload]
    defaults = Conditions(
        workload=workload.name,
        batch_size=workload.batch_size,
        samples=workload.samples,
        epochs=workload.epochs,
    )
    ours = replace(
        defaults,
        batch_size=row.batch_size,
        precision=row.precision,
        mode=row.mode,
        data="real",
    )
    assert refuse_options(workload, batch_size=row.batch_size) is None
    (found,) = (
        each
        for each in compare(workload.metric, ours, defaults)
        if (each.published, each.label, each.framework, each.value)
        == (row, row.device, row.framework, row.value)
        and (each.vcpus, each.usd_per_hour) == (row.vcpus, row.price_usd_per_hour)
    )
    assert found.badges == (*row.caveats, *row.remarks)
    assert found.comparable == (not row.caveats)


def test_no_workload_lacks_published_numbers():
    assert set(CATALOG) == set(WORKLOADS)


def table():
    return list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))


def test_every_device_of_a_published_number_is_in_the_table_once():
    names = [row["name"] for row in table()]
    assert len(set(names)) == len(names)
    assert {row.device for row in ROWS} <= set(names)
    assert set(names) - {row.device for row in ROWS} == {"NVIDIA Tesla K40"}


def test_every_device_names_its_source_and_what_is_not_known_is_empty_never_zero():
    for row in table():
        assert row["source"], row
        for name, text in row.items():
            if name not in ("name", "memory", "source", "note") and text:
                assert 0 < float(text) < math.inf, row
        assert all(text.isprintable() and text == text.strip() for text in row.values())


def test_what_the_four_gpu_article_prints_of_its_gpus_is_kept():
    gpus = {
        name: (device.cores, device.base_mhz, device.bandwidth_gb_s, device.printed_tflop_s)
        for name in (
            "NVIDIA Tesla K40",
            "NVIDIA GeForce GTX Titan X (Maxwell)",
            "NVIDIA GeForce GTX 1080",
            "NVIDIA Titan X (Pascal)",
        )
        if (device := find_device(name))
    }
    assert gpus == {
        "NVIDIA Tesla K40": (2880, 745, 288, 3.5),
        "NVIDIA GeForce GTX Titan X (Maxwell)": (3072, 1000, 336.5, 5.1),
        "NVIDIA GeForce GTX 1080": (2560, 1607, 320, 6.1),
        "NVIDIA Titan X (Pascal)": (3584, 1417, 480, 11),
    }
    prices = {name: find_device(name).price_usd for name in gpus}
    assert list(prices.values()) == [None, 750, 599, None]
    assert find_device("NVIDIA GeForce GTX 1080 Ti").price_usd == 699


@pytest.mark.parametrize("row", [row for row in table() if row["tflop_s"]], ids=lambda r: r["name"])
def test_a_peak_is_that_of_all_cores_at_the_highest_clock(row):
    if not row["boost_mhz"]:
        return
    of_a_clock = 2 if row["name"].startswith("NVIDIA") else 32
    peak = int(row["cores"]) * of_a_clock * int(row["boost_mhz"]) / 1e6
    assert float(row["tflop_s"]) == pytest.approx(peak, rel=0.005)


def test_a_part_of_a_machine_and_a_device_without_a_name_have_no_peak():
    for device in {row.device for row in ROWS}:
        if "vCPU" in device or "Colab" in device:
            found = find_device(device)
            assert (found.cores, found.tflop_s, found.base_mhz) == (None, None, None)
            assert found.note


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.workload} {row.metric} {row.value}")
def test_the_share_of_the_peak_lies_within_0_and_1_or_its_reason_is_given(row):
    share, why = peak_share(row)
    assert (share is None) == bool(why)
    assert share is None or 0 < share <= 1


def test_only_fast_convolutions_come_to_more_than_the_peak():
    over = [row for row in ROWS if peak_share(row)[1] == FEWER_OPERATIONS]
    assert len(over) == 17
    # Those whose convolutions are mostly 3×3 and 5×5, by libraries that have Winograd's.
    assert {row.workload for row in over} == {"alexnet", "overfeat", "vgg-a", "vgg16"}
    fast = ("Nervana-neon", "CuDNN[R4]", "TensorFlow", "cuDNN 5.1")
    assert all(any(library in row.framework for library in fast) for row in over)


def test_a_share_is_of_the_operations_of_what_was_timed():
    (row,) = [r for r in published("vgg-a") if r.value == 420.28]
    flop = CATALOG["vgg-a"].train_flops * 64
    assert operations(row, CATALOG["vgg-a"]) == flop
    assert peak_share(row)[0] == pytest.approx(flop / 0.42028 / 8.87e12)
    (epoch,) = [r for r in published("cifar10-cnn") if r.value == 4]
    cifar = CATALOG["cifar10-cnn"]
    flop = 50_000 * cifar.train_flops + 1_000 * cifar.forward_flops
    assert peak_share(epoch)[0] == pytest.approx(flop / 4 / 11.34e12)
    whole = published("mnist-mlp-wide")[0]
    mlp = CATALOG["mnist-mlp-wide"]
    flop = 600_000 * mlp.train_flops + 10_000 * mlp.forward_flops
    assert operations(whole, mlp) == flop


def test_a_resnet_with_another_stride_counts_its_own_operations():
    resnet = CATALOG["resnet50"]
    forward = next(r for r in published("resnet50") if r.metric == "forward_ms")
    assert operations(forward, resnet) == pytest.approx(1.06 * 16 * resnet.forward_flops)
    step = next(r for r in published("resnet50") if r.metric == "train_step_ms")
    assert operations(step, resnet) == 64 * resnet.train_flops


def test_half_precision_has_no_known_peak():
    half = next(row for row in ROWS if row.precision == "float16")
    assert peak_share(half) == (None, "the peak of this device in float16 is not known")
