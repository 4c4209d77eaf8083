import math
from collections import Counter
from dataclasses import replace

import pytest

from dlmon.comparison.compare import compare
from dlmon.comparison.conditions import Conditions
from dlmon.comparison.published import MORE_OPERATIONS_PCT, Published, published
from workloads.architectures import resnet
from workloads.catalog import WORKLOADS as CATALOG
from workloads.catalog import refuse_options
from workloads.layers import Branches, count

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
