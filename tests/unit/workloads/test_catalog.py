import csv
import importlib.resources
import importlib.util
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.catalog import (
    MAX_EPOCHS,
    MAX_STEPS,
    MAX_THREADS,
    WORKLOADS,
    UnknownWorkload,
    find,
    refuse_options,
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
    ("options", "sentence"),
    [
        (
            {"batch_size": 0},
            "the batch size must be from 1 to 60,000, the samples of mnist-mlp-small, not 0",
        ),
        (
            {"batch_size": 60_001},
            "the batch size must be from 1 to 60,000, the samples of mnist-mlp-small, not 60,001",
        ),
        ({"epochs": 0}, "the number of epochs must be at least 1, not 0"),
        ({"epochs": -3}, "the number of epochs must be at least 1, not -3"),
        ({"steps": 0}, "the number of steps must be at least 1, not 0"),
        (
            {"epochs": 10**20},
            "the number of epochs must be at most 1,000,000,000, not 100,000,000,000,000,000,000",
        ),
        (
            {"steps": 10**10},
            "the number of steps must be at most 1,000,000,000, not 10,000,000,000",
        ),
        ({"threads": 0}, "the number of threads must be from 1 to 4,096, not 0"),
        ({"threads": 10**6}, "the number of threads must be from 1 to 4,096, not 1,000,000"),
        ({"epochs": 5, "steps": -1}, "the number of steps must be at least 1, not -1"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, sentence):
    assert refuse_options(SMALL, **options) == sentence


@given(
    batch_size=st.none() | st.integers(1, SMALL.samples),
    epochs=st.none() | st.integers(1, MAX_EPOCHS),
    steps=st.none() | st.integers(1, MAX_STEPS),
    threads=st.none() | st.integers(1, MAX_THREADS),
)
def test_options_that_can_be_run_are_not_refused(batch_size, epochs, steps, threads):
    refused = refuse_options(
        SMALL, batch_size=batch_size, epochs=epochs, steps=steps, threads=threads
    )
    assert refused is None
