import csv
import importlib.resources
import importlib.util
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.catalog import (
    WORKLOADS,
    UnknownWorkload,
    find,
    refuse_option,
)

SMALL = WORKLOADS["mnist-mlp-small"]


def test_opens_without_keras_and_numpy():
    heavy = "{'keras', 'tensorflow', 'numpy', 'textual'}"
    code = f"import sys, workloads.catalog; print(*sorted({heavy} & sys.modules.keys()))"
    reported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert reported.stdout.split() == []


def published_rows(name):
    with (importlib.resources.files("dlmon.comparison") / "published.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["workload"] == name]


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_metric_is_that_of_its_published_numbers(workload):
    metrics = {row["metric"] for row in published_rows(workload.name)}
    if workload.metric == "step_ms":
        assert metrics <= {"forward_ms", "forward_backward_ms", "train_step_ms"}
        assert "forward_backward_ms" in metrics
    else:
        assert metrics == {workload.metric}


@pytest.mark.parametrize(
    "workload",
    [workload for workload in WORKLOADS.values() if workload.steps is None],
    ids=lambda workload: workload.name,
)
def test_batch_size_is_that_of_its_published_numbers(workload):
    sizes = {int(row["batch_size"]) for row in published_rows(workload.name)}
    assert sizes == {workload.batch_size}


@pytest.mark.parametrize("name", ["cifar10-cnn", "mnist-mlp-small", "mnist-mlp-wide"])
def test_source_is_that_of_its_published_numbers(name):
    assert {row["source"] for row in published_rows(name)} == {WORKLOADS[name].source}


@pytest.mark.parametrize("name", WORKLOADS)
def test_finds_a_workload_by_its_name(name):
    assert find(name) is WORKLOADS[name]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cifar10-cn", "cifar10-cnn"),
        ("cifar-10-cnn", "cifar10-cnn"),
        ("CIFAR10-CNN", "cifar10-cnn"),
        ("mnist_mlp_wide", "mnist-mlp-wide"),
        ("mnist-mlp-smal", "mnist-mlp-small"),
        ("resnet-50", "resnet50"),
        ("vgg-16", "vgg16"),
        ("VGGA", "vgg-a"),
        ("inception-googlenet", "googlenet"),
    ],
)
def test_a_misspelt_name_suggests_the_nearest(name, nearest):
    with pytest.raises(UnknownWorkload) as reported:
        find(name)
    assert str(reported.value) == f'there is no workload "{name}"; did you mean {nearest}?'


def test_all_that_begin_with_what_was_typed_are_named():
    with pytest.raises(UnknownWorkload) as reported:
        find("mnist")
    assert str(reported.value) == (
        'there is no workload "mnist"; did you mean mnist-mlp-small, mnist-mlp-wide, mnist-mlp '
        "or mnist-cnn?"
    )


@given(name=st.sampled_from([*WORKLOADS]), position=st.integers(0, 100))
def test_any_one_missing_letter_is_forgiven(name, position):
    position %= len(name)
    with pytest.raises(UnknownWorkload, match=f"did you mean {name}"):
        find(name[:position] + name[position + 1 :])


@pytest.mark.parametrize("name", ["", "banana", "transformer"])
def test_a_name_like_no_other_lists_all(name):
    with pytest.raises(UnknownWorkload) as reported:
        find(name)
    assert str(reported.value) == (
        f'there is no workload "{name}"; choose from {", ".join(WORKLOADS)}'
    )


@pytest.mark.parametrize(
    ("name", "number", "limits"),
    [
        (
            "batch_size",
            60_001,
            "batch size must be from 1 to 60,000, the samples of mnist-mlp-small",
        ),
        ("epochs", -3, "number of epochs must be from 1 to 1,000,000,000"),
        ("steps", 10**10, "number of steps must be from 1 to 1,000,000,000"),
        ("threads", 0, "number of threads must be from 1 to 4,096"),
    ],
)
def test_numbers_that_can_not_be_run_are_refused_in_a_sentence(name, number, limits):
    assert refuse_option(SMALL, name, number) == f"the {limits}, not {number:,}"
    for fine in (None, 1, 4_096):
        assert refuse_option(SMALL, name, fine) is None
