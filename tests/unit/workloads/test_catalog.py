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
def test_a_workload_is_that_of_its_published_numbers(workload):
    rows = published_rows(workload.name)
    metrics, sizes, sources = (
        {row[name] for row in rows} for name in ("metric", "batch_size", "source")
    )
    if workload.metric == "step_ms":
        assert metrics <= {"forward_ms", "forward_backward_ms", "train_step_ms"}
    else:
        assert metrics == {workload.metric}
    if workload.steps is None:
        assert sizes == {str(workload.batch_size)}
    if workload.name in ("cifar10-cnn", "mnist-mlp-small", "mnist-mlp-wide"):
        assert sources == {workload.source}
    assert find(workload.name) is workload


ALL = f"; choose from {', '.join(WORKLOADS)}"
ALL_OF_MNIST = "mnist-mlp-small, mnist-mlp-wide, mnist-mlp or mnist-cnn"


@pytest.mark.parametrize(
    ("name", "then"),
    [
        ("cifar-10-cnn", "; did you mean cifar10-cnn?"),
        ("CIFAR10-CNN", "; did you mean cifar10-cnn?"),
        ("mnist_mlp_wide", "; did you mean mnist-mlp-wide?"),
        ("resnet-50", "; did you mean resnet50?"),
        ("VGGA", "; did you mean vgg-a?"),
        ("inception-googlenet", "; did you mean googlenet?"),
        # All that begin with what was typed.
        ("mnist", f"; did you mean {ALL_OF_MNIST}?"),
        *((name, ALL) for name in ("", "banana", "transformer")),
    ],
)
def test_a_name_that_is_none_suggests_the_nearest(name, then):
    with pytest.raises(UnknownWorkload) as reported:
        find(name)
    assert str(reported.value) == f'there is no workload "{name}"{then}'


@given(name=st.sampled_from([*WORKLOADS]), position=st.integers(0, 100))
def test_any_one_missing_letter_is_forgiven(name, position):
    position %= len(name)
    with pytest.raises(UnknownWorkload, match=f"did you mean {name}"):
        find(name[:position] + name[position + 1 :])


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
