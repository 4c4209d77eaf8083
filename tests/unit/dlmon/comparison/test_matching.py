"""Which options would let a run be compared with published numbers."""

from dataclasses import replace

import pytest
from fakes.compared import compared as compare

from dlmon.comparison.published import STEP_MS
from dlmon.comparison.references import find_match
from dlmon.figures.comparison.earlier_runs import (
    comparable_text,
    default_conditions,
    match_of_options,
    published_in_brief,
)
from dlmon.options.run_options import OPTIONS, RunOptions
from workloads.catalog import WORKLOADS


def conditions(name, **changes):
    """Return what a run of a workload does by default, on the data of its published numbers."""
    return replace(default_conditions(WORKLOADS[name]), **{"data": "real", **changes})


def match(name, **changes):
    return find_match(conditions(name, **changes), default_conditions(WORKLOADS[name]))


def alike(ours, metric=None):
    workload = WORKLOADS[ours.workload]
    metric = metric or (STEP_MS if ours.mode != "train" else workload.metric)
    rows = compare(metric, ours, default_conditions(workload))
    return [row for row in rows if row.comparable]


@pytest.mark.parametrize(
    ("name", "changes", "found"),
    [
        ("cifar10-cnn", {"batch_size": 64}, {"batch_size": 100}),
        ("resnet50", {"batch_size": 8}, {"batch_size": 64}),
        # Two of 32, one of 64.
        ("vgg16", {"batch_size": 16}, {"batch_size": 32}),
        ("alexnet", {"batch_size": 8, "mode": "inference"}, {"batch_size": 128}),
        ("cifar10-cnn", {"mode": "inference"}, {"mode": "train"}),
        ("cifar10-cnn", {"precision": "mixed_float16"}, {"precision": "float32"}),
        ("mnist-mlp-small", {"epochs": 3}, {"epochs": 10}),
        ("mnist-mlp", {"epochs": 3}, {}),
        ("imdb-fasttext", {"data": "synthetic"}, {"data": "real"}),
        ("imdb-fasttext", {"data": None}, {"data": "real"}),
        ("cifar10-cnn", {"data": "synthetic"}, {}),
        (
            "mnist-mlp-wide",
            {"batch_size": 64, "epochs": 1, "precision": "mixed_float16"},
            {"batch_size": 32, "epochs": 10, "precision": "float32"},
        ),
    ],
)
def test_whatever_option_differs_is_named(name, changes, found):
    assert match(name, **changes).changes == tuple(found.items())


@pytest.mark.parametrize("name", list(WORKLOADS))
@pytest.mark.parametrize("batch_size", [8, 16, 64, 128])
@pytest.mark.parametrize("mode", OPTIONS["mode"].choices)
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_what_is_named_does_match_and_is_only_named_where_nothing_does(
    name, batch_size, mode, precision
):
    ours = conditions(name, batch_size=batch_size, mode=mode, precision=precision)
    found = find_match(ours, default_conditions(WORKLOADS[name]))
    if name in ("gpt2-124m", "bert-base"):
        # What is published of these is in TF32, or of another length.
        assert found is None
        return
    assert bool(found.changes) == (not alike(ours))
    assert len(alike(replace(ours, **dict(found.changes)))) == found.count > 0


def test_options_are_written_as_one_types_them():
    found = match_of_options(WORKLOADS["alexnet"], RunOptions(batch_size=8, mode="inference"))
    assert comparable_text(found) == "none comparable; 11 with batch 128"
    assert comparable_text(found, typed=True) == "none comparable; 11 with --batch-size 128"
    found = match_of_options(WORKLOADS["cifar10-cnn"], RunOptions())
    assert comparable_text(found) == "6 comparable"
    assert comparable_text(None) == "none comparable"


def test_before_a_launch_the_data_that_will_be_found_are_not_known():
    fasttext = WORKLOADS["imdb-fasttext"]
    assert match_of_options(fasttext, RunOptions()).changes == (("data", "real"),)
    assert match_of_options(fasttext, RunOptions(data="real")).changes == ()


@pytest.mark.parametrize(
    ("workload", "time", "device"),
    [
        ("cifar10-cnn", "4.00 s/epoch", "GTX 1080 Ti"),
        ("mnist-mlp-small", "52.4 s/run", "Intel i5-6200U"),
        ("alexnet", "81.0 ms/batch*", "GTX Titan X"),
        ("vit-b16", "488 ms/batch*", "RTX 3090"),
        ("gpt2-124m", "", ""),
    ],
)
def test_the_fastest_published_time_has_its_device_and_a_mark_with_other_options(
    workload, time, device
):
    assert published_in_brief(WORKLOADS[workload]) == (time, device)
