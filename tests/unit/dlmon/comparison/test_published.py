import csv
import math
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
from dlmon.figures.comparison.earlier_runs import default_conditions
from dlmon.figures.comparison.run_rows import operations, peak_share
from workloads.catalog import WORKLOADS as CATALOG
from workloads.catalog import refuse_option

ROWS = tuple(row for name in CATALOG for row in published(name))
TABLE = resources.files("dlmon.comparison").joinpath("devices.csv")


def test_all_436_rows_are_whole():
    assert len(ROWS) == 436
    assert {row.workload for row in ROWS} == set(CATALOG)
    assert published("my-script.py") == published("") == ()
    for row in ROWS:
        assert isinstance(row, Published)
        assert 0 < row.value < math.inf, row
        assert 0 < row.batch_size <= 2048, row
        assert row.device_kind in ("cpu", "gpu", "tpu"), row
        assert 2016 <= row.year <= 2026, row
        assert row.vcpus is None or row.vcpus in (8, 16, 32, 64), row
        assert row.price_usd_per_hour is None or 0 < row.price_usd_per_hour < 2, row
        for text in (row.device, row.framework, row.source, row.note):
            assert text, row
            assert text.isprintable(), row
            assert text == text.strip(), row
    remarked = {row.workload for row in ROWS if row.remarks}
    assert remarked == {*MORE_OPERATIONS_PCT, "vgg-a", "vgg16", "vit-b16"}
    # Fused kernels, a TPU that wasn't used, BERT of another length, nanoGPT's README.
    assert sum(bool(row.caveats) for row in ROWS) == 5 + 12 + 2
    # No number is there twice.
    told = {(r.workload, r.device, r.framework, r.metric, r.batch_size, r.note) for r in ROWS}
    assert len(told) == 436


def test_rows_of_timm_say_their_precision_and_how_they_were_computed():
    rows = [row for row in published("resnet101") if "pytorch-image-models" in row.source]
    stride = "3 % more operations (stride in the 3×3)"
    assert {row.remarks for row in rows} == {
        (stride, "channels first"),
        (stride, "channels last"),
        (stride, "channels first", "torch.compile"),
    }
    assert {row.precision for row in rows} == {
        *("float32", "mixed_float16", "bfloat16", "mixed_bfloat16"),
    }
    assert {row.year for row in rows} == {2022, 2023, 2024, 2026}
    training = [row for row in rows if row.mode == "train"]
    assert [(row.batch_size, row.value) for row in training] == [(256, 448.321), (256, 340.74)]


def test_rows_of_other_work_or_precision_stand_beside_a_language_model_and_say_so():
    for name in ("gpt2-124m", "bert-base"):
        workload = CATALOG[name]
        defaults = default_conditions(workload)
        rows = compare("step_ms", replace(defaults, data="synthetic"), defaults)
        assert rows
        assert all(row.badges and not row.comparable for row in rows)
    told = {badge for row in rows for badge in row.badges}
    assert {"sequence of 512, not 128", "precision not known"} <= told
    (llm_c,) = [row for row in published("gpt2-124m") if row.value == 78]
    assert llm_c.precision == "tf32"
    share, _ = peak_share(llm_c)
    assert share == pytest.approx(4 * 874_944_921_600 / 0.078 / 156e12)
    (bert,) = [row for row in published("bert-base") if row.value == 214.49]
    assert peak_share(bert)[0] is None


@pytest.mark.parametrize("name", ["resnet50", "resnet101", "resnet152"])
def test_the_resnets_with_another_stride_say_how_many_more_operations_that_is(name):
    # The 1×1 before the 3×3 of three stages' first blocks sees four times as many pixels.
    stages = ((28, 256, 128), (14, 512, 256), (7, 1024, 512))
    more = sum(2 * 3 * side**2 * inputs * filters for side, inputs, filters in stages)
    for ours, passes in ((CATALOG[name].forward_flops, 1), (CATALOG[name].train_flops, 3)):
        assert round(100 * passes * more / ours) == MORE_OPERATIONS_PCT[name]
    badge = f"{MORE_OPERATIONS_PCT[name]} % more operations (stride in the 3×3)"
    for row in published(name):
        if "pytorch-image-models" in row.source:
            continue
        theirs = "jcjohnson" in row.source
        forward = theirs and row.metric == "forward_ms"
        reported = ("forward in training mode",) if forward else ()
        assert row.remarks == ((badge, *reported) if theirs else ())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.workload} {row.metric} {row.value}")
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
    assert refuse_option(workload, "batch_size", row.batch_size) is None
    (found,) = (
        each
        for each in compare(workload.metric, ours, defaults)
        if (each.published, each.label, each.value) == (row, row.device, row.value)
        and each.usd_per_hour == row.price_usd_per_hour
    )
    not_stated = ("precision not known",) if row.precision is None else ()
    # That the precision isn't stated is said once.
    assert found.framework == row.framework.replace(", precision not stated", "")
    assert found.badges == (*not_stated, *row.caveats, *row.remarks)
    assert found.comparable == (not row.caveats and not not_stated)


