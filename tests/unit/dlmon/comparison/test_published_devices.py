"""What is known of the published devices, and how much of their peak each published number is."""

import csv
import math
from importlib import resources

import pytest

from dlmon.comparison.published import published
from dlmon.comparison.published_devices import FEWER_OPERATIONS, find_device
from dlmon.figures.comparison_row import operations, peak_share
from workloads.catalog import WORKLOADS

ROWS = tuple(row for name in WORKLOADS for row in published(name))
TABLE = resources.files("dlmon.comparison").joinpath("devices.csv")


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
    flop = WORKLOADS["vgg-a"].train_flops * 64
    assert operations(row, WORKLOADS["vgg-a"]) == flop
    assert peak_share(row)[0] == pytest.approx(flop / 0.42028 / 8.87e12)
    (epoch,) = [r for r in published("cifar10-cnn") if r.value == 4]
    cifar = WORKLOADS["cifar10-cnn"]
    flop = 50_000 * cifar.train_flops + 1_000 * cifar.forward_flops
    assert peak_share(epoch)[0] == pytest.approx(flop / 4 / 11.34e12)
    whole = published("mnist-mlp-wide")[0]
    mlp = WORKLOADS["mnist-mlp-wide"]
    flop = 600_000 * mlp.train_flops + 10_000 * mlp.forward_flops
    assert operations(whole, mlp) == flop


def test_a_resnet_with_another_stride_counts_its_own_operations():
    resnet = WORKLOADS["resnet50"]
    forward = next(r for r in published("resnet50") if r.metric == "forward_ms")
    assert operations(forward, resnet) == pytest.approx(1.06 * 16 * resnet.forward_flops)
    step = next(r for r in published("resnet50") if r.metric == "train_step_ms")
    assert operations(step, resnet) == 64 * resnet.train_flops


def test_half_precision_has_no_known_peak():
    half = next(row for row in ROWS if row.precision == "float16")
    assert peak_share(half) == (None, "the peak of this device in float16 is not known")