def table():
    return list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))


def test_every_device_of_a_published_number_is_in_the_table_once():
    names = [row["name"] for row in table()]
    assert len(set(names)) == len(names)
    assert {row.device for row in ROWS} <= set(names)
    assert find_device("NVIDIA Tesla K40") is not None


def test_every_device_names_its_source_and_what_is_not_known_is_empty_never_zero():
    for row in table():
        assert row["source"], row
        for name, text in row.items():
            if name not in ("name", "memory", "source", "note") and text:
                assert 0 < float(text) < math.inf, row
        assert all(text.isprintable() and text == text.strip() for text in row.values())


def test_a_peak_is_that_of_all_cores_at_the_highest_clock():
    known = [row for row in table() if row["tflop_s_float32"] and row["boost_mhz"]]
    assert len(known) > 30
    for row in known:
        of_a_clock = {"Intel": 32, "AMD": 4}.get(row["name"].partition(" ")[0], 2)
        peak = int(row["cores"]) * of_a_clock * int(row["boost_mhz"]) / 1e6
        assert float(row["tflop_s_float32"]) == pytest.approx(peak, rel=0.005), row


def test_half_precision_doubles_tf32_and_nothing_measured_exceeds_it():
    devices = [find_device(row["name"]) for row in table()]
    assert sum(device.tflop_s_bfloat16 is not None for device in devices) > 25
    for device in devices:
        half = device.tflop_s_float16
        assert device.tflop_s_bfloat16 in (None, half), device
        if device.tflop_s_bfloat16 and device.name != "AMD Instinct MI300X":
            assert half / device.tflop_s_tf32 == pytest.approx(2, rel=0.02), device
        if device.measured_tflop_s_bfloat16:
            assert 0.5 * half < device.measured_tflop_s_bfloat16 < half, device


def test_a_device_is_found_by_what_its_driver_calls_it_and_its_peak_by_the_precision():
    h100 = find_device("NVIDIA H100 80GB HBM3")
    assert h100.peak_tflop_s("mixed_bfloat16") == h100.peak_tflop_s("float16") == 989.4
    assert (h100.peak_tflop_s("float32"), h100.peak_tflop_s("tf32")) == (66.9, 494.7)
    assert find_device("Tesla T4").peak_tflop_s("bfloat16") is None
    assert h100.peak_tflop_s("float64") is None
    # Drivers before 2021 leave the maker out.
    assert find_device("GeForce RTX 2080 Ti") is find_device("NVIDIA GeForce RTX 2080 Ti")
    assert find_device("NVIDIA GeForce RTX 3090 Laptop GPU") is None
    assert find_device("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None


def test_the_share_of_the_peak_lies_within_0_and_1_or_its_reason_is_given():
    for row in ROWS:
        share, why = peak_share(row)
        assert (share is None) == bool(why), row
        assert share is None or 0 < share <= 1, row
    half = next(row for row in ROWS if row.precision == "float16")
    assert peak_share(half) == (None, "the peak of this device in float16 is not known")


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
    # A ResNet with another stride counts its own operations.
    resnet = CATALOG["resnet50"]
    forward, step = (
        next(r for r in published("resnet50") if r.metric == metric)
        for metric in ("forward_ms", "train_step_ms")
    )
    assert operations(forward, resnet) == pytest.approx(1.06 * 16 * resnet.forward_flops)
    assert operations(step, resnet) == 64 * resnet.train_flops
